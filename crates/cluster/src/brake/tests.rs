//! How many losses at once the pool bears, and when it goes on.

use super::*;
use crate::fixtures::{member, up};

impl Brake {
    /// What decides about all that can follow.
    pub(crate) fn key(&self, now_ms: u64) -> String {
        let since: Vec<_> =
            self.lost_ms.iter().map(|(slot, lost_ms)| (slot.0, now_ms - lost_ms)).collect();
        format!("{since:?} {}", self.holds)
    }
}

fn nodes(count: u16, down: &[u16]) -> BTreeMap<Slot, Node> {
    let state = |slot| if down.contains(&slot) { NodeState::Down } else { NodeState::Up };
    (0..count).map(|slot| (Slot(slot), Node { state: state(slot), ..up(member(slot)) })).collect()
}

#[test]
fn a_quarter_of_the_nodes_may_be_lost_and_one_in_any_case() {
    for (count, bearable) in [(1, 1), (2, 1), (3, 1), (7, 1), (8, 2), (11, 2), (12, 3), (100, 25)] {
        let mut brake = Brake::default();
        let lost: Vec<u16> = (0..bearable).collect();
        brake.update(0, &nodes(count, &lost), 0);
        assert!(!brake.holds(), "{bearable} of {count}");
        let lost: Vec<u16> = (0..=bearable).collect();
        if bearable < count {
            brake.update(1, &nodes(count, &lost), 0);
            assert!(brake.holds(), "{} of {count}", bearable + 1);
        }
    }
}

#[test]
fn losses_far_apart_do_not_add_up() {
    let mut brake = Brake::default();
    let mut nodes = nodes(4, &[0]);
    brake.update(0, &nodes, 0);
    nodes.get_mut(&Slot(0)).unwrap().state = NodeState::Out;
    brake.update(10_000, &nodes, 0);
    nodes.get_mut(&Slot(1)).unwrap().state = NodeState::Down;
    let mut late = brake.clone();
    brake.update(WINDOW_MS - 1, &nodes, 0);
    assert!(brake.holds(), "a node that went out counts for the window");
    late.update(WINDOW_MS, &nodes, 0);
    assert!(!late.holds());
    assert_eq!(late.out_at_ms(Slot(1), 10_000), Some(WINDOW_MS + 10_000));
}

#[test]
fn it_ends_when_nodes_return_or_are_forgotten_and_not_by_time() {
    let mut brake = Brake::default();
    brake.update(0, &nodes(8, &[0, 1, 2]), 0);
    brake.update(10 * WINDOW_MS, &nodes(8, &[0, 1, 2]), 0);
    assert_eq!((brake.holds(), brake.out_at_ms(Slot(0), 0)), (true, None));
    let mut forgotten = nodes(8, &[0, 1, 2]);
    forgotten.remove(&Slot(2));
    for nodes in [nodes(8, &[0, 1]), forgotten] {
        let mut brake = brake.clone();
        let now = 11 * WINDOW_MS;
        brake.update(now, &nodes, 0);
        // Of seven nodes one may be lost, of eight two.
        assert_eq!(brake.holds(), nodes.len() == 7);
        let out_at = brake.out_at_ms(Slot(0), 10_000);
        assert_eq!(out_at, (nodes.len() == 8).then_some(now + 10_000), "the time starts again");
    }
}

#[test]
fn a_group_without_a_live_node_is_enough() {
    let mut brake = Brake::default();
    let nodes = nodes(100, &[5]);
    brake.update(0, &nodes, 1);
    let alarm = brake.alarm(&nodes, 1).unwrap();
    assert_eq!(alarm, Alarm { lost: vec![Slot(5)], lost_max: 25, dead_groups: 1 });
    assert!(alarm.to_string().starts_with("1 nodes are lost (slots 5) and 1 groups have no live"));
    brake.update(1, &nodes, 0);
    assert_eq!((brake.holds(), brake.alarm(&nodes, 0)), (false, None));
}
