//! The segments of a transfer that is served, one after the other.

use std::collections::BTreeSet;

use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};

use super::job::Serve;

/// How far the serving of a transfer is.
#[derive(Default)]
pub(super) struct Sending {
    /// The next segment, in the first of the ranges that are left.
    next: u32,
    range: usize,
    /// Segments that are not to be sent.
    without: BTreeSet<u32>,
}

impl Sending {
    /// From the beginning, without these segments.
    pub(super) fn without(segments: BTreeSet<u32>) -> Self {
        Self { without: segments, ..Self::default() }
    }

    /// The next segment, which the sending goes past; `None` after the last one. Its content is in
    /// one piece, or gathered.
    pub(super) fn next_segment(
        &mut self,
        serve: &Serve,
        gathered: &mut Vec<u8>,
    ) -> Option<Segment> {
        loop {
            let range = serve.ranges.get(self.range)?;
            let number = range.first.checked_add(self.next).filter(|_| self.next < range.count);
            let source = &serve.source;
            let place = |number| {
                let offset = u64::from(number) * u64::from(SEGMENT_BYTES_MAX);
                let left = source.bytes().checked_sub(offset)?.min(u64::from(SEGMENT_BYTES_MAX));
                (left > 0).then_some((number, offset, left as usize))
            };
            // What a peer asks for beyond the end is not there, nor is what follows in that range.
            let Some((number, offset, length)) = number.and_then(place) else {
                (self.range, self.next) = (self.range + 1, 0);
                continue;
            };
            if self.without.contains(&number) {
                self.next += 1;
                continue;
            }
            let mut content = source.part(offset, length);
            if content.len() != length && source.gather(offset, length, gathered) {
                content = gathered;
            }
            if content.len() != length {
                (self.range, self.next) = (self.range + 1, 0);
                continue;
            }
            self.next += 1;
            let checksum = crc32c::crc32c(content);
            let (transfer, bytes) = (serve.transfer.0, content.len() as u32);
            return Some(Segment { transfer, number, bytes, offset, checksum });
        }
    }
}
