//! Scrubbing: everything is read and compared with its checksums, a piece at a time. A large
//! payload is several pieces, so that what waits for the log does not wait for all of it.

use crate::check::{Checksums, PIECE_BYTES, Piece, check_piece};
use crate::device::SUPERBLOCKS;
use crate::engine::Engine;
use crate::error::LogError;
use crate::format::{FramePlace, PutRecord, SegmentRow, Superblock, decode_summary};
use crate::frame_reader::{Frame, FrameReader};
use crate::index::RecordPlace;
use crate::{AlignedBuffer, Damage, ScrubProgress};

/// What is said of a payload.
const DAMAGED_PAYLOAD: &str = "the payload of an object does not match its checksum";

/// Where the scrub of a log stopped.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    /// The segment, and where in it.
    segment: u64,
    position: u64,
    /// Large payloads of the last frame that are still to be read.
    large: Vec<LargePayload>,
}

/// A payload that is read in pieces.
#[derive(Debug)]
struct LargePayload {
    record: PutRecord,
    place: RecordPlace,
    /// What was read of it.
    done: u64,
}

impl Scrubber {
    /// Reads about so many bytes on.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        bytes: u64,
    ) -> Result<ScrubProgress, LogError> {
        let mut progress = ScrubProgress::default();
        while progress.read_bytes < bytes {
            if let Some(large) = self.large.pop() {
                self.large.extend(large.read_on(engine, &mut progress)?);
                continue;
            }
            let row = engine.table.rows.range(self.segment..).next().map(|(_, row)| *row);
            let Some(row) = row else {
                check_superblocks(engine, &mut progress)?;
                *self = Self::default();
                progress.finished = true;
                return Ok(progress);
            };
            if row.number != self.segment {
                (self.segment, self.position) = (row.number, 0);
            }
            if self.position >= engine.end_of(row.number) {
                check_summary(engine, &row, &mut progress)?;
                (self.segment, self.position) = (row.number + 1, 0);
                continue;
            }
            let checked = check_frame(engine, &row, self.position, &mut progress)?;
            (self.position, self.large) = checked;
        }
        Ok(progress)
    }
}

impl LargePayload {
    /// Reads the next piece. What is left, unless it is over, damaged, or lies elsewhere by now.
    fn read_on(
        mut self,
        engine: &mut Engine,
        progress: &mut ScrubProgress,
    ) -> Result<Option<Self>, LogError> {
        let Self { record, place, done } = &self;
        let (id, lsn, segment) = (record.id, record.lsn, place.segment);
        if !engine.index.lives_at(lsn, segment, place.frame) {
            return Ok(None);
        }
        let checksums = Checksums::Table(record);
        match check_piece(engine, place, &checksums, *done, &mut |_| ())? {
            Piece::Until(at) => {
                progress.read_bytes += at - done;
                self.done = at;
                Ok((at < self.record.bytes).then_some(self))
            }
            Piece::Damaged => {
                progress.read_bytes += PIECE_BYTES;
                let (offset, object) = (place.payload, Some((id, lsn)));
                let place = engine.table.device.segment_name(segment);
                progress.damaged.push(Damage { place, offset, object, what: DAMAGED_PAYLOAD });
                Ok(None)
            }
        }
    }
}

/// Checks the frame at a position. Returns where the next one is, and which payloads of it are to
/// be read in pieces.
fn check_frame(
    engine: &mut Engine,
    row: &SegmentRow,
    position: u64,
    progress: &mut ScrubProgress,
) -> Result<(u64, Vec<LargePayload>), LogError> {
    let (log, end) = (engine.table.log, engine.end_of(row.number));
    let place = engine.table.device.segment_name(row.number);
    let mut reader = FrameReader::new(&mut *engine.table.device, log, row.number, end);
    let mut complain = |offset, object, what| {
        progress.damaged.push(Damage { place: place.clone(), offset, object, what });
    };
    let mut large = Vec::new();
    let frame = reader.next(position, 0)?;
    let next = frame.as_ref().map_or(end, Frame::end);
    let begin = frame.as_ref().map_or(end, |frame| frame.offset);
    if begin > position {
        let what = "records are damaged, and what they held is lost at the next opening";
        match engine.index.living_in(row.number, position, begin) {
            living if living.is_empty() => complain(position, None, what),
            living => living.into_iter().for_each(|it| complain(position, Some(it), what)),
        }
    }
    if let Some(frame) = frame {
        if frame.is_front_damaged {
            complain(frame.offset, None, "the first copy of records is damaged");
        } else if !reader.has_good_back(&frame)? {
            complain(frame.offset, None, "the second copy of records is damaged");
        }
        let index = &engine.index;
        let lives = |put: &&PutRecord| index.lives_at(put.lsn, row.number, frame.offset);
        for put in frame.puts().filter(lives) {
            if put.bytes > PIECE_BYTES {
                let place = RecordPlace::of(row.number, frame.offset, put);
                large.push(LargePayload { record: put.clone(), place, done: 0 });
            } else if !reader.payload(frame.offset, put, &mut |_, _| Ok(()))? {
                complain(frame.offset + put.offset, Some((put.id, put.lsn)), DAMAGED_PAYLOAD);
            }
        }
    }
    progress.read_bytes += reader.read_bytes.max(1);
    Ok((next, large))
}

/// Checks the summary of a segment that has one.
fn check_summary(
    engine: &mut Engine,
    row: &SegmentRow,
    progress: &mut ScrubProgress,
) -> Result<(), LogError> {
    let Some(end) = row.end else { return Ok(()) };
    let log = engine.table.log;
    let mut buffer = AlignedBuffer::default();
    let device = &mut *engine.table.device;
    let mut reader = FrameReader::new(device, log, row.number, row.bytes);
    reader.read(end, row.summary_bytes, &mut buffer)?;
    progress.read_bytes += row.summary_bytes;
    let place = FramePlace { log, segment: row.number, offset: end };
    if decode_summary(place, &buffer).is_none_or(|rows| rows.len() as u64 != row.records.into()) {
        let place = engine.table.device.segment_name(row.number);
        let what = "the summary is damaged: the next opening reads the segment instead";
        progress.damaged.push(Damage { place, offset: end, object: None, what });
    }
    Ok(())
}

fn check_superblocks(engine: &mut Engine, progress: &mut ScrubProgress) -> Result<(), LogError> {
    for slot in 0..SUPERBLOCKS {
        let place = engine.table.device.superblock_name(slot);
        let read = engine.table.device.read_superblock(slot);
        let bytes = read.map_err(LogError::io("read", place.clone()))?;
        progress.read_bytes += bytes.len() as u64;
        if Superblock::decode(&bytes).is_err() {
            let what = "the superblock is damaged; there is another one";
            progress.damaged.push(Damage { place, offset: 0, object: None, what });
        }
    }
    Ok(())
}
