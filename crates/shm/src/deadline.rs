//! The end of a wait.
//!
//! Times come from callers, which may pass the longest time there is for no limit. Adding that to a
//! moment of the clock overflows, so nothing outside of this module adds to one.

use std::time::{Duration, Instant};

use crate::edge;

/// When a wait ends, which may be never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No end.
    pub const NEVER: Self = Self(None);

    /// This long from now. A time beyond what the clock can count is forever.
    pub fn after(timeout: Duration) -> Self {
        Self(edge::now().checked_add(timeout))
    }

    /// This long from now; `None` is forever.
    pub fn within(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::NEVER, Self::after)
    }

    /// This long after this deadline.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self(self.0.and_then(|end| end.checked_add(by)))
    }

    /// The one of the two that comes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self(Some(one.min(two))),
            (one, two) => Self(one.or(two)),
        }
    }

    /// Whether the end has come.
    pub fn is_past(self) -> bool {
        self.0.is_some_and(|end| edge::now() >= end)
    }

    /// What is left, nothing when the end has come; `None` is forever.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(edge::now()))
    }

    /// The moment, `None` when there is none.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }
}

impl From<Option<Instant>> for Deadline {
    fn from(end: Option<Instant>) -> Self {
        Self(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_clock_is_for_ever() {
        for timeout in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            let end = Deadline::after(timeout);
            assert_eq!(end, Deadline::NEVER);
            assert_eq!((end.is_past(), end.left(), end.instant()), (false, None, None));
        }
        assert_eq!(Deadline::within(None), Deadline::NEVER);
        assert_eq!(Deadline::after(Duration::ZERO).later(Duration::MAX), Deadline::NEVER);
    }

    #[test]
    fn the_earlier_of_two_ends_counts() {
        let (soon, late) =
            (Deadline::after(Duration::ZERO), Deadline::after(Duration::from_secs(1000)));
        assert_eq!(soon.earlier(late), soon);
        assert_eq!(late.earlier(soon), soon);
        assert_eq!(late.earlier(Deadline::NEVER), late);
        assert_eq!(Deadline::NEVER.earlier(late), late);
        assert!(soon.is_past() && !late.is_past());
        assert_eq!(soon.left(), Some(Duration::ZERO));
        assert!(late.left().is_some_and(|left| left > Duration::from_secs(900)));
        assert!(!soon.later(Duration::from_secs(1000)).is_past());
    }
}
