//! From the ranges that a program wants to the spans that are asked for, and back.

use std::ops::Range;

use plasmon_proto::limits::{OBJECT_ALIGN, PARTS_SPANS_MAX};
use plasmon_proto::parts::{Span, within};

/// Ranges with fewer bytes between them are read as one.
const GAP_BYTES_MAX: u64 = 8 * OBJECT_ALIGN;

/// The spans for some ranges: in order, without overlap, at multiples of the alignment, so that
/// what is aligned in the object is aligned where it comes to lie.
pub(super) fn spans_of(ranges: &[Range<u64>]) -> Vec<Span> {
    let aligned = |range: &Range<u64>| {
        let start = range.start / OBJECT_ALIGN * OBJECT_ALIGN;
        start..range.end.checked_next_multiple_of(OBJECT_ALIGN).unwrap_or(range.end)
    };
    let filled = ranges.iter().filter(|range| !range.is_empty());
    let mut sorted: Vec<Range<u64>> = filled.map(aligned).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut spans: Vec<Span> = Vec::new();
    for Range { start, end } in sorted {
        match spans.last_mut() {
            Some(last) if start <= last.end().saturating_add(GAP_BYTES_MAX) => {
                last.bytes = last.bytes.max(end - last.offset);
            }
            _ => spans.push(Span { offset: start, bytes: end - start }),
        }
    }
    spans
}

/// The spans of each request.
pub(super) fn requests_of(spans: &[Span]) -> impl Iterator<Item = &[Span]> {
    spans.chunks(PARTS_SPANS_MAX)
}

/// Where the bytes of an object lie in the local object with these spans.
#[derive(Debug)]
pub(super) struct Places {
    spans: Vec<Span>,
    /// Where each begins there.
    starts: Vec<u64>,
    bytes: u64,
}

impl Places {
    /// Of an object whose data ends there.
    pub(super) fn new(spans: &[Span], data_bytes: u64) -> Self {
        let spans = within(spans, data_bytes);
        let mut bytes = 0;
        let starts = spans.iter().map(|span| {
            bytes += span.bytes;
            bytes - span.bytes
        });
        let starts = starts.collect();
        Self { spans, starts, bytes }
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where a range lies, which is in one of the spans.
    pub(super) fn find(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let at = self.spans.partition_point(|span| span.offset <= range.start).checked_sub(1)?;
        let span = self.spans.get(at).filter(|span| range.end <= span.end())?;
        let start = self.starts.get(at)? + (range.start - span.offset);
        Some(start..start + (range.end - range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::parts::bytes_of;
    use plasmon_testkit::Random;

    #[test]
    fn every_byte_that_is_wanted_has_its_place() {
        let mut dice = Random::new(3);
        for _ in 0..300 {
            let length = 1 + dice.below(20_000);
            let ranges: Vec<Range<u64>> = (0..dice.below(40))
                .map(|_| {
                    let start = dice.below(length + 1);
                    start..start + dice.below((length - start + 1).min(900))
                })
                .collect();
            let spans = spans_of(&ranges);
            assert!(bytes_of(&spans).is_some(), "{spans:?}");
            let places = Places::new(&spans, length);
            let object: Vec<u64> = (0..length).collect();
            let packed: Vec<u64> = within(&spans, length)
                .iter()
                .flat_map(|span| object[span.offset as usize..span.end() as usize].to_vec())
                .collect();
            assert_eq!(packed.len() as u64, places.bytes());
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                let found = places.find(range).unwrap();
                assert_eq!(found.start % OBJECT_ALIGN, range.start % OBJECT_ALIGN);
                let found = &packed[found.start as usize..found.end as usize];
                assert_eq!(found, &object[range.start as usize..range.end as usize]);
            }
        }
    }

    #[test]
    fn ranges_at_the_end_of_all_numbers_do_not_overflow() {
        let spans = spans_of(&[u64::MAX - 5..u64::MAX, 0..1, 3..3]);
        assert_eq!(spans.len(), 2);
        assert_eq!(spans[1].end(), u64::MAX);
        assert!(Places::new(&spans, 100).find(&(50..70)).is_none());
        let many: Vec<_> = (0..10_000).map(|at| at * 10_000..at * 10_000 + 1).collect();
        let spans = spans_of(&many);
        assert_eq!(requests_of(&spans).map(<[_]>::len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    }
}
