//! A dataset's table as an object: a composite whose only member is the body.
//!
//! ```text
//! hdf5:<name>    head (schema, record batch) ┐             every reader of the store gets
//!                body ── member ─────────────┼─► a table   a table, in place
//!                end of stream               ┘
//! ```
//!
//! A sealed object cannot be changed or renamed, so what is written over is a new version under
//! the other one of two names: odd versions are `<name>`, even ones `<name>@`. A new version is
//! there before the old one goes, so there is always one, whenever the writer is killed. Then the
//! name without an ending is free for it: the body is the same, and so nothing is copied.

use std::time::Duration;

use plasmon_client::{Buffer, Client, Code, Name, ObjectId, ObjectState, PutOptions, tag};
use plasmon_hdf5_model::{Stream, Table};
use plasmon_proto::composite::{Composite, CompositeWriter, Place};
use plasmon_proto::value::{ValueHeader, table_kind};

use crate::error::Error;

/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "hdf5";
/// Behind the value header: that it is ours, then the version in 8 bytes.
const MAGIC: [u8; 4] = *b"PLH5";
/// How long bringing an object back from a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a version that goes while it is looked for is looked for again.
const TRIES: usize = 4;

/// A dataset's objects in a store, whatever the version.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub(crate) store: &'a Client,
    pub(crate) name: &'a str,
}

/// A version that is sealed.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) version: u64,
    /// The composite, which keeps its member.
    composite: Buffer,
    body: Buffer,
    /// Where the head lies in the composite.
    head: (usize, usize),
}

impl Sealed {
    /// The bytes of the columns.
    pub(crate) fn body(&self) -> &[u8] {
        self.body.data()
    }

    /// The member.
    pub(crate) fn body_id(&self) -> ObjectId {
        self.body.id()
    }

    /// What stands before the body.
    pub(crate) fn head(&self) -> &[u8] {
        &self.composite.data()[self.head.0..][..self.head.1]
    }
}

impl Objects<'_> {
    /// The newest version, if it is that of a table.
    pub(crate) fn open(self, table: &Table) -> Result<Sealed, Error> {
        let (version, composite) = self.newest()?;
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
        Ok(Sealed { version, composite, body, head })
    }

    /// Puts a version over a sealed body, which the store keeps as long as the version.
    pub(crate) fn put(
        self,
        version: u64,
        body: ObjectId,
        table: &Stream,
        bytes: u64,
    ) -> Result<(), Error> {
        let mut writer = CompositeWriter::default();
        writer.push(&table.head);
        writer.push_member(0, 0, bytes);
        writer.push(&table.foot);
        let header = ValueHeader { kind: table_kind::TABLE, ..ValueHeader::default() };
        let own = [&MAGIC[..], &version.to_le_bytes()].concat();
        let options = PutOptions {
            name: Some(self.version_name(version)?),
            metadata: header.encode(&own).unwrap_or_default(),
            tag: tag::COMPOSITE,
            members: vec![body],
            ..PutOptions::default()
        };
        let data = writer.encode(&[body]);
        match self.store.put(&data, &options) {
            // What a writer left that was killed before it could take the old version away.
            Err(error) if error.code() == Code::Exists && self.is_older(version) => {
                self.delete(version);
                self.store.put(&data, &options)
            }
            done => done,
        }
        .map(drop)
        .map_err(|error| match error.code() {
            Code::Exists => Error::Overtaken(self.name.to_owned()),
            _ => self.refused(error),
        })
    }

    /// Deletes a version. What cannot be deleted now goes with the next one.
    pub(crate) fn delete(self, version: u64) {
        if let Ok(name) = self.version_name(version) {
            let _ = self.store.delete(&[name.id()]);
        }
    }

    /// Deletes all versions, as far as they are there.
    pub(crate) fn delete_all(self) {
        if let Ok(names) = self.names() {
            let _ = self.store.delete(&names.map(|name| name.id()));
        }
    }

    /// Whether no version is there.
    pub(crate) fn are_none(self) -> Result<bool, Error> {
        let states = self.states()?;
        let taken = |state: &ObjectState| state.is_readable() || *state == ObjectState::Creating;
        Ok(!states.iter().any(taken))
    }

    /// The same error with the object and the store.
    pub(crate) fn refused(self, why: plasmon_client::Error) -> Error {
        let (name, socket) = (self.name.to_owned(), self.store.socket().to_owned());
        Error::Refused { name, socket, why }
    }

    /// The newest version that is sealed.
    fn newest(self) -> Result<(u64, Buffer), Error> {
        for _ in 0..TRIES {
            let states = self.states()?;
            let names = self.names()?;
            let mut found: Option<(u64, Buffer)> = None;
            for (name, _) in names.iter().zip(&states).filter(|(_, state)| state.is_readable()) {
                let object = match self.store.get(&name.id(), Some(READ_TIMEOUT)) {
                    Ok(object) => object,
                    // It went since: the other one is newer.
                    Err(error) if matches!(error.code(), Code::Deleted | Code::Absent) => continue,
                    Err(error) => return Err(self.refused(error)),
                };
                let version = version(&object).ok_or_else(|| {
                    Error::Foreign(self.name.to_owned(), "it was not written by the connector")
                })?;
                if found.as_ref().is_none_or(|(newest, _)| *newest < version) {
                    found = Some((version, object));
                }
            }
            if let Some(found) = found {
                return Ok(found);
            }
            if !states.iter().any(|state| state.is_readable()) {
                let told = states.into_iter().find(|state| *state != ObjectState::Absent);
                let (name, socket) = (self.name.to_owned(), self.store.socket().to_owned());
                let state = told.unwrap_or(ObjectState::Absent);
                return Err(Error::Missing { name, socket, state });
            }
        }
        Err(Error::Overtaken(self.name.to_owned()))
    }

    fn states(self) -> Result<Vec<ObjectState>, Error> {
        let ids = self.names()?.map(|name| name.id());
        self.store.states(&ids).map_err(|why| self.refused(why))
    }

    fn names(self) -> Result<[Name; 2], Error> {
        Ok([self.version_name(1)?, self.version_name(2)?])
    }

    fn version_name(self, version: u64) -> Result<Name, Error> {
        let text = if version % 2 == 1 { self.name.to_owned() } else { format!("{}@", self.name) };
        Name::new(NAMESPACE, text)
            .map_err(|why| Error::BadName(self.name.to_owned(), why.to_string()))
    }

    /// Whether what is under a version's name is an older one.
    fn is_older(self, than: u64) -> bool {
        let name = self.version_name(than).ok();
        let found = name.and_then(|name| self.store.get(&name.id(), Some(Duration::ZERO)).ok());
        found.and_then(|found| version(&found)).is_some_and(|version| version < than)
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
