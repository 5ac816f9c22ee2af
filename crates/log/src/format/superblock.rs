//! The superblock: which segments there are.

use super::LogId;
use super::fields::Fields;
use crate::device::BLOCK_BYTES;

/// The version of the format.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"PLSMLOG\0";
const FIXED_BYTES: usize = 64;
const ROW_BYTES: usize = 40;
/// The end of a segment that is still written.
const OPEN: u64 = u64::MAX;

/// What a superblock says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Where its frames end and its summary begins; `None` while it is written.
    pub end: Option<u64>,
    /// Bytes of its summary.
    pub summary_bytes: u64,
    /// Records in it, while it is written 0.
    pub records: u32,
}

/// What a superblock says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// The log.
    pub log: LogId,
    /// The larger one is the newer one.
    pub generation: u64,
    /// The number of the next segment; none is used twice.
    pub next_segment: u64,
    /// No record that was written before has this number or a larger one, except for those in the
    /// segment that is still written.
    pub next_lsn: u64,
    /// The segments, in the order of their numbers.
    pub segments: Vec<SegmentRow>,
}

/// Why bytes are no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSuperblock {
    /// There are none: it was never written.
    Absent,
    /// They are damaged.
    Damaged,
    /// They are of another version.
    Version(u32),
}

impl Superblock {
    /// Its bytes, a multiple of [`BLOCK_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_BYTES + self.segments.len() * ROW_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.segments.len() as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log.0);
        bytes[32..40].copy_from_slice(&self.generation.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.next_segment.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.next_lsn.to_le_bytes());
        let rows = bytes[FIXED_BYTES..].chunks_exact_mut(ROW_BYTES);
        for (row, segment) in rows.zip(&self.segments) {
            row[..8].copy_from_slice(&segment.number.to_le_bytes());
            row[8..16].copy_from_slice(&segment.bytes.to_le_bytes());
            row[16..24].copy_from_slice(&segment.end.unwrap_or(OPEN).to_le_bytes());
            row[24..32].copy_from_slice(&segment.summary_bytes.to_le_bytes());
            row[32..36].copy_from_slice(&segment.records.to_le_bytes());
        }
        let checksum = checksum(&bytes);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        bytes
    }

    /// Reads a superblock.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadSuperblock> {
        if bytes.is_empty() {
            return Err(BadSuperblock::Absent);
        }
        let whole = Self::decode_fixed(bytes).ok_or(BadSuperblock::Damaged)?;
        let (version, superblock) = whole;
        if version != VERSION {
            return Err(BadSuperblock::Version(version));
        }
        let ascending = superblock.segments.is_sorted_by(|a, b| a.number < b.number);
        let known = superblock.segments.last().is_none_or(|s| s.number < superblock.next_segment);
        let one_open = superblock.segments.iter().filter(|s| s.end.is_none()).count() <= 1;
        let sane = superblock.segments.iter().all(SegmentRow::is_sane);
        let valid = ascending && known && one_open && sane;
        if valid { Ok(superblock) } else { Err(BadSuperblock::Damaged) }
    }

    fn decode_fixed(bytes: &[u8]) -> Option<(u32, Self)> {
        let mut fields = Fields(bytes);
        let magic = fields.bytes(8)?;
        let (version, count) = (fields.u32()?, fields.u32()? as usize);
        let mut superblock = Self {
            log: LogId(fields.array()?),
            generation: fields.u64()?,
            next_segment: fields.u64()?,
            next_lsn: fields.u64()?,
            segments: Vec::new(),
        };
        fields.u32()?;
        let found = fields.u32()?;
        let used = FIXED_BYTES.checked_add(count.checked_mul(ROW_BYTES)?)?;
        if magic != MAGIC || found != checksum(bytes.get(..used)?) {
            return None;
        }
        for _ in 0..count {
            let mut row = Fields(fields.bytes(ROW_BYTES)?);
            let (number, bytes, end) = (row.u64()?, row.u64()?, row.u64()?);
            let (end, summary_bytes) = ((end != OPEN).then_some(end), row.u64()?);
            let records = row.u32()?;
            superblock.segments.push(SegmentRow { number, bytes, end, summary_bytes, records });
        }
        Some((version, superblock))
    }
}

impl SegmentRow {
    fn is_sane(&self) -> bool {
        let whole = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
        let used = self.end.unwrap_or(0).checked_add(self.summary_bytes);
        let fits = used.is_some_and(|used| used <= self.bytes);
        fits && whole(self.bytes) && whole(self.end.unwrap_or(0)) && whole(self.summary_bytes)
    }
}

/// Of all bytes but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..60]), &bytes[FIXED_BYTES..])
}
