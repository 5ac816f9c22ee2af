//! Records that are read because the pool daemon asks for it, a piece at a time, so that what waits
//! for the log does not wait for all of them.

use std::collections::VecDeque;

use plasmon_log::{LogError, ObjectLog, append_checksum};
use plasmon_store::event::RecordCheck;

use super::super::{Done, Report};
use super::batch::allowed;
use super::job::LogCheck;

/// Checks that are under way, in order.
#[derive(Debug, Default)]
pub(super) struct Checks(VecDeque<LogCheck>);

impl Checks {
    pub(super) fn add(&mut self, check: LogCheck) {
        self.0.push_back(check);
    }

    /// Reads a piece, and says what was found if it was the last. Whether there was one.
    pub(super) fn read_on(&mut self, log: &mut dyn ObjectLog, report: &Report) -> bool {
        let Some(mut check) = self.0.pop_front() else { return false };
        match check.read_piece(log) {
            Ok(Some(next)) => {
                check.at = next;
                self.0.push_front(check);
            }
            Ok(None) => report.tell(Done::LogChecked(check.ticket, RecordCheck::Right(check.crc))),
            Err(error) => {
                let id = check.id;
                tracing::error!(%id, %error, "the record of a durable object was read");
                let found = match error {
                    LogError::Corrupt { .. } => RecordCheck::Damaged,
                    // It may have ended meanwhile.
                    _ => RecordCheck::Failed,
                };
                report.tell(Done::LogChecked(check.ticket, found));
            }
        }
        true
    }
}

impl LogCheck {
    fn read_piece(&mut self, log: &mut dyn ObjectLog) -> Result<Option<u64>, LogError> {
        allowed()?;
        let Self { lsn, at, left, crc, .. } = self;
        log.check(*lsn, *at, &mut |piece| {
            let bytes = (*left).min(piece.len() as u64);
            *crc = append_checksum(*crc, &piece[..bytes as usize]);
            *left -= bytes;
        })
    }
}
