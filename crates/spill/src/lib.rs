//! The spill tier: where bytes live when they do not fit memory.
//!
//! An object that does not fit the memory any more is written to one file, and read back when
//! a client asks for it. Its life in the tier:
//!
//! ```text
//! write: temporary name, header, payload, trailer -> rename        (complete or not there)
//! read:  header and trailer checked, CRC32C of payload checked -> bytes in memory, or Corrupt
//! scan:  after a restart: every complete file of the same store; temporary ones are removed, and
//!        what cannot be read or removed is skipped
//! ```
//!
//! * [`SpillTier`]: what the daemon needs of a tier.
//! * [`tier::FileTier`]: one file for each object, in a folder of its own store, with a budget.
//! * [`folder`]: the lock on such a folder, and the end of those that dead stores left.
//! * [`format`]: the bytes of such a file (`docs/formats/spill.md`).
//! * [`disk`]: what the tier asks of a file system, so that tests can make them fail.
//!
//! Deliberately absent: durability. A store lives in memory and ends with the machine; the files
//! hold no more than what the memory would have held, so nothing here waits for a disk to confirm.
//!
//! ```
//! use std::os::fd::AsFd;
//!
//! use plasmon_spill::{FileMeta, FileTier, Incarnation, SpillTier, Place, TierConfig};
//! use plasmon_proto::ObjectId;
//! use plasmon_proto::object::{Attributes, Sizes, Traits};
//!
//! let folder = tempfile::tempdir()?;
//! let config = TierConfig { folder: folder.path().to_owned(), store: 1, bytes_max: None };
//! let mut tier = FileTier::open(&config)?;
//!
//! // The memory that holds the object; a store gives an extent here.
//! let memory = tempfile::tempfile()?;
//! rustix::io::pwrite(&memory, b"hello", 0)?;
//! let object = FileMeta {
//!     id: ObjectId::new([7; 20]),
//!     serial: 1,
//!     sizes: Sizes { data: 5, ..Sizes::default() },
//!     traits: Traits::default(),
//!     attributes: Attributes::default(),
//!     created_ms: 0,
//!     construct_ms: 0,
//! };
//! tier.write(&object, Place { file: memory.as_fd(), offset: 0 })?;
//!
//! let mut bytes = Vec::new();
//! let which = Incarnation { id: object.id, serial: object.serial };
//! tier.read(which, 64, &mut |_, piece| Ok(bytes.extend_from_slice(piece)))?;
//! assert_eq!(bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use plasmon_proto::object::{ObjectMeta, Sizes, Traits};
use plasmon_proto::{Attributes, ObjectId};
use serde::{Deserialize, Serialize};

pub mod disk;
pub mod folder;
pub mod format;
pub mod tier;

pub use folder::FolderLock;
pub use tier::{FileTier, TierConfig};

/// What a tier remembers of an object besides its bytes, in the order in which its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The id.
    pub id: ObjectId,
    /// Its incarnation.
    pub serial: u64,
    /// The sizes of its parts, which follow each other.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
    /// Its attributes.
    pub attributes: Attributes,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// How long it took to be sealed, in milliseconds.
    pub construct_ms: u64,
}

impl FileMeta {
    /// The description of an object.
    pub fn new(id: ObjectId, serial: u64, meta: ObjectMeta, attributes: Attributes) -> Self {
        let ObjectMeta { sizes, traits, created_ms, construct_ms } = meta;
        Self { id, serial, sizes, traits, attributes, created_ms, construct_ms }
    }

    /// Sizes, traits and times.
    pub fn meta(&self) -> ObjectMeta {
        let Self { sizes, traits, created_ms, construct_ms, .. } = *self;
        ObjectMeta { sizes, traits, created_ms, construct_ms }
    }
}

/// One incarnation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// The id.
    pub id: ObjectId,
    /// The serial.
    pub serial: u64,
}

/// What a tier found after a restart.
#[derive(Debug, Default)]
pub struct Scan {
    /// The objects.
    pub objects: Vec<FileMeta>,
    /// Files that could not be read or removed; they are left where they are.
    pub skipped: Vec<Error>,
}

/// A range of an open file (an extent's memory): where an object's bytes come from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Where the object starts in it.
    pub offset: u64,
}

/// Where an object's bytes go: pieces of it at distances from its start.
pub type WritePiece<'a> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 'a;

/// What the daemon needs of a tier.
pub trait SpillTier: Send {
    /// Writes an object; afterwards it is there whole, or not at all.
    fn write(&mut self, object: &FileMeta, from: Place<'_>) -> Result<(), Error>;
    /// Reads an object back, checked against its checksum. `footprint_bytes` is the room that was
    /// made for it, and must be what [`Sizes::footprint`] says. `write` takes the bytes piece by
    /// piece, each with its distance from the object's start; they are not to be believed before
    /// this returns.
    fn read(
        &mut self,
        which: Incarnation,
        footprint_bytes: u64,
        write: &mut WritePiece<'_>,
    ) -> Result<(), Error>;
    /// Opens an object's file for others to read. Its description is checked, its length too, and
    /// its bytes are not: a reader takes what it wants of them. Also says where they start.
    fn open(&mut self, which: Incarnation) -> Result<(OwnedFd, u64), Error>;
    /// Forgets an object. Forgetting what is not there is no error.
    fn remove(&mut self, which: Incarnation) -> Result<(), Error>;
    /// Every object that is there. Fails only when nothing can be said about any of them.
    fn scan(&mut self) -> Result<Scan, Error>;
    /// Bytes that the tier occupies.
    fn used_bytes(&self) -> u64;
    /// Forgets everything: the store ends.
    fn clear(&mut self) -> Result<(), Error>;
}

/// Why a tier could not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The budget or the file system has no room: free something, or do without.
    #[error("the spill tier has no room for {wanted_bytes} bytes ({free_bytes} are free)")]
    Full {
        /// What the object needs.
        wanted_bytes: u64,
        /// What the budget leaves; 0 when the file system itself is full.
        free_bytes: u64,
    },
    /// The bytes are not what was written: the object is lost for certain.
    #[error("{}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The object is not in the tier, for certain: its folder is there, and its file is not.
    #[error("{}: no such object in the spill tier", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The operating system refused. Nothing is known about the object: try again.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
