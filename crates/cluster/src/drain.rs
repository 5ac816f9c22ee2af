//! How far a draining node is from being empty.
//!
//! ```text
//!   every primary                          the node that leads, operators
//!   DrainReport: in the groups that I  ──► progress(): is anything left, and has every primary
//!   lead in this map, so much is left      said so; drained(): what may be stopped without loss
//! ```
//!
//! A report counts for a group if it was made in a map since which the group has its acting nodes:
//! its primary knew of the draining, and of every record that earlier primaries left. From then on
//! a primary makes no record that counts a copy on the draining node, so what was empty stays so.
//! The draining node reports itself, too: its own objects whose commits are on their way.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::Map;
use crate::node::{Epoch, NodeState, Slot};

/// What a draining node has that is not elsewhere yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Objects that need the node's copy.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them of which no other live node keeps a copy: they are lost with the node.
    pub last: u64,
    /// Those of them for which the pool has too few other nodes.
    pub few_nodes: u64,
    /// Those for which the other nodes have no room.
    pub no_room: u64,
    /// Those that no live node has: they cannot be copied now.
    pub unreachable: u64,
}

impl Left {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
            last: self.last.saturating_add(other.last),
            few_nodes: self.few_nodes.saturating_add(other.few_nodes),
            no_room: self.no_room.saturating_add(other.no_room),
            unreachable: self.unreachable.saturating_add(other.unreachable),
        }
    }
}

/// What one node reports of a draining one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// The draining node.
    pub slot: Slot,
    /// Since which map it drains.
    pub since: Epoch,
    /// The map in which the reporting node leads the groups that it means.
    pub epoch: Epoch,
    /// What is left in these groups.
    pub left: Left,
}

/// How far a draining node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is left, as far as it was reported.
    pub left: Left,
    /// Groups whose records it still keeps, or that it may still lead.
    pub groups: usize,
    /// Groups that no live node leads: what is left in them is not known.
    pub unled: usize,
    /// Nodes that have not reported yet.
    pub unreported: BTreeSet<Slot>,
}

impl Progress {
    /// Whether the node can be stopped without loss.
    pub fn is_drained(&self) -> bool {
        let Self { left, groups, unled, unreported } = self;
        left.objects == 0 && *groups == 0 && *unled == 0 && unreported.is_empty()
    }
}

/// How far a node is; `None` unless it drains. `reports` are those of live nodes, each with the
/// slot of the node that made it.
pub fn progress(map: &Map, slot: Slot, reports: &[(Slot, DrainReport)]) -> Option<Progress> {
    let node = map.node(slot).filter(|node| node.state == NodeState::Draining)?;
    let is_meant = |(_, report): &&(Slot, DrainReport)| {
        report.slot == slot && report.since == node.since && report.epoch <= map.epoch()
    };
    let reports: BTreeMap<Slot, DrainReport> = reports.iter().filter(is_meant).copied().collect();
    let mut progress = Progress::default();
    if !reports.contains_key(&slot) {
        progress.unreported.insert(slot);
    }
    for (_, group) in map.groups() {
        let is_on = group.acting.contains(&slot) || group.prior == Some(slot);
        progress.groups += usize::from(is_on);
        match group.primary().filter(|primary| map.is_live(*primary)) {
            None => progress.unled += 1,
            Some(primary) => {
                let report = reports.get(&primary);
                if report.is_none_or(|report| report.epoch < group.since) {
                    progress.unreported.insert(primary);
                }
            }
        }
    }
    progress.left = reports.values().fold(Left::default(), |sum, report| sum.and(report.left));
    Some(progress)
}

/// The draining nodes that can be stopped without loss.
pub fn drained(map: &Map, reports: &[(Slot, DrainReport)]) -> Vec<Slot> {
    let draining = map.nodes().filter(|(_, node)| node.state == NodeState::Draining);
    let is_drained =
        |slot: &Slot| progress(map, *slot, reports).is_some_and(|progress| progress.is_drained());
    draining.map(|(slot, _)| slot).filter(is_drained).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, member};

    fn report(epoch: u64, objects: u64) -> DrainReport {
        let left = Left { objects, ..Left::default() };
        DrainReport { slot: Slot(2), since: Epoch(4), epoch: Epoch(epoch), left }
    }

    /// Nodes 0 and 1 keep all records; node 2 drains since map 4.
    fn map() -> Map {
        let mut map = map_of((0..3).map(member).collect(), &[0, 1]);
        map.epoch = Epoch(9);
        let node = map.nodes.get_mut(&Slot(2)).unwrap();
        (node.state, node.drain, node.since) = (NodeState::Draining, true, Epoch(4));
        map.groups.iter_mut().for_each(|group| group.since = Epoch(6));
        map
    }

    #[test]
    fn a_node_is_drained_when_every_primary_and_itself_have_said_so() {
        let map = map();
        let (own, primary) = ((Slot(2), report(9, 0)), (Slot(0), report(6, 0)));
        assert_eq!(drained(&map, &[own, primary]), [Slot(2)]);
        let cases = [
            vec![own],
            vec![primary],
            vec![own, (Slot(0), report(5, 0))],
            vec![own, (Slot(0), report(6, 1))],
            vec![(Slot(2), report(9, 1)), primary],
            vec![own, (Slot(0), report(10, 0))],
            vec![own, (Slot(0), DrainReport { since: Epoch(3), ..report(9, 0) })],
            vec![own, (Slot(1), report(9, 0))],
        ];
        for reports in cases {
            assert_eq!(drained(&map, &reports), [], "{reports:?}");
        }
        let both = progress(&map, Slot(2), &[own, (Slot(0), report(6, 3))]).unwrap();
        assert_eq!((both.left.objects, both.unreported.len()), (3, 0));
        assert_eq!(progress(&map, Slot(0), &[own, primary]), None, "it does not drain");
    }

    #[test]
    fn a_node_that_keeps_records_or_may_lead_is_not_drained() {
        let reports = [(Slot(2), report(9, 0)), (Slot(0), report(9, 0))];
        let mut keeps = map();
        keeps.groups[7].acting.push(Slot(2));
        assert_eq!(progress(&keeps, Slot(2), &reports).unwrap().groups, 1);
        let mut leads = map();
        leads.groups[7].prior = Some(Slot(2));
        let mut unled = map();
        unled.groups[7].acting.clear();
        for map in [&keeps, &leads, &unled] {
            assert_eq!(drained(map, &reports), []);
        }
    }
}
