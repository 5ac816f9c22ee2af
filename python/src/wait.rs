//! Waiting in steps, for calls that must check for signals in between.

use std::time::Duration;

use plasmon_client::{Deadline, Result};
use pyo3::prelude::*;

use crate::interrupt::ask;

/// How long one step of a wait lasts.
pub(crate) const STEP: Duration = Duration::from_millis(250);

/// The shortest step of a wait that has any time: a client asked with none answers that there is no
/// such object, not that the time has passed.
const STEP_MIN: Duration = Duration::from_millis(1);

/// The outcome of one step of a wait.
pub(crate) enum Step<T> {
    /// The end of the wait.
    Done(T),
    /// What to answer if the time is over; else the wait goes on.
    NotYet(T),
}

/// Waits in steps, each of which Ctrl-C can end, until one is done or the time has passed.
/// `None` waits without a limit.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(Duration) -> Result<Step<T>> + Send,
) -> PyResult<T> {
    let deadline = Deadline::within(timeout);
    loop {
        let left = deadline.left();
        let step = match left {
            None => STEP,
            Some(_) if timeout == Some(Duration::ZERO) => Duration::ZERO,
            Some(left) => left.clamp(STEP_MIN, STEP),
        };
        match ask(py, || attempt(step))? {
            Step::Done(value) => return Ok(value),
            Step::NotYet(value) if left.is_some_and(|left| left <= step) => return Ok(value),
            Step::NotYet(_) => {}
        }
    }
}
