//! The ranges that one client carves its objects from.

use std::collections::BTreeMap;

use plasmon_proto::extent::{ExtentId, Range};

/// Pieces that the leases of one client may fall into. A client carves from the front, several
/// threads at once, so pieces stay few unless a client tries to burden the daemon.
pub(crate) const LEASE_PIECES_MAX: usize = 1 << 16;

/// Why nothing was carved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseError {
    /// The range is not wholly leased to the client.
    NotLeased,
    /// The leases would fall into too many pieces.
    TooManyPieces,
}

/// The leases of one client, keyed by their end: carving from the front changes only the value.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    starts: BTreeMap<(ExtentId, u64), u64>,
    bytes: u64,
}

impl Leases {
    /// Bytes in all leases.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a range that overlaps no other. Neighbours become one: where leases meet is no business
    /// of who carves from them.
    pub(crate) fn add(&mut self, range: Range) {
        if range.bytes == 0 {
            return;
        }
        self.bytes += range.bytes;
        let (extent, end) = (range.extent, range.offset + range.bytes);
        let start = self.starts.remove(&(extent, range.offset)).unwrap_or(range.offset);
        let after = self.starts.range_mut((extent, end)..).next();
        match after {
            Some((key, after)) if key.0 == extent && *after == end => *after = start,
            _ => drop(self.starts.insert((extent, end), start)),
        }
    }

    /// Takes a range out, which must lie wholly in one lease.
    pub(crate) fn carve(&mut self, range: Range) -> Result<(), LeaseError> {
        let end = range.offset.checked_add(range.bytes).ok_or(LeaseError::NotLeased)?;
        let from = (range.extent, range.offset.saturating_add(1));
        let pieces = self.starts.len();
        let (key, start) = self.starts.range_mut(from..).next().ok_or(LeaseError::NotLeased)?;
        let (extent, lease_end) = *key;
        if extent != range.extent || *start > range.offset || lease_end < end || range.bytes == 0 {
            return Err(LeaseError::NotLeased);
        }
        let lease_start = *start;
        if lease_start < range.offset && lease_end > end && pieces >= LEASE_PIECES_MAX {
            return Err(LeaseError::TooManyPieces);
        }
        *start = end;
        if end == lease_end {
            self.starts.remove(&(extent, lease_end));
        }
        if lease_start < range.offset {
            self.starts.insert((extent, range.offset), lease_start);
        }
        self.bytes -= range.bytes;
        Ok(())
    }

    /// Takes out what of a range is leased. Looks at the pieces within the range and at no others.
    pub(crate) fn carve_within(&mut self, range: Range) -> Vec<Range> {
        let end = range.offset.saturating_add(range.bytes);
        // Keys are ends, so the first piece that reaches into the range is the first found.
        let from = (range.extent, range.offset.saturating_add(1));
        let within = self
            .starts
            .range(from..)
            .take_while(|((extent, _), start)| *extent == range.extent && **start < end);
        let common = |(key, start): (&(ExtentId, u64), &u64)| {
            let start = (*start).max(range.offset);
            Range { extent: range.extent, offset: start, bytes: key.1.min(end) - start }
        };
        let found: Vec<Range> = within.map(common).collect();
        found.into_iter().filter(|piece| self.carve(*piece).is_ok()).collect()
    }

    /// The shortest range of the extent that holds all leases in it; an empty one when there is
    /// none.
    pub(crate) fn hull(&self, extent: ExtentId) -> Range {
        let of_it = |(key, _): &(&(ExtentId, u64), &u64)| key.0 == extent;
        let first = self.starts.range((extent, 0)..).next().filter(of_it);
        let last = self.starts.range(..=(extent, u64::MAX)).next_back().filter(of_it);
        match (first, last) {
            (Some((_, offset)), Some(((_, end), _))) => {
                Range { extent, offset: *offset, bytes: end - offset }
            }
            _ => Range { extent, offset: 0, bytes: 0 },
        }
    }

    /// All ranges.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        self.starts.iter().map(|(&(extent, end), &start)| Range {
            extent,
            offset: start,
            bytes: end - start,
        })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Takes one range out.
    pub(crate) fn pop(&mut self) -> Option<Range> {
        let ((extent, end), offset) = self.starts.pop_last()?;
        self.bytes -= end - offset;
        Some(Range { extent, offset, bytes: end - offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, bytes: u64) -> Range {
        Range { extent: ExtentId(3), offset, bytes }
    }

    fn leased(leases: &Leases) -> Vec<(u64, u64)> {
        leases.ranges().map(|range| (range.offset, range.bytes)).collect()
    }

    #[test]
    fn neighbours_become_one_and_holes_part_them() {
        let mut leases = Leases::default();
        for (offset, bytes) in [(0, 64), (256, 64), (64, 64), (192, 64), (128, 64)] {
            leases.add(range(offset, bytes));
        }
        assert_eq!(leased(&leases), [(0, 320)]);
        assert_eq!(leases.carve(range(64, 128)), Ok(()));
        assert_eq!(leased(&leases), [(0, 64), (192, 128)]);
        for (offset, bytes) in [(0, 128), (64, 64), (128, 128), (256, 128), (0, 0), (320, 64)] {
            assert_eq!(leases.carve(range(offset, bytes)), Err(LeaseError::NotLeased));
        }
        assert_eq!(leases.carve(Range { extent: ExtentId(4), ..range(0, 64) }).ok(), None);
        assert_eq!(leases.carve(range(u64::MAX - 63, 64)).ok(), None);
        assert_eq!(leases.carve_within(range(32, 192)), [range(32, 32), range(192, 32)]);
        assert_eq!((leased(&leases), leases.bytes()), (vec![(0, 32), (224, 96)], 128));
        leases.add(Range { extent: ExtentId(2), ..range(0, 224) });
        assert_eq!(leases.hull(ExtentId(3)), range(0, 320));
        assert_eq!(leases.hull(ExtentId(2)), Range { extent: ExtentId(2), ..range(0, 224) });
        assert_eq!(leases.hull(ExtentId(4)).bytes, 0);
        let popped = std::iter::from_fn(|| leases.pop()).count();
        assert_eq!((popped, leases.bytes(), leases.is_empty()), (3, 0, true));
    }

    /// A client that came back named its ranges one by one, and each was looked for among all
    /// pieces: a hello of 60 KB kept the daemon for minutes.
    #[test]
    fn many_ranges_find_their_pieces_without_a_walk_over_all() {
        let mut leases = Leases::default();
        let pieces = LEASE_PIECES_MAX as u64;
        (0..pieces).for_each(|piece| leases.add(range(2 * piece * 64, 64)));
        // With the walk this was four thousand million steps.
        for piece in 0..pieces {
            let found = leases.carve_within(range(2 * piece * 64, 128));
            assert_eq!(found, [range(2 * piece * 64, 64)]);
        }
        assert_eq!((leases.bytes(), leases.pop()), (0, None));
        leases.add(range(0, 64));
        assert_eq!(leases.carve_within(range(0, 0)), []);
        assert_eq!(leases.carve_within(range(u64::MAX - 63, 64)), []);
        assert_eq!(leases.carve_within(Range { extent: ExtentId(2), ..range(0, 64) }), []);
    }

    #[test]
    fn pieces_at_and_past_their_limit() {
        let mut leases = Leases::default();
        leases.add(range(0, (2 * LEASE_PIECES_MAX as u64 + 3) * 64));
        for piece in 0..LEASE_PIECES_MAX as u64 - 1 {
            assert_eq!(leases.carve(range((2 * piece + 1) * 64, 64)), Ok(()), "{piece}");
        }
        let next = (2 * LEASE_PIECES_MAX as u64 - 1) * 64;
        assert_eq!(leases.carve(range(next, 64)), Err(LeaseError::TooManyPieces));
        assert_eq!(leases.carve(range(0, 64)), Ok(()));
        assert_eq!(leases.carve(range(next, 64)), Ok(()));
    }
}
