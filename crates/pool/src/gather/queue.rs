//! What waits to be read from each node, and whose turn it is.
//!
//! So many transfers are under way from one node at a time; meanwhile more comes together, and
//! fills the next ones. Several gathers that wait for one node take turns.

use std::collections::{BTreeMap, VecDeque};

use plasmon_cluster::Slot;
use plasmon_proto::limits::GATHER_SPANS_MAX;

use crate::limits::{GATHERS_PER_PEER_MAX, SEGMENT_BYTES};
use crate::object_parts::next_start;

/// How much one read has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) spans: usize,
}

/// Reads of one gather that are brought here together, from one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) source: Slot,
    pub(super) number: u64,
    /// The reads, by their places in the gather.
    pub(super) reads: Vec<u16>,
}

#[derive(Debug, Default)]
struct Source {
    under_way: usize,
    /// The gathers that have something waiting here, the next one first.
    turns: VecDeque<u64>,
    waiting: BTreeMap<u64, VecDeque<(u16, Size)>>,
}

/// The queues of all nodes.
#[derive(Debug, Default)]
pub(super) struct Queues(BTreeMap<Slot, Source>);

impl Queues {
    /// A read waits for its turn.
    pub(super) fn push(&mut self, source: Slot, (number, at): (u64, u16), size: Size) {
        let source = self.0.entry(source).or_default();
        let waiting = source.waiting.entry(number).or_default();
        if waiting.is_empty() {
            source.turns.push_back(number);
        }
        waiting.push_back((at, size));
    }

    /// What is to be read next, if anything can be now. It is under way until [`Self::end`].
    pub(super) fn next(&mut self) -> Option<Batch> {
        self.0.iter_mut().find_map(|(slot, source)| {
            let (number, reads) = source.next()?;
            Some(Batch { source: *slot, number, reads })
        })
    }

    /// What was read from this node has ended.
    pub(super) fn end(&mut self, source: Slot) {
        if let Some(found) = self.0.get_mut(&source) {
            found.under_way = found.under_way.saturating_sub(1);
            if found.under_way == 0 && found.turns.is_empty() {
                self.0.remove(&source);
            }
        }
    }

    /// A gather has ended.
    pub(super) fn forget(&mut self, number: u64) {
        self.0.retain(|_, source| {
            source.turns.retain(|other| *other != number);
            source.waiting.remove(&number);
            source.under_way > 0 || !source.turns.is_empty()
        });
    }

    /// Takes back what waits for a node.
    pub(super) fn take(&mut self, source: Slot) -> Vec<(u64, u16)> {
        let Some(found) = self.0.get_mut(&source) else { return Vec::new() };
        found.turns.clear();
        let waiting = std::mem::take(&mut found.waiting);
        let all = waiting
            .into_iter()
            .flat_map(|(number, reads)| reads.into_iter().map(move |(at, _)| (number, at)));
        all.collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Source {
    fn next(&mut self) -> Option<(u64, Vec<u16>)> {
        if self.under_way >= GATHERS_PER_PEER_MAX {
            return None;
        }
        let number = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&number)?;
        let (mut reads, mut bytes, mut spans) = (Vec::new(), 0, 0);
        while let Some((at, size)) = waiting.front() {
            let end = next_start(bytes).saturating_add(size.bytes);
            let fits = end <= SEGMENT_BYTES && spans + size.spans <= GATHER_SPANS_MAX;
            // One that does not fit at all goes by itself.
            if !fits && !reads.is_empty() {
                break;
            }
            reads.push(*at);
            (bytes, spans) = (end, spans + size.spans);
            waiting.pop_front();
        }
        if waiting.is_empty() {
            self.waiting.remove(&number);
        } else {
            self.turns.push_back(number);
        }
        self.under_way += 1;
        Some((number, reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Slot = Slot(3);

    fn batch(number: u64, reads: &[u16]) -> Option<Batch> {
        Some(Batch { source: NODE, number, reads: reads.to_vec() })
    }

    #[test]
    fn what_fits_a_segment_goes_together_and_gathers_take_turns() {
        let mut queues = Queues::default();
        let quarter = Size { bytes: SEGMENT_BYTES / 4, spans: 2 };
        for at in 0..9 {
            queues.push(NODE, (1, at), quarter);
        }
        queues.push(NODE, (2, 0), Size { bytes: 1, spans: 1 });
        assert_eq!(queues.next(), batch(1, &[0, 1, 2, 3]));
        assert_eq!(queues.next(), batch(2, &[0]));
        assert_eq!(queues.next(), batch(1, &[4, 5, 6, 7]));
        assert_eq!(queues.next(), batch(1, &[8]));
        assert_eq!(queues.next(), None);
        (0..4).for_each(|_| queues.end(NODE));
        assert!(queues.is_empty());
    }

    #[test]
    fn a_large_read_goes_alone_and_bytes_between_objects_count() {
        let mut queues = Queues::default();
        let size = |bytes| Size { bytes, spans: 1 };
        for (at, bytes) in [1, SEGMENT_BYTES - 64, SEGMENT_BYTES + 1, 1, SEGMENT_BYTES - 63, 1]
            .into_iter()
            .enumerate()
        {
            queues.push(NODE, (1, at as u16), size(bytes));
        }
        queues.push(NODE, (1, 6), Size { bytes: 3, spans: GATHER_SPANS_MAX });
        let mut next = || queues.next().map(|batch| batch.reads);
        for reads in [&[0, 1][..], &[2], &[3], &[4], &[5], &[6]] {
            assert_eq!(next().as_deref(), Some(reads));
        }
        assert_eq!(next(), None);
    }

    #[test]
    fn so_many_are_under_way_from_a_node() {
        let mut queues = Queues::default();
        for number in 0..GATHERS_PER_PEER_MAX as u64 + 2 {
            queues.push(NODE, (number, 0), Size { bytes: 1, spans: 1 });
            queues.push(Slot(4), (number, 1), Size { bytes: 1, spans: 1 });
        }
        let begun = std::iter::from_fn(|| queues.next()).count();
        assert_eq!(begun, 2 * GATHERS_PER_PEER_MAX);
        queues.forget(GATHERS_PER_PEER_MAX as u64);
        queues.end(NODE);
        assert_eq!(queues.next(), batch(GATHERS_PER_PEER_MAX as u64 + 1, &[0]));
        assert_eq!(queues.take(Slot(4)), [(GATHERS_PER_PEER_MAX as u64 + 1, 1)]);
        queues.end(Slot(4));
        assert_eq!(queues.next(), None);
    }
}
