//! How what has grown becomes an object, at once or later.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::{Code, ObjectId};

use super::GrowingObject;
use crate::error::{Error, Result};
use crate::options::PutOptions;
use crate::payload::member_attributes;
use crate::settle::home;

const SEALING: &str = "sealing object";

/// Seals that are on their way at once.
const SEALS_AT_ONCE: usize = 32;

impl GrowingObject {
    /// Makes the first `bytes` bytes an object, immutable and visible to all clients; nothing is
    /// copied, and the memory after them is given back. After an error the object is gone.
    pub fn seal(mut self, bytes: usize) -> Result<ObjectId> {
        self.connection.check_ours(SEALING, self.id)?;
        // From here on there is no way to write these bytes; at level strict, no mapping either.
        drop(self.map.take());
        self.discard_ahead();
        self.seal_now(bytes)
    }

    /// No more writing: the first `bytes` bytes, which are granted, are only read from now on, and
    /// may be sealed later.
    pub fn freeze(mut self, bytes: usize) -> ReadOnlyMemory {
        self.discard_ahead();
        let bytes = bytes.min(self.granted());
        ReadOnlyMemory { growing: self, bytes }
    }

    /// Like [`Self::seal`], but the memory stays mapped here for as long as this exists: for
    /// callers that have lent it to code that only reads it. Not possible at level strict.
    pub fn seal_lent(&mut self, bytes: usize) -> Result<ObjectId> {
        self.discard_ahead();
        self.seal_in_place(bytes)
    }

    fn seal_in_place(&self, bytes: usize) -> Result<ObjectId> {
        self.connection.check_ours(SEALING, self.id)?;
        if self.session.welcome.level == Level::Strict {
            let detail =
                "a store of level strict cannot seal memory that its writer still has mapped";
            return Err(Error::new(Code::Unsupported, SEALING).with_detail(detail));
        }
        self.seal_now(bytes)
    }

    fn seal_now(&self, bytes: usize) -> Result<ObjectId> {
        let number = self.begin_seal(bytes)?;
        self.end_seal(number)
    }

    /// Seals many, with one wait for all of their answers. The first error ends it; objects that
    /// are sealed by then have no holder, and are deleted with this client at the latest.
    pub fn seal_all(growing: Vec<(Self, usize)>) -> Result<Vec<ObjectId>> {
        let mut ids = Vec::with_capacity(growing.len());
        let mut rest = growing.into_iter().peekable();
        while rest.peek().is_some() {
            let mut begun = Vec::new();
            for (mut one, bytes) in rest.by_ref().take(SEALS_AT_ONCE) {
                one.connection.check_ours(SEALING, one.id)?;
                drop(one.map.take());
                one.discard_ahead();
                let number = one.begin_seal(bytes)?;
                begun.push((one, number));
            }
            for (one, number) in begun {
                ids.push(one.end_seal(number)?);
            }
        }
        Ok(ids)
    }

    /// Like [`Self::seal_all`], as objects of the pool of the store without names, which are to be
    /// members of the object that is put with these options, and have as many copies. `ids` gets
    /// those that are sealed, also before an error: without a composite of them they end with this
    /// client.
    pub fn seal_all_pooled(
        growing: Vec<(Self, usize)>,
        options: &PutOptions,
        ids: &mut Vec<ObjectId>,
    ) -> Result<()> {
        let attributes = member_attributes(SEALING, options)?;
        let mut rest = growing.into_iter().peekable();
        while rest.peek().is_some() {
            let mut begun = Vec::new();
            for (one, bytes) in rest.by_ref().take(SEALS_AT_ONCE) {
                begun.push(one.begin_seal_pooled(bytes, &attributes)?);
            }
            for (one, target, number) in begun {
                one.end_seal(number)?;
                ids.push(target);
            }
        }
        Ok(())
    }

    fn begin_seal_pooled(
        mut self,
        bytes: usize,
        attributes: &[u8],
    ) -> Result<(Self, ObjectId, u64)> {
        self.ensure_exactly(bytes + attributes.len())?;
        if !attributes.is_empty() {
            self.write(bytes, attributes);
        }
        self.connection.check_ours(SEALING, self.id)?;
        drop(self.map.take());
        self.discard_ahead();
        if self.is_lost() {
            return Err(Error::forgotten(SEALING, self.id));
        }
        let home = home(&self.connection, SEALING)?;
        let target = self.session.writing().homed_ids.next(home);
        let request = Request::SealGrownPooled {
            id: self.id,
            target,
            data: bytes as u64,
            attributes: attributes.len() as u32,
        };
        let number = self.connection.rpc().begin(SEALING, request, None)?;
        Ok((self, target, number))
    }

    /// Like [`Self::seal_all`] for [`Self::seal_lent`].
    pub fn seal_all_lent(growing: &mut [(&mut Self, usize)]) -> Result<()> {
        for chunk in growing.chunks_mut(SEALS_AT_ONCE) {
            let mut numbers = Vec::with_capacity(chunk.len());
            for (one, bytes) in chunk.iter_mut() {
                one.connection.check_ours(SEALING, one.id)?;
                one.discard_ahead();
                numbers.push(one.begin_seal(*bytes)?);
            }
            for ((one, _), number) in chunk.iter_mut().zip(numbers) {
                one.end_seal(number)?;
            }
        }
        Ok(())
    }

    fn begin_seal(&self, bytes: usize) -> Result<u64> {
        if self.is_lost() {
            return Err(Error::forgotten(SEALING, self.id));
        }
        let request = Request::SealGrown { id: self.id, data: bytes as u64 };
        self.connection.rpc().begin(SEALING, request, None)
    }

    fn end_seal(&self, number: u64) -> Result<ObjectId> {
        let answer = self.connection.answer(SEALING, number, true)?;
        match answer.reply {
            Reply::Done => {}
            // Asked twice because the connection broke: the first time did it.
            Reply::Failed(failure) if answer.again && failure.code == Code::AlreadySealed => {}
            Reply::Failed(failure) if failure.code == Code::Absent => {
                return Err(Error::forgotten(SEALING, self.id));
            }
            Reply::Failed(failure) => {
                return Err(Error::of_failure(SEALING, failure).about(self.id));
            }
            _ => return Err(Error::unexpected(SEALING)),
        }
        self.sealed.store(true, Ordering::Release);
        self.session.writing().clear_creating(&self.id);
        Ok(self.id)
    }
}

/// Memory that was written and is only read from now on; whether it becomes an object is decided
/// later.
#[derive(Debug)]
pub struct ReadOnlyMemory {
    growing: GrowingObject,
    bytes: usize,
}

impl ReadOnlyMemory {
    /// The id that the object has, or will have.
    pub fn id(&self) -> ObjectId {
        self.growing.id
    }

    /// Whether it is an object already.
    pub fn is_sealed(&self) -> bool {
        self.growing.is_sealed()
    }

    /// Makes it an object, immutable and visible to all clients, where it is; see
    /// [`GrowingObject::seal_lent`]. One thread at a time.
    pub fn seal(&self) -> Result<ObjectId> {
        if self.is_sealed() { Ok(self.id()) } else { self.growing.seal_in_place(self.bytes) }
    }
}

impl Deref for ReadOnlyMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.growing[..self.bytes]
    }
}
