//! Frames of one object, whose payload is not gathered with others.
//!
//! ```text
//! whole      payload -> buffer, between heads and records -> one write
//! pieces     payload -> buffer -> a write for each MiB, and one for the front
//! in place   payload -> the segment, with its checksum in the same pass; then back and front
//! ```
//!
//! So a payload is copied once before the device has it; in place not at all if it is in memory.

use plasmon_shm::checksum;

use crate::Lsn;
use crate::buffer::AlignedBuffer;
use crate::device::BLOCK_BYTES;
use crate::error::LogError;
use crate::format::{
    CHUNK_BYTES, FrameCopy, FramePlace, HEAD_BYTES, LogId, PAYLOAD_ALIGN, PutRecord, Record,
    chunk_count, frame_bytes,
};
use crate::frame_builder::{Described, FinishedFrame, head_of};
use crate::payload::Payload;
use crate::segment_table::SegmentTable;

/// How a frame is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once, from a buffer.
    Whole,
    /// Piece by piece, from a buffer.
    Pieces,
    /// Past every buffer of the device.
    InPlace,
}

/// A frame to write.
pub(crate) struct SingleFrame<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) object: &'a Described,
    pub(crate) batch: (u64, u32),
    pub(crate) segment: u64,
    /// Where in the segment.
    pub(crate) offset: u64,
    pub(crate) way: Way,
}

/// Where the payload of an object begins. In pieces it is written as it is, from a block on.
fn payload_start(object: &Described, way: Way) -> u64 {
    let align = if way == Way::Pieces { BLOCK_BYTES } else { PAYLOAD_ALIGN };
    (HEAD_BYTES as u64 + object.record_bytes()).next_multiple_of(align)
}

/// Bytes of the frame of an object.
pub(crate) fn single_bytes(object: &Described, way: Way) -> u64 {
    frame_bytes(payload_start(object, way), object.bytes, object.record_bytes())
}

impl SingleFrame<'_> {
    /// Writes the frame. All of it is durable after the next sync.
    pub(crate) fn write(
        &self,
        table: &mut SegmentTable,
        buffer: &mut AlignedBuffer,
        payload: &mut Payload<'_>,
    ) -> Result<FinishedFrame, LogError> {
        let record = match self.way {
            Way::Whole => self.write_whole(table, buffer, payload)?,
            Way::Pieces => self.write_pieces(table, buffer, payload)?,
            Way::InPlace => self.write_in_place(table, buffer, payload)?,
        };
        let bytes = single_bytes(self.object, self.way);
        Ok(FinishedFrame { bytes, records: vec![Record::Put(record)] })
    }

    fn write_whole(
        &self,
        table: &mut SegmentTable,
        buffer: &mut AlignedBuffer,
        payload: &mut Payload<'_>,
    ) -> Result<PutRecord, LogError> {
        let start = payload_start(self.object, self.way) as usize;
        let end = start + self.object.bytes as usize;
        buffer.set_length(single_bytes(self.object, self.way) as usize);
        let mut chunks = Vec::new();
        for (index, chunk) in buffer[start..end].chunks_mut(CHUNK_BYTES as usize).enumerate() {
            payload.fill(&mut *table.device, index as u64 * CHUNK_BYTES, chunk)?;
            chunks.push(checksum::crc32c(chunk));
        }
        let (record, ends) = self.ends(table.log, chunks);
        ends.write_front(&mut buffer[..start]);
        ends.write_back(&mut buffer[end..]);
        table.write(self.segment, self.offset, buffer)?;
        Ok(record)
    }

    /// The last chunk is written with what follows it, and then the front.
    fn write_pieces(
        &self,
        table: &mut SegmentTable,
        buffer: &mut AlignedBuffer,
        payload: &mut Payload<'_>,
    ) -> Result<PutRecord, LogError> {
        let start = payload_start(self.object, self.way);
        let whole = single_bytes(self.object, self.way);
        let count = chunk_count(self.object.bytes);
        let mut chunks = Vec::with_capacity(count as usize);
        for index in 0..count.saturating_sub(1) {
            buffer.set_length(CHUNK_BYTES as usize);
            let at = index * CHUNK_BYTES;
            payload.fill(&mut *table.device, at, buffer)?;
            chunks.push(checksum::crc32c(buffer));
            table.write(self.segment, self.offset + start + at, buffer)?;
        }
        let at = chunks.len() as u64 * CHUNK_BYTES;
        let left = (self.object.bytes - at) as usize;
        buffer.set_length((whole - start - at) as usize);
        payload.fill(&mut *table.device, at, &mut buffer[..left])?;
        chunks.push(checksum::crc32c(&buffer[..left]));
        let (record, ends) = self.ends(table.log, chunks);
        ends.write_back(&mut buffer[left..]);
        table.write(self.segment, self.offset + start + at, buffer)?;
        buffer.set_length(start as usize);
        ends.write_front(buffer);
        table.write(self.segment, self.offset, buffer)?;
        Ok(record)
    }

    fn write_in_place(
        &self,
        table: &mut SegmentTable,
        buffer: &mut AlignedBuffer,
        payload: &mut Payload<'_>,
    ) -> Result<PutRecord, LogError> {
        let start = payload_start(self.object, self.way);
        let whole = single_bytes(self.object, self.way);
        let bytes = self.object.bytes;
        let mut chunks = Vec::with_capacity(chunk_count(bytes) as usize);
        for at in (0..bytes).step_by(CHUNK_BYTES as usize) {
            let count = CHUNK_BYTES.min(bytes - at);
            let chunk = payload.chunk(&mut *table.device, at, count, buffer)?;
            let place = self.offset + start + at;
            chunks.push(table.write_checked(self.segment, place, chunk)?);
        }
        let (record, ends) = self.ends(table.log, chunks);
        // The device has written zeros up to here.
        let end = start + bytes.next_multiple_of(PAYLOAD_ALIGN);
        buffer.set_length((whole - end) as usize);
        ends.write_back(buffer);
        table.write(self.segment, self.offset + end, buffer)?;
        buffer.set_length(start as usize);
        ends.write_front(buffer);
        table.write(self.segment, self.offset, buffer)?;
        Ok(record)
    }

    /// The record of an object with these checksums, and both ends of the frame.
    fn ends(&self, log: LogId, chunks: Vec<u32>) -> (PutRecord, Ends) {
        let Self { object, segment, offset, .. } = *self;
        let mut record = object.record(self.lsn, payload_start(object, self.way));
        record.set_chunks(chunks);
        let mut encoded = Vec::with_capacity(object.record_bytes() as usize);
        Record::Put(record.clone()).encode(&mut encoded);
        let head = head_of(self.batch, (1, &encoded), single_bytes(object, self.way));
        let place = FramePlace { log, segment, offset };
        let [front, back] = [FrameCopy::Front, FrameCopy::Back].map(|it| head.encode(it, place));
        (record, Ends { front, back, encoded })
    }
}

/// Heads and records, as both ends of a frame have them.
struct Ends {
    front: [u8; HEAD_BYTES],
    back: [u8; HEAD_BYTES],
    encoded: Vec<u8>,
}

impl Ends {
    /// All that comes before the payload.
    fn write_front(&self, into: &mut [u8]) {
        let (head, rest) = into.split_at_mut(HEAD_BYTES);
        let (records, zeros) = rest.split_at_mut(self.encoded.len());
        head.copy_from_slice(&self.front);
        records.copy_from_slice(&self.encoded);
        zeros.fill(0);
    }

    /// All that comes after it.
    fn write_back(&self, into: &mut [u8]) {
        let (rest, head) = into.split_at_mut(into.len() - HEAD_BYTES);
        let (zeros, records) = rest.split_at_mut(rest.len() - self.encoded.len());
        zeros.fill(0);
        records.copy_from_slice(&self.encoded);
        head.copy_from_slice(&self.back);
    }
}
