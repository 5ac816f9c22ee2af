//! What the log worker is asked for.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use plasmon_proto::ObjectId;
use plasmon_proto::message::Range;
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
}

/// What the log worker can do.
#[derive(Debug)]
pub(crate) enum LogJob {
    /// Write an object.
    Put(LogPut),
    /// Mark a record as dead.
    Dead {
        /// Names the work.
        ticket: Ticket,
        /// The object.
        id: ObjectId,
        /// The record.
        lsn: Lsn,
    },
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
    /// The store ends: what was asked before is done, then this is told.
    End(Sender<()>),
}

/// How much is gathered for one sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// For how long at most.
    pub(crate) within: Duration,
    /// How many bytes at most.
    pub(crate) bytes: u64,
}
