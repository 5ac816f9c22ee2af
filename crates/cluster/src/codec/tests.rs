//! Golden bytes, and bytes that are refused.

use plasmon_testkit::Random;

use super::*;
use crate::fixtures::{map_of, member};
use crate::limits::{ADDRESS_BYTES_MAX, NODE_NAME_BYTES_MAX, ZONE_BYTES_MAX};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A member with different bytes in every field.
fn golden_member() -> Member {
    Member {
        uuid: NodeUuid(std::array::from_fn(|at| at as u8)),
        name: "a".into(),
        incarnation: 0x0102_0304_0506_0708,
        boot: 9,
        addresses: vec!["h:1".into(), "g:2".into()],
        zone: "z1".into(),
        weight: 0x1_0203,
        log: NodeLog::Open,
        protocol: ProtocolRange { min: 3, max: 4 },
    }
}

const GOLDEN_MEMBER: &str = "000102030405060708090a0b0c0d0e0f\
     0807060504030201\
     0900000000000000\
     03020180\
     0300\
     0400\
     0161\
     027a31\
     0203683a3103673a32";

fn golden_map() -> Map {
    let mut map = map_of(vec![golden_member()], &[]);
    map.epoch = Epoch(0x1122);
    map.next_slot = Slot(3);
    let node = map.nodes.remove(&Slot(0)).unwrap();
    let node = Node { state: NodeState::Draining, drain: true, since: Epoch(0x1121), ..node };
    let out = Node { member: member(1), state: NodeState::Out, silent: true, ..node.clone() };
    map.nodes.insert(Slot(0), out);
    map.nodes.insert(Slot(2), node);
    let acting = vec![Slot(2)];
    map.groups[1] = Group { acting, in_sync: 1, prior: Some(Slot(0)), since: Epoch(0x1120) };
    map.check().unwrap();
    map
}

#[test]
fn a_member_is_golden() {
    let bytes = golden_member().encode().unwrap();
    assert_eq!(hex(&bytes), format!("504c534d454d0100{GOLDEN_MEMBER}"));
    assert_eq!(Member::decode(&bytes), Ok(golden_member()));
}

#[test]
fn the_log_of_a_member_is_in_two_bits_of_its_weight() {
    let weight_at = 6 + 2 + 16 + 8 + 8;
    for (log, top) in [(NodeLog::Absent, 0), (NodeLog::Open, 0x80), (NodeLog::Failed, 0xc0)] {
        let member = Member { log, ..golden_member() };
        let mut bytes = member.encode().unwrap();
        assert_eq!(bytes[weight_at + 3], top);
        assert_eq!(Member::decode(&bytes), Ok(member));
        bytes[weight_at + 3] = 0x40;
        assert!(matches!(Member::decode(&bytes), Err(BadBytes::Member(_))), "{log:?}");
    }
}

#[test]
fn a_map_is_golden() {
    let bytes = golden_map().encode();
    let head = "504c534d41500100 2211000000000000 0300 0200 0004 0000";
    let other = "0000 02 03 2111000000000000 01000000000000000000000000000000 \
                 0100000000000000 0700000000000000 64000000 0100 0200 \
                 026e31 057a6f6e6531 01 0d31302e302e302e313a37343131";
    let node = format!("0200 03 01 2111000000000000 {GOLDEN_MEMBER}");
    let empty = "ffff ffff ffff ffff 00 0100000000000000";
    let group = "0200 ffff ffff 0000 01 2011000000000000";
    let expected = [head, other, &node, empty, group, &empty.repeat(1022)].concat();
    assert_eq!(hex(&bytes), expected.replace(' ', ""));
    assert_eq!(Map::decode(&bytes), Ok(golden_map()));
}

#[test]
fn every_prefix_and_every_longer_string_of_bytes_is_refused() {
    let bytes = golden_map().encode();
    for length in (0..200).chain([bytes.len() - 1]) {
        let short = Map::decode(&bytes[..length]);
        assert!(matches!(short, Err(BadBytes::Short { .. })), "{length}: {short:?}");
    }
    assert_eq!(Map::decode(&[bytes, vec![0]].concat()), Err(BadBytes::Long { found: 1 }));
    let member = golden_member().encode().unwrap();
    assert_eq!(Member::decode(&[member, vec![0]].concat()), Err(BadBytes::Long { found: 1 }));
    let long = vec![0; MAP_BYTES_MAX + 1];
    assert_eq!(Map::decode(&long), Err(BadBytes::Long { found: MAP_BYTES_MAX + 1 }));
}

#[test]
fn other_kinds_and_versions_are_told_apart() {
    let map = golden_map().encode();
    assert_eq!(Member::decode(&map), Err(BadBytes::Magic));
    let mut newer = map;
    newer[6] = 2;
    assert_eq!(Map::decode(&newer), Err(BadBytes::Version { found: 2 }));
}

#[test]
fn fields_that_are_invalid_are_refused() {
    let whole = golden_map().encode();
    let group = whole.len() - 1024 * 17;
    // The offset of a byte, what is put there, and what is wrong then.
    let table = [
        (22, 1, "a reserved field"),
        (19, 9, "too many nodes"),
        (21, 5, "another number of groups"),
        (26, 4, "a state that does not exist"),
        (27, 4, "a reserved flag"),
        (103, 3, "a live node that is silent"),
        (70 + 16, 0xff, "a name that is not UTF-8"),
        (group, 0, "an acting node where no node is in sync, then an empty place"),
        (group + 2, 0, "an acting node after an empty place"),
        (group + 8, 1, "more in sync than acting"),
        (group + 17 + 6, 2, "a primary before itself"),
    ];
    for (at, byte, what) in table {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        let decoded = Map::decode(&bytes);
        assert!(decoded.is_err(), "{what}: {decoded:?}");
    }
}

/// What is decoded encodes to the same bytes, whatever was done to them.
#[test]
fn damaged_maps_are_refused_or_canonical() {
    let whole = golden_map().encode();
    let seed = 20261125;
    let mut random = Random::new(seed);
    for round in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            // Most of the bytes are groups that look the same.
            let end = if random.percent(70) { 250 } else { bytes.len() };
            let at = random.size_below(end);
            bytes[at] = random.word() as u8;
        }
        if random.percent(20) {
            bytes.truncate(random.size_below(bytes.len()));
        }
        if let Ok(map) = Map::decode(&bytes) {
            assert!(map.encode() == bytes, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn the_largest_map_is_within_the_limit() {
    let members = (0..NODES_MAX as u16).map(|number| {
        let mut member = member(number);
        member.name = format!("{:x<width$}", member.name, width = NODE_NAME_BYTES_MAX);
        member.zone = "z".repeat(ZONE_BYTES_MAX);
        member.addresses = vec!["a".repeat(ADDRESS_BYTES_MAX); ADDRESSES_MAX];
        member
    });
    let map = map_of(members.collect(), &[0, 1, 2]);
    let bytes = map.encode();
    assert!(bytes.len() < MAP_BYTES_MAX, "{} bytes", bytes.len());
    assert_eq!(Map::decode(&bytes), Ok(map));
}

#[test]
fn members_at_and_past_their_limits() {
    type Change = fn(&mut Member);
    let good: [Change; 5] = [
        |member| member.name = "n".repeat(NODE_NAME_BYTES_MAX),
        |member| member.zone = String::new(),
        |member| member.addresses = vec!["a".repeat(ADDRESS_BYTES_MAX); ADDRESSES_MAX],
        |member| member.weight = 0,
        |member| member.protocol = ProtocolRange { min: 4, max: 4 },
    ];
    let bad: [Change; 9] = [
        |member| member.name = "n".repeat(NODE_NAME_BYTES_MAX + 1),
        |member| member.name = String::new(),
        |member| member.name = "a\nb".into(),
        |member| member.zone = "z".repeat(ZONE_BYTES_MAX + 1),
        |member| member.addresses = vec!["a".repeat(ADDRESS_BYTES_MAX + 1)],
        |member| member.addresses = vec!["a".into(); ADDRESSES_MAX + 1],
        |member| member.addresses = vec![String::new()],
        |member| member.weight = crate::limits::WEIGHT_MAX + 1,
        |member| member.protocol = ProtocolRange { min: 5, max: 4 },
    ];
    for (at, change) in good.into_iter().enumerate() {
        let mut member = golden_member();
        change(&mut member);
        let bytes = member.encode().unwrap();
        assert_eq!(Member::decode(&bytes), Ok(member), "good {at}");
    }
    for (at, change) in bad.into_iter().enumerate() {
        let mut member = golden_member();
        change(&mut member);
        assert!(member.encode().is_err(), "bad {at}");
        // The same from a peer that does not check.
        let mut bytes = Vec::new();
        put_head(&mut bytes, MEMBER_MAGIC);
        put_member(&mut bytes, &member);
        assert!(Member::decode(&bytes).is_err(), "bad {at}");
    }
}
