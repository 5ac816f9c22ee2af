//! What a node knows of the pool: the map, its lease and the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::map::Group;
use plasmon_cluster::{Epoch, GroupNo, Map, NodeLog, NodeState, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::config::{Config, Mutation};
use crate::limits::ISOLATED_MARGIN_MS;
use crate::message::Message;
use crate::outbox::Outbox;
use crate::record::{Birth, Content};
use crate::time::Mono;

/// The pool as one node sees it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) config: Config,
    map: Arc<Map>,
    lease_until: Mono,
    /// After a lost lease the map may be old.
    map_wanted: bool,
    /// The memory that each node can take.
    free_bytes: BTreeMap<Slot, u64>,
    /// Since when this node has seen others without their leases.
    down_since: BTreeMap<Slot, Mono>,
    /// Whether a node drains, or shall when it is back.
    has_drains: bool,
    /// Incarnations whose end the log of this node notes.
    tombstones: BTreeSet<(ObjectId, Birth)>,
}

impl View {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            map: Arc::new(Map::default()),
            lease_until: Mono(0),
            map_wanted: true,
            free_bytes: BTreeMap::new(),
            down_since: BTreeMap::new(),
            has_drains: false,
            tombstones: BTreeSet::new(),
        }
    }

    pub(crate) fn me(&self) -> Slot {
        self.config.slot
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.epoch()
    }

    /// Takes a map; false when it is not newer.
    pub(crate) fn set_map(&mut self, now: Mono, map: Arc<Map>) -> bool {
        self.map_wanted &= map.epoch() < self.map.epoch();
        if map.epoch() <= self.map.epoch() {
            return false;
        }
        self.map = map;
        self.has_drains = self.map.nodes().any(|(_, node)| node.drain);
        self.free_bytes = self.map.nodes().map(|(slot, _)| (slot, u64::MAX)).collect();
        for (slot, node) in self.map.nodes() {
            if node.is_live() {
                self.down_since.remove(&slot);
            } else {
                self.down_since.entry(slot).or_insert(now);
            }
        }
        true
    }

    pub(crate) fn set_lease(&mut self, until: Mono) {
        self.lease_until = until;
    }

    pub(crate) fn lose_lease(&mut self) {
        self.lease_until = Mono(0);
        self.map_wanted = true;
    }

    /// Whether the map knows this start of this node, live or not: until it counts the node out of
    /// its groups, the records are kept for its return.
    pub(crate) fn is_known(&self) -> bool {
        let node = self.map.node(self.config.slot);
        node.is_some_and(|node| node.member.incarnation == self.config.incarnation)
    }

    /// Whether the map counts this start of this node among the live nodes.
    pub(crate) fn is_member(&self) -> bool {
        self.map.node(self.config.slot).is_some_and(|node| {
            node.is_live() && node.member.incarnation == self.config.incarnation
        })
    }

    /// Whether this node may answer and commit for the groups that it leads.
    pub(crate) fn may_decide(&self, now: Mono) -> bool {
        self.holds_lease(now) || self.config.breaks(Mutation::DecideWithoutLease)
    }

    /// Whether the lease is held for certain, and the map is not older than it.
    pub(crate) fn holds_lease(&self, now: Mono) -> bool {
        now < self.lease_until && !self.map_wanted && self.is_member()
    }

    /// Whether another node's message about the directory is of its current life in the map.
    pub(crate) fn accepts(&self, from: Slot, incarnation: u64, epoch: Epoch) -> bool {
        self.map.node(from).is_some_and(|node| {
            node.is_live() && node.member.incarnation == incarnation && epoch >= node.since
        })
    }

    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        self.map.is_live(slot)
    }

    pub(crate) fn is_out(&self, slot: Slot) -> bool {
        self.map.node(slot).is_none_or(|node| node.state == NodeState::Out)
    }

    /// Whether the map has a node in a slot.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.map.node(slot).is_some()
    }

    /// Whether a copy on a node counts as one that the pool keeps: it does not drain, and has a
    /// weight.
    pub(crate) fn counts(&self, slot: Slot) -> bool {
        self.map.node(slot).is_none_or(|node| !node.drain && node.member.weight > 0)
    }

    /// Whether a node has a log that takes durable copies.
    pub(crate) fn has_log(&self, slot: Slot) -> bool {
        self.map.node(slot).is_some_and(|node| node.member.log == NodeLog::Open)
    }

    /// Whether a copy that this node keeps is to be in its log. One that does not count anywhere is
    /// not: of an object that is spread the copy of its creator's node.
    pub(crate) fn logs(&self, birth: Birth, content: &Content) -> bool {
        let is_counted = content.keeping != Keeping::Spread || birth.slot != self.me();
        content.durable.is_some() && is_counted && self.has_log(self.me())
    }

    /// Whether the log of this node notes the end of an incarnation.
    pub(crate) fn has_tombstone(&self, id: &ObjectId, birth: Birth) -> bool {
        self.tombstones.contains(&(*id, birth))
    }

    /// The ends that it notes.
    pub(crate) fn tombstones(&self) -> impl Iterator<Item = (ObjectId, Birth)> + '_ {
        self.tombstones.iter().copied()
    }

    /// It notes this one, too.
    pub(crate) fn add_tombstone(&mut self, id: ObjectId, birth: Birth) {
        self.tombstones.insert((id, birth));
    }

    /// It does not note this one any more.
    pub(crate) fn remove_tombstone(&mut self, id: &ObjectId, birth: Birth) {
        self.tombstones.remove(&(*id, birth));
    }

    /// Whether a node drains, or shall when it is back.
    pub(crate) fn has_drains(&self) -> bool {
        self.has_drains
    }

    /// Whether the node that made an incarnation counts and has not lost its store since.
    pub(crate) fn has_store_of(&self, birth: Birth) -> bool {
        let origin = self.map.node(birth.slot);
        origin.is_some_and(|node| node.state != NodeState::Out && node.member.boot == birth.boot)
    }

    /// Whether a node has been without its lease for so long that it shows no copy any more: the
    /// map says so, or this node has itself seen it away for that long.
    pub(crate) fn is_silent(&self, now: Mono, slot: Slot) -> bool {
        let silent_ms = self.config.isolated_serve_ms.saturating_add(ISOLATED_MARGIN_MS);
        let Some(node) = self.map.node(slot) else { return true };
        let is_past = |since: &Mono| since.after_ms(silent_ms) <= now;
        node.silent || self.down_since.get(&slot).is_some_and(is_past)
    }

    pub(crate) fn group(&self, group: GroupNo) -> &Group {
        self.map.group(group)
    }

    pub(crate) fn free_bytes(&self) -> &BTreeMap<Slot, u64> {
        &self.free_bytes
    }

    /// Whether two births are one.
    pub(crate) fn is_same(&self, birth: Birth, other: Birth) -> bool {
        birth == other || self.config.breaks(Mutation::IgnoreBirths)
    }

    /// Those of these groups that this node knows not to lead since this map.
    pub(crate) fn not_led(&self, groups: &[(GroupNo, Epoch)]) -> Vec<(GroupNo, Epoch)> {
        let is_not_led = |(no, since): &&(GroupNo, Epoch)| {
            let group = self.group(*no);
            group.since >= *since && group.primary() != Some(self.me())
        };
        groups.iter().filter(is_not_led).copied().collect()
    }

    /// The primary of an id.
    pub(crate) fn primary_of(&self, id: &ObjectId) -> Option<Slot> {
        self.map.primary(Map::group_of(id))
    }
}

/// What the parts of a node share within one step.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Mono,
    pub(crate) view: &'a View,
    pub(crate) out: &'a mut Outbox,
}

impl Context<'_> {
    pub(crate) fn send(&mut self, to: Slot, message: Message) {
        if to == self.view.me() {
            self.out.to_self.push_back(message);
        } else {
            self.out.remote.entry(to).or_default().push(message);
        }
    }

    /// Sends to the primary of an id, where it has one.
    pub(crate) fn send_to_primary(&mut self, id: &ObjectId, message: Message) {
        if let Some(primary) = self.view.primary_of(id) {
            self.send(primary, message);
        }
    }
}
