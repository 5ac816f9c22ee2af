//! What the segment that was written last has: the batches that were synced, and the last one as
//! far as it is whole.

use crate::error::LogError;
use crate::frame_reader::{Frame, FrameReader};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct OpenScan {
    /// The frames that count.
    pub(crate) frames: Vec<Frame>,
    /// Where they end, and the next one begins.
    pub(crate) end: u64,
    /// Where the last batch begins.
    pub(crate) last_batch: u64,
    /// The largest number of a batch that was seen.
    pub(crate) batch_max: u64,
    /// Records in frames after the end: of a batch that was not synced, or of one that was damaged
    /// since.
    pub(crate) torn_records: u64,
    /// Where frames of batches that were synced cannot be read.
    pub(crate) damaged: Vec<u64>,
}

/// Reads the segment.
pub(crate) fn scan_open(reader: &mut FrameReader<'_>) -> Result<OpenScan, LogError> {
    let mut frames: Vec<Frame> = Vec::new();
    // For each gap the number of frames before it, and where it is.
    let mut gaps = Vec::new();
    let (mut position, mut batch) = (0, 0);
    while let Some(frame) = reader.next(position, batch)? {
        if frame.offset > position {
            gaps.push((frames.len(), position));
        }
        (position, batch) = (frame.end(), frame.head.batch);
        frames.push(frame);
    }
    let first = frames.partition_point(|frame| frame.head.batch < batch);
    let is_begun = frames.get(first).is_some_and(|frame| frame.head.index == 0);
    let kept = first + whole_frames(reader, &frames[first..])?;
    // A batch is written when the one before it is synced. A gap before its first frame is damage;
    // any other one may be what a loss of power has left of it.
    let lost = |count: usize| count < first || (count == first && is_begun);
    let damaged = gaps.iter().filter(|(count, _)| lost(*count)).map(|(_, at)| *at).collect();
    let torn_records = frames[kept..].iter().map(|frame| u64::from(frame.head.records)).sum();
    frames.truncate(kept);
    let end = frames.last().map_or(0, Frame::end);
    let last_batch = frames.get(first).map_or(end, |frame| frame.offset);
    Ok(OpenScan { frames, end, last_batch, batch_max: batch, torn_records, damaged })
}

/// How many frames of the last batch, from its start on, are whole and follow each other.
fn whole_frames(reader: &mut FrameReader<'_>, batch: &[Frame]) -> Result<usize, LogError> {
    let mut position = batch.first().map_or(0, |frame| frame.offset);
    for (count, frame) in batch.iter().enumerate() {
        let follows = frame.head.index as usize == count && frame.offset == position;
        if !follows || !has_whole_payloads(reader, frame)? {
            return Ok(count);
        }
        position = frame.end();
    }
    Ok(batch.len())
}

fn has_whole_payloads(reader: &mut FrameReader<'_>, frame: &Frame) -> Result<bool, LogError> {
    for put in frame.puts() {
        if !reader.payload(frame.offset, put, &mut |_, _| Ok(()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
