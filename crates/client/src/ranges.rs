//! Reading pieces of an object without having all of it in memory.
//!
//! ```text
//! in memory ─► pinned and read in place             as with every get
//! spilled   ─► its file's descriptor ─► pread       the object stays where it is
//! ```
//!
//! The object is immutable in either place, so a reader that was opened goes on reading the same
//! bytes when the object comes back to memory, is spilled, or is deleted.

use plasmon_proto::{Code, ObjectId};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::store::Store;

const READING: &str = "reading a piece of object";

/// An object that is read piece by piece, wherever it is.
#[derive(Debug)]
pub struct ObjectReader {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Memory(Buffer),
}

impl ObjectReader {
    /// The object's id.
    pub fn id(&self) -> ObjectId {
        match &self.source {
            Source::Memory(buffer) => buffer.id(),
        }
    }

    /// How many bytes its data has.
    pub fn bytes(&self) -> u64 {
        match &self.source {
            Source::Memory(buffer) => buffer.data().len() as u64,
        }
    }

    /// Fills `into` with the data from `offset` on. A piece that is not within the object is
    /// refused with [`Code::BadRequest`], and nothing of it is read.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_within(offset, into.len() as u64)?;
        match &self.source {
            Source::Memory(buffer) => {
                let from = usize::try_from(offset).map_err(|_| Error::unexpected(READING))?;
                into.copy_from_slice(&buffer.data()[from..from + into.len()]);
                Ok(())
            }
        }
    }

    fn check_within(&self, offset: u64, bytes: u64) -> Result<()> {
        let end = offset.checked_add(bytes);
        if end.is_some_and(|end| end <= self.bytes()) {
            return Ok(());
        }
        Err(Error::new(Code::BadRequest, READING)
            .with_id(self.id())
            .with_amounts(end.unwrap_or(u64::MAX), self.bytes())
            .with_detail("the piece is not within the object's data"))
    }
}

impl Store {
    /// Opens an object to read pieces of it. One that was spilled stays in its file, and takes no
    /// memory. [`Code::Absent`] at once when it is not there, as with [`Self::get_existing`].
    pub fn open(&self, id: &ObjectId) -> Result<ObjectReader> {
        Ok(ObjectReader { source: Source::Memory(self.get_existing(id)?) })
    }

    /// A piece of an object's data: [`Self::open`] and one [`ObjectReader::read_at`].
    pub fn read_range(&self, id: &ObjectId, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let reader = self.open(id)?;
        // Before memory is taken for it: the length may be a mistake.
        reader.check_within(offset, bytes)?;
        let mut piece = vec![0; usize::try_from(bytes).map_err(|_| Error::unexpected(READING))?];
        reader.read_at(offset, &mut piece)?;
        Ok(piece)
    }
}
