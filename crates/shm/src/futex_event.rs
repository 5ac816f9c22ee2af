//! Events: threads of several processes sleep on them until another process wakes them.
//!
//! ```text
//!   sleeper: set bit 0, seen = word; fence; look again ── nothing ──> sleep while word = seen
//!   waker:   publish; fence; bit 0 is set ── word = the next one without bit 0; wake all
//! ```
//!
//! Store buffering, as with the [`crate::sleep_flag`]: of the two fences one comes first, so either
//! the sleeper sees what was published or the waker sees the bit.
//!
//! Sleepers are not counted. A sleeper that was killed leaves a bit set, which the next waker
//! clears; a thread that sleeps for something else sets it again. A waker can be killed between
//! clearing the bit and waking, so no thread sleeps for long without looking around.

use crate::sync::{AtomicU32, Ordering, fence};

/// A thread sleeps, or is about to.
const SET: u32 = 1;

/// Tells each waking from the ones before, for a sleeper that has not quite fallen asleep.
const COUNT_ONE: u32 = 2;
const COUNT_MASK: u32 = 0xfffe;

/// What the last waking was about, above the count.
const TOPIC_SHIFT: u32 = 16;

/// Sets the event and returns the value to sleep at. The caller must look once more before.
#[inline]
pub(crate) fn set(word: &AtomicU32) -> u32 {
    let seen = word.fetch_or(SET, Ordering::Relaxed) | SET;
    // Pairs with the fence in `must_wake`.
    fence(Ordering::SeqCst);
    seen
}

/// Whether a thread sleeps and must be woken, asked after publishing.
#[inline]
pub(crate) fn must_wake(word: &AtomicU32) -> bool {
    // Pairs with the fence in `set`.
    fence(Ordering::SeqCst);
    is_set(word)
}

/// The same without a promise: a sleeper that sets the event at this moment may be missed.
#[inline]
pub(crate) fn is_set(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) & SET != 0
}

/// Changes the word, so that no thread falls asleep on the old value. Wake the sleepers after this.
pub(crate) fn wake(word: &AtomicU32, topic: u16) {
    let next = |old: u32| {
        let count = old.wrapping_add(COUNT_ONE) & COUNT_MASK;
        Some(u32::from(topic) << TOPIC_SHIFT | count)
    };
    // The kernel's lock around sleeping and waking orders the word; it publishes nothing itself.
    // A function that always gives a value cannot fail.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// What the last waking was about.
#[inline]
pub(crate) fn topic(word: &AtomicU32) -> u16 {
    (word.load(Ordering::Relaxed) >> TOPIC_SHIFT) as u16
}
