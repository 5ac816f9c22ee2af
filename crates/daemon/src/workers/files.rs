//! The file worker: moves objects between memory and the spill tier.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use plasmon_media::{Described, Error, Incarnation, Medium, Place};
use plasmon_proto::message::Range;
use plasmon_shm::Memfd;
use plasmon_store::event::Ticket;

use super::{Done, Report};

/// What the file worker can do.
#[derive(Debug)]
pub(crate) enum FileJob {
    /// Write an object out.
    Spill {
        /// Names the work.
        ticket: Ticket,
        /// The extent that holds it.
        memfd: Arc<Memfd>,
        /// Where it starts there.
        offset: u64,
        /// What it is.
        object: Box<Described>,
    },
    /// Read an object back.
    Restore {
        /// Names the work.
        ticket: Ticket,
        /// The extent that takes it.
        memfd: Arc<Memfd>,
        /// Where it goes.
        range: Range,
        /// Which.
        which: Incarnation,
    },
    /// Forget an object.
    Remove(Incarnation),
    /// Forget all, and tell when that is done.
    Clear(Sender<()>),
}

pub(super) fn work(jobs: &Receiver<FileJob>, report: &Report, mut medium: Box<dyn Medium>) {
    while let Ok(job) = jobs.recv() {
        match job {
            FileJob::Spill { ticket, memfd, offset, object } => {
                let place = Place { file: memfd.as_fd(), offset };
                let done = told("spilled", &object.id, medium.write(&object, place));
                report.tell(Done::Spilled(ticket, done));
            }
            FileJob::Restore { ticket, memfd, range, which } => {
                let place = Place { file: memfd.as_fd(), offset: range.offset };
                let done = told("restored", &which.id, medium.read(which, range.bytes, place));
                report.tell(Done::Restored(ticket, done));
            }
            FileJob::Remove(which) => {
                told("removed", &which.id, medium.remove(which));
            }
            FileJob::Clear(done) => {
                clear(&mut *medium);
                // Who asked may have gone.
                let _ = done.send(());
            }
        }
    }
}

/// Removes every file of the store.
pub(super) fn clear(medium: &mut dyn Medium) {
    if let Err(error) = medium.clear() {
        tracing::warn!(%error, "the spill tier cannot be emptied");
    }
}

fn told(what: &str, id: &plasmon_proto::ObjectId, result: Result<(), Error>) -> bool {
    match result {
        Ok(()) => true,
        // A full tier is an ordinary state, which the store answers for.
        Err(error @ Error::Full { .. }) => {
            tracing::info!(%id, %error, "an object is not {what}");
            false
        }
        Err(error) => {
            tracing::warn!(%id, %error, "an object is not {what}");
            false
        }
    }
}
