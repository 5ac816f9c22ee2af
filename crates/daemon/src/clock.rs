//! The daemon's clock: milliseconds since 1970 that never run backwards.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that was set once from the system's and then only counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_ms: u64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        // A machine whose clock is before 1970 gets times near 0; nothing depends on more.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ms: millis(since) }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.started_ms + self.uptime_ms()
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// How long it is until a time of this clock.
    pub(crate) fn until(&self, at_ms: u64) -> Duration {
        let at = Duration::from_millis(at_ms.saturating_sub(self.started_ms));
        at.saturating_sub(self.started.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
