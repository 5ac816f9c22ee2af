//! The index table as a slice of slots: probing, publication, removal. One writer, any readers.
//!
//! Open addressing with linear probing. A word 0 of 0 ends a probe. Removal leaves a tombstone only
//! where a probe has to pass, and clears the tombstones to its left when it does not.

use std::ops::Deref;

use plasmon_proto::ObjectId;

use crate::index::{Lookup, Pin};
use crate::ledger::{Ledger, TooManyPins};
use crate::slot::{Head, Key, Slot, SlotImage, State, home};
use crate::sync::{AtomicU64, Ordering, fence};

/// Starts to load the cache line where `id` would be.
#[cfg(not(loom))]
#[inline]
pub(crate) fn prefetch(slots: &[Slot], id: &ObjectId) {
    prefetch_slot(slots, home(Key::of(id).hash(), slots.len()));
}

/// The same for an `id` that is probably not there: such a probe goes further, and to look at two
/// or three slots is the rule in a table that is more than half full.
#[cfg(not(loom))]
#[inline]
pub(crate) fn prefetch_probe(slots: &[Slot], id: &ObjectId) {
    let home = home(Key::of(id).hash(), slots.len());
    prefetch_slot(slots, home);
    prefetch_slot(slots, home + 1);
}

#[cfg(not(loom))]
#[inline]
fn prefetch_slot(slots: &[Slot], at: usize) {
    let slot = slots.get(at);
    #[cfg(target_arch = "x86_64")]
    if let Some(slot) = slot {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching has no effect but on the cache; SSE is in the x86-64 baseline.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slot;
}

/// The first live slot with the id of `key`, and the head that said so.
#[inline]
pub(crate) fn find_live(slots: &[Slot], key: &Key) -> Option<(usize, Head)> {
    let mut at = home(key.hash(), slots.len());
    for _ in 0..slots.len() {
        let slot = slots.get(at)?;
        let head = slot.head();
        if head.ends_probe() {
            return None;
        }
        if head.state() == State::Live && slot.holds(key) {
            return Some((at, head));
        }
        at += 1;
        if at == slots.len() {
            at = 0;
        }
    }
    None
}

/// Finds and pins an object: the whole read path.
///
/// `current` is the control page's word that names the current table; `number` names this one.
#[inline]
pub(crate) fn get(
    slots: &[Slot],
    id: &ObjectId,
    number: u64,
    current: &AtomicU64,
    ledger: &Ledger<'_>,
) -> Result<Lookup, TooManyPins> {
    let key = Key::of(id);
    loop {
        let Some((at, head)) = find_live(slots, &key) else {
            return Ok(missing(number, current));
        };
        let slot = &slots[at];
        let entry = ledger.claim(head.serial())?;
        #[cfg(not(loom))]
        crate::edge::pause(crate::edge::Point::Claim);
        let words = slot.fields(head, &key);
        // The fields above belong to `head` if the head below is the same: the pin alone sees to
        // that, and the fence makes it plain. It pairs with the release fence in `Slot::publish`
        // and costs nothing on x86-64.
        fence(Ordering::Acquire);
        // The pin is published; the daemon either saw it or we see here what the daemon did. In an
        // old table, which never changes again, only the table's number can say so.
        let unchanged = slot.head_again() == head;
        let is_current = current.load(Ordering::SeqCst) == number;
        if unchanged && is_current {
            return Ok(Lookup::Pinned(Pin::new(entry, words)));
        }
        ledger.release(entry);
        if !is_current {
            return Ok(Lookup::TableChanged);
        }
    }
}

/// Whether an object is live, without pinning it.
pub(crate) fn contains(slots: &[Slot], id: &ObjectId) -> bool {
    let key = Key::of(id);
    while let Some((at, head)) = find_live(slots, &key) {
        // The id belongs to `head` if the head below is the same, and not to an object that is just
        // being written to the slot. Pairs with the release fence in `Slot::publish`.
        fence(Ordering::Acquire);
        if slots[at].head() == head {
            return true;
        }
    }
    false
}

#[cold]
fn missing(number: u64, current: &AtomicU64) -> Lookup {
    if current.load(Ordering::Acquire) == number { Lookup::Missing } else { Lookup::TableChanged }
}

/// Makes table `number` the current one. It is complete, and the one before it is never written
/// again.
pub(crate) fn announce(current: &AtomicU64, number: u64) {
    // Ordered before the daemon's next look at the ledgers by the fence in `hide`: a reader who
    // still believes in the old table has published its pin by then.
    current.store(number, Ordering::SeqCst);
}

/// How many slots a table uses for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live slots.
    pub live: usize,
    /// Hidden slots.
    pub hidden: usize,
    /// Tombstones.
    pub tombstones: usize,
}

/// The daemon's side of a table.
#[derive(Debug)]
pub(crate) struct TableWriter<S> {
    slots: S,
    counts: Counts,
}

impl<S: Deref<Target = [Slot]>> TableWriter<S> {
    /// Takes over a table that has one or more slots, dropping those that were never finished.
    pub(crate) fn adopt(slots: S) -> Self {
        let mut writer = Self { slots, counts: Counts::default() };
        let mut unfinished = Vec::new();
        for (at, slot) in writer.slots.iter().enumerate() {
            match slot.head().state() {
                State::Live => writer.counts.live += 1,
                State::Hidden => writer.counts.hidden += 1,
                State::Writing => unfinished.push(at),
                State::Empty => {
                    writer.counts.tombstones += usize::from(slot.head().is_tombstone());
                }
            }
        }
        unfinished.into_iter().for_each(|at| writer.bury(at));
        writer
    }

    /// An empty table: slots that were never used.
    #[cfg(not(loom))]
    pub(crate) fn empty(slots: S) -> Self {
        Self { slots, counts: Counts::default() }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Puts an object into the first free slot from its home on and makes it visible in `state`,
    /// which is live or hidden. There must be room.
    pub(crate) fn insert(&mut self, image: &SlotImage, state: State) -> usize {
        assert!(image.fits(), "the store admits only what a slot can say: {image:?}");
        let at = self.free_slot(home(Key::of(&image.id).hash(), self.slots.len()));
        let slot = &self.slots[at];
        self.counts.tombstones -= usize::from(slot.head().is_tombstone());
        slot.publish(image, state);
        match state {
            State::Hidden => self.counts.hidden += 1,
            _ => self.counts.live += 1,
        }
        at
    }

    fn free_slot(&self, home: usize) -> usize {
        let count = self.slots.len();
        (home..count)
            .chain(0..home)
            .find(|at| self.slots[*at].head().state() == State::Empty)
            .expect("the daemon grows the table long before the last slot is used")
    }

    /// Hides live slots. When it returns, every later scan of the ledgers sees each pin whose
    /// holder did not see the slot hidden.
    pub(crate) fn hide(&mut self, batch: impl IntoIterator<Item = usize>) {
        for at in batch {
            assert_eq!(self.slots[at].head().state(), State::Live, "slot {at} is hidden once");
            self.slots[at].set_state(State::Hidden);
            self.counts.live -= 1;
            self.counts.hidden += 1;
        }
        // Pairs with the compare-and-exchange in `Ledger::claim`: the stores above come before the
        // loads of the scan. Store buffering is the one reordering that even x86 does.
        fence(Ordering::SeqCst);
    }

    /// Makes a hidden slot live again. Nothing was freed in between, so it is the same incarnation.
    pub(crate) fn show(&mut self, at: usize) {
        assert_eq!(self.slots[at].head().state(), State::Hidden, "slot {at} was hidden");
        self.slots[at].set_state(State::Live);
        self.counts.hidden -= 1;
        self.counts.live += 1;
    }

    /// Frees a hidden slot that nobody pins.
    pub(crate) fn remove(&mut self, at: usize) {
        assert_eq!(self.slots[at].head().state(), State::Hidden, "slot {at} was hidden");
        self.counts.hidden -= 1;
        self.bury(at);
    }

    /// Empties a slot: a tombstone where probes must pass, nothing where they need not.
    fn bury(&mut self, at: usize) {
        let count = self.slots.len();
        if !self.slots[(at + 1) % count].head().ends_probe() {
            self.slots[at].set_state(State::Empty);
            self.counts.tombstones += 1;
            return;
        }
        self.slots[at].clear();
        // What lies directly left of an end of probes need not be passed either.
        let mut left = (at + count - 1) % count;
        while self.slots[left].head().is_tombstone() {
            self.slots[left].clear();
            self.counts.tombstones -= 1;
            left = (left + count - 1) % count;
        }
    }
}
