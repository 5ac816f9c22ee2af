//! The log of durable objects: where the bytes are that survive the power of the machine.
//!
//! An object is appended with its description and its payload; when the batch that it is in was
//! synced, it is there for ever, until a record says that it is dead.
//!
//! ```text
//! put, dead -> frame -> segment -> sync           (one for all that was appended before)
//! full segment -> summary -> superblocks          (the checkpoint: what lies where)
//! open: superblocks -> summaries -> scan of the one open segment -> objects, and what was lost
//! maintain: segments that are less than half alive are copied and removed, or written again
//! prepare: blocks are written before puts need them
//! scrub: everything is read and compared with its checksums
//! ```
//!
//! * [`open`]: the log in a folder; [`open_again`]: only if there is one; [`open_on`]: on any
//!   [`Device`].
//! * [`ObjectLog`]: what the daemon needs of it.
//! * [`format`]: the bytes (`docs/formats/log.md`).
//! * [`device`]: what the log asks of a disk; [`FileDevice`] are files, [`DaxDevice`] files on
//!   persistent memory.
//!
//! Deliberately absent: threads, clocks, and any retry of a sync that failed. A log that failed
//! takes nothing more until it is opened again.
//!
//! ```
//! use plasmon_log::{DeviceKind, LogConfig, Source, open};
//! use plasmon_proto::ObjectId;
//! use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
//! use plasmon_spill::FileMeta;
//!
//! let folder = tempfile::tempdir()?;
//! let config = LogConfig {
//!     folder: folder.path().to_owned(),
//!     device: DeviceKind::File,
//!     bytes_max: None,
//!     segment_bytes: 1 << 20,
//!     power_loss_protection: false,
//! };
//! let sizes = Sizes { data: 5, ..Sizes::default() };
//! let meta = ObjectMeta { sizes, ..ObjectMeta::default() };
//! let object = FileMeta::new(ObjectId::new([7; 20]), 0, meta, Attributes::default());
//! let mut log = open(&config)?.log;
//! log.put(&object, Source::Bytes(b"hello"))?;
//! log.sync()?;
//! drop(log);
//!
//! let mut again = open(&config)?;
//! let found = &again.found[0];
//! let mut bytes = Vec::new();
//! again.log.read(found.lsn, 64, &mut |_, piece| Ok(bytes.extend_from_slice(piece)))?;
//! assert_eq!((found.object.id, bytes), (object.id, b"hello".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

use std::path::PathBuf;

use plasmon_proto::ObjectId;
use plasmon_spill::{FileMeta, Place, WritePiece};

mod ahead;
mod buffer;
mod check;
mod cleaner;
pub mod dax_device;
pub mod device;
#[cfg(any(test, feature = "doubles"))]
pub mod doubles;
mod engine;
mod error;
pub mod file_device;
pub mod format;
mod frame_builder;
mod frame_reader;
mod index;
mod log;
mod open_scan;
mod payload;
mod recovery;
mod scrubber;
mod segment_table;
mod single_frame;
mod spares;
#[cfg(test)]
mod tests;

pub use buffer::AlignedBuffer;
pub use check::append_checksum;
pub use dax_device::DaxDevice;
pub use device::Device;
pub use error::LogError;
pub use file_device::FileDevice;
pub use log::{open, open_again, open_on};

/// The number of a record. It grows with every record and names it for ever.
pub type Lsn = u64;

/// An object that the log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its description; the serial in it is that of an earlier store and says nothing.
    pub object: FileMeta,
    /// Its record.
    pub lsn: Lsn,
}

/// A log that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The log.
    pub log: Box<dyn ObjectLog>,
    /// Every object in it.
    pub found: Vec<Found>,
    /// What opening it has shown.
    pub recovery: RecoveryReport,
}

/// On what a log lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// On what the folder's file system suggests.
    #[default]
    Auto,
    /// On files that are written and synced.
    File,
    /// On persistent memory that is mapped.
    Dax,
}

/// Where a log is and how large it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Its folder, which no other log uses.
    pub folder: PathBuf,
    /// On what it lies.
    pub device: DeviceKind,
    /// The most bytes of all segments together, `None` for as many as the file system takes.
    pub bytes_max: Option<u64>,
    /// Bytes of a segment; a larger object has one of its own.
    pub segment_bytes: u64,
    /// Whether the disk keeps what it has taken when the power goes. Segments are then filled with
    /// zeros when they are made, and a batch needs no sync.
    pub power_loss_protection: bool,
}

/// Where the payload of an object comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// From a file, such as an extent of a store.
    File(Place<'a>),
    /// So many bytes from a file, and the rest from memory.
    Ended(Place<'a>, u64, &'a [u8]),
    /// From memory.
    Bytes(&'a [u8]),
    /// Nothing. Such a record says that something has ended, so it may take the room that objects
    /// leave for that.
    Note,
}

/// What the daemon needs of a log.
pub trait ObjectLog: Send + std::fmt::Debug {
    /// Appends an object; it is not durable before [`Self::sync`]. A record of the same id that was
    /// appended before is superseded. Refuses with [`LogError::Full`] without harm.
    fn put(&mut self, object: &FileMeta, from: Source<'_>) -> Result<Lsn, LogError>;
    /// Appends that the record `of` of this id is dead, and every earlier one of the id. After
    /// [`LogError::Full`] it is to be tried once more when [`Self::collect`] has nothing to do.
    fn dead(&mut self, id: &ObjectId, of: Lsn) -> Result<Lsn, LogError>;
    /// Everything that was appended before is durable when this returns `Ok`. After an error the
    /// log has failed.
    fn sync(&mut self) -> Result<(), LogError>;
    /// Reads the payload of an object that was synced. Every piece is compared with its checksum
    /// before `write` gets it; when it fails, pieces that `write` got are right and not all.
    /// `footprint_bytes` is the room that was made, and must be what `Sizes::footprint` says.
    fn read(
        &mut self,
        lsn: Lsn,
        footprint_bytes: u64,
        write: &mut WritePiece<'_>,
    ) -> Result<(), LogError>;
    /// Reads some of an object's payload, from a byte on at which an earlier call stopped, and
    /// compares it with its checksums; `take` gets what is right. Returns where to go on, `None`
    /// when all of it is right.
    fn check(
        &mut self,
        lsn: Lsn,
        from: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>, LogError>;
    /// Whether these bytes are the payload of an object, as the checksum of its record says,
    /// whatever the record itself is like by now.
    fn matches(&mut self, lsn: Lsn, from: Source<'_>) -> Result<bool, LogError>;
    /// Garbage collection, at most about this many bytes of reading and writing. Returns whether
    /// more is due. To be called when there is nothing else to do, and after [`LogError::Full`].
    fn collect(&mut self, bytes: u64) -> Result<bool, LogError>;
    /// Shows that the last batch was synced, so that damage to it can be told from a loss of power:
    /// a write and a sync, unless that was done. To be called when nothing was asked of the log for
    /// a while, and before it is closed.
    fn confirm(&mut self) -> Result<(), LogError>;
    /// Garbage collection, and once nothing more is due the last batch is confirmed.
    fn maintain(&mut self, bytes: u64) -> Result<bool, LogError> {
        let is_due = self.collect(bytes)?;
        if !is_due {
            self.confirm()?;
        }
        Ok(is_due)
    }
    /// Writes zeros where later puts will write, some at a time, so that their syncs take less.
    /// Returns whether more are wanted. To be called when there has been nothing to do for a while.
    fn prepare(&mut self) -> Result<bool, LogError>;
    /// Reads on from where the last scrub stopped, at most about this many bytes.
    fn scrub(&mut self, bytes: u64) -> Result<ScrubProgress, LogError>;
    /// Figures.
    fn status(&self) -> LogStatus;
}

/// Figures of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Bytes of all segments, also of those that wait to be written.
    pub used_bytes: u64,
    /// Bytes in them of objects that live, with their descriptions.
    pub live_bytes: u64,
    /// Bytes that were written since the log was opened, copies and all.
    pub written_bytes: u64,
    /// Bytes of payload that were put since then.
    pub put_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Objects that live.
    pub objects: u64,
    /// Why the log takes nothing any more.
    pub failed: Option<String>,
    /// On what it lies.
    pub device: String,
}

/// What opening a log has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments.
    pub segments: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Records at the end that were not complete: their batch was not synced when the machine
    /// stopped, or they were damaged since.
    pub torn_records: u64,
    /// Places that are damaged. What was there is lost, or else is said to be whole.
    pub damaged: Vec<Damage>,
}

/// A damaged place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, or what stands for it.
    pub place: String,
    /// Where in it.
    pub offset: u64,
    /// An object that cannot be read there, or not after the next opening, and its record.
    pub object: Option<(ObjectId, Lsn)>,
    /// What is wrong.
    pub what: &'static str,
}

/// How far a scrub came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Whether it reached the end; the next one begins at the start.
    pub finished: bool,
    /// Places that are damaged.
    pub damaged: Vec<Damage>,
}
