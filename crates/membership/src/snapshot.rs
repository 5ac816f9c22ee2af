//! What etcd says of a pool at one moment, for people and their tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::drain::{Progress, progress};
use plasmon_cluster::map::Group;
use plasmon_cluster::{Map, Node, NodeLog, NodeState, NodeUuid, Reach, Slot};
use plasmon_etcd::{Client, Error};
use plasmon_proto::pool_status::{
    self, DrainLeft, NodeEncryption, NodeFabric, PoolNode, PoolStatus, RefusedNode, UNREACHED_MAX,
    WAITED_FOR_MAX,
};

use crate::encryption::Encryption;
use crate::fabric::Fabric;
use crate::keys::Keys;
use crate::view::View;

/// A pool at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The newest map; `None` before the first.
    pub map: Option<Arc<Map>>,
    /// Why the map in etcd cannot be used.
    pub bad_map: Option<String>,
    /// The node that leads.
    pub leader: Option<NodeUuid>,
    /// Nodes that hold a lease.
    pub present: BTreeSet<NodeUuid>,
    /// Why nodes that hold a lease take no part.
    pub refused: BTreeMap<NodeUuid, String>,
    /// Why no node is given up.
    pub alarm: Option<String>,
    /// How far the draining nodes are.
    pub drains: BTreeMap<Slot, Progress>,
    /// Pairs of nodes that do not reach each other, the lower slot first.
    pub unreached: BTreeSet<(Slot, Slot)>,
    /// What the nodes encrypt; those that encrypt nothing are not among them.
    pub encryption: BTreeMap<Slot, Encryption>,
    /// By what others write into their memory; those that use TCP alone are not among them.
    pub fabrics: BTreeMap<Slot, Fabric>,
}

/// What etcd says of a pool now.
pub fn snapshot(etcd: &mut Client, keys: &Keys) -> Result<Snapshot, Error> {
    Ok(Snapshot::of(&View::of(keys, etcd.list(keys.prefix())?)))
}

impl Snapshot {
    /// What is in etcd, as far as it was seen.
    pub fn of(view: &View) -> Self {
        let refused = view.refusals().map(|(life, reason)| (life.uuid, reason.to_owned()));
        let drains = view.map.as_ref().map(|seen| drains(&seen.map, view));
        let unreached = view.map.as_ref().map(|seen| unreached(&seen.map, view));
        let encryption = view.map.as_ref().map(|seen| view.encryption(&seen.map));
        let fabrics = view.map.as_ref().map(|seen| view.fabrics(&seen.map));
        Self {
            map: view.map.as_ref().map(|seen| seen.map.clone()),
            bad_map: view.bad_map.clone(),
            leader: view.leading.map(|leading| leading.life.uuid),
            present: view.members().into_iter().map(|member| member.uuid).collect(),
            refused: refused.collect(),
            alarm: view.alarm.clone(),
            drains: drains.unwrap_or_default(),
            unreached: unreached.unwrap_or_default(),
            encryption: encryption.unwrap_or_default(),
            fabrics: fabrics.unwrap_or_default(),
        }
    }

    /// Whether a node of the pool was ever there.
    pub fn is_pool(&self) -> bool {
        self.map.is_some() || self.bad_map.is_some() || !self.present.is_empty()
    }

    /// The pool as a whole.
    pub fn status(&self) -> PoolStatus {
        let empty = Map::default();
        let map = self.map.as_deref().unwrap_or(&empty);
        let nodes = |is: &dyn Fn(NodeState) -> bool| {
            map.nodes().filter(|(_, node)| is(self.state(node))).count() as u32
        };
        let groups = |is: &dyn Fn(&Group) -> bool| {
            map.groups().filter(|(_, group)| is(group)).count() as u32
        };
        let is_live = |slot: &Slot| map.node(*slot).is_some_and(|node| self.state(node).is_live());
        let refused = self
            .refused
            .iter()
            .map(|(uuid, reason)| RefusedNode { uuid: uuid.to_string(), reason: reason.clone() });
        PoolStatus {
            epoch: map.epoch().0,
            leader: self
                .leader
                .and_then(|uuid| Some(map.node(map.slot_of(uuid)?)?.member.name.clone())),
            nodes_live: nodes(&NodeState::is_live),
            nodes_down: nodes(&|state| state == NodeState::Down),
            nodes_out: nodes(&|state| state == NodeState::Out),
            nodes_draining: nodes(&|state| state == NodeState::Draining),
            groups: map.groups().count() as u32,
            groups_settled: groups(&|group| !group.acting.is_empty() && group.is_settled()),
            groups_dead: groups(&|group| {
                !group.in_sync().is_empty() && !group.in_sync().iter().any(is_live)
            }),
            alarm: self.alarm.clone(),
            bad_map: self.bad_map.clone(),
            refused: refused.collect(),
            unreached: self.unreached_names().take(UNREACHED_MAX).collect(),
            waited_for: self.waited_for(map).take(WAITED_FOR_MAX).collect(),
            logs_failed: logs_failed(map).take(WAITED_FOR_MAX).collect(),
        }
    }

    /// The nodes without a lease that groups need to be complete, and how many groups need each.
    fn waited_for<'a>(&self, map: &'a Map) -> impl Iterator<Item = (String, u32)> + use<'a> {
        let states: BTreeMap<Slot, NodeState> =
            map.nodes().map(|(slot, node)| (slot, self.state(node))).collect();
        let is = |slot: &Slot, state| states.get(slot) == Some(&state);
        let is_live = |slot: &&Slot| states.get(*slot).is_some_and(|state| state.is_live());
        let mut groups: BTreeMap<Slot, u32> = BTreeMap::new();
        for (_, group) in map.groups() {
            let in_sync = group.in_sync();
            let wanted: Vec<Slot> = match in_sync.iter().find(is_live) {
                // It only has to give its records to the others.
                Some(_) => continue,
                // The last nodes that had all records.
                None if !in_sync.is_empty() => in_sync.to_vec(),
                // No node has the records: they are made again from the copies on all nodes.
                None if !group.acting.is_empty() => {
                    states.keys().copied().filter(|slot| is(slot, NodeState::Down)).collect()
                }
                None => continue,
            };
            wanted.into_iter().for_each(|slot| *groups.entry(slot).or_default() += 1);
        }
        let name = move |(slot, count)| Some((map.node(slot)?.member.name.clone(), count));
        groups.into_iter().filter_map(name)
    }

    /// The names of nodes that do not reach each other.
    fn unreached_names(&self) -> impl Iterator<Item = (String, String)> {
        let name = |slot| Some(self.map.as_ref()?.node(slot)?.member.name.clone());
        self.unreached.iter().filter_map(move |(a, b)| Some((name(*a)?, name(*b)?)))
    }

    /// Whether a node takes part. While no node leads, the map has nodes as up that are gone.
    fn state(&self, node: &Node) -> NodeState {
        let is_there = !node.is_live() || self.present.contains(&node.member.uuid);
        if is_there { node.state } else { NodeState::Down }
    }

    /// The same, for people: a draining node may be drained.
    fn shown_state(&self, slot: Slot, node: &Node) -> pool_status::NodeState {
        let is_drained = self.drains.get(&slot).is_some_and(Progress::is_drained);
        match state(self.state(node)) {
            pool_status::NodeState::Draining if is_drained => pool_status::NodeState::Drained,
            state => state,
        }
    }

    /// The names of the nodes that a node does not reach, or the first of them.
    fn unreached_by(&self, map: &Map, slot: Slot) -> Vec<String> {
        let other = |(a, b): &(Slot, Slot)| match slot {
            slot if slot == *a => Some(*b),
            slot if slot == *b => Some(*a),
            _ => None,
        };
        let others = self.unreached.iter().filter_map(other);
        let names = others.filter_map(|other| Some(map.node(other)?.member.name.clone()));
        names.take(UNREACHED_MAX).collect()
    }

    /// Its nodes, in the order of their slots.
    pub fn nodes(&self) -> Vec<PoolNode> {
        let empty = Map::default();
        let map = self.map.as_deref().unwrap_or(&empty);
        let node = |(slot, node): (Slot, &Node)| {
            let count = |is: &dyn Fn(&Group) -> bool| {
                map.groups().filter(|(_, group)| is(group)).count() as u32
            };
            PoolNode {
                slot,
                name: node.member.name.clone(),
                state: self.shown_state(slot, node),
                since_epoch: node.since.0,
                drain: node.drain,
                leads: self.leader == Some(node.member.uuid),
                groups_led: count(&|group| group.primary() == Some(slot)),
                groups: count(&|group| group.acting.contains(&slot)),
                groups_complete: count(&|group| group.in_sync().contains(&slot)),
                zone: node.member.zone.clone(),
                weight: node.member.weight,
                addresses: node.member.addresses.clone(),
                left: self.drains.get(&slot).map(left),
                unreached: self.unreached_by(map, slot),
                encryption: self.encryption.get(&slot).map(shown_encryption),
                fabric: self.fabrics.get(&slot).map(shown_fabric),
            }
        };
        map.nodes().map(node).collect()
    }
}

/// The names of nodes whose log has failed.
fn logs_failed(map: &Map) -> impl Iterator<Item = String> {
    let failed = map.nodes().filter(|(_, node)| node.member.log == NodeLog::Failed);
    failed.map(|(_, node)| node.member.name.clone())
}

fn shown_fabric(found: &Fabric) -> NodeFabric {
    let Fabric { providers, refused, closed } = found.clone();
    NodeFabric { providers, refused, closed }
}

fn shown_encryption(found: &Encryption) -> NodeEncryption {
    NodeEncryption { data: found.data, not_after: found.not_after }
}

/// Pairs of nodes that do not reach each other.
fn unreached(map: &Map, view: &View) -> BTreeSet<(Slot, Slot)> {
    let reports = view.reach_reports(map);
    Reach { leader: view.leader(map), reports: &reports }.pairs(map)
}

/// How far every draining node is.
fn drains(map: &Map, view: &View) -> BTreeMap<Slot, Progress> {
    let reports = view.drain_reports(map);
    let of_node = |(slot, _)| Some((slot, progress(map, slot, &reports)?));
    map.nodes().filter_map(of_node).collect()
}

fn left(progress: &Progress) -> DrainLeft {
    let Progress { left, groups, unled, unreported } = progress;
    DrainLeft {
        objects: left.objects,
        bytes: left.bytes,
        last: left.last,
        few_nodes: left.few_nodes,
        no_room: left.no_room,
        unreachable: left.unreachable,
        groups: *groups as u32,
        groups_unled: *unled as u32,
        nodes_unreported: unreported.len() as u32,
    }
}

fn state(state: NodeState) -> pool_status::NodeState {
    match state {
        NodeState::Up => pool_status::NodeState::Up,
        NodeState::Down => pool_status::NodeState::Down,
        NodeState::Out => pool_status::NodeState::Out,
        NodeState::Draining => pool_status::NodeState::Draining,
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
    use plasmon_cluster::{Member, ProtocolRange};

    use super::*;

    fn member(number: u8) -> Member {
        Member {
            uuid: NodeUuid([number; 16]),
            name: format!("n{number}"),
            incarnation: 1,
            boot: 1,
            addresses: vec!["127.0.0.1:1".to_owned()],
            zone: "rack".to_owned(),
            weight: 1,
            log: plasmon_cluster::NodeLog::Absent,
            protocol: ProtocolRange { min: 1, max: 1 },
        }
    }

    fn next(leader: &mut Leader, map: &Map, members: &[Member]) -> Map {
        let (activations, drained, commands) = (&[], &[], &[]);
        let reach = Reach::default();
        let seen = Observation { map, members, activations, drained, commands, reach };
        leader.step(0, &seen).proposal.unwrap()
    }

    #[test]
    fn nodes_and_groups_are_counted_as_the_map_has_them() {
        let mut leader = Leader::new(OUT_AFTER_MS);
        let members = [member(1), member(2), member(3)];
        let map = next(&mut leader, &Map::default(), &members);
        let all = Snapshot {
            map: Some(Arc::new(map.clone())),
            leader: Some(NodeUuid([2; 16])),
            present: members.iter().map(|member| member.uuid).collect(),
            ..Snapshot::default()
        };
        let status = all.status();
        assert_eq!((status.epoch, status.leader.as_deref()), (1, Some("n2")));
        assert_eq!((status.nodes_live, status.nodes_down), (3, 0));
        assert_eq!((status.groups, status.groups_settled, status.groups_dead), (1024, 1024, 0));
        let nodes = all.nodes();
        assert_eq!(nodes.iter().map(|node| node.groups_led).sum::<u32>(), 1024);
        assert!(nodes.iter().all(|node| (node.groups, node.groups_complete) == (1024, 1024)));
        assert_eq!(nodes.iter().map(|node| node.leads).collect::<Vec<_>>(), [false, true, false]);

        let cut = Snapshot { unreached: BTreeSet::from([(Slot(0), Slot(2))]), ..all.clone() };
        let unreached = cut.nodes().into_iter().map(|node| node.unreached).collect::<Vec<_>>();
        assert_eq!(unreached, [vec!["n3".to_owned()], vec![], vec!["n1".to_owned()]]);
        assert_eq!(cut.status().unreached, [("n1".to_owned(), "n3".to_owned())]);

        let found = Encryption { data: true, not_after: 9 };
        let some = Snapshot { encryption: BTreeMap::from([(Slot(1), found)]), ..all.clone() };
        let shown: Vec<_> = some.nodes().into_iter().map(|node| node.encryption).collect();
        assert_eq!(shown, [None, Some(NodeEncryption { data: true, not_after: 9 }), None]);

        let (providers, refused) = ("net".to_owned(), "no card".to_owned());
        let found = Fabric { providers, refused, closed: 1 };
        let some = Snapshot { fabrics: BTreeMap::from([(Slot(2), found)]), ..all.clone() };
        let shown = some.nodes().remove(2).fabric.unwrap();
        assert_eq!(
            (shown.providers, shown.refused, shown.closed),
            ("net".into(), "no card".into(), 1)
        );

        // All are lost, and no node leads that could say so in a map.
        let silent = Snapshot { present: BTreeSet::new(), leader: None, ..all };
        let status = silent.status();
        assert_eq!((status.epoch, status.nodes_live, status.nodes_down), (1, 0, 3));
        assert_eq!(status.groups_dead, 1024);
        assert_eq!(status.waited_for.len(), 3, "no node leads that could say who is left");

        // The map says so: every group waits for the last one that had it.
        let map = next(&mut leader, &map, &[]);
        let lost = Snapshot { map: Some(Arc::new(map)), ..Snapshot::default() };
        let status = lost.status();
        assert_eq!((status.nodes_live, status.nodes_down, status.leader), (0, 3, None));
        assert_eq!(status.groups_dead, 1024);
        let names: Vec<&str> = status.waited_for.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        assert_eq!(lost.nodes()[0].state, pool_status::NodeState::Down);
        assert_eq!(lost.nodes()[0].since_epoch, 2);
    }

    /// The power of all nodes was lost, and one of them is still off.
    #[test]
    fn groups_without_records_wait_for_the_nodes_that_are_down() {
        let mut leader = Leader::new(OUT_AFTER_MS);
        let mut members = [member(1), member(2), member(3), member(4)];
        members[1].log = NodeLog::Failed;
        let map = next(&mut leader, &Map::default(), &members);
        let map = next(&mut leader, &map, &[]);
        let back = members[..3].iter().map(|it| Member { incarnation: 2, ..it.clone() });
        let back: Vec<Member> = back.collect();
        let map = next(&mut leader, &map, &back);
        let present = back.iter().map(|member| member.uuid).collect();
        let found = Snapshot { map: Some(Arc::new(map)), present, ..Snapshot::default() };
        let status = found.status();
        assert_eq!((status.nodes_live, status.nodes_down), (3, 1));
        assert_eq!(status.waited_for, [("n4".to_owned(), 1024)]);
        assert_eq!(status.logs_failed, ["n2"]);
    }

    #[test]
    fn a_name_under_which_nothing_is_is_no_pool() {
        let nothing = Snapshot::default();
        assert!(!nothing.is_pool());
        assert_eq!((nothing.nodes(), nothing.status().groups_dead), (vec![], 0));
    }
}
