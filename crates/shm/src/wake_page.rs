//! Events where they lie, and the wake page: where one client wakes another by itself.
//!
//! ```text
//!   sealing client ── record ──> ring ── doorbell ──> daemon ── index, answer, mail ──┐
//!          │                                                                          v
//!          └────────── event of the id in the wake page ─────────────────────> waiting client
//! ```
//!
//! A client that waits for one object sleeps on three events at once: that of the object's id, its
//! own mail (in its channel: the daemon has sent it something), and whatever its process adds. The
//! client that seals the object wakes the first one while the daemon still sleeps, so that the
//! daemon publishes while the waiter wakes up.
//!
//! Everything in the page is a hint. All clients of one user can write to it, so garbage in it can
//! wake a waiter in vain or keep it asleep, and that changes nothing but time: only what the index
//! lists and what the daemon says is believed, and the daemon wakes the mail after each message.
//! The daemon itself never looks at the page.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plasmon_proto::ObjectId;

use crate::edge;
use crate::futex::{self, Outcome};
use crate::futex_event;
use crate::map::{Populate, WriteMap};
use crate::memfd::Memfd;

/// Bytes of the wake page.
pub const WAKE_PAGE_BYTES: u64 = 4096;

/// Places in the page: a power of two, each an event and the processor of who set it last.
const PLACES: usize = WAKE_PAGE_BYTES as usize / 8;

/// A client's view of the wake page.
#[derive(Debug)]
pub struct WakePage(WriteMap);

impl WakePage {
    /// The page of a new store. All zeroes: no thread sleeps.
    pub fn create() -> io::Result<Memfd> {
        let memfd = Memfd::create("plasmon-wakes", WAKE_PAGE_BYTES)?;
        memfd.reserve(0, WAKE_PAGE_BYTES)?;
        Ok(memfd)
    }

    /// Maps the page that the daemon passed.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let memfd = Memfd::adopt(fd)?;
        if memfd.bytes() != WAKE_PAGE_BYTES {
            let text = "the descriptor is not the wake page of a store";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Self(WriteMap::new(&memfd, WAKE_PAGE_BYTES, Populate::Yes)?))
    }

    /// Wakes the threads that wait for the object: it is on its way. Costs a load when there are
    /// none.
    #[inline]
    pub fn hint(&self, id: &ObjectId) -> io::Result<()> {
        let event = self.event(id);
        if futex_event::is_set(event.word) && !event.sleeps_here() {
            event.wake_now()
        } else {
            Ok(())
        }
    }

    /// The event that [`Self::hint`] wakes for this object, and for a few others.
    #[inline]
    pub fn event(&self, id: &ObjectId) -> FutexEvent<'_> {
        let (place, topic) = place(id);
        let words: &[AtomicU32] = self.0.shared(place * 8, 2);
        FutexEvent { word: &words[0], processor: Some(&words[1]), topic }
    }
}

/// Where an id belongs, and what tells it from most others there. One multiplication, because every
/// put pays for it; who picks ids that meet in one place only makes its own waiters wake in vain.
#[inline]
fn place(id: &ObjectId) -> (usize, u16) {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *id.as_bytes();
    let [i, j, k, l, last @ ..] = rest;
    let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let middle = u64::from(u32::from_le_bytes([i, j, k, l]));
    let mixed = first ^ middle.rotate_left(32) ^ u64::from_le_bytes(last);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = (mixed >> (u64::BITS - PLACES.ilog2())) as usize;
    (place, (mixed >> 32) as u16)
}

/// An event where it lies.
#[derive(Clone, Copy, Debug)]
pub struct FutexEvent<'a> {
    word: &'a AtomicU32,
    /// Where the processor of who sets it is written down, plus 1.
    processor: Option<&'a AtomicU32>,
    topic: u16,
}

/// An event that is set, with the value to sleep at.
#[derive(Clone, Copy, Debug)]
pub struct ArmedEvent<'a> {
    word: &'a AtomicU32,
    seen: u32,
}

impl<'a> FutexEvent<'a> {
    /// The event in this word, which starts as 0.
    pub fn new(word: &'a AtomicU32) -> Self {
        Self { word, processor: None, topic: 0 }
    }

    /// Before sleeping: sets it. Look for what you wait for after this and before [`sleep`].
    pub fn set(&self) -> ArmedEvent<'a> {
        if let Some(processor) = self.processor {
            processor.store(processor_here(), Ordering::Relaxed);
        }
        ArmedEvent { word: self.word, seen: futex_event::set(self.word) }
    }

    /// After publishing: wakes every thread that sleeps on it.
    #[inline]
    pub fn wake(&self) -> io::Result<()> {
        if futex_event::must_wake(self.word) { self.wake_now() } else { Ok(()) }
    }

    fn wake_now(&self) -> io::Result<()> {
        futex_event::wake(self.word, self.topic);
        futex::wake(self.word, u32::MAX).map(drop)
    }

    /// Whether it was woken for this very object last, most probably.
    pub fn was_for_this(&self) -> bool {
        futex_event::topic(self.word) == self.topic
    }

    /// Whether who set it last sleeps on the processor that this thread runs on. To wake it now
    /// would be to make it wait there for the daemon, in the daemon's way.
    fn sleeps_here(&self) -> bool {
        self.processor.is_some_and(|word| word.load(Ordering::Relaxed) == processor_here())
    }
}

impl ArmedEvent<'_> {
    /// Sleeps until the event is woken, or for `timeout`.
    pub fn sleep(self, timeout: Duration) -> io::Result<Outcome> {
        futex::wait(self.word, self.seen, Some(timeout))
    }
}

/// Sleeps until one of at most four events is woken, or for `timeout`. An error of the kind
/// `Unsupported`: the kernel (before 5.16) cannot sleep on several words.
pub fn sleep<const COUNT: usize>(
    events: [ArmedEvent<'_>; COUNT],
    timeout: Duration,
) -> io::Result<Outcome> {
    futex::wait_any(&events.map(|event| (event.word, event.seen)), timeout)
}

fn processor_here() -> u32 {
    // As wide as a processor's number is for the kernel.
    edge::processor() as u32 + 1
}

#[cfg(test)]
mod tests;
