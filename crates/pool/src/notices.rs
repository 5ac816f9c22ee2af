//! Births and ends of the named objects of the whole pool, for programs that subscribed here.
//!
//! ```text
//!   a program subscribes ──► Watch to every live node ──► Watching
//!   there: a commit succeeded, or an object that was deleted is dropped
//!       ──► the store says its name ──► Noticed to the nodes that watch ──► once each (seen.rs)
//! ```
//!
//! The node that made an object tells its birth, every node with a copy tells its end, and an end
//! that is heard before its birth waits for it (held.rs). A node is watched over one connection:
//! when that ends, or another start of the node comes into the map, what happened meanwhile is not
//! known, and programs are told that notices were lost: when the watching ends, and once more when
//! it goes on, because the gap is over only then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::event::{Description, Effect};
use crate::limits::{DESCRIBED_MAX, LIST_MS, NOTICES_HELD_MAX, RETRY_MS};
use crate::message::{Message, PoolNotice, QuestionNo};
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

mod held;
mod seen;

use self::held::Held;
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
    /// Answers that wait until the store has said what it was asked before this number.
    answers: VecDeque<(u64, Slot, QuestionNo)>,
    /// Programs that subscribed here, with the time until which they wait for that.
    subscribers: BTreeMap<u64, Option<Mono>>,
    /// The live nodes.
    sources: BTreeMap<Slot, Source>,
    /// The last one that was asked.
    question: QuestionNo,
    retry_due: Option<Mono>,
    held: Held,
    seen: Seen,
}

/// A node that is watched.
#[derive(Clone, Copy, Debug)]
struct Source {
    incarnation: u64,
    is_watched: bool,
    /// Answers to earlier questions may be of a connection that was lost, over which the peer has
    /// forgotten that it is watched.
    first: QuestionNo,
}

impl Notices {
    /// Nothing is told; questions are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            watchers: BTreeSet::new(),
            births: BTreeSet::new(),
            described: BTreeMap::new(),
            next: first,
            answers: VecDeque::new(),
            subscribers: BTreeMap::new(),
            sources: BTreeMap::new(),
            question: QuestionNo(first),
            retry_due: None,
            held: Held::default(),
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
            for slot in std::mem::take(&mut self.sources).into_keys() {
                let question = self.next_question();
                cx.send(slot, Message::Watch { question, on: false });
            }
            self.retry_due = None;
            self.held = Held::default();
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
            let first = QuestionNo(self.question.0.wrapping_add(1));
            self.sources.entry(slot).or_insert(Source { incarnation, is_watched: false, first });
        }
        if after < before {
            self.lost(cx);
            self.give_up(cx);
        }
    }

    fn next_question(&mut self) -> QuestionNo {
        self.question.0 = self.question.0.wrapping_add(1);
        self.question
    }

    fn is_watched(&self, slot: Slot) -> bool {
        self.sources.get(&slot).is_some_and(|source| source.is_watched)
    }

    /// Asks the nodes that are not watched, and those that have not answered for an end that waits,
    /// and looks again after a while.
    fn ask(&mut self, cx: &mut Context<'_>) {
        if self.subscribers.is_empty() {
            return;
        }
        let mut asked = self.held.awaited();
        asked.extend(self.sources.keys().filter(|slot| !self.is_watched(**slot)));
        for slot in asked {
            let question = self.next_question();
            cx.send(slot, Message::Watch { question, on: true });
        }
        let is_complete = !self.sources.is_empty() && self.is_complete() && self.held.is_empty();
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
        source.first = QuestionNo(self.question.0.wrapping_add(1));
        if std::mem::take(&mut source.is_watched) {
            self.lost(cx);
            self.give_up(cx);
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
            // What has happened before is told before.
            self.answers.push_back((self.next, from, question));
            self.answer(cx);
        } else {
            self.watchers.remove(&from);
        }
    }

    /// Answers nodes that watch this one, once what the store was asked before has been told.
    fn answer(&mut self, cx: &mut Context<'_>) {
        let pending = self.described.first_key_value().map(|(number, _)| *number);
        while let Some((before, to, question)) = self.answers.front().copied() {
            if pending.is_some_and(|number| number < before) {
                return;
            }
            self.answers.pop_front();
            if self.watchers.contains(&to) {
                cx.send(to, Message::Watching { question });
            }
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
        if source.incarnation != incarnation || question < source.first {
            return;
        }
        if !std::mem::replace(&mut source.is_watched, true) {
            self.lost(cx);
            self.end_waiting(cx);
        }
        let notices = self.held.answered(slot, question);
        self.tell_programs(cx, notices);
    }

    /// What waits for the answer of a node that is not watched any more is told as it is: programs
    /// have been told that notices were lost.
    fn give_up(&mut self, cx: &mut Context<'_>) {
        let sources = &self.sources;
        let is_watched = |slot| sources.get(&slot).is_some_and(|source| source.is_watched);
        let notices = self.held.give_up(is_watched);
        self.tell_programs(cx, notices);
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
        if let Some(Description { name, data_bytes, metadata_bytes }) = found {
            self.tell(cx, &[PoolNotice { id, birth, name, data_bytes, metadata_bytes, is_born }]);
        }
        self.answer(cx);
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
            self.hear(cx, from, notice);
        }
    }

    /// A node tells of one object.
    fn hear(&mut self, cx: &mut Context<'_>, from: Slot, notice: PoolNotice) {
        let notices = self.held.add(notice);
        let [notice] = notices.as_slice() else { return self.tell_programs(cx, notices) };
        let origin = notice.birth.slot;
        let may_be_early = origin != from && self.is_watched(origin) && self.seen.is_early(notice);
        if !may_be_early {
            return self.tell_programs(cx, notices);
        }
        if self.held.len() >= NOTICES_HELD_MAX {
            self.lost(cx);
            return self.tell_programs(cx, notices);
        }
        let question = self.next_question();
        cx.send(origin, Message::Watch { question, on: true });
        self.held.begin(question, notice.clone());
        self.retry_due.get_or_insert(cx.now.after_ms(RETRY_MS));
    }

    /// Tells the programs here, each life in order and once.
    fn tell_programs(&mut self, cx: &mut Context<'_>, notices: Vec<PoolNotice>) {
        for notice in notices {
            for told in self.seen.take(notice) {
                cx.out.effect(Effect::Notice(told));
            }
        }
    }
}
