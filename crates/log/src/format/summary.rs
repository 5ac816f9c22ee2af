//! The summary of a segment: its records once more, together, so that opening a log need not look
//! for them.

use super::fields::Fields;
use super::{FramePlace, HEAD_BYTES, Record};
use crate::device::BLOCK_BYTES;

const MAGIC: [u8; 8] = *b"PLSMLOGS";

/// A record of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// Where its frame begins in the segment.
    pub frame: u64,
    /// The record, without its table of chunks.
    pub record: Record,
}

/// Appends a row to the rows of a summary.
pub fn encode_row(frame: u64, record: &Record, rows: &mut Vec<u8>) {
    rows.extend_from_slice(&frame.to_le_bytes());
    match record {
        Record::Put(put) if !put.chunks.is_empty() => {
            Record::Put(super::PutRecord { chunks: Vec::new(), ..put.clone() }).encode(rows);
        }
        record => record.encode(rows),
    }
}

/// The bytes of a summary with so many bytes of rows.
pub fn summary_bytes(rows_bytes: u64) -> u64 {
    (HEAD_BYTES as u64 + rows_bytes).next_multiple_of(BLOCK_BYTES)
}

/// Writes a summary, which has [`summary_bytes`], for `place` in its segment.
pub fn seal_summary(place: FramePlace, records: u32, rows: &[u8], into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(HEAD_BYTES);
    head.fill(0);
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&(rows.len() as u64).to_le_bytes());
    head[16..20].copy_from_slice(&records.to_le_bytes());
    head[20..24].copy_from_slice(&crc32c::crc32c(rows).to_le_bytes());
    let checksum = place.checksum(&head[..60]);
    head[60..].copy_from_slice(&checksum.to_le_bytes());
    let (begin, end) = rest.split_at_mut(rows.len());
    begin.copy_from_slice(rows);
    end.fill(0);
}

/// Reads a summary; `None` where the bytes are not the summary for this place.
pub fn decode_summary(place: FramePlace, bytes: &[u8]) -> Option<Vec<SummaryRow>> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let mut fields = Fields(head);
    let magic = fields.bytes(8)?;
    let rows_bytes = usize::try_from(fields.u64()?).ok()?;
    let (records, rows_crc) = (fields.u32()?, fields.u32()?);
    let checksum = Fields(&head[60..]).u32()?;
    if magic != MAGIC || checksum != place.checksum(&head[..60]) {
        return None;
    }
    let rows = rest.get(..rows_bytes)?;
    if crc32c::crc32c(rows) != rows_crc {
        return None;
    }
    let mut fields = Fields(rows);
    let row = |fields: &mut Fields<'_>| {
        let frame = fields.u64()?;
        Some(SummaryRow { frame, record: Record::take(fields)? })
    };
    let rows: Option<Vec<_>> = (0..records).map(|_| row(&mut fields)).collect();
    rows.filter(|_| fields.0.is_empty())
}
