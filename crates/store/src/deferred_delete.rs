//! Deleting objects as soon as no client reads them.
//!
//! An ordinary delete takes an object out of sight at once and its memory a little later. This one
//! leaves it as it is, for all clients, until its last pin is gone. Ledgers do not announce the end
//! of a pin, so the store looks again after a while, and before it answers a request about objects.

mod deletion;

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

use crate::deletes::{RETRY_MS, RETRY_MS_MAX};
use crate::work::PIECE;

/// Objects that are deleted when their last reader ends.
#[derive(Debug, Default)]
pub(crate) struct DeferredDeletes {
    by_serial: BTreeMap<u64, ObjectId>,
    by_id: BTreeMap<ObjectId, u64>,
    /// From which serial on they are looked for next.
    next: u64,
    /// Whether any went since the first of them was looked for.
    any_went: bool,
    /// How long they are left alone, and when to look again.
    retry_ms: u64,
    due_ms: Option<u64>,
}

impl DeferredDeletes {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_serial.is_empty()
    }

    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    fn insert(&mut self, serial: u64, id: ObjectId) {
        if let Some(before) = self.by_id.insert(id, serial) {
            self.by_serial.remove(&before);
        }
        self.by_serial.insert(serial, id);
        self.retry_ms = RETRY_MS;
    }

    fn remove(&mut self, serial: u64) {
        if let Some(id) = self.by_serial.remove(&serial)
            && self.by_id.get(&id) == Some(&serial)
        {
            self.by_id.remove(&id);
        }
        if self.is_empty() {
            // Others than the look that is due remove them, too.
            self.due_ms = None;
        }
    }

    /// The object of a serial has another one from now on.
    pub(crate) fn renumber(&mut self, serial: u64, new: u64) {
        if serial != new
            && let Some(id) = self.by_serial.remove(&serial)
        {
            self.by_serial.insert(new, id);
            self.by_id.insert(id, new);
        }
    }

    /// Those of the ids first, then the next ones, a piece in all; and whether that ends a round.
    fn piece(&mut self, ids: &[ObjectId]) -> (BTreeMap<u64, ObjectId>, bool) {
        let asked = ids.iter().filter_map(|id| Some((*self.by_id.get(id)?, *id)));
        let mut piece: BTreeMap<u64, ObjectId> = asked.take(PIECE).collect();
        let mut rest = self.by_serial.range(self.next..);
        while piece.len() < PIECE {
            let Some((serial, id)) = rest.next() else {
                self.next = 0;
                return (piece, true);
            };
            piece.insert(*serial, *id);
            self.next = serial + 1;
        }
        let is_over = rest.next().is_none();
        self.next = if is_over { 0 } else { self.next };
        (piece, is_over)
    }

    /// When to look again.
    fn rest(&mut self, now_ms: u64, round_is_over: bool) {
        if self.is_empty() {
            self.due_ms = None;
        } else if round_is_over {
            let longer = (2 * self.retry_ms).clamp(RETRY_MS, RETRY_MS_MAX);
            let any_went = std::mem::take(&mut self.any_went);
            let retry_ms = if any_went { RETRY_MS } else { self.retry_ms.max(RETRY_MS) };
            self.retry_ms = if any_went { RETRY_MS } else { longer };
            self.due_ms = Some(now_ms.saturating_add(retry_ms));
        } else {
            self.due_ms = Some(now_ms);
        }
    }
}
