//! Panics stop here: none may run into C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of `body`, or `otherwise` when it panicked. The panic's message is on the standard
/// error by then.
pub(crate) fn or<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// The outcome of `body`, or that of `otherwise` when it panicked.
pub(crate) fn or_else<T>(otherwise: impl FnOnce() -> T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| otherwise())
}
