//! What this node asks primaries to decide: commits of its objects and deletes of its clients.

use std::collections::{BTreeMap, VecDeque};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::config::Config;
use crate::event::{Refusal, Told};
use crate::limits::{COMMITS_ASKED_MAX, IN_USE_MS, RETRY_MS, RETRY_MS_MAX, UNREACHABLE_MS};
use crate::message::{CommitOutcome, Message};
use crate::record::{Birth, Content};
use crate::time::{Mono, Timers};
use crate::view::Context;

/// An object that is complete here and not yet accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) birth: Birth,
    pub(crate) content: Content,
    pub(crate) copies: u8,
    pub(crate) copies_min: u8,
    /// Since when the id has been in use.
    in_use: Option<(Mono, Slot)>,
    /// How often it was asked since a connection was made or a map came.
    asked: u32,
    /// When a primary last said anything about it, and when that bytes of it move.
    heard: Mono,
    moved: Mono,
}

impl Commit {
    pub(crate) fn new(birth: Birth, content: Content, copies: u8, copies_min: u8) -> Self {
        let (heard, moved) = (Mono(0), Mono(0));
        Self { birth, content, copies, copies_min, in_use: None, asked: 0, heard, moved }
    }
}

/// What ended because it took too long.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// Deletes, with their last calls.
    pub(crate) deletes: Vec<(ObjectId, u64)>,
    /// Commits. Whether the objects exist is not known.
    pub(crate) commits: Vec<(ObjectId, Birth)>,
}

#[derive(Clone, Copy, Debug)]
struct Delete {
    birth: Birth,
    /// The last call of the store.
    number: u64,
    deadline: Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Commit(ObjectId),
    Delete(ObjectId),
}

/// The requests of this node that a primary has not answered. They are asked again and again; a
/// primary knows a repeated one by the birth. A client that waits for one is answered in any case:
/// after some time without an answer the request ends as unreachable, and so does a commit that
/// waits for other nodes for long while no byte moves. It may have succeeded or not.
///
/// No client waits for the commit of an object with a home, so there may be any number of them.
/// [`COMMITS_ASKED_MAX`] are asked at a time.
#[derive(Debug)]
pub(crate) struct Requests {
    commits: BTreeMap<ObjectId, Commit>,
    deletes: BTreeMap<ObjectId, Delete>,
    /// Of those that are asked.
    timers: Timers<Key>,
    /// How many commits of objects with a home are asked.
    asked: usize,
    /// Those that are not, in their order. Some are gone.
    waiting: VecDeque<ObjectId>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            commits: BTreeMap::new(),
            deletes: BTreeMap::new(),
            timers: Timers::new(),
            asked: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    pub(crate) fn commit(&mut self, cx: &mut Context<'_>, id: ObjectId, commit: Commit) {
        self.commits.insert(id, Commit { heard: cx.now, moved: cx.now, ..commit });
        let key = Key::Commit(id);
        if id.home().is_some() && self.asked >= COMMITS_ASKED_MAX && !self.timers.has(key) {
            self.waiting.push_back(id);
        } else {
            self.ask(cx, key);
        }
    }

    /// Asks commits that wait, as many as may be asked.
    fn ask_waiting(&mut self, cx: &mut Context<'_>) {
        while self.asked < COMMITS_ASKED_MAX
            && let Some(id) = self.waiting.pop_front()
        {
            let key = Key::Commit(id);
            if self.commits.contains_key(&id) && !self.timers.has(key) {
                self.ask(cx, key);
            }
        }
    }

    pub(crate) fn delete(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth, number: u64) {
        // The answer to an earlier call may be older than what a later one has seen.
        if self.deletes.get(&id).is_some_and(|delete| delete.number > number) {
            return;
        }
        let deadline = cx.now.after_ms(UNREACHABLE_MS);
        self.deletes.insert(id, Delete { birth, number, deadline });
        self.ask(cx, Key::Delete(id));
    }

    /// Whether an object of this node waits to be accepted.
    pub(crate) fn has_commit(&self, id: &ObjectId) -> bool {
        self.commits.contains_key(id)
    }

    /// The commits of ids with a home, which clients of this node see already.
    pub(crate) fn homed_commits(&self) -> impl Iterator<Item = &Commit> {
        self.commits.iter().filter(|(id, _)| id.home().is_some()).map(|(_, commit)| commit)
    }

    /// Gives up the commit of this incarnation, if it is under way.
    pub(crate) fn end_commit(&mut self, id: ObjectId, birth: Birth) -> bool {
        let found = self.commits.get(&id).is_some_and(|commit| commit.birth == birth);
        if found {
            self.commits.remove(&id);
            let key = Key::Commit(id);
            if id.home().is_some() && self.timers.has(key) {
                self.asked -= 1;
            }
            self.timers.clear(key);
        }
        found
    }

    /// The commits of ids that any node may make.
    pub(crate) fn free_commits(&self) -> Vec<(ObjectId, Birth)> {
        let free = self.commits.iter().filter(|(id, _)| id.home().is_none());
        free.map(|(id, commit)| (*id, commit.birth)).collect()
    }

    fn ask(&mut self, cx: &mut Context<'_>, key: Key) {
        match key {
            Key::Commit(id) => {
                let Some(commit) = self.commits.get_mut(&id) else { return };
                let Commit { birth, content, copies, copies_min, asked, .. } = *commit;
                commit.asked = asked.saturating_add(1);
                let mut again_ms = RETRY_MS;
                if id.home().is_some() {
                    again_ms = (RETRY_MS << asked.min(8)).min(RETRY_MS_MAX);
                    self.asked += usize::from(!self.timers.has(key));
                }
                self.timers.set(key, cx.now.after_ms(again_ms));
                let message = Message::Commit { id, birth, content, copies, copies_min };
                cx.send_to_primary(&id, message);
            }
            Key::Delete(id) => {
                self.timers.set(key, cx.now.after_ms(RETRY_MS));
                if let Some(delete) = self.deletes.get(&id) {
                    cx.send_to_primary(&id, Message::Delete { id, birth: delete.birth });
                }
            }
        }
    }

    /// Asks everything again: another node may be the primary, or a connection was made.
    pub(crate) fn ask_all(&mut self, cx: &mut Context<'_>) {
        self.commits.values_mut().for_each(|commit| commit.asked = 0);
        let commits = self.commits.keys().map(|id| Key::Commit(*id));
        let commits = commits.filter(|key| self.timers.has(*key));
        let keys: Vec<_> = commits.chain(self.deletes.keys().map(|id| Key::Delete(*id))).collect();
        for key in keys {
            self.ask(cx, key);
        }
    }

    /// Asks again what is due; what ended because it took too long.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) -> Overdue {
        let mut overdue = Overdue::default();
        while let Some(key) = self.timers.pop(cx.now) {
            match key {
                Key::Delete(id) if self.deletes.get(&id).is_some_and(|d| d.deadline <= cx.now) => {
                    if let Some(Delete { number, .. }) = self.deletes.remove(&id) {
                        cx.out.tell(Told::DeleteUnreachable { id, number });
                        overdue.deletes.push((id, number));
                    }
                }
                Key::Commit(id) if self.is_overdue(cx, &id) => {
                    let commit = self.commits.remove(&id);
                    overdue.commits.extend(commit.map(|commit| (id, commit.birth)));
                }
                Key::Commit(id) => {
                    self.asked -= usize::from(id.home().is_some());
                    self.ask(cx, key);
                }
                Key::Delete(_) => self.ask(cx, key),
            }
        }
        self.ask_waiting(cx);
        overdue
    }

    /// Whether a commit has waited long enough. An object with a home exists in any case, and no
    /// client waits for its commit.
    fn is_overdue(&self, cx: &Context<'_>, id: &ObjectId) -> bool {
        let Some(Commit { heard, moved, .. }) = self.commits.get(id) else { return false };
        let Config { commit_unheard_ms, commit_stuck_ms, .. } = cx.view.config;
        id.home().is_none()
            && (heard.after_ms(commit_unheard_ms) <= cx.now
                || moved.after_ms(commit_stuck_ms) <= cx.now)
    }

    /// A primary has deleted an incarnation; the last call that this answers.
    pub(crate) fn deleted(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        birth: Birth,
    ) -> Option<u64> {
        let delete = self.deletes.get(&id);
        let delete = delete.filter(|delete| cx.view.is_same(delete.birth, birth));
        let number = delete?.number;
        self.deletes.remove(&id);
        self.timers.clear(Key::Delete(id));
        cx.out.tell(Told::Deleted { id, number });
        Some(number)
    }

    /// A primary has decided about a commit; the result once it is final.
    pub(crate) fn committed(
        &mut self,
        cx: &Context<'_>,
        id: ObjectId,
        birth: Birth,
        outcome: CommitOutcome,
    ) -> Option<(Birth, Result<(), Refusal>)> {
        let commit = self.commits.get_mut(&id);
        let commit = commit.filter(|commit| cx.view.is_same(commit.birth, birth))?;
        commit.heard = cx.now;
        let result = match outcome {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Waiting => return None,
            CommitOutcome::Moving => {
                commit.moved = cx.now;
                return None;
            }
            CommitOutcome::Exists => Err(Refusal::Exists),
            CommitOutcome::NotEnoughNodes => Err(Refusal::NotEnoughNodes),
            CommitOutcome::NotEnoughLogs => Err(Refusal::NotEnoughLogs),
            CommitOutcome::StoreFull => Err(Refusal::StoreFull),
            CommitOutcome::InUse(slot) => {
                let (since, _) = *commit.in_use.get_or_insert((cx.now, slot));
                if cx.now < since.after_ms(IN_USE_MS) {
                    return None;
                }
                Err(Refusal::InUse(slot))
            }
        };
        let birth = commit.birth;
        self.end_commit(id, birth);
        Some((birth, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::outbox::Outbox;
    use crate::view::View;

    fn id(number: usize, home: Option<u16>) -> ObjectId {
        let mut identity = [0; 12];
        identity[..8].copy_from_slice(&(number as u64).to_be_bytes());
        ObjectId::pooled(identity, home)
    }

    fn asked_again(requests: &mut Requests, cx: &mut Context<'_>) -> u32 {
        requests.time_passed(cx);
        requests.commits[&id(0, Some(0))].asked
    }

    #[test]
    fn commits_of_objects_with_a_home_are_asked_in_turn() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 30));
        let (mut out, mut requests) = (Outbox::default(), Requests::new());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let birth = Birth { slot: Slot(0), boot: 1, serial: 0 };
        let commit = Commit::new(birth, Content::default(), 1, 1);
        for number in 0..COMMITS_ASKED_MAX + 3 {
            requests.commit(cx, id(number, Some(0)), commit);
        }
        let is_asked =
            |requests: &Requests, number| requests.timers.has(Key::Commit(id(number, Some(0))));
        assert!(is_asked(&requests, COMMITS_ASKED_MAX - 1));
        assert!(!is_asked(&requests, COMMITS_ASKED_MAX), "it waits for its turn");
        assert!(requests.has_commit(&id(COMMITS_ASKED_MAX, Some(0))), "and is not forgotten");
        requests.commit(cx, id(7, None), commit);
        assert!(requests.timers.has(Key::Commit(id(7, None))), "a client waits for this one");

        // One that waits ends, and one that is asked: the next has its turn.
        assert!(requests.end_commit(id(COMMITS_ASKED_MAX, Some(0)), birth));
        assert!(requests.end_commit(id(5, Some(0)), birth));
        requests.time_passed(cx);
        assert!(is_asked(&requests, COMMITS_ASKED_MAX + 1));
        assert!(!is_asked(&requests, COMMITS_ASKED_MAX + 2));
        assert_eq!(requests.asked, COMMITS_ASKED_MAX);
    }

    #[test]
    fn commits_of_objects_with_a_home_are_asked_again_less_and_less_often() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 30));
        let (mut out, mut requests) = (Outbox::default(), Requests::new());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        let birth = Birth { slot: Slot(0), boot: 1, serial: 0 };
        requests.commit(cx, id(0, Some(0)), Commit::new(birth, Content::default(), 1, 1));
        for (at_ms, asked) in [(199, 1), (200, 2), (599, 2), (600, 3), (1_400, 4), (3_000, 5)] {
            cx.now = Mono(at_ms * 1000);
            assert_eq!(asked_again(&mut requests, cx), asked, "after {at_ms} ms");
        }
        cx.now = Mono(4_599_000);
        assert_eq!(asked_again(&mut requests, cx), 5);
        cx.now = Mono(4_600_000);
        assert_eq!(asked_again(&mut requests, cx), 6, "and no less often than that");
        requests.ask_all(cx);
        assert_eq!(requests.commits[&id(0, Some(0))].asked, 1, "a connection was made");
        assert_eq!(requests.asked, 1);
    }
}
