//! Which bytes of something that is being filled were written.

use std::ops::Range;

/// Bytes from 0 up to an end, and which of them are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    total: u64,
    /// In order, none empty, none touching another.
    ranges: Vec<Range<u64>>,
}

impl Coverage {
    /// Nothing is there.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, ranges: Vec::new() }
    }

    /// In how many pieces the bytes are.
    pub(crate) fn pieces(&self) -> usize {
        self.ranges.len()
    }

    /// Whether all bytes are there.
    pub(crate) fn is_whole(&self) -> bool {
        self.total == 0 || self.ranges.first() == Some(&(0..self.total))
    }

    /// Adds bytes, those beyond the end left out.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let mut new = range.start..range.end.min(self.total);
        if new.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|known| known.end < new.start);
        let last = self.ranges.partition_point(|known| known.start <= new.end);
        if let Some(touched) = self.ranges.get(first..last).filter(|touched| !touched.is_empty()) {
            new.start = new.start.min(touched[0].start);
            new.end = new.end.max(touched[touched.len() - 1].end);
        }
        self.ranges.splice(first..last.max(first), [new]);
    }

    /// The missing parts of a range.
    pub(crate) fn holes(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let end = within.end.min(self.total);
        let mut at = within.start;
        let mut holes = Vec::new();
        let first = self.ranges.partition_point(|known| known.end <= at);
        for known in &self.ranges[first..] {
            if known.start >= end {
                break;
            }
            if at < known.start {
                holes.push(at..known.start);
            }
            at = known.end;
        }
        if at < end {
            holes.push(at..end);
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_list_of_bytes_knows(
            ranges in prop::collection::vec((0_u64..70, 0_u64..20), 0..30),
            asked in (0_u64..70, 0_u64..70),
        ) {
            let mut coverage = Coverage::new(64);
            let mut bytes = [false; 64];
            for (start, length) in ranges {
                coverage.add(start..start + length);
                (start..(start + length).min(64)).for_each(|at| bytes[at as usize] = true);
            }
            prop_assert_eq!(coverage.is_whole(), bytes.iter().all(|there| *there));
            let mut missing = [false; 64];
            for hole in coverage.holes(asked.0..asked.1) {
                prop_assert!(!hole.is_empty());
                hole.for_each(|at| missing[at as usize] = true);
            }
            for at in 0..64 {
                let within = (asked.0..asked.1).contains(&(at as u64));
                prop_assert_eq!(missing[at], within && !bytes[at]);
            }
            let joined = coverage.ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
            prop_assert!(joined, "{:?}", coverage);
        }
    }
}
