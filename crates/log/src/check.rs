//! Checks of one record: its payload against its checksums, and other bytes against them.

use crate::buffer::AlignedBuffer;
use crate::device::Device;
use crate::engine::Engine;
use crate::error::LogError;
use crate::format::{CHUNK_BYTES, PutRecord, chunk_count};
use crate::frame_reader::{FrameReader, read_chunk};
use crate::index::RecordPlace;
use crate::payload::Payload;

/// Bytes that one piece of a check reads.
pub(crate) const PIECE_BYTES: u64 = 4 * CHUNK_BYTES;

/// The CRC32C of bytes that follow others with this one.
pub fn append_checksum(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The checksums of a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Checksums<'a> {
    /// Of the only chunk.
    One(u32),
    /// The record with the table of them.
    Table(&'a PutRecord),
}

impl Checksums<'_> {
    fn of_chunk(self, index: u64) -> Option<u32> {
        match self {
            Self::One(crc) => (index == 0).then_some(crc),
            Self::Table(record) => record.chunk_crc(index),
        }
    }
}

/// Where a check goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All bytes before this are right.
    Until(u64),
    /// A chunk does not match its checksum.
    Damaged,
}

/// Reads some chunks of a payload, of which the first begins at `from`. `take` gets what is right.
pub(crate) fn check_piece(
    engine: &mut Engine,
    place: &RecordPlace,
    checksums: &Checksums<'_>,
    from: u64,
    take: &mut dyn FnMut(&[u8]),
) -> Result<Piece, LogError> {
    let log = engine.table.log;
    let device = &mut *engine.table.device;
    let mut reader = FrameReader::new(device, log, place.segment, u64::MAX);
    let mut buffer = AlignedBuffer::default();
    let end = place.bytes.min(from.saturating_add(PIECE_BYTES));
    let mut at = from;
    while at < end {
        let bytes = CHUNK_BYTES.min(end - at);
        let chunk = read_chunk(&mut reader, place.payload + at, bytes, &mut buffer)?;
        if checksums.of_chunk(at / CHUNK_BYTES) != Some(crc32c::crc32c(chunk)) {
            return Ok(Piece::Damaged);
        }
        take(chunk);
        at += bytes;
    }
    Ok(Piece::Until(at))
}

/// Whether other bytes are those that a record was made of. It says so without being read: the
/// index has its checksum.
pub(crate) fn matches(
    device: &mut dyn Device,
    place: &RecordPlace,
    payload: &mut Payload<'_>,
) -> Result<bool, LogError> {
    let count = chunk_count(place.bytes);
    let mut chunks = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut buffer = vec![0; CHUNK_BYTES.min(place.bytes) as usize];
    for index in 0..count {
        let at = index * CHUNK_BYTES;
        let chunk = &mut buffer[..CHUNK_BYTES.min(place.bytes - at) as usize];
        payload.fill(device, at, chunk)?;
        chunks.push(crc32c::crc32c(chunk));
    }
    let found = match chunks.as_slice() {
        [] => 0,
        [crc] => *crc,
        table => PutRecord::table_crc(table),
    };
    Ok(found == place.crc)
}
