//! The submissions in the rings of clients, and their latest reads.

mod drain;

use std::collections::VecDeque;

use plasmon_proto::extent::Range;
use plasmon_proto::limits::{OBJECT_ALIGN, SUBMISSIONS};
use plasmon_proto::ring::{Record, Submission};

use crate::rings::Work;

/// Records that are applied together: so few that they and the slots of their objects are still in
/// the nearest cache when their turn comes, and enough to fetch those slots side by side.
const BATCH: usize = 64;

/// After how many records a client that waits for room is woken: when there is as much as it waits
/// for.
const WAKE_EVERY: usize = SUBMISSIONS / 2;

const _: () = assert!(WAKE_EVERY.is_multiple_of(BATCH), "batches end where a client is woken");

/// Records that are applied in one turn of the loop.
pub(super) const RECORDS_PER_TURN: usize = 8 * BATCH;

/// Room for what is read from a client's channel, used again for each.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Records of a ring, with their positions.
    records: Vec<(u64, Record)>,
    /// Record numbers of objects that clients read.
    touched: Vec<u32>,
    /// When those of all clients were collected last.
    pub(super) touched_ms: u64,
}

/// What is done of the rings, in passes: each applies what the rings held when it began, over as
/// many turns of the loop as that takes.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// What is left of the present pass.
    work: VecDeque<Work>,
    begun: u64,
    done: u64,
    /// Whether a doorbell rang that the next pass has to look for.
    rang: bool,
}

impl Passes {
    /// Has the next pass look for doorbells that rang.
    pub(super) fn ring(&mut self) {
        self.rang = true;
    }

    /// The pass that applies everything submitted before now.
    pub(super) fn next(&self) -> u64 {
        self.begun + 1
    }

    /// Whether this pass is over.
    pub(super) fn is_over(&self, pass: u64) -> bool {
        pass <= self.done
    }

    /// Whether there is a pass to be gone on with.
    pub(super) fn is_under_way(&self) -> bool {
        self.begun > self.done
    }
}

/// Whether the ranges of a record are made of whole units, as every range is that the store gave
/// out.
fn is_aligned(submission: &Submission) -> bool {
    match submission {
        Submission::Put(put) => put.placement.offset.is_multiple_of(OBJECT_ALIGN),
        Submission::LeaseReturn(range) => range_is_aligned(range),
        Submission::Announce { .. }
        | Submission::Abort { .. }
        | Submission::Delete { .. }
        | Submission::LeaseWanted { .. } => true,
    }
}

/// Whether a range is made of whole units.
pub(super) fn range_is_aligned(range: &Range) -> bool {
    range.offset.is_multiple_of(OBJECT_ALIGN) && range.bytes.is_multiple_of(OBJECT_ALIGN)
}
