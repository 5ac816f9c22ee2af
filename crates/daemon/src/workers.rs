//! The threads that do what may take long, so that the core never waits for memory or disks.
//!
//! ```text
//! core ── Job ──► memory worker   make, reserve, punch extents for small objects; keep some ready
//!      ── Job ──► long worker     the same for large and growing extents
//!      ── Job ──► seal worker     have the kernel refuse writes
//!      ── Job ──► file worker     spill, restore, forget
//!      ── Job ──► log worker      durable objects: write, read, mark as dead
//!      ◄─ Done ── either, with a doorbell
//!      ─ table ─► table worker    huge pages for the index; nothing waits for it
//! ```
//!
//! Each worker takes its jobs in order, so giving memory back and reserving it again cannot
//! overtake each other. A worker is started with its first job: a store that never spills has no
//! file thread.

pub(crate) mod durable;
pub(crate) mod files;
pub(crate) mod memory;
mod report;
pub(crate) mod seals;
pub(crate) mod tables;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plasmon_shm::edge::{self};
use plasmon_shm::{Doorbell, Memfd};

use plasmon_shm::cgroup::Headroom;

pub(crate) use durable::{BatchLimits, LogCheck, LogJob, LogPut, LogSlot, RecordEnd, found_in};
pub(crate) use files::{FileJob, OpenTier, OpenedTier, Target, Tier};
pub(crate) use memory::{MemoryJob, ReadyExtents};
pub(crate) use report::{Done, NewMemory, Report, spawn};
pub(crate) use seals::SealJob;

/// The workers.
#[derive(Debug)]
pub(crate) struct Workers {
    doorbell: Arc<Doorbell>,
    done_sender: Sender<Done>,
    done: Receiver<Done>,
    memory: Option<Sender<MemoryJob>>,
    files: Option<Sender<FileJob>>,
    tables: Option<Sender<Memfd>>,
    tier: Option<TierSlot>,
    log: Option<Sender<LogJob>>,
    ahead: ReadyExtents,
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
    pub(crate) fn new(
        ahead: ReadyExtents,
        headroom: Headroom,
        tier: Option<Tier>,
    ) -> io::Result<Self> {
        let (done_sender, done) = channel();
        Ok(Self {
            doorbell: Arc::new(Doorbell::new()?),
            done_sender,
            done,
            memory: None,
            files: None,
            tables: None,
            tier: tier.map(TierSlot),
            log: None,
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
                    true => ("plasmon-long", ReadyExtents::default()),
                    false => ("plasmon-memory", self.ahead),
                };
                let headroom = Arc::clone(&self.headroom);
                spawn(name, move || memory::work(&jobs, &report, ahead, &headroom))?;
                let started = if is_long { &mut self.long } else { &mut self.memory };
                started.insert(sender)
            }
        };
        sender.send(job).map_err(|_| io::Error::other("the memory worker has ended"))
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
        sender.send(job).map_err(|_| io::Error::other("the seal worker has ended"))
    }

    /// Gives the file worker a job.
    pub(crate) fn files(&mut self, job: FileJob) -> io::Result<()> {
        self.file_worker()?.send(job).map_err(|_| io::Error::other("the file worker has ended"))
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

    /// Starts the log worker.
    pub(crate) fn start_log(&mut self, slot: LogSlot, limits: BatchLimits) -> io::Result<()> {
        let (sender, jobs) = channel();
        let report = self.report();
        spawn("plasmon-log", move || durable::work(&jobs, &report, slot, limits))?;
        self.log = Some(sender);
        Ok(())
    }

    /// Gives the log worker a job.
    pub(crate) fn log(&mut self, job: LogJob) -> io::Result<()> {
        let ended = || io::Error::other("the log worker has ended");
        self.log.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())
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
        sender.send(table).map_err(|_| io::Error::other("the table worker has ended"))
    }

    /// Does something that takes a while and is rarely done, in a separate thread.
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
        if let Err(error) = self.doorbell.answer() {
            tracing::warn!(%error, "the workers' doorbell cannot be answered");
        }
        self.done.try_iter().collect()
    }

    /// Ends the workers and removes every file of the spill tier: the store is over.
    pub(crate) fn end(mut self) {
        let (sender, is_done) = channel();
        if self.log(LogJob::End(sender)).is_ok() {
            // The worker answers, or it is gone and the channel says so.
            let _ = edge::receive(&is_done);
        }
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
        Report { doorbell: Arc::clone(&self.doorbell), sender: self.done_sender.clone() }
    }
}

impl AsFd for Workers {
    /// Becomes readable when something is finished.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}
