//! The connections over which regions are asked for.
//!
//! Regions that a process allocates end with the connection on which it did that, so that one stays
//! for as long as the client does. Everything else goes over others, one for each thread that is
//! about it at a time; a few are kept.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plasmon_proto::limits::FRAME_BYTES_MAX;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::region::{
    AllocateRequest, REGION_PIECE_BYTES_MAX, REGION_WRITES_MAX, RegionFailure, RegionReply,
    RegionRequest,
};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool::{self, Door};

/// Connections that are kept.
const IDLE_MAX: usize = 4;

/// For so long a pool daemon that has ended, and a node that is connected again, is waited for.
const AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(20);

const _: () = assert!(REGION_PIECE_BYTES_MAX + 256 <= FRAME_BYTES_MAX, "a piece fits a frame");

/// The connections of one process.
#[derive(Debug, Default)]
pub(crate) struct RegionDoors {
    allocating: Mutex<Option<Numbered>>,
    idle: Mutex<Vec<Numbered>>,
}

/// A connection, and the number of its last request.
#[derive(Debug)]
struct Numbered {
    door: Door,
    last: u64,
}

/// A piece of a write.
#[derive(Clone, Copy, Debug)]
struct WritePiece<'a> {
    offset: u64,
    bytes: &'a [u8],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Numbered {
    fn open(store: &Path, doing: &'static str) -> Result<Self> {
        Ok(Self { door: Door::open(store, doing)?, last: 0 })
    }

    fn send(&mut self, request: &Request) -> Result<u64> {
        self.last += 1;
        self.door.send(self.last, request)?;
        Ok(self.last)
    }

    /// The reply to the request with this number.
    fn receive(&self, store: &Path, number: u64, doing: &'static str) -> Result<Reply> {
        self.door.await_reply(store)?;
        match self.door.receive()? {
            (found, reply) if found == number => Ok(reply),
            _ => Err(Error::unexpected(doing)),
        }
    }
}

/// Whether a failed call may succeed with another connection, before the deadline; waits a little.
fn again(store: &Path, error: Error, deadline: Deadline, doing: &'static str) -> Result<()> {
    let may_come = error.code() == Code::Unreachable && pool::has_socket(store);
    if !may_come || deadline.is_past() {
        return Err(error);
    }
    edge::sleep(interrupt::pause(PAUSE, deadline));
    interrupt::check(doing)
}

impl RegionDoors {
    /// Ends everything that was allocated and is not sealed.
    pub(crate) fn close(&self) {
        *lock(&self.allocating) = None;
        lock(&self.idle).clear();
    }

    /// Makes a region; why there is none.
    pub(super) fn allocate(
        &self,
        store: &Path,
        request: &AllocateRequest,
        doing: &'static str,
    ) -> Result<Result<ObjectId, RegionFailure>> {
        let mut allocating = lock(&self.allocating);
        let deadline = Deadline::after(AGAIN_WITHIN);
        loop {
            let error = match self.allocate_once(&mut allocating, store, request, doing) {
                Ok(Reply::Allocated(id)) => return Ok(Ok(id)),
                Ok(Reply::Region(RegionReply::Failed(failure))) => return Ok(Err(failure)),
                Ok(_) => return Err(Error::unexpected(doing)),
                Err(error) => error,
            };
            if error.code() == Code::Unreachable {
                // The pool daemon has ended, and with it what was allocated before.
                *allocating = None;
            }
            again(store, error, deadline, doing)?;
        }
    }

    fn allocate_once(
        &self,
        allocating: &mut Option<Numbered>,
        store: &Path,
        request: &AllocateRequest,
        doing: &'static str,
    ) -> Result<Reply> {
        let numbered = match allocating {
            Some(numbered) => numbered,
            None => allocating.insert(Numbered::open(store, doing)?),
        };
        let number = numbered.send(&Request::Allocate(request.clone()))?;
        loop {
            numbered.door.await_reply(store)?;
            match numbered.door.receive()? {
                (found, reply) if found == number => return Ok(reply),
                // An earlier call was interrupted, and its caller has no address.
                (earlier, Reply::Allocated(id)) if earlier < number => {
                    let free = RegionRequest::Free { id, is_abandoned: false };
                    self.ask(store, free, doing)?;
                }
                (earlier, _) if earlier < number => {}
                _ => return Err(Error::unexpected(doing)),
            }
        }
    }

    /// Asks something of a region that is no write.
    pub(super) fn ask(
        &self,
        store: &Path,
        request: RegionRequest,
        doing: &'static str,
    ) -> Result<RegionReply> {
        let request = Request::Region(request);
        let deadline = Deadline::after(AGAIN_WITHIN);
        loop {
            let error = match self.ask_once(store, &request, doing) {
                Ok(RegionReply::Failed(RegionFailure::Interrupted | RegionFailure::Busy))
                    if !deadline.is_past() =>
                {
                    edge::sleep(interrupt::pause(PAUSE, deadline));
                    interrupt::check(doing)?;
                    continue;
                }
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            again(store, error, deadline, doing)?;
        }
    }

    fn ask_once(
        &self,
        store: &Path,
        request: &Request,
        doing: &'static str,
    ) -> Result<RegionReply> {
        let mut numbered = self.take(store, doing)?;
        let number = numbered.send(request)?;
        match numbered.receive(store, number, doing)? {
            Reply::Region(reply) => {
                self.keep(numbered);
                Ok(reply)
            }
            _ => Err(Error::unexpected(doing)),
        }
    }

    /// Writes bytes into a region, in pieces of which several are under way. Why it failed: some
    /// pieces may be written then.
    pub(super) fn write(
        &self,
        store: &Path,
        (id, offset): (ObjectId, u64),
        bytes: &[u8],
        doing: &'static str,
    ) -> Result<Result<(), RegionFailure>> {
        let mut pieces: VecDeque<WritePiece<'_>> = bytes
            .chunks(REGION_PIECE_BYTES_MAX)
            .scan(offset, |at, bytes| {
                let piece = WritePiece { offset: *at, bytes };
                *at = at.saturating_add(bytes.len() as u64);
                Some(piece)
            })
            .collect();
        // The last piece goes first: it is refused where the region ends before, and no other is
        // written then.
        let last = pieces.pop_back().unwrap_or(WritePiece { offset, bytes });
        let first = self.write_pieces(store, id, VecDeque::from([last]), doing)?;
        match first {
            Ok(()) if !pieces.is_empty() => self.write_pieces(store, id, pieces, doing),
            outcome => Ok(outcome),
        }
    }

    fn write_pieces(
        &self,
        store: &Path,
        id: ObjectId,
        mut pieces: VecDeque<WritePiece<'_>>,
        doing: &'static str,
    ) -> Result<Result<(), RegionFailure>> {
        let mut deadline = Deadline::after(AGAIN_WITHIN);
        loop {
            let left = pieces.len();
            let outcome = self.write_once(store, id, &mut pieces, doing);
            if pieces.len() < left {
                deadline = Deadline::after(AGAIN_WITHIN);
            }
            match outcome {
                Ok(Ok(())) => return Ok(Ok(())),
                Ok(Err(RegionFailure::Interrupted | RegionFailure::Busy))
                    if !deadline.is_past() =>
                {
                    edge::sleep(interrupt::pause(PAUSE, deadline));
                    interrupt::check(doing)?;
                }
                Ok(Err(failure)) => return Ok(Err(failure)),
                Err(error) => again(store, error, deadline, doing)?,
            }
        }
    }

    /// Writes pieces over one connection until all are written, or one is not; those that are not
    /// written are left.
    fn write_once(
        &self,
        store: &Path,
        id: ObjectId,
        pieces: &mut VecDeque<WritePiece<'_>>,
        doing: &'static str,
    ) -> Result<Result<(), RegionFailure>> {
        let mut numbered = self.take(store, doing)?;
        let (first, mut sent) = (numbered.last + 1, 0);
        let mut done = 0;
        while !pieces.is_empty() {
            while sent < pieces.len().min(REGION_WRITES_MAX)
                && let Some(WritePiece { offset, bytes }) = pieces.get(sent).copied()
            {
                let bytes = plasmon_proto::inline::InlineBytes(bytes.to_vec());
                let write = RegionRequest::Write { id, offset, bytes };
                numbered.send(&Request::Region(write))?;
                sent += 1;
            }
            match numbered.receive(store, first + done, doing)? {
                Reply::Region(RegionReply::Done) => {
                    pieces.pop_front();
                    (sent, done) = (sent - 1, done + 1);
                }
                // The connection ends here: it has replies that nothing waits for.
                Reply::Region(RegionReply::Failed(failure)) => return Ok(Err(failure)),
                _ => return Err(Error::unexpected(doing)),
            }
        }
        self.keep(numbered);
        Ok(Ok(()))
    }

    fn take(&self, store: &Path, doing: &'static str) -> Result<Numbered> {
        let idle = lock(&self.idle).pop();
        idle.map_or_else(|| Numbered::open(store, doing), Ok)
    }

    fn keep(&self, numbered: Numbered) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(numbered);
        }
    }
}
