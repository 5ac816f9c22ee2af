//! One batch: what was appended and waits for the sync.

use std::os::fd::AsFd;
use std::path::Path;

use plasmon_log::{LogError, ObjectLog, Source};
use plasmon_proto::extent::Range;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::edge;
use plasmon_spill::Place;
use plasmon_store::event::{LogFailure, Lsn, ReadBack, Ticket};

use super::super::Done;
use super::super::files::{Target, fill};
use super::job::{LogPut, RecordEnd};

/// What a record of a batch is.
#[derive(Debug)]
enum Record {
    Put(Ticket, Result<Lsn, LogFailure>),
    Dead(Ticket, Result<(), LogFailure>),
}

/// Whether the log had room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    None,
}

/// Records that were appended, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    records: Vec<Record>,
    bytes: u64,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record of the put that was appended last, if it was.
    pub(super) fn last_put(&self) -> Option<Lsn> {
        match self.records.last() {
            Some(Record::Put(_, Ok(lsn))) => Some(*lsn),
            _ => None,
        }
    }

    /// Bytes of content.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends an object, if there is room.
    pub(super) fn put(&mut self, log: &mut dyn ObjectLog, put: &LogPut, folder: &Path) -> Room {
        match append(log, put) {
            Err(LogError::Full { .. }) => Room::None,
            appended => {
                self.note_put(put, appended, folder);
                Room::Enough
            }
        }
    }

    /// The same after room was made: an object for which there is still none is refused.
    pub(super) fn put_again(&mut self, log: &mut dyn ObjectLog, put: &LogPut, folder: &Path) {
        let appended = append(log, put);
        self.note_put(put, appended, folder);
    }

    fn note_put(&mut self, put: &LogPut, appended: Result<Lsn, LogError>, folder: &Path) {
        if let Err(error) = &appended {
            tracing::warn!(id = %put.object.id, %error, "an object is not durable");
        }
        self.bytes = self.bytes.saturating_add(put.object.sizes.total().unwrap_or(0));
        let appended = appended.map_err(|error| failure_of(&error, folder));
        self.records.push(Record::Put(put.ticket, appended));
    }

    /// Appends that a record is dead, if there is room.
    pub(super) fn dead(&mut self, log: &mut dyn ObjectLog, end: &RecordEnd, folder: &Path) -> Room {
        match append_end(log, end) {
            Err(LogError::Full { .. }) => Room::None,
            appended => {
                self.note_end(end, appended, folder);
                Room::Enough
            }
        }
    }

    /// The same after room was made: an end for which there is still none is refused.
    pub(super) fn dead_again(&mut self, log: &mut dyn ObjectLog, end: &RecordEnd, folder: &Path) {
        let appended = append_end(log, end);
        self.note_end(end, appended, folder);
    }

    fn note_end(&mut self, end: &RecordEnd, appended: Result<(), LogError>, folder: &Path) {
        let appended = appended.map_err(|error| {
            tracing::error!(id = %end.id, %error, "the end of a durable object is not in the log");
            failure_of(&error, folder)
        });
        self.records.push(Record::Dead(end.ticket, appended));
    }

    /// Makes all of it durable: what is to be told then.
    pub(super) fn commit(&mut self, log: &mut dyn ObjectLog, folder: &Path) -> Vec<Done> {
        let is_any = self
            .records
            .iter()
            .any(|record| matches!(record, Record::Put(_, Ok(_)) | Record::Dead(_, Ok(()))));
        let synced = if is_any { allowed().and_then(|()| log.sync()) } else { Ok(()) };
        let failed = synced.err().map(|error| {
            tracing::error!(%error, "the log of durable objects has failed");
            failure_of(&error, folder)
        });
        self.bytes = 0;
        let told = |record| match (record, &failed) {
            (Record::Put(ticket, Ok(_)), Some(failed)) => Done::Logged(ticket, Err(failed.clone())),
            (Record::Put(ticket, outcome), _) => Done::Logged(ticket, outcome),
            (Record::Dead(ticket, Ok(())), Some(failed)) => {
                Done::Unlogged(ticket, Err(failed.clone()))
            }
            (Record::Dead(ticket, outcome), _) => Done::Unlogged(ticket, outcome),
        };
        self.records.drain(..).map(told).collect()
    }
}

/// Content that is to replace a damaged record and is not what that was made of.
fn is_other() -> LogError {
    let what = "what is in memory is not what was put: it is not written in place of it";
    LogError::Payload(std::io::Error::new(std::io::ErrorKind::InvalidData, what))
}

fn append_end(log: &mut dyn ObjectLog, end: &RecordEnd) -> Result<(), LogError> {
    match allowed().and_then(|()| log.dead(&end.id, end.lsn)) {
        // It is dead as it is.
        Ok(_) | Err(LogError::Absent { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn append(log: &mut dyn ObjectLog, put: &LogPut) -> Result<Lsn, LogError> {
    let attributes = match put.object.attributes.pool {
        Some(_) => put.object.attributes.encode(),
        None => Vec::new(),
    };
    let sizes = &put.object.sizes;
    let source = match &put.content {
        None => Source::Note,
        Some((memfd, offset)) => {
            let place = Place { file: memfd.as_fd(), offset: *offset };
            match attributes.is_empty() {
                true => Source::File(place),
                false => Source::Ended(place, sizes.data + sizes.metadata, &attributes),
            }
        }
    };
    allowed()?;
    if let Some(lsn) = put.damaged {
        match log.matches(lsn, source) {
            Ok(true) => {}
            // It has ended, or has been written again.
            Ok(false) | Err(LogError::Absent { .. }) => return Err(is_other()),
            Err(error) => return Err(error),
        }
    }
    log.put(&put.object, source)
}

/// An error where a simulated disk has one.
pub(super) fn allowed() -> Result<(), LogError> {
    edge::attempt(edge::Attempt::Disk).map_err(|source| LogError::Io {
        action: "use the disk",
        place: String::new(),
        source,
    })
}

/// What a client is told.
pub(super) fn failure_of(error: &LogError, folder: &Path) -> LogFailure {
    let folder = folder.display();
    match error {
        LogError::Full { .. } => LogFailure {
            code: Code::StoreFull,
            detail: format!(
                "{error}: delete durable objects, make room on the disk of {folder}, or, if it is \
                 set, raise durable_bytes_max (`plasmon start --set durable_bytes_max=8g`)"
            ),
        },
        // The log is as it was.
        LogError::BadObject { .. } | LogError::Payload(_) => {
            LogFailure { code: Code::BadRequest, detail: error.to_string() }
        }
        _ => LogFailure {
            code: Code::Io,
            detail: format!(
                "{error}; durable objects can be read and neither be put nor deleted until the \
                 store is started again: look at the disk of {folder} first"
            ),
        },
    }
}

/// Reads a record into the memory.
pub(super) fn read(
    log: &mut dyn ObjectLog,
    into: &Target,
    range: &Range,
    id: &ObjectId,
    lsn: Lsn,
) -> ReadBack {
    let read =
        allowed().and_then(|()| fill(into, range, |write| log.read(lsn, range.bytes, write)));
    match read {
        Ok(()) => ReadBack::Done,
        // What a log that has failed was about to replace may be there when it is opened again.
        Err(LogError::Absent { .. }) if log.status().failed.is_some() => ReadBack::Failed,
        Err(error @ (LogError::Corrupt { .. } | LogError::Absent { .. })) => {
            tracing::error!(%id, %error, "a durable object is lost");
            ReadBack::Corrupt
        }
        Err(error) => {
            tracing::warn!(%id, %error, "a durable object cannot be read now");
            ReadBack::Failed
        }
    }
}
