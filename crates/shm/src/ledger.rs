//! The ledger: which incarnations one client holds, an entry per pin.
//!
//! An entry is the serial of an incarnation, or 0 when free. Only its client writes it; the daemon
//! reads it. Claiming an entry is one compare-and-exchange, which is at the same time the
//! publication of the pin and the fence between it and the second look at the slot. Releasing is
//! one store.
//!
//! Threads find a free entry without talking to each other: every thread starts on cache lines of
//! its own and goes back to the entry that it released last.
//!
//! `high` bounds what the daemon has to scan. It is raised before a pin beyond it counts, which is
//! when the claimer looks at the slot again, and it falls when all entries beyond are free:
//!
//! ```text
//! claim: entry = serial (SeqCst); entry < local mark? ── yes ─► look at the slot again
//!                                        └── no ─► lock: shared mark, local mark up ─┘
//! lower: lock: local mark down (SeqCst); all entries beyond free? ── yes ─► shared mark down
//!                                                     └── no ─► local mark up again
//! ```
//!
//! A claimer that still saw the old local mark stored its entry before the mark went down, so the
//! look at the entries sees it; one that saw the new mark waits for the lock.

#[cfg(not(loom))]
use std::cell::Cell;

use crate::sync::{AtomicU64, Mutex, Ordering, fence, model_fence};

/// Entries that are tried from the hint on before new ones beyond `high` are taken.
const TRIES: u32 = 16;

/// By how much `high` rises: entries of one thread, eight cache lines. One in a model.
const STEP: u32 = if cfg!(loom) { 1 } else { 64 };

/// `high` does not fall below this: the first entries of all threads. In a model it falls to 0, and
/// only when it is told to.
const LOW: u32 = if cfg!(loom) { 0 } else { 64 * STEP };

/// Every entry of the ledger is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this client holds {held} pins, the maximum for one client")]
pub struct TooManyPins {
    /// How many entries the ledger has.
    pub held: usize,
}

/// What the threads of one client share about its ledger, in their own memory.
#[derive(Debug)]
pub(crate) struct LedgerLocal {
    /// A copy of the shared `high` that no other process can change.
    high: AtomicU64,
    /// Held by the one thread that moves the marks.
    moving: Mutex<()>,
}

impl LedgerLocal {
    pub(crate) fn new() -> Self {
        Self { high: AtomicU64::new(0), moving: Mutex::new(()) }
    }
}

/// A client's view of its own ledger. Pins are claimed and released by [`crate::Reader`] only,
/// because releasing another client's pin would free memory that it still reads.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    entries: &'a [AtomicU64],
    high: &'a AtomicU64,
    local: &'a LedgerLocal,
}

impl<'a> Ledger<'a> {
    #[inline]
    pub(crate) fn new(
        entries: &'a [AtomicU64],
        high: &'a AtomicU64,
        local: &'a LedgerLocal,
    ) -> Self {
        Self { entries, high, local }
    }

    /// Publishes a pin on incarnation `serial` in a free entry and returns the entry's index.
    ///
    /// Everything that the calling thread loads afterwards with sequential consistency is ordered
    /// after the publication.
    #[inline]
    pub(crate) fn claim(&self, serial: u64) -> Result<u32, TooManyPins> {
        let hint = hint();
        if (hint as usize) < self.entries.len() && self.take(hint, serial) {
            set_hint(hint + 1);
            return Ok(hint);
        }
        let entry = self.search(hint, serial)?;
        set_hint(entry + 1);
        Ok(entry)
    }

    /// Ends the pin in `entry`, which this client claimed and has not released since.
    #[inline]
    pub(crate) fn release(&self, entry: u32) {
        // Pairs with the daemon's acquire load: reads of the object happen before its memory is
        // given to another client.
        self.entries[entry as usize].store(0, Ordering::Release);
        lower_hint(entry);
        // The ends of a step, far from where few pins are: now and then while many are released.
        if cfg!(not(loom)) && entry >= LOW && (entry + 1) % STEP <= 1 {
            self.lower();
        }
    }

    /// The serial in `entry`, 0 when it is free.
    pub fn serial(&self, entry: u32) -> u64 {
        self.entries[entry as usize].load(Ordering::Relaxed)
    }

    /// How many pins this client holds: a count over the ledger, for reports.
    pub fn pins(&self) -> usize {
        let high = self.local.high.load(Ordering::Acquire) as usize;
        self.entries[..high].iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count()
    }

    /// Tries to claim one entry.
    #[inline]
    fn take(&self, entry: u32, serial: u64) -> bool {
        // The one instruction that publishes the pin. It pairs with the daemon's fence in `hide`:
        // of the two, one comes first in the order of all sequentially consistent operations, and
        // the other sees what was stored before it.
        let claimed = self.entries[entry as usize]
            .compare_exchange(0, serial, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        model_fence();
        // After the claim, so that a thread that lowers the mark sees the one or this the other.
        if claimed && u64::from(entry) >= self.local.high.load(Ordering::SeqCst) {
            self.raise(entry);
        }
        claimed
    }

    /// The entries near the hint, then new ones, and when there are none left, all.
    #[cold]
    fn search(&self, hint: u32, serial: u64) -> Result<u32, TooManyPins> {
        let count = self.entries.len() as u32;
        let near = if hint < count { hint } else { 0 };
        for entry in near..count.min(near + TRIES) {
            if self.take(entry, serial) {
                return Ok(entry);
            }
        }
        let high = self.local.high.load(Ordering::Acquire) as u32;
        for entry in high..count {
            if self.take(entry, serial) {
                return Ok(entry);
            }
        }
        // Every entry was handed out once. Looking before taking keeps this scan free of writes.
        for entry in (hint.min(count)..count).chain(0..hint.min(count)) {
            let free = self.entries[entry as usize].load(Ordering::Relaxed) == 0;
            if free && self.take(entry, serial) {
                return Ok(entry);
            }
        }
        Err(TooManyPins { held: self.entries.len() })
    }

    /// Makes sure that the daemon scans `entry` before the pin there counts.
    #[cold]
    fn raise(&self, entry: u32) {
        let _moving = lock(&self.local.moving);
        let count = self.entries.len() as u32;
        let wanted = u64::from((entry / STEP + 1).saturating_mul(STEP).min(count));
        // Sequentially consistent like the claim: a daemon that misses the new mark misses it
        // because its fence came first, and then the claimer sees the hidden slot.
        self.high.fetch_max(wanted, Ordering::SeqCst);
        model_fence();
        self.local.high.fetch_max(wanted, Ordering::SeqCst);
    }

    /// Lets the mark fall by the free entries at the end, as far as a step at a time goes.
    #[cold]
    pub(crate) fn lower(&self) {
        let _moving = lock(&self.local.moving);
        let high = self.local.high.load(Ordering::Relaxed);
        let mut low = high;
        while low > u64::from(LOW) && self.is_free(low.saturating_sub(STEP.into()), low) {
            low = low.saturating_sub(STEP.into());
        }
        if low == high {
            return;
        }
        self.local.high.store(low, Ordering::SeqCst);
        // Pairs with the claim: it comes first and is seen below, or it sees the mark above.
        fence(Ordering::SeqCst);
        if self.is_free(low, high) {
            self.high.store(low, Ordering::SeqCst);
        } else {
            self.local.high.store(high, Ordering::SeqCst);
        }
    }

    fn is_free(&self, from: u64, until: u64) -> bool {
        let entries = &self.entries[from as usize..until as usize];
        entries.iter().all(|entry| entry.load(Ordering::SeqCst) == 0)
    }
}

/// The lock guards no data, so a thread that panicked with it left nothing half done.
#[cfg(not(loom))]
fn lock(mutex: &Mutex<()>) -> std::sync::MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
fn lock(mutex: &Mutex<()>) -> loom::sync::MutexGuard<'_, ()> {
    mutex.lock().unwrap()
}

#[cfg(not(loom))]
thread_local! {
    /// Where this thread looks for a free entry first.
    static HINT: Cell<u32> = const { Cell::new(u32::MAX) };
}

#[cfg(not(loom))]
#[inline]
fn hint() -> u32 {
    let hint = HINT.get();
    if hint == u32::MAX { first_hint() } else { hint }
}

#[cfg(not(loom))]
#[inline]
fn set_hint(entry: u32) {
    // Not `HINT.set`, which is a call: it also knows how to initialize.
    HINT.with(|hint| hint.set(entry));
}

/// Of many entries that are released one after the other the lowest is tried first. If it were the
/// last, then pins that are released in the order in which they were claimed would move up by their
/// number each time, and the daemon would have to scan all that was ever used.
#[cfg(not(loom))]
#[inline]
fn lower_hint(entry: u32) {
    HINT.with(|hint| hint.set(hint.get().min(entry)));
}

/// A thread's first hint: cache lines that the threads before it did not start on.
#[cfg(not(loom))]
#[cold]
fn first_hint() -> u32 {
    use std::sync::atomic::AtomicU32;

    /// Starting points, so that many short-lived threads do not raise `high` without end.
    const STARTS: u32 = 64;
    static THREADS: AtomicU32 = AtomicU32::new(0);
    let hint = THREADS.fetch_add(1, Ordering::Relaxed) % STARTS * STEP;
    HINT.set(hint);
    hint
}

/// A model's threads share one thread, so a hint kept there would carry over from one execution to
/// the next. All of them start at entry 0, which is also where they get into each other's way most.
#[cfg(loom)]
fn hint() -> u32 {
    0
}

#[cfg(loom)]
fn set_hint(_: u32) {}

#[cfg(loom)]
fn lower_hint(_: u32) {}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{LedgerScan, PinCounts};

    struct Memory {
        entries: Vec<AtomicU64>,
        high: AtomicU64,
        local: LedgerLocal,
    }

    impl Memory {
        fn new(entries: usize) -> Self {
            let entries = (0..entries).map(|_| AtomicU64::new(0)).collect();
            Self { entries, high: AtomicU64::new(0), local: LedgerLocal::new() }
        }

        fn ledger(&self) -> Ledger<'_> {
            Ledger::new(&self.entries, &self.high, &self.local)
        }

        fn scan(&self) -> LedgerScan<'_> {
            LedgerScan::new(&self.entries, &self.high)
        }

        fn high(&self) -> u64 {
            self.high.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_ledger_holds_exactly_as_many_pins_as_it_has_entries() {
        let memory = Memory::new(300);
        let ledger = memory.ledger();
        let entries: Vec<_> = (1..=300).map(|serial| ledger.claim(serial).unwrap()).collect();
        assert_eq!(ledger.claim(301), Err(TooManyPins { held: 300 }));
        let mut sorted = entries.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..300).collect::<Vec<_>>());
        ledger.release(entries[77]);
        assert_eq!(ledger.claim(302), Ok(entries[77]));
        assert_eq!(memory.scan().pins().count(), 300);
        assert_eq!(ledger.pins(), 300);
    }

    #[test]
    fn a_released_entry_is_the_next_one_claimed() {
        let memory = Memory::new(4096);
        let ledger = memory.ledger();
        let first = ledger.claim(1).unwrap();
        let second = ledger.claim(2).unwrap();
        assert_ne!(first, second);
        ledger.release(first);
        assert_eq!(ledger.claim(3), Ok(first));
        assert_eq!(ledger.serial(first), 3);
        assert_eq!(ledger.serial(second), 2);
    }

    /// A list of a thousand buffers that was dropped from front to back cost the daemon another
    /// thousand entries to scan each time: deleting took five times as long after fifty such lists.
    #[test]
    fn pins_released_in_their_order_do_not_creep_up() {
        for order in [false, true] {
            let memory = Memory::new(1 << 16);
            let ledger = memory.ledger();
            let start = ledger.claim(1).unwrap();
            ledger.release(start);
            for round in 0..50 {
                let mut entries: Vec<_> = (1..=1000).map(|s| ledger.claim(s).unwrap()).collect();
                if order {
                    entries.reverse();
                }
                entries.into_iter().for_each(|entry| ledger.release(entry));
                let high = memory.high.load(Ordering::Relaxed);
                assert!(high <= u64::from(start) + 1000 + u64::from(STEP), "{high} in {round}");
            }
        }
    }

    /// A client that once held many pins cost the daemon their number at every look from then on.
    #[test]
    fn the_mark_falls_when_the_pins_are_released() {
        for order in [false, true] {
            let memory = Memory::new(1 << 16);
            let ledger = memory.ledger();
            let mut entries: Vec<_> = (1..=50_000).map(|s| ledger.claim(s).unwrap()).collect();
            assert!(memory.high() >= 50_000);
            if order {
                entries.reverse();
            }
            let kept = entries.split_off(49_000);
            entries.into_iter().for_each(|entry| ledger.release(entry));
            assert_eq!(memory.scan().pins().count(), 1000, "what is pinned is below the mark");
            kept.into_iter().for_each(|entry| ledger.release(entry));
            ledger.lower();
            assert_eq!(memory.high(), u64::from(LOW));
            let again = ledger.claim(7).unwrap();
            assert!(u64::from(again) < memory.high());
        }
    }

    #[test]
    fn marks_move_while_threads_claim_and_release() {
        let memory = &Memory::new(1 << 15);
        let ledger = memory.ledger();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    for round in 0..20 {
                        let serials = (0..5000).map(|k| 1 + thread + 4 * (k + 5000 * round));
                        let held: Vec<_> = serials.map(|s| ledger.claim(s).unwrap()).collect();
                        for entry in &held {
                            assert!(u64::from(*entry) < memory.high(), "{entry} is scanned");
                        }
                        held.into_iter().for_each(|entry| ledger.release(entry));
                    }
                });
            }
        });
        ledger.lower();
        assert_eq!((memory.scan().pins().count(), memory.high()), (0, u64::from(LOW)));
    }

    #[test]
    fn threads_claim_different_entries() {
        let memory = Memory::new(1 << 14);
        let ledger = memory.ledger();
        let serials: Vec<u64> = (1..=8000).collect();
        std::thread::scope(|scope| {
            for chunk in serials.chunks(1000) {
                scope.spawn(move || {
                    for serial in chunk {
                        // Claimed twice and released once, so that entries are used again.
                        let first = ledger.claim(*serial).unwrap();
                        ledger.claim(*serial).unwrap();
                        ledger.release(first);
                    }
                });
            }
        });
        let mut counts = PinCounts::new(&serials);
        memory.scan().count(&mut counts);
        assert!(counts.of(&serials).iter().all(|count| *count == 1), "every pin is there once");
    }
}
