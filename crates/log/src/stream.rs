//! Frames of one object whose payload is too large to be gathered in memory.

use crate::Lsn;
use crate::buffer::AlignedBuffer;
use crate::device::{BLOCK_BYTES, Device};
use crate::error::LogError;
use crate::format::{
    CHUNK_BYTES, FrameCopy, FramePlace, HEAD_BYTES, PutRecord, Record, chunk_count, frame_bytes,
};
use crate::frame_builder::{Described, FinishedFrame, head_of};
use crate::segment_table::SegmentTable;

/// Gives the payload of an object, from a distance on. It may read the device for it.
pub(crate) type Fill<'a> = dyn FnMut(&mut dyn Device, u64, &mut [u8]) -> Result<(), LogError> + 'a;

/// A frame to write.
pub(crate) struct StreamedFrame<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) object: &'a Described,
    pub(crate) batch: (u64, u32),
    pub(crate) segment: u64,
    /// Where in the segment.
    pub(crate) offset: u64,
}

/// Where the payload of an object begins: at a block, so that it is written as it is.
fn payload_start(object: &Described) -> u64 {
    (HEAD_BYTES as u64 + object.record_bytes()).next_multiple_of(BLOCK_BYTES)
}

/// Bytes of the frame of an object.
pub(crate) fn streamed_bytes(object: &Described) -> u64 {
    frame_bytes(payload_start(object), object.bytes, object.record_bytes())
}

impl StreamedFrame<'_> {
    /// Writes the frame. The front comes last; all of it is durable after the next sync.
    pub(crate) fn write(
        &self,
        table: &mut SegmentTable,
        fill: &mut Fill<'_>,
    ) -> Result<FinishedFrame, LogError> {
        let Self { object, segment, offset, .. } = *self;
        let start = payload_start(object);
        let mut record = object.record(self.lsn, start);
        let count = chunk_count(object.bytes);
        let mut chunks = Vec::with_capacity(count as usize);
        let mut buffer = AlignedBuffer::default();
        for index in 0..count.saturating_sub(1) {
            buffer.set_length(CHUNK_BYTES as usize);
            let at = index * CHUNK_BYTES;
            fill(&mut *table.device, at, &mut buffer)?;
            chunks.push(crc32c::crc32c(&buffer));
            table.write(segment, offset + start + at, &buffer)?;
        }
        self.write_ends(table, fill, &mut record, chunks)?;
        let bytes = streamed_bytes(object);
        Ok(FinishedFrame { bytes, records: vec![Record::Put(record)] })
    }

    /// Writes the last chunk with what follows it, and then the front.
    fn write_ends(
        &self,
        table: &mut SegmentTable,
        fill: &mut Fill<'_>,
        record: &mut PutRecord,
        mut chunks: Vec<u32>,
    ) -> Result<(), LogError> {
        let Self { object, segment, offset, .. } = *self;
        let place = FramePlace { log: table.log, segment, offset };
        let whole = streamed_bytes(object);
        let start = payload_start(object);
        let at = chunks.len() as u64 * CHUNK_BYTES;
        let left = (object.bytes - at) as usize;
        let mut end = AlignedBuffer::default();
        end.set_length((whole - start - at) as usize);
        fill(&mut *table.device, at, &mut end[..left])?;
        chunks.push(crc32c::crc32c(&end[..left]));
        record.set_chunks(chunks);
        let mut encoded = Vec::with_capacity(object.record_bytes() as usize);
        Record::Put(record.clone()).encode(&mut encoded);
        let head = head_of(self.batch, (1, &encoded), whole);
        let back = end.len() - HEAD_BYTES;
        end[left..back - encoded.len()].fill(0);
        end[back - encoded.len()..back].copy_from_slice(&encoded);
        end[back..].copy_from_slice(&head.encode(FrameCopy::Back, place));
        table.write(segment, offset + start + at, &end)?;
        let mut front = AlignedBuffer::default();
        front.set_length(start as usize);
        front[..HEAD_BYTES].copy_from_slice(&head.encode(FrameCopy::Front, place));
        let records_end = HEAD_BYTES + encoded.len();
        front[HEAD_BYTES..records_end].copy_from_slice(&encoded);
        front[records_end..].fill(0);
        table.write(segment, offset, &front)
    }
}
