//! The common steps of every function at the boundary to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plasmon_client::{Error, Result};

use crate::last_error::{remember, remember_panic};

/// Success.
pub const PLASMON_OK: i32 = 0;
/// The iteration has ended.
pub const PLASMON_END: i32 = -1;
/// The wait has no answer yet.
pub const PLASMON_PENDING: i32 = -2;
/// A panic was caught.
pub const PLASMON_PANIC: i32 = -3;

/// Runs the body of a function that gives a code.
pub(crate) fn run(body: impl FnOnce() -> Result<i32>) -> i32 {
    // A panic is a fault of ours. The values that the body touched are either local to it or
    // guarded by the client's own locks, which recover.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => failed(error),
        Err(panic) => {
            remember_panic(&*panic, PLASMON_PANIC);
            PLASMON_PANIC
        }
    }
}

/// The same for a body that succeeds in one way only.
pub(crate) fn done(body: impl FnOnce() -> Result<()>) -> i32 {
    run(|| body().map(|()| PLASMON_OK))
}

/// Runs the body of a function that gives a value and cannot fail; `fallback` if it panics.
pub(crate) fn value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        remember_panic(&*panic, PLASMON_PANIC);
        fallback
    })
}

/// Stores an error for this thread and returns its code.
pub(crate) fn failed(error: Error) -> i32 {
    let code = i32::from(error.code().number());
    remember(error);
    code
}
