//! The outcome of submissions: which callers want it, and what the daemon refused.
//!
//! ```text
//! submitted ─► awaited ─► its caller takes the verdict
//!         ├──► kept    ─► the next caller that submits or flushes gets the refusal
//!         └──► muted   ─► the refusal is dropped
//! ```

use std::collections::{HashMap, HashSet};

use plasmon_proto::{Code, ObjectId};
use plasmon_shm::edge::{self, Mutation};

use crate::error::{Error, Result};

/// Refusals that are kept for a caller that never asks. Beyond it only their number is known.
const REFUSALS_MAX: usize = 1024;

/// Positions that are muted before those that were applied are looked for.
const MUTED_MAX: usize = 64;

/// A submission that the daemon refused after its caller had been told that it was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    code: Code,
    id: ObjectId,
}

/// The receiver of the refusal of a submission, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next caller that submits or flushes.
    Kept,
    /// The caller, who waits for it.
    Awaited,
}

impl Verdict {
    /// For an object whose id the caller chose, or did not.
    pub(crate) fn awaited_if(chosen: bool) -> Self {
        if chosen { Self::Awaited } else { Self::Kept }
    }
}

/// What the daemon decided about a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    /// It was accepted.
    Accepted,
    /// It was refused.
    Refused(Code),
    /// Completions were lost meanwhile, and a refusal may be one of them.
    Unknown,
}

/// What is known of the submissions of one session.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    /// Positions whose callers wait for the verdict.
    awaited: HashSet<u64>,
    refused: HashMap<u64, Code>,
    /// Awaited positions whose refusal may be among completions that were lost.
    doubtful: HashSet<u64>,
    refusals: Vec<Refusal>,
    refusals_dropped: u64,
    /// Submissions that were lost with their store, and what is to be said of that.
    lost_with_store: Option<(u64, String)>,
    /// Positions whose refusal is of no interest.
    muted: HashSet<u64>,
}

impl Acks {
    /// The daemon refused what was submitted at this position.
    pub(crate) fn refused(&mut self, position: u64, code: Code, id: ObjectId) {
        // Without an id: a lease that was asked for ahead. Muted: aborting what the daemon has
        // forgotten, or announcing what it still knows.
        let is_ignored = edge::is_broken(Mutation::IgnoreRefusal);
        if id == ObjectId::new([0; 20]) || self.muted.remove(&position) || is_ignored {
            return;
        }
        if self.awaited.contains(&position) {
            self.refused.insert(position, code);
        } else {
            self.refuse(Refusal { code, id });
        }
    }

    /// Keeps a refusal until a caller asks for it.
    fn refuse(&mut self, refusal: Refusal) {
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(refusal);
        } else {
            self.refusals_dropped += 1;
        }
    }

    /// So many refusals were lost: their submissions count as refused, and what is awaited may be
    /// one of them.
    pub(crate) fn lose(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.refusals_dropped += count;
        let undecided = self.awaited.iter().filter(|at| !self.refused.contains_key(at));
        self.doubtful.extend(undecided);
    }

    /// So many submissions were lost with the store that they were for.
    pub(crate) fn lose_with_store(&mut self, count: u64, detail: String) {
        let before = self.lost_with_store.take().map_or(0, |(count, _)| count);
        self.lost_with_store = Some((before + count, detail));
    }

    /// Notes that a caller will ask for the verdict on this position.
    pub(crate) fn await_verdict(&mut self, position: u64) {
        self.awaited.insert(position);
    }

    /// Drops the verdict on the record at this position; the daemon has applied everything before
    /// `head`.
    pub(crate) fn mute(&mut self, position: u64, head: u64) {
        if self.muted.len() >= MUTED_MAX {
            // What was applied was refused by now or never will be: its refusal came before.
            self.muted.retain(|position| head.wrapping_sub(*position) > 1 << 63);
        }
        self.muted.insert(position);
    }

    /// The verdict on a position that was applied.
    pub(crate) fn take_verdict(&mut self, position: u64) -> Ack {
        self.awaited.remove(&position);
        let is_doubtful = self.doubtful.remove(&position);
        match self.refused.remove(&position) {
            Some(code) => Ack::Refused(code),
            None if is_doubtful => Ack::Unknown,
            None => Ack::Accepted,
        }
    }

    /// The refusal of this object, if it was refused behind its caller's back.
    pub(crate) fn refusal_of(&self, id: &ObjectId) -> Option<Code> {
        self.refusals.iter().rev().find(|refusal| refusal.id == *id).map(|refusal| refusal.code)
    }

    /// The error that tells everything refused so far, once.
    #[inline]
    pub(crate) fn take_refusals(&mut self, doing: &'static str) -> Result<()> {
        let is_all_reported = self.refusals.is_empty() && self.refusals_dropped == 0;
        if is_all_reported && self.lost_with_store.is_none() {
            return Ok(());
        }
        Err(self.refusals_error(doing))
    }

    #[cold]
    fn refusals_error(&mut self, doing: &'static str) -> Error {
        if let Some((count, detail)) = self.lost_with_store.take() {
            let detail = format!("{count} earlier submissions were lost: {detail}");
            return Error::new(Code::Disconnected, doing)
                .with_amounts(0, count)
                .with_detail(detail);
        }
        let refusals = std::mem::take(&mut self.refusals);
        let unknown = std::mem::take(&mut self.refusals_dropped);
        let count = refusals.len() as u64 + unknown;
        let Some(first) = refusals.first() else {
            let detail = format!(
                "whether {unknown} earlier submissions succeeded is not \
                 known: more failed than this client records"
            );
            let error = Error::new(Code::LimitReached, doing);
            return error.with_amounts(0, unknown).with_detail(detail);
        };
        let error = Error::new(first.code, doing).with_id(first.id);
        error.with_detail(format!("{count} earlier submissions were refused, this one first"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_may_be_lost_is_no_consent() {
        // A put of a chosen id awaits its verdict. The daemon refused it, but the ring of
        // completions was full, so the refusal was only counted: the put said that it had worked.
        let mut verdicts = Acks::default();
        for position in 1..=3 {
            verdicts.await_verdict(position);
        }
        verdicts.refused(1, Code::Exists, ObjectId::new([7; 20]));
        assert_eq!(verdicts.take_verdict(3), Ack::Accepted);
        verdicts.lose(1);
        assert_eq!(verdicts.take_verdict(1), Ack::Refused(Code::Exists));
        assert_eq!(verdicts.take_verdict(2), Ack::Unknown);
        verdicts.await_verdict(2);
        assert_eq!(verdicts.take_verdict(2), Ack::Accepted, "what was lost came before");
    }
}
