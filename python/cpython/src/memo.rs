//! Which objects were met before, by their addresses.
//!
//! Only objects that more than their owner refers to are here; the rest cannot be met again. It is
//! an open table of pairs, because looking things up in it is most of what a dump of shared strings
//! does.

use crate::Ptr;

/// Where an object is: the type of slot that refers to it, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The type of slot that refers to it.
    pub kind: u8,
    /// Its number.
    pub index: u32,
}

/// The objects that were met, each with its place.
#[derive(Debug, Default)]
pub struct Memo {
    entries: Vec<(Ptr, Place)>,
    used: usize,
}

const FREE: (Ptr, Place) = (std::ptr::null_mut(), Place { kind: 0, index: 0 });

const ENTRIES_MIN: usize = 16;

/// The memory that is kept for the next object.
const ENTRIES_KEPT: usize = 256;

impl Memo {
    #[inline]
    fn find(&self, object: Ptr) -> usize {
        let mask = self.entries.len() - 1;
        // Objects lie at multiples of 16; the product spreads what distinguishes them.
        let mut at = ((object.addr() >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) & mask;
        while self.entries[at].0 != object && !self.entries[at].0.is_null() {
            at = (at + 1) & mask;
        }
        at
    }

    /// Where an object is, or, when it was not met before, `None`, and from now on `place`.
    #[inline]
    pub fn meet(&mut self, object: Ptr, place: Place) -> Option<Place> {
        if self.used * 2 >= self.entries.len() {
            self.grow();
        }
        let at = self.find(object);
        if !self.entries[at].0.is_null() {
            return Some(self.entries[at].1);
        }
        self.entries[at] = (object, place);
        self.used += 1;
        None
    }

    /// Where an object is.
    #[inline]
    pub fn get(&self, object: Ptr) -> Option<Place> {
        if self.entries.is_empty() {
            return None;
        }
        let (known, place) = self.entries[self.find(object)];
        (!known.is_null()).then_some(place)
    }

    fn grow(&mut self) {
        let room = (self.entries.len() * 4).max(ENTRIES_MIN);
        let old = std::mem::replace(&mut self.entries, vec![FREE; room]);
        for entry in old.into_iter().filter(|entry| !entry.0.is_null()) {
            let at = self.find(entry.0);
            self.entries[at] = entry;
        }
    }

    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = Ptr> {
        self.entries.iter().map(|entry| entry.0).filter(|object| !object.is_null())
    }

    /// Forgets everything and keeps the memory, unless that is much.
    #[inline]
    pub fn clear(&mut self) {
        if self.entries.len() > ENTRIES_KEPT {
            self.entries = Vec::new();
        }
        if self.used != 0 {
            self.entries.fill(FREE);
        }
        self.used = 0;
    }
}
