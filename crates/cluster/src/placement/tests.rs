//! Which nodes get the copies, as a table and at random.

use super::*;
use crate::fixtures::{map_of, member, member_in};
use crate::node::NodeState;

const MIB: u64 = 1 << 20;

fn group() -> GroupNo {
    GroupNo::new(0).unwrap()
}

fn request(copies: usize) -> Request<'static> {
    let writer = Some(Slot(5));
    Request { group: group(), copies, bytes: MIB, writer, held: &[], refused: &[] }
}

fn room(count: u16) -> BTreeMap<Slot, u64> {
    (0..count).map(|slot| (Slot(slot), 100 * MIB)).collect()
}

/// Six nodes, each a zone; all groups are on 1, 2 and 3.
fn pool() -> Map {
    map_of((0..6).map(member).collect(), &[1, 2, 3])
}

#[test]
fn writer_primary_acting_nodes_then_others() {
    let (map, free) = (pool(), room(6));
    let others: [&[u16]; 2] = [&[0, 4], &[4, 0]];
    for copies in 0..=HOLDERS_MAX {
        let placement = place(&map, &free, &request(copies), 11);
        let slots: Vec<u16> = placement.holders.iter().map(|slot| slot.0).collect();
        let fits = |other: &&[u16]| slots == [&[5, 1, 2, 3], *other].concat()[..copies.min(6)];
        assert!(others.iter().any(fits), "{copies} copies: {slots:?}");
        assert_eq!(placement.full, []);
    }
}

#[test]
fn spread_repairs_and_refusals() {
    let (map, free) = (pool(), room(6));
    let slots = |request: &Request<'_>| place(&map, &free, request, 3).holders;
    let spread = Request { writer: None, ..request(2) };
    assert_eq!(slots(&spread), [Slot(1), Slot(2)]);
    let repair = Request { writer: None, held: &[Slot(2), Slot(4)], ..request(3) };
    assert_eq!(slots(&repair), [Slot(1)], "without those that are there");
    let refused = Request { refused: &[Slot(1), Slot(2)], ..request(2) };
    assert_eq!(slots(&refused), [Slot(5), Slot(3)]);
    let nothing = Request { held: &[Slot(1), Slot(2)], ..request(2) };
    assert_eq!(slots(&nothing), []);
}

#[test]
fn nodes_that_take_nothing_are_passed_over() {
    let states = [NodeState::Down, NodeState::Out, NodeState::Draining];
    for state in states {
        let mut map = pool();
        map.nodes.get_mut(&Slot(1)).unwrap().state = state;
        map.nodes.get_mut(&Slot(2)).unwrap().member.weight = 0;
        assert_eq!(place(&map, &room(6), &request(2), 3).holders, [Slot(5), Slot(3)], "{state:?}");
    }
    let mut map = pool();
    map.nodes.get_mut(&Slot(5)).unwrap().member.weight = 0;
    let holders = place(&map, &room(6), &request(1), 3).holders;
    assert_eq!(holders, [Slot(1)], "a writer without weight has caches alone");
}

#[test]
fn nodes_without_room_are_named_if_copies_are_missing() {
    let map = pool();
    let mut free = room(6);
    free.insert(Slot(1), MIB - 1);
    free.remove(&Slot(5));
    let two = place(&map, &free, &request(2), 3);
    assert_eq!((two.holders, two.full), (vec![Slot(5), Slot(2)], vec![]), "the bytes are on 5");
    let six = place(&map, &free, &request(6), 3);
    assert_eq!((six.holders.len(), six.full), (5, vec![Slot(1)]));
    free.insert(Slot(1), MIB);
    assert_eq!(place(&map, &free, &request(6), 3).holders.len(), 6, "just enough");
}

#[test]
fn a_zone_has_a_second_copy_only_when_no_other_zone_has_room() {
    let zones = ["a", "a", "a", "b", "b", "c"];
    let members = (0..).zip(zones).map(|(number, zone)| member_in(number, zone)).collect();
    let map = map_of(members, &[0, 1, 2]);
    let request = Request { writer: Some(Slot(0)), ..request(4) };
    for random in 0..50 {
        let holders = place(&map, &room(6), &request, random).holders;
        let mut used: Vec<&str> = holders.iter().map(|slot| zones[usize::from(slot.0)]).collect();
        assert_eq!((holders[0], used[0]), (Slot(0), "a"));
        used[1..3].sort_unstable();
        assert_eq!(used[1..3], ["b", "c"], "{holders:?}");
        assert!(["a", "b"].contains(&used[3]), "c has no second node");
    }
    let mut free = room(6);
    free.insert(Slot(5), 0);
    let holders = place(&map, &free, &Request { copies: 3, ..request }, 1).holders;
    assert_eq!(holders[2], Slot(1), "c is full, and an acting node comes first: {holders:?}");
}

/// Two choices: the fullest node gets nothing, and none gets everything.
#[test]
fn more_room_is_likelier() {
    let map = map_of((0..10).map(member).collect(), &[]);
    let free: BTreeMap<Slot, u64> =
        (0..10).map(|slot| (Slot(slot), u64::from(slot + 1) * 10 * MIB)).collect();
    let mut counts = [0; 10];
    for random in 0..10_000 {
        let request = Request { writer: None, ..request(1) };
        let holders = place(&map, &free, &request, random).holders;
        counts[usize::from(holders[0].0)] += 1;
    }
    assert_eq!(counts[0], 0, "it is never the roomier one of two");
    assert!(counts.is_sorted() && (1700..2300).contains(&counts[9]), "{counts:?}");
}

#[test]
fn copies_have_a_limit() {
    let map = map_of((0..20).map(member).collect(), &[1]);
    let holders = place(&map, &room(20), &request(100), 3).holders;
    assert_eq!(holders.len(), HOLDERS_MAX);
}
