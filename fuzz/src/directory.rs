//! The index and the ledgers as the store sees them, in ordinary memory, asserting what a correct
//! store never does.

use std::collections::{BTreeSet, HashMap};

use plasmon_proto::ObjectId;
use plasmon_proto::message::Range;
use plasmon_store::ports::{Directory, Entry, Look, SlotNo};

/// An index and all ledgers.
#[derive(Debug, Default)]
pub struct Double {
    slots: Vec<Option<(Entry, bool)>>,
    leaving: Option<u64>,
    void: BTreeSet<u64>,
    /// Pins by serial.
    pub pinned: HashMap<u64, u32>,
}

impl Double {
    /// Everything in the index, visible or not.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, bool)> {
        self.slots.iter().flatten().map(|(entry, visible)| (entry, *visible))
    }

    /// Asserts that nothing in the index lies in this range.
    pub fn assert_free(&self, range: &Range) {
        for (entry, _) in self.entries() {
            assert!(!overlap(&entry.range, range), "{range:?} is taken by {entry:?}");
        }
    }

    fn at(&self, slot: SlotNo) -> (Entry, bool) {
        self.slots[slot as usize].expect("the store names slots that it was told")
    }

    fn set_visible(&mut self, slot: SlotNo, visible: bool) {
        let (entry, was) = self.at(slot);
        assert_ne!(was, visible, "an entry is hidden or shown once");
        self.slots[slot as usize] = Some((entry, visible));
    }

    /// Twice the slots, every entry in another one.
    fn grow(&mut self, moved: &mut dyn FnMut(u32, SlotNo)) {
        let mut grown = vec![None; (self.slots.len() * 2).max(4)];
        for (at, slot) in self.slots.iter().rev().enumerate() {
            grown[at] = *slot;
            if let Some((entry, _)) = slot {
                moved(entry.record, at as SlotNo);
            }
        }
        self.slots = grown;
    }
}

impl Directory for Double {
    fn find(&self, id: &ObjectId) -> Option<(SlotNo, Entry)> {
        let mut found = self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Some((entry, true)) if entry.id == *id => Some((at as SlotNo, *entry)),
            _ => None,
        });
        let first = found.next();
        assert!(found.next().is_none(), "one id is visible once");
        first
    }

    fn entry(&self, slot: SlotNo) -> Entry {
        self.at(slot).0
    }

    fn insert(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        assert!(self.find(&entry.id).is_none(), "an id is inserted once");
        assert!((1..1 << 62).contains(&entry.serial));
        assert_eq!(entry.range.bytes, entry.meta.sizes.footprint().expect("sizes are checked"));
        self.assert_free(&entry.range);
        let free = |slots: &[Option<_>]| slots.iter().position(Option::is_none);
        if free(&self.slots).is_none() {
            self.grow(moved);
        }
        let at = free(&self.slots).expect("a grown table has room");
        self.slots[at] = Some((*entry, true));
        at as SlotNo
    }

    fn hide(&mut self, slots: &[SlotNo]) {
        slots.iter().for_each(|slot| self.set_visible(*slot, false));
    }

    fn show(&mut self, slot: SlotNo) {
        let id = self.entry(slot).id;
        assert!(self.find(&id).is_none(), "an id is shown while no other object has it");
        self.set_visible(slot, true);
    }

    fn remove(&mut self, slot: SlotNo) {
        let (entry, visible) = self.at(slot);
        assert!(!visible, "only what is hidden is removed");
        let pins = self.pinned.get(&entry.serial).copied().unwrap_or(0);
        assert_eq!(pins, 0, "memory that is pinned is not freed: {entry:?}");
        self.slots[slot as usize] = None;
    }

    fn set_leaving(&mut self, serial: Option<u64>) {
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
        let pins = |serial| self.pinned.get(serial).copied().unwrap_or(0);
        let digest = self.pinned.iter().map(|(serial, pins)| serial * u64::from(*pins)).sum();
        Look { pins: serials.iter().map(pins).collect(), digest }
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
