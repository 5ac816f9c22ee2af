//! The index table as a slice of slots: probing, publication, removal. One writer, any readers.
//!
//! Open addressing with linear probing. A word 0 of 0 ends a probe. Removal leaves a tombstone only
//! where a probe has to pass, and clears the tombstones to its left when it does not.
//!
//! A probe looks at [`PROBES_MAX`] slots and no further. Ids can be chosen to crowd together,
//! because clients can read the table's key; what finds no free slot near its home then becomes a
//! *stray*:
//!
//! ```text
//! insert: a free slot within PROBES_MAX of home? ── yes ─► there: readers find it
//!                          └── no ─► any free slot, at random: the writer remembers where
//! ```
//!
//! A reader's probe misses a stray, and as a miss is never final, it asks the daemon, which names
//! the slot. So every operation has a bound whatever ids are there, and gets of an object that was
//! crowded out take a round trip.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;

use plasmon_proto::ObjectId;

use crate::ledger::{Ledger, TooManyPins};
use crate::lookup::{Lookup, Pin};
use crate::slot::{HashKey, Head, Key, Slot, SlotImage, State, home};
use crate::sync::{AtomicU64, Ordering, fence};

/// How many slots a probe looks at. In a table that is three quarters full, one of a hundred
/// million objects would lie further from its home; see [`TableWriter::insert`] for those that do.
pub(crate) const PROBES_MAX: usize = if cfg!(loom) { 2 } else { 512 };

/// How often a free slot is looked for at random before the next one is taken, wherever it is: in a
/// table that is seven eighths full, five thousand objects find one this way and one does not.
const RANDOM_TRIES: u32 = 64;

/// How many tombstones are cleared at once. Those that stay cost probes a step each.
const CLEARED_AT_ONCE: usize = 1024;

/// A table as a probe sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    pub(crate) slots: &'a [Slot],
    pub(crate) key: &'a HashKey,
}

impl Table<'_> {
    /// The home slot of an id.
    #[inline]
    fn home(&self, key: &Key) -> usize {
        home(key.hash(self.key), self.slots.len())
    }

    /// Starts to load the cache line where `id` would be.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn prefetch(&self, id: &ObjectId) {
        prefetch_slot(self.slots, self.home(&Key::of(id)));
    }

    /// The same for an `id` that is probably not there: such a probe goes further, and to look at
    /// two or three slots is the rule in a table that is more than half full.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn prefetch_probe(&self, id: &ObjectId) {
        let home = self.home(&Key::of(id));
        prefetch_slot(self.slots, home);
        prefetch_slot(self.slots, home + 1);
    }

    /// The first live slot with the id of `key` that a probe finds, and the head that said so.
    #[inline]
    pub(crate) fn find_live(&self, key: &Key) -> Option<(usize, Head)> {
        let slots = self.slots;
        let mut at = self.home(key);
        for _ in 0..PROBES_MAX.min(slots.len()) {
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

    /// This slot, if it lists the id of `key`.
    #[cfg(not(loom))]
    fn live_at(&self, at: usize, key: &Key) -> Option<(usize, Head)> {
        let slot = self.slots.get(at)?;
        let head = slot.head();
        (head.state() == State::Live && slot.holds(key)).then_some((at, head))
    }

    /// Finds and pins an object: the whole read path.
    #[inline]
    pub(crate) fn get(
        &self,
        id: &ObjectId,
        current: CurrentTable<'_>,
        ledger: &Ledger<'_>,
    ) -> Result<Lookup, TooManyPins> {
        let key = Key::of(id);
        pin(self.slots, &key, current, ledger, || self.find_live(&key))
    }

    /// Pins an object in a slot that the daemon named.
    #[cfg(not(loom))]
    pub(crate) fn get_at(
        &self,
        at: usize,
        id: &ObjectId,
        current: CurrentTable<'_>,
        ledger: &Ledger<'_>,
    ) -> Result<Lookup, TooManyPins> {
        let key = Key::of(id);
        pin(self.slots, &key, current, ledger, || self.live_at(at, &key))
    }

    /// Whether a probe finds an object, without pinning it.
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        let key = Key::of(id);
        while let Some((at, head)) = self.find_live(&key) {
            // The id belongs to `head` if the head below is the same, and not to an object that is
            // just being written to the slot. Pairs with the release fence in `Slot::publish`.
            fence(Ordering::Acquire);
            if self.slots[at].head() == head {
                return true;
            }
        }
        false
    }

    /// Whether a probe for the id of `key` does not come to this slot.
    fn is_far(&self, at: usize, key: &Key) -> bool {
        let (home, count) = (self.home(key), self.slots.len());
        (at + count - home) % count >= PROBES_MAX
    }
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

/// The control page's word that names the current table, and the number of the one looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentTable<'a> {
    pub(crate) word: &'a AtomicU64,
    pub(crate) number: u64,
}

/// Pins what `find` finds.
#[inline(always)]
fn pin(
    slots: &[Slot],
    key: &Key,
    current: CurrentTable<'_>,
    ledger: &Ledger<'_>,
    find: impl Fn() -> Option<(usize, Head)>,
) -> Result<Lookup, TooManyPins> {
    loop {
        let Some((at, head)) = find() else {
            return Ok(missing(current));
        };
        let slot = &slots[at];
        let entry = ledger.claim(head.serial())?;
        #[cfg(not(loom))]
        crate::edge::pause(crate::edge::Point::Claim);
        let words = slot.fields(head, key);
        // The fields above belong to `head` if the head below is the same: the pin alone sees to
        // that, and the fence makes it plain. It pairs with the release fence in `Slot::publish`
        // and costs nothing on x86-64.
        fence(Ordering::Acquire);
        // The pin is published; the daemon either saw it or we see here what the daemon did. In an
        // old table, which never changes again, only the table's number can say so.
        let unchanged = slot.head_again() == head;
        let is_current = current.word.load(Ordering::SeqCst) == current.number;
        if unchanged && is_current {
            return Ok(Lookup::Pinned(Pin::new(entry, words)));
        }
        ledger.release(entry);
        if !is_current {
            return Ok(Lookup::TableChanged);
        }
    }
}

#[cold]
fn missing(current: CurrentTable<'_>) -> Lookup {
    let is_current = current.word.load(Ordering::Acquire) == current.number;
    if is_current { Lookup::Missing } else { Lookup::TableChanged }
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
    key: HashKey,
    counts: Counts,
    strays: Strays,
}

/// Live objects that no probe finds.
#[derive(Debug)]
struct Strays {
    slots: HashMap<ObjectId, usize>,
    /// A state of the random numbers that choose their slots; never in shared memory.
    random: u64,
}

impl Strays {
    fn none() -> Self {
        Self { slots: HashMap::new(), random: RandomState::new().hash_one(0) }
    }

    /// A slot out of `count`.
    fn random_slot(&mut self, count: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        home(mixed ^ (mixed >> 27), count)
    }
}

impl<S: Deref<Target = [Slot]>> TableWriter<S> {
    /// Takes over a table that has one or more slots, dropping those that were never finished.
    pub(crate) fn adopt(slots: S, key: HashKey) -> Self {
        let mut writer = Self { slots, key, counts: Counts::default(), strays: Strays::none() };
        let mut unfinished = Vec::new();
        for (at, slot) in writer.slots.iter().enumerate() {
            match slot.head().state() {
                State::Live => {
                    writer.counts.live += 1;
                    let id = slot.image().id;
                    let table = Table { slots: &writer.slots, key: &writer.key };
                    if table.is_far(at, &Key::of(&id)) {
                        writer.strays.slots.insert(id, at);
                    }
                }
                State::Hidden => writer.counts.hidden += 1,
                State::Writing => unfinished.push(at),
                State::Empty => {
                    writer.counts.tombstones += usize::from(slot.head().is_tombstone());
                }
            }
        }
        unfinished.into_iter().for_each(|at| writer.empty_slot(at));
        writer
    }

    /// An empty table: slots that were never used.
    #[cfg(not(loom))]
    pub(crate) fn empty(slots: S, key: HashKey) -> Self {
        Self { slots, key, counts: Counts::default(), strays: Strays::none() }
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn key(&self) -> HashKey {
        self.key
    }

    pub(crate) fn table(&self) -> Table<'_> {
        Table { slots: &self.slots, key: &self.key }
    }

    /// The slot where an object is live, near its home or not.
    #[cfg(not(loom))]
    pub(crate) fn find(&self, id: &ObjectId) -> Option<usize> {
        let near = self.table().find_live(&Key::of(id)).map(|(at, _)| at);
        near.or_else(|| self.strays.slots.get(id).copied())
    }

    /// How many live objects no probe finds.
    #[cfg(not(loom))]
    pub(crate) fn strays(&self) -> usize {
        self.strays.slots.len()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Puts an object into the first free slot from its home on, or, where a probe would not come
    /// to that, into any. Makes it visible in `state`, which is live or hidden. There must be room.
    pub(crate) fn insert(&mut self, image: &SlotImage, state: State) -> usize {
        assert!(image.fits(), "the store admits only what a slot can say: {image:?}");
        let near = self.free_slot(self.table().home(&Key::of(&image.id)), PROBES_MAX);
        let at = near.unwrap_or_else(|| self.any_free_slot());
        if near.is_none() && state == State::Live {
            self.strays.slots.insert(image.id, at);
        }
        let slot = &self.slots[at];
        self.counts.tombstones -= usize::from(slot.head().is_tombstone());
        slot.publish(image, state);
        match state {
            State::Hidden => self.counts.hidden += 1,
            _ => self.counts.live += 1,
        }
        at
    }

    /// The first free one of this many slots.
    fn free_slot(&self, first: usize, most: usize) -> Option<usize> {
        let count = self.slots.len();
        let (right, left) = (first..count, 0..first);
        let mut slots = right.chain(left).take(most);
        slots.find(|at| self.slots[*at].head().state() == State::Empty)
    }

    /// A free slot that cannot be predicted.
    fn any_free_slot(&mut self) -> usize {
        let count = self.slots.len();
        let tries = (0..RANDOM_TRIES).find_map(|_| {
            let at = self.strays.random_slot(count);
            self.free_slot(at, 1)
        });
        let last = self.strays.random_slot(count);
        let free = tries.or_else(|| self.free_slot(last, count));
        free.expect("the daemon grows the table long before the last slot is used")
    }

    /// Hides live slots. When it returns, every later scan of the ledgers sees each pin whose
    /// holder did not see the slot hidden.
    pub(crate) fn hide(&mut self, batch: impl IntoIterator<Item = usize>) {
        for at in batch {
            assert_eq!(self.slots[at].head().state(), State::Live, "slot {at} is hidden once");
            self.slots[at].set_state(State::Hidden);
            if !self.strays.slots.is_empty() {
                let id = self.slots[at].image().id;
                if self.strays.slots.get(&id) == Some(&at) {
                    self.strays.slots.remove(&id);
                }
            }
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
        let id = self.slots[at].image().id;
        if self.table().is_far(at, &Key::of(&id)) {
            self.strays.slots.insert(id, at);
        }
        self.counts.hidden -= 1;
        self.counts.live += 1;
    }

    /// Frees a hidden slot without pins.
    pub(crate) fn remove(&mut self, at: usize) {
        assert_eq!(self.slots[at].head().state(), State::Hidden, "slot {at} was hidden");
        self.counts.hidden -= 1;
        self.empty_slot(at);
    }

    /// Empties a slot: a tombstone where probes must pass, nothing where they need not.
    fn empty_slot(&mut self, at: usize) {
        let count = self.slots.len();
        if !self.slots[(at + 1) % count].head().ends_probe() {
            self.slots[at].set_state(State::Empty);
            self.counts.tombstones += 1;
            return;
        }
        self.slots[at].clear();
        // What lies directly left of an end of probes need not be passed either.
        let mut left = (at + count - 1) % count;
        for _ in 0..CLEARED_AT_ONCE {
            if !self.slots[left].head().is_tombstone() {
                break;
            }
            self.slots[left].clear();
            self.counts.tombstones -= 1;
            left = (left + count - 1) % count;
        }
    }
}
