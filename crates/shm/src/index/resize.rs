//! The index, and how it moves to another table a piece at a time: a larger one, a smaller one, or
//! one with another key.
//!
//! ```text
//! one table ──wanted───► copying: every insert copies some slots; what changes in a slot that was
//!     ▲                     │     copied changes in both tables; readers see the old one
//!     │                     ▼
//!     │                  announced: readers go to the new one
//!     │                     │
//!     └── all told ◄─── telling: every insert tells the store of some slots' new numbers
//! ```
//!
//! To copy a table of a million objects at once takes a second; here an insert takes a microsecond
//! longer while the index moves. A slot's number carries a bit that says which table it is of, so
//! that numbers from before the move are understood until the store was told of all new ones.

use plasmon_proto::ObjectId;
use plasmon_proto::message::SlotPlace;

use super::IndexWriter;
use crate::slot::{HashKey, SlotImage, State};

/// The position of an object in the index, which changes with the table.
pub type SlotNo = u32;

/// Slots that are copied, or told of, with each insert.
const SLOTS_PER_INSERT: usize = 16;

/// Slots of the next table whose memory is reserved at a time.
const RESERVED_AT_ONCE: usize = 1024;

/// How many inserts are tried on a crowded table before growing it is tried again.
const GROWTH_RETRY_INSERTS: u32 = 1024;

/// A table gets smaller when it was hardly used for as many inserts as this part of its slots: one
/// that is emptied and filled again would move with every round.
const SPARSE_PART: usize = 4;

/// The bit of a slot's number that tells a table from the one before it.
const TABLE_BIT: u32 = 1 << 31;

/// The index with what it needs to grow.
#[derive(Debug)]
pub struct Index {
    /// The current table.
    pub table: IndexWriter,
    /// `TABLE_BIT` for every other table.
    bit: u32,
    phase: Phase,
    retry_in: u32,
    /// How many inserts in a row found the table hardly used.
    sparse_for: usize,
    /// Slots that were copied or told of.
    steps: u64,
}

#[derive(Debug)]
enum Phase {
    /// There is one table.
    Settled,
    /// The next one is being filled.
    Copying(Box<TableCopy>),
    /// The store is being told. By old number, the new numbers.
    Notifying { moved: Vec<u32>, notified: usize },
}

#[derive(Debug)]
struct TableCopy {
    next: IndexWriter,
    /// Whether objects lie in the next table as they do in this one, because it has the same key.
    keeps_order: bool,
    /// Slots of the current table that were copied, from the first one on.
    copied: usize,
    /// Slots of the next table whose memory is reserved.
    reserved: usize,
    /// By slot of the current table, the slot in the next.
    moved: Vec<u32>,
}

/// What a new table is called, and what draws a key for it if it needs another.
pub type NewTable<'a> = (u64, &'a dyn Fn() -> std::io::Result<HashKey>);

/// What a step towards another table came to.
#[derive(Debug)]
pub enum Step {
    /// Nothing for others to do.
    Quiet,
    /// There is no memory for another table; it is tried again later.
    Refused(std::io::Error),
    /// The next table is complete: [`Index::switch`] once it is announced.
    Complete,
}

impl Index {
    /// An index over this table.
    pub fn new(table: IndexWriter) -> Self {
        Self { table, bit: 0, phase: Phase::Settled, retry_in: 0, sparse_for: 0, steps: 0 }
    }

    /// Has the processor fetch the slot where this id belongs, for a look that follows soon.
    pub fn prefetch(&self, id: &ObjectId) {
        self.table.prefetch(id);
    }

    /// Whether one more object can be published, in a larger table if need be. False only on a
    /// machine that has no memory for a larger one.
    pub fn has_room(&self) -> bool {
        let counts = self.table.counts();
        counts.live + counts.hidden + 2 < self.table.slots()
    }

    /// How many slots were copied or told of, ever.
    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Where a slot is in the current table.
    pub fn at(&self, slot: SlotNo) -> u32 {
        let at = slot & !TABLE_BIT;
        match &self.phase {
            Phase::Notifying { moved, .. } if slot & TABLE_BIT != self.bit => moved[at as usize],
            _ => at,
        }
    }

    /// Where this object is.
    pub fn find(&self, id: &ObjectId) -> Option<SlotNo> {
        self.table.find(id).map(|at| at | self.bit)
    }

    /// Where clients find this id, which a probe of theirs may not come to.
    pub fn place(&self, id: &ObjectId) -> Option<SlotPlace> {
        let slot = self.table.find(id)?;
        Some(SlotPlace { table: self.table.number(), slot })
    }

    /// Publishes an object.
    pub fn insert(&mut self, image: &SlotImage) -> SlotNo {
        self.insert_as(image, State::Live)
    }

    /// Enters an object that clients do not find until it is shown.
    pub fn insert_hidden(&mut self, image: &SlotImage) -> SlotNo {
        self.insert_as(image, State::Hidden)
    }

    fn insert_as(&mut self, image: &SlotImage, state: State) -> SlotNo {
        let at = self.table.insert_as(image, state);
        if let Some(copying) = self.copying_of(at) {
            copying.copy(at, image, state);
        }
        at | self.bit
    }

    /// See [`IndexWriter::hide`].
    pub fn hide(&mut self, slots: &[SlotNo]) {
        let at: Vec<u32> = slots.iter().map(|slot| self.at(*slot)).collect();
        if let Phase::Copying(copying) = &mut self.phase {
            let copied = at.iter().filter(|at| (**at as usize) < copying.copied);
            let copies: Vec<u32> = copied.map(|at| copying.moved[*at as usize]).collect();
            copying.next.hide(&copies);
        }
        self.table.hide(&at);
    }

    /// See [`IndexWriter::show`].
    pub fn show(&mut self, slot: SlotNo) {
        let at = self.at(slot);
        if let Some(copying) = self.copying_of(at) {
            copying.next.show(copying.moved[at as usize]);
        }
        self.table.show(at);
    }

    /// See [`IndexWriter::remove`].
    pub fn remove(&mut self, slot: SlotNo) {
        let at = self.at(slot);
        if let Some(copying) = self.copying_of(at) {
            copying.next.remove(copying.moved[at as usize]);
        }
        self.table.remove(at);
    }

    /// The next table, if it has a copy of this slot.
    fn copying_of(&mut self, at: u32) -> Option<&mut TableCopy> {
        match &mut self.phase {
            Phase::Copying(copying) if (at as usize) < copying.copied => Some(copying),
            _ => None,
        }
    }

    /// Takes a step towards another table, if one is wanted.
    pub fn step(&mut self, new: NewTable<'_>, moved: &mut dyn FnMut(u32, SlotNo)) -> Step {
        match &mut self.phase {
            Phase::Settled => self.begin(new),
            Phase::Copying(_) => self.continue_copying(),
            Phase::Notifying { .. } => {
                self.continue_notifying(moved);
                Step::Quiet
            }
        }
    }

    fn begin(&mut self, (number, draw_key): NewTable<'_>) -> Step {
        let is_crowded = self.table.is_crowded();
        self.sparse_for = if self.table.is_sparse() { self.sparse_for + 1 } else { 0 };
        let shrinks = self.sparse_for > self.table.slots() / SPARSE_PART;
        if !self.table.wants_growth() && !is_crowded && !shrinks {
            return Step::Quiet;
        }
        if let Some(left) = self.retry_in.checked_sub(1) {
            self.retry_in = left;
            return Step::Quiet;
        }
        // The same key keeps the order of the objects, and what lies in order is copied fast.
        let key = if is_crowded { draw_key() } else { Ok(self.table.key()) };
        match key.and_then(|key| self.table.successor(number, key, shrinks)) {
            Ok(next) => {
                let moved = vec![0; self.table.slots()];
                let keeps_order = !is_crowded;
                let copying = TableCopy { next, keeps_order, copied: 0, reserved: 0, moved };
                self.phase = Phase::Copying(Box::new(copying));
                Step::Quiet
            }
            Err(error) => self.give_up(error),
        }
    }

    fn give_up(&mut self, error: std::io::Error) -> Step {
        self.retry_in = GROWTH_RETRY_INSERTS;
        self.phase = Phase::Settled;
        Step::Refused(error)
    }

    fn continue_copying(&mut self) -> Step {
        let Phase::Copying(copying) = &mut self.phase else { return Step::Quiet };
        let slots = self.table.slots();
        let more = if self.table.is_nearly_full() { slots } else { SLOTS_PER_INSERT };
        if !copying.keeps_order && more < slots && copying.reserved < copying.next.slots() {
            // What is copied first may go anywhere.
            return match copying.reserve_more() {
                Ok(()) => Step::Quiet,
                Err(error) => self.give_up(error),
            };
        }
        let end = copying.copied.saturating_add(more).min(slots);
        if let Err(error) = copying.reserve_for(end, slots) {
            return self.give_up(error);
        }
        for at in copying.copied as u32..end as u32 {
            let state = self.table.state(at);
            if matches!(state, State::Live | State::Hidden) {
                let image = self.table.image(at);
                copying.copy(at, &image, state);
            }
        }
        self.steps += (end - copying.copied) as u64;
        copying.copied = end;
        if end == slots { Step::Complete } else { Step::Quiet }
    }

    /// The complete next table.
    pub fn next(&self) -> Option<&IndexWriter> {
        match &self.phase {
            Phase::Copying(copying) => Some(&copying.next),
            _ => None,
        }
    }

    /// The next table is the current one from here on. Returns the one before, whose memory takes a
    /// while to give back.
    pub fn switch(&mut self) -> Option<IndexWriter> {
        match std::mem::replace(&mut self.phase, Phase::Settled) {
            Phase::Copying(copying) => {
                let TableCopy { next, moved, .. } = *copying;
                self.phase = Phase::Notifying { moved, notified: 0 };
                self.bit ^= TABLE_BIT;
                Some(std::mem::replace(&mut self.table, next))
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    fn continue_notifying(&mut self, notify: &mut dyn FnMut(u32, SlotNo)) {
        let Phase::Notifying { notified, .. } = &mut self.phase else { return };
        let end = notified.saturating_add(SLOTS_PER_INSERT).min(self.table.slots());
        for at in *notified as u32..end as u32 {
            if matches!(self.table.state(at), State::Live | State::Hidden) {
                notify(self.table.image(at).record, at | self.bit);
            }
        }
        self.steps += (end - *notified) as u64;
        *notified = end;
        if end == self.table.slots() {
            self.phase = Phase::Settled;
        }
    }
}

impl TableCopy {
    fn copy(&mut self, at: u32, image: &SlotImage, state: State) {
        self.moved[at as usize] = self.next.insert_as(image, state);
    }

    /// Reserves the memory that the copies of the first `copied` of `slots` slots need. A table
    /// with the same key keeps the order of the one before, so they lie in the same part of it, and
    /// a little further where it is full; with another key they lie anywhere.
    fn reserve_for(&mut self, copied: usize, slots: usize) -> std::io::Result<()> {
        let share = copied as u128 * self.next.slots() as u128 / slots as u128;
        let wanted =
            if copied == slots || !self.keeps_order { self.next.slots() } else { share as usize };
        while self.reserved < wanted.saturating_add(RESERVED_AT_ONCE).min(self.next.slots()) {
            self.reserve_more()?;
        }
        Ok(())
    }

    fn reserve_more(&mut self) -> std::io::Result<()> {
        self.next.reserve(self.reserved, RESERVED_AT_ONCE)?;
        self.reserved += RESERVED_AT_ONCE;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plasmon_proto::extent::{ExtentId, Placement};
    use plasmon_proto::object::{ObjectMeta, Sizes};

    use super::*;

    fn image(number: u64) -> SlotImage {
        let mut id = [0; 20];
        id[..8].copy_from_slice(&number.to_le_bytes());
        SlotImage {
            serial: number + 1,
            id: ObjectId::new(id),
            placement: Placement { extent: ExtentId(1), offset: 64 },
            meta: ObjectMeta {
                sizes: Sizes { data: number, ..Sizes::default() },
                ..ObjectMeta::default()
            },
            record: number as u32,
        }
    }

    /// Another key than [`HashKey::EXAMPLE`].
    fn other_key() -> std::io::Result<HashKey> {
        Ok(HashKey(HashKey::EXAMPLE.0.map(|word| word.rotate_left(17))))
    }

    /// The index with the store's side of it: which slot each record is in, and whether it hides.
    struct World {
        index: Index,
        slots: BTreeMap<u32, (SlotNo, bool)>,
        tables: u64,
    }

    impl World {
        fn insert(&mut self, number: u64) {
            let (slots, before) = (&mut self.slots, self.index.steps());
            let mut tell = |record, slot| {
                slots.get_mut(&record).expect("only present records are renumbered").0 = slot;
            };
            if let Step::Complete = self.index.step((self.tables + 1, &other_key), &mut tell) {
                self.tables += 1;
                assert_eq!(self.index.next().map(IndexWriter::number), Some(self.tables));
                self.index.switch().expect("it was complete");
            }
            let steps = self.index.steps() - before;
            assert!(steps <= SLOTS_PER_INSERT as u64, "{steps} slots for one insert");
            let slot = self.index.insert(&image(number));
            self.slots.insert(number as u32, (slot, false));
        }

        fn check(&self) {
            for (record, (slot, hidden)) in &self.slots {
                let at = self.index.at(*slot);
                assert_eq!(self.index.table.image(at), image(u64::from(*record)));
                let state = if *hidden { State::Hidden } else { State::Live };
                assert_eq!(self.index.table.state(at), state, "{record}");
                let found = self.index.find(&image(u64::from(*record)).id);
                assert_eq!(found.map(|found| self.index.at(found)), (!hidden).then_some(at));
            }
            let counts = self.index.table.counts();
            assert_eq!(counts.live + counts.hidden, self.slots.len());
        }
    }

    /// The index copied its whole table on the loop thread when it grew: with 600,000 objects,
    /// every client waited for half a second.
    #[test]
    fn a_table_grows_a_few_slots_at_a_time_while_objects_come_and_go() {
        let table = IndexWriter::create(1, 4096, HashKey::EXAMPLE).unwrap();
        let mut world = World { index: Index::new(table), slots: BTreeMap::new(), tables: 1 };
        let mut word = 7u64;
        for number in 0..40_000 {
            world.insert(number);
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number);
            let record = (word >> 33) as u32 % (number as u32 + 1);
            match (word >> 20 & 3, world.slots.get(&record).copied()) {
                (0, Some((slot, false))) => {
                    world.index.hide(&[slot]);
                    world.slots.insert(record, (slot, true));
                }
                (1, Some((slot, true))) => {
                    world.index.show(slot);
                    world.slots.insert(record, (slot, false));
                }
                (2, Some((slot, true))) => {
                    world.index.remove(slot);
                    world.slots.remove(&record);
                }
                _ => {}
            }
            if number % 1500 == 0 {
                world.check();
            }
        }
        world.check();
        assert!(world.tables > 8, "{} tables", world.tables);
    }

    /// Ids that all have one home with the key of the first table.
    fn crowding(number: u64) -> ObjectId {
        let mut id = [0; 20];
        id[..8].copy_from_slice(&HashKey::EXAMPLE.0[0].to_le_bytes());
        id[8..16].copy_from_slice(&number.to_le_bytes());
        ObjectId::new(id)
    }

    #[test]
    fn a_table_in_which_ids_crowd_gets_another_key_a_few_slots_at_a_time() {
        let table = IndexWriter::create(1, 8192, HashKey::EXAMPLE).unwrap();
        let mut index = Index::new(table);
        let mut most = 0;
        for number in 0..3000 {
            let before = index.steps();
            if let Step::Complete = index.step((2, &other_key), &mut |_, _| {}) {
                index.switch().expect("it was complete");
            }
            assert!(index.steps() - before <= SLOTS_PER_INSERT as u64);
            let crowded = SlotImage { id: crowding(number), ..image(number) };
            index.insert(&crowded);
            most = most.max(index.table.strays());
        }
        assert_eq!((index.table.number(), index.table.strays()), (2, 0));
        assert!(most > 64, "{most} were not found by a probe");
        assert_eq!(index.table.counts().live, 3000);
        for number in 0..3000 {
            let place = index.place(&crowding(number)).expect("it is there");
            assert_eq!((place.table, index.table.image(place.slot).meta.sizes.data), (2, number));
        }
    }

    /// A table that was large once kept its memory forever.
    #[test]
    fn a_table_of_which_little_is_used_gets_smaller_while_objects_come() {
        let table = IndexWriter::create(1, 1 << 18, HashKey::EXAMPLE).unwrap();
        let mut world = World { index: Index::new(table), slots: BTreeMap::new(), tables: 1 };
        for number in 0..150_000 {
            world.insert(number % 4000 + number / 4000 * 4000);
            // As many go as come.
            if let Some(old) = number.checked_sub(4000) {
                let slot = world.slots[&(old as u32)].0;
                world.index.hide(&[slot]);
                world.index.remove(slot);
                world.slots.remove(&(old as u32));
            }
        }
        world.check();
        assert_eq!((world.tables, world.index.table.slots()), (3, 1 << 16));
    }
}
