//! Namespaces that a session of one node has adopted for the whole pool: when that is over, and
//! when such a namespace may be adopted again.
//!
//! ```text
//!   free ──adopt──► adopted ──the session or its node is gone──► ended ──adopt, once swept──► ..
//! ```
//!
//! A session lives as long as its client's process and its store. A store that is only out of reach
//! may come back with the session, so a node that is down ends nothing; one that is out, that was
//! forgotten, or that came back with another store does.
//!
//! What every node knows of namespaces it knows by revisions of etcd. Two of them are its
//! [`Progress`]: until which it has *seen* changes, so that its store refuses objects of what has
//! ended, and until which it has *swept*, so that it has none of them.

use std::collections::BTreeMap;

use crate::map::Map;
use crate::node::{Node, NodeState, NodeUuid, Slot};

/// What has adopted a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopter {
    /// The node.
    pub node: NodeUuid,
    /// The token of its store.
    pub boot: u64,
    /// The session of a client of that store.
    pub session: u64,
}

impl Adopter {
    /// Whether its store is gone for good, and the session with it.
    pub fn is_gone(&self, map: &Map) -> bool {
        let node = map.slot_of(self.node).and_then(|slot| map.node(slot));
        node.is_none_or(|node| node.state == NodeState::Out || node.member.boot != self.boot)
    }
}

/// How far a node is with the namespaces that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Its store goes by what was known in this revision.
    pub seen: u64,
    /// Its store has nothing of any namespace that had ended in this revision.
    pub swept: u64,
}

/// The first node that may still have objects of a namespace that ended in this revision. A node
/// that is out counts as one that is gone.
pub fn first_unswept<'a>(
    map: &'a Map,
    progress: &BTreeMap<Slot, Progress>,
    ended: u64,
) -> Option<(Slot, &'a Node)> {
    let is_swept = |slot: &Slot| progress.get(slot).is_some_and(|it| it.swept >= ended);
    map.nodes().find(|(slot, node)| node.state != NodeState::Out && !is_swept(slot))
}

/// The first node that does not go by this revision yet. One that does not hold its lease reads
/// what is known before it takes part again.
pub fn first_unaware<'a>(
    map: &'a Map,
    progress: &BTreeMap<Slot, Progress>,
    revision: u64,
) -> Option<(Slot, &'a Node)> {
    let is_aware = |slot: &Slot| progress.get(slot).is_some_and(|it| it.seen >= revision);
    map.nodes().find(|(slot, node)| node.is_live() && !is_aware(slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, member, up};
    use crate::limits::GROUPS;
    use crate::map::Group;
    use crate::node::Epoch;

    /// A map of three nodes in these states.
    fn map(states: [NodeState; 3]) -> Map {
        let nodes = (0..).zip(states).map(|(number, state)| {
            (
                Slot(number),
                Node { state, drain: state == NodeState::Draining, ..up(member(number)) },
            )
        });
        let like = map_of(vec![member(0), member(1), member(2)], &[0]);
        let groups: Vec<Group> = like.groups().map(|(_, group)| group.clone()).collect();
        assert_eq!(groups.len(), GROUPS);
        Map::new(Epoch(1), nodes.collect(), groups, Slot(3)).unwrap()
    }

    #[test]
    fn an_adopter_is_gone_with_its_store_and_not_while_that_may_come_back() {
        use NodeState::{Down, Draining, Out, Up};
        let adopter = Adopter { node: member(1).uuid, boot: 7, session: 5 };
        for (state, gone) in [(Up, false), (Draining, false), (Down, false), (Out, true)] {
            assert_eq!(adopter.is_gone(&map([Up, state, Up])), gone, "{state:?}");
        }
        let map = map([Up, Up, Up]);
        assert!(Adopter { boot: 8, ..adopter }.is_gone(&map), "another store has its place");
        assert!(Adopter { node: member(9).uuid, ..adopter }.is_gone(&map), "it was forgotten");
    }

    #[test]
    fn every_node_that_may_have_objects_sweeps_and_every_live_one_is_aware() {
        use NodeState::{Down, Out, Up};
        let first = |found: Option<(Slot, &Node)>| found.map(|(slot, _)| slot.0);
        let at = |seen, swept| Progress { seen, swept };
        let progress = BTreeMap::from([(Slot(0), at(9, 9)), (Slot(1), at(9, 4))]);
        let all = map([Up, Up, Up]);
        assert_eq!(first(first_unswept(&all, &progress, 4)), Some(2), "it has said nothing");
        assert_eq!(first(first_unswept(&all, &progress, 5)), Some(1));
        assert_eq!(first(first_unaware(&all, &progress, 9)), Some(2));
        assert_eq!(first(first_unaware(&all, &progress, 10)), Some(0));
        let down = map([Up, Up, Down]);
        assert_eq!(first(first_unswept(&down, &progress, 4)), Some(2), "it may come back");
        assert_eq!(first(first_unaware(&down, &progress, 9)), None, "it reads all of it then");
        let out = map([Up, Up, Out]);
        assert_eq!(first(first_unswept(&out, &progress, 4)), None);
        assert_eq!(first(first_unswept(&out, &progress, 5)), Some(1));
    }
}
