//! What is done before puts need it.
//!
//! ```text
//! frames | zeros: blocks that were written before | blocks that were not
//! ^ start  ^ position       ^ written               end of the open segment
//! ```
//!
//! The first write to a block of a file that was only reserved makes the file system note that the
//! block was written, and the next sync writes that down: a sync then takes twice its time. So
//! where a device says so, zeros are written after the last frame while the log is idle. A log that
//! is busy would only write twice as much: it is not asked to. And while the second half of a
//! segment is written, the next one is made.

use crate::device::BLOCK_BYTES;
use crate::engine::{Engine, OpenSegment};
use crate::error::LogError;

/// How far after the last frame zeros are written at most.
const WINDOW_BYTES_MAX: u64 = 16 << 20;

/// And no farther than so many times what was put since the log was opened: one that is hardly used
/// is not worth the writes.
const WINDOW_PER_PUT: u64 = 4;

/// And than such a part of a segment.
const WINDOW_PART: u64 = 4;

/// Bytes that are written at once: a put that comes meanwhile waits for them. A sync follows the
/// last ones; a put that waits for that would have had to write down as much itself.
const PIECE_BYTES: u64 = 512 << 10;

/// Work ahead of puts.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The segment that the rest is about.
    segment: u64,
    /// Up to here it was written.
    written: u64,
    /// Whether zeros are being written.
    is_writing: bool,
    /// Whether zeros were written since the last sync for them.
    is_unsynced: bool,
    /// Whether it was tried to make the next segment.
    is_next_tried: bool,
}

impl Ahead {
    /// Where the next frame of the open segment begins, and how many bytes the segment has.
    fn look(&mut self, engine: &Engine) -> Option<(u64, u64)> {
        let open = engine.open()?;
        let OpenSegment { number, bytes, position, was_used, .. } = *open;
        if self.segment != number {
            let written = if was_used { bytes } else { position };
            *self = Self { segment: number, written, ..Self::default() };
        }
        self.written = self.written.max(position);
        Some((position, bytes))
    }

    /// Makes the next segment if it is time for that.
    pub(crate) fn make_next(&mut self, engine: &mut Engine) {
        let Some((position, bytes)) = self.look(engine) else { return };
        if position > bytes / 2 && !self.is_next_tried {
            self.is_next_tried = true;
            engine.table.make_spare();
        }
    }

    /// Writes some zeros if there are too few. Returns whether more are wanted.
    pub(crate) fn write(&mut self, engine: &mut Engine) -> Result<bool, LogError> {
        let Some((position, bytes)) = self.look(engine) else { return Ok(false) };
        if engine.table.device.capabilities().notes_first_writes
            && let Some(zeros) = self.zeros(position, bytes, engine.put_bytes())
        {
            engine.write_zeros(self.written, zeros)?;
            self.written += zeros;
            self.is_unsynced = true;
            return Ok(true);
        }
        if self.is_unsynced {
            // Or the next put would wait for what the file system has noted.
            engine.sync_zeros()?;
            self.is_unsynced = false;
        }
        Ok(false)
    }

    /// How many zeros are to be written next. Once half of the window is used up, it is filled
    /// again.
    fn zeros(&mut self, position: u64, bytes: u64, put_bytes: u64) -> Option<u64> {
        let window = put_bytes.saturating_mul(WINDOW_PER_PUT).min(bytes / WINDOW_PART);
        let window = WINDOW_BYTES_MAX.min(window) / BLOCK_BYTES * BLOCK_BYTES;
        let until = (position + window).min(bytes);
        let left = self.written - position;
        self.is_writing = self.written < until && (self.is_writing || left <= window / 2);
        self.is_writing.then(|| PIECE_BYTES.min(until - self.written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: u64 = 64 << 20;

    fn fill(ahead: &mut Ahead, position: u64) -> u64 {
        let mut pieces = 0;
        while let Some(zeros) = ahead.zeros(position, SEGMENT_BYTES, SEGMENT_BYTES) {
            assert!(zeros > 0 && zeros <= PIECE_BYTES && zeros.is_multiple_of(BLOCK_BYTES));
            ahead.written += zeros;
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn the_window_is_filled_when_half_of_it_is_used_up() {
        let mut ahead = Ahead::default();
        assert_eq!(fill(&mut ahead, 0), WINDOW_BYTES_MAX / PIECE_BYTES);
        assert_eq!(ahead.written, WINDOW_BYTES_MAX);
        assert_eq!(fill(&mut ahead, WINDOW_BYTES_MAX / 2 - BLOCK_BYTES), 0);
        assert_eq!(fill(&mut ahead, WINDOW_BYTES_MAX / 2), WINDOW_BYTES_MAX / 2 / PIECE_BYTES);
        assert_eq!(ahead.written, WINDOW_BYTES_MAX * 3 / 2);
    }

    #[test]
    fn nothing_is_written_past_the_end_of_a_segment() {
        let position = SEGMENT_BYTES - 3 * BLOCK_BYTES;
        let mut ahead = Ahead { written: position, ..Ahead::default() };
        assert_eq!(fill(&mut ahead, position), 1);
        assert_eq!(ahead.written, SEGMENT_BYTES);
        assert_eq!(fill(&mut ahead, SEGMENT_BYTES), 0);
    }

    #[test]
    fn a_log_that_is_hardly_used_is_written_ahead_by_little() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.zeros(0, SEGMENT_BYTES, 0), None);
        assert_eq!(ahead.zeros(0, SEGMENT_BYTES, 1000), None, "not even a block");
        assert_eq!(ahead.zeros(0, SEGMENT_BYTES, 10_000), Some(9 * BLOCK_BYTES));
        assert_eq!(ahead.zeros(0, 64 << 10, SEGMENT_BYTES), Some(16 << 10));
    }

    /// A write of zeros is interrupted by a put: the rest of the window is filled all the same.
    #[test]
    fn a_window_that_is_begun_is_filled() {
        let mut ahead = Ahead::default();
        let zeros = ahead.zeros(0, SEGMENT_BYTES, SEGMENT_BYTES).unwrap();
        ahead.written += zeros;
        let position = BLOCK_BYTES;
        assert!(fill(&mut ahead, position) > 0);
        assert_eq!(ahead.written, position + WINDOW_BYTES_MAX);
    }
}
