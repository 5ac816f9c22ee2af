//! The file worker: moves objects between memory and the spill tier.
//!
//! ```text
//! closed ── opened, scanned ──► open       (a new store opens its tier before it serves)
//!    └── refused: tried again with the next job, and every few seconds
//! ```
//!
//! A store that is taken over starts without waiting for its tier: memory must not be lost because
//! a disk is away. Whatever the tier answers later, the store learns then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use plasmon_log::append_checksum;
use plasmon_proto::extent::Range;
use plasmon_proto::object::Sizes;
use plasmon_shm::edge;
use plasmon_shm::{Memfd, WriteExtent};
use plasmon_spill::{Error, FileMeta, FolderLock, Incarnation, Place, SpillTier, WritePiece};
use plasmon_store::event::{OpenedFile, ReadBack, RecordCheck, Ticket};

use super::{Done, Report};

/// How often reading an object back is tried when the system is out of something for the moment.
const TRIES: u32 = 10;

/// How long a tier that could not be opened is left alone.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(3);

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
        object: Box<FileMeta>,
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
    /// Open an object's file for a client.
    Open {
        /// Names the work.
        ticket: Ticket,
        /// Which.
        which: Incarnation,
    },
    /// Compare an object's file with its checksum.
    Check {
        /// Names the work.
        ticket: Ticket,
        /// Which.
        which: Incarnation,
        /// Its sizes.
        sizes: Sizes,
    },
    /// Forget an object.
    Remove(Incarnation),
    /// Forget all, and tell when that is done.
    Clear(Sender<()>),
}

/// A tier that was opened, with what was found in it.
pub(crate) struct OpenedTier {
    /// The tier.
    pub(crate) medium: Box<dyn SpillTier>,
    /// The objects in it.
    pub(crate) found: Vec<FileMeta>,
    /// The lock on its folder, unless it was held already.
    pub(crate) lock: Option<FolderLock>,
}

/// Opens the tier.
pub(crate) type OpenTier = Box<dyn FnMut() -> Result<OpenedTier, Error> + Send>;

/// The tier as the file worker has it.
pub(crate) enum Tier {
    /// It can be used.
    Open(Box<dyn SpillTier>),
    /// It is to be opened, not before this time.
    Closed(OpenTier, Instant),
}

impl Tier {
    /// A tier that is opened as soon as its worker runs.
    pub(crate) fn closed(open: OpenTier) -> Self {
        Self::Closed(open, edge::now())
    }
}

pub(super) fn work(jobs: &Receiver<FileJob>, report: &Report, mut tier: Tier) {
    let mut is_faulty = false;
    loop {
        open_when_due(&mut tier, report);
        let job = match &tier {
            Tier::Open(_) => edge::receive(jobs).map_err(|_| RecvTimeoutError::Disconnected),
            Tier::Closed(..) => edge::receive_within(jobs, OPEN_AGAIN_AFTER),
        };
        match (job, &mut tier) {
            (Ok(job), Tier::Open(medium)) => {
                let (fault, done) = apply_effect(job, &mut **medium);
                // The fault first: a client that learns the outcome finds it in the status.
                if fault.is_some() || is_faulty {
                    is_faulty = fault.is_some();
                    report.tell(Done::TierFault(fault.unwrap_or_default()));
                }
                done.into_iter().for_each(|done| report.tell(done));
            }
            (Ok(job), Tier::Closed(..)) => refuse(job, report),
            (Err(RecvTimeoutError::Timeout), _) => {}
            (Err(RecvTimeoutError::Disconnected), _) => return,
        }
    }
}

fn open_when_due(tier: &mut Tier, report: &Report) {
    let Tier::Closed(open, at) = tier else { return };
    if *at > edge::now() {
        return;
    }
    match open() {
        Ok(OpenedTier { medium, found, lock }) => {
            *tier = Tier::Open(medium);
            report.tell(Done::TierOpened { found, lock });
        }
        Err(error) => {
            *at = edge::now() + OPEN_AGAIN_AFTER;
            tracing::error!(%error, "the spill tier cannot be used; it is tried again");
            report.tell(Done::TierFault(error.to_string()));
        }
    }
}

/// Does a job. Returns what the file system refused, if it did, and what is to be told.
fn apply_effect(job: FileJob, medium: &mut dyn SpillTier) -> (Option<String>, Option<Done>) {
    match job {
        FileJob::Spill { ticket, memfd, offset, object } => {
            let place = Place { file: memfd.as_fd(), offset };
            let result = allowed().and_then(|()| medium.write(&object, place));
            let result = log_failure("spilled", &object.id, result);
            let done = Done::Spilled(ticket, result.is_ok());
            (fault_of(result), Some(done))
        }
        FileJob::Restore { ticket, into, range, which } => {
            let result =
                allowed().and_then(|()| with_retry(|| restore(medium, &into, &range, which)));
            let result = log_failure("restored", &which.id, result);
            let outcome = match &result {
                Ok(()) => ReadBack::Done,
                Err(Error::Corrupt { .. } | Error::Absent { .. }) => ReadBack::Corrupt,
                Err(Error::Io { .. } | Error::Full { .. }) => ReadBack::Failed,
            };
            (fault_of(result), Some(Done::Restored(ticket, outcome)))
        }
        FileJob::Open { ticket, which } => open(ticket, which, medium),
        FileJob::Check { ticket, which, sizes } => check(ticket, which, &sizes, medium),
        FileJob::Remove(which) => {
            let result = log_failure("removed", &which.id, medium.remove(which));
            let done = Done::Removed(result.is_ok());
            (fault_of(result), Some(done))
        }
        FileJob::Clear(done) => {
            clear(medium);
            // The asker may have gone.
            let _ = done.send(());
            (None, None)
        }
    }
}

/// Opens an object's file for a client.
fn open(
    ticket: Ticket,
    which: Incarnation,
    medium: &mut dyn SpillTier,
) -> (Option<String>, Option<Done>) {
    let mut file = None;
    let result = allowed().and_then(|()| {
        with_retry(|| {
            file = Some(medium.open(which)?);
            Ok(())
        })
    });
    let result = log_failure("opened", &which.id, result);
    let outcome = match (&result, &file) {
        (Ok(()), Some((_, start))) => OpenedFile::At(*start),
        (Err(Error::Corrupt { .. } | Error::Absent { .. }), _) => OpenedFile::Corrupt,
        _ => OpenedFile::Failed,
    };
    let file = file.map(|(file, _)| file);
    (fault_of(result), Some(Done::Opened { ticket, outcome, file }))
}

/// Compares an object's file with its checksum.
fn check(
    ticket: Ticket,
    which: Incarnation,
    sizes: &Sizes,
    medium: &mut dyn SpillTier,
) -> (Option<String>, Option<Done>) {
    let content = sizes.data.saturating_add(sizes.metadata);
    let mut crc = 0;
    let result = allowed().and_then(|()| {
        with_retry(|| {
            crc = 0;
            // No object is larger than what has a footprint.
            let footprint = sizes.footprint().unwrap_or(0);
            medium.read(which, footprint, &mut |at, piece| {
                let bytes = content.saturating_sub(at).min(piece.len() as u64);
                crc = append_checksum(crc, &piece[..bytes as usize]);
                Ok(())
            })
        })
    });
    let result = log_failure("checked", &which.id, result);
    let found = match &result {
        Ok(()) => RecordCheck::Right(crc),
        Err(Error::Corrupt { .. }) => RecordCheck::Damaged,
        // It may have been brought back, or have ended.
        Err(Error::Absent { .. } | Error::Io { .. } | Error::Full { .. }) => RecordCheck::Failed,
    };
    (fault_of(result), Some(Done::LogChecked(ticket, found)))
}

/// An error where a simulated disk has one.
fn allowed() -> Result<(), Error> {
    let refused = |source| Error::Io { action: "use the disk", path: Default::default(), source };
    edge::attempt(edge::Attempt::Disk).map_err(refused)
}

/// Answers a job that cannot be done because the tier cannot be used.
fn refuse(job: FileJob, report: &Report) {
    match job {
        FileJob::Spill { ticket, .. } => report.tell(Done::Spilled(ticket, false)),
        FileJob::Restore { ticket, .. } => report.tell(Done::Restored(ticket, ReadBack::Failed)),
        FileJob::Open { ticket, .. } => {
            report.tell(Done::Opened { ticket, outcome: OpenedFile::Failed, file: None });
        }
        FileJob::Check { ticket, .. } => {
            report.tell(Done::LogChecked(ticket, RecordCheck::Failed));
        }
        // When the tier is there again, the store is told of the file and has it removed again.
        FileJob::Remove(_) => report.tell(Done::Removed(false)),
        // The asker may have gone.
        FileJob::Clear(done) => drop(done.send(())),
    }
}

fn fault_of(result: Result<(), Error>) -> Option<String> {
    match result {
        Err(error @ Error::Io { .. }) => Some(error.to_string()),
        _ => None,
    }
}

/// Removes every file of the store.
pub(super) fn clear(medium: &mut dyn SpillTier) {
    if let Err(error) = medium.clear() {
        tracing::warn!(%error, "the spill tier cannot be emptied");
    }
}

fn restore(
    medium: &mut dyn SpillTier,
    into: &Target,
    range: &Range,
    which: Incarnation,
) -> Result<(), Error> {
    fill(into, range, |write| medium.read(which, range.bytes, write))
}

/// Has a range of an extent filled by what `read` reads.
pub(super) fn fill<E>(
    into: &Target,
    range: &Range,
    read: impl FnOnce(&mut WritePiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    match into {
        Target::Memfd(memfd) => {
            read(&mut |at, bytes| write_all_at(memfd.as_fd(), range.offset + at, bytes))
        }
        Target::Mapped(extent) => {
            let mut span = extent.lease(range.offset, range.bytes);
            read(&mut |at, bytes| {
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
fn with_retry(mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    for _ in 1..TRIES {
        match work() {
            Err(Error::Io { source, .. }) if is_passing(&source) => edge::sleep(TRY_AGAIN_AFTER),
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

fn log_failure(
    what: &str,
    id: &plasmon_proto::ObjectId,
    result: Result<(), Error>,
) -> Result<(), Error> {
    match &result {
        Ok(()) => {}
        // A full tier is an ordinary state, which the store answers for.
        Err(error @ Error::Full { .. }) => tracing::info!(%id, %error, "an object is not {what}"),
        Err(error) => tracing::warn!(%id, %error, "an object is not {what}"),
    }
    result
}
