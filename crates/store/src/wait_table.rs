//! Requests that wait for objects.
//!
//! A waiter knows for each of its ids whether that is *decided*; when enough are, the store answers
//! it and forgets it. Two kinds of requests wait: `Wait`, which is decided by an object that can be
//! read or has ended, and `Get`, which waits only for spilled objects to come back.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::{ObjectId, ObjectState};

use crate::event::ClientNo;

/// Names a waiter.
pub(crate) type WaiterNo = u64;

/// Which request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// A `Wait`; `beyond_end` goes on when an object ended.
    Wait {
        /// As in the request.
        beyond_end: bool,
    },
    /// A `Get`.
    Get,
    /// A `States`, or a `Wait` that does not wait: what is not known of pooled objects is asked.
    States,
    /// A `Stat`, which asks the same.
    Stat,
}

impl Question {
    /// Whether an object in this state needs no more waiting for.
    pub(crate) fn is_decided_by(self, state: ObjectState) -> bool {
        match (self, state) {
            (Self::States | Self::Stat, _) => true,
            (_, ObjectState::Sealed | ObjectState::Corrupt | ObjectState::Unreachable) => true,
            (_, ObjectState::Spilled | ObjectState::Remote) => false,
            (Self::Get, _) => true,
            (Self::Wait { .. }, ObjectState::Absent | ObjectState::Creating) => false,
            (Self::Wait { beyond_end }, _) => !beyond_end,
        }
    }
}

/// One waiting request.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: ClientNo,
    /// The one that it was asked on: the client may have another by the time of the answer, or its
    /// number may be another client's.
    pub(crate) connection: u64,
    /// The client's user.
    pub(crate) uid: u32,
    pub(crate) request: u64,
    pub(crate) question: Question,
    pub(crate) ids: Vec<ObjectId>,
    pub(crate) decided: Vec<bool>,
    /// How many ids must be decided.
    pub(crate) count: usize,
    pub(crate) deadline_ms: Option<u64>,
    /// The number of its question about pooled objects, 0 without one.
    pub(crate) number: u64,
}

impl Waiter {
    /// Whether it can be answered.
    pub(crate) fn is_done(&self) -> bool {
        self.decided.iter().filter(|decided| **decided).count() >= self.count
    }
}

/// All waiting requests.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    by_no: BTreeMap<WaiterNo, WaitEntry>,
    /// The waiters for an object, and as which of its ids. However many wait for one object, each
    /// is found and forgotten on its own.
    by_id: BTreeSet<(ObjectId, WaiterNo, u32)>,
    deadlines: BTreeSet<(u64, WaiterNo)>,
    /// How many ids each user's clients wait for.
    by_user: BTreeMap<u32, usize>,
    next: WaiterNo,
}

#[derive(Debug)]
struct WaitEntry {
    waiter: Waiter,
    /// How many decisions are missing.
    missing: usize,
}

impl Waits {
    pub(crate) fn len(&self) -> usize {
        self.by_no.len()
    }

    /// Whether no client waits for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_no.is_empty()
    }

    /// How many ids all clients wait for, and how many those of a user do.
    pub(crate) fn ids(&self, uid: u32) -> (usize, usize) {
        (self.by_id.len(), self.by_user.get(&uid).copied().unwrap_or(0))
    }

    /// How many ids a waiter waits for.
    pub(crate) fn ids_of(&self, no: WaiterNo) -> usize {
        self.by_no.get(&no).map_or(0, |waiting| waiting.waiter.ids.len())
    }

    /// Adds a waiter that is not done.
    pub(crate) fn add(&mut self, waiter: Waiter) -> WaiterNo {
        let no = self.next;
        self.next += 1;
        *self.by_user.entry(waiter.uid).or_default() += waiter.ids.len();
        for (index, id) in waiter.ids.iter().enumerate() {
            self.by_id.insert((*id, no, index as u32));
        }
        if let Some(deadline_ms) = waiter.deadline_ms {
            self.deadlines.insert((deadline_ms, no));
        }
        let decided = waiter.decided.iter().filter(|decided| **decided).count();
        let missing = waiter.count.saturating_sub(decided);
        self.by_no.insert(no, WaitEntry { waiter, missing });
        no
    }

    pub(crate) fn remove(&mut self, no: WaiterNo) -> Option<Waiter> {
        let WaitEntry { waiter, .. } = self.by_no.remove(&no)?;
        if let Some(ids) = self.by_user.get_mut(&waiter.uid) {
            *ids -= waiter.ids.len();
            if *ids == 0 {
                self.by_user.remove(&waiter.uid);
            }
        }
        if let Some(deadline_ms) = waiter.deadline_ms {
            self.deadlines.remove(&(deadline_ms, no));
        }
        for (index, id) in waiter.ids.iter().enumerate() {
            self.by_id.remove(&(*id, no, index as u32));
        }
        Some(waiter)
    }

    /// An object entered a state. Returns the waiters that are done now.
    ///
    /// An object that is spilled while a client waits for others along with it stays decided. To
    /// bring it back at once could spill the next one, and so on forever where they do not all
    /// fit.
    pub(crate) fn note(&mut self, id: &ObjectId, state: ObjectState) -> Vec<WaiterNo> {
        if state == ObjectState::Spilled {
            return Vec::new();
        }
        self.decide(id, |waiter| waiter.question.is_decided_by(state))
    }

    /// The pool said what became of an object, to all questions up to this number. Returns the
    /// waiters that are done now.
    pub(crate) fn note_sought(
        &mut self,
        id: &ObjectId,
        number: u64,
        is_decided: impl Fn(Question) -> bool,
    ) -> Vec<WaiterNo> {
        self.decide(id, |waiter| waiter.number <= number && is_decided(waiter.question))
    }

    /// An object will not come back for lack of memory: no client waits for it any more.
    pub(crate) fn give_up(&mut self, id: &ObjectId) -> Vec<WaiterNo> {
        self.decide(id, |_| true)
    }

    /// Whether any request waits for this object.
    pub(crate) fn is_waited_for(&self, id: &ObjectId) -> bool {
        self.by_id.range((*id, 0, 0)..=(*id, WaiterNo::MAX, u32::MAX)).next().is_some()
    }

    /// Whether it is a `Wait` for one object and nothing else.
    pub(crate) fn is_for_one(&self, no: WaiterNo) -> bool {
        self.by_no.get(&no).is_some_and(|WaitEntry { waiter, .. }| {
            waiter.ids.len() == 1 && matches!(waiter.question, Question::Wait { .. })
        })
    }

    fn decide(&mut self, id: &ObjectId, is_decided: impl Fn(&Waiter) -> bool) -> Vec<WaiterNo> {
        let mut done = Vec::new();
        for (_, no, index) in self.by_id.range((*id, 0, 0)..=(*id, WaiterNo::MAX, u32::MAX)) {
            let Some(found) = self.by_no.get_mut(no) else { continue };
            let now = is_decided(&found.waiter);
            let decided = &mut found.waiter.decided[*index as usize];
            match (*decided, now) {
                // An id may stand in a request twice, so a waiter can be done already.
                (false, true) if found.missing > 0 => {
                    found.missing -= 1;
                    if found.missing == 0 {
                        done.push(*no);
                    }
                }
                (true, false) => found.missing += 1,
                _ => {}
            }
            *decided = now;
        }
        done
    }

    /// When the next wait times out.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// A waiter whose time has passed.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<WaiterNo> {
        self.deadlines.first().filter(|(at, _)| *at <= now_ms).map(|(_, no)| *no)
    }
}
