//! Garbage collection: a segment of which less than half lives is copied, and then removed.
//!
//! A copied record keeps its number, so that it counts as what it was, wherever it lies. Dead
//! records are copied, too, as long as a put that they end lies in another segment. A segment is
//! removed when its copies were synced and both superblocks do not name it any more.

use std::collections::{BTreeSet, HashMap};

use plasmon_proto::ObjectId;
use plasmon_shm::checksum;

use crate::buffer::AlignedBuffer;
use crate::device::Device;
use crate::engine::Engine;
use crate::error::LogError;
use crate::format::{CHUNK_BYTES, PutRecord, Record, SegmentRow};
use crate::frame_builder::Described;
use crate::frame_reader::{Frame, FrameReader, read_chunk};
use crate::payload::Payload;

/// A segment is copied if less of it lives.
const LIVE_PERMILLE_MAX: u64 = 500;

/// And only while all segments but the open one take more than this of what lives: the longer a
/// segment waits, the less of it is left to copy. Cleaned as soon as half of them is dead, objects
/// that are deleted at random are written twice; so, a quarter more than once.
const USED_PERMILLE_MAX: u64 = 1900;

/// Segments that a budget keeps free for puts, whatever the above says.
const FREE_SEGMENTS_MIN: u64 = 4;

/// The same as [`LIVE_PERMILLE_MAX`] while puts are refused.
const PRESSED_PERMILLE_MAX: u64 = 900;

/// A segment that is copied.
#[derive(Debug)]
struct Job {
    segment: u64,
    /// Where the next frame begins.
    position: u64,
    end: u64,
    /// Puts of each id that were seen in it.
    puts: HashMap<ObjectId, u32>,
}

/// How a step ended.
enum Step {
    Done,
    NoRoom,
    Stuck,
}

/// Garbage collection of a log.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    job: Option<Job>,
    /// Segments that cannot be copied because something in them is damaged. They stay.
    stuck: BTreeSet<u64>,
    /// Whether puts were refused: segments are copied of which more lives.
    pub(crate) is_pressed: bool,
    /// Whether the last step ended because there was no room for a copy.
    has_no_room: bool,
}

impl Cleaner {
    /// Segments in which something was damaged may be copied by now: what could not be read may
    /// have ended, or have been written again.
    pub(crate) fn try_again(&mut self) {
        self.stuck.clear();
    }

    /// Whether nothing can be copied that makes room.
    pub(crate) fn is_at_its_end(&self, engine: &Engine) -> bool {
        self.is_pressed && (self.has_no_room || self.next_job(engine).is_none())
    }

    /// Does about so many bytes of reading and writing. Returns whether more is due.
    pub(crate) fn step(&mut self, engine: &mut Engine, bytes: u64) -> Result<bool, LogError> {
        let mut done = 0;
        self.has_no_room = false;
        while done < bytes {
            let Some(mut job) = self.job.take().or_else(|| self.next_job(engine)) else {
                return Ok(false);
            };
            match job.copy_some(engine, bytes - done, &mut done)? {
                Step::Done if job.position < job.end => self.job = Some(job),
                Step::Done if job.finish(engine)? => {}
                Step::NoRoom => {
                    self.job = Some(job);
                    self.has_no_room = true;
                    return Ok(false);
                }
                Step::Done | Step::Stuck => {
                    self.stuck.insert(job.segment);
                }
            }
        }
        Ok(self.job.is_some() || self.next_job(engine).is_some())
    }

    /// The segment of which the smallest part lives, if that is little enough.
    fn next_job(&self, engine: &Engine) -> Option<Job> {
        let open = engine.open_segment();
        let rows = engine.table.rows.values();
        let candidates = rows.filter(|row| Some(row.number) != open && row.end.is_some());
        let candidates = candidates.filter(|row| !self.stuck.contains(&row.number));
        let permille = |row: &SegmentRow| {
            let live = engine.index.account(row.number).live_bytes;
            (u128::from(live) * 1000 / u128::from(row.bytes.max(1))) as u64
        };
        // What is only not packed well is not copied again and again.
        let has_dead = |row: &SegmentRow| {
            let account = engine.index.account(row.number);
            account.objects < account.puts
        };
        let is_roomy = !self.is_pressed && is_roomy(engine);
        let is_worth_it = |row: &SegmentRow| match permille(row) {
            // Nothing has to be copied.
            0 => true,
            _ if is_roomy => false,
            live if live < LIVE_PERMILLE_MAX => true,
            live => self.is_pressed && live < PRESSED_PERMILLE_MAX && has_dead(row),
        };
        let victim = candidates.filter(|row| is_worth_it(row)).min_by_key(|row| permille(row))?;
        let (segment, end) = (victim.number, victim.end?);
        Some(Job { segment, position: 0, end, puts: HashMap::new() })
    }
}

/// Whether the dead may stay for now.
fn is_roomy(engine: &Engine) -> bool {
    let limits = engine.table.limits;
    let used = engine.table.used_bytes();
    let open = engine.open_segment().and_then(|open| engine.table.rows.get(&open));
    let closed = used - open.map_or(0, |row| row.bytes);
    let is_within = u128::from(closed) * 1000
        <= u128::from(engine.index.live_bytes()) * u128::from(USED_PERMILLE_MAX);
    let free = limits.bytes_max.saturating_sub(used);
    is_within && free >= limits.segment_bytes.saturating_mul(FREE_SEGMENTS_MIN)
}

impl Job {
    /// Copies frames of about so many bytes.
    fn copy_some(
        &mut self,
        engine: &mut Engine,
        bytes: u64,
        done: &mut u64,
    ) -> Result<Step, LogError> {
        let Some((frames, read_bytes)) = self.read_frames(engine, bytes)? else {
            return Ok(Step::Stuck);
        };
        *done += read_bytes;
        for frame in frames {
            match self.copy_frame(engine, &frame, done) {
                Ok(()) => self.position = frame.end(),
                // The frame is copied again from its start: a second copy does no harm.
                Err(LogError::Full { .. }) => return Ok(Step::NoRoom),
                Err(LogError::Corrupt { .. }) => return Ok(Step::Stuck),
                Err(LogError::Io { action: "read", .. }) => return Ok(Step::Stuck),
                Err(error) => return Err(error),
            }
        }
        Ok(Step::Done)
    }

    /// The next frames; `None` where one is damaged.
    fn read_frames(
        &self,
        engine: &mut Engine,
        bytes: u64,
    ) -> Result<Option<(Vec<Frame>, u64)>, LogError> {
        let log = engine.table.log;
        let device = &mut *engine.table.device;
        let mut reader = FrameReader::new(device, log, self.segment, self.end);
        let (mut frames, mut position) = (Vec::new(), self.position);
        while position < self.end && position - self.position < bytes {
            let frame = match reader.next(position, 0) {
                Ok(Some(frame)) if frame.offset == position => frame,
                Ok(_) | Err(LogError::Io { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            position = frame.end();
            frames.push(frame);
        }
        Ok(Some((frames, reader.read_bytes)))
    }

    fn copy_frame(
        &mut self,
        engine: &mut Engine,
        frame: &Frame,
        done: &mut u64,
    ) -> Result<(), LogError> {
        let mut puts: HashMap<ObjectId, u32> = HashMap::new();
        for record in &frame.records {
            match record {
                Record::Put(put) => {
                    *puts.entry(put.id).or_default() += 1;
                    if engine.index.lives_at(put.lsn, self.segment, frame.offset) {
                        self.copy_put(engine, frame, put)?;
                        *done += 2 * put.bytes;
                    }
                }
                Record::Dead(dead) => {
                    let removed = [&self.puts, &puts].map(|it| it.get(&dead.id).unwrap_or(&0));
                    let removed = removed.into_iter().sum();
                    if engine.index.needs_dead(dead, removed) {
                        engine.copy_dead(*dead)?;
                    }
                }
            }
        }
        for (id, count) in puts {
            *self.puts.entry(id).or_default() += count;
        }
        Ok(())
    }

    fn copy_put(
        &self,
        engine: &mut Engine,
        frame: &Frame,
        put: &PutRecord,
    ) -> Result<(), LogError> {
        let PutRecord { id, bytes, .. } = *put;
        let object = Described { id, bytes, description: put.description.clone() };
        let (log, segment, end) = (engine.table.log, self.segment, self.end);
        let mut buffer = AlignedBuffer::default();
        let mut fill =
            |device: &mut dyn Device, at: u64, into: &mut [u8]| -> Result<(), LogError> {
                let start = frame.offset + put.offset + at;
                let mut reader = FrameReader::new(device, log, segment, end);
                let chunk = read_chunk(&mut reader, start, into.len() as u64, &mut buffer)?;
                if put.chunk_crc(at / CHUNK_BYTES) == Some(checksum::crc32c(chunk)) {
                    into.copy_from_slice(chunk);
                    return Ok(());
                }
                let what = "the payload of an object does not match its checksum";
                let place = device.segment_name(segment);
                Err(LogError::Corrupt { place, offset: start, what })
            };
        engine.copy(put.lsn, &object, &mut Payload::Chunks(&mut fill))
    }

    /// Removes the segment if all that lives in it was copied. Returns whether it was.
    fn finish(&self, engine: &mut Engine) -> Result<bool, LogError> {
        // The copies are the only ones then: damage to them must not be taken for a loss of power.
        engine.confirm()?;
        let account = engine.index.account(self.segment);
        let puts: u64 = self.puts.values().map(|count| u64::from(*count)).sum();
        // Something was not seen that counts: it was damaged when the log was opened, or is now.
        if account.objects > 0 || puts != account.puts {
            return Ok(false);
        }
        engine.remove_segment(self.segment, &self.puts)?;
        Ok(true)
    }
}
