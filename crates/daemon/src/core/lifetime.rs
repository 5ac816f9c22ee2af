//! When the daemon ends.

use std::time::Instant;

use crate::starter::Starter;

/// What decides how long the daemon lives.
#[derive(Debug)]
pub(super) struct Lifetime {
    /// The process that the store was started for.
    pub(super) starter: Starter,
    /// Until when a daemon without clients waits for one.
    pub(super) idle_deadline: Option<Instant>,
    /// Whether another daemon serves the socket's name, so that no client can find this one.
    pub(super) is_displaced: bool,
    /// Whether the loop ends with this turn.
    pub(super) is_stopping: bool,
}

impl Lifetime {
    /// The lifetime of a daemon that was started for that process.
    pub(super) fn new(starter: Starter) -> Self {
        Self { starter, idle_deadline: None, is_displaced: false, is_stopping: false }
    }

    /// Whether the daemon has waited for a client for long enough.
    pub(super) fn is_idle_for_too_long(&self, now: Instant) -> bool {
        self.idle_deadline.is_some_and(|until| until <= now)
    }
}
