//! Reading pieces of an object without having all of it in memory.
//!
//! ```text
//! in memory ─► pinned and read in place             as with every get
//! spilled   ─► its file's descriptor ─► pread       the object stays where it is
//! ```
//!
//! The object is immutable in either place, so a reader that was opened goes on reading the same
//! bytes when the object comes back to memory, is spilled, or is deleted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use plasmon_proto::message::{Reply, Request, SpillFile};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::get::why_not;

const READING: &str = "reading a piece of object";

/// How often an object is looked for in memory and in its file in turns, before it is brought back
/// and held there.
const TRIES: u32 = 8;

/// An object that is read piece by piece, wherever it is.
#[derive(Debug)]
pub struct ObjectReader {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Memory(Buffer),
    File { id: ObjectId, file: File, about: SpillFile },
}

impl ObjectReader {
    /// The object's id.
    pub fn id(&self) -> ObjectId {
        match &self.source {
            Source::Memory(buffer) => buffer.id(),
            Source::File { id, .. } => *id,
        }
    }

    /// How many bytes its data has.
    pub fn bytes(&self) -> u64 {
        match &self.source {
            Source::Memory(buffer) => buffer.data().len() as u64,
            Source::File { about, .. } => about.sizes.data,
        }
    }

    /// Whether pieces are read from the object's file, because it was spilled when it was opened.
    pub fn is_in_file(&self) -> bool {
        matches!(self.source, Source::File { .. })
    }

    /// Fills `into` with the data from `offset` on. A piece that is not within the object is
    /// refused with [`Code::BadRequest`], and nothing of it is read. The checksum of a file is over
    /// the whole object, so what a damaged disk gives for a piece is not noticed.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_within(offset, into.len() as u64)?;
        match &self.source {
            Source::Memory(buffer) => {
                let from = usize::try_from(offset).map_err(|_| Error::unexpected(READING))?;
                into.copy_from_slice(&buffer.data()[from..from + into.len()]);
                Ok(())
            }
            Source::File { id, file, about } => {
                let at = about.offset.checked_add(offset);
                let at = at.ok_or_else(|| Error::unexpected(READING))?;
                file.read_exact_at(into, at).map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => Error::new(Code::Corrupt, READING)
                        .with_id(*id)
                        .with_detail("the object's spill file was cut short"),
                    _ => Error::io(READING, error).with_id(*id),
                })
            }
        }
    }

    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        // Before memory is taken for it: the length may be a mistake.
        self.check_within(offset, bytes)?;
        let mut piece = vec![0; usize::try_from(bytes).map_err(|_| Error::unexpected(READING))?];
        self.read_at(offset, &mut piece)?;
        Ok(piece)
    }

    fn check_within(&self, offset: u64, bytes: u64) -> Result<()> {
        let end = offset.checked_add(bytes);
        if end.is_some_and(|end| end <= self.bytes()) {
            return Ok(());
        }
        Err(Error::new(Code::BadRequest, READING)
            .with_id(self.id())
            .with_amounts(end.unwrap_or(u64::MAX), self.bytes())
            .with_detail("the range is not within the object's data"))
    }
}

impl Client {
    /// Opens an object to read pieces of it. One that was spilled stays in its file, and takes no
    /// memory. [`Code::Absent`] at once when it is not there, as with [`Self::get_existing`].
    pub fn open(&self, id: &ObjectId) -> Result<ObjectReader> {
        // Without an index to look into, a client asks: and to ask for the object brings it back.
        let has_index = self.here()?.session().channel().is_some();
        if has_index && let Some(buffer) = self.try_get(id)? {
            return Ok(ObjectReader { source: Source::Memory(buffer) });
        }
        self.check_refused(id)?;
        for _ in 0..TRIES {
            if let Some(source) = self.open_where_it_is(id)? {
                return Ok(ObjectReader { source });
            }
        }
        Ok(ObjectReader { source: Source::Memory(self.get_existing(id)?) })
    }

    /// Opens an object's file, or pins the object. `None` when it was neither here nor there,
    /// because it moved between the answer and the look.
    fn open_where_it_is(&self, id: &ObjectId) -> Result<Option<Source>> {
        let mut answer = self.here()?.ask(READING, Request::OpenSpilled { id: *id })?;
        match (&answer.reply, answer.fds.pop()) {
            (Reply::SpillFile(about), Some(fd)) => {
                Ok(Some(Source::File { id: *id, file: fd.into(), about: *about }))
            }
            (Reply::States(states), None) => match states[..] {
                [ObjectState::Sealed] => Ok(self.get_readable(id)?.map(Source::Memory)),
                [ObjectState::Spilled] => Ok(None),
                [state] => Err(why_not(*id, state, false)),
                _ => Err(Error::unexpected(READING)),
            },
            _ => Err(Error::unexpected(READING)),
        }
    }

    /// A piece of an object's data: [`Self::open`] and one [`ObjectReader::read_at`].
    pub fn read_range(&self, id: &ObjectId, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        self.open(id)?.read(offset, bytes)
    }

    /// An object's data from `offset` on.
    pub fn read_from(&self, id: &ObjectId, offset: u64) -> Result<Vec<u8>> {
        let reader = self.open(id)?;
        reader.read(offset, reader.bytes().saturating_sub(offset))
    }
}
