//! The last error of each thread, and what codes mean.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};

use plasmon_client::{Code, Error};

use crate::arguments::write_out;
use crate::boundary::{PLASMON_OK, PLASMON_PANIC, done, value};
use crate::id::plasmon_id;

/// The facts of a failure, as C sees them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct plasmon_error {
    code: i32,
    os_error: i32,
    has_id: i32,
    id: plasmon_id,
    wanted: u64,
    found: u64,
}

#[derive(Debug, Default)]
struct Last {
    message: CString,
    facts: plasmon_error,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

fn keep(message: String, facts: plasmon_error) {
    // A zero byte within would end the text early: what is behind it is of no use to C.
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has nobody left to ask.
    let _ = LAST.try_with(|last| last.replace(Last { message, facts }));
}

/// Keeps an error for the thread that caused it.
pub(crate) fn remember(error: Error) {
    let facts = plasmon_error {
        code: i32::from(error.code().number()),
        os_error: error.os_error().unwrap_or(0),
        has_id: i32::from(error.id().is_some()),
        id: error.id().map(plasmon_id::from).unwrap_or_default(),
        wanted: error.wanted(),
        found: error.found(),
    };
    keep(error.to_string(), facts);
}

/// Keeps what a panic said.
pub(crate) fn remember_panic(panic: &(dyn Any + Send)) {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let facts = plasmon_error { code: PLASMON_PANIC, ..plasmon_error::default() };
    keep(format!("a bug in the Plasmon library: {said}; please report it"), facts);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_error_message() -> *const c_char {
    value(c"".as_ptr(), || {
        LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_error_facts(facts: *mut plasmon_error) -> i32 {
    done(|| {
        let last = LAST.try_with(|last| last.borrow().facts).unwrap_or_default();
        // SAFETY: the caller gives a pointer to the struct, or null, which is refused.
        unsafe { write_out(facts, "facts", last) }
    })
}

/// The key of a code with a terminating zero.
macro_rules! texts_of {
    ($code:expr, $($name:ident),+ $(,)?) => {
        match $code {
            $(Some(Code::$name) => {
                // The two texts are constants of the code; the zero makes them C's.
                const KEY: &str = Code::$name.key();
                const ADVICE: &str = Code::$name.advice();
                (terminated!(KEY), terminated!(ADVICE))
            })+
            _ => (c"unknown".as_ptr(), c"".as_ptr()),
        }
    };
}

macro_rules! terminated {
    ($text:expr) => {{
        const BYTES: [u8; $text.len() + 1] = {
            let mut bytes = [0; $text.len() + 1];
            let mut at = 0;
            while at < $text.len() {
                bytes[at] = $text.as_bytes()[at];
                at += 1;
            }
            bytes
        };
        BYTES.as_ptr().cast::<c_char>()
    }};
}

fn texts(code: i32) -> (*const c_char, *const c_char) {
    if code == PLASMON_OK {
        return (c"ok".as_ptr(), c"".as_ptr());
    }
    let code = u16::try_from(code).ok().and_then(Code::from_number);
    texts_of!(
        code,
        Absent,
        Exists,
        StoreFull,
        QuotaExceeded,
        TimedOut,
        CreatorDied,
        Deleted,
        Evicted,
        NotSealed,
        AlreadySealed,
        InUse,
        TooLarge,
        TooManyPins,
        NotPermitted,
        BadRequest,
        VersionMismatch,
        Disconnected,
        NotOwner,
        Corrupt,
        LimitReached,
        OutOfDescriptors,
        Io,
        AlreadyRunning,
        Cancelled,
        Unsupported,
        Forked,
    )
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_code_key(code: i32) -> *const c_char {
    texts(code).0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_code_advice(code: i32) -> *const c_char {
    texts(code).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn every_code_has_its_texts_in_c() {
        let text = |pointer| {
            // SAFETY: the functions give static texts with a terminating zero.
            unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
        };
        for code in Code::ALL {
            let number = i32::from(code.number());
            assert_eq!(text(plasmon_code_key(number)), code.key());
            assert_eq!(text(plasmon_code_advice(number)), code.advice());
        }
        assert_eq!((text(plasmon_code_key(0)), text(plasmon_code_key(-9))), ("ok", "unknown"));
    }

    #[test]
    fn a_panic_is_told_and_does_not_pass_the_border() {
        let code = crate::boundary::run(|| panic!("on purpose"));
        assert_eq!(code, PLASMON_PANIC);
        let mut facts = plasmon_error::default();
        // SAFETY: a local struct.
        assert_eq!(unsafe { plasmon_error_facts(&raw mut facts) }, PLASMON_OK);
        assert_eq!(facts.code, PLASMON_PANIC);
        // SAFETY: the message is terminated and lives until the next call.
        let message = unsafe { CStr::from_ptr(plasmon_error_message()) };
        assert!(message.to_str().unwrap().contains("on purpose"));
    }
}
