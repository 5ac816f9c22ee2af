//! Births and ends of the named objects of the whole pool, for programs that subscribed here.
//!
//! ```text
//!   a program subscribes ──► Watch to every live node ──► Watching
//!   there: a commit succeeded, or an object that was deleted is dropped
//!       ──► the store says its name ──► Noticed to the nodes that watch ──► once each (seen.rs)
//! ```
//!
//! The node that made an object tells its birth, every node with a copy tells its end. A node is
//! watched over one connection: when that ends, or another start of the node comes into the map,
//! what happened meanwhile is not known, and programs are told that notices were lost: when the
//! watching ends, and once more when it goes on, because the gap is over only then.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::event::{Description, Effect};
use crate::limits::{DESCRIBED_MAX, LIST_MS, RETRY_MS};
use crate::message::{Message, PoolNotice, QuestionNo};
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

mod seen;

use self::seen::Seen;

/// What this node tells of others, and is told by them.
#[derive(Debug)]
pub(crate) struct Notices {
    /// Nodes that watch this one.
    watchers: BTreeSet<Slot>,
    /// Commits of clients that are under way; one that is made again after a restart of the pool
    /// daemon, when the object has been there for long, is no birth.
    births: BTreeSet<ObjectId>,
    /// What the store is asked for, by number: the birth, and whether it is born.
    described: BTreeMap<u64, (ObjectId, Birth, bool)>,
    next: u64,
    /// Programs that subscribed here, with the time until which they wait for that.
    subscribers: BTreeMap<u64, Option<Mono>>,
    /// The live nodes.
    sources: BTreeMap<Slot, Source>,
    question: QuestionNo,
    retry_due: Option<Mono>,
    seen: Seen,
}

/// A node that is watched.
#[derive(Clone, Copy, Debug)]
struct Source {
    incarnation: u64,
    is_watched: bool,
}

impl Notices {
    /// Nothing is told; questions are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            watchers: BTreeSet::new(),
            births: BTreeSet::new(),
            described: BTreeMap::new(),
            next: first,
            subscribers: BTreeMap::new(),
            sources: BTreeMap::new(),
            question: QuestionNo(first),
            retry_due: None,
            seen: Seen::default(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.subscribers.values().flatten().copied().chain(self.retry_due).min()
    }

    /// A program subscribes; [`Effect::Subscribed`] answers once every live node is watched. One
    /// that cannot be watched in time is a gap.
    pub(crate) fn subscribe(&mut self, cx: &mut Context<'_>, number: u64) {
        self.subscribers.insert(number, Some(cx.now.after_ms(LIST_MS)));
        self.look_at_map(cx);
        self.ask(cx);
        self.end_waiting(cx);
    }

    /// A program that subscribed is gone.
    pub(crate) fn unsubscribe(&mut self, cx: &mut Context<'_>, number: u64) {
        self.subscribers.remove(&number);
        if self.subscribers.is_empty() {
            let question = self.question;
            for slot in std::mem::take(&mut self.sources).into_keys() {
                cx.send(slot, Message::Watch { question, on: false });
            }
            self.retry_due = None;
            self.seen.clear();
        }
    }

    /// Which nodes there are to be watched.
    fn look_at_map(&mut self, cx: &mut Context<'_>) {
        if self.subscribers.is_empty() || !cx.view.holds_lease(cx.now) {
            return;
        }
        let live = cx.view.map().nodes().filter(|(_, node)| node.is_live());
        let live: BTreeMap<Slot, u64> =
            live.map(|(slot, node)| (slot, node.member.incarnation)).collect();
        let before = self.sources.values().filter(|source| source.is_watched).count();
        self.sources.retain(|slot, source| live.get(slot) == Some(&source.incarnation));
        let after = self.sources.values().filter(|source| source.is_watched).count();
        for (slot, incarnation) in live {
            self.sources.entry(slot).or_insert(Source { incarnation, is_watched: false });
        }
        if after < before {
            self.lost(cx);
        }
    }

    /// Asks the nodes that are not watched, and looks again after a while.
    fn ask(&mut self, cx: &mut Context<'_>) {
        if self.subscribers.is_empty() {
            return;
        }
        let question = self.question;
        for (slot, _) in self.sources.iter().filter(|(_, source)| !source.is_watched) {
            cx.send(*slot, Message::Watch { question, on: true });
        }
        let is_complete = !self.sources.is_empty() && self.is_complete();
        self.retry_due = (!is_complete).then(|| cx.now.after_ms(RETRY_MS));
    }

    fn is_complete(&self) -> bool {
        self.sources.values().all(|source| source.is_watched)
    }

    /// Programs that do not wait any more for their subscription are told that notices were lost.
    fn lost(&self, cx: &mut Context<'_>) {
        if self.subscribers.values().any(Option::is_none) {
            cx.out.effect(Effect::NoticesLost);
        }
    }

    /// Every node is watched, or a program has waited for long enough.
    fn end_waiting(&mut self, cx: &mut Context<'_>) {
        let is_complete =
            !self.sources.is_empty() && self.is_complete() && cx.view.holds_lease(cx.now);
        let mut is_late = false;
        for (number, deadline) in &mut self.subscribers {
            let is_over = deadline.is_some_and(|deadline| deadline <= cx.now);
            if deadline.is_some() && (is_complete || is_over) {
                *deadline = None;
                is_late |= !is_complete;
                cx.out.effect(Effect::Subscribed { number: *number });
            }
        }
        if is_late {
            self.lost(cx);
        }
    }

    /// The map changed.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        self.look_at_map(cx);
        self.ask(cx);
    }

    /// A connection was made.
    pub(crate) fn link_up(&mut self, cx: &mut Context<'_>) {
        self.ask(cx);
    }

    /// The connection to a node was lost: neither watches the other any more.
    pub(crate) fn link_down(&mut self, cx: &mut Context<'_>, peer: Slot) {
        self.watchers.remove(&peer);
        let Some(source) = self.sources.get_mut(&peer) else { return };
        // Also where no answer came yet: one to a question over this connection may come over the
        // next one, when the peer has already forgotten the question.
        self.question.0 = self.question.0.wrapping_add(1);
        if std::mem::take(&mut source.is_watched) {
            self.lost(cx);
        }
        self.ask(cx);
    }

    /// Asks again, and ends what has waited for long enough.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        if self.retry_due.is_some_and(|due| due <= cx.now) {
            self.look_at_map(cx);
            self.ask(cx);
        }
        if self.subscribers.values().flatten().any(|deadline| *deadline <= cx.now) {
            self.end_waiting(cx);
        }
    }

    /// A node wants to watch this one, or does not any more.
    pub(crate) fn watch(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        question: QuestionNo,
        on: bool,
    ) {
        if on {
            self.watchers.insert(from);
            cx.send(from, Message::Watching { question });
        } else {
            self.watchers.remove(&from);
        }
    }

    /// A node is watched from now on. What happened on it before is not known, unless the programs
    /// here are still waiting for that.
    pub(crate) fn watching(
        &mut self,
        cx: &mut Context<'_>,
        from: (Slot, u64),
        question: QuestionNo,
    ) {
        let (slot, incarnation) = from;
        let Some(source) = self.sources.get_mut(&slot) else { return };
        let is_new = !source.is_watched && source.incarnation == incarnation;
        if !is_new || question != self.question {
            return;
        }
        source.is_watched = true;
        self.lost(cx);
        self.end_waiting(cx);
    }

    /// A client's object is to be committed.
    pub(crate) fn committing(&mut self, id: ObjectId) {
        self.births.insert(id);
    }

    /// A commit ended.
    pub(crate) fn committed(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        birth: Birth,
        is_born: bool,
    ) {
        if self.births.remove(&id) && is_born {
            self.describe(cx, id, birth, true);
        }
    }

    /// A copy of an object that was deleted is about to be dropped.
    pub(crate) fn ended(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
        self.describe(cx, id, birth, false);
    }

    /// Asks the store for the name, if any node wants to know.
    fn describe(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth, is_born: bool) {
        if self.watchers.is_empty() {
            return;
        }
        if self.described.len() >= DESCRIBED_MAX {
            return self.tell(cx, &[]);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.described.insert(number, (id, birth, is_born));
        cx.out.effect(Effect::Describe { number, id, birth });
    }

    /// The store has said what an object is called; `None` if it has no name.
    pub(crate) fn described(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        found: Option<Description>,
    ) {
        let Some((id, birth, is_born)) = self.described.remove(&number) else { return };
        let Some(found) = found else { return };
        let Description { name, data_bytes, metadata_bytes } = found;
        self.tell(cx, &[PoolNotice { id, birth, name, data_bytes, metadata_bytes, is_born }]);
    }

    /// Tells the nodes that watch this one; nothing says that notices were lost.
    fn tell(&self, cx: &mut Context<'_>, notices: &[PoolNotice]) {
        for slot in &self.watchers {
            cx.send(*slot, Message::Noticed { notices: notices.to_vec() });
        }
    }

    /// A node tells something.
    pub(crate) fn noticed(&mut self, cx: &mut Context<'_>, from: Slot, notices: Vec<PoolNotice>) {
        if self.subscribers.is_empty() || !self.sources.contains_key(&from) {
            return;
        }
        if notices.is_empty() {
            return self.lost(cx);
        }
        for notice in notices.into_iter().filter(PoolNotice::is_valid) {
            for told in self.seen.take(notice) {
                cx.out.effect(Effect::Notice(told));
            }
        }
    }
}
