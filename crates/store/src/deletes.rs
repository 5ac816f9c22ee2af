//! Deleting, and waiting for the last reader of what was deleted.
//!
//! Deleting hides an object at once. Its memory is free when no ledger names it any more. Ledgers
//! are looked through for many objects at a time: records of the rings only put theirs into a
//! batch, and what is found pinned is looked for again after a while, and whenever memory is short.
//! The while doubles as long as nothing is found free.

mod collection;

use std::collections::BTreeMap;

use plasmon_proto::Code;
use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::Failure;

use crate::work::{EXAMINED_MAX, PIECE};

/// How long a pinned object is left alone before its pins are counted again, at first.
pub(crate) const RETRY_MS: u64 = 20;

/// How long at most.
pub(crate) const RETRY_MS_MAX: u64 = 640;

/// Objects that may wait to be looked for in the ledgers together.
const FRESH_MAX: usize = PIECE;

/// Deleted objects whose memory is not free yet.
#[derive(Debug, Default)]
pub(crate) struct DeferredFrees {
    /// Records that were not looked for in the ledgers yet.
    fresh: Vec<u32>,
    /// Records by serial that were pinned when they were looked for.
    pinned: BTreeMap<u64, u32>,
    /// From which serial on the pinned ones are looked for next.
    next: u64,
    /// Whether any came free since the first of them was looked for.
    any_freed: bool,
    /// How long they are left alone, and when to look again.
    retry_ms: u64,
    retry_due_ms: Option<u64>,
    /// When to look for the fresh ones. Deleting more must not put the others off.
    fresh_due_ms: Option<u64>,
}

/// Which of the objects that were found pinned are looked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// None.
    None,
    /// Those from this serial on, as many as one event looks for.
    From(u64),
}

impl DeferredFrees {
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.pinned.len()
    }

    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.fresh_due_ms.into_iter().chain(self.retry_due_ms).min()
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms().is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Whether a deleted object of this serial waits for its pins.
    pub(crate) fn is_pinned(&self, serial: u64) -> bool {
        self.pinned.contains_key(&serial)
    }

    /// Whether any were not looked for yet.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// A pin of this serial is gone: it is among the next that are looked for.
    pub(crate) fn look_again(&mut self, serial: u64) {
        if !self.pinned.is_empty()
            && let Some(record) = self.pinned.remove(&serial)
        {
            self.fresh.push(record);
        }
    }

    /// A hidden object of an earlier daemon.
    pub(crate) fn adopt(&mut self, serial: u64, record: u32, now_ms: u64) {
        self.pinned.insert(serial, record);
        self.retry_due_ms = Some(now_ms);
    }

    /// An object was hidden that was not looked for in the ledgers yet.
    pub(crate) fn add(&mut self, record: u32, now_ms: u64) {
        self.fresh.push(record);
        self.fresh_due_ms = Some(now_ms);
    }

    /// It was found pinned, in whatever look: there is a time for the next one.
    fn keep(&mut self, serial: u64, record: u32, now_ms: u64) {
        self.pinned.insert(serial, record);
        self.retry_ms = RETRY_MS;
        let at_ms = now_ms.saturating_add(RETRY_MS);
        self.retry_due_ms = Some(self.retry_due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
    }

    /// The serials that are looked for again.
    fn piece(&self, again: Again) -> Vec<u64> {
        match again {
            Again::None => Vec::new(),
            Again::From(serial) => {
                self.pinned.range(serial..).take(EXAMINED_MAX).map(|(serial, _)| *serial).collect()
            }
        }
    }

    /// A piece of those that are pinned was looked for: the others are due from this serial on.
    fn go_on_from(&mut self, serial: u64, now_ms: u64) {
        self.next = serial;
        self.retry_due_ms = Some(now_ms);
        self.fresh_due_ms = None;
    }

    /// All that are pinned were looked for, or the fresh ones alone: when to look again. What is
    /// left of the fresh ones is the work of the next event.
    fn rest(&mut self, now_ms: u64, round_is_over: bool) {
        if std::mem::take(&mut self.any_freed) {
            self.retry_ms = RETRY_MS;
        }
        let at_ms = now_ms.saturating_add(self.retry_ms.max(RETRY_MS));
        if round_is_over {
            self.retry_ms = (2 * self.retry_ms).clamp(RETRY_MS, RETRY_MS_MAX);
            self.next = 0;
        }
        self.fresh_due_ms = None;
        self.retry_due_ms = match (self.pinned.is_empty(), self.retry_due_ms) {
            (true, _) => None,
            // What is due stays so.
            (false, Some(due_ms)) if !round_is_over => Some(due_ms.min(at_ms)),
            (false, _) => Some(at_ms),
        };
    }
}

/// The failure of a request that names too many objects.
pub(crate) fn too_many_ids(found: usize) -> Failure {
    Failure::of(Code::LimitReached)
        .with_amounts(found as u64, REQUEST_IDS_MAX as u64)
        .with_detail("too many object ids in one request")
}
