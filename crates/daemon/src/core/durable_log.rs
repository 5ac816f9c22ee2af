//! The log of durable objects as the core sees it.

use plasmon_proto::ObjectId;
use plasmon_proto::status::LogFigures;

/// The log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// What its worker said last.
    pub(super) figures: LogFigures,
}

impl Log {
    /// What the store knows, and what the worker said.
    pub(super) fn completed(&self, known: &LogFigures) -> LogFigures {
        let LogFigures { objects, objects_away, waiting, .. } = *known;
        let LogFigures { corrupt, damaged_total, repaired_total, .. } = *known;
        LogFigures {
            objects,
            objects_away,
            waiting,
            corrupt,
            damaged_total,
            repaired_total,
            ..self.figures.clone()
        }
    }
}

/// Says of which objects the log's record ended, because their ids were given to others while it
/// was not open.
pub(crate) fn report_ended(ended: &[ObjectId]) {
    for id in ended {
        tracing::error!(
            %id,
            "a durable object ended: another object was put under its id while the log was not open"
        );
    }
}
