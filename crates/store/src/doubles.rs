//! For tests: the index and the ledgers as the store sees them, in ordinary maps, and the checks of
//! a store over them.
//!
//! Tests set pins, and the index grows by moving every slot. It refuses what the real ones must
//! never see. Other crates have this with the feature `doubles`.

mod checks;
mod rest;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;

use crate::ports::{Directory, Entry, Look, SlotNo};

/// With more entries an insertion does not look whether its memory is free.
const SEARCHED_MAX: usize = 500;

/// An index and all ledgers.
#[derive(Debug, Default)]
pub struct TestDirectory {
    slots: BTreeMap<SlotNo, (Entry, bool)>,
    visible: BTreeMap<ObjectId, SlotNo>,
    /// Pins by serial.
    pub pins: BTreeMap<u64, u32>,
    /// How often all ledgers were looked through.
    pub looks: Cell<u64>,
    /// What is hidden without being deleted, as the store noted it.
    pub leaving: Option<u64>,
    /// Files in the tier that count for nothing.
    pub void: BTreeSet<u64>,
    /// What was looked for while something was noted, and what was noted.
    pub left_at_look: RefCell<(Vec<u64>, Option<u64>)>,
    next_slot: SlotNo,
    /// The index grows when it has this many entries.
    room: usize,
}

impl TestDirectory {
    /// Everything in the index, and whether it is visible.
    pub fn entries(&self) -> impl Iterator<Item = (SlotNo, &Entry, bool)> {
        self.slots.iter().map(|(slot, (entry, visible))| (*slot, entry, *visible))
    }

    /// Asserts that nothing in the index lies in this range.
    pub fn assert_free(&self, range: &Range) {
        for (_, entry, _) in self.entries() {
            assert!(!overlap(&entry.range, range), "{range:?} is taken by {entry:?}");
        }
    }

    /// Pins a visible object like a client's ledger.
    pub fn pin(&mut self, id: &ObjectId) -> u64 {
        let serial = self.slots[&self.visible[id]].0.serial;
        *self.pins.entry(serial).or_default() += 1;
        serial
    }

    /// Takes one pin back.
    pub fn unpin(&mut self, serial: u64) {
        let pins = self.pins.get_mut(&serial).expect("it was pinned");
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&serial);
        }
    }

    /// Puts an entry in as an earlier daemon left it.
    pub fn leave(&mut self, entry: Entry, visible: bool) -> SlotNo {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.slots.insert(slot, (entry, visible));
        if visible {
            self.visible.insert(entry.id, slot);
        }
        slot
    }

    /// Overwrites an entry as a broken daemon might have.
    pub fn replace(&mut self, slot: SlotNo, entry: Entry) {
        self.slots.get_mut(&slot).expect("a slot in use").0 = entry;
    }

    fn grow(&mut self, moved: &mut dyn FnMut(u32, SlotNo)) {
        self.room = self.room * 2 + 4;
        // Far away from all old slots, in another order.
        let first = self.next_slot + 1000;
        let count = self.slots.len() as u32;
        self.next_slot = first + count;
        let old = std::mem::take(&mut self.slots);
        for (at, (_, (entry, visible))) in (0..count).zip(old) {
            let slot = first + (count - 1 - at);
            moved(entry.record, slot);
            if visible {
                self.visible.insert(entry.id, slot);
            }
            self.slots.insert(slot, (entry, visible));
        }
    }
}

impl Directory for TestDirectory {
    fn find(&self, id: &ObjectId) -> Option<(SlotNo, Entry)> {
        let slot = *self.visible.get(id)?;
        Some((slot, self.slots[&slot].0))
    }

    fn entry(&self, slot: SlotNo) -> Entry {
        self.slots[&slot].0
    }

    fn insert(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        assert!(!self.visible.contains_key(&entry.id), "two visible objects of one id");
        assert!((1..1 << 62).contains(&entry.serial));
        assert_eq!(Some(entry.range.bytes), entry.meta.sizes.footprint(), "sizes are checked");
        if self.slots.len() < SEARCHED_MAX {
            self.assert_free(&entry.range);
        }
        if self.slots.len() >= self.room {
            self.grow(moved);
        }
        self.leave(*entry, true)
    }

    fn insert_hidden(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        assert_eq!(Some(entry.range.bytes), entry.meta.sizes.footprint(), "sizes are checked");
        if self.slots.len() >= self.room {
            self.grow(moved);
        }
        self.leave(*entry, false)
    }

    fn hide(&mut self, slots: &[SlotNo]) {
        for slot in slots {
            let (entry, visible) = self.slots.get_mut(slot).expect("a slot in use");
            assert!(*visible, "only visible entries are hidden");
            *visible = false;
            self.visible.remove(&entry.id);
        }
    }

    fn show(&mut self, slot: SlotNo) {
        let (entry, visible) = self.slots.get_mut(&slot).expect("a slot in use");
        assert!(!*visible, "only hidden entries are shown");
        *visible = true;
        assert!(self.visible.insert(entry.id, slot).is_none(), "the id was given away meanwhile");
    }

    fn remove(&mut self, slot: SlotNo) {
        let (entry, visible) = self.slots.remove(&slot).expect("a slot in use");
        assert!(!visible, "only hidden entries are removed");
        assert!(!self.pins.contains_key(&entry.serial), "a pinned object was freed");
    }

    fn set_leaving(&mut self, serial: Option<u64>) {
        // One that was replaced stays hidden, and the new one is there.
        let is_replaced = |it: &Entry| self.visible.contains_key(&it.id);
        let hidden = |serial| {
            let mut slots = self.slots.values();
            slots.any(|(it, seen)| it.serial == serial && !seen && !is_replaced(it))
        };
        assert!(!self.leaving.is_some_and(hidden), "the note outlives the hiding");
        self.leaving = serial;
    }

    fn leaving(&self) -> Option<u64> {
        self.leaving
    }

    fn set_void(&mut self, serial: u64, is_void: bool) {
        if is_void {
            self.void.insert(serial);
        } else {
            self.void.remove(&serial);
        }
    }

    fn void(&self) -> BTreeSet<u64> {
        self.void.clone()
    }

    fn look(&self, serials: &[u64]) -> Look {
        self.looks.set(self.looks.get() + 1);
        if self.leaving.is_some() {
            self.left_at_look.replace((serials.to_vec(), self.leaving));
        }
        let pins = serials.iter().map(|serial| self.pins.get(serial).copied().unwrap_or(0));
        let mixed = |(serial, count): (&u64, &u32)| serial.wrapping_mul(*count as u64 + 7);
        let digest = self.pins.iter().map(mixed).fold(0, u64::wrapping_add);
        Look { pins: pins.collect(), digest }
    }

    fn slots(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// Whether two ranges share a byte.
pub fn overlap(a: &Range, b: &Range) -> bool {
    let (a_end, b_end) = (a.offset.saturating_add(a.bytes), b.offset.saturating_add(b.bytes));
    a.extent == b.extent && a.offset < b_end && b.offset < a_end
}
