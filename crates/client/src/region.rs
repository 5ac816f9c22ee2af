//! Memory for many small objects that are placed by their writer, such as an allocator.
//!
//! A [`Region`] is a leased range with an address. Its owner decides the layout of the range and
//! makes objects of parts of it, in place; the other parts stay the owner's. An object's memory is
//! the store's from then on, also when the object is deleted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plasmon_proto::extent::Range;
use plasmon_proto::limits::OBJECT_ALIGN;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::writer::Span;

use crate::acks::Verdict;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::ids::SharedIds;
use crate::lease::ask_lease;
use crate::process::Process;
use crate::session::Session;
use crate::submit::submit;

const LEASING: &str = "reserving memory for buffers";
const PUBLISHING: &str = "publishing a buffer";

/// A leased range of memory that no other client writes or reads until parts are published.
pub struct Region {
    ids: Arc<SharedIds>,
    connection: Arc<Connection>,
    session: Arc<Session>,
    range: Range,
    span: Span,
    /// What is not published, as offset in the region and bytes.
    own: BTreeMap<u64, u64>,
}

impl Client {
    /// Leases a range of `bytes` bytes, a multiple of 64. Only for clients with a channel, and not
    /// at level strict.
    pub fn lease_region(&self, bytes: u64) -> Result<Region> {
        lease_region(self.process()?, bytes.next_multiple_of(OBJECT_ALIGN))
    }
}

fn lease_region(process: &Process, bytes: u64) -> Result<Region> {
    let connection = &process.connection;
    let session = Arc::clone(connection.session());
    if session.channel().is_none() {
        let detail = "a client without a channel cannot lease memory";
        return Err(Error::new(Code::Unsupported, LEASING).with_detail(detail));
    }
    session.drain();
    let (map, range) = loop {
        let Some((map, range)) = ask_lease(connection, &session, bytes, bytes)? else { continue };
        let mut writing = session.writing();
        // It can be lost with the daemon that granted it.
        if writing.leases.end_mapping(&range) {
            writing.leases.opened(range);
            break (map, range);
        }
    };
    let lease = |map: Arc<_>| plasmon_shm::WriteExtent::lease(&map, range.offset, range.bytes);
    let span = map.and_then(|map| lease(map).ok_or_else(|| Error::unexpected(LEASING)));
    let connection = Arc::clone(connection);
    match span {
        Ok(span) => {
            // One fault for each page would cost more; what fails here is left to the faults.
            let _harmless = span.extent().map().populate(range.offset, range.bytes);
            let own = BTreeMap::from([(0, range.bytes)]);
            let ids = Arc::clone(&process.ids);
            Ok(Region { ids, connection, session, range, span, own })
        }
        Err(error) => {
            return_range(&connection, &session, range);
            Err(error)
        }
    }
}

/// Gives a range back that was reported as open.
fn return_range(connection: &Connection, session: &Session, range: Range) {
    let mut writing = session.writing();
    let is_leased = writing.leases.closed(&range);
    if is_leased && writing.leases.is_suspended() {
        writing.leases.regain(range);
    } else if is_leased && connection.is_current(session) {
        // What cannot be returned stays leased until this client disconnects.
        let _ =
            submit(connection, session, writing, &[Submission::LeaseReturn(range)], Verdict::Kept);
    }
}

impl Region {
    /// The first byte, for callers that lend the memory to foreign code. [`Self::bytes`] bytes from
    /// there may be used for as long as this exists; those published may only be read.
    pub fn base(&mut self) -> *mut u8 {
        self.span.as_mut_ptr()
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.range.bytes
    }

    /// The part as a slice, if nothing in it is published.
    pub fn slice_mut(&mut self, offset: u64, bytes: u64) -> Option<&mut [u8]> {
        self.piece(offset, bytes)?;
        self.span.get_mut(offset as usize..(offset + bytes) as usize)
    }

    /// The part as it is, published or not.
    pub fn slice(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        self.span.get(offset as usize..offset.checked_add(bytes)? as usize)
    }

    /// Copies bytes to another place in the region; false if that is not the region's own.
    pub fn copy_within(&mut self, from: u64, to: u64, bytes: u64) -> bool {
        let source = from as usize..from as usize + bytes as usize;
        let fits = self.piece(to, bytes).is_some() && source.end <= self.span.len();
        if fits {
            self.span.copy_within(source, to as usize);
        }
        fits
    }

    fn piece(&self, offset: u64, bytes: u64) -> Option<(u64, u64)> {
        let (start, length) = self.own.range(..=offset).next_back()?;
        let end = offset.checked_add(bytes)?;
        (end <= start + length).then_some((*start, *length))
    }

    /// Makes `bytes` bytes from `offset` on, a multiple of 64, an object, immutable and visible to
    /// all clients; nothing is copied. A refusal is reported by a later call that writes. The bytes
    /// up to the next multiple of 64 belong to the object.
    pub fn publish(&mut self, offset: u64, bytes: u64, traits: Traits) -> Result<ObjectId> {
        let id = self.ids.next();
        self.connection.check_ours(PUBLISHING, id)?;
        let sizes = Sizes { data: bytes, ..Sizes::default() };
        let footprint = sizes.footprint().filter(|_| offset.is_multiple_of(OBJECT_ALIGN));
        let piece = footprint.and_then(|it| Some((it, self.piece(offset, it)?)));
        let Some((footprint, (start, length))) = piece else {
            let detail = "the region no longer owns the bytes";
            return Err(Error::new(Code::BadRequest, PUBLISHING).with_detail(detail));
        };
        self.own.remove(&start);
        let mut writing = self.session.writing();
        if !self.connection.is_current(&self.session) {
            return Err(Error::forgotten(PUBLISHING, id));
        }
        if !writing.leases.closed(&self.part(start, length)) {
            return Err(Error::forgotten(PUBLISHING, id));
        }
        let parts =
            [(start, offset - start), (offset + footprint, start + length - offset - footprint)];
        for (offset, bytes) in parts.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.own.insert(offset, bytes);
            writing.leases.opened(self.part(offset, bytes));
        }
        let placement = self.part(offset, footprint).placement();
        let put = Submission::Put(Put { id, placement, sizes, traits });
        submit(&self.connection, &self.session, writing, &[put], Verdict::Kept)?;
        Ok(id)
    }

    fn part(&self, offset: u64, bytes: u64) -> Range {
        Range { offset: self.range.offset + offset, bytes, ..self.range }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("range", &self.range).finish_non_exhaustive()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.connection.is_ours() {
            for (offset, bytes) in std::mem::take(&mut self.own) {
                return_range(&self.connection, &self.session, self.part(offset, bytes));
            }
        }
    }
}
