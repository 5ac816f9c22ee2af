//! Which node goes, which is held back, and how often.

use super::*;
use crate::fixtures::{map_of, member};
use crate::node::NodeState;

impl Fences {
    /// What decides about all that can follow.
    pub(crate) fn key(&self, now_ms: u64) -> String {
        let since: Vec<_> =
            self.since_ms.iter().map(|(pair, since_ms)| (pair, now_ms - since_ms)).collect();
        let fenced: Vec<_> = self
            .fenced
            .iter()
            .map(|(slot, fenced)| {
                let clear_ms = fenced.clear_ms.map(|clear_ms| now_ms - clear_ms);
                (slot, now_ms - fenced.last_ms, fenced.times, clear_ms)
            })
            .collect();
        let pause_ms = self.pause_until_ms.saturating_sub(now_ms);
        format!("{since:?} {fenced:?} {:?} {pause_ms}", self.pending)
    }
}

/// Nodes that report, and what the leader made of it.
struct World {
    map: Map,
    present: BTreeSet<Slot>,
    reports: Vec<ReachReport>,
    leader: Option<Slot>,
    room: usize,
    fences: Fences,
    now_ms: u64,
}

impl World {
    /// So many nodes, whose groups are on these.
    fn new(nodes: u16, acting: &[u16]) -> Self {
        let reports =
            (0..nodes).map(|slot| ReachReport { slot: Slot(slot), suspects: vec![] }).collect();
        Self {
            map: map_of((0..nodes).map(member).collect(), acting),
            present: (0..nodes).map(Slot).collect(),
            reports,
            leader: Some(Slot(0)),
            room: (usize::from(nodes) / 4).max(1),
            fences: Fences::default(),
            now_ms: 1_000_000,
        }
    }

    /// Each of these does not reach the other, as both say.
    fn cut(&mut self, pairs: &[(u16, u16)]) {
        for report in &mut self.reports {
            report.suspects.clear();
        }
        for (a, b) in pairs {
            self.accuse(*a, *b);
            self.accuse(*b, *a);
        }
    }

    fn accuse(&mut self, from: u16, to: u16) {
        let incarnation = self.map.node(Slot(to)).unwrap().member.incarnation;
        let report = self.reports.iter_mut().find(|report| report.slot == Slot(from)).unwrap();
        report.suspects.push(Suspect { slot: Slot(to), incarnation });
    }

    fn step(&mut self) -> Outcome {
        let reach = Reach { leader: self.leader, reports: &self.reports };
        let (map, present, room) = (&self.map, &self.present, self.room);
        self.fences.step(self.now_ms, &Seen { map, present, reach, room })
    }

    /// Steps at every deadline for so long; what is to stop in the end.
    fn after(&mut self, ms: u64) -> Vec<u16> {
        let end_ms = self.now_ms + ms;
        loop {
            let Outcome { fence, deadline_ms, .. } = self.step();
            match deadline_ms.filter(|at_ms| *at_ms <= end_ms) {
                Some(at_ms) => {
                    assert!(at_ms > self.now_ms, "it steps without an end");
                    self.now_ms = at_ms;
                }
                None => {
                    self.now_ms = end_ms;
                    return fence.into_iter().map(|slot| slot.0).collect();
                }
            }
        }
    }

    fn set_state(&mut self, slot: u16, state: NodeState) {
        self.map.nodes.get_mut(&Slot(slot)).unwrap().state = state;
    }

    /// A fenced node is down, its groups are led on, and it has a lease again.
    fn take_down(&mut self, slot: u16) {
        self.set_state(slot, NodeState::Down);
        for group in &mut self.map.groups {
            group.acting.retain(|other| *other != Slot(slot));
            group.in_sync = group.acting.len() as u8;
        }
    }

    fn held(&mut self) -> Vec<u16> {
        self.step().held.into_iter().map(|slot| slot.0).collect()
    }
}

#[test]
fn of_two_that_only_miss_each_other_one_goes_and_the_leader_stays() {
    for (cut, leader, fenced) in
        [((0, 1), 0, 1), ((0, 1), 1, 0), ((1, 2), 0, 2), ((0, 2), 1, 2), ((0, 2), 2, 0)]
    {
        let mut world = World::new(3, &[0, 1, 2]);
        world.leader = Some(Slot(leader));
        world.cut(&[cut]);
        assert_eq!(world.after(CONFIRM_MS - 1), [], "{cut:?}");
        assert_eq!(world.after(1), [fenced], "{cut:?}, {leader} leads");
    }
    // The one with the records of fewer groups.
    let mut world = World::new(4, &[2, 3]);
    world.cut(&[(1, 3)]);
    assert_eq!(world.after(CONFIRM_MS), [1]);
}

#[test]
fn a_node_that_most_others_miss_goes_also_when_it_leads() {
    let mut world = World::new(4, &[0, 1, 2]);
    world.cut(&[(0, 1), (0, 2), (0, 3)]);
    assert_eq!(world.after(CONFIRM_MS), [0]);
    // It says nothing itself, and reports at all.
    let mut world = World::new(4, &[0, 1, 2]);
    world.cut(&[]);
    [0, 1, 3].into_iter().for_each(|from| world.accuse(from, 2));
    assert_eq!(world.after(CONFIRM_MS), [2]);
    // One that misses all others is not believed against them.
    let mut world = World::new(4, &[0, 1, 2]);
    world.cut(&[]);
    [0, 1, 3].into_iter().for_each(|to| world.accuse(2, to));
    assert_eq!(world.after(CONFIRM_MS), [2]);
}

#[test]
fn of_two_nodes_alone_the_one_that_does_not_lead_goes() {
    let mut world = World::new(2, &[0, 1]);
    world.leader = Some(Slot(1));
    world.cut(&[(0, 1)]);
    assert_eq!(world.after(CONFIRM_MS), [0]);
}

#[test]
fn nodes_of_earlier_builds_and_earlier_starts_are_left_alone() {
    let mut world = World::new(3, &[0, 1, 2]);
    world.cut(&[(1, 2)]);
    world.reports.retain(|report| report.slot != Slot(2));
    assert_eq!(world.after(60_000), []);
    let mut world = World::new(3, &[0, 1, 2]);
    world.cut(&[(1, 2)]);
    for report in &mut world.reports {
        report.suspects.iter_mut().for_each(|suspect| suspect.incarnation += 1);
    }
    assert_eq!(world.after(60_000), []);
    // A node without a lease is down in any case.
    let mut world = World::new(3, &[0, 1, 2]);
    world.cut(&[(1, 2)]);
    world.present.remove(&Slot(2));
    assert_eq!(world.after(60_000), []);
}

#[test]
fn no_node_goes_where_more_would_have_to_than_the_brake_allows() {
    // Two halves: two of four would have to go.
    let mut world = World::new(4, &[0, 1, 2]);
    world.cut(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
    assert_eq!(world.after(60_000), []);
    world.room = 2;
    assert_eq!(world.after(1), [2, 3], "the half that leads stays");
    let mut world = World::new(4, &[0, 1, 2]);
    world.room = 0;
    world.cut(&[(1, 2)]);
    assert_eq!(world.after(60_000), []);
}

#[test]
fn the_last_node_with_every_record_of_a_group_stays() {
    let mut world = World::new(3, &[2, 1]);
    world.cut(&[(1, 2)]);
    world.map.groups[5].in_sync = 1;
    assert_eq!(world.after(CONFIRM_MS), [1], "2 would have gone");
    let mut world = World::new(3, &[2, 1]);
    world.cut(&[(1, 2)]);
    world.map.groups[5].in_sync = 1;
    world.map.groups[6].acting = vec![Slot(1)];
    world.map.groups[6].in_sync = 1;
    assert_eq!(world.after(60_000), [], "each has records that the other one has not");
}

#[test]
fn a_fenced_node_is_held_until_it_is_reached_and_for_a_while_after_that() {
    let mut world = World::new(3, &[0, 1, 2]);
    world.cut(&[(1, 2)]);
    assert_eq!(world.after(CONFIRM_MS), [2]);
    world.take_down(2);
    assert_eq!((world.held(), world.after(100)), (vec![2], vec![]));
    world.now_ms += 600_000 - 10_000;
    assert_eq!(world.held(), [2], "it is not reached");
    world.cut(&[]);
    assert_eq!(world.held(), [2]);
    assert_eq!(world.step().deadline_ms, Some(world.now_ms + SETTLE_MS));
    world.now_ms += SETTLE_MS - 1;
    assert_eq!(world.held(), [2]);
    world.now_ms += 1;
    assert_eq!(world.held(), []);
    world.set_state(2, NodeState::Up);
    assert_eq!(world.step(), Outcome::default());
}

/// The leader that fenced it is gone: the reports say the same to the next one.
#[test]
fn another_leader_holds_what_is_reported_and_lets_in_what_a_group_waits_for() {
    let mut world = World::new(3, &[0, 1]);
    world.set_state(2, NodeState::Down);
    world.cut(&[(1, 2)]);
    assert_eq!(world.held(), [2]);
    world.cut(&[]);
    assert_eq!(world.held(), [], "it remembers no fence");
    world.cut(&[(1, 2)]);
    world.map.groups[9].acting = vec![Slot(2)];
    world.map.groups[9].in_sync = 1;
    assert_eq!(world.held(), []);
}

#[test]
fn of_nodes_that_come_back_together_those_that_reach_the_others_come_in() {
    let mut world = World::new(4, &[0]);
    for slot in 1..4 {
        world.set_state(slot, NodeState::Down);
    }
    world.cut(&[(1, 2), (2, 3)]);
    assert_eq!(world.held(), [2]);
}

/// A link that comes and goes makes few decisions, and fewer and fewer.
#[test]
fn a_link_that_comes_and_goes_is_decided_about_now_and_then() {
    let mut world = World::new(3, &[0, 1]);
    let end_ms = world.now_ms + 300_000;
    let (mut decisions, mut was_fenced) = (Vec::new(), false);
    while world.now_ms < end_ms {
        world.now_ms += 100;
        // It is cut for 3 s of each 6.
        let is_cut = world.now_ms % 6_000 < 3_000;
        world.cut(if is_cut { &[(1, 2)] } else { &[] });
        let Outcome { held, fence, .. } = world.step();
        if !fence.is_empty() && !was_fenced {
            decisions.push(world.now_ms);
            world.set_state(2, NodeState::Down);
        } else if held.is_empty() && fence.is_empty() {
            world.set_state(2, NodeState::Up);
        }
        was_fenced = !fence.is_empty();
    }
    let first_minute = decisions.iter().filter(|at_ms| **at_ms < decisions[0] + 60_000).count();
    assert!(first_minute <= 6, "{decisions:?}");
    assert!(decisions.len() <= 4, "a cut link settles for 3 s at most: {decisions:?}");
}
