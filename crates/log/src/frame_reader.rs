//! Reading frames of a segment, one after the other, past what is damaged.

use plasmon_shm::checksum;

use crate::buffer::AlignedBuffer;
use crate::device::{BLOCK_BYTES, Device};
use crate::error::LogError;
use crate::format::{CHUNK_BYTES, FrameCopy, FrameHead, FramePlace, HEAD_BYTES, PAYLOAD_ALIGN};
use crate::format::{LogId, PutRecord, Record};

/// Bytes that are read at once while looking for frames.
const WINDOW_BYTES: u64 = 128 * 1024;

/// Takes a piece of a payload, and its distance from the start.
pub(crate) type TakePiece<'a> = dyn FnMut(u64, &[u8]) -> Result<(), LogError> + 'a;

/// A frame that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where it begins.
    pub(crate) offset: u64,
    pub(crate) head: FrameHead,
    pub(crate) records: Vec<Record>,
    /// Whether the copy of head and records at its front is damaged.
    pub(crate) is_front_damaged: bool,
}

impl Frame {
    /// Where it ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.head.frame_bytes
    }

    /// Its puts.
    pub(crate) fn puts(&self) -> impl Iterator<Item = &PutRecord> {
        self.records.iter().filter_map(|record| match record {
            Record::Put(put) => Some(put),
            Record::Dead(_) => None,
        })
    }

    /// Whether its records can be what they say: payloads lie within it.
    fn is_sane(&self) -> bool {
        let after = HEAD_BYTES as u64 + u64::from(self.head.records_bytes);
        let before = self.head.frame_bytes - after;
        self.puts().all(|put| {
            let end = put.offset.checked_add(put.bytes);
            let lies_within = put.offset >= after && end.is_some_and(|end| end <= before);
            put.offset.is_multiple_of(PAYLOAD_ALIGN) && lies_within && put.has_chunks()
        })
    }
}

/// A segment that is read.
pub(crate) struct FrameReader<'a> {
    device: &'a mut dyn Device,
    log: LogId,
    segment: u64,
    /// Bytes of the segment that may have frames.
    bytes: u64,
    window: AlignedBuffer,
    window_start: u64,
    /// Bytes that were read.
    pub(crate) read_bytes: u64,
}

impl<'a> FrameReader<'a> {
    pub(crate) fn new(device: &'a mut dyn Device, log: LogId, segment: u64, bytes: u64) -> Self {
        let (window, window_start) = (AlignedBuffer::default(), 0);
        Self { device, log, segment, bytes, window, window_start, read_bytes: 0 }
    }

    fn place(&self, offset: u64) -> FramePlace {
        FramePlace { log: self.log, segment: self.segment, offset }
    }

    /// Reads whole blocks into a buffer.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        bytes: u64,
        into: &mut AlignedBuffer,
    ) -> Result<(), LogError> {
        into.set_length(bytes as usize);
        self.read_bytes += bytes;
        let read = self.device.read(self.segment, offset, into);
        read.map_err(|error| LogError::io("read", self.device.segment_name(self.segment))(error))
    }

    /// The block at an offset within the segment.
    fn block(&mut self, offset: u64) -> Result<&[u8], LogError> {
        let there = self.window_start..self.window_start + self.window.len() as u64;
        if !there.contains(&offset) {
            let bytes = WINDOW_BYTES.min(self.bytes - offset);
            let mut window = std::mem::take(&mut self.window);
            let read = self.read(offset, bytes, &mut window);
            self.window = window;
            self.window_start = offset;
            if read.is_err() {
                self.window.set_length(0);
            }
            read?;
        }
        let at = (offset - self.window_start) as usize;
        Ok(&self.window[at..at + BLOCK_BYTES as usize])
    }

    /// The bytes of records at any place of the segment.
    fn records_at(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, LogError> {
        let first = offset - offset % BLOCK_BYTES;
        let end = (offset + bytes).next_multiple_of(BLOCK_BYTES);
        let there = self.window_start..self.window_start + self.window.len() as u64;
        if there.contains(&first) && end <= there.end {
            let at = (offset - self.window_start) as usize;
            return Ok(self.window[at..at + bytes as usize].to_vec());
        }
        let mut buffer = AlignedBuffer::default();
        self.read(first, end - first, &mut buffer)?;
        let at = (offset - first) as usize;
        Ok(buffer[at..at + bytes as usize].to_vec())
    }

    /// The frame that a head describes, if its records are right.
    fn frame_of(
        &mut self,
        offset: u64,
        head: FrameHead,
        copy: FrameCopy,
    ) -> Result<Option<Frame>, LogError> {
        if head.frame_bytes > self.bytes - offset {
            return Ok(None);
        }
        let records_bytes = u64::from(head.records_bytes);
        let start = match copy {
            FrameCopy::Front => offset + HEAD_BYTES as u64,
            FrameCopy::Back => offset + head.frame_bytes - HEAD_BYTES as u64 - records_bytes,
        };
        let bytes = self.records_at(start, records_bytes)?;
        if checksum::crc32c(&bytes) != head.records_crc {
            return Ok(None);
        }
        let is_front_damaged = copy == FrameCopy::Back;
        let records = Record::decode_all(&bytes, head.records);
        let frame = records.map(|records| Frame { offset, head, records, is_front_damaged });
        Ok(frame.filter(Frame::is_sane))
    }

    /// The frame that begins at an offset, as its front says.
    pub(crate) fn front(&mut self, offset: u64) -> Result<Option<Frame>, LogError> {
        if self.bytes.saturating_sub(offset) < BLOCK_BYTES {
            return Ok(None);
        }
        let place = self.place(offset);
        match FrameHead::decode(self.block(offset)?, FrameCopy::Front, place) {
            Some(head) => self.frame_of(offset, head, FrameCopy::Front),
            None => Ok(None),
        }
    }

    /// The frame that ends with the block at an offset, and does not begin before `from`.
    fn back(&mut self, from: u64, block: u64) -> Result<Option<Frame>, LogError> {
        let head_start = BLOCK_BYTES as usize - HEAD_BYTES;
        let claimed = FrameHead::claimed_bytes(&self.block(block)?[head_start..]);
        let start = claimed.and_then(|bytes| (block + BLOCK_BYTES).checked_sub(bytes));
        let Some(start) = start.filter(|start| *start >= from) else { return Ok(None) };
        let place = self.place(start);
        match FrameHead::decode(&self.block(block)?[head_start..], FrameCopy::Back, place) {
            Some(head) => self.frame_of(start, head, FrameCopy::Back),
            None => Ok(None),
        }
    }

    /// Whether the copy of head and records at the end of a frame is as that at its front.
    pub(crate) fn has_good_back(&mut self, frame: &Frame) -> Result<bool, LogError> {
        let back = self.back(frame.offset, frame.end() - BLOCK_BYTES)?;
        Ok(back.is_some_and(|back| back.head == frame.head && back.records == frame.records))
    }

    /// The first frame at or after an offset that is of no earlier batch than `batch`: remains of
    /// batches that were torn lie after what was written later.
    pub(crate) fn next(&mut self, offset: u64, batch: u64) -> Result<Option<Frame>, LogError> {
        let mut block = offset;
        while self.bytes.saturating_sub(block) >= BLOCK_BYTES {
            if let Some(frame) = self.front(block)?.filter(|frame| frame.head.batch >= batch) {
                return Ok(Some(frame));
            }
            if let Some(frame) = self.back(offset, block)?.filter(|it| it.head.batch >= batch) {
                return Ok(Some(frame));
            }
            block += BLOCK_BYTES;
        }
        Ok(None)
    }

    /// The frame that begins at an offset, by whichever copy is right.
    pub(crate) fn frame_at(&mut self, offset: u64) -> Result<Option<Frame>, LogError> {
        Ok(self.next(offset, 0)?.filter(|frame| frame.offset == offset))
    }

    /// Reads the payload of a record in the frame at `frame`, chunk by chunk. Returns whether all
    /// of it is right; `take` gets the chunks before the first one that is not.
    pub(crate) fn payload(
        &mut self,
        frame: u64,
        record: &PutRecord,
        take: &mut TakePiece<'_>,
    ) -> Result<bool, LogError> {
        let start = frame + record.offset;
        let mut buffer = AlignedBuffer::default();
        let mut done = 0;
        while done < record.bytes {
            let bytes = CHUNK_BYTES.min(record.bytes - done);
            let chunk = read_chunk(self, start + done, bytes, &mut buffer)?;
            if record.chunk_crc(done / CHUNK_BYTES) != Some(checksum::crc32c(chunk)) {
                return Ok(false);
            }
            take(done, chunk)?;
            done += bytes;
        }
        Ok(true)
    }
}

/// Reads any bytes of a segment into a buffer.
pub(crate) fn read_chunk<'b>(
    reader: &mut FrameReader<'_>,
    start: u64,
    bytes: u64,
    buffer: &'b mut AlignedBuffer,
) -> Result<&'b [u8], LogError> {
    let first = start - start % BLOCK_BYTES;
    let end = (start + bytes).next_multiple_of(BLOCK_BYTES);
    reader.read(first, end - first, buffer)?;
    let at = (start - first) as usize;
    Ok(&buffer[at..at + bytes as usize])
}
