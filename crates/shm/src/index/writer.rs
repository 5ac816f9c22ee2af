//! The daemon's view of an index table.

use std::io;
use std::ops::Deref;

use plasmon_proto::ObjectId;

use super::header::{HEADER_BYTES, Header, SLOTS_MAX, not_a_table, slot_count};
use crate::map::{Populate, WriteMap};
use crate::memfd::Memfd;
use crate::slot::{HashKey, SLOT_BYTES, Slot, SlotImage, State};
use crate::table::{Counts, TableWriter};

/// The fewest slots of a table: one page.
const SLOTS_MIN: usize = 64;

/// A table with at least this many slots is replaced by a smaller one when few are used: 4 MiB.
const SLOTS_KEPT: usize = 1 << 16;

/// How many objects of a table may lie where no probe finds them before the next table gets another
/// key. In an honest one that is three quarters full there is one with 100 million objects.
const STRAYS_MAX: usize = 64;

/// The slots of a table that the daemon has mapped.
#[derive(Debug)]
struct MappedSlots {
    map: WriteMap,
    slots: usize,
}

impl Deref for MappedSlots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        self.map.shared(HEADER_BYTES as usize, self.slots)
    }
}

/// The daemon's view of one index table.
#[derive(Debug)]
pub struct IndexWriter {
    memfd: Memfd,
    table: TableWriter<MappedSlots>,
    number: u64,
}

impl IndexWriter {
    /// A new, empty table with at least `slots` slots. Its memory is reserved here, so that a
    /// full machine is an error now and never a signal later.
    pub fn create(number: u64, slots: usize, key: HashKey) -> io::Result<Self> {
        let table = Self::bare(number, slots, key)?;
        table.reserve(0, table.slots())?;
        Ok(table)
    }

    /// An empty table of which only the memory for the header is reserved.
    fn bare(number: u64, slots: usize, key: HashKey) -> io::Result<Self> {
        let slots = slots.clamp(SLOTS_MIN, SLOTS_MAX);
        let bytes = HEADER_BYTES + slots as u64 * SLOT_BYTES;
        let memfd = Memfd::create(&format!("plasmon-index-{number}"), bytes)?;
        memfd.reserve(0, HEADER_BYTES)?;
        let map = WriteMap::new(&memfd, bytes, Populate::No)?;
        Header(map.shared(0, Header::WORDS)).write(slots as u64, &key);
        Ok(Self { memfd, table: TableWriter::empty(MappedSlots { map, slots }, key), number })
    }

    /// An empty table for the same objects and some more, which is filled with
    /// [`Self::insert_as`] a piece at a time. Memory for its slots is to be reserved before that.
    pub fn successor(&self, number: u64, key: HashKey, shrinks: bool) -> io::Result<Self> {
        Self::bare(number, self.slots_wanted(shrinks), key)
    }

    /// Reserves the memory of `count` slots, or of all that there are.
    pub fn reserve(&self, first: usize, count: usize) -> io::Result<()> {
        let end = first.saturating_add(count).min(self.slots());
        let bytes = |slots: usize| slots as u64 * SLOT_BYTES;
        if first >= end {
            return Ok(());
        }
        self.memfd.reserve(HEADER_BYTES + bytes(first), bytes(end - first))
    }

    /// Takes over the table that a daemon before this one left behind. Slots that it had not
    /// finished are dropped; hidden ones stay hidden.
    pub fn adopt(memfd: Memfd, number: u64) -> io::Result<Self> {
        let slots = memfd.bytes().saturating_sub(HEADER_BYTES) / SLOT_BYTES;
        let slots = slot_count(memfd.bytes(), slots)?;
        let map = WriteMap::new(&memfd, memfd.bytes(), Populate::Yes)?;
        let header = Header(map.shared(0, Header::WORDS)).read();
        let Some((_, key)) = header.filter(|(count, _)| *count == slots as u64) else {
            return Err(not_a_table(memfd.bytes(), slots as u64));
        };
        let table = TableWriter::adopt(MappedSlots { map, slots }, key);
        Ok(Self { memfd, table, number })
    }

    /// The numbers that decide which ids share a home slot.
    pub fn key(&self) -> HashKey {
        self.table.key()
    }

    /// The number of the table.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The memfd that holds the table.
    pub fn memfd(&self) -> &Memfd {
        &self.memfd
    }

    /// How many slots the table has.
    pub fn slots(&self) -> usize {
        self.table.slots().len()
    }

    /// What they are used for.
    pub fn counts(&self) -> Counts {
        self.table.counts()
    }

    /// How many live objects no probe finds; the daemon names their slots.
    pub fn strays(&self) -> usize {
        self.table.strays()
    }

    /// The slot where `id` is live.
    pub fn find(&self, id: &ObjectId) -> Option<u32> {
        self.table.find(id).map(|at| at as u32)
    }

    /// The state of a slot.
    pub fn state(&self, slot: u32) -> State {
        self.table.slots()[slot as usize].head().state()
    }

    /// What a slot says; meaningful for live and hidden slots.
    pub fn image(&self, slot: u32) -> SlotImage {
        self.table.slots()[slot as usize].image()
    }

    /// Starts to load the cache lines that [`Self::find`] and [`Self::insert`] of `id` will want.
    /// Called for a whole batch first, it lets the batch wait for memory once instead of once for
    /// each.
    #[inline]
    pub fn prefetch(&self, id: &ObjectId) {
        self.table.table().prefetch_probe(id);
    }

    /// Publishes an object that the table does not list and returns its slot. Grow first where
    /// [`Self::wants_growth`] says so.
    pub fn insert(&mut self, image: &SlotImage) -> u32 {
        self.table.insert(image, State::Live) as u32
    }

    /// Puts an object in that is live or hidden, as it is in another table.
    pub fn insert_as(&mut self, image: &SlotImage, state: State) -> u32 {
        self.table.insert(image, state) as u32
    }

    /// Hides live objects from readers, all with one fence. Afterwards the ledgers tell truly who
    /// holds them.
    pub fn hide(&mut self, slots: &[u32]) {
        self.table.hide(slots.iter().map(|slot| *slot as usize));
    }

    /// Shows a hidden object again.
    pub fn show(&mut self, slot: u32) {
        self.table.show(slot as usize);
    }

    /// Drops a hidden object without pins. Its memory is free to be used again.
    pub fn remove(&mut self, slot: u32) {
        self.table.remove(slot as usize);
    }

    /// The live and hidden slots from `slot` on, with their states, in the table's order.
    pub fn iter_from(&self, slot: u32) -> impl Iterator<Item = (u32, State, SlotImage)> {
        let slots = self.table.slots();
        slots.iter().enumerate().skip(slot as usize).filter_map(|(at, slot)| {
            let state = slot.head().state();
            let holds = matches!(state, State::Live | State::Hidden);
            holds.then(|| (at as u32, state, slot.image()))
        })
    }

    /// The live objects with their slots.
    pub fn live(&self) -> impl Iterator<Item = (u32, SlotImage)> {
        self.iter_from(0).filter(|slot| slot.1 == State::Live).map(|slot| (slot.0, slot.2))
    }

    /// The hidden objects with their slots.
    pub fn hidden(&self) -> impl Iterator<Item = (u32, SlotImage)> {
        self.iter_from(0).filter(|slot| slot.1 == State::Hidden).map(|slot| (slot.0, slot.2))
    }

    /// Whether one more object would fill the table beyond three quarters.
    pub fn wants_growth(&self) -> bool {
        let counts = self.counts();
        let used = counts.live + counts.hidden + counts.tombstones + 1;
        used * 4 > self.slots() * 3
    }

    /// Whether so few slots are used that half of them would do.
    pub fn is_sparse(&self) -> bool {
        let counts = self.counts();
        self.slots() > SLOTS_KEPT && (counts.live + counts.hidden) * 8 < self.slots()
    }

    /// Whether enough objects lie where no probe finds them to rehash the table.
    pub fn is_crowded(&self) -> bool {
        self.strays() > STRAYS_MAX
    }

    /// How many slots the next table is to have.
    fn slots_wanted(&self, shrinks: bool) -> usize {
        let counts = self.counts();
        let slots = self.slots();
        match (counts.live + counts.hidden) * 2 > slots {
            true => slots + slots / 4,
            false if shrinks && self.is_sparse() => slots / 2,
            false => slots,
        }
    }

    /// Whether the table is so full that a larger one cannot wait.
    pub fn is_nearly_full(&self) -> bool {
        let counts = self.counts();
        let used = counts.live + counts.hidden + counts.tombstones + 1;
        used * 8 > self.slots() * 7
    }

    /// A new table with the same objects: a quarter larger, so that no table is emptier than three
    /// fifths for long, of the same size when only tombstones were to blame, or half as large when
    /// few slots are used. `moved` is called with each object's record and new slot, and nothing
    /// when there is no memory for the table.
    ///
    /// The caller announces it with [`crate::ControlDaemon::set_table`] and never writes to the
    /// old one again.
    pub fn grow(&self, number: u64, mut moved: impl FnMut(u32, u32)) -> io::Result<Self> {
        let mut grown = Self::create(number, self.slots_wanted(true), self.key())?;
        for (_, state, image) in self.iter_from(0) {
            let at = grown.table.insert(&image, state);
            moved(image.record, at as u32);
        }
        Ok(grown)
    }
}
