//! A dataset's table as an object: a composite whose only member is the body.
//!
//! ```text
//! hdf5:<name>    head (schema, record batch) ┐             every reader of the store gets
//!                body ── member ─────────────┼─► a table   a table, in place
//!                end of stream               ┘
//! ```
//!
//! A sealed object cannot be changed, so what is written over is a new version, which takes the
//! place of the one before in one step (ADR 85): there is always one, also when the writer is
//! killed.
//!
//! Earlier connectors put every other version under `<name>@`. A writer of theirs that was killed
//! left it there. The higher number counts, and the next version deletes what was left.

use std::time::Duration;

use plasmon_client::{Buffer, Client, Code, Name, ObjectId, ObjectState, PutOptions, tag};
use plasmon_hdf5_model::{Stream, Table};
use plasmon_proto::composite::{Composite, CompositeWriter, Place};
use plasmon_proto::value::{ValueHeader, table_kind};

use crate::error::Error;

/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "hdf5";
/// After the value header: the magic, then the version in 8 bytes.
const MAGIC: [u8; 4] = *b"PLH5";
/// How long bringing an object back from a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A dataset's object in a store, and what an earlier connector may have left beside it.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) store: &'a Client,
    pub(crate) name: &'a str,
}

/// A version that is there.
struct ExistingVersion {
    version: u64,
    composite: Buffer,
}

/// A version that is sealed.
#[derive(Clone, Debug)]
pub(crate) struct SealedVersion {
    version: u64,
    /// Whether an earlier connector left an object beside it.
    has_left: bool,
    /// The composite, which keeps its member.
    composite: Buffer,
    body: Buffer,
    /// Where the head lies in the composite.
    head: (usize, usize),
}

impl SealedVersion {
    /// The bytes of the columns.
    pub(crate) fn body(&self) -> &[u8] {
        self.body.data()
    }

    /// The member.
    pub(crate) fn body_id(&self) -> ObjectId {
        self.body.id()
    }

    /// The bytes before the body.
    pub(crate) fn head(&self) -> &[u8] {
        &self.composite.data()[self.head.0..][..self.head.1]
    }
}

impl Object<'_> {
    /// The newest version, if it is that of a table.
    pub(crate) fn open(self, table: &Table) -> Result<SealedVersion, Error> {
        let (ExistingVersion { version, composite }, has_left) = self.newest()?;
        let foreign = |why| Error::Foreign(self.name.to_owned(), why);
        let found = Composite::decode(composite.data());
        let found = found.map_err(|_| foreign("it is not a table in parts"))?;
        let [member] = found.members[..] else { return Err(foreign("it has other members")) };
        let head = found.parts.first().filter(|part| part.at == 0);
        let head = match head.map(|part| (part.place, part.lies_in(composite.len() as u64))) {
            Some((Place::Here(_), Some(range))) => (range.start, range.len()),
            _ => return Err(foreign("it has no head")),
        };
        let bytes = table.body_bytes();
        let is_body = found.parts.get(1).is_some_and(|part| {
            part.place == Place::Member(0, 0) && part.at == head.1 as u64 && part.bytes == bytes
        });
        if !is_body || !Stream::of(table, &[]).agrees(&composite.data()[head.0..][..head.1]) {
            return Err(foreign("its rows or columns are others than the dataset's"));
        }
        let body = self.store.get(&member, Some(READ_TIMEOUT)).map_err(|why| self.refused(why))?;
        if (body.len() as u64) < bytes {
            return Err(foreign("its member is too short"));
        }
        Ok(SealedVersion { version, has_left, composite, body, head })
    }

    /// Puts the first version over a sealed body, which the store keeps as long as the version.
    pub(crate) fn put(self, body: ObjectId, table: &Stream, bytes: u64) -> Result<(), Error> {
        let (data, options) = self.composite(1, body, table, bytes)?;
        self.outcome(self.store.put(&data, &options))
    }

    /// Puts the next version over a sealed body, in the place of the one that is known here.
    pub(crate) fn replace(
        self,
        before: &SealedVersion,
        body: ObjectId,
        table: &Stream,
        bytes: u64,
    ) -> Result<(), Error> {
        self.check_newest(before)?;
        let next = before.version.checked_add(1);
        let next =
            next.ok_or(Error::Foreign(self.name.to_owned(), "its number is the last one"))?;
        let (data, options) = self.composite(next, body, table, bytes)?;
        let options = PutOptions { replace: true, ..options };
        let done = match self.store.put(&data, &options) {
            // Whether it is there already is not known then. Once more does no harm.
            Err(error) if error.code() == Code::Disconnected => self.store.put(&data, &options),
            done => done,
        };
        self.outcome(done)?;
        if before.has_left {
            // What cannot be deleted now is older, and goes with the next version.
            let _ = self.store.delete(&[self.left_name()?.id()]);
        }
        Ok(())
    }

    /// Deletes what is there.
    pub(crate) fn delete(self) {
        if let Ok(names) = self.names() {
            let _ = self.store.delete(&names.map(|name| name.id()));
        }
    }

    /// Whether the name is free.
    pub(crate) fn is_none(self) -> Result<bool, Error> {
        let ids = self.names()?.map(|name| name.id());
        let states = self.store.states(&ids).map_err(|why| self.refused(why))?;
        let taken = |state: &ObjectState| state.is_readable() || *state == ObjectState::Creating;
        Ok(!states.iter().any(taken))
    }

    /// The same error with the object and the store.
    pub(crate) fn refused(self, why: plasmon_client::Error) -> Error {
        let (name, socket) = (self.name.to_owned(), self.store.socket().to_owned());
        Error::Refused { name, socket, why }
    }

    /// A version over a sealed body, and how it is put.
    fn composite(
        self,
        version: u64,
        body: ObjectId,
        table: &Stream,
        bytes: u64,
    ) -> Result<(Vec<u8>, PutOptions), Error> {
        let mut writer = CompositeWriter::default();
        writer.push(&table.head);
        writer.push_member(0, 0, bytes);
        writer.push(&table.foot);
        let header = ValueHeader { kind: table_kind::TABLE, ..ValueHeader::default() };
        let own = [&MAGIC[..], &version.to_le_bytes()].concat();
        let options = PutOptions {
            name: Some(self.own_name()?),
            metadata: header.encode(&own).unwrap_or_default(),
            tag: tag::COMPOSITE,
            members: vec![body],
            ..PutOptions::default()
        };
        Ok((writer.encode(&[body]), options))
    }

    /// The outcome of a put, with the object and the store.
    fn outcome(self, done: plasmon_client::Result<ObjectId>) -> Result<(), Error> {
        done.map(drop).map_err(|error| match error.code() {
            Code::Exists => Error::Overtaken(self.name.to_owned()),
            _ => self.refused(error),
        })
    }

    /// Whether a version is still the newest. One that was deleted since is written again.
    fn check_newest(self, known: &SealedVersion) -> Result<(), Error> {
        let newest = match self.newest() {
            Err(Error::Missing { .. }) => return Ok(()),
            newest => newest?.0,
        };
        let members = Composite::decode(newest.composite.data()).map(|found| found.members);
        let is_known = newest.version == known.version
            && members.is_ok_and(|members| members == [known.body_id()]);
        if is_known { Ok(()) } else { Err(Error::Overtaken(self.name.to_owned())) }
    }

    /// The newest version that is sealed, and whether an earlier connector left one.
    fn newest(self) -> Result<(ExistingVersion, bool), Error> {
        // In this order: a writer puts the next version first, then deletes what was left.
        let (left_state, left) = self.find(&self.left_name()?)?;
        let (state, found) = self.find(&self.own_name()?)?;
        let has_left = left.is_some();
        // Of two it is not known whether the one that cannot be read is the newer.
        let is_corrupt = [left_state, state].contains(&ObjectState::Corrupt);
        let newest = left.into_iter().chain(found).max_by_key(|found| found.version);
        match newest.filter(|_| !is_corrupt) {
            Some(newest) => Ok((newest, has_left)),
            None => {
                let (name, socket) = (self.name.to_owned(), self.store.socket().to_owned());
                let state = if is_corrupt { ObjectState::Corrupt } else { state };
                Err(Error::Missing { name, socket, state })
            }
        }
    }

    /// The object under a name, if it can be read.
    fn find(self, name: &Name) -> Result<(ObjectState, Option<ExistingVersion>), Error> {
        let id = name.id();
        let states = self.store.states(&[id]).map_err(|why| self.refused(why))?;
        let state = states.first().copied().unwrap_or(ObjectState::Absent);
        if !state.is_readable() {
            return Ok((state, None));
        }
        let composite = match self.store.get(&id, Some(READ_TIMEOUT)) {
            Ok(composite) => composite,
            // It went since.
            Err(error) if error.code() == Code::Deleted => return Ok((ObjectState::Deleted, None)),
            Err(error) if error.code() == Code::Absent => return Ok((ObjectState::Absent, None)),
            Err(error) => return Err(self.refused(error)),
        };
        let version = version(&composite).ok_or_else(|| {
            Error::Foreign(self.name.to_owned(), "it was not written by the connector")
        })?;
        Ok((state, Some(ExistingVersion { version, composite })))
    }

    fn names(self) -> Result<[Name; 2], Error> {
        Ok([self.own_name()?, self.left_name()?])
    }

    fn own_name(self) -> Result<Name, Error> {
        self.name_of(self.name.to_owned())
    }

    /// The name that earlier connectors gave every other version.
    fn left_name(self) -> Result<Name, Error> {
        self.name_of(format!("{}@", self.name))
    }

    fn name_of(self, text: String) -> Result<Name, Error> {
        Name::new(NAMESPACE, text)
            .map_err(|why| Error::BadName(self.name.to_owned(), why.to_string()))
    }
}

/// The version of an object of ours.
fn version(object: &Buffer) -> Option<u64> {
    let (_, own) = ValueHeader::decode(object.metadata()).ok()?;
    let (magic, version) = own.split_at_checked(MAGIC.len())?;
    (object.tag() == tag::COMPOSITE && magic == MAGIC)
        .then(|| version.try_into().ok().map(u64::from_le_bytes))
        .flatten()
}
