//! The private record of each object in memory: 20 bytes in a slab indexed by record number.
//!
//! What else is known about an object is in its slot of the index, which the record points to, and
//! for the few objects with rarer properties in the side map of [`crate::extras`]. The records also
//! carry the links of the two lists of least recently used objects: those with policy cache, which
//! may be evicted, and those with policy keep, which may be spilled. Members of composites are in
//! neither.

use crate::free_numbers::FreeNumbers;
use crate::ports::SlotNo;

/// No record.
pub(crate) const NONE: u32 = u32::MAX;

/// The record is in use.
pub(crate) const USED: u16 = 1;
/// The object is deleted; its memory waits for its last pin.
pub(crate) const HIDDEN: u16 = 2;
/// The object may be evicted.
pub(crate) const CACHE: u16 = 4;
/// The record is in a list.
pub(crate) const LISTED: u16 = 8;
/// The side map knows more.
pub(crate) const EXTRAS: u16 = 16;
/// The daemon is writing the object to the spill tier.
pub(crate) const SPILLING: u16 = 32;
/// The object comes from an earlier daemon.
pub(crate) const RECOVERED: u16 = 64;
/// The object is owned and no composite has held it yet: it is in no list. What is being put
/// together is not taken apart, because its creator may still read it where it wrote it.
pub(crate) const UNATTACHED: u16 = 128;
/// The object is durable, in a store without a spill tier: what is there of it besides the memory
/// is in the log.
pub(crate) const LOGGED: u16 = 256;

const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) slot: SlotNo,
    previous: u32,
    next: u32,
    /// The session of its creator.
    pub(crate) owner: u32,
    pub(crate) flags: u16,
}

const _: () = assert!(size_of::<Record>() == 20, "every object in memory has one");

const FREE: Record = Record { slot: 0, previous: NONE, next: NONE, owner: 0, flags: 0 };

impl Record {
    pub(crate) fn is(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// Which list a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Objects that may be evicted.
    Cache = 0,
    /// Objects that may be spilled.
    Keep = 1,
    /// Durable objects in a store without a spill tier.
    Logged = 2,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    count: usize,
}

/// All records. They are kept in chunks, so that growing copies nothing.
#[derive(Debug)]
pub(crate) struct Records {
    chunks: Vec<Box<[Record]>>,
    free: FreeNumbers,
    lists: [Ends; 3],
    /// How many records were ever put into a list.
    listings: u64,
}

impl Default for Records {
    fn default() -> Self {
        let ends = Ends { newest: NONE, oldest: NONE, count: 0 };
        Self { chunks: Vec::new(), free: FreeNumbers::default(), lists: [ends; 3], listings: 0 }
    }
}

impl Records {
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// The record with this number, if it is in use; numbers come from clients, too.
    pub(crate) fn used(&self, number: u32) -> Option<&Record> {
        let chunk = self.chunks.get((number >> CHUNK_BITS) as usize)?;
        Some(&chunk[number as usize % CHUNK]).filter(|record| record.is(USED))
    }

    /// A record in use, by a number of the store's own.
    pub(crate) fn get(&self, number: u32) -> &Record {
        &self.chunks[(number >> CHUNK_BITS) as usize][number as usize % CHUNK]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Record {
        &mut self.chunks[(number >> CHUNK_BITS) as usize][number as usize % CHUNK]
    }

    fn grow(&mut self) {
        self.chunks.push(vec![FREE; CHUNK].into_boxed_slice());
        self.free.extend(CHUNK);
    }

    /// A record to fill.
    pub(crate) fn allocate(&mut self, owner: u32, flags: u16) -> u32 {
        let number = loop {
            match self.free.take() {
                Some(number) => break number,
                None => self.grow(),
            }
        };
        *self.get_mut(number) = Record { owner, flags: flags | USED, ..FREE };
        number
    }

    /// The record with exactly this number, for an object of an earlier daemon; false when it is
    /// taken or beyond `limit`.
    pub(crate) fn claim(&mut self, number: u32, limit: u32, flags: u16) -> bool {
        if number >= limit {
            return false;
        }
        while self.capacity() <= number as usize {
            self.grow();
        }
        if self.get(number).is(USED) {
            return false;
        }
        self.free.remove(number);
        *self.get_mut(number) = Record { flags: flags | USED, ..FREE };
        true
    }

    /// Gives a record back, out of its list.
    pub(crate) fn release(&mut self, number: u32) {
        self.unlist(number);
        *self.get_mut(number) = FREE;
        self.free.give(number);
    }

    /// The list that a record is in, or would be in.
    pub(crate) fn list_of(&self, number: u32) -> List {
        match self.get(number) {
            record if record.is(CACHE) => List::Cache,
            record if record.is(LOGGED) => List::Logged,
            _ => List::Keep,
        }
    }

    /// Puts the record at the recently used end of its list.
    pub(crate) fn touch(&mut self, number: u32) {
        if self.get(number).is(UNATTACHED) {
            return;
        }
        let list = self.list_of(number) as usize;
        if self.lists[list].newest == number {
            return;
        }
        self.listings += u64::from(!self.get(number).is(LISTED));
        self.unlist(number);
        let newest = self.lists[list].newest;
        let record = self.get_mut(number);
        record.flags |= LISTED;
        record.previous = NONE;
        record.next = newest;
        if newest == NONE {
            self.lists[list].oldest = number;
        } else {
            self.get_mut(newest).previous = number;
        }
        self.lists[list].newest = number;
        self.lists[list].count += 1;
    }

    /// Puts a record that is in a list at the end of it that leaves the memory first.
    pub(crate) fn demote(&mut self, number: u32) {
        if !self.get(number).is(LISTED) {
            return;
        }
        self.unlist(number);
        let list = self.list_of(number) as usize;
        let oldest = self.lists[list].oldest;
        let record = self.get_mut(number);
        record.flags |= LISTED;
        (record.previous, record.next) = (oldest, NONE);
        if oldest == NONE {
            self.lists[list].newest = number;
        } else {
            self.get_mut(oldest).next = number;
        }
        self.lists[list].oldest = number;
        self.lists[list].count += 1;
    }

    /// Takes the record out of its list, if it is in one.
    pub(crate) fn unlist(&mut self, number: u32) {
        let record = *self.get(number);
        if !record.is(LISTED) {
            return;
        }
        let list = self.list_of(number) as usize;
        match record.previous {
            NONE => self.lists[list].newest = record.next,
            previous => self.get_mut(previous).next = record.next,
        }
        match record.next {
            NONE => self.lists[list].oldest = record.previous,
            next => self.get_mut(next).previous = record.previous,
        }
        let record = self.get_mut(number);
        record.flags &= !LISTED;
        (record.previous, record.next) = (NONE, NONE);
        self.lists[list].count -= 1;
    }

    /// How many records are in a list.
    pub(crate) fn count(&self, list: List) -> usize {
        self.lists[list as usize].count
    }

    /// How many records were ever put into a list: the same as before means no new ones.
    pub(crate) fn listings(&self) -> u64 {
        self.listings
    }

    /// The records of a list, the least recently used first.
    pub(crate) fn oldest(&self, list: List) -> impl Iterator<Item = u32> {
        self.newer(self.lists[list as usize].oldest)
    }

    /// A record of a list and those that were used later.
    pub(crate) fn newer(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors((first != NONE).then_some(first), |number| {
            let previous = self.get(*number).previous;
            (previous != NONE).then_some(previous)
        })
    }

    /// The first record from this one on that is in use, or the first number after a long run of
    /// free ones.
    pub(crate) fn next_used(&self, number: u32) -> Option<u32> {
        self.free.next_taken(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(records: &Records, list: List) -> Vec<u32> {
        records.oldest(list).collect()
    }

    #[test]
    fn lists_keep_the_order_of_use() {
        let mut records = Records::default();
        let [a, b, c] = [0; 3].map(|_| records.allocate(0, CACHE));
        let d = records.allocate(0, 0);
        for number in [a, b, c, d] {
            records.touch(number);
        }
        assert_eq!(order(&records, List::Cache), [a, b, c]);
        assert_eq!(order(&records, List::Keep), [d]);
        records.touch(a);
        records.touch(a);
        assert_eq!(order(&records, List::Cache), [b, c, a]);
        records.unlist(c);
        records.unlist(c);
        assert_eq!(order(&records, List::Cache), [b, a]);
        records.release(b);
        records.release(a);
        assert_eq!(order(&records, List::Cache), [0; 0]);
        assert_eq!((records.count(List::Cache), records.count(List::Keep)), (0, 1));
    }

    #[test]
    fn a_demoted_record_is_the_oldest_of_its_list() {
        let mut records = Records::default();
        let [a, b, c] = [0; 3].map(|_| records.allocate(0, 0));
        for number in [a, b, c] {
            records.touch(number);
        }
        records.demote(c);
        assert_eq!(order(&records, List::Keep), [c, a, b]);
        records.demote(a);
        records.demote(a);
        assert_eq!(order(&records, List::Keep), [a, c, b]);
        records.unlist(b);
        records.demote(b);
        assert_eq!(order(&records, List::Keep), [a, c], "one in no list stays so");
        records.release(c);
        records.demote(a);
        records.touch(a);
        assert_eq!((order(&records, List::Keep), records.count(List::Keep)), (vec![a], 1));
    }

    #[test]
    fn numbers_are_used_again_and_strange_ones_are_nothing() {
        let mut records = Records::default();
        let first = records.allocate(7, 0);
        records.release(first);
        assert_eq!(records.allocate(8, 0), first);
        assert!(records.used(first).is_some());
        for number in [1, CHUNK as u32 - 1, CHUNK as u32, u32::MAX] {
            assert!(records.used(number).is_none(), "{number}");
        }
    }

    #[test]
    fn growth_and_claims_give_every_number_once() {
        let mut records = Records::default();
        assert!(records.claim(5, 10, 0));
        assert!(!records.claim(5, 10, 0));
        assert!(!records.claim(10, 10, 0));
        let mut seen = std::collections::BTreeSet::from([5]);
        for _ in 0..2 * CHUNK {
            assert!(seen.insert(records.allocate(0, 0)));
        }
    }
}
