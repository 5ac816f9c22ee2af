//! Reading ranges of one object, wherever it is.

use std::ops::{Deref, Range};
use std::time::Duration;

use plasmon_proto::limits::{READ_RANGES_MAX, REQUEST_IDS_MAX};
use plasmon_proto::message;
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply, ReadRequest, Span};
use plasmon_proto::pool::{Birth, Content};
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::door::{READING, ReadDoor};
use super::layout::{Places, requests_of, spans_of};
use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::get::why_not;
use crate::pool;

/// How often a read is begun again whose local object was taken away before it was pinned.
const TRIES: u32 = 8;

/// Bytes of an object, in place. Clones and other pieces of a read share its memory.
#[derive(Clone, Debug)]
pub struct Piece {
    /// `None` without bytes.
    buffer: Option<Buffer>,
    range: Range<usize>,
}

impl Piece {
    pub(super) fn new(buffer: &Buffer, range: Range<u64>) -> Option<Self> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        buffer.data().get(range.clone())?;
        Some(Self { buffer: Some(buffer.clone()), range })
    }

    pub(super) fn empty() -> Self {
        Self { buffer: None, range: 0..0 }
    }

    /// The pinned object that the bytes lie in, and where; `None` for no bytes.
    pub fn place(&self) -> Option<(&Buffer, Range<usize>)> {
        self.buffer.as_ref().map(|buffer| (buffer, self.range.clone()))
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer.data()[self.range.clone()],
            None => &[],
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Reads parts of one object, all of the same incarnation.
#[derive(Debug)]
pub struct PartsReader {
    client: Client,
    id: ObjectId,
    timeout: Option<Duration>,
    /// The whole object, where it is in this store.
    pub(super) here: Option<Buffer>,
    pub(super) door: ReadDoor,
    /// What was found of it elsewhere.
    pub(super) found: Option<(Birth, Content)>,
}

/// What is known of an object besides its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsInfo {
    /// Bytes of its data.
    pub data_bytes: u64,
    /// What kind of value the bytes hold: see [`crate::tag`].
    pub tag: u8,
}

/// What one request brought.
pub(super) enum Brought {
    /// The object is in this store.
    Here,
    Parts(Option<Buffer>, Content),
    /// The local object was gone before it could be pinned.
    Gone,
}

impl PartsReader {
    /// For an object of a pool or of this store alone. `timeout` is how long the first read waits
    /// for an object that does not exist: without a limit for `None`, not at all for zero.
    pub fn new(client: &Client, id: ObjectId, timeout: Option<Duration>) -> Self {
        let door = ReadDoor::new(client.socket().to_owned());
        Self { client: client.clone(), id, timeout, here: None, door, found: None }
    }

    /// The object.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The store that it is read through.
    pub fn store(&self) -> &Client {
        &self.client
    }

    /// The whole object, if it turned out to be in this store.
    pub fn here(&self) -> Option<&Buffer> {
        self.here.as_ref()
    }

    /// What the last read found of the object.
    pub fn info(&self) -> Option<PartsInfo> {
        if let Some(buffer) = &self.here {
            let data_bytes = buffer.data().len() as u64;
            return Some(PartsInfo { data_bytes, tag: buffer.tag() });
        }
        let (_, content) = self.found?;
        Some(PartsInfo { data_bytes: content.data_bytes, tag: content.tag })
    }

    /// These ranges of the data, each as a piece. A range that is not within the data is refused
    /// with [`Code::BadRequest`], and nothing is read.
    pub fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Piece>> {
        let ends = check_ranges(self.id, ranges)?;
        if self.look_here()? {
            return self.pieces_here(ranges);
        }
        let spans = spans_of(ranges);
        let mut brought = Vec::new();
        let mut requests: Vec<&[Span]> = requests_of(&spans).collect();
        if requests.is_empty() {
            requests.push(&[]);
        }
        for spans in requests {
            match self.ask(spans, ends, false)? {
                Some((buffer, content)) => {
                    brought.push((Places::new(spans, content.data_bytes), buffer));
                }
                None => return self.pieces_here(ranges),
            }
        }
        ranges.iter().map(|range| self.piece(&brought, range)).collect()
    }

    /// The first bytes of the data, at most so many, and the metadata. One request brings both.
    pub fn begin(&mut self, bytes: u64) -> Result<(Piece, Piece)> {
        let spans = spans_of(std::slice::from_ref(&(0..bytes)));
        let found = if self.look_here()? { None } else { self.ask(&spans, 0, true)? };
        let Some((buffer, content)) = found else {
            let Some(buffer) = &self.here else { return Err(Error::unexpected(READING)) };
            let length = (buffer.data().len() as u64).min(bytes);
            let first = Piece::new(buffer, 0..length).ok_or_else(|| Error::unexpected(READING))?;
            return Ok((first, Piece::empty()));
        };
        let places = Places::new(&spans, content.data_bytes);
        let end = places.bytes() + u64::from(content.metadata_bytes);
        let piece = |range: Range<u64>| match &buffer {
            Some(buffer) if !range.is_empty() => {
                Piece::new(buffer, range).ok_or_else(|| self.broken())
            }
            _ => Ok(Piece::empty()),
        };
        let first = piece(0..content.data_bytes.min(bytes))?;
        Ok((first, piece(places.bytes()..end)?))
    }

    /// Whether the object is in this store. One that is of no pool has to be.
    pub(super) fn look_here(&mut self) -> Result<bool> {
        if self.here.is_some() {
            return Ok(true);
        }
        if !self.id.is_pooled() {
            self.here = Some(match self.timeout {
                Some(Duration::ZERO) => self.client.get_existing(&self.id)?,
                timeout => self.client.get(&self.id, timeout)?,
            });
            return Ok(true);
        }
        // Without an index to look into, a client would ask for all of it.
        if self.found.is_none() && self.client.here()?.session().channel().is_some() {
            self.here = self.client.try_get(&self.id)?;
        }
        Ok(self.here.is_some())
    }

    /// The pool daemon said that the object is here.
    fn pin_here(&mut self) -> Result<()> {
        let buffer = self.client.get_existing(&self.id)?;
        let length = buffer.data().len() as u64;
        if self.found.is_some_and(|(_, content)| content.data_bytes != length) {
            // Deleted and made again in this moment.
            return Err(why_not(self.id, ObjectState::Deleted, false));
        }
        self.here = Some(buffer);
        Ok(())
    }

    pub(super) fn request(&self, spans: &[Span], end: u64, metadata: bool) -> ReadRequest {
        let timeout = self.timeout.unwrap_or(Duration::MAX);
        ReadRequest {
            id: self.id,
            birth: self.found.map(|(birth, _)| birth),
            spans: spans.to_vec(),
            end,
            metadata,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The local object with these spans, pinned; `None` when the whole object is here, pinned.
    fn ask(
        &mut self,
        spans: &[Span],
        end: u64,
        metadata: bool,
    ) -> Result<Option<(Option<Buffer>, Content)>> {
        for _ in 0..TRIES {
            let request = self.request(spans, end, metadata);
            let asked = self.door.ask(Request::Read(request.clone()));
            let Reply::Read(reply) = asked.map_err(|error| error.about(self.id))? else {
                return Err(self.broken());
            };
            match self.brought(&request, reply)? {
                Brought::Here => return self.pin_here().map(|()| None),
                Brought::Parts(buffer, content) => return Ok(Some((buffer, content))),
                Brought::Gone => {}
            }
        }
        Err(Error::new(Code::StoreFull, READING).with_id(self.id).with_detail(
            "the store took the parts away for other objects before they were read, several times",
        ))
    }

    /// Takes what an answer says.
    pub(super) fn brought(&mut self, request: &ReadRequest, reply: ReadReply) -> Result<Brought> {
        let Parts { object, birth, content } = match reply {
            ReadReply::Parts(parts) => parts,
            ReadReply::Here => return Ok(Brought::Here),
            ReadReply::Failed(failure) => {
                let waits = request.timeout_ms > 0;
                return Err(failed(self.id, (request.end, waits), failure));
            }
        };
        self.found = Some((birth, content));
        let Some(object) = object else { return Ok(Brought::Parts(None, content)) };
        let Some(buffer) = self.client.get_readable(&object)? else { return Ok(Brought::Gone) };
        // What is pinned stays. If the daemon cannot be told, the object deletes itself.
        let delete = message::Request::Delete { ids: vec![object] };
        self.client.here()?.take_back(|requests| requests.send_unanswered(delete));
        let spans = request.spans_of(&content);
        let bytes: u64 = spans.iter().map(|span| span.bytes).sum();
        if buffer.data().len() as u64 != bytes {
            return Err(self.broken());
        }
        Ok(Brought::Parts(Some(buffer), content))
    }

    pub(super) fn pieces_here(&self, ranges: &[Range<u64>]) -> Result<Vec<Piece>> {
        let Some(buffer) = &self.here else { return Err(Error::unexpected(READING)) };
        let found = buffer.data().len() as u64;
        let piece = |range: &Range<u64>| {
            Piece::new(buffer, range.clone()).ok_or_else(|| beyond(self.id, range.end, found))
        };
        ranges.iter().map(piece).collect()
    }

    fn piece(&self, brought: &[(Places, Option<Buffer>)], range: &Range<u64>) -> Result<Piece> {
        if range.is_empty() {
            return Ok(Piece::empty());
        }
        let found = brought
            .iter()
            .find_map(|(places, buffer)| Piece::new(buffer.as_ref()?, places.find(range)?));
        found.ok_or_else(|| self.broken())
    }

    fn broken(&self) -> Error {
        Error::unexpected(READING).with_id(self.id)
    }
}

/// Why a read of data up to `end` failed, which waited for the object or not.
pub(super) fn failed(id: ObjectId, (end, waited): (u64, bool), failure: ReadFailure) -> Error {
    match failure {
        ReadFailure::Absent => why_not(id, ObjectState::Absent, waited),
        ReadFailure::Deleted => why_not(id, ObjectState::Deleted, false),
        ReadFailure::Lost | ReadFailure::Unreachable => {
            why_not(id, ObjectState::Unreachable, false)
        }
        ReadFailure::Damaged => why_not(id, ObjectState::Corrupt, false),
        ReadFailure::NoRoom => Error::new(Code::StoreFull, READING)
            .with_id(id)
            .with_detail("there is no memory here for the parts of the object"),
        ReadFailure::Beyond { data_bytes } => beyond(id, end, data_bytes),
        ReadFailure::Busy => Error::new(Code::LimitReached, READING)
            .with_id(id)
            .with_detail("the pool daemon reads parts of too many objects at this time"),
    }
}

impl Client {
    /// Parts of an object of the pool, or of one of this store: [`PartsReader::read`].
    pub fn pool_read(
        &self,
        id: &ObjectId,
        ranges: &[Range<u64>],
        timeout: Option<Duration>,
    ) -> Result<Vec<Piece>> {
        PartsReader::new(self, *id, timeout).read(ranges)
    }

    /// Has the pool daemon bring objects here that will be needed, and does not wait for them.
    /// What does not exist, or has no room, does not come.
    pub fn pool_prefetch(&self, ids: &[ObjectId]) -> Result<()> {
        const DOING: &str = "having objects brought here";
        let is_elsewhere = |id: &&ObjectId| id.is_pooled();
        let ids: Vec<ObjectId> = ids.iter().filter(is_elsewhere).copied().collect();
        for ids in ids.chunks(REQUEST_IDS_MAX) {
            let request = Request::Prefetch(ids.to_vec());
            match pool::ask(self.socket(), DOING, &request)? {
                Reply::Prefetching => {}
                _ => return Err(Error::unexpected(DOING)),
            }
        }
        Ok(())
    }
}

/// Where the last of some ranges ends.
pub(super) fn check_ranges(id: ObjectId, ranges: &[Range<u64>]) -> Result<u64> {
    let wrong = |detail| Error::new(Code::BadRequest, READING).with_id(id).with_detail(detail);
    if ranges.len() > READ_RANGES_MAX {
        let amounts = (ranges.len() as u64, READ_RANGES_MAX as u64);
        return Err(wrong("more ranges than one call may read").with_amounts(amounts.0, amounts.1));
    }
    if ranges.iter().any(|range| range.start > range.end) {
        return Err(wrong("a range ends before it begins"));
    }
    Ok(ranges.iter().map(|range| range.end).max().unwrap_or(0))
}

pub(super) fn beyond(id: ObjectId, wanted: u64, found: u64) -> Error {
    Error::new(Code::BadRequest, READING)
        .with_id(id)
        .with_amounts(wanted, found)
        .with_detail("the range is not within the object's data")
}
