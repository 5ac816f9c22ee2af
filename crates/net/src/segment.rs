//! Segments of a bulk lane (`docs/formats/pool-frames.md`): the unit in which content moves.
//!
//! A segment is a header of [`HEADER_BYTES`] and at most [`SEGMENT_BYTES_MAX`] bytes of content.
//! The header has a checksum of its own: where only the content is damaged, the next segment is
//! still found, and one bad page of a source does not end the lane.

/// The first bytes of every segment.
pub const MAGIC: [u8; 4] = *b"PLSG";

/// Bytes before the content.
pub const HEADER_BYTES: usize = 40;

/// Bytes of the header that its checksum covers.
const CHECKED_BYTES: usize = 36;

/// Bytes of the content of a segment: a retry repeats so much, and providers of remote memory take
/// at least this much in one operation.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The transfer that it belongs to; its number was agreed on a control lane.
    pub transfer: u64,
    /// Its number in the transfer.
    pub number: u32,
    /// How many bytes of content it has, from 1 to [`SEGMENT_BYTES_MAX`].
    pub bytes: u32,
    /// Where they belong in the memory of the transfer.
    pub offset: u64,
    /// Their CRC32C.
    pub checksum: u32,
}

/// Why bytes are not a segment that can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSegment {
    /// Not this protocol.
    #[error("not a segment of a Plasmon pool")]
    Magic,
    /// The header is damaged.
    #[error("the header of a segment is damaged")]
    HeaderChecksum,
    /// Flags that this version does not know.
    #[error("unknown flags {found:#x} in a segment")]
    Flags {
        /// The flags found.
        found: u32,
    },
    /// No bytes, or more than a segment may have.
    #[error("a segment of {found} bytes instead of 1 to {SEGMENT_BYTES_MAX}")]
    Length {
        /// The bytes found.
        found: u32,
    },
    /// No transfer has this number.
    #[error("a segment of transfer {transfer}, which is unknown")]
    Transfer {
        /// The number found.
        transfer: u64,
    },
    /// The segment would lie beyond the memory of its transfer.
    #[error("a segment of {bytes} bytes at {offset} of the {memory_bytes} bytes of its transfer")]
    Bounds {
        /// Where it would begin.
        offset: u64,
        /// How long it is.
        bytes: u32,
        /// The memory of the transfer.
        memory_bytes: usize,
    },
}

impl Segment {
    /// Whether its length keeps the limit.
    pub fn check(&self) -> Result<(), BadSegment> {
        let fits = (1..=SEGMENT_BYTES_MAX).contains(&self.bytes);
        if fits { Ok(()) } else { Err(BadSegment::Length { found: self.bytes }) }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut raw = [0; HEADER_BYTES];
        raw[0..4].copy_from_slice(&MAGIC);
        raw[8..16].copy_from_slice(&self.transfer.to_le_bytes());
        raw[16..20].copy_from_slice(&self.number.to_le_bytes());
        raw[20..24].copy_from_slice(&self.bytes.to_le_bytes());
        raw[24..32].copy_from_slice(&self.offset.to_le_bytes());
        raw[32..36].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32c::crc32c(&raw[..CHECKED_BYTES]);
        raw[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        raw
    }

    /// Reads a header.
    pub fn decode(raw: &[u8; HEADER_BYTES]) -> Result<Self, BadSegment> {
        let words: [[u8; 4]; HEADER_BYTES / 4] =
            std::array::from_fn(|at| std::array::from_fn(|byte| raw[at * 4 + byte]));
        let [magic, flags, t0, t1, number, bytes, o0, o1, checksum, header_checksum] = words;
        if magic != MAGIC {
            return Err(BadSegment::Magic);
        }
        if crc32c::crc32c(&raw[..CHECKED_BYTES]) != u32::from_le_bytes(header_checksum) {
            return Err(BadSegment::HeaderChecksum);
        }
        let flags = u32::from_le_bytes(flags);
        if flags != 0 {
            return Err(BadSegment::Flags { found: flags });
        }
        let long = |low, high| {
            u64::from(u32::from_le_bytes(low)) | u64::from(u32::from_le_bytes(high)) << 32
        };
        let segment = Self {
            transfer: long(t0, t1),
            number: u32::from_le_bytes(number),
            bytes: u32::from_le_bytes(bytes),
            offset: long(o0, o1),
            checksum: u32::from_le_bytes(checksum),
        };
        segment.check().map(|()| segment)
    }

    /// The segment's part of the memory of its transfer.
    pub fn part_of<'a>(&self, memory: &'a mut [u8]) -> Result<&'a mut [u8], BadSegment> {
        let Self { offset, bytes, .. } = *self;
        let memory_bytes = memory.len();
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(bytes as usize)?));
        let part = range.and_then(|range| memory.get_mut(range));
        part.ok_or(BadSegment::Bounds { offset, bytes, memory_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Segment = Segment {
        transfer: 0x0102_0304_0506_0708,
        number: 9,
        bytes: 3,
        offset: 0x0a00_0000_0000_000b,
        checksum: 0x364b_3fb7,
    };

    /// The header with one byte changed, and its checksum made right again.
    fn changed(at: usize, byte: u8) -> [u8; HEADER_BYTES] {
        let mut raw = SEGMENT.encode();
        raw[at] = byte;
        let checksum = crc32c::crc32c(&raw[..CHECKED_BYTES]);
        raw[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        raw
    }

    #[test]
    fn bytes_are_those_of_the_format_page() {
        let golden = [
            0x50, 0x4c, 0x53, 0x47, // magic PLSG
            0, 0, 0, 0, // flags
            8, 7, 6, 5, 4, 3, 2, 1, // transfer
            9, 0, 0, 0, // number
            3, 0, 0, 0, // bytes
            0x0b, 0, 0, 0, 0, 0, 0, 0x0a, // offset
            0xb7, 0x3f, 0x4b, 0x36, // checksum of the content
            0x7b, 0xe0, 0xbe, 0x0a, // checksum of the header
        ];
        assert_eq!(SEGMENT.encode(), golden);
        assert_eq!(Segment::decode(&golden), Ok(SEGMENT));
    }

    #[test]
    fn every_damage_is_named() {
        assert_eq!(Segment::decode(&changed(0, 0)), Err(BadSegment::Magic));
        assert_eq!(Segment::decode(&changed(5, 1)), Err(BadSegment::Flags { found: 256 }));
        assert_eq!(Segment::decode(&changed(20, 0)), Err(BadSegment::Length { found: 0 }));
        for at in 4..HEADER_BYTES {
            let mut raw = SEGMENT.encode();
            raw[at] ^= 0x10;
            assert_eq!(Segment::decode(&raw), Err(BadSegment::HeaderChecksum), "byte {at}");
        }
    }

    #[test]
    fn lengths_are_taken_at_the_limit_and_refused_past_it() {
        for (bytes, taken) in
            [(0, false), (1, true), (SEGMENT_BYTES_MAX, true), (SEGMENT_BYTES_MAX + 1, false)]
        {
            let segment = Segment { bytes, ..SEGMENT };
            let expected =
                if taken { Ok(segment) } else { Err(BadSegment::Length { found: bytes }) };
            assert_eq!(Segment::decode(&segment.encode()), expected);
        }
    }

    #[test]
    fn a_segment_lies_within_the_memory_of_its_transfer() {
        let mut memory = [0; 10];
        for (offset, bytes, fits) in [
            (0, 10, true),
            (7, 3, true),
            (8, 3, false),
            (10, 1, false),
            (u64::MAX, 1, false),
            (u64::MAX - 2, 3, false),
        ] {
            let segment = Segment { offset, bytes, ..SEGMENT };
            let found = segment.part_of(&mut memory).map(|part| part.len());
            let bad = BadSegment::Bounds { offset, bytes, memory_bytes: 10 };
            assert_eq!(found, if fits { Ok(bytes as usize) } else { Err(bad) });
        }
    }
}
