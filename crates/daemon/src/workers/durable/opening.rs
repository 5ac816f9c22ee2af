//! Opening the log, and what is answered until it is open.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use plasmon_log::{Damage, Found, LogConfig, LogError, ObjectLog, Opened};
use plasmon_proto::Code;
use plasmon_proto::status::LogFigures;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_store::event::{LogFailure, LoggedObject, ReadBack, RecordCheck};

use super::super::{Done, Report};
use super::job::LogJob;

/// How long a log that could not be opened is left alone.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// For how long a folder that another process has is waited for: the daemon before this one may be
/// ending.
const LOCKED_FOR: Duration = Duration::from_secs(3);

/// The pause between two looks at such a folder.
const LOCKED_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Opens the log.
pub(crate) type OpenLog = Box<dyn FnMut() -> Result<Opened, LogError> + Send>;

/// Where a log is.
#[derive(Clone, Debug)]
pub(crate) struct LogPlace {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The most bytes, 0 for no limit.
    pub(crate) bytes_max: u64,
}

/// A log on its way to its worker.
pub(crate) struct LogSlot {
    pub(super) place: LogPlace,
    pub(super) state: SlotState,
}

pub(super) enum SlotState {
    /// It is open.
    Open(Box<dyn ObjectLog>),
    /// The worker opens it, and says first how that went.
    Closed(OpenLog, Sender<Result<Vec<LoggedObject>, String>>),
}

impl LogSlot {
    /// A log that is open.
    pub(crate) fn open(config: &LogConfig, log: Box<dyn ObjectLog>) -> Self {
        Self { place: place_of(config), state: SlotState::Open(log) }
    }

    /// A log that its worker opens. The first try is told through the channel, if that is listened
    /// to, and a later one as [`Done::LogOpened`].
    pub(crate) fn closed(
        config: &LogConfig,
        first: Sender<Result<Vec<LoggedObject>, String>>,
    ) -> Self {
        Self { place: place_of(config), state: SlotState::Closed(opener(config), first) }
    }
}

impl std::fmt::Debug for LogSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the log in {}", self.place.folder.display())
    }
}

fn place_of(config: &LogConfig) -> LogPlace {
    LogPlace { folder: config.folder.clone(), bytes_max: config.bytes_max.unwrap_or(0) }
}

/// How the log of a store that is taken over is opened.
fn opener(config: &LogConfig) -> OpenLog {
    let config = config.clone();
    Box::new(move || plasmon_log::open_again(&config))
}

/// What is in a log that was opened, as the store is told of it. What opening it has shown is
/// logged.
pub(crate) fn found_in(opened: &mut Opened) -> Vec<LoggedObject> {
    let recovery = &opened.recovery;
    recovery.damaged.iter().for_each(report_damage);
    tracing::info!(
        objects = opened.found.len(),
        segments = recovery.segments,
        torn_records = recovery.torn_records,
        "the log of durable objects is open"
    );
    let object_of = |Found { object, lsn }| LoggedObject {
        id: object.id,
        lsn,
        meta: object.meta(),
        attributes: object.attributes,
    };
    std::mem::take(&mut opened.found).into_iter().map(object_of).collect()
}

/// Says which place of a log is damaged.
pub(super) fn report_damage(damage: &Damage) {
    tracing::error!(
        place = %damage.place,
        offset = damage.offset,
        object = ?damage.object.map(|(id, _)| id.to_string()),
        what = damage.what,
        "a place of the log of durable objects is damaged"
    );
}

/// The log, once that is open. Until then every job is refused. `None` if the store
/// ends before.
pub(super) fn open(
    jobs: &Receiver<LogJob>,
    report: &Report,
    slot: LogSlot,
) -> Option<(Box<dyn ObjectLog>, LogPlace)> {
    let LogSlot { place, state } = slot;
    let (mut open, first) = match state {
        SlotState::Open(log) => return Some((log, place)),
        SlotState::Closed(open, first) => (open, first),
    };
    let (mut first, mut logged) = (Some(first), String::new());
    let locked = Deadline::after(LOCKED_FOR);
    loop {
        let fault = match open() {
            Ok(mut opened) => {
                let found = found_in(&mut opened);
                let told = match first.take() {
                    Some(first) => first.send(Ok(found)).map_err(|unheard| unheard.0),
                    None => Err(Ok(found)),
                };
                if let Err(Ok(found)) = told {
                    report.tell(Done::LogOpened(found));
                }
                return Some((opened.log, place));
            }
            Err(error @ LogError::Locked { .. }) if !locked.is_past() => {
                refuse_for_a_while(jobs, report, &error.to_string(), LOCKED_AGAIN_AFTER)?;
                continue;
            }
            Err(error) => error.to_string(),
        };
        if fault != logged {
            tracing::error!(
                fault,
                "the log of durable objects cannot be opened; it is tried again"
            );
            logged.clone_from(&fault);
        }
        report.tell(Done::LogFigures(Box::new(closed_figures(&place, &fault))));
        if let Some(first) = first.take() {
            // The start may not have waited for so long.
            let _ = first.send(Err(fault.clone()));
        }
        refuse_for_a_while(jobs, report, &fault, OPEN_AGAIN_AFTER)?;
    }
}

/// Answers jobs that cannot be done. `None` when there will be no more.
fn refuse_for_a_while(
    jobs: &Receiver<LogJob>,
    report: &Report,
    fault: &str,
    pause: Duration,
) -> Option<()> {
    let until = Deadline::after(pause);
    loop {
        let left = until.left().unwrap_or_default();
        match edge::receive_within(jobs, left) {
            Ok(job) => refuse(job, report, fault),
            Err(RecvTimeoutError::Timeout) => return Some(()),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn refuse(job: LogJob, report: &Report, fault: &str) {
    let detail = format!("the log of durable objects is not open: {fault}");
    let failure = LogFailure { code: Code::Io, detail };
    match job {
        LogJob::Put(put) => report.tell(Done::Logged(put.ticket, Err(failure))),
        LogJob::Dead(end) => report.tell(Done::Unlogged(end.ticket, Err(failure))),
        LogJob::Read { ticket, .. } => report.tell(Done::Restored(ticket, ReadBack::Failed)),
        LogJob::Check(check) => {
            report.tell(Done::LogChecked(check.ticket, RecordCheck::Failed));
        }
        // The asker may have gone.
        LogJob::End(done) => drop(done.send(())),
    }
}

/// The figures of a log that is not open.
pub(super) fn closed_figures(place: &LogPlace, fault: &str) -> LogFigures {
    LogFigures {
        folder: place.folder.display().to_string(),
        bytes_max: place.bytes_max,
        fault: fault.to_owned(),
        ..LogFigures::default()
    }
}
