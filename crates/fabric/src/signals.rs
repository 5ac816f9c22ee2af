//! Signals are handled as before a library was called: initializers of some providers have them
//! print a backtrace, or end the process in their own way.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The signals whose handlers libraries that come with providers replace.
const SIGNALS: [c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGTERM,
];

/// How signals were handled before the first of the calls that are under way. What a later one
/// finds may be the work of an earlier one.
static BEFORE: Mutex<Before> = Mutex::new(Before { calls: 0, handlers: Vec::new() });

struct Before {
    calls: usize,
    handlers: Vec<(c_int, libc::sigaction)>,
}

/// Does something, after which signals are handled as before. Several threads may do so at a time,
/// and one that never comes back holds up no other.
pub(crate) fn keeping_signals<T>(act: impl FnOnce() -> T) -> T {
    let _call = Call::begin();
    act()
}

/// A call that is under way.
struct Call;

impl Call {
    fn begin() -> Self {
        let mut before = before();
        if before.calls == 0 {
            before.handlers = SIGNALS.into_iter().filter_map(handler).collect();
        }
        before.calls += 1;
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut before = before();
        before.calls -= 1;
        for (signal, handler) in &before.handlers {
            // SAFETY: the handler is one that was set in this process before.
            unsafe { libc::sigaction(*signal, handler, std::ptr::null_mut()) };
        }
    }
}

fn before() -> MutexGuard<'static, Before> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a signal is handled.
fn handler(signal: c_int) -> Option<(c_int, libc::sigaction)> {
    let mut handler = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without another handler the call writes the one that is set.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), handler.as_mut_ptr()) };
    // SAFETY: zeros are a value of this structure, too.
    (read == 0).then(|| (signal, unsafe { handler.assume_init() }))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// As the initializer of a provider does.
    fn replace(signal: c_int) {
        // SAFETY: to ignore a signal needs nothing; no test of this process sends this one.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }

    #[test]
    fn calls_that_overlap_leave_signals_as_they_were() {
        let signal = libc::SIGHUP;
        let found = || handler(signal).expect("it is a signal").1.sa_sigaction;
        let at_first = found();
        let (replaced, second_is_in, first_is_over) =
            (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                keeping_signals(|| {
                    replace(signal);
                    replaced.wait();
                    second_is_in.wait();
                });
                first_is_over.wait();
            });
            scope.spawn(|| {
                replaced.wait();
                keeping_signals(|| {
                    second_is_in.wait();
                    first_is_over.wait();
                    replace(signal);
                });
            });
        });
        assert_eq!(found(), at_first);
    }
}
