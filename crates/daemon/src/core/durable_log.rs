//! The log of durable objects as the core sees it.

use plasmon_log::LogConfig;
use plasmon_proto::ObjectId;
use plasmon_proto::status::LogFigures;

/// The log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// What its worker said last.
    pub(super) figures: LogFigures,
}

impl Log {
    /// Before its worker has said anything: where it is.
    pub(super) fn of(config: Option<&LogConfig>) -> Self {
        let figures = config.map(|config| LogFigures {
            folder: config.folder.display().to_string(),
            bytes_max: config.bytes_max.unwrap_or(0),
            ..LogFigures::default()
        });
        Self { figures: figures.unwrap_or_default() }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// `plasmon start` asked before the worker had said anything, and named no folder.
    #[test]
    fn the_folder_is_known_from_the_beginning() {
        let config = LogConfig {
            folder: "/var/lib/plasmon".into(),
            device: plasmon_log::DeviceKind::Auto,
            bytes_max: Some(1 << 30),
            segment_bytes: 1 << 20,
            power_loss_protection: false,
        };
        let known = LogFigures { objects: 3, ..LogFigures::default() };
        let told = Log::of(Some(&config)).completed(&known);
        assert_eq!((&*told.folder, told.bytes_max, told.objects), ("/var/lib/plasmon", 1 << 30, 3));
        assert_eq!(Log::of(None).completed(&known), known);
    }
}
