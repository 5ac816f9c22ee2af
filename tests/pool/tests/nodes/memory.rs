//! The memory of a machine: extents, and which object's bytes lie where.

use std::collections::BTreeMap;

use plasmon_pool::Birth;
use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::{Attributes, ObjectId};
use plasmon_store::event::RecoveredExtent;

use super::pieces::{Held, Pieces};

/// Stands for the bytes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) id: ObjectId,
    pub(crate) birth: Birth,
    pub(crate) attributes: Attributes,
    /// Of a local object with parts of others: those.
    pub(crate) parts: Option<Held>,
}

/// What a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Bytes of a whole object, which this stands for.
    Copy(Token),
    /// Parts of objects.
    Parts(Pieces),
    /// Parts that came in a message.
    Bytes(Vec<u8>),
}

impl Token {
    /// What another node gets of it.
    pub(crate) fn of_copy(&self) -> Self {
        Self { attributes: self.attributes.of_copy(self.birth), ..self.clone() }
    }
}

#[derive(Debug, Default)]
struct Extent {
    bytes: u64,
    /// What lies at an offset, and how long it is.
    written: BTreeMap<u64, (u64, Token)>,
}

impl Extent {
    fn erase(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        self.written.retain(|at, (length, _)| *at >= end || *at + *length <= offset);
    }
}

/// All extents. They outlive the daemon, and not the machine.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    extents: BTreeMap<ExtentId, Extent>,
    /// The first birth number of an extent that was never given.
    pub(crate) births: u64,
}

impl Memory {
    pub(crate) fn make(&mut self, extent: ExtentId, bytes: u64) -> Result<(), String> {
        if extent.birth() < self.births {
            return Err(format!("{extent:?} was given before"));
        }
        self.births = extent.birth() + 1;
        self.extents.insert(extent, Extent { bytes, written: BTreeMap::new() });
        Ok(())
    }

    pub(crate) fn drop_extent(&mut self, extent: ExtentId) {
        self.extents.remove(&extent);
    }

    pub(crate) fn punch(&mut self, range: &Range) {
        if let Some(extent) = self.extents.get_mut(&range.extent) {
            extent.erase(range.offset, range.bytes);
        }
    }

    pub(crate) fn write(&mut self, range: &Range, token: Token) -> Result<(), String> {
        let extent = self.extents.get_mut(&range.extent);
        let extent = extent.filter(|extent| range.offset + range.bytes <= extent.bytes);
        let Some(extent) = extent else { return Err(format!("no memory at {range:?}")) };
        extent.erase(range.offset, range.bytes);
        extent.written.insert(range.offset, (range.bytes, token));
        Ok(())
    }

    /// The object whose bytes are there.
    pub(crate) fn read(&self, range: &Range) -> Option<&Token> {
        let (_, token) = self.extents.get(&range.extent)?.written.get(&range.offset)?;
        Some(token)
    }

    /// What the next daemon takes over, when no process writes any more.
    pub(crate) fn left(&self) -> Vec<RecoveredExtent> {
        let left = |(id, extent): (&ExtentId, &Extent)| RecoveredExtent {
            extent: *id,
            bytes: extent.bytes,
            quarantined: false,
            lent: None,
            strict: false,
            resident_bytes: extent.bytes,
        };
        self.extents.iter().map(left).collect()
    }
}
