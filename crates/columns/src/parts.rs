//! The bytes of an Arrow IPC stream, wherever its parts lie.
//!
//! Every number in a stream is untrusted. What a reader makes of it in this process's
//! own memory (gathered parts, private copies, decompressed buffers) is counted against the bytes
//! that are really there, so that no number alone makes a reader allocate.

use std::cell::Cell;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::ArrowError;

const CONTINUATION: u32 = u32::MAX;

/// Zeroes that a composite leaves out at most in one piece: padding, and the offsets of nothing.
pub(crate) const GAP_BYTES_MAX: u64 = 4096;

/// The reader's private memory for a stream, for each of its bytes: LZ4 makes at most
/// 255 bytes of one.
const OWN_BYTES_PER_BYTE_MAX: u64 = 256;

/// The reader's private memory for any stream.
const OWN_BYTES_MIN: u64 = 64 << 20;

/// A stream whose parts lie anywhere; between them it has zeroes.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Each with its place in the stream, in order.
    parts: Vec<(u64, Buffer)>,
    bytes: u64,
    /// Bytes that may still be made of it in memory of this process.
    own_bytes_left: Cell<u64>,
    own_bytes_max: u64,
}

impl Stream {
    /// A stream in one part.
    pub(crate) fn whole(bytes: Buffer) -> Self {
        let length = bytes.len() as u64;
        Self::new(vec![(0, bytes)], length)
    }

    /// A stream of parts, which are in order and do not overlap.
    pub(crate) fn new(parts: Vec<(u64, Buffer)>, bytes: u64) -> Self {
        let held: u64 = parts.iter().map(|(_, part)| part.len() as u64).sum();
        let own_bytes_max = held.saturating_mul(OWN_BYTES_PER_BYTE_MAX).max(OWN_BYTES_MIN);
        Self { parts, bytes, own_bytes_left: Cell::new(own_bytes_max), own_bytes_max }
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The limit of memory for it.
    pub(crate) fn own_bytes_max(&self) -> u64 {
        self.own_bytes_max
    }

    /// Counts bytes that are about to be allocated.
    pub(crate) fn count_own(&self, bytes: usize) -> Result<(), ArrowError> {
        let left = self.own_bytes_left.get().checked_sub(bytes as u64);
        let left = left.ok_or_else(|| {
            let text = format!("the stream claims {bytes} bytes more than it can hold");
            ArrowError::IpcError(text)
        })?;
        self.own_bytes_left.set(left);
        Ok(())
    }

    /// A copy that no other process can change, aligned for every type.
    pub(crate) fn own(&self, bytes: &Buffer) -> Result<Buffer, ArrowError> {
        self.count_own(bytes.len())?;
        let mut copy = MutableBuffer::new(bytes.len());
        copy.extend_from_slice(bytes.as_slice());
        Ok(copy.into())
    }

    /// Bytes of the stream: in place when they lie in one part, gathered when they do not.
    pub(crate) fn slice(&self, at: u64, bytes: u64) -> Result<Buffer, ArrowError> {
        let end = at.checked_add(bytes).filter(|end| *end <= self.bytes);
        let end = end.ok_or_else(cut_short)?;
        let first = self.parts.partition_point(|(start, part)| start + part.len() as u64 <= at);
        let length = usize::try_from(bytes).map_err(|_| cut_short())?;
        if let Some((start, part)) = self.parts.get(first)
            && *start <= at
            && end <= start + part.len() as u64
        {
            return Ok(part.slice_with_length((at - start) as usize, length));
        }
        let rest = &self.parts[first..];
        let inside = rest.iter().take_while(|(start, _)| *start < end);
        let cut = |start: u64, part: &Buffer| (at.max(start), end.min(start + part.len() as u64));
        let held = inside.clone().map(|(start, part)| cut(*start, part));
        let held: u64 = held.map(|(from, until)| until - from).sum();
        if bytes - held > GAP_BYTES_MAX {
            // No writer leaves out so much; a hostile stream could ask for any amount of zeroes.
            return Err(cut_short());
        }
        self.count_own(length)?;
        let mut gathered = MutableBuffer::from_len_zeroed(length);
        for (start, part) in inside {
            let (from, until) = cut(*start, part);
            let (into, out, count) = (from - at, from - start, (until - from) as usize);
            gathered[into as usize..][..count].copy_from_slice(&part[out as usize..][..count]);
        }
        Ok(gathered.into())
    }

    /// The header of the message at `at` and where its body starts; `None` at the end.
    pub(crate) fn header(&self, at: u64) -> Result<Option<(Buffer, u64)>, ArrowError> {
        if at == self.bytes {
            return Ok(None);
        }
        let word = |at: u64| -> Result<u32, ArrowError> {
            let bytes = self.slice(at, 4)?;
            Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let (length, start) = match word(at)? {
            CONTINUATION => (word(at + 4)?, at + 8),
            // Writers before Arrow 0.15 left the continuation mark out.
            length => (length, at + 4),
        };
        if length == 0 {
            return Ok(None);
        }
        Ok(Some((self.slice(start, u64::from(length))?, start + u64::from(length))))
    }
}

pub(crate) fn cut_short() -> ArrowError {
    ArrowError::IpcError("the stream is cut short".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes 0..10 at 0, and 100 bytes at 10 + `gap`.
    fn stream(gap: u64) -> Stream {
        let first: Vec<u8> = (0..10).collect();
        let parts =
            vec![(0, Buffer::from_vec(first)), (10 + gap, Buffer::from_vec(vec![7_u8; 100]))];
        Stream::new(parts, 110 + gap)
    }

    #[test]
    fn parts_are_gathered_with_the_zeroes_between_them() {
        let found = stream(2).slice(8, 6).unwrap();
        assert_eq!(found.as_slice(), [8, 9, 0, 0, 7, 7]);
        assert!(stream(2).slice(8, 105).is_err(), "longer than the stream");
        assert!(stream(2).slice(u64::MAX, 2).is_err());
    }

    /// One byte of a part was enough to have any amount of zeroes gathered with it.
    #[test]
    fn gaps_are_bounded_also_beside_bytes_that_are_there() {
        let gap = GAP_BYTES_MAX;
        assert_eq!(stream(gap).slice(5, gap + 10).unwrap().len() as u64, gap + 10);
        assert!(stream(gap + 1).slice(5, gap + 11).is_err());
        assert!(stream(1 << 50).slice(5, 1 << 50).is_err());
    }

    #[test]
    fn what_a_reader_makes_of_a_stream_is_bounded_by_its_bytes() {
        let small = stream(0);
        small.count_own(OWN_BYTES_MIN as usize).unwrap();
        assert!(small.count_own(1).is_err(), "the bound is for all of it together");
        let held = 1 << 20;
        let larger = Stream::whole(Buffer::from_vec(vec![0_u8; held]));
        larger.count_own(held * OWN_BYTES_PER_BYTE_MAX as usize).unwrap();
        assert!(larger.own(&Buffer::from_vec(vec![0_u8])).is_err());
    }
}
