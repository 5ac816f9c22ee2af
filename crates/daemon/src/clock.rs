//! The daemon's clock: milliseconds since 1970 that never run backwards.

use std::time::{Duration, Instant};

use plasmon_shm::edge;

/// A clock that was set once from the system's and then only counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_ms: u64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { started: edge::now(), started_ms: millis(edge::unix_time()) }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.started_ms + self.uptime_ms()
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime_ms(&self) -> u64 {
        millis(edge::since(self.started))
    }

    /// How long it is until a time of this clock.
    pub(crate) fn until(&self, at_ms: u64) -> Duration {
        let at = Duration::from_millis(at_ms.saturating_sub(self.started_ms));
        at.saturating_sub(edge::since(self.started))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
