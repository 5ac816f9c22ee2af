//! Reading the log through, to find what its disk lost before an object is needed.
//!
//! A piece is read when nothing else is to be done, or when the next one has been due for
//! [`LATE_AFTER`]; after each the scrub rests for as long as its rate allows. Between two rounds
//! there is a pause. A damaged place is said in the daemon's log once, and counts until a later
//! round does not find it any more.

use std::collections::BTreeMap;
use std::time::Duration;

use plasmon_log::{Damage, ObjectLog};
use plasmon_shm::deadline::Deadline;
use plasmon_store::event::Lsn;

use super::super::{Done, Report};
use super::batch::allowed;
use super::opening::report_damage;

/// Bytes that are read at once, unless a second brings fewer.
const PIECE_BYTES: u64 = 1 << 20;

/// For how long a piece that is due waits for other jobs.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// The time between the end of a round and the start of the next one.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// So often it is said how many bytes were read, in bytes.
const TOLD_BYTES: u64 = 64 << 20;

/// A damaged place: file, offset, and the record if an object is concerned.
type DamagedPlace = (String, u64, Option<Lsn>);

/// The scrub of a log.
#[derive(Debug)]
pub(super) struct Scrub {
    bytes_per_s: u64,
    /// When the next piece is read.
    at: Deadline,
    /// When it is read even if there are other jobs.
    late_at: Deadline,
    /// Damaged places, and in which round each was found last.
    found: BTreeMap<DamagedPlace, u64>,
    /// Rounds that are over.
    rounds: u64,
    /// Bytes that were read.
    bytes: u64,
}

impl Scrub {
    /// One that begins in a second; at 0 bytes a second, none.
    pub(super) fn new(bytes_per_s: u64) -> Self {
        let never = Deadline::NEVER;
        let found = BTreeMap::new();
        let mut scrub = Self { bytes_per_s, at: never, late_at: never, found, rounds: 0, bytes: 0 };
        scrub.rest(Duration::from_secs(1));
        scrub
    }

    fn rest(&mut self, pause: Duration) {
        if self.bytes_per_s > 0 {
            self.at = Deadline::after(pause);
            self.late_at = Deadline::after(pause.saturating_add(LATE_AFTER));
        }
    }

    /// How long it is until the next piece.
    pub(super) fn left(&self) -> Duration {
        self.at.left().unwrap_or(AGAIN_AFTER)
    }

    /// Whether the next piece is due.
    pub(super) fn is_due(&self) -> bool {
        self.bytes_per_s > 0 && self.at.is_past()
    }

    /// Whether it has been due for long.
    pub(super) fn is_late(&self) -> bool {
        self.bytes_per_s > 0 && self.late_at.is_past()
    }

    /// Reads a piece. Whether the figures have changed in a way that counts.
    pub(super) fn read_on(&mut self, log: &mut dyn ObjectLog, report: &Report) -> bool {
        let wanted = PIECE_BYTES.min(self.bytes_per_s);
        let progress = match allowed().and_then(|()| log.scrub(wanted)) {
            Ok(progress) => progress,
            Err(error) => {
                tracing::warn!(%error, "the log of durable objects cannot be read through");
                self.rest(AGAIN_AFTER);
                return false;
            }
        };
        let read = self.bytes + progress.read_bytes;
        let is_far = read / TOLD_BYTES != self.bytes / TOLD_BYTES;
        self.bytes = read;
        let before = self.found.len();
        for damage in &progress.damaged {
            self.note(damage, report);
        }
        if progress.finished {
            self.rounds += 1;
            let over = self.rounds;
            self.found.retain(|_, round| *round + 1 >= over);
        }
        let took = Duration::from_secs_f64(progress.read_bytes as f64 / self.bytes_per_s as f64);
        self.rest(if progress.finished { AGAIN_AFTER } else { took });
        is_far || progress.finished || self.found.len() != before
    }

    fn note(&mut self, damage: &Damage, report: &Report) {
        let Damage { place, offset, object, .. } = damage;
        let key = (place.clone(), *offset, object.map(|(_, lsn)| lsn));
        if self.found.insert(key, self.rounds).is_none() {
            report_damage(damage);
        }
        if let Some((id, lsn)) = object {
            report.tell(Done::LogDamaged(*id, *lsn));
        }
    }

    /// A record is dead, or is in another place: what was damaged of it does not count.
    pub(super) fn forget(&mut self, lsn: Lsn) {
        if !self.found.is_empty() {
            self.found.retain(|(_, _, of), _| *of != Some(lsn));
        }
    }

    /// Damaged places.
    pub(super) fn damaged(&self) -> u64 {
        self.found.len() as u64
    }

    /// Bytes that were read, and rounds that are over.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.bytes, self.rounds)
    }
}
