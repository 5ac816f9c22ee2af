//! The groups of ids, and what a map refuses.

use super::*;
use crate::fixtures::{map_of, member};
use crate::limits::GROUPS;
use crate::node::{ProtocolRange, Slot};

/// The rule is for ever: a change of it would look for every object in the wrong place.
#[test]
fn the_groups_of_ids_are_golden() {
    let bytes = std::array::from_fn(|at| at as u8);
    let table: [([u8; 20], u16); 4] =
        [([0; 20], 657), ([0xff; 20], 634), (bytes, 150), (*b"plasmon-pool-object!", 168)];
    for (id, group) in table {
        assert_eq!(Map::group_of(&ObjectId::new(id)).number(), group, "{id:?}");
    }
}

#[test]
fn ids_that_differ_in_a_few_bytes_spread_over_all_groups() {
    // Where the counts of a client, its random part, and homes are in an id.
    for at in [0, 8, 12, 16] {
        let mut counts = [0_u32; GROUPS];
        for number in 0..64 * GROUPS as u32 {
            let mut id = [0; 20];
            id[at..at + 4].copy_from_slice(&number.to_le_bytes());
            counts[GroupNo::of(&ObjectId::new(id)).index()] += 1;
        }
        let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*fewest > 30 && *most < 110, "at {at}: {fewest} to {most} instead of 64");
    }
}

#[test]
fn a_number_past_the_last_group_is_refused_in_a_message() {
    let last = postcard::to_allocvec(&1023_u16).unwrap();
    assert_eq!(postcard::from_bytes::<GroupNo>(&last).unwrap().number(), 1023);
    let past = postcard::to_allocvec(&1024_u16).unwrap();
    assert!(postcard::from_bytes::<GroupNo>(&past).is_err());
    assert_eq!(GroupNo::new(1024), None);
    assert_eq!(GroupNo::all().count(), GROUPS);
}

#[test]
fn the_features_are_those_that_every_node_has() {
    let mut map = map_of(vec![member(0), member(1)], &[0]);
    assert_eq!((map.protocol(), Map::default().protocol()), (Some(2), None));
    map.nodes.get_mut(&Slot(1)).unwrap().member.protocol = ProtocolRange { min: 1, max: 5 };
    assert_eq!(map.protocol(), Some(2));
    map.nodes.get_mut(&Slot(0)).unwrap().state = NodeState::Down;
    assert_eq!(map.protocol(), Some(2), "it may come back");
    map.nodes.get_mut(&Slot(0)).unwrap().state = NodeState::Out;
    assert_eq!(map.protocol(), Some(5));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    type Change = fn(&mut Map);
    let table: [(&str, Change); 13] = [
        ("groups", |map| _ = map.groups.pop()),
        ("next slot", |map| map.next_slot = Slot(1)),
        ("name", |map| map.nodes.get_mut(&Slot(1)).unwrap().member.name = "n0".into()),
        ("uuid", |map| map.nodes.get_mut(&Slot(1)).unwrap().member.uuid = member(0).uuid),
        ("member", |map| map.nodes.get_mut(&Slot(1)).unwrap().member.addresses.clear()),
        ("node since", |map| map.nodes.get_mut(&Slot(1)).unwrap().since = Epoch(2)),
        ("group since", |map| map.groups[3].since = Epoch(2)),
        ("four acting", |map| map.groups[3].acting = [0, 1, 2, 3].map(Slot).to_vec()),
        ("unknown acting", |map| map.groups[3].acting = vec![Slot(9)]),
        ("acting twice", |map| map.groups[3].acting = vec![Slot(1), Slot(1)]),
        ("in sync", |map| map.groups[3].in_sync = 4),
        ("prior is primary", |map| map.groups[3].prior = Some(Slot(0))),
        ("unknown prior", |map| map.groups[3].prior = Some(Slot(9))),
    ];
    let whole = map_of((0..4).map(member).collect(), &[0, 1, 2]);
    assert_eq!(whole.check(), Ok(()));
    for (what, change) in table {
        let mut map = whole.clone();
        change(&mut map);
        assert!(map.check().is_err(), "{what}");
    }
}

#[test]
fn a_name_is_free_again_when_its_node_is_out() {
    let mut map = map_of(vec![member(0), member(1)], &[0]);
    map.nodes.get_mut(&Slot(1)).unwrap().member.name = "n0".into();
    assert_eq!(map.check(), Err(BadMap::Name { name: "n0".into() }));
    map.nodes.get_mut(&Slot(1)).unwrap().state = NodeState::Out;
    assert_eq!(map.check(), Ok(()));
}

#[test]
fn there_is_a_limit_of_nodes() {
    let members = |count| (0..count).map(member).collect::<Vec<_>>();
    let mut map = map_of(members(NODES_MAX as u16), &[0]);
    assert_eq!(map.check(), Ok(()));
    let node = map.nodes[&Slot(0)].clone();
    map.nodes.insert(Slot(NODES_MAX as u16), node);
    assert_eq!(map.check(), Err(BadMap::Nodes { found: NODES_MAX + 1 }));
}

#[test]
fn a_group_says_which_nodes_have_its_records() {
    let slots = [1, 2, 3].map(Slot);
    let table = [(3, None, true), (2, None, false), (0, None, false), (3, Some(Slot(9)), false)];
    for (in_sync, prior, is_settled) in table {
        let group = Group { acting: slots.to_vec(), in_sync, prior, since: Epoch(1) };
        let count = usize::from(in_sync);
        assert_eq!((group.in_sync(), group.joining()), (&slots[..count], &slots[count..]));
        assert_eq!(group.is_settled(), is_settled, "{group:?}");
    }
}
