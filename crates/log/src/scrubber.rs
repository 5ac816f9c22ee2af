//! Scrubbing: everything is read and compared with its checksums, a piece at a time.

use crate::device::SUPERBLOCKS;
use crate::engine::Engine;
use crate::error::LogError;
use crate::format::{FramePlace, PutRecord, SegmentRow, Superblock, decode_summary};
use crate::frame_reader::{Frame, FrameReader};
use crate::{AlignedBuffer, Damage, ScrubProgress};

/// Where the scrub of a log stopped.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    /// The segment, and where in it.
    segment: u64,
    position: u64,
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
            self.position = check_frame(engine, &row, self.position, &mut progress)?;
        }
        Ok(progress)
    }
}

/// Checks the frame at a position. Returns where the next one is.
fn check_frame(
    engine: &mut Engine,
    row: &SegmentRow,
    position: u64,
    progress: &mut ScrubProgress,
) -> Result<u64, LogError> {
    let (log, end) = (engine.table.log, engine.end_of(row.number));
    let place = engine.table.device.segment_name(row.number);
    let mut reader = FrameReader::new(&mut *engine.table.device, log, row.number, end);
    let mut complain = |offset, object, what| {
        progress.damaged.push(Damage { place: place.clone(), offset, object, what });
    };
    let frame = reader.next(position, 0)?;
    let next = frame.as_ref().map_or(end, Frame::end);
    if frame.as_ref().is_none_or(|frame| frame.offset > position) {
        complain(position, None, "records are damaged, and what they held is lost");
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
            if !reader.payload(frame.offset, put, &mut |_, _| Ok(()))? {
                let what = "the payload of an object does not match its checksum";
                complain(frame.offset + put.offset, Some((put.id, put.lsn)), what);
            }
        }
    }
    progress.read_bytes += reader.read_bytes.max(1);
    Ok(next)
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
