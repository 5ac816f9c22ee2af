//! The last error of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};

use plasmon_client::{Error, ObjectId};

/// The facts of a failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) code: i32,
    pub(crate) os_error: i32,
    pub(crate) id: Option<ObjectId>,
    pub(crate) wanted: u64,
    pub(crate) found: u64,
}

#[derive(Debug, Default)]
struct Last {
    message: CString,
    facts: Facts,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

fn keep(message: String, facts: Facts) {
    // A zero byte within would end the C string early, and hide what comes after it.
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // In a thread that is ending, no later call can ask for the error.
    let _ = LAST.try_with(|last| last.replace(Last { message, facts }));
}

/// Keeps an error for the thread that caused it.
pub(crate) fn remember(error: Error) {
    let facts = Facts {
        code: i32::from(error.code().number()),
        os_error: error.os_error().unwrap_or(0),
        id: error.id(),
        wanted: error.wanted(),
        found: error.found(),
    };
    keep(error.to_string(), facts);
}

/// Keeps the message of a panic, with the code of panics.
pub(crate) fn remember_panic(panic: &(dyn Any + Send), code: i32) {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let facts = Facts { code, ..Facts::default() };
    keep(format!("a bug in the Plasmon library: {said}; please report it"), facts);
}

/// The message, which lives until the thread's next error; empty before the first one.
pub(crate) fn message() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The facts; all zero before the first error.
pub(crate) fn facts() -> Facts {
    LAST.try_with(|last| last.borrow().facts).unwrap_or_default()
}
