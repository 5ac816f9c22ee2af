//! The map of the pool: its nodes, and the nodes that keep the records of each group of ids.
//!
//! A map is a value. The leader proposes the next one as a whole, etcd keeps the current one under
//! one key, and every message between nodes names the epoch of the map that its sender knows.
//!
//! ```text
//!              ids % 1024 (mixed)           acting: 2, 7, 4      the first one leads
//!   ObjectId ------------------> GroupNo -> in_sync: 2           7 has every record, 4 not yet
//!                                           prior: none          every earlier primary is known
//!                                           since: epoch 12      to have stopped
//! ```
//!
//! A group is *settled* when all acting nodes are in sync and no earlier primary has to be asked.
//! The leader moves a settled group at will, and any other one only because a node is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plasmon_proto::ObjectId;
use serde::{Deserialize, Serialize};

use crate::limits::{ACTING_MAX, GROUPS, NODES_MAX};
use crate::node::{BadMember, Epoch, Node, NodeState, NodeUuid, Slot};

/// The number of a group of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct GroupNo(u16);

impl GroupNo {
    /// The group with this number, `None` where there is none.
    pub fn new(number: u16) -> Option<Self> {
        (usize::from(number) < GROUPS).then_some(Self(number))
    }

    /// The group of an object.
    ///
    /// The rule is part of the protocol: all nodes and all versions agree on it.
    pub fn of(id: &ObjectId) -> Self {
        let [first, second, third] = id.words();
        let word = mix(first ^ mix(second ^ mix(third)));
        Self((word % GROUPS as u64) as u16)
    }

    /// All groups, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..GROUPS as u16).map(Self)
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for GroupNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<GroupNo> for u16 {
    fn from(group: GroupNo) -> Self {
        group.0
    }
}

impl TryFrom<u16> for GroupNo {
    type Error = BadGroupNo;

    fn try_from(found: u16) -> Result<Self, BadGroupNo> {
        Self::new(found).ok_or(BadGroupNo { found })
    }
}

/// A number that is not that of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {GROUPS} groups, and no group {found}")]
pub struct BadGroupNo {
    /// The number.
    pub found: u16,
}

/// Scrambles a word, the same on every machine: SplitMix64's finalizer after one step, so that 0
/// is scrambled, too.
pub(crate) fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The nodes that keep the records of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Up to three nodes; the first is the primary. Empty in a pool in which no node may have
    /// groups.
    pub acting: Vec<Slot>,
    /// How many of them, from the first on, have every record of the group. The others get the
    /// records from the primary, which reports when they have them. With 0 all records are lost:
    /// the primary rebuilds them from the inventories of all nodes, and then reports.
    pub in_sync: u8,
    /// The node that led the group before and still holds its lease: the primary does nothing
    /// before that node has answered in an epoch of `since` or later. Gone once the primary has
    /// reported, or the node has lost its lease.
    pub prior: Option<Slot>,
    /// The map in which `acting` got its value, or a node of it its incarnation.
    pub since: Epoch,
}

impl Group {
    /// The node that leads the group.
    pub fn primary(&self) -> Option<Slot> {
        self.acting.first().copied()
    }

    /// The acting nodes that have every record.
    pub fn in_sync(&self) -> &[Slot] {
        self.acting.get(..usize::from(self.in_sync)).unwrap_or(&self.acting)
    }

    /// The acting nodes that do not have every record yet.
    pub fn joining(&self) -> &[Slot] {
        self.acting.get(usize::from(self.in_sync)..).unwrap_or(&[])
    }

    /// Whether all acting nodes have every record and no earlier primary has to be asked.
    pub fn is_settled(&self) -> bool {
        self.joining().is_empty() && self.prior.is_none()
    }
}

/// The map of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub(crate) epoch: Epoch,
    pub(crate) nodes: BTreeMap<Slot, Node>,
    /// One for each [`GroupNo`].
    pub(crate) groups: Vec<Group>,
    pub(crate) next_slot: Slot,
}

impl Default for Map {
    fn default() -> Self {
        let groups = vec![Group::default(); GROUPS];
        Self { epoch: Epoch(0), nodes: BTreeMap::new(), groups, next_slot: Slot(0) }
    }
}

impl Map {
    /// A map of these parts; `groups` has one entry for each group, in order, and `next_slot` is
    /// above the slot of every node.
    pub fn new(
        epoch: Epoch,
        nodes: BTreeMap<Slot, Node>,
        groups: Vec<Group>,
        next_slot: Slot,
    ) -> Result<Self, BadMap> {
        let map = Self { epoch, nodes, groups, next_slot };
        map.check()?;
        Ok(map)
    }

    /// The group of an object.
    pub fn group_of(id: &ObjectId) -> GroupNo {
        GroupNo::of(id)
    }

    /// The number of the map.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The slot that the next new node gets.
    pub fn next_slot(&self) -> Slot {
        self.next_slot
    }

    /// All nodes, in the order of their slots.
    pub fn nodes(&self) -> impl Iterator<Item = (Slot, &Node)> {
        self.nodes.iter().map(|(slot, node)| (*slot, node))
    }

    /// The node in a slot.
    pub fn node(&self, slot: Slot) -> Option<&Node> {
        self.nodes.get(&slot)
    }

    /// The slot of a node.
    pub fn slot_of(&self, uuid: NodeUuid) -> Option<Slot> {
        self.nodes().find(|(_, node)| node.member.uuid == uuid).map(|(slot, _)| slot)
    }

    /// Whether the node in a slot is there and holds its lease.
    pub fn is_live(&self, slot: Slot) -> bool {
        self.node(slot).is_some_and(Node::is_live)
    }

    /// All groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = (GroupNo, &Group)> {
        GroupNo::all().zip(&self.groups)
    }

    /// The nodes of one group.
    pub fn group(&self, group: GroupNo) -> &Group {
        &self.groups[group.index()]
    }

    /// The node that leads a group.
    pub fn primary(&self, group: GroupNo) -> Option<Slot> {
        self.group(group).primary()
    }

    /// The nodes that keep the records of a group, the primary first.
    pub fn acting(&self, group: GroupNo) -> &[Slot] {
        &self.group(group).acting
    }

    /// The highest version of the protocol that every node speaks that is not out; features of
    /// later versions are not used. `None` without nodes.
    pub fn protocol(&self) -> Option<u16> {
        self.counted().map(|node| node.member.protocol.max).min()
    }

    /// The nodes that are not out.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.state != NodeState::Out)
    }

    /// Checks everything that the methods rely on.
    pub(crate) fn check(&self) -> Result<(), BadMap> {
        if self.nodes.len() > NODES_MAX {
            return Err(BadMap::Nodes { found: self.nodes.len() });
        }
        if self.groups.len() != GROUPS {
            return Err(BadMap::Groups { found: self.groups.len() });
        }
        if self.nodes.last_key_value().is_some_and(|(last, _)| *last >= self.next_slot) {
            return Err(BadMap::NextSlot { found: self.next_slot });
        }
        let mut uuids = BTreeSet::new();
        for (slot, node) in &self.nodes {
            node.member.check().map_err(|problem| BadMap::Member { slot: *slot, problem })?;
            if !uuids.insert(node.member.uuid) {
                return Err(BadMap::Uuid { uuid: node.member.uuid });
            }
            if node.silent && node.is_live() {
                return Err(BadMap::Silent { slot: *slot });
            }
            if node.since > self.epoch {
                return Err(BadMap::Since { found: node.since, epoch: self.epoch });
            }
        }
        let mut names = BTreeSet::new();
        if let Some(node) = self.counted().find(|node| !names.insert(&node.member.name)) {
            return Err(BadMap::Name { name: node.member.name.clone() });
        }
        self.groups().try_for_each(|(number, group)| self.check_group(number, group))
    }

    fn check_group(&self, number: GroupNo, group: &Group) -> Result<(), BadMap> {
        let wrong = |problem| BadMap::Group { number, problem };
        let acting = &group.acting;
        if acting.len() > ACTING_MAX {
            return Err(wrong("too many acting nodes"));
        }
        if acting.iter().any(|slot| !self.nodes.contains_key(slot)) {
            return Err(wrong("an acting node that is not in the map"));
        }
        if (1..acting.len()).any(|at| acting[..at].contains(&acting[at])) {
            return Err(wrong("an acting node twice"));
        }
        if usize::from(group.in_sync) > acting.len() {
            return Err(wrong("more nodes in sync than acting"));
        }
        if let Some(prior) = group.prior
            && (group.primary() == Some(prior) || !self.nodes.contains_key(&prior))
        {
            return Err(wrong("an earlier primary that is in no other slot of the map"));
        }
        if group.since > self.epoch {
            return Err(BadMap::Since { found: group.since, epoch: self.epoch });
        }
        Ok(())
    }
}

/// Why parts are not a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMap {
    /// Too many nodes.
    #[error("a map has {NODES_MAX} nodes at most, found {found}")]
    Nodes {
        /// How many.
        found: usize,
    },
    /// Not one entry for each group.
    #[error("a map has {GROUPS} groups, found {found}")]
    Groups {
        /// How many.
        found: usize,
    },
    /// The slot for the next node is taken.
    #[error("the next slot {found} is not above that of every node")]
    NextSlot {
        /// The slot.
        found: Slot,
    },
    /// A node that breaks a limit.
    #[error("the node in slot {slot}: {problem}")]
    Member {
        /// Where it is.
        slot: Slot,
        /// What is wrong with it.
        problem: BadMember,
    },
    /// A node that is live, and silent as no live node is.
    #[error("the node in slot {slot} is live and silent")]
    Silent {
        /// Where it is.
        slot: Slot,
    },
    /// Two nodes with one identity.
    #[error("two nodes have the uuid {uuid}")]
    Uuid {
        /// The identity.
        uuid: NodeUuid,
    },
    /// Two nodes, neither of them out, with one name.
    #[error("two nodes have the name {name}")]
    Name {
        /// The name.
        name: String,
    },
    /// A group that is invalid.
    #[error("group {number} has {problem}")]
    Group {
        /// Which.
        number: GroupNo,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something that began after the map.
    #[error("epoch {found} in the map of epoch {epoch}")]
    Since {
        /// The epoch found.
        found: Epoch,
        /// The map's own.
        epoch: Epoch,
    },
}

#[cfg(test)]
mod tests;
