//! What the log worker is asked for.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;
use plasmon_shm::Memfd;
use plasmon_spill::FileMeta;
use plasmon_store::event::{Lsn, Ticket};

use super::super::files::Target;

/// An object to write.
#[derive(Debug)]
pub(crate) struct LogPut {
    /// Names the work.
    pub(crate) ticket: Ticket,
    /// The extent that holds it, and where it starts there; `None` of one without content.
    pub(crate) content: Option<(Arc<Memfd>, u64)>,
    /// What it is. Of an object in a pool the attributes are those of a copy, which are not in the
    /// extent.
    pub(crate) object: Box<FileMeta>,
    /// The damaged record of the same object that this is written for: if the content is not what
    /// that was made of, nothing is written.
    pub(crate) damaged: Option<Lsn>,
}

/// A record to read, a piece at a time, between other jobs.
#[derive(Debug)]
pub(crate) struct LogCheck {
    /// Names the work.
    pub(crate) ticket: Ticket,
    /// The object.
    pub(crate) id: ObjectId,
    /// The record.
    pub(crate) lsn: Lsn,
    /// Where the next piece begins.
    pub(crate) at: u64,
    /// Bytes of data and metadata that were not read yet.
    pub(crate) left: u64,
    /// The checksum of those that were.
    pub(crate) crc: u32,
}

impl LogCheck {
    /// The record of an object with so many bytes of data and metadata.
    pub(crate) fn new(ticket: Ticket, (id, lsn): (ObjectId, Lsn), bytes: u64) -> Self {
        Self { ticket, id, lsn, at: 0, left: bytes, crc: 0 }
    }
}

/// A record that is to be marked as dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordEnd {
    /// Names the work.
    pub(crate) ticket: Ticket,
    /// The object.
    pub(crate) id: ObjectId,
    /// The record.
    pub(crate) lsn: Lsn,
}

/// What the log worker can do.
#[derive(Debug)]
pub(crate) enum LogJob {
    /// Write an object.
    Put(LogPut),
    /// Mark a record as dead.
    Dead(RecordEnd),
    /// Read a record.
    Read {
        /// Names the work.
        ticket: Ticket,
        /// The extent that takes it.
        into: Target,
        /// Where it goes.
        range: Range,
        /// The object.
        id: ObjectId,
        /// The record.
        lsn: Lsn,
    },
    /// Compare a record with its checksums.
    Check(LogCheck),
    /// The store ends: what was asked before is done, then this is told.
    End(Sender<()>),
}

/// How much is gathered for one sync, and how fast the log is read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// For how long at most.
    pub(crate) within: Duration,
    /// How many bytes at most.
    pub(crate) bytes: u64,
    /// How many bytes of the log are read in a second to find damage; 0: none.
    pub(crate) scrub_bytes_per_s: u64,
}
