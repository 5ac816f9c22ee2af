//! Appending: records become frames, frames fill the open segment, a sync ends a batch.
//!
//! ```text
//! put, dead --> FrameBuilder --> frame at the end of the open segment --+
//!   large ---------------------> frame of its own, copied once or not --+--> sync: batch + 1
//!   larger than a segment -----> a segment of its own, which the superblocks name at the sync
//! ```
//!
//! A batch is written only after the one before it was synced. So what lies before the last batch
//! of the open segment is durable, and of the last batch alone recovery has to look at the
//! payloads.

use plasmon_proto::ObjectId;

use crate::Lsn;
use crate::buffer::AlignedBuffer;
use crate::device::BLOCK_BYTES;
use crate::error::LogError;
use crate::format::{DeadRecord, FramePlace, Record, encode_row, seal_summary, summary_bytes};
use crate::frame_builder::{Described, FinishedFrame, FrameBuilder, RecordRoom};
use crate::index::{Index, RecordPlace};
use crate::payload::Payload;
use crate::segment_table::{NewSegment, Purpose, SegmentTable};
use crate::single_frame::{SingleFrame, Way, single_bytes};

/// About the largest frame that is made of several objects, and the largest of one that is made in
/// memory.
const GATHERED_BYTES_MAX: u64 = 4 << 20;

/// From here on an object has a frame of its own: a copy less counts for more than the room that
/// several share, and than the one write that they have. In small segments a part of these.
const WHOLE_BYTES_MIN: u64 = 256 << 10;

/// The same for a device that is written in place, where a frame costs no system call; but it is a
/// number of blocks, which smaller objects share.
const IN_PLACE_BYTES_MIN: u64 = 32 << 10;

/// What puts leave free in a segment for the ends of objects, at most: a full log can delete.
const RESERVE_BYTES_MAX: u64 = 256 * 1024;

/// The segment that is written.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Where the next frame begins.
    pub(crate) position: u64,
    /// The rows of its summary so far.
    pub(crate) rows: Vec<u8>,
    pub(crate) records: u32,
    /// Whether all its blocks were written before.
    pub(crate) was_used: bool,
}

impl OpenSegment {
    /// A new one.
    fn new(number: u64, bytes: u64) -> Self {
        Self { number, bytes, position: 0, rows: Vec::new(), records: 0, was_used: false }
    }

    /// Whether a frame fits, with the summary that the segment then has, and so much room besides.
    fn has_room(&self, frame_bytes: u64, rows_bytes: u64, reserve: u64) -> bool {
        let summary = summary_bytes(self.rows.len() as u64 + rows_bytes);
        self.position + frame_bytes + summary + reserve <= self.bytes
    }
}

/// The numbers of what is appended next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    pub(crate) lsn: Lsn,
    pub(crate) batch: u64,
    /// Frames of this batch in the open segment.
    pub(crate) index: u32,
}

/// Appends to a log.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) table: SegmentTable,
    pub(crate) index: Index,
    open: Option<OpenSegment>,
    sequence: Sequence,
    pending: FrameBuilder,
    buffer: AlignedBuffer,
    /// Segments of one object that the superblocks do not name yet.
    unpublished: Vec<u64>,
    /// Whether the open segment has been written since its last sync.
    is_dirty: bool,
    /// Whether nothing after the last batch shows that it was synced.
    is_unconfirmed: bool,
    put_bytes: u64,
    failed: Option<String>,
}

impl Engine {
    pub(crate) fn new(
        table: SegmentTable,
        index: Index,
        open: Option<OpenSegment>,
        sequence: Sequence,
    ) -> Self {
        let is_unconfirmed = open.is_some();
        Self {
            table,
            index,
            open,
            sequence,
            pending: FrameBuilder::default(),
            buffer: AlignedBuffer::reused(),
            unpublished: Vec::new(),
            is_dirty: false,
            is_unconfirmed,
            put_bytes: 0,
            failed: None,
        }
    }

    /// Why the log takes nothing more.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Bytes of payload that were put.
    pub(crate) fn put_bytes(&self) -> u64 {
        self.put_bytes
    }

    /// The number of the segment that is written.
    pub(crate) fn open_segment(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.number)
    }

    /// The segment that is written.
    pub(crate) fn open(&self) -> Option<&OpenSegment> {
        self.open.as_ref()
    }

    /// Writes zeros somewhere after the last frame.
    pub(crate) fn write_zeros(&mut self, offset: u64, bytes: u64) -> Result<(), LogError> {
        self.guarded(|it| {
            let Some(OpenSegment { number, position, .. }) = it.open else { return Ok(()) };
            assert!(offset >= position, "zeros are written after the frames");
            it.buffer.set_length(bytes as usize);
            it.buffer.fill(0);
            it.table.write(number, offset, &it.buffer)
        })
    }

    /// Syncs zeros. It ends no batch.
    pub(crate) fn sync_zeros(&mut self) -> Result<(), LogError> {
        self.guarded(|it| match it.open_segment() {
            Some(open) => it.table.sync(open),
            None => Ok(()),
        })
    }

    /// Where the frames of a segment end.
    pub(crate) fn end_of(&self, segment: u64) -> u64 {
        match &self.open {
            Some(open) if open.number == segment => open.position,
            _ => self.table.rows.get(&segment).and_then(|row| row.end).unwrap_or(0),
        }
    }

    /// Whether an idle log should write [`Self::confirm`].
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.is_unconfirmed
    }

    /// Runs something that changes the log; after a failure of the device nothing does any more.
    fn guarded<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        if let Some(why) = &self.failed {
            return Err(LogError::Failed { why: why.clone() });
        }
        let result = change(self);
        match &result {
            // A failed read leaves the log as it is.
            Err(error @ LogError::Io { action, .. }) if *action != "read" => {
                self.failed = Some(error.to_string());
            }
            _ => {}
        }
        result
    }

    /// Appends an object of a client, or a note.
    pub(crate) fn put(
        &mut self,
        object: &Described,
        purpose: Purpose,
        payload: &mut Payload<'_>,
    ) -> Result<Lsn, LogError> {
        let lsn = self.sequence.lsn;
        self.guarded(|it| it.append(lsn, object, purpose, payload))?;
        self.sequence.lsn += 1;
        self.put_bytes += object.bytes;
        Ok(lsn)
    }

    /// Appends a record once more that lies in a segment which is to be removed.
    pub(crate) fn copy(
        &mut self,
        lsn: Lsn,
        object: &Described,
        payload: &mut Payload<'_>,
    ) -> Result<(), LogError> {
        self.guarded(|it| it.append(lsn, object, Purpose::Copy, payload))
    }

    /// How an object is written that has a frame of its own.
    fn way_alone(&self, object: &Described) -> Option<Way> {
        let part = self.table.limits.segment_bytes / 4;
        let is_in_place = self.table.device.capabilities().in_place;
        if is_in_place && object.bytes >= IN_PLACE_BYTES_MIN.min(part) {
            return Some(Way::InPlace);
        }
        if object.bytes > GATHERED_BYTES_MAX || !self.fits_a_segment(object) {
            return Some(Way::Pieces);
        }
        (object.bytes >= WHOLE_BYTES_MIN.min(part)).then_some(Way::Whole)
    }

    /// Appends the end of an object.
    pub(crate) fn dead(
        &mut self,
        id: ObjectId,
        of: Lsn,
        purpose: Purpose,
    ) -> Result<Lsn, LogError> {
        let lsn = self.sequence.lsn;
        self.append_dead(DeadRecord { lsn, of, id }, purpose)?;
        self.sequence.lsn += 1;
        Ok(lsn)
    }

    /// Appends a dead record, under its own number.
    pub(crate) fn copy_dead(&mut self, record: DeadRecord) -> Result<(), LogError> {
        self.append_dead(record, Purpose::Copy)
    }

    fn append_dead(&mut self, record: DeadRecord, purpose: Purpose) -> Result<(), LogError> {
        self.guarded(|it| {
            let record_bytes = DeadRecord::ENCODED_BYTES as u64;
            it.make_room(RecordRoom { record_bytes, payload_bytes: 0 }, purpose)?;
            it.pending.add_dead(record);
            Ok(())
        })
    }

    fn append(
        &mut self,
        lsn: Lsn,
        object: &Described,
        purpose: Purpose,
        payload: &mut Payload<'_>,
    ) -> Result<(), LogError> {
        if let Some(way) = self.way_alone(object) {
            return self.append_single(lsn, object, purpose, way, payload);
        }
        let record_bytes = object.record_bytes();
        let payload_bytes = object.bytes.next_multiple_of(crate::format::PAYLOAD_ALIGN);
        if self.pending.bytes() + payload_bytes > GATHERED_BYTES_MAX {
            self.flush()?;
        }
        self.make_room(RecordRoom { record_bytes, payload_bytes }, purpose)?;
        let device = &mut self.table.device;
        self.pending.add_put(lsn, object, &mut |at, into| payload.fill(&mut **device, at, into))
    }

    /// Appends an object with a frame of its own.
    fn append_single(
        &mut self,
        lsn: Lsn,
        object: &Described,
        purpose: Purpose,
        way: Way,
        payload: &mut Payload<'_>,
    ) -> Result<(), LogError> {
        let frame_bytes = single_bytes(object, way);
        let rows_bytes = 8 + object.record_bytes();
        if !self.fits_a_segment(object) {
            return self.append_alone(lsn, object, purpose, way, payload);
        }
        self.flush()?;
        self.make_room_for_frame(frame_bytes, rows_bytes, purpose)?;
        let Some(open) = &self.open else { return Err(no_open_segment()) };
        let (segment, offset) = (open.number, open.position);
        let batch = (self.sequence.batch, self.sequence.index);
        let frame = SingleFrame { lsn, object, batch, segment, offset, way };
        let finished = frame.write(&mut self.table, &mut self.buffer, payload)?;
        self.written(finished);
        Ok(())
    }

    /// Writes an object into a segment of its own.
    fn append_alone(
        &mut self,
        lsn: Lsn,
        object: &Described,
        purpose: Purpose,
        way: Way,
        payload: &mut Payload<'_>,
    ) -> Result<(), LogError> {
        let frame_bytes = single_bytes(object, way);
        let bytes = frame_bytes + summary_bytes(8 + object.record_bytes());
        let segment = self.table.create(bytes, purpose)?.number;
        let frame = SingleFrame { lsn, object, batch: (0, 0), segment, offset: 0, way };
        let finished = match frame.write(&mut self.table, &mut self.buffer, payload) {
            Ok(finished) => finished,
            Err(error) => {
                self.table.rows.remove(&segment);
                self.table.retire(segment, bytes)?;
                return Err(error);
            }
        };
        let mut alone = OpenSegment::new(segment, bytes);
        note_frame(&mut alone, &finished, &mut self.index);
        self.write_summary(&alone)?;
        self.unpublished.push(segment);
        Ok(())
    }

    /// Whether the frame of an object fits an empty segment.
    fn fits_a_segment(&self, object: &Described) -> bool {
        let bytes = self.table.limits.segment_bytes;
        let empty = OpenSegment::new(0, bytes);
        empty.has_room(single_bytes(object, Way::Pieces), 8 + object.record_bytes(), reserve(bytes))
    }

    /// Sees to it that a record can be added to the pending frame.
    fn make_room(&mut self, more: RecordRoom, purpose: Purpose) -> Result<(), LogError> {
        let frame_bytes = self.pending.frame_bytes_with(more);
        let rows_bytes = self.pending.rows_bytes_with(more);
        self.make_room_for_frame(frame_bytes, rows_bytes, purpose)
    }

    fn make_room_for_frame(
        &mut self,
        frame_bytes: u64,
        rows_bytes: u64,
        purpose: Purpose,
    ) -> Result<(), LogError> {
        let table = &mut self.table;
        let fits = self.open.as_ref().is_some_and(|open| {
            let reserve = match purpose {
                Purpose::Put => reserve(open.bytes),
                // Full of ends alone, a segment would leave no room to copy what lives.
                Purpose::End if !table.has_reserve() => open.bytes / 2,
                Purpose::End | Purpose::Copy => 0,
            };
            open.has_room(frame_bytes, rows_bytes, reserve)
        });
        if fits { Ok(()) } else { self.start_segment(purpose) }
    }

    /// Writes the pending frame.
    fn flush(&mut self) -> Result<(), LogError> {
        if self.pending.is_empty() { Ok(()) } else { self.write_pending() }
    }

    fn write_pending(&mut self) -> Result<(), LogError> {
        let Some(open) = &self.open else { return Err(no_open_segment()) };
        let (segment, offset) = (open.number, open.position);
        let place = FramePlace { log: self.table.log, segment, offset };
        let batch = (self.sequence.batch, self.sequence.index);
        let finished = self.pending.finish(batch, place, &mut self.buffer);
        self.table.write(segment, offset, &self.buffer)?;
        self.written(finished);
        Ok(())
    }

    /// A frame was written at the end of the open segment.
    fn written(&mut self, frame: FinishedFrame) {
        if let Some(open) = &mut self.open {
            note_frame(open, &frame, &mut self.index);
            self.sequence.index += 1;
            self.is_dirty = true;
        }
    }

    /// Makes everything durable that was appended.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        self.guarded(Self::commit)
    }

    /// Writes what is pending and syncs what was written. A batch ends with that.
    fn commit(&mut self) -> Result<(), LogError> {
        self.flush()?;
        let unpublished = std::mem::take(&mut self.unpublished);
        for segment in &unpublished {
            self.table.sync(*segment)?;
        }
        if let Some(open) = self.open.as_ref().filter(|_| self.is_dirty) {
            self.table.sync(open.number)?;
            self.is_dirty = false;
            self.is_unconfirmed = true;
            self.sequence.batch += 1;
            self.sequence.index = 0;
        }
        if unpublished.is_empty() { Ok(()) } else { self.table.publish(self.sequence.lsn) }
    }

    /// Ends the open segment and begins another one. Nothing has changed if there is no room.
    fn start_segment(&mut self, purpose: Purpose) -> Result<(), LogError> {
        let bytes = self.table.limits.segment_bytes;
        let NewSegment { number, was_used } = self.table.create(bytes, purpose)?;
        self.flush()?;
        if let Some(open) = self.open.take() {
            let written = self.write_summary(&open);
            let last = open.number;
            self.is_dirty = true;
            self.open = Some(open);
            written?;
            self.commit()?;
            self.table.shrink(last)?;
        }
        self.commit()?;
        self.table.publish(self.sequence.lsn)?;
        self.is_unconfirmed = false;
        self.open = Some(OpenSegment { was_used, ..OpenSegment::new(number, bytes) });
        Ok(())
    }

    /// Writes the summary of a segment that gets no more frames.
    fn write_summary(&mut self, segment: &OpenSegment) -> Result<(), LogError> {
        let OpenSegment { number, position, records, ref rows, .. } = *segment;
        let bytes = summary_bytes(rows.len() as u64);
        let place = FramePlace { log: self.table.log, segment: number, offset: position };
        self.buffer.set_length(bytes as usize);
        seal_summary(place, records, rows, &mut self.buffer);
        self.table.write(number, position, &self.buffer)?;
        if let Some(row) = self.table.rows.get_mut(&number) {
            row.end = Some(position);
            row.summary_bytes = bytes;
            row.records = records;
        }
        Ok(())
    }

    /// Writes and syncs a frame without records: it shows that the batch before it was synced, so
    /// that damage to it is not taken for a loss of power.
    pub(crate) fn confirm(&mut self) -> Result<(), LogError> {
        self.guarded(|it| {
            it.commit()?;
            // It must not take the room that deleting needs.
            let fits = |open: &OpenSegment| open.has_room(BLOCK_BYTES, 0, reserve(open.bytes));
            let has_room = it.open.as_ref().is_some_and(fits);
            if it.is_unconfirmed && has_room {
                it.write_pending()?;
                it.commit()?;
            }
            it.is_unconfirmed = false;
            Ok(())
        })
    }

    /// Removes a segment in which nothing lives.
    pub(crate) fn remove_segment(
        &mut self,
        segment: u64,
        puts: &std::collections::HashMap<ObjectId, u32>,
    ) -> Result<(), LogError> {
        self.guarded(|it| {
            it.commit()?;
            let bytes = it.table.rows.remove(&segment).map_or(0, |row| row.bytes);
            it.table.publish(it.sequence.lsn)?;
            it.index.remove_segment(segment, puts);
            it.table.retire(segment, bytes)
        })
    }
}

/// What puts leave free in a segment of so many bytes.
fn reserve(segment_bytes: u64) -> u64 {
    RESERVE_BYTES_MAX.min(segment_bytes / 16)
}

/// Takes the records of a frame into the index and the rows of its segment's summary.
fn note_frame(segment: &mut OpenSegment, frame: &FinishedFrame, index: &mut Index) {
    for record in &frame.records {
        encode_row(segment.position, record, &mut segment.rows);
        note_record(segment.number, segment.position, record, index);
    }
    segment.records += frame.records.len() as u32;
    segment.position += frame.bytes;
}

/// Takes a record into the index.
pub(crate) fn note_record(segment: u64, frame: u64, record: &Record, index: &mut Index) {
    match record {
        Record::Put(put) => index.put(put.lsn, put.id, RecordPlace::of(segment, frame, put)),
        Record::Dead(dead) => index.dead(*dead, segment),
    }
}

/// Room was made in a segment that is not there: what was to be written is not, and is not said to
/// be.
fn no_open_segment() -> LogError {
    LogError::Failed { why: "no segment is open for what was to be written".to_owned() }
}
