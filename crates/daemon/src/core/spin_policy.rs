//! Whether the daemon looks at the rings for a while before it sleeps.
//!
//! A client that submits one record after the other then need not wake it for each. But where the
//! submitter shares the daemon's processor, every moment of looking is taken from it, and to yield
//! does not help: a thread yields only within its own group, and the kernel puts a detached daemon
//! into one of its own (autogroup). So looking must have paid lately, and is tried only now and
//! then where it did not.

use std::time::{Duration, Instant};

/// How many times the daemon goes to sleep at once after it had looked in vain.
const PASSES: u32 = 7;

/// The decision.
#[derive(Debug)]
pub(super) struct SpinPolicy {
    span: Duration,
    /// When a ring last held something; `None` once the daemon went to sleep.
    worked: Option<Instant>,
    passes_left: u32,
}

impl SpinPolicy {
    /// Looks for up to `span` after the last record.
    pub(super) fn new(span: Duration) -> Self {
        Self { span, worked: None, passes_left: 0 }
    }

    /// A ring held something.
    pub(super) fn worked(&mut self, now: Instant) {
        if self.worked.replace(now).is_some() {
            // It was found without a wake-up.
            self.passes_left = 0;
        }
    }

    /// A thread was woken that may want the processor that polling would keep.
    pub(super) fn stop(&mut self) {
        self.worked = None;
    }

    /// Whether to look once more; otherwise the daemon goes to sleep now.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let Some(worked) = self.worked else { return false };
        if self.passes_left > 0 {
            self.passes_left -= 1;
        } else if now.saturating_duration_since(worked) < self.span {
            return true;
        } else {
            self.passes_left = PASSES;
        }
        self.worked = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_micros(20);

    #[test]
    fn it_goes_on_while_it_pays_and_is_tried_now_and_then_where_it_does_not() {
        let start = Instant::now();
        let after = |us: u64| start + Duration::from_micros(us);
        let mut spinning = SpinPolicy::new(SPAN);
        assert!(!spinning.goes_on(start), "nothing was ever submitted");
        for us in [0, 19, 38] {
            spinning.worked(after(us));
            assert!(spinning.goes_on(after(us + 19)), "{us}");
        }
        assert!(!spinning.goes_on(after(58)));
        for pass in 0..PASSES {
            assert!(!spinning.goes_on(after(60)), "asleep");
            spinning.worked(after(100));
            assert!(!spinning.goes_on(after(100)), "pass {pass}");
        }
        spinning.worked(after(200));
        assert!(spinning.goes_on(after(201)), "tried again");
        spinning.worked(after(202));
        assert!(spinning.goes_on(after(203)), "and it paid");
    }

    #[test]
    fn without_a_span_it_always_sleeps() {
        let mut spinning = SpinPolicy::new(Duration::ZERO);
        let now = Instant::now();
        for _ in 0..20 {
            spinning.worked(now);
            assert!(!spinning.goes_on(now));
        }
    }
}
