//! The threads that do what may take long, so that the core never waits for memory or disks.
//!
//! ```text
//! core ── Job ──► memory worker   make, reserve, punch extents for small objects; keep some ready
//!      ── Job ──► long worker     the same for large and growing extents
//!      ── Job ──► seal worker     have the kernel refuse writes
//!      ── Job ──► file worker     spill, restore, forget
//!      ◄─ Done ── either, with a doorbell
//!      ─ table ─► table worker    huge pages for the index; nobody waits for it
//! ```
//!
//! Each worker takes its jobs in order, so giving memory back and reserving it again cannot
//! overtake each other. A worker is started with its first job: a store that never spills has no
//! file thread.

pub(crate) mod files;
pub(crate) mod memory;
pub(crate) mod seals;
pub(crate) mod tables;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plasmon_media::{Described, FolderLock};
use plasmon_proto::message::{ExtentId, Range};
use plasmon_shm::departing::Remains;
use plasmon_shm::edge::{self, Point};
use plasmon_shm::mappings::Trace;
use plasmon_shm::{Doorbell, GrowingMemfd, Memfd};
use plasmon_store::event::{OpenedFile, ReadBack, Ticket};

use crate::core::looking::Looked;
use plasmon_keeper::KeeperLink;
use plasmon_shm::cgroup::Headroom;

pub(crate) use files::{FileJob, OpenTier, OpenedTier, Target, Tier};
pub(crate) use memory::{Ahead, MemoryJob};
pub(crate) use seals::SealJob;

/// Bytes of a worker's stack: neither recurses.
const STACK_BYTES: usize = 256 * 1024;

/// What was made to have memory.
#[derive(Debug)]
pub(crate) enum Made {
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
        made: io::Result<Made>,
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
        found: Vec<Described>,
        /// The lock on its folder, unless it was held already.
        lock: Option<FolderLock>,
    },
    /// What the tier's file system refused last; empty when it works again.
    TierFault(String),
    /// The kernel refuses every write to an extent now, or does not.
    Hardened(Ticket, bool),
    /// A keeper was started, or not.
    Keeper(io::Result<KeeperLink>),
    /// Processes of clients that are not connected were looked at.
    Looked(Vec<(Looked, Trace)>),
}

/// The workers.
#[derive(Debug)]
pub(crate) struct Workers {
    bell: Arc<Doorbell>,
    done_sender: Sender<Done>,
    done: Receiver<Done>,
    memory: Option<Sender<MemoryJob>>,
    files: Option<Sender<FileJob>>,
    tables: Option<Sender<Memfd>>,
    tier: Option<TierSlot>,
    ahead: Ahead,
    headroom: Arc<Mutex<Headroom>>,
    long: Option<Sender<MemoryJob>>,
    seals: Option<Sender<SealJob>>,
}

/// A tier on its way to the file worker.
struct TierSlot(Tier);

impl std::fmt::Debug for TierSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Tier::Open(medium) => write!(f, "a spill tier of {} bytes", medium.used_bytes()),
            Tier::Closed(..) => f.write_str("a spill tier that is not open yet"),
        }
    }
}

impl Workers {
    /// Workers that have nothing to do yet.
    pub(crate) fn new(ahead: Ahead, headroom: Headroom, tier: Option<Tier>) -> io::Result<Self> {
        let (done_sender, done) = channel();
        Ok(Self {
            bell: Arc::new(Doorbell::new()?),
            done_sender,
            done,
            memory: None,
            files: None,
            tables: None,
            tier: tier.map(TierSlot),
            ahead,
            headroom: Arc::new(Mutex::new(headroom)),
            long: None,
            seals: None,
        })
    }

    /// Gives the memory worker a job, or the one beside it that may take long.
    pub(crate) fn memory(&mut self, job: MemoryJob) -> io::Result<()> {
        let is_long = job.is_long(self.ahead.extent_bytes);
        let started = if is_long { &self.long } else { &self.memory };
        let sender = match started {
            Some(sender) => sender,
            None => {
                let (sender, jobs) = channel();
                let report = self.report();
                // Only extents for small objects are made ahead.
                let (name, ahead) = match is_long {
                    true => ("plasmon-long", Ahead::default()),
                    false => ("plasmon-memory", self.ahead),
                };
                let headroom = Arc::clone(&self.headroom);
                spawn(name, move || memory::work(&jobs, &report, ahead, &headroom))?;
                let started = if is_long { &mut self.long } else { &mut self.memory };
                started.insert(sender)
            }
        };
        sender.send(job).map_err(|_| io::Error::other("the memory worker is gone"))
    }

    /// Gives the seal worker a job.
    pub(crate) fn seal(&mut self, job: SealJob) -> io::Result<()> {
        let sender = match &self.seals {
            Some(sender) => sender,
            None => {
                let (sender, jobs) = channel();
                let report = self.report();
                spawn("plasmon-seals", move || seals::work(&jobs, &report))?;
                self.seals.insert(sender)
            }
        };
        sender.send(job).map_err(|_| io::Error::other("the seal worker is gone"))
    }

    /// Gives the file worker a job.
    pub(crate) fn files(&mut self, job: FileJob) -> io::Result<()> {
        self.file_worker()?.send(job).map_err(|_| io::Error::other("the file worker is gone"))
    }

    fn file_worker(&mut self) -> io::Result<&Sender<FileJob>> {
        if self.files.is_none() {
            let Some(TierSlot(tier)) = self.tier.take() else {
                return Err(io::Error::other("there is no spill tier"));
            };
            let (sender, jobs) = channel();
            let report = self.report();
            spawn("plasmon-files", move || files::work(&jobs, &report, tier))?;
            self.files = Some(sender);
        }
        self.files.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Has the worker open a tier that is closed, and waits for so long at most until it has said
    /// how that went. For before anything else is asked of the workers.
    pub(crate) fn open_tier(&mut self, within: Duration) -> io::Result<Option<Done>> {
        self.file_worker()?;
        Ok(edge::receive_within(&self.done, within).ok())
    }

    /// Gives the table worker an index table, if it is large enough to be worth the work.
    pub(crate) fn table(&mut self, table: &Memfd) -> io::Result<()> {
        if table.bytes() < tables::TABLE_BYTES_MIN {
            return Ok(());
        }
        let table = Memfd::adopt(table.duplicate()?)?;
        let sender = match &self.tables {
            Some(sender) => sender,
            None => {
                let (sender, jobs) = channel();
                spawn("plasmon-tables", move || tables::work(&jobs))?;
                self.tables.insert(sender)
            }
        };
        sender.send(table).map_err(|_| io::Error::other("the table worker is gone"))
    }

    /// Does something that takes a while and is rarely done, in a thread of its own.
    pub(crate) fn aside(
        &self,
        name: &str,
        work: impl FnOnce() -> Done + Send + 'static,
    ) -> io::Result<()> {
        let report = self.report();
        spawn(name, move || report.tell(work()))
    }

    /// Starts to make memory ready if that is wanted. Called once the store serves.
    pub(crate) fn warm_up(&mut self) -> io::Result<()> {
        if self.ahead.extents == 0 { Ok(()) } else { self.memory(MemoryJob::WarmUp) }
    }

    /// What was finished since the last call.
    pub(crate) fn finished(&self) -> Vec<Done> {
        if let Err(error) = self.bell.answer() {
            tracing::warn!(%error, "the workers' doorbell cannot be answered");
        }
        self.done.try_iter().collect()
    }

    /// Ends the workers and removes every file of the spill tier: the store is over.
    pub(crate) fn end(mut self) {
        if let Some(TierSlot(Tier::Open(mut medium))) = self.tier.take() {
            files::clear(&mut *medium);
            return;
        }
        let (sender, cleared) = channel();
        if self.files.is_some() && self.files(FileJob::Clear(sender)).is_ok() {
            // The worker answers, or it is gone and the channel says so.
            let _ = edge::receive(&cleared);
        }
    }

    fn report(&self) -> Report {
        Report { bell: Arc::clone(&self.bell), sender: self.done_sender.clone() }
    }
}

impl AsFd for Workers {
    /// Becomes readable when something is finished.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// How a worker tells what it finished.
#[derive(Debug)]
pub(crate) struct Report {
    bell: Arc<Doorbell>,
    sender: Sender<Done>,
}

impl Report {
    fn tell(&self, done: Done) {
        edge::pause(Point::Job);
        // Nobody listens any more when the daemon ends.
        if self.sender.send(done).is_ok()
            && let Err(error) = self.bell.ring()
        {
            tracing::warn!(%error, "the workers' doorbell cannot be rung");
        }
    }
}

/// Starts a thread that nobody waits for.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The threads end with their channels.
    edge::start_thread(name, STACK_BYTES, work)
}
