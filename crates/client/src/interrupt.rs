//! Ending a call early.
//!
//! Every call of the client that sleeps does so in steps. Between two of them it asks whether its
//! caller still wants it, if the caller said how to ask: a language with its own signal handlers
//! runs them there. A signal ends a step at once.

use std::cell::Cell;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_shm::deadline::Deadline;

use crate::error::{Error, Result};

/// The longest that a call sleeps before it asks whether it is still wanted.
const STEP: Duration = Duration::from_millis(100);

thread_local! {
    static CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Does some work with the client that can be ended early: each call of the client on this thread
/// asks `is_interrupted` at least ten times a second while it waits, and when the answer is `true`
/// it fails with [`Code::Cancelled`]. `is_interrupted` must not use the client.
pub fn interruptible<T>(is_interrupted: fn() -> bool, work: impl FnOnce() -> T) -> T {
    /// Puts the check from before back, also when the work panics.
    struct Restore(Option<fn() -> bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHECK.set(self.0);
        }
    }
    let _restore = Restore(CHECK.replace(Some(is_interrupted)));
    work()
}

/// An error if the caller wants the call to end.
pub(crate) fn check(doing: &'static str) -> Result<()> {
    match CHECK.get() {
        Some(is_interrupted) if is_interrupted() => {
            Err(Error::new(Code::Cancelled, doing).with_detail("interrupted by a signal"))
        }
        _ => Ok(()),
    }
}

/// Until when a call may sleep that is to end at the deadline.
pub(crate) fn step(deadline: Deadline) -> Deadline {
    if CHECK.get().is_none() { deadline } else { deadline.earlier(Deadline::after(STEP)) }
}

/// For how long a call may sleep that has nothing to wait for but the time.
pub(crate) fn pause(wanted: Duration, deadline: Deadline) -> Duration {
    step(deadline).left().map_or(wanted, |left| left.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_interrupted_only_within_the_work() {
        let check = || check("testing");
        assert!(check().is_ok());
        assert_eq!(step(Deadline::NEVER), Deadline::NEVER);
        let outcome = interruptible(
            || true,
            || {
                let inner = interruptible(|| false, check);
                (inner.is_ok(), check().map_err(|error| error.code()))
            },
        );
        assert_eq!(outcome, (true, Err(Code::Cancelled)));
        assert!(check().is_ok());
    }

    #[test]
    fn a_panic_ends_the_work_as_well() {
        let panicked = std::panic::catch_unwind(|| interruptible(|| true, || panic!("a test")));
        assert!(panicked.is_err());
        assert!(check("testing").is_ok());
    }

    #[test]
    fn sleeps_are_short_only_with_an_interrupt_check() {
        let wanted = Duration::from_secs(5);
        assert_eq!(pause(wanted, Deadline::NEVER), wanted);
        assert!(interruptible(|| false, || pause(wanted, Deadline::NEVER)) <= STEP);
        assert_eq!(pause(wanted, Deadline::after(Duration::ZERO)), Duration::ZERO);
    }
}
