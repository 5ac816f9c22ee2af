//! Errors for C: the last one of a thread, and the meaning of codes.

use std::ffi::c_char;

use plasmon_client::Code;

use crate::arguments::write_out;
use crate::boundary::{PLASMON_OK, done, value};
use crate::id::plasmon_id;
use crate::last_error::{self, Facts};

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

impl From<Facts> for plasmon_error {
    fn from(facts: Facts) -> Self {
        Self {
            code: facts.code,
            os_error: facts.os_error,
            has_id: i32::from(facts.id.is_some()),
            id: facts.id.map(plasmon_id::from).unwrap_or_default(),
            wanted: facts.wanted,
            found: facts.found,
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_error_message() -> *const c_char {
    value(c"".as_ptr(), last_error::message)
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_error_facts(facts: *mut plasmon_error) -> i32 {
    done(|| {
        let last = last_error::facts().into();
        // SAFETY: the caller gives a pointer to the struct, or null, which is refused.
        unsafe { write_out(facts, "facts", last) }
    })
}

/// The key of a code with a terminating zero.
macro_rules! texts_of {
    ($code:expr, $($name:ident),+ $(,)?) => {
        match $code {
            $(Some(Code::$name) => {
                // The two strings are constants of the code; the zero makes them C's.
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

fn strings(code: i32) -> (*const c_char, *const c_char) {
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
        Unreachable,
        NotEnoughNodes,
    )
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_code_key(code: i32) -> *const c_char {
    strings(code).0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plasmon_code_advice(code: i32) -> *const c_char {
    strings(code).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::PLASMON_PANIC;
    use std::ffi::CStr;

    #[test]
    fn every_code_has_its_strings_in_c() {
        let text = |pointer| {
            // SAFETY: the functions give static strings with a terminating zero.
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
    fn a_panic_is_reported_and_does_not_pass_the_border() {
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
