//! The segments of a log and its two superblocks, which say which segments there are.
//!
//! A segment counts from the moment on at which the superblocks name it, and until they do not.
//! Both have the same bytes, except while they are written, one after the other: so a damaged one
//! is replaced by the other, and never by an older state.

use std::collections::BTreeMap;
use std::io;

use crate::buffer::AlignedBuffer;
use crate::device::{Device, SUPERBLOCKS};
use crate::error::LogError;
use crate::format::{LogId, PAYLOAD_ALIGN, SegmentRow, Superblock};
use crate::spares::{Spare, Spares};

/// What a segment may have unused at its end and keep: a part of this size of it. Only whole ones
/// are written again.
const UNUSED_PART_MAX: u64 = 8;

/// The largest segment that is written again, in usual ones.
const SPARE_SEGMENTS_MAX: u64 = 4;

/// Segments that wait to be written take such a part of the log, or are one.
const SPARES_PART: u64 = 32;

/// How large a log may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of a segment.
    pub(crate) segment_bytes: u64,
    /// Of all segments together.
    pub(crate) bytes_max: u64,
}

/// For what a segment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For objects of clients, which leave one more segment, as a spare that is on the device.
    Put,
    /// For the ends of objects, which leave room to copy what lives beside what has ended.
    End,
    /// For garbage collection.
    Copy,
}

/// The segments.
#[derive(Debug)]
pub(crate) struct SegmentTable {
    pub(crate) device: Box<dyn Device>,
    pub(crate) log: LogId,
    pub(crate) limits: Limits,
    /// What the superblocks say, or will.
    pub(crate) rows: BTreeMap<u64, SegmentRow>,
    pub(crate) next_segment: u64,
    generation: u64,
    /// The superblock that is written first.
    older_slot: usize,
    /// Bytes that were written.
    pub(crate) written_bytes: u64,
    spares: Spares,
}

/// A segment that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSegment {
    pub(crate) number: u64,
    /// Whether all its blocks were written before.
    pub(crate) was_used: bool,
}

impl SegmentTable {
    /// The table that a superblock describes. `slot` is where the other one is.
    pub(crate) fn new(
        device: Box<dyn Device>,
        limits: Limits,
        superblock: Superblock,
        slot: usize,
    ) -> Self {
        let Superblock { log, generation, next_segment, segments, .. } = superblock;
        let rows = segments.into_iter().map(|row| (row.number, row)).collect();
        Self {
            device,
            log,
            limits,
            rows,
            next_segment,
            generation,
            older_slot: slot,
            written_bytes: 0,
            spares: Spares::default(),
        }
    }

    /// Bytes of all segments.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.rows.values().map(|row| row.bytes).sum()
    }

    /// Bytes of segments that wait to be written.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spares.bytes()
    }

    /// Makes a segment, which counts once [`Self::publish`] has said so.
    pub(crate) fn create(&mut self, bytes: u64, purpose: Purpose) -> Result<NewSegment, LogError> {
        let reserve = match purpose {
            Purpose::Put => self.limits.segment_bytes,
            Purpose::End | Purpose::Copy => 0,
        };
        let free_bytes = self.limits.bytes_max.saturating_sub(self.used_bytes());
        let free_bytes = free_bytes.saturating_sub(reserve);
        if bytes > free_bytes {
            return Err(LogError::Full { wanted_bytes: bytes, free_bytes });
        }
        let made = match self.spares.take(bytes) {
            Some(spare) => self.take_spare(spare, bytes),
            None => self.create_new(bytes),
        };
        let made = made.map_err(|error| self.not_made(bytes, error))?;
        let number = made.number;
        let row = SegmentRow { number, bytes, end: None, summary_bytes: 0, records: 0 };
        self.rows.insert(number, row);
        if purpose == Purpose::Put
            && let Err(error) = self.make_reserve()
        {
            self.rows.remove(&number);
            // It is the reserve, if it is large enough.
            self.retire(number, bytes)?;
            return Err(self.not_made(bytes, error));
        }
        Ok(made)
    }

    /// Sees to it that there is a spare for what frees room: a full disk would not take it when it
    /// is needed, and then nothing could be deleted.
    fn make_reserve(&mut self) -> io::Result<()> {
        let bytes = self.limits.segment_bytes;
        if self.spares.count(bytes) == 0 {
            if self.used_bytes().saturating_add(bytes) > self.limits.bytes_max {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let NewSegment { number, was_used } = self.create_new(bytes)?;
            self.spares.keep(Spare { number, bytes, was_used });
        }
        Ok(())
    }

    /// Whether there is a spare for what frees room, or can be.
    pub(crate) fn has_reserve(&mut self) -> bool {
        self.make_reserve().is_ok()
    }

    /// Why a segment of so many bytes was not made.
    fn not_made(&self, bytes: u64, error: io::Error) -> LogError {
        if is_full(&error) {
            return LogError::Full { wanted_bytes: bytes, free_bytes: 0 };
        }
        let name = self.device.segment_name(self.next_segment);
        LogError::io("make the segment", name)(error)
    }

    /// Has the device make a segment. Spares that take its room are removed.
    fn create_new(&mut self, bytes: u64) -> io::Result<NewSegment> {
        let taken = self.used_bytes().saturating_add(bytes);
        while taken.saturating_add(self.spares.bytes()) > self.limits.bytes_max
            && let Some(spare) = self.spares.pop()
        {
            self.device.remove(spare.number)?;
        }
        let number = self.next_segment;
        while let Err(error) = self.device.create(number, bytes) {
            if !is_full(&error) {
                return Err(error);
            }
            let Some(spare) = self.spares.pop() else { return Err(error) };
            self.device.remove(spare.number)?;
        }
        self.next_segment += 1;
        Ok(NewSegment { number, was_used: false })
    }

    /// Makes a segment of a spare. One that was made ahead has its number and its size already.
    fn take_spare(&mut self, spare: Spare, bytes: u64) -> io::Result<NewSegment> {
        let Spare { number: from, was_used, .. } = spare;
        if !was_used && spare.bytes == bytes {
            return Ok(NewSegment { number: from, was_used });
        }
        let number = self.next_segment;
        // Whatever becomes of it: where it fails halfway, there is a file with this number.
        self.next_segment += 1;
        if let Err(error) = self.device.recycle(from, number, bytes) {
            // What cannot be removed either is removed by the next opening.
            let _ = self.device.remove(from).or_else(|_| self.device.remove(number));
            return Err(error);
        }
        Ok(NewSegment { number, was_used })
    }

    /// What spares may take that are not always kept.
    fn spare_bytes_max(&self) -> u64 {
        self.used_bytes() / SPARES_PART
    }

    /// Makes a segment for the time when the open one is full, if there is room for it and for the
    /// reserve. Where that fails nothing is lost: the put that needs the segment makes it, and is
    /// told why it cannot.
    pub(crate) fn make_spare(&mut self) {
        let bytes = self.limits.segment_bytes;
        let spares = self.spares.bytes();
        let is_wanted = spares <= bytes || spares + bytes <= self.spare_bytes_max();
        let taken = self.used_bytes().saturating_add(spares.max(bytes));
        let has_room = taken.saturating_add(bytes) <= self.limits.bytes_max;
        if self.spares.count(bytes) > 1 || !is_wanted || !has_room {
            return;
        }
        let number = self.next_segment;
        // A file that was made by half keeps the number.
        self.next_segment += 1;
        if self.device.create(number, bytes).is_ok() {
            self.spares.keep(Spare { number, bytes, was_used: false });
        }
    }

    /// A segment that the superblocks do not name any more is written again later, or removed.
    pub(crate) fn retire(&mut self, number: u64, bytes: u64) -> Result<(), LogError> {
        let whole = self.limits.segment_bytes;
        if bytes < whole || bytes / SPARE_SEGMENTS_MAX > whole {
            return self.remove(number);
        }
        self.spares.keep(Spare { number, bytes, was_used: true });
        let bytes_max = self.spare_bytes_max();
        while let Some(spare) = self.spares.take_excess(bytes_max) {
            self.remove(spare.number)?;
        }
        Ok(())
    }

    /// Writes to a segment.
    pub(crate) fn write(
        &mut self,
        number: u64,
        offset: u64,
        bytes: &AlignedBuffer,
    ) -> Result<(), LogError> {
        self.written_bytes += bytes.len() as u64;
        let written = self.device.write(number, offset, bytes);
        written.map_err(|error| LogError::io("write", self.device.segment_name(number))(error))
    }

    /// Writes bytes in place; their checksum.
    pub(crate) fn write_checked(
        &mut self,
        number: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u32, LogError> {
        self.written_bytes += (bytes.len() as u64).next_multiple_of(PAYLOAD_ALIGN);
        let written = self.device.write_checked(number, offset, bytes);
        written.map_err(|error| LogError::io("write", self.device.segment_name(number))(error))
    }

    /// Makes durable what was written to a segment.
    pub(crate) fn sync(&mut self, number: u64) -> Result<(), LogError> {
        let synced = self.device.sync(number);
        synced.map_err(|error| LogError::io("sync", self.device.segment_name(number))(error))
    }

    /// Gives back the room after the summary of a segment that is not written any more, if it is
    /// worth having.
    pub(crate) fn shrink(&mut self, number: u64) -> Result<(), LogError> {
        let Some(row) = self.rows.get_mut(&number) else { return Ok(()) };
        let used = row.end.unwrap_or(row.bytes) + row.summary_bytes;
        if used < row.bytes - row.bytes / UNUSED_PART_MAX {
            let name = self.device.segment_name(number);
            self.device.shrink(number, used).map_err(LogError::io("shrink", name))?;
            row.bytes = used;
        }
        Ok(())
    }

    /// Writes both superblocks.
    pub(crate) fn publish(&mut self, next_lsn: u64) -> Result<(), LogError> {
        self.generation += 1;
        let superblock = Superblock {
            log: self.log,
            generation: self.generation,
            next_segment: self.next_segment,
            next_lsn,
            segments: self.rows.values().copied().collect(),
        };
        let bytes = superblock.encode();
        for _ in 0..SUPERBLOCKS {
            let slot = self.older_slot;
            let name = self.device.superblock_name(slot);
            self.device.write_superblock(slot, &bytes).map_err(LogError::io("write", name))?;
            self.written_bytes += bytes.len() as u64;
            self.older_slot = 1 - slot;
        }
        Ok(())
    }

    /// Removes the file of a segment that the superblocks do not name.
    pub(crate) fn remove(&mut self, number: u64) -> Result<(), LogError> {
        let name = self.device.segment_name(number);
        self.device.remove(number).map_err(LogError::io("remove", name))
    }
}

/// Whether a device has refused for lack of room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
