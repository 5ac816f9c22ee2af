//! When a node that is away is marked, and what takes the mark away.

use crate::fence::Reach;
use crate::fixtures::member;
use crate::leader::{Leader, OUT_AFTER_MS, Observation};
use crate::map::Map;
use crate::node::{Member, NodeState, Slot};

use super::SILENT_AFTER_MS;

/// Steps until the leader is content; when it wants to step again.
fn settle(leader: &mut Leader, map: &mut Map, now_ms: u64, members: &[Member]) -> Option<u64> {
    loop {
        let seen = Observation {
            map,
            members,
            activations: &[],
            drained: &[],
            commands: &[],
            reach: Reach::default(),
        };
        let decision = leader.step(now_ms, &seen);
        let Some(next) = decision.proposal else { return decision.deadline_ms };
        *map = next;
    }
}

fn silent(map: &Map) -> Vec<u16> {
    map.nodes().filter(|(_, node)| node.silent).map(|(slot, _)| slot.0).collect()
}

/// A name that had been deleted was in use for 65 s after each restart of its primary, as long as
/// the map had a node that was out for good: no node knew how long that one had been away.
#[test]
fn a_node_that_is_away_for_long_is_silent_until_it_is_back() {
    let mut members: Vec<Member> = (0..4).map(member).collect();
    let (mut leader, mut map) = (Leader::new(OUT_AFTER_MS), Map::default());
    assert_eq!(settle(&mut leader, &mut map, 0, &members), None);
    let last = members.pop().unwrap();
    assert_eq!(settle(&mut leader, &mut map, 500, &members), Some(500 + OUT_AFTER_MS));
    let out_ms = 500 + OUT_AFTER_MS;
    let silent_ms = 500 + SILENT_AFTER_MS;
    assert_eq!(settle(&mut leader, &mut map, out_ms, &members), Some(silent_ms));
    assert_eq!(map.node(Slot(3)).unwrap().state, NodeState::Out);
    settle(&mut leader, &mut map, silent_ms - 1, &members);
    assert_eq!(silent(&map), []);
    assert_eq!(settle(&mut leader, &mut map, silent_ms, &members), None);
    assert_eq!(silent(&map), [3]);
    // Another leader finds it in the map.
    let mut leader = Leader::new(OUT_AFTER_MS);
    assert_eq!(settle(&mut leader, &mut map, 0, &members), None);
    assert_eq!(silent(&map), [3]);
    members.push(last);
    settle(&mut leader, &mut map, 1, &members);
    assert_eq!(silent(&map), []);
}

/// The time counts from a map that says that the node is not live: with a lease that ended and one
/// that began before such a map was written, it may have gone on by the older one.
#[test]
fn the_time_begins_with_a_map_that_has_the_node_away() {
    let members: Vec<Member> = (0..4).map(member).collect();
    let (mut leader, mut map) = (Leader::new(OUT_AFTER_MS), Map::default());
    settle(&mut leader, &mut map, 0, &members);
    let seen = Observation {
        map: &map,
        members: &members[..3],
        activations: &[],
        drained: &[],
        commands: &[],
        reach: Reach::default(),
    };
    // Its map is written only later: etcd was away.
    assert!(leader.step(100, &seen).proposal.is_some());
    settle(&mut leader, &mut map, 30_000, &members[..3]);
    settle(&mut leader, &mut map, 100 + SILENT_AFTER_MS, &members[..3]);
    assert_eq!(silent(&map), []);
    settle(&mut leader, &mut map, 30_000 + SILENT_AFTER_MS, &members[..3]);
    assert_eq!(silent(&map), [3]);
}

/// A node that is back for a moment is counted from when it is away again.
#[test]
fn a_node_that_was_back_is_counted_anew() {
    let members: Vec<Member> = (0..4).map(member).collect();
    let (mut leader, mut map) = (Leader::new(OUT_AFTER_MS), Map::default());
    settle(&mut leader, &mut map, 0, &members);
    settle(&mut leader, &mut map, 1_000, &members[..3]);
    settle(&mut leader, &mut map, 60_000, &members);
    settle(&mut leader, &mut map, 61_000, &members[..3]);
    settle(&mut leader, &mut map, 61_000 + SILENT_AFTER_MS - 1, &members[..3]);
    assert_eq!(silent(&map), []);
    settle(&mut leader, &mut map, 61_000 + SILENT_AFTER_MS, &members[..3]);
    assert_eq!(silent(&map), [3]);
}
