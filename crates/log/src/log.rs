//! An open log: appending, reading, garbage collection and scrubbing together.

use plasmon_proto::ObjectId;
use plasmon_shm::checksum;
use plasmon_spill::{FileMeta, WritePiece};

use crate::ahead::Ahead;
use crate::buffer::AlignedBuffer;
use crate::check::{Checksums, Piece, check_piece, matches};
use crate::cleaner::Cleaner;
use crate::dax_device::{self, DaxDevice, Medium};
use crate::device::{BLOCK_BYTES, Device};
use crate::engine::Engine;
use crate::error::LogError;
use crate::file_device::{FileDevice, has_superblock};
use crate::format::{LogId, PutRecord, chunk_count, describe};
use crate::frame_builder::Described;
use crate::frame_reader::{FrameReader, read_chunk};
use crate::index::RecordPlace;
use crate::payload::Payload;
use crate::recovery::recover;
use crate::scrubber::Scrubber;
use crate::segment_table::{Limits, Purpose};
use crate::{DeviceKind, LogConfig, LogStatus, Lsn, ObjectLog, Opened, ScrubProgress, Source};

/// What is said of an object that cannot be read.
const DAMAGED: &str = "the payload of an object does not match its checksum";

/// The smallest segment.
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// How many segments a log with a budget has at least, so that there is room to copy one.
const SEGMENTS_MIN: u64 = 8;

/// Opens the log in a folder, or makes one.
pub fn open(config: &LogConfig) -> Result<Opened, LogError> {
    let device = device(config)?;
    open_on(device, config)
}

/// Opens the log that is in a folder, and makes none: for a store that had one. Its disk may be
/// away, and what a new log took would be missing when it is back.
pub fn open_again(config: &LogConfig) -> Result<Opened, LogError> {
    if !has_superblock(&config.folder) {
        let source = std::io::ErrorKind::NotFound.into();
        let place = config.folder.display().to_string();
        return Err(LogError::Io { action: "find the log of this store", place, source });
    }
    open(config)
}

/// The device of a configuration.
fn device(config: &LogConfig) -> Result<Box<dyn Device>, LogError> {
    let folder = &config.folder;
    let files = || FileDevice::open(folder, config.power_loss_protection);
    Ok(match config.device {
        DeviceKind::File => Box::new(files()?),
        DeviceKind::Dax => Box::new(DaxDevice::open(folder, dax_device::medium_of_environment())?),
        DeviceKind::Auto => match DaxDevice::open(folder, Medium::Persistent) {
            Ok(device) => Box::new(device),
            Err(LogError::NoDevice { .. }) => Box::new(files()?),
            Err(error) => return Err(error),
        },
    })
}

/// Opens the log on a device, or makes one. Of the configuration the sizes count.
pub fn open_on(device: Box<dyn Device>, config: &LogConfig) -> Result<Opened, LogError> {
    let bytes_max = config.bytes_max.unwrap_or(u64::MAX);
    let segment_bytes = config.segment_bytes.min(bytes_max / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN);
    let segment_bytes = segment_bytes - segment_bytes % BLOCK_BYTES;
    let recovered = recover(device, Limits { segment_bytes, bytes_max }, LogId(random_id()?))?;
    let (engine, found, recovery) = (recovered.engine, recovered.found, recovered.report);
    let (cleaner, ahead, scrubber) = Default::default();
    Ok(Opened { log: Box::new(Log { engine, cleaner, ahead, scrubber }), found, recovery })
}

fn random_id() -> Result<[u8; 16], LogError> {
    let mut id = [0; 16];
    let mut done = 0;
    while done < id.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut id[done..], flags);
        let name = "the system's random numbers".to_owned();
        done += count.map_err(|error| LogError::io("read", name)(error.into()))?;
    }
    Ok(id)
}

/// An open log.
#[derive(Debug)]
struct Log {
    engine: Engine,
    cleaner: Cleaner,
    ahead: Ahead,
    scrubber: Scrubber,
}

impl Log {
    /// The record of an object with several chunks, which has their checksums.
    fn record(&mut self, lsn: Lsn, place: &RecordPlace) -> Result<Option<PutRecord>, LogError> {
        let log = self.engine.table.log;
        let end = self.engine.end_of(place.segment);
        let device = &mut *self.engine.table.device;
        let mut reader = FrameReader::new(device, log, place.segment, end);
        let frame = reader.frame_at(place.frame)?;
        let is_this = |put: &&PutRecord| put.lsn == lsn && put.crc == place.crc;
        let record = frame.as_ref().and_then(|frame| frame.puts().find(is_this));
        Ok(record.filter(|put| put.bytes == place.bytes).cloned())
    }

    /// The payload of a record of one chunk; `None` where it is damaged.
    fn read_small(
        &mut self,
        place: &RecordPlace,
        write: &mut WritePiece<'_>,
    ) -> Result<bool, LogError> {
        let log = self.engine.table.log;
        let device = &mut *self.engine.table.device;
        let mut reader = FrameReader::new(device, log, place.segment, u64::MAX);
        let mut buffer = AlignedBuffer::default();
        let chunk = read_chunk(&mut reader, place.payload, place.bytes, &mut buffer)?;
        if checksum::crc32c(chunk) != place.crc {
            return Ok(false);
        }
        write(0, chunk).map_err(LogError::Payload)?;
        Ok(true)
    }

    fn read_large(
        &mut self,
        lsn: Lsn,
        place: &RecordPlace,
        write: &mut WritePiece<'_>,
    ) -> Result<bool, LogError> {
        let Some(record) = self.record(lsn, place)? else { return Ok(false) };
        let log = self.engine.table.log;
        let device = &mut *self.engine.table.device;
        let mut reader = FrameReader::new(device, log, place.segment, u64::MAX);
        reader.payload(place.frame, &record, &mut |at, chunk| {
            write(at, chunk).map_err(LogError::Payload)
        })
    }

    /// Ends of objects leave room to copy what lives, unless that makes no room any more.
    fn purpose_of_ends(&self) -> Purpose {
        if self.cleaner.is_at_its_end(&self.engine) { Purpose::Copy } else { Purpose::End }
    }

    fn corrupt(&self, place: &RecordPlace, what: &'static str) -> LogError {
        let (name, offset) = (self.engine.table.device.segment_name(place.segment), place.payload);
        LogError::Corrupt { place: name, offset, what }
    }
}

impl ObjectLog for Log {
    fn put(&mut self, object: &FileMeta, from: Source<'_>) -> Result<Lsn, LogError> {
        let id = object.id;
        let bad = |what| LogError::BadObject { id, what };
        let bytes = object.sizes.total().ok_or(bad("its sizes exceed their limits"))?;
        let valid = object.attributes.check().is_ok();
        let description = describe(object).filter(|_| valid);
        let description = description.ok_or(bad("its attributes exceed their limits"))?;
        let described = Described { id, bytes, description };
        let purpose = match from {
            Source::Note => self.purpose_of_ends(),
            Source::File(_) | Source::Ended(..) | Source::Bytes(_) => Purpose::Put,
        };
        let put = self.engine.put(&described, purpose, &mut Payload::from(from));
        self.cleaner.is_pressed = matches!(put, Err(LogError::Full { .. }));
        put
    }

    fn dead(&mut self, id: &ObjectId, of: Lsn) -> Result<Lsn, LogError> {
        let dead = self.engine.dead(*id, of, self.purpose_of_ends());
        self.cleaner.is_pressed |= matches!(dead, Err(LogError::Full { .. }));
        dead
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.engine.sync()
    }

    fn read(
        &mut self,
        lsn: Lsn,
        footprint_bytes: u64,
        write: &mut WritePiece<'_>,
    ) -> Result<(), LogError> {
        let place = self.engine.index.place(lsn).ok_or(LogError::Absent { lsn })?;
        let align = plasmon_proto::limits::OBJECT_ALIGN;
        if place.bytes.next_multiple_of(align).max(align) != footprint_bytes {
            return Err(self.corrupt(&place, "the record is of an object of another size"));
        }
        let is_whole = if chunk_count(place.bytes) <= 1 {
            self.read_small(&place, write)?
        } else {
            self.read_large(lsn, &place, write)?
        };
        if is_whole { Ok(()) } else { Err(self.corrupt(&place, DAMAGED)) }
    }

    fn check(
        &mut self,
        lsn: Lsn,
        from: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>, LogError> {
        let place = self.engine.index.place(lsn).ok_or(LogError::Absent { lsn })?;
        let record = match chunk_count(place.bytes) {
            0 | 1 => None,
            _ => Some(self.record(lsn, &place)?.ok_or_else(|| self.corrupt(&place, DAMAGED))?),
        };
        let checksums = record.as_ref().map_or(Checksums::One(place.crc), Checksums::Table);
        match check_piece(&mut self.engine, &place, &checksums, from, take)? {
            Piece::Until(at) => Ok((at < place.bytes).then_some(at)),
            Piece::Damaged => Err(self.corrupt(&place, DAMAGED)),
        }
    }

    fn matches(&mut self, lsn: Lsn, from: Source<'_>) -> Result<bool, LogError> {
        let place = self.engine.index.place(lsn).ok_or(LogError::Absent { lsn })?;
        matches(&mut *self.engine.table.device, &place, &mut Payload::from(from))
    }

    fn collect(&mut self, bytes: u64) -> Result<bool, LogError> {
        if let Some(why) = self.engine.failed() {
            return Err(LogError::Failed { why: why.to_owned() });
        }
        let is_due = self.cleaner.step(&mut self.engine, bytes)?;
        // A put that waits for room does not wait for what is done ahead.
        if !is_due && !self.cleaner.is_pressed {
            self.ahead.make_next(&mut self.engine);
        }
        Ok(is_due)
    }

    fn confirm(&mut self) -> Result<(), LogError> {
        if self.engine.is_unconfirmed() { self.engine.confirm() } else { Ok(()) }
    }

    fn prepare(&mut self) -> Result<bool, LogError> {
        if self.engine.failed().is_some() { Ok(false) } else { self.ahead.write(&mut self.engine) }
    }

    fn scrub(&mut self, bytes: u64) -> Result<ScrubProgress, LogError> {
        let progress = self.scrubber.step(&mut self.engine, bytes)?;
        if progress.finished {
            // What was damaged may have been replaced since.
            self.cleaner.try_again();
        }
        Ok(progress)
    }

    fn status(&self) -> LogStatus {
        let Engine { table, index, .. } = &self.engine;
        LogStatus {
            used_bytes: table.used_bytes() + table.spare_bytes(),
            live_bytes: index.live_bytes(),
            written_bytes: table.written_bytes,
            put_bytes: self.engine.put_bytes(),
            segments: table.rows.len() as u64,
            objects: index.objects(),
            failed: self.engine.failed().map(str::to_owned),
            device: table.device.kind(),
        }
    }
}
