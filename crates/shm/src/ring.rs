//! A ring of records with one producer and one consumer, each in its own process.
//!
//! Both cursors count records and never wrap; a record's place is its position modulo the capacity.
//! Each side keeps its own cursor in its own memory and reads only the other's from the ring, so
//! whatever the other process writes there can at worst be out of range, which is an error.

use plasmon_proto::ring::Record;

use crate::sync::{AtomicU64, Ordering};

/// Words in a record.
pub const RECORD_WORDS: usize = 8;

/// Bytes in a record.
pub const RECORD_BYTES: u64 = 64;

/// A ring where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    /// Written by the producer: all records before it are complete.
    pub(crate) tail: &'a AtomicU64,
    /// Written by the consumer: all records before it may be overwritten.
    pub(crate) head: &'a AtomicU64,
    /// The records' words; the number of records is a power of two.
    pub(crate) words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    fn capacity(&self) -> u64 {
        (self.words.len() / RECORD_WORDS) as u64
    }

    fn record(&self, position: u64) -> &'a [AtomicU64] {
        let index = (position % self.capacity()) as usize;
        &self.words[index * RECORD_WORDS..(index + 1) * RECORD_WORDS]
    }
}

/// The other side's cursor is out of range: it broke the protocol, and its records mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring cursor reads {found}, which is not within {capacity} records of {expected}")]
pub struct BadCursor {
    /// What the other side wrote.
    pub found: u64,
    /// This side's own cursor.
    pub expected: u64,
    /// How many records the ring has.
    pub capacity: u64,
}

/// The side that writes records.
#[derive(Debug)]
pub(crate) struct Producer {
    tail: u64,
    /// The consumer's cursor when it was last looked at; looking costs a cache miss.
    head_seen: u64,
}

impl Producer {
    /// A producer whose next record is at `tail`.
    pub(crate) fn new(tail: u64) -> Self {
        // So far back that the first call of `room` looks at the real one.
        Self { tail, head_seen: tail.wrapping_sub(1 << 63) }
    }

    /// The position of the next record.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// How many records there is room for, at least 1 if there is room at all.
    #[inline]
    pub(crate) fn room(&mut self, ring: &Ring<'_>) -> Result<u64, BadCursor> {
        let capacity = ring.capacity();
        let used = |head: u64| self.tail.wrapping_sub(head);
        if used(self.head_seen) >= capacity {
            // Pairs with the release in `Consumer::advance`: the records before it were copied out.
            let head = ring.head.load(Ordering::Acquire);
            if used(head) > capacity {
                return Err(BadCursor { found: head, expected: self.tail, capacity });
            }
            self.head_seen = head;
        }
        Ok(capacity - used(self.head_seen))
    }

    /// Writes a record at the tail without publishing it. There must be room.
    #[inline]
    pub(crate) fn push(&mut self, ring: &Ring<'_>, record: &Record) {
        for (word, value) in ring.record(self.tail).iter().zip(record) {
            word.store(*value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// The published records that the consumer has not given back yet, the oldest first.
    pub(crate) fn pending<'a>(&self, ring: &Ring<'a>) -> impl Iterator<Item = Record> + use<'a> {
        // Pairs with the release in `Consumer::advance`. A head out of range leaves nothing.
        let head = ring.head.load(Ordering::Acquire);
        let count = Some(self.tail.wrapping_sub(head)).filter(|count| *count <= ring.capacity());
        let ring = *ring;
        (0..count.unwrap_or(0)).map(move |index| {
            let words = ring.record(head.wrapping_add(index));
            std::array::from_fn(|word| words[word].load(Ordering::Relaxed))
        })
    }

    /// Publishes every record pushed so far.
    #[inline]
    pub(crate) fn publish(&self, ring: &Ring<'_>) {
        // Pairs with the acquire in `Consumer::available`. An exchange and no store, because
        // `sleep_flag::must_ring_once` follows and must not be overtaken: one locked instruction
        // costs less than a store and a fence.
        ring.tail.swap(self.tail, Ordering::SeqCst);
    }
}

/// The side that reads records.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// The position of the next record to copy out.
    next: u64,
}

impl Consumer {
    /// A consumer whose next record is at `head`.
    pub(crate) fn new(head: u64) -> Self {
        Self { next: head }
    }

    /// The position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many records are complete and not yet copied out.
    pub(crate) fn available(&self, ring: &Ring<'_>) -> Result<u64, BadCursor> {
        // Pairs with the release in `Producer::publish`.
        let tail = ring.tail.load(Ordering::Acquire);
        let count = tail.wrapping_sub(self.next);
        let capacity = ring.capacity();
        if count <= capacity {
            Ok(count)
        } else {
            Err(BadCursor { found: tail, expected: self.next, capacity })
        }
    }

    /// Copies the next record out. There must be one.
    pub(crate) fn pop(&mut self, ring: &Ring<'_>) -> (u64, Record) {
        let position = self.next;
        let words = ring.record(position);
        self.next = position.wrapping_add(1);
        (position, std::array::from_fn(|word| words[word].load(Ordering::Relaxed)))
    }

    /// Gives the records copied out so far back to the producer.
    pub(crate) fn advance(&self, ring: &Ring<'_>) {
        self.advance_to(ring, self.next);
    }

    /// Gives those before a position back.
    pub(crate) fn advance_to(&self, ring: &Ring<'_>, position: u64) {
        // Pairs with the acquire in `Producer::room`.
        ring.head.store(position, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    struct Memory {
        tail: AtomicU64,
        head: AtomicU64,
        words: Vec<AtomicU64>,
    }

    impl Memory {
        fn new(records: usize) -> Self {
            let words = (0..records * RECORD_WORDS).map(|_| AtomicU64::new(0)).collect();
            Self { tail: AtomicU64::new(0), head: AtomicU64::new(0), words }
        }

        fn ring(&self) -> Ring<'_> {
            Ring { tail: &self.tail, head: &self.head, words: &self.words }
        }
    }

    #[test]
    fn records_come_out_in_order_and_a_full_ring_says_so() {
        let memory = Memory::new(4);
        let ring = memory.ring();
        let (mut producer, mut consumer) = (Producer::new(0), Consumer::new(0));
        for round in 0..10u64 {
            for index in 0..4 {
                assert_eq!(producer.room(&ring), Ok(4 - index));
                producer.push(&ring, &[round * 4 + index; 8]);
            }
            assert_eq!(producer.room(&ring), Ok(0));
            assert_eq!(consumer.available(&ring), Ok(0));
            producer.publish(&ring);
            assert_eq!(consumer.available(&ring), Ok(4));
            for index in 0..4 {
                let position = round * 4 + index;
                assert_eq!(consumer.pop(&ring), (position, [position; 8]));
            }
            assert_eq!(producer.room(&ring), Ok(0));
            consumer.advance(&ring);
        }
    }

    #[test]
    fn pending_records_are_counted_without_taking_them() {
        let memory = Memory::new(4);
        let ring = memory.ring();
        let (mut producer, mut consumer) = (Producer::new(0), Consumer::new(0));
        for value in 0..3 {
            assert_ne!(producer.room(&ring), Ok(0));
            producer.push(&ring, &[value; 8]);
        }
        producer.publish(&ring);
        consumer.pop(&ring);
        assert_eq!(producer.pending(&ring).count(), 3, "the first is not given back yet");
        consumer.advance(&ring);
        assert_eq!(producer.pending(&ring).collect::<Vec<_>>(), [[1; 8], [2; 8]]);
        memory.head.store(77, Ordering::Relaxed);
        assert_eq!(producer.pending(&ring).count(), 0, "a head out of range tells nothing");
    }

    #[test]
    fn positions_pass_the_end_of_64_bits() {
        let memory = Memory::new(2);
        let ring = memory.ring();
        memory.head.store(u64::MAX, Ordering::Relaxed);
        let (mut producer, mut consumer) = (Producer::new(u64::MAX), Consumer::new(u64::MAX));
        for value in 0..2 {
            assert_ne!(producer.room(&ring), Ok(0));
            producer.push(&ring, &[value; 8]);
        }
        producer.publish(&ring);
        assert_eq!(consumer.available(&ring), Ok(2));
        assert_eq!(consumer.pop(&ring), (u64::MAX, [0; 8]));
        assert_eq!(consumer.pop(&ring), (0, [1; 8]));
    }

    #[test]
    fn cursors_out_of_range_are_refused() {
        let memory = Memory::new(4);
        let ring = memory.ring();
        let consumer = Consumer::new(100);
        for (tail, ok) in [(100, true), (104, true), (105, false), (99, false), (u64::MAX, false)] {
            memory.tail.store(tail, Ordering::Relaxed);
            assert_eq!(consumer.available(&ring).is_ok(), ok, "{tail}");
        }
        for (head, ok) in [(101, false), (95, false), (96, true), (100, true)] {
            memory.head.store(head, Ordering::Relaxed);
            assert_eq!(Producer::new(100).room(&ring).is_ok(), ok, "{head}");
        }
    }
}
