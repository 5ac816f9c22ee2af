//! Files of the spill tier whose objects are in memory again.
//!
//! An object is immutable, so its file stays right after the object came back. It is kept: to spill
//! the object once more then takes no write, its memory is just dropped.
//!
//! ```text
//!     spilled --(restored)--> in memory, file kept --(chosen to go)--> hidden, looked for
//!        ^                        |          ^                               |
//!        |                        |          +------------ pinned -----------+
//!        |   deleted, or no room in the tier: the file is removed            |
//!        +---------------------------- unpinned -----------------------------+
//! ```
//!
//! Kept files count against the tier's budget and are the first to go when it is short, the one
//! that came back longest ago before the others: what has stayed in memory since then is in use,
//! and will be spilled last.
//!
//! Only the daemon that restored an object knows that the file is the object's. The next one finds
//! the id in memory and removes the file, as it does with every file whose object it has already.

mod reuse;

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

/// The file of one object in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetainedFile {
    pub(crate) id: ObjectId,
    /// The incarnation that the file is named by, which is not the one in memory.
    pub(crate) file: u64,
    /// Bytes of the object in the file.
    pub(crate) bytes: u64,
    /// The object is about to give its memory up.
    leaving: bool,
}

/// All such files, by the incarnation of the object in memory: in the order in which they came
/// back.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles {
    files: BTreeMap<u64, RetainedFile>,
    bytes: u64,
    leaving_bytes: u64,
}

impl KeptFiles {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of those that may be removed.
    fn spare_bytes(&self) -> u64 {
        self.bytes - self.leaving_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether the object of this incarnation has one.
    pub(crate) fn contains(&self, serial: u64) -> bool {
        self.files.contains_key(&serial)
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &RetainedFile)> {
        self.files.iter()
    }

    fn insert(&mut self, serial: u64, id: ObjectId, file: u64, bytes: u64) {
        self.bytes += bytes;
        self.files.insert(serial, RetainedFile { id, file, bytes, leaving: false });
    }

    fn remove(&mut self, serial: u64) -> Option<RetainedFile> {
        let kept = self.files.remove(&serial)?;
        self.bytes -= kept.bytes;
        if kept.leaving {
            self.leaving_bytes -= kept.bytes;
        }
        Some(kept)
    }

    fn set_leaving(&mut self, serial: u64, leaving: bool) {
        if let Some(kept) = self.files.get_mut(&serial).filter(|kept| kept.leaving != leaving) {
            kept.leaving = leaving;
            if leaving {
                self.leaving_bytes += kept.bytes;
            } else {
                self.leaving_bytes -= kept.bytes;
            }
        }
    }

    /// The one to remove first.
    fn oldest(&self) -> Option<u64> {
        self.files.iter().find(|(_, kept)| !kept.leaving).map(|(serial, _)| *serial)
    }
}
