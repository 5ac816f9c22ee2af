//! A frame in the making: records and payloads of one batch that are written together.

use plasmon_proto::ObjectId;
use plasmon_shm::checksum;

use crate::buffer::AlignedBuffer;
use crate::error::LogError;
use crate::format::{
    CHUNK_BYTES, DeadRecord, FrameCopy, FrameHead, FramePlace, HEAD_BYTES, PAYLOAD_ALIGN,
    PutRecord, Record, frame_bytes,
};

/// Gives the payload of an object, from a distance on.
pub(crate) type FillMemory<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), LogError> + 'a;

/// An object to append, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) id: ObjectId,
    /// Bytes of its payload.
    pub(crate) bytes: u64,
    pub(crate) description: Vec<u8>,
}

impl Described {
    /// Bytes of its record.
    pub(crate) fn record_bytes(&self) -> u64 {
        PutRecord::encoded_bytes(self.description.len(), self.bytes)
    }

    /// Its record, before the payload is known.
    pub(crate) fn record(&self, lsn: crate::Lsn, offset: u64) -> PutRecord {
        let Self { id, bytes, description } = self.clone();
        PutRecord { lsn, id, offset, bytes, crc: 0, chunks: Vec::new(), description }
    }
}

/// Records and payloads that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct FrameBuilder {
    /// Offsets are those within `payloads` until the frame is finished.
    records: Vec<Record>,
    payloads: Vec<u8>,
    records_bytes: u64,
}

/// Room that a record wants: its own bytes, and those of the payload.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordRoom {
    pub(crate) record_bytes: u64,
    pub(crate) payload_bytes: u64,
}

/// A frame that is in its buffer.
#[derive(Debug)]
pub(crate) struct FinishedFrame {
    pub(crate) bytes: u64,
    pub(crate) records: Vec<Record>,
}

impl FrameBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of records and payloads.
    pub(crate) fn bytes(&self) -> u64 {
        self.records_bytes + self.payloads.len() as u64
    }

    /// Bytes of the frame if a record were added.
    pub(crate) fn frame_bytes_with(&self, more: RecordRoom) -> u64 {
        let records = self.records_bytes + more.record_bytes;
        frame_bytes(
            payload_start(records),
            self.payloads.len() as u64 + more.payload_bytes,
            records,
        )
    }

    /// Bytes of the rows that a summary would get, if a record were added.
    pub(crate) fn rows_bytes_with(&self, more: RecordRoom) -> u64 {
        let rows = self.records.len() as u64 + 1;
        self.records_bytes + more.record_bytes + 8 * rows
    }

    /// Adds an object whose payload `fill` writes into memory, from its start on.
    pub(crate) fn add_put(
        &mut self,
        lsn: crate::Lsn,
        object: &Described,
        fill: &mut FillMemory<'_>,
    ) -> Result<(), LogError> {
        let offset = self.payloads.len();
        let length = object.bytes.next_multiple_of(PAYLOAD_ALIGN) as usize;
        self.payloads.resize(offset + length, 0);
        let payload = &mut self.payloads[offset..offset + object.bytes as usize];
        let mut chunks = Vec::new();
        for (index, chunk) in payload.chunks_mut(CHUNK_BYTES as usize).enumerate() {
            if let Err(error) = fill(index as u64 * CHUNK_BYTES, chunk) {
                self.payloads.truncate(offset);
                return Err(error);
            }
            chunks.push(checksum::crc32c(chunk));
        }
        let mut record = object.record(lsn, offset as u64);
        record.set_chunks(chunks);
        self.records_bytes += object.record_bytes();
        self.records.push(Record::Put(record));
        Ok(())
    }

    /// Adds the end of an object.
    pub(crate) fn add_dead(&mut self, record: DeadRecord) {
        self.records_bytes += DeadRecord::ENCODED_BYTES as u64;
        self.records.push(Record::Dead(record));
    }

    /// Writes the frame into a buffer, for this place, and is empty again.
    pub(crate) fn finish(
        &mut self,
        batch: (u64, u32),
        place: FramePlace,
        into: &mut AlignedBuffer,
    ) -> FinishedFrame {
        let start = payload_start(self.records_bytes);
        let bytes = self.frame_bytes_with(RecordRoom::default());
        let mut records = std::mem::take(&mut self.records);
        let mut encoded = Vec::with_capacity(self.records_bytes as usize);
        for record in &mut records {
            if let Record::Put(put) = record {
                put.offset += start;
            }
            record.encode(&mut encoded);
        }
        into.set_length(bytes as usize);
        let front = HEAD_BYTES + encoded.len();
        into[front..start as usize].fill(0);
        let payload_end = start as usize + self.payloads.len();
        into[start as usize..payload_end].copy_from_slice(&self.payloads);
        into[payload_end..].fill(0);
        seal(batch, place, (records.len() as u32, &encoded), into);
        self.payloads.clear();
        self.records_bytes = 0;
        FinishedFrame { bytes, records }
    }
}

/// Where the payloads begin after so many bytes of records.
fn payload_start(records_bytes: u64) -> u64 {
    (HEAD_BYTES as u64 + records_bytes).next_multiple_of(PAYLOAD_ALIGN)
}

/// The head of a frame with these records.
pub(crate) fn head_of(
    (batch, index): (u64, u32),
    (records, encoded): (u32, &[u8]),
    frame_bytes: u64,
) -> FrameHead {
    let records_bytes = encoded.len() as u32;
    let records_crc = checksum::crc32c(encoded);
    FrameHead { batch, index, records, frame_bytes, records_bytes, records_crc }
}

/// Writes both copies of head and records into a whole frame.
fn seal(batch: (u64, u32), place: FramePlace, records: (u32, &[u8]), frame: &mut [u8]) {
    let head = head_of(batch, records, frame.len() as u64);
    let encoded = records.1;
    frame[..HEAD_BYTES].copy_from_slice(&head.encode(FrameCopy::Front, place));
    frame[HEAD_BYTES..HEAD_BYTES + encoded.len()].copy_from_slice(encoded);
    let back = frame.len() - HEAD_BYTES;
    frame[back - encoded.len()..back].copy_from_slice(encoded);
    frame[back..].copy_from_slice(&head.encode(FrameCopy::Back, place));
}
