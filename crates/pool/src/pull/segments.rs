//! Which segments of a transfer are missing.

use crate::message::SegmentRange;

/// Missing segments, one bit for each.
#[derive(Debug)]
pub(super) struct Segments {
    words: Vec<u64>,
    missing: u32,
    /// The end of what was last asked for, when there was more.
    page_end: Option<u32>,
}

impl Segments {
    pub(super) fn all(count: u32) -> Self {
        let words = count.div_ceil(64) as usize;
        let mut words = vec![u64::MAX; words];
        if let Some(last) = words.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        Self { words, missing: count, page_end: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.missing == 0
    }

    fn has(&self, segment: u32) -> bool {
        self.words.get(segment as usize / 64).is_some_and(|word| word >> (segment % 64) & 1 == 1)
    }

    pub(super) fn remove(&mut self, segment: u32) {
        if self.has(segment) {
            self.words[segment as usize / 64] &= !(1 << (segment % 64));
            self.missing -= 1;
        }
    }

    /// The first missing segments, in at most so many ranges.
    pub(super) fn ranges(&mut self, most: usize) -> Vec<SegmentRange> {
        let mut ranges: Vec<SegmentRange> = Vec::new();
        let end = self.words.len() as u32 * 64;
        let (mut end_of_page, mut is_whole) = (0, true);
        for segment in (0..end).filter(|segment| self.has(*segment)) {
            let is_full = ranges.len() == most;
            match ranges.last_mut() {
                Some(last) if last.first + last.count == segment => last.count += 1,
                _ if is_full => {
                    is_whole = false;
                    break;
                }
                _ => ranges.push(SegmentRange { first: segment, count: 1 }),
            }
            end_of_page = segment + 1;
        }
        self.page_end = (!is_whole).then_some(end_of_page);
        ranges
    }

    /// Whether this was the last segment that was asked for, and there are more.
    pub(super) fn is_next_page(&self, segment: u32) -> bool {
        self.page_end == Some(segment + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> SegmentRange {
        SegmentRange { first, count }
    }

    #[test]
    fn missing_segments_are_named_in_ranges() {
        let mut segments = Segments::all(130);
        assert_eq!(segments.ranges(9), [range(0, 130)]);
        segments.remove(0);
        segments.remove(64);
        segments.remove(64);
        segments.remove(130);
        assert_eq!(segments.ranges(9), [range(1, 63), range(65, 65)]);
        assert_eq!(segments.ranges(1), [range(1, 63)]);
        assert!(segments.is_next_page(63) && !segments.is_next_page(62));
        for segment in 0..130 {
            segments.remove(segment);
        }
        assert!(segments.is_empty());
        assert_eq!(Segments::all(64).ranges(1), [range(0, 64)]);
    }
}
