//! Sleeping on a word in shared memory. Works on words that the sleeper has mapped read-only.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// How a wait ended. All but [`Outcome::TimedOut`] mean: look at what you wait for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody woke this thread, or the kernel felt like it.
    Woken,
    /// The word had already changed.
    Changed,
    /// The time is over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, until [`wake`] or for at most `timeout`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> io::Result<Outcome> {
    // A timeout beyond the range of the kernel's clock is as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match futex::wait(word, Flags::empty(), expected, timeout.as_ref()) {
        Ok(()) => Ok(Outcome::Woken),
        Err(Errno::AGAIN) => Ok(Outcome::Changed),
        Err(Errno::TIMEDOUT) => Ok(Outcome::TimedOut),
        Err(Errno::INTR) => Ok(Outcome::Interrupted),
        Err(other) => Err(other.into()),
    }
}

/// Wakes up to `count` threads, of whatever process, that sleep on `word`, and returns how many.
pub fn wake(word: &AtomicU32, count: u32) -> io::Result<usize> {
    // The kernel reads the count as a signed number.
    Ok(futex::wake(word, Flags::empty(), count.min(i32::MAX as u32))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Populate, ReadMap, WriteMap};
    use crate::memfd::Memfd;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_wait_ends_at_once_when_the_word_differs_and_at_the_timeout_otherwise() {
        let word = AtomicU32::new(5);
        assert_eq!(wait(&word, 4, None).unwrap(), Outcome::Changed);
        let short = Some(Duration::from_millis(1));
        assert_eq!(wait(&word, 5, short).unwrap(), Outcome::TimedOut);
        assert_eq!(wait(&word, 4, Some(Duration::MAX)).unwrap(), Outcome::Changed);
    }

    #[test]
    fn a_sleeper_on_a_read_only_page_is_woken_through_another_mapping() {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        let writer = WriteMap::new(&memfd, 4096, Populate::No).unwrap();
        let reader = ReadMap::new(&memfd, 4096, Populate::No).unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let word = &reader.shared::<AtomicU32>(64, 1)[0];
                while word.load(Ordering::Acquire) == 0 {
                    wait(word, 0, Some(Duration::from_secs(30))).unwrap();
                }
                word.load(Ordering::Acquire)
            });
            let word = &writer.shared::<AtomicU32>(64, 1)[0];
            word.store(9, Ordering::Release);
            wake(word, u32::MAX).unwrap();
            assert_eq!(sleeper.join().unwrap(), 9);
        });
    }
}
