//! The file worker: moves objects between memory and the spill tier.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use plasmon_media::{Described, Error, Incarnation, Medium, Place};
use plasmon_proto::message::Range;
use plasmon_shm::{Memfd, WriteExtent};
use plasmon_store::event::Ticket;

use super::{Done, Report};

/// How often reading an object back is tried when the system is out of something for the moment.
/// After that the object counts as corrupt, so this is not given up lightly.
const TRIES: u32 = 10;

/// The wait between two tries.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// An extent that takes an object back.
#[derive(Debug)]
pub(crate) enum Target {
    /// By its descriptor.
    Memfd(Arc<Memfd>),
    /// By a mapping that is older than the protection against new writers.
    Mapped(Arc<WriteExtent>),
}

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
        into: Target,
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
            FileJob::Restore { ticket, into, range, which } => {
                let result = patiently(|| restore(&mut *medium, &into, &range, which));
                report.tell(Done::Restored(ticket, told("restored", &which.id, result)));
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

fn restore(
    medium: &mut dyn Medium,
    into: &Target,
    range: &Range,
    which: Incarnation,
) -> Result<(), Error> {
    match into {
        Target::Memfd(memfd) => medium.read(which, range.bytes, &mut |at, bytes| {
            write_all_at(memfd.as_fd(), range.offset + at, bytes)
        }),
        Target::Mapped(extent) => {
            let mut span = extent.lease(range.offset, range.bytes);
            medium.read(which, range.bytes, &mut |at, bytes| {
                let at = usize::try_from(at).map_err(io::Error::other)?;
                let room = span.as_mut().and_then(|span| span.get_mut(at..at + bytes.len()));
                room.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
                Ok(())
            })
        }
    }
}

fn write_all_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Tries again as long as the system is only out of something.
fn patiently(mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    for _ in 1..TRIES {
        match work() {
            Err(Error::Io { source, .. }) if is_passing(&source) => thread::sleep(TRY_AGAIN_AFTER),
            other => return other,
        }
    }
    work()
}

fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
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
