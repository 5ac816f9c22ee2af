//! Unique ids.

use std::sync::{Mutex, PoisonError};

use plasmon_proto::ObjectId;
use plasmon_proto::pool::Slot;

/// A maker of ids: 20 random bytes of its own, of which the first eight are changed by a count.
///
/// The count changes the beginning, so that the first digits tell ids of one maker apart, as they
/// are shown and typed. Ids of two makers differ in the other bytes.
#[derive(Debug)]
pub(crate) struct Ids {
    /// As words of 64 bits, because the bytes of an id are read as words next.
    random: [u64; 3],
    count: u64,
}

impl Ids {
    /// A maker whose ids no other one makes, in this process or elsewhere.
    pub(crate) fn new() -> Self {
        Self { random: ObjectId::new(random_bytes()).words(), count: 0 }
    }

    /// The next id.
    #[inline]
    pub(crate) fn next(&mut self) -> ObjectId {
        let [first, second, third] = self.random;
        let id = ObjectId::from_words([first ^ self.count, second, third]);
        self.count += 1;
        id
    }
}

/// A maker of pooled ids that have a home: 64 random bits of its own and a count, which comes first
/// for the same reason as in [`Ids`].
#[derive(Debug)]
pub(crate) struct HomedIds {
    random: [u8; 8],
    first: u32,
    /// `None` after the last id with these random bits.
    count: Option<u32>,
}

impl HomedIds {
    /// A maker whose ids no other one makes, in this process or elsewhere.
    pub(crate) fn new() -> Self {
        let [f0, f1, f2, f3, random @ ..]: [u8; 12] = random_bytes();
        Self { random, first: u32::from_le_bytes([f0, f1, f2, f3]), count: Some(0) }
    }

    /// The next id of an object that is made on the node in this slot.
    #[inline]
    pub(crate) fn next(&mut self, home: Slot) -> ObjectId {
        let count = match self.count {
            Some(count) => count,
            None => {
                *self = Self::new();
                0
            }
        };
        self.count = count.checked_add(1);
        // Ids that are made one after the other lie beside each other in what is sorted by id.
        let [c0, c1, c2, c3] = (self.first ^ count).to_be_bytes();
        let [r0, r1, r2, r3, r4, r5, r6, r7] = self.random;
        ObjectId::pooled([c0, c1, c2, c3, r0, r1, r2, r3, r4, r5, r6, r7], Some(home.0))
    }
}

fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    // So few bytes come at once and whole, once the machine has booted.
    plasmon_shm::edge::random().expect("the kernel gives random bytes")
}

/// Ids for all threads of a process.
#[derive(Debug)]
pub(crate) struct SharedIds(Mutex<Ids>);

impl SharedIds {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Ids::new()))
    }

    /// A unique id.
    pub(crate) fn next(&self) -> ObjectId {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_comes_twice() {
        let (mut one, mut other) = (Ids::new(), Ids::new());
        let ids: HashSet<_> = (0..1000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.len(), 2000);
    }

    #[test]
    fn homed_ids_are_unique_and_say_their_home_also_after_the_last_count() {
        let (mut one, mut other) = (HomedIds::new(), HomedIds::new());
        let mut ids = HashSet::new();
        for _ in 0..1000 {
            ids.extend([one.next(Slot(3)), other.next(Slot(3))]);
        }
        let random = one.random;
        one.count = Some(u32::MAX - 1);
        ids.extend((0..4).map(|_| one.next(Slot(3))));
        assert_ne!(one.random, random);
        assert_eq!(ids.len(), 2004);
        assert!(ids.iter().all(|id| id.is_pooled() && id.home() == Some(3)));
        assert_eq!(one.next(Slot(7)).home(), Some(7), "the node has another slot by now");
        let starts: HashSet<_> =
            (0..70_000).map(|_| one.next(Slot(3)).to_string()[..8].to_owned()).collect();
        assert_eq!(starts.len(), 70_000);
    }

    /// Ids of one client had their first 24 digits in common: nothing short told them apart.
    #[test]
    fn the_first_digits_distinguish_ids_of_one_maker() {
        let mut ids = Ids::new();
        let starts: HashSet<_> =
            (0..70_000).map(|_| ids.next().to_string()[..8].to_owned()).collect();
        assert_eq!(starts.len(), 70_000);
    }
}
