//! The results of workers, and how they are delivered.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use plasmon_keeper::KeeperLink;
use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::status::LogFigures;
use plasmon_shm::dropped_extents::Remains;
use plasmon_shm::edge::{self, Point};
use plasmon_shm::mappings::Trace;
use plasmon_shm::{Doorbell, GrowingMemfd, Memfd};
use plasmon_spill::{FileMeta, FolderLock};
use plasmon_store::event::{
    LogFailure, LoggedObject, Lsn, OpenedFile, ReadBack, RecordCheck, Ticket,
};

use crate::core::session_check::SessionCheck;

/// Bytes of a worker's stack: neither recurses.
const STACK_BYTES: usize = 256 * 1024;

/// What was made to have memory.
#[derive(Debug)]
pub(crate) enum NewMemory {
    /// Nothing: the extent was there.
    Nothing,
    /// An extent of fixed size.
    Extent(Memfd),
    /// One that grows.
    Growing(GrowingMemfd),
}

/// Something that a worker has finished.
#[derive(Debug)]
pub(crate) enum Done {
    /// Memory for a ticket, with the extent if it is new.
    Reserved {
        /// The ticket.
        ticket: Ticket,
        /// Which extent.
        extent: ExtentId,
        /// What was made for this, or why there is none.
        made: io::Result<NewMemory>,
    },
    /// The pages of a range are still there.
    Unpunched(Range),
    /// An extent that was dropped is closed; or what of it is still there, because the kernel does
    /// not let it be taken away.
    Closed {
        /// Which extent.
        extent: ExtentId,
        /// What is still there.
        remains: Option<Remains>,
    },
    /// An extent that grew has its final size, or has not.
    Settled {
        /// The ticket.
        ticket: Ticket,
        /// Which extent.
        extent: ExtentId,
        /// What it is from now on.
        settled: io::Result<Memfd>,
    },
    /// An object was written to the spill tier, or not.
    Spilled(Ticket, bool),
    /// A file of the tier was removed, or is still there.
    Removed(bool),
    /// An object was read back, or not.
    Restored(Ticket, ReadBack),
    /// An object's file was opened, or not.
    Opened {
        /// The ticket.
        ticket: Ticket,
        /// How that ended.
        outcome: OpenedFile,
        /// The file.
        file: Option<OwnedFd>,
    },
    /// The tier of a store that was taken over can be used.
    TierOpened {
        /// What is in it.
        found: Vec<FileMeta>,
        /// The lock on its folder, unless it was held already.
        lock: Option<FolderLock>,
    },
    /// What the tier's file system refused last; empty when it works again.
    TierFault(String),
    /// An object is in the log, or is not.
    Logged(Ticket, Result<Lsn, LogFailure>),
    /// The end of an object is in the log, or is not.
    Unlogged(Ticket, Result<(), LogFailure>),
    /// The log of a store that was taken over can be used; what is in it.
    LogOpened(Vec<LoggedObject>),
    /// A record of the log, or a file of the tier, was read.
    LogChecked(Ticket, RecordCheck),
    /// The record of an object was found damaged while the log was read through.
    LogDamaged(ObjectId, Lsn),
    /// What the log is like now.
    LogFigures(Box<LogFigures>),
    /// The kernel refuses every write to an extent now, or does not.
    Hardened(Ticket, bool),
    /// A keeper was started, or not.
    Keeper(io::Result<KeeperLink>),
    /// The pool daemon was started, or not.
    PoolDaemon(io::Result<()>),
    /// Processes of clients that are not connected were looked at.
    Looked(Vec<(SessionCheck, Trace)>),
}

/// How a worker tells what it finished.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) doorbell: Arc<Doorbell>,
    pub(super) sender: Sender<Done>,
}

impl Report {
    pub(super) fn tell(&self, done: Done) {
        edge::pause(Point::Job);
        // The receiver is gone once the daemon ends.
        if self.sender.send(done).is_ok()
            && let Err(error) = self.doorbell.ring()
        {
            tracing::warn!(%error, "the workers' doorbell cannot be rung");
        }
    }

    /// The same for several things, with one ring of the doorbell: the core takes them in one turn.
    pub(super) fn tell_all(&self, all: impl IntoIterator<Item = Done>) {
        let mut is_sent = false;
        for done in all {
            edge::pause(Point::Job);
            // The receiver is gone once the daemon ends.
            is_sent |= self.sender.send(done).is_ok();
        }
        if is_sent && let Err(error) = self.doorbell.ring() {
            tracing::warn!(%error, "the workers' doorbell cannot be rung");
        }
    }
}

/// Starts a thread that is never joined.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The threads end with their channels.
    edge::start_thread(name, STACK_BYTES, work)
}
