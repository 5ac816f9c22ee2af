//! Opening a log: superblocks, summaries, a scan of the open segment.
//!
//! Nothing is decided that a second recovery would not decide in the same way, wherever the first
//! one was interrupted: until the open segment was synced and a frame says so, all it has written
//! are superblocks with the same rows and bytes that were there before.

use std::collections::BTreeMap;

use plasmon_spill::FileMeta;

use crate::buffer::AlignedBuffer;
use crate::device::{BLOCK_BYTES, Device, SUPERBLOCKS};
use crate::engine::{Engine, OpenSegment, Sequence, note_record};
use crate::error::LogError;
use crate::format::{
    BadSuperblock, FramePlace, LogId, PutRecord, Record, SegmentRow, SummaryRow, Superblock,
    VERSION, decode_object, decode_summary, encode_row,
};
use crate::frame_reader::FrameReader;
use crate::index::Index;
use crate::open_scan::{OpenScan, scan_open};
use crate::segment_table::{Limits, SegmentTable};
use crate::{Damage, Found, Lsn, RecoveryReport};

/// Numbers of records that an opening leaves out, so that a number that was lost with a disk that
/// lies is not given again to something else.
const LSN_STEP_MASK: u64 = u32::MAX as u64;

/// Numbers beyond are not opened: there have to be enough left.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// What a recovery gives.
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    pub(crate) found: Vec<Found>,
    pub(crate) report: RecoveryReport,
}

/// An object on its way to the list of those that live.
struct Candidate {
    lsn: Lsn,
    segment: u64,
    frame: u64,
    object: FileMeta,
}

/// A recovery under way.
struct Recovery {
    table: SegmentTable,
    index: Index,
    candidates: Vec<Candidate>,
    lsn_max: Lsn,
    report: RecoveryReport,
}

/// Opens the log on a device, or makes one with the identity `new_log`.
pub(crate) fn recover(
    mut device: Box<dyn Device>,
    limits: Limits,
    new_log: LogId,
) -> Result<Recovered, LogError> {
    let there = segments_of(&mut *device)?;
    let (superblock, slot) = read_superblocks(&mut *device, there.is_empty(), new_log)?;
    let next_lsn = superblock.next_lsn;
    let table = SegmentTable::new(device, limits, superblock, slot);
    let mut recovery = Recovery {
        table,
        index: Index::default(),
        candidates: Vec::new(),
        lsn_max: next_lsn,
        report: RecoveryReport::default(),
    };
    recovery.match_files(&there);
    let rows: Vec<SegmentRow> = recovery.table.rows.values().copied().collect();
    recovery.report.segments = rows.len() as u64;
    let mut open = None;
    for row in rows {
        match row.end {
            Some(end) => recovery.read_sealed(&row, end)?,
            None => open = Some(recovery.read_open(&row)?),
        }
    }
    recovery.finish(open, &there)
}

fn segments_of(device: &mut dyn Device) -> Result<BTreeMap<u64, u64>, LogError> {
    let name = device.superblock_name(0);
    let found = device.segments().map_err(LogError::io("read", name))?;
    Ok(found.into_iter().map(|segment| (segment.number, segment.bytes)).collect())
}

/// The newer superblock, and the slot of the other one.
fn read_superblocks(
    device: &mut dyn Device,
    is_empty: bool,
    new_log: LogId,
) -> Result<(Superblock, usize), LogError> {
    let mut newest: Option<(Superblock, usize)> = None;
    for slot in 0..SUPERBLOCKS {
        let place = device.superblock_name(slot);
        let bytes = device.read_superblock(slot).map_err(LogError::io("read", place.clone()))?;
        match Superblock::decode(&bytes) {
            Ok(superblock) => {
                let other = newest.as_ref().map(|(other, _)| (other.log, other.generation));
                if other.is_some_and(|(log, _)| log != superblock.log) {
                    let what = "the two superblocks are of different logs";
                    return Err(LogError::Corrupt { place, offset: 0, what });
                }
                if other.is_none_or(|(_, generation)| generation < superblock.generation) {
                    newest = Some((superblock, 1 - slot));
                }
            }
            Err(BadSuperblock::Version(found)) => {
                return Err(LogError::Version { place, found, known: VERSION });
            }
            Err(BadSuperblock::Absent | BadSuperblock::Damaged) => {}
        }
    }
    // Both are written before the first segment is made.
    let what = "both superblocks are damaged or missing, and there are segments";
    let corrupt = LogError::Corrupt { place: device.superblock_name(0), offset: 0, what };
    let fresh = Superblock { log: new_log, next_segment: 1, ..Superblock::default() };
    newest.or_else(|| is_empty.then_some((fresh, 0))).ok_or(corrupt)
}

impl Recovery {
    fn damage(&mut self, segment: u64, offset: u64, what: &'static str) {
        let place = self.table.device.segment_name(segment);
        self.report.damaged.push(Damage { place, offset, object: None, what });
    }

    /// Compares the rows with the files that are there.
    fn match_files(&mut self, there: &BTreeMap<u64, u64>) {
        // A segment that was made and never named is removed. Its number is not given again: the
        // checksums of what was written to it would match in the next one.
        let last = there.keys().next_back().copied().unwrap_or(0);
        self.table.next_segment = self.table.next_segment.max(last.saturating_add(1));
        let rows: Vec<SegmentRow> = self.table.rows.values().copied().collect();
        for row in rows {
            match there.get(&row.number) {
                None => {
                    self.damage(row.number, 0, "the segment is missing, and what it held is lost");
                    self.table.rows.remove(&row.number);
                }
                Some(bytes) => {
                    if let Some(row) = self.table.rows.get_mut(&row.number) {
                        row.bytes = bytes - bytes % BLOCK_BYTES;
                    }
                }
            }
        }
    }

    /// Takes in the records of a segment that is not written any more.
    fn read_sealed(&mut self, row: &SegmentRow, end: u64) -> Result<(), LogError> {
        if let Some(rows) = self.read_summary(row, end)? {
            for SummaryRow { frame, record } in rows {
                self.note(row.number, frame, &record);
            }
            return Ok(());
        }
        self.damage(row.number, end, "the summary is damaged: the segment was read instead");
        let (log, bytes) = (self.table.log, end.min(row.bytes));
        let mut reader = FrameReader::new(&mut *self.table.device, log, row.number, bytes);
        let (mut frames, mut gaps, mut position) = (Vec::new(), Vec::new(), 0);
        while let Some(frame) = reader.next(position, 0)? {
            if frame.offset > position {
                gaps.push(position);
            }
            position = frame.end();
            frames.push(frame);
        }
        self.report.read_bytes += reader.read_bytes;
        if position < end {
            gaps.push(position);
        }
        for gap in gaps {
            self.damage(row.number, gap, "records are damaged, and what they held is lost");
        }
        for frame in frames {
            frame.records.iter().for_each(|it| self.note(row.number, frame.offset, it));
        }
        Ok(())
    }

    /// The rows of a summary; `None` where it is damaged.
    fn read_summary(
        &mut self,
        row: &SegmentRow,
        end: u64,
    ) -> Result<Option<Vec<SummaryRow>>, LogError> {
        let place = FramePlace { log: self.table.log, segment: row.number, offset: end };
        if end.checked_add(row.summary_bytes).is_none_or(|used| used > row.bytes) {
            return Ok(None);
        }
        let log = self.table.log;
        let mut reader = FrameReader::new(&mut *self.table.device, log, row.number, row.bytes);
        let mut buffer = AlignedBuffer::default();
        reader.read(end, row.summary_bytes, &mut buffer)?;
        self.report.read_bytes += row.summary_bytes;
        let rows = decode_summary(place, &buffer);
        let is_sane = |it: &SummaryRow| match &it.record {
            Record::Put(put) => lies_within(it.frame, put, end),
            Record::Dead(_) => it.frame < end,
        };
        Ok(rows.filter(|rows| rows.iter().all(is_sane)))
    }

    /// Takes in the records of the segment that was written last.
    fn read_open(&mut self, row: &SegmentRow) -> Result<(OpenSegment, OpenScan), LogError> {
        let log = self.table.log;
        let mut reader = FrameReader::new(&mut *self.table.device, log, row.number, row.bytes);
        let scan = scan_open(&mut reader)?;
        self.report.read_bytes += reader.read_bytes;
        self.report.torn_records += scan.torn_records;
        for gap in &scan.damaged {
            self.damage(row.number, *gap, "records are damaged, and what they held is lost");
        }
        let mut rows = Vec::new();
        let mut records = 0;
        for frame in &scan.frames {
            for record in &frame.records {
                encode_row(frame.offset, record, &mut rows);
                self.note(row.number, frame.offset, record);
            }
            records += frame.head.records;
        }
        let (number, bytes, position) = (row.number, row.bytes, scan.end);
        // Which of its blocks were written is not known.
        let was_used = false;
        Ok((OpenSegment { number, bytes, position, rows, records, was_used }, scan))
    }

    fn note(&mut self, segment: u64, frame: u64, record: &Record) {
        let lsn = match record {
            Record::Put(put) => put.lsn,
            Record::Dead(dead) => dead.lsn,
        };
        self.lsn_max = self.lsn_max.max(lsn);
        if let Record::Put(put) = record {
            let Some(object) = decode_object(put) else {
                let place = self.table.device.segment_name(segment);
                let what = "the description of the object cannot be read";
                let object = Some((put.id, lsn));
                self.report.damaged.push(Damage { place, offset: frame, object, what });
                return;
            };
            self.candidates.push(Candidate { lsn, segment, frame, object });
        }
        note_record(segment, frame, record, &mut self.index);
    }

    /// Makes durable what was found, and the log ready to be appended to.
    fn finish(
        mut self,
        open: Option<(OpenSegment, OpenScan)>,
        there: &BTreeMap<u64, u64>,
    ) -> Result<Recovered, LogError> {
        let lsn = (self.lsn_max | LSN_STEP_MASK).saturating_add(1);
        let batch = open.as_ref().map_or(1, |(_, scan)| scan.batch_max.saturating_add(2));
        if lsn.max(batch).max(self.table.next_segment) > NUMBER_MAX {
            let place = self.table.device.superblock_name(0);
            let what = "the numbers of records, batches or segments are used up";
            return Err(LogError::Corrupt { place, offset: 0, what });
        }
        if let Some((open, scan)) = &open {
            self.make_durable(open.number, scan)?;
        }
        self.table.publish(lsn)?;
        for number in there.keys().filter(|number| !self.table.rows.contains_key(number)) {
            let name = self.table.device.segment_name(*number);
            self.table.device.remove(*number).map_err(LogError::io("remove", name))?;
        }
        self.index.settle();
        let index = &self.index;
        let living = self.candidates.into_iter();
        let living = living.filter(|it| index.lives_at(it.lsn, it.segment, it.frame));
        let found = living.map(|it| Found { object: it.object, lsn: it.lsn }).collect();
        let (open, sequence) = (open.map(|(open, _)| open), Sequence { lsn, batch, index: 0 });
        let mut engine = Engine::new(self.table, self.index, open, sequence);
        engine.confirm()?;
        Ok(Recovered { engine, found, report: self.report })
    }

    /// Syncs the open segment. What a cache holds after a sync that failed is not on the disk and
    /// would not be written again, so the last batch is.
    fn make_durable(&mut self, segment: u64, scan: &OpenScan) -> Result<(), LogError> {
        if self.table.device.capabilities().reads_cache {
            let mut buffer = AlignedBuffer::default();
            let mut offset = scan.last_batch;
            while offset < scan.end {
                let bytes = (scan.end - offset).min(crate::format::CHUNK_BYTES);
                let (log, end) = (self.table.log, scan.end);
                let mut reader = FrameReader::new(&mut *self.table.device, log, segment, end);
                reader.read(offset, bytes, &mut buffer)?;
                self.table.write(segment, offset, &buffer)?;
                offset += bytes;
            }
        }
        self.table.sync(segment)
    }
}

fn lies_within(frame: u64, record: &PutRecord, end: u64) -> bool {
    let start = frame.checked_add(record.offset);
    let payload_end = start.and_then(|start| start.checked_add(record.bytes));
    let is_aligned = frame.is_multiple_of(BLOCK_BYTES);
    is_aligned && payload_end.is_some_and(|payload_end| payload_end <= end)
}
