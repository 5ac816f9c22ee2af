//! The connection to the store: requests by number, and what they are for.
//!
//! A request is sent at once where the store reads, and by a thread of its own where it does not:
//! the store reads nothing more of a client that does not read what it is sent, so the core, which
//! reads, must never wait to send.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plasmon_pool::{Birth, Ticket};
use plasmon_proto::ObjectId;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::{Failure, Hello, Location, PROTOCOL_VERSION, Reply, Request, Welcome};
use plasmon_proto::object::Level;
use plasmon_proto::pool::Origin;
use plasmon_shm::Connection;
use plasmon_shm::socket::Message;

use super::maps::Maps;
use super::shown::{Look, Shown};
use crate::store::{AllocationRequest, LandingRequest};

/// As what this client is listed.
const NAME: &str = "plasmon-poold";

/// Why the store does not take this client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens there: the store has not started, or has ended.
    #[error("the store at {path} cannot be reached: {source}")]
    Io {
        /// The socket.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The store refuses: see what it says.
    #[error(
        "the store at {path} refuses the connection ({}): {}",
        failure.code.key(),
        failure.detail
    )]
    Refused {
        /// The socket.
        path: String,
        /// What it says.
        failure: Box<Failure>,
    },
    /// It is no store, or of another version.
    #[error("what listens at {path} is not a store of this version")]
    Unexpected {
        /// The socket.
        path: String,
    },
}

/// What a request is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The seat is taken.
    Seat,
    Tell,
    Abort,
    Delete,
    Release,
    Land(LandingRequest),
    Seal {
        id: ObjectId,
        birth: Birth,
    },
    /// Of a local object with parts.
    SealParts(ObjectId),
    /// Memory of a region.
    Allocate(AllocationRequest),
    /// Of a region, whose acceptance by the pool is waited for if that is wanted.
    SealRegion {
        id: ObjectId,
        settles: bool,
    },
    /// The acceptance of what was a region.
    Settle(ObjectId),
    /// Whether an extent is still there.
    Check(ExtentId),
    /// Where a copy is, and its pin.
    Open(OpenRequest),
    /// The file of a copy, if it is spilled.
    OpenFile(OpenRequest),
    /// The extent of a copy that is pinned.
    Map(OpenRequest, Pin, Location),
    /// A page of a namespace.
    List(u64),
    /// What the log has of a copy.
    CheckLogged(u64),
    /// What a copy is called.
    Describe(u64),
    /// The extent of a copy that the index shows.
    MapShown(OpenRequest, ExtentId),
    /// The present table of the index.
    Index,
}

/// A copy that is to be opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRequest {
    /// What the answer says.
    pub(super) number: u64,
    /// The object.
    pub(super) id: ObjectId,
    /// The incarnation that is wanted.
    pub(super) birth: Birth,
    /// This node.
    pub(super) here: Origin,
}

/// A pin that the daemon counts. Dropped, it tells the daemon.
#[derive(Debug)]
pub(super) struct Pin {
    connection: Arc<StoreConnection>,
    serial: u64,
}

impl Pin {
    /// The pin of the object at a location that the store gave.
    pub(super) fn new(connection: &Arc<StoreConnection>, location: &Location) -> Self {
        Self { connection: connection.clone(), serial: location.serial }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.connection.send(&Request::Release { serials: vec![self.serial] }, Purpose::Release);
    }
}

#[derive(Debug)]
struct Requests {
    last: u64,
    purposes: BTreeMap<u64, Purpose>,
    landings: BTreeMap<Ticket, LandingRequest>,
    /// How many requests the thread that sends has, which go before any other.
    queued: usize,
    /// That thread; `None` when the connection has ended.
    queue: Option<Sender<Vec<u8>>>,
}

/// A connection to the store of this node.
#[derive(Debug)]
pub struct StoreConnection {
    connection: Connection,
    welcome: Welcome,
    /// What the store shows; `None` where it gives this client no channel.
    shown: Option<Shown>,
    requests: Mutex<Requests>,
    maps: Mutex<Maps>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreConnection {
    /// Connects to the store at this socket.
    pub fn connect(socket: &Path) -> Result<Arc<Self>, ConnectError> {
        let path = || socket.display().to_string();
        let failed = |source| ConnectError::Io { path: path(), source };
        let connection = Connection::connect(socket).map_err(failed)?;
        let (version, name) = (PROTOCOL_VERSION, NAME.to_owned());
        let hello = Request::Hello(Hello { version, name, channel: true, resume: None });
        let unexpected = || ConnectError::Unexpected { path: path() };
        let frame = encode_request(0, &hello).map_err(|_| unexpected())?;
        connection.send(&frame, &[]).map_err(failed)?;
        let mut bytes = Vec::new();
        let received = connection.recv(&mut bytes, true).map_err(failed)?;
        let frame = bytes.get(..received.bytes).unwrap_or_default();
        let welcome = match decode_from_daemon(frame) {
            Ok(FromDaemon::Reply(0, Reply::Welcome(welcome))) => welcome,
            Ok(FromDaemon::Reply(_, Reply::Failed(failure))) => {
                return Err(ConnectError::Refused { path: path(), failure: Box::new(failure) });
            }
            _ => return Err(unexpected()),
        };
        let (queue, queued) = channel();
        let requests = Requests {
            last: 0,
            purposes: BTreeMap::new(),
            landings: BTreeMap::new(),
            queued: 0,
            queue: Some(queue),
        };
        let (requests, maps) = (Mutex::new(requests), Mutex::default());
        let shown = match welcome.channel {
            true => Some(Shown::new(&welcome, received.fds).map_err(failed)?),
            false => None,
        };
        let this = Arc::new(Self { connection, welcome, shown, requests, maps });
        let sender = this.clone();
        let thread = std::thread::Builder::new().name("pool-requests".to_owned());
        thread.spawn(move || sender.send_queued(&queued)).map_err(failed)?;
        Ok(this)
    }

    /// The number of the store.
    pub fn store(&self) -> u64 {
        self.welcome.store
    }

    /// How many bytes it holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.welcome.capacity_bytes
    }

    /// Whether it has a log for durable objects.
    pub fn has_log(&self) -> bool {
        self.welcome.durable
    }

    /// Whether that log was not open yet when the connection was made.
    pub fn is_log_closed(&self) -> bool {
        self.welcome.log_closed
    }

    /// Ends the connection, and the store ends what this client holds.
    pub fn close(&self) {
        if let Some(shown) = &self.shown {
            shown.leave();
        }
        // One that is closed already is not connected any more.
        let _ = self.connection.shutdown();
        self.end();
    }

    /// How the store protects what it holds.
    pub(super) fn level(&self) -> Level {
        self.welcome.level
    }

    /// What the store shows.
    pub(super) fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// The extents that are mapped.
    pub(super) fn maps(&self) -> MutexGuard<'_, Maps> {
        lock(&self.maps)
    }

    /// Sends a request, without waiting. What a broken connection loses, the store ends by itself.
    pub(super) fn send(&self, request: &Request, purpose: Purpose) {
        let mut requests = lock(&self.requests);
        let Some(queue) = requests.queue.clone() else { return };
        requests.last += 1;
        let number = requests.last;
        let frame = match encode_request(number, request) {
            Ok(frame) => frame,
            Err(error) => return tracing::error!(%error, "a request to the store is too long"),
        };
        requests.purposes.insert(number, purpose);
        // Under the lock: numbers are sent in order.
        if requests.queued == 0 && self.connection.try_send(&frame, &[]).is_ok() {
            return;
        }
        requests.queued += 1;
        // It fails when the thread has found the connection broken; the one that reads ends it.
        let _ = queue.send(frame);
    }

    fn send_queued(&self, queued: &Receiver<Vec<u8>>) {
        while let Ok(frame) = queued.recv() {
            if let Err(error) = self.connection.send(&frame, &[]) {
                return tracing::debug!(%error, "the store is not told a request");
            }
            lock(&self.requests).queued -= 1;
        }
    }

    /// What is readable when the store has said something.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// The next message of the store, without waiting; `None` at the end of the connection.
    pub(super) fn receive(&self, into: &mut Vec<u8>) -> io::Result<Option<Message>> {
        let received = self.connection.recv(into, false)?;
        Ok((received.bytes > 0 && !received.truncated).then_some(received))
    }

    /// Asks whether one of the extents that are mapped is still there.
    pub(super) fn check_maps(&self) {
        let extent = lock(&self.maps).next_to_check();
        if let Some(extent) = extent {
            let request = Request::Extents { extents: vec![extent], write: false };
            self.send(&request, Purpose::Check(extent));
        }
    }

    /// Looks for a copy in the index.
    pub(super) fn look(&self, open: &OpenRequest) -> Look {
        self.shown.as_ref().map_or(Look::Missing, |shown| shown.look(&open.id))
    }

    /// Asks the store for a copy.
    pub(super) fn ask_open(&self, open: OpenRequest) {
        self.send(&Request::Get { ids: vec![open.id] }, Purpose::Open(open));
    }

    /// Memory is asked for from now on.
    pub(super) fn expect_landing(&self, request: LandingRequest) {
        lock(&self.requests).landings.insert(request.ticket, request);
    }

    /// A landing that is over.
    pub(super) fn take_landing(&self, ticket: Ticket) -> Option<LandingRequest> {
        lock(&self.requests).landings.remove(&ticket)
    }

    /// What a request was for, once.
    pub(super) fn take_purpose(&self, number: u64) -> Option<Purpose> {
        lock(&self.requests).purposes.remove(&number)
    }

    /// Nothing is sent any more, and no answer comes.
    pub(super) fn end(&self) {
        let mut requests = lock(&self.requests);
        requests.queue = None;
        let purposes = std::mem::take(&mut requests.purposes);
        drop(requests);
        // Among them are pins, which take the lock.
        drop(purposes);
    }
}
