//! The settings of the log of durable objects.

use std::time::Duration;

use plasmon_log::{DeviceKind, LogConfig};
use plasmon_proto::settings::Settings;

use super::bad_start::BadStart;
use crate::workers::BatchLimits;

/// The smallest segment.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// The largest.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The longest time for which a batch is gathered.
const BATCH_MS_MAX: u32 = 1000;

/// Segments that a log must have room for: one that is written, one to copy what lives into, and
/// one to empty.
const SEGMENTS_MIN: u64 = 3;

/// The log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Where it is and how large it may be.
    pub log: LogConfig,
    /// How much is gathered for one sync.
    pub(crate) batch: BatchLimits,
}

impl Durable {
    /// The log of these settings; none without a folder.
    pub(super) fn of(settings: &Settings) -> Result<Option<Self>, BadStart> {
        if settings.durable_dir.is_empty() {
            return Ok(None);
        }
        let wrong = |key, what| Err(BadStart::Value { key, what });
        let folder = match std::path::absolute(&settings.durable_dir) {
            Ok(folder) => folder,
            Err(error) => return wrong("durable_dir", error.to_string()),
        };
        let device = match settings.durable_device.as_str() {
            "auto" => DeviceKind::Auto,
            "file" => DeviceKind::File,
            "dax" => DeviceKind::Dax,
            other => {
                let what = format!("\"{other}\" is not one of auto, file, dax");
                return wrong("durable_device", what);
            }
        };
        let segment_bytes = settings.durable_segment_bytes.0;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            let what = format!("{segment_bytes} is not between 1 MiB and 1 GiB");
            return wrong("durable_segment_bytes", what);
        }
        let bytes_max = Some(settings.durable_bytes_max.0).filter(|bytes| *bytes > 0);
        let bytes_min = SEGMENTS_MIN * segment_bytes;
        if let Some(bytes) = bytes_max.filter(|bytes| *bytes < bytes_min) {
            let what = format!(
                "{bytes} bytes are less than {SEGMENTS_MIN} segments of {segment_bytes} bytes \
                 (durable_segment_bytes)"
            );
            return wrong("durable_bytes_max", what);
        }
        let within = Duration::from_millis(settings.durable_batch_ms.min(BATCH_MS_MAX).into());
        let power_loss_protection = settings.durable_plp;
        Ok(Some(Self {
            log: LogConfig { folder, device, bytes_max, segment_bytes, power_loss_protection },
            batch: BatchLimits {
                within,
                bytes: settings.durable_batch_bytes.0.max(1),
                scrub_bytes_per_s: settings.durable_scrub_bytes_per_second.0,
            },
        }))
    }
}
