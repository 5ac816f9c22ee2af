//! The log worker: writes durable objects to the log, several with one sync.
//!
//! ```text
//! jobs ──► append, append, append ── sync ──► answers        (one batch)
//!      ──► read                                              (between batches)
//! none ──► check; collect garbage, a piece at a time
//! idle ──► prepare for puts; confirm the last batch; scrub, a piece at a time
//! ```
//!
//! A batch takes what waits for it: what comes while one is synced is the next one. Clients that
//! wait for their puts send the next ones when they are answered, all at about the same time: so a
//! batch that is smaller than the one before it waits for more, for half of the time that the last
//! sync took. That spares a sync where one takes longer than clients take to come back; on a disk
//! that syncs faster it would only cost. A client that puts alone never waits. All answers of a
//! batch wake the core once (ADR 112).
//!
//! To confirm a batch is a write and a sync of its own, which a put that comes meanwhile waits for.
//! So it is done once nothing was asked for a while, not between two puts.
//!
//! A new store opens its log before it serves. One that is taken over is not kept from serving by a
//! disk that is away: its log is tried again until it opens, and until then nothing durable is
//! taken.

mod batch;
mod checks;
mod job;
mod opening;
mod scrub;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use plasmon_log::ObjectLog;
use plasmon_proto::status::LogFigures;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_store::event::Lsn;

use self::batch::{Batch, Room};
use self::checks::Checks;
pub(crate) use self::job::{BatchLimits, LogCheck, LogJob, LogPut, RecordEnd};
use self::opening::LogPlace;
pub(crate) use self::opening::{LogSlot, found_in};
use self::scrub::Scrub;
use super::{Done, Report};

/// Bytes of garbage collection between two looks for jobs.
const MAINTAIN_BYTES: u64 = 4 << 20;

/// How long there is nothing to do before the log prepares for puts: one that is busy does not.
const PREPARE_AFTER: Duration = Duration::from_millis(20);

/// A disk that syncs so fast is not kept waiting for clients: with 32 of them on two processors,
/// each put took 28 us so, and 30 to 36 where a batch waited for half of a sync.
const SYNC_FAST: Duration = Duration::from_millis(1);

/// How long nothing is asked before the last batch is confirmed.
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

/// The log as its worker has it.
#[derive(Debug)]
pub(super) struct LogWorker {
    log: Box<dyn ObjectLog>,
    place: LogPlace,
    limits: BatchLimits,
    /// How many jobs the last batch had.
    last_batch: usize,
    /// How long a smaller batch waits for more.
    patience: Duration,
    /// What was told of it last.
    told: LogFigures,
    /// Whether there may be garbage to be collected.
    is_due: bool,
    /// When the last batch is confirmed.
    confirm_at: Option<Deadline>,
    /// When the log prepares for puts, if there were some since it did.
    prepare_at: Option<Deadline>,
    scrub: Scrub,
    checks: Checks,
    /// Records that were damaged, and those that were written in place of them.
    rewritten: BTreeMap<Lsn, Lsn>,
}

/// Works until the channel ends.
pub(super) fn work(jobs: &Receiver<LogJob>, report: &Report, slot: LogSlot, limits: BatchLimits) {
    let Some((log, place)) = opening::open(jobs, report, slot) else { return };
    let mut worker = LogWorker::new(log, place, limits);
    report.tell_all(worker.news());
    while let Some(job) = worker.next(jobs, report) {
        match job {
            LogJob::Read { ticket, into, range, id, lsn } => {
                let outcome = batch::read(&mut *worker.log, &into, &range, &id, lsn);
                report.tell(Done::Restored(ticket, outcome));
            }
            LogJob::End(done) => worker.end(&done, report),
            LogJob::Check(check) => worker.checks.add(check),
            job => worker.batch(job, jobs, report),
        }
    }
}

impl LogWorker {
    fn new(log: Box<dyn ObjectLog>, place: LogPlace, limits: BatchLimits) -> Self {
        Self {
            log,
            place,
            limits,
            last_batch: 0,
            patience: limits.within,
            told: LogFigures::default(),
            is_due: true,
            confirm_at: None,
            prepare_at: None,
            scrub: Scrub::new(limits.scrub_bytes_per_s),
            checks: Checks::default(),
            rewritten: BTreeMap::new(),
        }
    }

    /// The next job; keeps the log in order while there is none. `None` when there will be none.
    fn next(&mut self, jobs: &Receiver<LogJob>, report: &Report) -> Option<LogJob> {
        loop {
            match jobs.try_recv() {
                Ok(job) => {
                    // These go on however many other jobs there are.
                    self.checks.read_on(&mut *self.log, report);
                    if self.scrub.is_late() {
                        self.scrub(report);
                    }
                    return Some(job);
                }
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            if self.checks.read_on(&mut *self.log, report) {
                continue;
            }
            if self.is_due {
                self.is_due = self.collect(report);
                continue;
            }
            let soon = [self.prepare_at, self.confirm_at].into_iter().flatten();
            let soon = soon.fold(Deadline::NEVER, Deadline::earlier).left();
            let left = soon.map_or(self.scrub.left(), |left| left.min(self.scrub.left()));
            match edge::receive_within(jobs, left) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.idle(report),
            }
        }
    }

    /// Nothing was asked for a while: does one thing that is due.
    fn idle(&mut self, report: &Report) {
        let is_past = |at: Option<Deadline>| at.is_some_and(Deadline::is_past);
        if is_past(self.prepare_at) {
            self.prepare(report);
        } else if is_past(self.confirm_at) {
            self.confirm(report);
        } else if self.scrub.is_due() {
            self.scrub(report);
        }
    }

    /// A piece of what makes later puts faster.
    fn prepare(&mut self, report: &Report) {
        let is_more = self.log.prepare().unwrap_or_else(|error| {
            tracing::error!(%error, "the log of durable objects has failed");
            false
        });
        if !is_more {
            self.prepare_at = None;
            report.tell_all(self.news());
        }
    }

    /// A piece of garbage collection; whether there is more.
    fn collect(&mut self, report: &Report) -> bool {
        let is_more = self.log.collect(MAINTAIN_BYTES).unwrap_or_else(|error| {
            tracing::error!(%error, "the log of durable objects cannot be maintained");
            false
        });
        report.tell_all(self.news());
        is_more
    }

    /// Has the log show that its last batch was synced.
    fn confirm(&mut self, report: &Report) {
        self.confirm_at = None;
        if let Err(error) = self.log.confirm() {
            tracing::error!(%error, "the log of durable objects cannot be maintained");
        }
        report.tell_all(self.news());
    }

    /// The store ends.
    fn end(&mut self, done: &Sender<()>, report: &Report) {
        self.confirm(report);
        // The asker may have gone.
        let _ = done.send(());
    }

    /// Reads a piece of the log, to find what its disk lost before a client needs it.
    fn scrub(&mut self, report: &Report) {
        if self.scrub.read_on(&mut *self.log, report) {
            report.tell_all(self.news());
        }
    }

    /// Gathers jobs, appends them, makes them durable, and answers all.
    fn batch(&mut self, first: LogJob, jobs: &Receiver<LogJob>, report: &Report) {
        let mut batch = Batch::default();
        let mut after = self.append(&mut batch, first, report);
        let until = Deadline::after(self.patience.min(self.limits.within));
        while after.is_none() && batch.bytes() < self.limits.bytes {
            let next = match jobs.try_recv() {
                Ok(job) => Some(job),
                Err(_) if batch.len() < self.last_batch => {
                    let left = until.left().unwrap_or_default();
                    edge::receive_within(jobs, left).ok()
                }
                Err(_) => None,
            };
            let Some(job) = next else { break };
            after = self.append(&mut batch, job, report);
        }
        self.last_batch = batch.len();
        self.commit(&mut batch, report);
        match after {
            Some(LogJob::Read { ticket, into, range, id, lsn }) => {
                let outcome = batch::read(&mut *self.log, &into, &range, &id, lsn);
                report.tell(Done::Restored(ticket, outcome));
            }
            Some(LogJob::End(done)) => self.end(&done, report),
            Some(LogJob::Check(check)) => self.checks.add(check),
            _ => {}
        }
    }

    /// Appends a job. One that is no part of a batch is given back.
    fn append(&mut self, batch: &mut Batch, job: LogJob, report: &Report) -> Option<LogJob> {
        match job {
            LogJob::Put(put) => {
                if batch.put(&mut *self.log, &put, &self.place.folder) == Room::None {
                    // What is dead makes room, once that is durable.
                    self.commit(batch, report);
                    while self.collect(report) {}
                    batch.put_again(&mut *self.log, &put, &self.place.folder);
                }
                if let Some((damaged, lsn)) = put.damaged.zip(batch.last_put()) {
                    self.rewritten.insert(damaged, lsn);
                    self.scrub.forget(damaged);
                }
                None
            }
            LogJob::Dead(end) => {
                self.scrub.forget(end.lsn);
                // What was asked before it was known that the record is another one now.
                let lsn = self.rewritten.remove(&end.lsn).unwrap_or(end.lsn);
                let end = RecordEnd { lsn, ..end };
                if batch.dead(&mut *self.log, &end, &self.place.folder) == Room::None {
                    self.commit(batch, report);
                    while self.collect(report) {}
                    batch.dead_again(&mut *self.log, &end, &self.place.folder);
                }
                None
            }
            other => Some(other),
        }
    }

    fn commit(&mut self, batch: &mut Batch, report: &Report) {
        if batch.is_empty() {
            return;
        }
        let begun = edge::now();
        let answers = batch.commit(&mut *self.log, &self.place.folder);
        let taken = edge::since(begun);
        self.patience = if taken < SYNC_FAST { Duration::ZERO } else { taken / 2 };
        self.is_due = true;
        self.confirm_at = Some(Deadline::after(CONFIRM_AFTER));
        self.prepare_at = Some(Deadline::after(PREPARE_AFTER));
        // The figures first: a client that learns the outcome finds them in the status.
        let news = self.news();
        report.tell_all(news.into_iter().chain(answers));
    }

    /// The figures, where they are others than those that were told.
    fn news(&mut self) -> Option<Done> {
        let figures = self.figures();
        if figures == self.told {
            return None;
        }
        self.told = figures.clone();
        Some(Done::LogFigures(Box::new(figures)))
    }

    fn figures(&self) -> LogFigures {
        let status = self.log.status();
        let (scrubbed_bytes_total, scrubs_total) = self.scrub.totals();
        LogFigures {
            folder: self.place.folder.display().to_string(),
            device: status.device,
            used_bytes: status.used_bytes,
            live_bytes: status.live_bytes,
            bytes_max: self.place.bytes_max,
            segments: status.segments,
            written_bytes_total: status.written_bytes,
            put_bytes_total: status.put_bytes,
            damaged: self.scrub.damaged(),
            scrubbed_bytes_total,
            scrubs_total,
            fault: status.failed.unwrap_or_default(),
            ..LogFigures::default()
        }
    }
}
