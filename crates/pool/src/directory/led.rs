//! A group of ids as its primary has it.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{Epoch, GroupNo, Node, NodeLog, NodeState, Slot};
use plasmon_proto::ObjectId;

use crate::directory::early::EarlyCopies;
use crate::directory::kept::{Kept, Stored};
use crate::message::{CommitOutcome, CopyEntry, Message, QuestionNo};
use crate::record::{Birth, Record, State, Version};
use crate::time::Mono;
use crate::view::Context;

/// How many nodes of a group record what is acknowledged, where the group has so many. Also of an
/// object with one copy, which may be on another node than the primary.
const RECORDED_MIN: usize = 2;

/// What the primary is doing about one object. An object at rest has none.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Nodes that were asked to hold a copy and have not answered.
    pub(super) missing: BTreeSet<Slot>,
    /// Nodes that have refused to.
    pub(super) refused: BTreeSet<Slot>,
    /// After every node refused to hold another copy: when to ask them again.
    pub(super) rest_until: Option<Mono>,
    /// When a node that was asked said last that bytes of its copy come, or that it has it.
    pub(super) moved: Option<Mono>,
    /// Nodes whose copy does not count, and that keep one without being holders.
    pub(super) beyond: BTreeSet<Slot>,
    /// Of an ended object: nodes that may have a copy.
    pub(super) unconfirmed: BTreeSet<Slot>,
    /// Nodes to be told that it was deleted.
    pub(super) deleters: BTreeSet<Slot>,
    /// The record is of an earlier primary, and this one does not know how far that one came.
    pub(super) doubt: bool,
    /// An earlier primary left the record pending: it may have told the origin that the object
    /// exists, so it is not withdrawn for want of nodes or room.
    pub(super) inherited: bool,
    /// Of an ended object: all acting nodes know that it ended.
    pub(super) ended: bool,
    /// Of a withdrawn object: why.
    pub(super) refusal: Option<CommitOutcome>,
}

/// What differed on one node since its group is being verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Copies that it was to keep, and has not.
    pub(super) missing: u64,
    /// Copies of which there is no record.
    pub(super) unrecorded: u64,
}

/// The groups that this node leads.
pub(super) type Groups = BTreeMap<GroupNo, Led>;

/// A group that this node leads.
#[derive(Debug)]
pub(super) struct Led {
    pub(super) no: GroupNo,
    /// The records, and since which map the group has its acting nodes.
    pub(super) kept: Kept,
    /// The node that led the group before and has not said that it stopped.
    pub(super) prior: Option<Slot>,
    /// Whether every node that counted has shown its copies, if the records were ever lost.
    pub(super) complete: bool,
    /// How many acting nodes, from the first on, have every record.
    pub(super) in_sync: usize,
    pub(super) work: BTreeMap<ObjectId, Work>,
    /// Nodes that may have a copy without being holders.
    pub(super) caches: BTreeMap<ObjectId, BTreeSet<Slot>>,
    /// Nodes whose copies are known to be damaged.
    pub(super) damaged: BTreeMap<ObjectId, BTreeSet<Slot>>,
    /// Nodes that have a copy of an object without a record.
    pub(super) early: EarlyCopies,
    /// Nodes that wait for an object to exist.
    pub(super) watchers: BTreeMap<ObjectId, BTreeMap<Slot, QuestionNo>>,
    /// Nodes that have said which copies they have, and since which map they had their state then.
    /// From then on the primary knows of every copy that they get, and may miss that one went.
    pub(super) surveyed: BTreeMap<Slot, Epoch>,
    /// Nodes whose log had failed when they said last which copies they have.
    pub(super) failed_logs: BTreeSet<Slot>,
    /// The pages of an inventory that has more.
    pub(super) pages: BTreeMap<Slot, Vec<CopyEntry>>,
    /// While the group does not know all its objects: copies without a record that no client saw.
    pub(super) hidden: BTreeMap<(ObjectId, Slot), CopyEntry>,
    /// Incarnations whose end logs note, and the nodes that have said so: of records that are dead,
    /// and of all while the group does not know all its objects.
    pub(super) tombstones: BTreeMap<(ObjectId, Birth), BTreeSet<Slot>>,
    /// What inventories have shown to differ, by node.
    pub(super) findings: BTreeMap<Slot, Findings>,
    /// Nodes that know since which map the group has its acting nodes: what they keep is what
    /// this primary had them record.
    pub(super) joined: BTreeSet<Slot>,
    /// What an acting node has not recorded yet.
    unrecorded: BTreeMap<Slot, BTreeSet<ObjectId>>,
    /// Acting nodes that have not recorded which nodes are unheard.
    unheard_unrecorded: BTreeSet<Slot>,
    /// Records that were forgotten, until every acting node has forgotten them.
    erased: BTreeMap<ObjectId, Version>,
    updates: u64,
}

impl Led {
    /// The group that this node begins to lead with these records.
    pub(super) fn new(cx: &Context<'_>, no: GroupNo, kept: Kept) -> Self {
        let group = cx.view.group(no);
        let mut led = Self {
            no,
            kept,
            prior: group.prior,
            complete: group.in_sync > 0,
            in_sync: usize::from(group.in_sync),
            work: BTreeMap::new(),
            caches: BTreeMap::new(),
            damaged: BTreeMap::new(),
            early: EarlyCopies::default(),
            watchers: BTreeMap::new(),
            surveyed: BTreeMap::new(),
            failed_logs: BTreeSet::new(),
            pages: BTreeMap::new(),
            hidden: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            findings: BTreeMap::new(),
            joined: BTreeSet::new(),
            unrecorded: BTreeMap::new(),
            unheard_unrecorded: BTreeSet::new(),
            erased: BTreeMap::new(),
            updates: 0,
        };
        for (id, stored) in &led.kept.records {
            let (missing, doubt) = match stored.record.state {
                State::Pending => (stored.record.holders.iter().copied().collect(), true),
                State::Dead | State::Withdrawn => (BTreeSet::new(), true),
                State::Live | State::Lost => continue,
            };
            let inherited = stored.record.state == State::Pending;
            led.work.insert(*id, Work { missing, doubt, inherited, ..Work::default() });
            for follower in followers(cx, no) {
                led.unrecorded.entry(follower).or_default().insert(*id);
            }
        }
        if led.kept.unheard_version.is_some() {
            led.unheard_unrecorded.extend(followers(cx, no));
        }
        led.catch_up(cx);
        led.note_failed_logs(cx);
        led
    }

    /// Takes the acting nodes of a newer map.
    pub(super) fn renew(&mut self, cx: &Context<'_>) {
        let group = cx.view.group(self.no);
        self.kept.since = group.since;
        self.prior = group.prior;
        self.in_sync = usize::from(group.in_sync).max(usize::from(self.complete));
        self.joined.clear();
        self.unrecorded.retain(|slot, _| group.acting.contains(slot));
        self.unheard_unrecorded.retain(|slot| group.acting.contains(slot));
        let unrecorded = &self.unrecorded;
        self.erased.retain(|id, _| unrecorded.values().any(|ids| ids.contains(id)));
        self.catch_up(cx);
    }

    /// Nodes that join get every record.
    fn catch_up(&mut self, cx: &Context<'_>) {
        for slot in cx.view.group(self.no).acting.iter().skip(self.in_sync.max(1)) {
            self.unrecorded.entry(*slot).or_default().extend(self.kept.records.keys());
            if self.kept.unheard_version.is_some() {
                self.unheard_unrecorded.insert(*slot);
            }
        }
    }

    /// Whether the group's earlier primary has stopped.
    pub(super) fn is_active(&self) -> bool {
        self.prior.is_none()
    }

    /// Whether every object of the group has a record: what has none is absent.
    pub(super) fn knows_all(&self, cx: &Context<'_>) -> bool {
        self.complete && !self.kept.unheard.iter().any(|slot| cx.view.is_live(*slot))
    }

    /// Changes which nodes are unheard, and has the acting nodes record it.
    pub(super) fn set_unheard(&mut self, cx: &mut Context<'_>, unheard: BTreeSet<Slot>) {
        if self.kept.unheard == unheard {
            return;
        }
        self.kept.unheard = unheard;
        self.kept.unheard_version = Some(self.next_version());
        self.unheard_unrecorded = followers(cx, self.no).into_iter().collect();
        self.send_unheard(cx);
    }

    /// Sends the unheard nodes to the acting nodes that have not recorded them; whether there are
    /// some.
    pub(super) fn send_unheard(&self, cx: &mut Context<'_>) -> bool {
        let Some(version) = self.kept.unheard_version else { return false };
        for slot in &self.unheard_unrecorded {
            let (group, since) = (self.no, self.kept.since);
            let nodes = self.kept.unheard.iter().copied().collect();
            cx.send(*slot, Message::Unheard { group, since, version, nodes });
        }
        !self.unheard_unrecorded.is_empty()
    }

    /// An acting node has recorded which nodes are unheard.
    pub(super) fn unheard_recorded(&mut self, from: Slot, version: Version) {
        if self.kept.unheard_version.is_none_or(|current| current <= version) {
            self.unheard_unrecorded.remove(&from);
        }
    }

    pub(super) fn record(&self, id: &ObjectId) -> Option<&Record> {
        self.kept.records.get(id).map(|stored| &stored.record)
    }

    /// The record of an id, if it is of this birth.
    pub(super) fn record_of(&self, id: &ObjectId, birth: Birth) -> Option<&Record> {
        self.record(id).filter(|record| record.birth == birth)
    }

    pub(super) fn is_holder(&self, id: &ObjectId, birth: Birth, slot: Slot) -> bool {
        self.record_of(id, birth).is_some_and(|record| record.holders.contains(&slot))
    }

    /// Whether anything about an object is under way.
    pub(super) fn is_busy(&self, id: &ObjectId) -> bool {
        self.work.contains_key(id) || self.unrecorded.values().any(|ids| ids.contains(id))
    }

    /// Every object that something is under way about.
    pub(super) fn busy(&self) -> BTreeSet<ObjectId> {
        self.work.keys().chain(self.unrecorded.values().flatten()).copied().collect()
    }

    /// Whether this record, as it is here, outlives the loss of as many nodes as the object's
    /// copies do: all acting nodes in sync have it, and the map counts enough of them as in sync.
    /// One that the map does not count cannot lead the group after a loss, whatever it has.
    pub(super) fn is_recorded(&self, cx: &Context<'_>, id: &ObjectId) -> bool {
        let group = cx.view.group(self.no);
        let copies = self.record(id).map_or(0, |record| record.holders.len());
        let mut required = group.acting.iter().take(self.in_sync);
        group.in_sync().len() >= copies.max(RECORDED_MIN).min(group.acting.len())
            && required.all(|slot| {
                self.unrecorded.get(slot).is_none_or(|ids| !ids.contains(id))
                    && !self.unheard_unrecorded.contains(slot)
            })
    }

    /// Whether this record was made by an earlier primary, or for other acting nodes.
    pub(super) fn is_inherited(&self, id: &ObjectId) -> bool {
        self.kept.records.get(id).is_some_and(|stored| stored.version.since < self.kept.since)
    }

    /// Changes a record, and has the acting nodes record it.
    pub(super) fn put(&mut self, cx: &mut Context<'_>, id: ObjectId, record: Record) {
        let version = self.next_version();
        self.erased.remove(&id);
        let early = self.early.take(&id);
        if !early.is_empty() {
            self.caches.entry(id).or_default().extend(early);
        }
        self.kept.records.insert(id, Stored { version, record });
        self.replicate(cx, id);
    }

    /// Forgets a record, and has the acting nodes forget it.
    pub(super) fn erase(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let version = self.next_version();
        self.kept.records.remove(&id);
        self.work.remove(&id);
        self.caches.remove(&id);
        self.damaged.remove(&id);
        if cx.view.group(self.no).acting.len() > 1 {
            self.erased.insert(id, version);
        }
        self.replicate(cx, id);
    }

    fn next_version(&mut self) -> Version {
        self.updates += 1;
        Version { since: self.kept.since, number: self.updates }
    }

    fn replicate(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        for slot in followers(cx, self.no) {
            self.unrecorded.entry(slot).or_default().insert(id);
            self.send_record(cx, slot, id);
        }
    }

    fn send_record(&self, cx: &mut Context<'_>, to: Slot, id: ObjectId) {
        let stored = self.kept.records.get(&id);
        let erased = self.erased.get(&id).copied();
        let Some(version) = stored.map(|stored| stored.version).or(erased) else { return };
        let record = stored.map(|stored| stored.record.clone());
        cx.send(to, Message::Record { since: self.kept.since, id, version, record });
    }

    /// An acting node has recorded a version.
    pub(super) fn recorded(&mut self, from: Slot, id: ObjectId, version: Version) {
        let stored = self.kept.records.get(&id).map(|stored| stored.version);
        if stored.or(self.erased.get(&id).copied()).is_some_and(|current| version < current) {
            return;
        }
        if let Some(ids) = self.unrecorded.get_mut(&from) {
            ids.remove(&id);
        }
        if !self.unrecorded.values().any(|ids| ids.contains(&id)) {
            self.erased.remove(&id);
        }
    }

    /// Sends again what acting nodes have not recorded of this object.
    pub(super) fn send_again(&self, cx: &mut Context<'_>, id: ObjectId) {
        for (slot, _) in self.unrecorded.iter().filter(|(_, ids)| ids.contains(&id)) {
            self.send_record(cx, *slot, id);
        }
    }

    /// How many acting nodes, from the first on, have every record, now that some caught up.
    pub(super) fn count_in_sync(&mut self, cx: &Context<'_>) {
        if !self.complete || !self.is_active() {
            return;
        }
        let acting = &cx.view.group(self.no).acting;
        let caught_up = |slot: &&Slot| {
            self.joined.contains(slot)
                && self.unrecorded.get(slot).is_none_or(BTreeSet::is_empty)
                && !self.unheard_unrecorded.contains(slot)
        };
        let more = acting.iter().skip(self.in_sync.max(1)).take_while(caught_up).count();
        self.in_sync = self.in_sync.max(1) + more;
    }

    /// Whether all acting nodes have every record, and the map does not know it yet.
    pub(super) fn is_unreported(&self, cx: &Context<'_>) -> bool {
        let group = cx.view.group(self.no);
        let is_settled = self.is_active() && self.complete && self.in_sync >= group.acting.len();
        is_settled && !group.is_settled()
    }

    /// Whether the primary knows every copy that this node has.
    pub(super) fn knows_copies_of(&self, cx: &Context<'_>, slot: Slot) -> bool {
        self.surveyed.contains_key(&slot) || cx.view.is_silent(cx.now, slot)
    }

    /// A node that may have copies which the primary does not know of.
    pub(super) fn first_unknown(&self, cx: &Context<'_>) -> Option<Slot> {
        cx.view.map().nodes().map(|(slot, _)| slot).find(|slot| !self.knows_copies_of(cx, *slot))
    }

    /// A node, also one that is out, that may have copies in its log and has not said which.
    pub(super) fn first_unknown_log(&self, cx: &Context<'_>) -> Option<Slot> {
        let is_unknown = |(slot, node): &(Slot, &Node)| {
            let is_known = self.surveyed.contains_key(slot) && !self.failed_logs.contains(slot);
            node.member.log != NodeLog::Absent && !is_known
        };
        cx.view.map().nodes().find(is_unknown).map(|(slot, _)| slot)
    }

    /// Remembers which logs have failed. What such a node ends does not end in its log, so its
    /// copies are known again when it has said, with a log that is open, what is there.
    pub(super) fn note_failed_logs(&mut self, cx: &Context<'_>) {
        let has_failed = |(_, node): &(Slot, &Node)| node.member.log == NodeLog::Failed;
        self.failed_logs.extend(cx.view.map().nodes().filter(has_failed).map(|(slot, _)| slot));
    }

    /// Whether every node that counts has said which copies it has.
    pub(super) fn is_surveyed(&self, cx: &Context<'_>) -> bool {
        let mut nodes = cx.view.map().nodes();
        nodes.all(|(slot, node)| node.state == NodeState::Out || self.surveyed.contains_key(&slot))
    }

    /// The record with those holders alone that have what they are to have for certain. A log that
    /// was closed when its node got a copy does not have it, also after it was opened again: what
    /// is in it is known once the node has said so in its current state.
    pub(super) fn certain(&self, cx: &Context<'_>, record: &Record) -> Record {
        let mut certain = record.clone();
        if record.content.durable.is_some() {
            certain.holders.retain(|slot| {
                let since = cx.view.map().node(*slot).map(|node| node.since);
                self.surveyed.get(slot).copied() == since && !self.failed_logs.contains(slot)
            });
        }
        certain
    }

    /// The live nodes that have not said since they got their state which copies they have, and
    /// those that are joining.
    pub(super) fn unsurveyed(&self, cx: &Context<'_>) -> Vec<Slot> {
        let joining = cx.view.group(self.no).acting.iter().skip(self.in_sync.max(1));
        let joining: Vec<_> = joining.filter(|slot| !self.joined.contains(slot)).collect();
        let live = cx.view.map().nodes().filter(|(_, node)| node.is_live());
        live.filter(|(slot, node)| {
            joining.contains(&slot) || self.surveyed.get(slot) != Some(&node.since)
        })
        .map(|(slot, _)| slot)
        .collect()
    }

    /// What a node said about its copies may be old: its messages may have been lost.
    pub(super) fn survey_again(&mut self, slot: Slot) {
        if let Some(since) = self.surveyed.get_mut(&slot) {
            *since = Epoch(0);
        }
    }

    pub(super) fn caches_of(&self, id: &ObjectId) -> impl Iterator<Item = Slot> {
        self.caches.get(id).into_iter().flatten().copied()
    }

    /// Live nodes that have an object and are not known to have it damaged, holders first.
    pub(super) fn sources(&self, cx: &Context<'_>, id: &ObjectId) -> Vec<Slot> {
        let holders = self.record(id).into_iter().flat_map(|record| record.holders.iter().copied());
        let missing = self.work.get(id).map(|work| &work.missing);
        let has = |slot: &Slot| {
            !missing.is_some_and(|missing| missing.contains(slot)) && !self.is_damaged(id, *slot)
        };
        let known = holders.chain(self.caches_of(id)).filter(has);
        let mut sources = Vec::new();
        for slot in known.filter(|slot| cx.view.is_live(*slot)) {
            if !sources.contains(&slot) {
                sources.push(slot);
            }
        }
        sources
    }
}

/// The acting nodes of a group besides this one.
fn followers(cx: &Context<'_>, no: GroupNo) -> Vec<Slot> {
    let me = cx.view.me();
    cx.view.group(no).acting.iter().copied().filter(|slot| *slot != me).collect()
}
