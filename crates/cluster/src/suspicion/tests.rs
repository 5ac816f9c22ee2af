//! When a peer becomes suspect, and what ends that.

use super::*;
use crate::fixtures::{map_of, member};

const OWN: Slot = Slot(0);

/// A node in slot 0 of three, and when it heard the others over a connection that is up.
struct World {
    suspicion: Suspicion,
    map: Map,
    waiting: Vec<Slot>,
    heard: BTreeMap<Slot, u64>,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        Self {
            suspicion: Suspicion::new(3_000),
            map: map_of((0..3).map(member).collect(), &[0, 1, 2]),
            waiting: Vec::new(),
            heard: BTreeMap::new(),
            now_ms: 10_000,
        }
    }

    /// Looks every half second until then, while these peers are heard.
    fn until(&mut self, at_ms: u64, heard: &[u16]) -> Vec<u16> {
        let mut suspects = Vec::new();
        while self.now_ms < at_ms {
            self.now_ms += LOOK_EVERY_MS;
            suspects = self.look(heard);
        }
        suspects
    }

    fn look(&mut self, heard: &[u16]) -> Vec<u16> {
        self.heard.retain(|slot, _| heard.contains(&slot.0));
        self.heard.extend(heard.iter().map(|slot| (Slot(*slot), self.now_ms)));
        let (waiting, heard) = (&self.waiting, &self.heard);
        let is_waiting = |slot| waiting.contains(&slot);
        let seen = (&self.map, OWN);
        let suspects =
            self.suspicion.look(self.now_ms, seen, is_waiting, |slot| heard.get(&slot).copied());
        suspects.into_iter().map(|suspect| suspect.slot.0).collect()
    }

    fn set_state(&mut self, slot: u16, state: NodeState) {
        self.map.nodes.get_mut(&Slot(slot)).unwrap().state = state;
    }
}

#[test]
fn a_peer_is_suspect_after_a_while_and_no_more_once_it_is_heard() {
    let mut world = World::new();
    assert_eq!(world.until(11_000, &[1, 2]), []);
    assert_eq!(world.until(13_500, &[1]), [], "it was heard 2.5 s ago");
    assert_eq!(world.until(14_000, &[1]), [2]);
    assert_eq!(world.until(14_500, &[1, 2]), []);
    assert_eq!(world.until(17_000, &[2]), []);
    assert_eq!(world.until(17_500, &[2]), [1]);
}

/// A connection that is up and silent is no better than none.
#[test]
fn a_connection_that_answers_nothing_does_not_count() {
    let mut world = World::new();
    world.until(11_000, &[1, 2]);
    for _ in 0..6 {
        world.now_ms += LOOK_EVERY_MS;
        let (map, now_ms) = (&world.map, world.now_ms);
        let suspects = world.suspicion.look(now_ms, (map, OWN), |_| false, |_| Some(11_000));
        assert_eq!(suspects.len(), if now_ms < 14_000 { 0 } else { 2 }, "{now_ms}");
    }
}

/// The report is what keeps a fenced node from coming back at once.
#[test]
fn a_suspect_that_loses_its_lease_stays_one_until_it_is_heard() {
    let mut world = World::new();
    assert_eq!(world.until(14_000, &[1]), [2]);
    world.set_state(2, NodeState::Down);
    assert_eq!(world.until(16_000, &[1]), [2]);
    world.waiting = vec![Slot(2)];
    world.set_state(2, NodeState::Out);
    assert_eq!(world.until(18_000, &[1]), [2], "it is out and waits");
    assert_eq!(world.until(18_500, &[1, 2]), []);
    world.set_state(2, NodeState::Up);
    world.waiting.clear();
    assert_eq!(world.until(20_500, &[1]), []);
    assert_eq!(world.until(21_500, &[1]), [2]);
    world.set_state(2, NodeState::Out);
    assert_eq!(world.until(22_000, &[1]), [], "it is gone");
}

/// A node that died was reported by all others for as long as it was away, and held back by these
/// reports when it was back.
#[test]
fn a_peer_that_is_away_is_not_suspect_and_has_time_when_it_is_back() {
    let mut world = World::new();
    world.until(11_000, &[1, 2]);
    world.set_state(2, NodeState::Down);
    assert_eq!(world.until(20_000, &[1]), []);
    world.set_state(2, NodeState::Up);
    assert_eq!(world.until(22_500, &[1]), []);
    assert_eq!(world.until(23_000, &[1]), [2]);
    // Another start of it has not been tried yet.
    world.map.nodes.get_mut(&Slot(2)).unwrap().member.incarnation = 9;
    assert_eq!(world.until(25_500, &[1]), []);
    assert_eq!(world.until(26_500, &[1]), [2]);
    world.suspicion.clear();
    assert_eq!(world.until(29_000, &[1]), []);
}

/// A process that stood still suspected every peer when it went on.
#[test]
fn the_time_in_which_the_node_itself_stood_still_does_not_count() {
    let mut world = World::new();
    world.until(12_000, &[1, 2]);
    world.now_ms += 60_000;
    let heard = [(Slot(1), 12_000), (Slot(2), 12_000)];
    world.heard = heard.into();
    let (map, heard) = (&world.map, &world.heard);
    let now_ms = world.now_ms;
    let suspects =
        world.suspicion.look(now_ms, (map, OWN), |_| false, |slot| heard.get(&slot).copied());
    assert_eq!(suspects, []);
}
