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
use crate::format::{LogId, SegmentRow, Superblock};

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
    /// For objects of clients, which leave room for one more segment.
    Put,
    /// For what frees room: garbage collection, and the ends of objects.
    Freeing,
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
        }
    }

    /// Bytes of all segments.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.rows.values().map(|row| row.bytes).sum()
    }

    /// Makes a segment, which counts once [`Self::publish`] has said so.
    pub(crate) fn create(&mut self, bytes: u64, purpose: Purpose) -> Result<u64, LogError> {
        let reserve = match purpose {
            Purpose::Put => self.limits.segment_bytes,
            Purpose::Freeing => 0,
        };
        let free_bytes = self.limits.bytes_max.saturating_sub(self.used_bytes());
        let free_bytes = free_bytes.saturating_sub(reserve);
        if bytes > free_bytes {
            return Err(LogError::Full { wanted_bytes: bytes, free_bytes });
        }
        let number = self.next_segment;
        match self.device.create(number, bytes) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                return Err(LogError::Full { wanted_bytes: bytes, free_bytes: 0 });
            }
            Err(error) => {
                let name = self.device.segment_name(number);
                return Err(LogError::io("make the segment", name)(error));
            }
        }
        self.next_segment += 1;
        let row = SegmentRow { number, bytes, end: None, summary_bytes: 0, records: 0 };
        self.rows.insert(number, row);
        Ok(number)
    }

    /// Writes to a segment.
    pub(crate) fn write(
        &mut self,
        number: u64,
        offset: u64,
        bytes: &AlignedBuffer,
    ) -> Result<(), LogError> {
        self.written_bytes += bytes.len() as u64;
        let name = self.device.segment_name(number);
        self.device.write(number, offset, bytes).map_err(LogError::io("write", name))
    }

    /// Makes durable what was written to a segment.
    pub(crate) fn sync(&mut self, number: u64) -> Result<(), LogError> {
        let name = self.device.segment_name(number);
        self.device.sync(number).map_err(LogError::io("sync", name))
    }

    /// Gives back the room after the summary of a segment that is not written any more.
    pub(crate) fn shrink(&mut self, number: u64) -> Result<(), LogError> {
        let Some(row) = self.rows.get_mut(&number) else { return Ok(()) };
        let used = row.end.unwrap_or(row.bytes) + row.summary_bytes;
        if used < row.bytes {
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
