//! The connection to the store: requests by number, and the thread that reads what comes back.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plasmon_pool::{Birth, Call, Ticket};
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::{
    ExtentId, Failure, Grant, Hello, PROTOCOL_VERSION, Push, Reply, Request, Welcome,
};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::Connection;
use plasmon_shm::map::ReadMap;

use super::maps::{LandedMemory, Maps};
use crate::core::Inbox;
use crate::store::{LandingRequest, StoreEvent};

/// How long the store may take to answer a question that the core waits for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

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
    Release,
    Land(LandingRequest),
    Seal {
        id: ObjectId,
        birth: Birth,
    },
    /// Whether an extent is still there.
    Check(ExtentId),
    /// A thread waits for the answer.
    Ask(SyncSender<(Reply, Vec<OwnedFd>)>),
}

#[derive(Debug, Default)]
struct Requests {
    last: u64,
    purposes: BTreeMap<u64, Purpose>,
    landings: BTreeMap<Ticket, LandingRequest>,
    is_over: bool,
}

/// A connection to the store of this node.
#[derive(Debug)]
pub struct StoreConnection {
    connection: Connection,
    welcome: Welcome,
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
        let hello = Request::Hello(Hello { version, name, channel: false, resume: None });
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
        let (requests, maps) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { connection, welcome, requests, maps }))
    }

    /// The number of the store.
    pub fn store(&self) -> u64 {
        self.welcome.store
    }

    /// How many bytes it holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.welcome.capacity_bytes
    }

    /// Ends the connection: the reader comes to its end, and the store ends what this client holds.
    pub fn close(&self) {
        // One that is closed already is not connected any more.
        let _ = self.connection.shutdown();
    }

    /// Sends a request. What a broken connection loses, the store ends by itself.
    pub(super) fn send(&self, request: &Request, purpose: Purpose) {
        let mut requests = lock(&self.requests);
        if requests.is_over {
            return;
        }
        requests.last += 1;
        let number = requests.last;
        requests.purposes.insert(number, purpose);
        // Under the lock: numbers are sent in order.
        let sent = encode_request(number, request).map_err(io::Error::other);
        if let Err(error) = sent.and_then(|frame| self.connection.send(&frame, &[])) {
            tracing::debug!(%error, "the store is not told a request");
            requests.purposes.remove(&number);
        }
    }

    /// Asks the store, and waits for its answer; `None` when it refuses, or does not answer.
    pub(super) fn ask(&self, request: &Request) -> Option<(Reply, Vec<OwnedFd>)> {
        let (sender, answer) = sync_channel(1);
        self.send(request, Purpose::Ask(sender));
        answer.recv_timeout(ANSWER_WITHIN).ok()
    }

    /// The mapping of an extent, to read from.
    pub(super) fn map_to_read(&self, extent: ExtentId) -> Option<Arc<ReadMap>> {
        let found = lock(&self.maps).find(extent);
        if found.is_some() {
            return found;
        }
        let request = Request::Extents { extents: vec![extent], write: false };
        let (reply, fds) = self.ask(&request)?;
        let Reply::Extents(sizes) = reply else { return None };
        let (bytes, fd) = (sizes.into_iter().next()??, fds.into_iter().next()?);
        let mapped = lock(&self.maps).map(extent, fd, bytes);
        mapped.inspect_err(|error| tracing::warn!(%error, "an extent cannot be mapped")).ok()
    }

    /// Asks whether one of the extents that are mapped is still there.
    pub(super) fn check_maps(&self) {
        let extent = lock(&self.maps).next_to_check();
        if let Some(extent) = extent {
            let request = Request::Extents { extents: vec![extent], write: false };
            self.send(&request, Purpose::Check(extent));
        }
    }

    /// Memory is asked for from now on.
    pub(super) fn expect_landing(&self, request: LandingRequest) {
        lock(&self.requests).landings.insert(request.ticket, request);
    }

    /// A landing that is over.
    pub(super) fn take_landing(&self, ticket: Ticket) -> Option<LandingRequest> {
        lock(&self.requests).landings.remove(&ticket)
    }

    fn take_purpose(&self, number: u64) -> Option<Purpose> {
        lock(&self.requests).purposes.remove(&number)
    }

    /// Threads that wait for an answer wait no longer.
    fn end(&self) {
        let mut requests = lock(&self.requests);
        requests.is_over = true;
        requests.purposes.clear();
    }
}

/// The thread that reads.
pub(super) struct Reader {
    connection: Arc<StoreConnection>,
    inbox: Inbox,
}

impl Reader {
    pub(super) fn new(connection: Arc<StoreConnection>, inbox: Inbox) -> Self {
        Self { connection, inbox }
    }

    /// Reads until the connection ends.
    pub(super) fn run(&self) {
        let mut bytes = Vec::new();
        loop {
            let received = match self.connection.connection.recv(&mut bytes, true) {
                Ok(received) if received.bytes > 0 && !received.truncated => received,
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "the store is not heard any more");
                    break;
                }
            };
            match decode_from_daemon(bytes.get(..received.bytes).unwrap_or_default()) {
                Ok(FromDaemon::Push(Push::Calls(calls))) => {
                    calls.into_iter().for_each(|call| self.inbox.say(event_of(call)));
                }
                Ok(FromDaemon::Push(_)) => {}
                Ok(FromDaemon::Reply(number, reply)) => {
                    let Some(purpose) = self.connection.take_purpose(number) else { continue };
                    if !self.answered(purpose, reply, received.fds) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the store sends what is no message");
                    break;
                }
            }
        }
        self.connection.end();
    }

    /// An answer came. False when the connection is of no use any more.
    fn answered(&self, purpose: Purpose, reply: Reply, fds: Vec<OwnedFd>) -> bool {
        match (purpose, reply) {
            // A thread that waited too long has given up.
            (Purpose::Ask(sender), reply) => _ = sender.send((reply, fds)),
            (Purpose::Land(request), Reply::Created(grant)) => self.landed(request, &grant, fds),
            (Purpose::Land(request), reply) => self.not_landed(request, &reply),
            (Purpose::Seal { id, birth }, Reply::Failed(failure)) => {
                tracing::error!(object = %id, "a copy cannot be sealed: {failure:?}");
                self.inbox.say(StoreEvent::Call(Call::Ended { id, birth }));
            }
            (Purpose::Seat, Reply::Failed(failure)) => {
                let Failure { code, detail, .. } = failure;
                tracing::error!("the store does not give its seat ({}): {detail}", code.key());
                return false;
            }
            (Purpose::Check(extent), Reply::Extents(sizes)) if sizes[..] == [None] => {
                lock(&self.connection.maps).forget(extent);
            }
            (purpose, Reply::Failed(failure)) => {
                tracing::debug!("the store refuses {purpose:?}: {failure:?}");
            }
            (_, _) => {}
        }
        true
    }

    fn landed(&self, request: LandingRequest, grant: &Grant, fds: Vec<OwnedFd>) {
        let missing = || io::Error::other("no descriptor came with the memory");
        let fd = fds.into_iter().next().ok_or_else(missing);
        let level = self.connection.welcome.level;
        let lease = fd.and_then(|fd| lock(&self.connection.maps).lease(grant, fd, level));
        let content = request.content.bytes() as usize;
        let memory = lease.and_then(|mut span| {
            let short = || io::Error::other("the memory is shorter than the object");
            span.take(content).ok_or_else(short)
        });
        match memory {
            Ok(span) => {
                let memory = Box::new(LandedMemory(span));
                self.inbox.say(StoreEvent::Landed(request.ticket, Some(memory)));
            }
            Err(error) => {
                tracing::error!(object = %request.id, %error, "the memory of a copy is not there");
                self.connection.take_landing(request.ticket);
                self.connection.send(&Request::Abort { id: request.id }, Purpose::Abort);
                self.inbox.say(StoreEvent::Landed(request.ticket, None));
            }
        }
    }

    fn not_landed(&self, request: LandingRequest, reply: &Reply) {
        if !matches!(reply, Reply::Failed(failure) if failure.code == Code::StoreFull) {
            tracing::warn!(object = %request.id, "no memory for a copy: {reply:?}");
        }
        self.connection.take_landing(request.ticket);
        self.inbox.say(StoreEvent::Landed(request.ticket, None));
    }
}

/// What the store said, for the core.
fn event_of(call: Call) -> StoreEvent {
    match call {
        Call::InventoryEnd => StoreEvent::Ready,
        call => StoreEvent::Call(call),
    }
}
