//! Sleeping on a word in shared memory. Works on words that the sleeper has mapped read-only.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, clock_gettime};

/// Words that one thread sleeps on at most.
const WORDS_MAX: usize = 4;

/// How a wait ended. All but [`Outcome::TimedOut`] mean: look at what you wait for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Another thread woke this one, or the kernel did so spuriously.
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
    #[cfg(feature = "sim")]
    if let Some(outcome) = simulated(&[(word, expected)], timeout) {
        return Ok(outcome);
    }
    // A timeout beyond the range of the kernel's clock is as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    outcome(futex::wait(word, Flags::empty(), expected, timeout.as_ref()))
}

/// Sleeps while each of at most four words holds what is expected of it. Kernels before 5.16 cannot
/// do this: an error of the kind `Unsupported`.
pub fn wait_any(words: &[(&AtomicU32, u32)], timeout: Duration) -> io::Result<Outcome> {
    #[cfg(feature = "sim")]
    if let Some(outcome) = simulated(words, Some(timeout)) {
        return Ok(outcome);
    }
    let mut waits = [Wait::new(); WORDS_MAX];
    if words.len() > waits.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (wait, (word, expected)) in waits.iter_mut().zip(words) {
        wait.val = u64::from(*expected);
        wait.uaddr = WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
    }
    // Unlike above the kernel wants the end and not the duration. One beyond its clock means no
    // timeout.
    let now = clock_gettime(ClockId::Monotonic);
    let end = Timespec::try_from(timeout).ok().and_then(|timeout| now.checked_add(timeout));
    let waits = &waits[..words.len()];
    outcome(futex::waitv(waits, WaitvFlags::empty(), end.as_ref(), ClockId::Monotonic).map(drop))
}

/// In a simulated world a sleeper wakes when a word has changed, whether it was woken or not.
#[cfg(feature = "sim")]
fn simulated(words: &[(&AtomicU32, u32)], timeout: Option<Duration>) -> Option<Outcome> {
    use std::sync::atomic::Ordering;

    let has_changed = || words.iter().any(|(word, old)| word.load(Ordering::SeqCst) != *old);
    if crate::edge::simulated::is_entered() && has_changed() {
        return Some(Outcome::Changed);
    }
    let changed = crate::edge::simulated::wait_until(timeout, has_changed)?;
    Some(if changed { Outcome::Woken } else { Outcome::TimedOut })
}

fn outcome(waited: rustix::io::Result<()>) -> io::Result<Outcome> {
    match waited {
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
    fn a_wait_for_several_words_ends_when_any_of_them_differs() {
        let words = [3, 4].map(AtomicU32::new);
        let expecting = |one, other| [(&words[0], one), (&words[1], other)];
        assert_eq!(
            wait_any(&expecting(3, 4), Duration::from_millis(1)).unwrap(),
            Outcome::TimedOut
        );
        assert_eq!(wait_any(&expecting(0, 4), Duration::MAX).unwrap(), Outcome::Changed);
        assert_eq!(wait_any(&expecting(3, 0), Duration::MAX).unwrap(), Outcome::Changed);
        let many = [(&words[0], 0); WORDS_MAX + 1];
        assert_eq!(wait_any(&many, Duration::MAX).unwrap_err().kind(), io::ErrorKind::InvalidInput);
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
