//! Parts of many objects, in the order asked for.
//!
//! ```text
//!   here in the store ─────────────────────────► pinned, and read in place
//!   elsewhere ──► few requests, two of them under way ──► local objects with parts of many objects
//!   what is too long for that, or was not there ──► a read of one object, in its turn
//! ```
//!
//! So many bytes are on their way or wait for the reader as two requests may ask for, however many
//! objects there are.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use plasmon_proto::gather::{GatherRead, GatherReply, GatherRequest, Gathered};
use plasmon_proto::limits::{GATHER_BYTES_MAX, GATHER_READS_MAX, GATHER_SPANS_MAX};
use plasmon_proto::parts::ReadFailure;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::{Code, ObjectId, message};
use plasmon_shm::edge;

use super::door::{READING, ReadDoor};
use super::layout::{Places, spans_of};
use super::reader::{PartsReader, Piece, beyond, check_ranges, failed};
use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::{Error, Result};

/// Requests that are under way at a time.
const REQUESTS_AHEAD: usize = 2;

/// What is wanted of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsOf {
    /// The object, of a pool or of this store alone.
    pub id: ObjectId,
    /// Ranges of its data, each of which becomes a piece.
    pub ranges: Vec<Range<u64>>,
}

/// What is known of a read.
#[derive(Debug)]
enum State {
    Done(Result<Vec<Piece>>),
    /// It is read by itself when it is its turn.
    Alone,
    Asked(GatherRead),
}

#[derive(Debug)]
struct Item {
    wanted: PartsOf,
    state: State,
}

/// Parts of many objects: an iterator that gives for each object its pieces, or why they cannot be
/// had, in the order asked for.
///
/// Pieces of several objects may share memory, which is free when the last of them is dropped.
#[derive(Debug)]
pub struct PartsGather {
    client: Client,
    timeout: Option<Duration>,
    begun: Instant,
    /// What no request was made for yet.
    left: VecDeque<PartsOf>,
    /// What comes next, in order.
    items: VecDeque<Item>,
    /// How many reads each request has that is under way.
    under_way: VecDeque<usize>,
    door: ReadDoor,
    /// How many bytes one request may ask for.
    request_bytes: u64,
    /// The pool daemon cannot be asked: nothing is asked any more.
    broken: Option<(Code, String)>,
}

impl Client {
    /// Parts of many objects, with few requests to the nodes that have them. What is not within its
    /// object is refused for that object alone ([`Code::BadRequest`]). `timeout` is how long all of
    /// them together are waited for that do not exist, as for [`PartsReader::new`].
    pub fn pool_gather(&self, wanted: Vec<PartsOf>, timeout: Option<Duration>) -> PartsGather {
        PartsGather {
            client: self.clone(),
            timeout,
            begun: edge::now(),
            left: wanted.into(),
            items: VecDeque::new(),
            under_way: VecDeque::new(),
            door: ReadDoor::new(self.socket().to_owned()),
            request_bytes: GATHER_BYTES_MAX,
            broken: None,
        }
    }
}

/// How much a request has.
#[derive(Default)]
struct Size {
    reads: usize,
    spans: usize,
    bytes: u64,
}

impl Size {
    /// Takes another read into a request of so many bytes at most, if there is room for it.
    fn add(&mut self, read: &GatherRead, bytes: u64, bytes_max: u64) -> bool {
        let sum = Self {
            reads: self.reads + 1,
            spans: self.spans + read.spans.len(),
            bytes: self.bytes.saturating_add(bytes),
        };
        let fits = sum.reads <= GATHER_READS_MAX
            && sum.spans <= GATHER_SPANS_MAX
            && sum.bytes <= bytes_max;
        if fits {
            *self = sum;
        }
        fits
    }
}

impl PartsGather {
    /// Has at most so many bytes on their way, or waiting to be taken, but for single reads that
    /// are longer. Without it 64 MiB, which is also the most.
    #[must_use]
    pub fn with_bytes_ahead(mut self, bytes: u64) -> Self {
        self.request_bytes = (bytes / REQUESTS_AHEAD as u64).clamp(1, GATHER_BYTES_MAX);
        self
    }

    /// Asks for what may be under way, so that it comes while the caller does something else.
    pub fn begin(&mut self) {
        if let Err(error) = self.ask_ahead() {
            self.end_asked(&error);
        }
    }

    /// How many reads have not been given yet.
    fn len(&self) -> usize {
        self.items.len() + self.left.len()
    }

    /// Where an object is to be read.
    fn plan(&self, wanted: &PartsOf) -> State {
        let PartsOf { id, ranges } = wanted;
        if !id.is_pooled() {
            return State::Alone;
        }
        match self.look_here(id) {
            Err(error) => return State::Done(Err(error)),
            Ok(Some(buffer)) => return State::Done(pieces_of(*id, ranges, &buffer)),
            Ok(None) => {}
        }
        if let Some(error) = self.why_broken(*id) {
            return State::Done(Err(error));
        }
        match check_ranges(*id, ranges) {
            Err(error) => State::Done(Err(error)),
            Ok(end) => State::Asked(GatherRead { id: *id, spans: spans_of(ranges), end }),
        }
    }

    /// The object, where it is in this store. Without an index to look into, a client would ask for
    /// all of it.
    fn look_here(&self, id: &ObjectId) -> Result<Option<Buffer>> {
        match self.client.here()?.session().channel() {
            Some(_) => self.client.try_get(id),
            None => Ok(None),
        }
    }

    /// Asks for as much as may be under way. Of what needs no request only so many are looked for
    /// ahead.
    fn ask_ahead(&mut self) -> Result<()> {
        while self.under_way.len() < REQUESTS_AHEAD
            && self.items.len() < REQUESTS_AHEAD * GATHER_READS_MAX
            && !self.left.is_empty()
        {
            let reads = self.next_request();
            if reads.is_empty() {
                continue;
            }
            self.under_way.push_back(reads.len());
            self.door.begin(Request::Gather(GatherRequest { reads }))?;
        }
        Ok(())
    }

    /// What the next request asks for.
    fn next_request(&mut self) -> Vec<GatherRead> {
        let (mut size, mut reads) = (Size::default(), Vec::new());
        for _ in 0..GATHER_READS_MAX {
            let Some(wanted) = self.left.pop_front() else { break };
            let mut state = self.plan(&wanted);
            if let State::Asked(read) = &state {
                match read.bytes() {
                    Some(bytes) if size.add(read, bytes, self.request_bytes) => {
                        reads.push(read.clone());
                    }
                    // One that is longer than a request should be makes one of its own.
                    Some(bytes) if reads.is_empty() && size.add(read, bytes, GATHER_BYTES_MAX) => {
                        reads.push(read.clone());
                    }
                    Some(bytes) if Size::default().add(read, bytes, GATHER_BYTES_MAX) => {
                        self.left.push_front(wanted);
                        break;
                    }
                    _ => state = State::Alone,
                }
            }
            self.items.push_back(Item { wanted, state });
        }
        reads
    }

    /// Takes the answer to the first request that is under way.
    fn receive(&mut self) -> Result<()> {
        let received = self.door.receive()?;
        let (Request::Gather(request), Reply::Gather(reply)) = received else {
            return Err(Error::unexpected(READING));
        };
        self.under_way.pop_front();
        if reply.reads.len() != request.reads.len() {
            return Err(Error::unexpected(READING));
        }
        let buffers = self.pin(&reply)?;
        let waits = self.timeout != Some(Duration::ZERO);
        let mut gathered = reply.reads.into_iter();
        for item in &mut self.items {
            let State::Asked(read) = &item.state else { continue };
            let Some(gathered) = gathered.next() else { break };
            item.state = match gathered {
                Gathered::Here => State::Alone,
                Gathered::Failed(ReadFailure::Absent) if waits => State::Alone,
                Gathered::Failed(failure) => {
                    State::Done(Err(failed(read.id, (read.end, false), failure)))
                }
                Gathered::Parts { object, offset, data_bytes } => {
                    match buffers.get(usize::from(object)) {
                        // It was gone before it could be pinned.
                        Some(None) => State::Alone,
                        buffer => {
                            let buffer = buffer.and_then(Option::as_ref);
                            let places = Places::new(&read.spans, data_bytes);
                            State::Done(pieces(&item.wanted, (buffer, offset), &places))
                        }
                    }
                }
            };
        }
        Ok(())
    }

    /// Pins the local objects of an answer, and deletes them: what is pinned stays.
    fn pin(&self, reply: &GatherReply) -> Result<Vec<Option<Buffer>>> {
        let pinned = reply.objects.iter().map(|object| self.client.get_readable(object));
        let pinned = pinned.collect::<Result<Vec<_>>>()?;
        if !reply.objects.is_empty() {
            // If the daemon cannot be told, they delete themselves.
            let delete = message::Request::Delete { ids: reply.objects.clone() };
            self.client.here()?.take_back(|requests| requests.send_unanswered(delete));
        }
        Ok(pinned)
    }

    fn why_broken(&self, id: ObjectId) -> Option<Error> {
        let (code, detail) = self.broken.as_ref()?;
        Some(Error::new(*code, READING).with_id(id).with_detail(detail.clone()))
    }

    /// A read by itself, in the time that is left.
    fn read_alone(&self, wanted: &PartsOf) -> Result<Vec<Piece>> {
        if self.broken.is_some() && wanted.id.is_pooled() {
            return match (self.look_here(&wanted.id)?, self.why_broken(wanted.id)) {
                (None, Some(error)) => Err(error),
                (None, None) => Err(Error::unexpected(READING)),
                (Some(buffer), _) => pieces_of(wanted.id, &wanted.ranges, &buffer),
            };
        }
        let timeout = self.timeout.map(|timeout| match timeout {
            Duration::ZERO => timeout,
            // It says that the time was over, and not that it did not wait.
            _ => timeout
                .saturating_sub(edge::now().saturating_duration_since(self.begun))
                .max(Duration::from_millis(1)),
        });
        PartsReader::new(&self.client, wanted.id, timeout).read(&wanted.ranges)
    }

    /// The pool daemon cannot be asked: what is under way ends with the reason.
    fn end_asked(&mut self, error: &Error) {
        self.under_way.clear();
        self.broken = Some((error.code(), error.detail().to_owned()));
        let mut items = std::mem::take(&mut self.items);
        for item in &mut items {
            if let State::Asked(read) = &item.state
                && let Some(error) = self.why_broken(read.id)
            {
                item.state = State::Done(Err(error));
            }
        }
        self.items = items;
    }
}

impl Iterator for PartsGather {
    type Item = Result<Vec<Piece>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.begin();
            match self.items.pop_front() {
                None if self.left.is_empty() => return None,
                None => {}
                Some(Item { state: State::Done(done), .. }) => return Some(done),
                Some(Item { wanted, state: State::Alone }) => {
                    return Some(self.read_alone(&wanted));
                }
                Some(item) => {
                    self.items.push_front(item);
                    if let Err(error) = self.receive() {
                        self.end_asked(&error);
                    }
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl ExactSizeIterator for PartsGather {}

/// The ranges of an object that is here.
fn pieces_of(id: ObjectId, ranges: &[Range<u64>], buffer: &Buffer) -> Result<Vec<Piece>> {
    check_ranges(id, ranges)?;
    let found = buffer.data().len() as u64;
    let piece = |range: &Range<u64>| {
        Piece::new(buffer, range.clone()).ok_or_else(|| beyond(id, range.end, found))
    };
    ranges.iter().map(piece).collect()
}

/// The ranges of an object whose spans lie in a local object, from there on.
fn pieces(
    wanted: &PartsOf,
    (buffer, start): (Option<&Buffer>, u64),
    places: &Places,
) -> Result<Vec<Piece>> {
    let piece = |range: &Range<u64>| {
        if range.is_empty() {
            return Ok(Piece::empty());
        }
        let found = buffer.zip(places.find(range)).and_then(|(buffer, place)| {
            let range = start.checked_add(place.start)?..start.checked_add(place.end)?;
            Piece::new(buffer, range)
        });
        found.ok_or_else(|| Error::unexpected(READING).with_id(wanted.id))
    };
    wanted.ranges.iter().map(piece).collect()
}
