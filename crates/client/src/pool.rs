//! Questions to the pool daemon of this machine, at its own socket: where an object is, and how the
//! pool is.

use std::io;
use std::path::Path;
use std::time::Duration;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::participation::Participation;
use plasmon_proto::pool_admin::{ObjectPlace, Reply, Request, Verification, socket_of};
use plasmon_proto::pool_status::{PoolNode, PoolStatus};
use plasmon_proto::{Code, ObjectId, frame};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;
use rustix::event::PollFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::error::{Error, Result};
use crate::interrupt;

/// The pool daemon answers within 5 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pool is compared within so long, whatever is asked for.
const VERIFY_WITHIN_MAX: Duration = Duration::from_secs(3600);

/// After so long without an answer the pool daemon is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(20);

/// After so many questions in a row without an answer it is taken for gone.
const PROBES_MAX: u32 = 2;

/// So long is waited for an answer at the least.
const PROBE_PAUSE: Duration = Duration::from_millis(50);

/// Where an object is.
pub(crate) fn place(store: &Path, id: ObjectId) -> Result<ObjectPlace> {
    const DOING: &str = "asking where an object is";
    if !id.is_pooled() {
        let detail = "it belongs to the store of one node; names of a pool begin with @";
        return Err(Error::new(Code::BadRequest, DOING).with_id(id).with_detail(detail));
    }
    let ask = || match Door::open(store, DOING)?.ask(&Request::Where(id))? {
        Reply::Where(place) => Ok(place),
        _ => Err(Error::unexpected(DOING)),
    };
    ask().map_err(|error: Error| error.with_id(id))
}

/// Asks for something that is answered at once.
pub(crate) fn ask(store: &Path, doing: &'static str, request: &Request) -> Result<Reply> {
    Door::open(store, doing)?.ask(request)
}

/// Whether a pool daemon of this store has a socket, or had one when it ended.
pub(crate) fn has_socket(store: &Path) -> bool {
    socket_of(store).exists()
}

/// The pool as a whole.
pub(crate) fn status(store: &Path) -> Result<PoolStatus> {
    const DOING: &str = "asking for the status of the pool";
    match Door::open(store, DOING)?.ask(&Request::Status)? {
        Reply::Status(status) => Ok(*status),
        _ => Err(Error::unexpected(DOING)),
    }
}

/// Has all nodes make their copies of these objects the first to be spilled or evicted, and waits
/// for none.
pub(crate) fn demote(store: &Path, ids: &[ObjectId]) -> Result<()> {
    const DOING: &str = "marking objects as unused on all nodes";
    for ids in ids.chunks(REQUEST_IDS_MAX) {
        match ask(store, DOING, &Request::Demote(ids.to_vec()))? {
            Reply::Demoting => {}
            _ => return Err(Error::unexpected(DOING)),
        }
    }
    Ok(())
}

/// How far the node of this store is with taking part in its pool.
pub(crate) fn participation(store: &Path) -> Result<Participation> {
    const DOING: &str = "asking whether the node has joined its pool";
    match Door::open(store, DOING)?.ask(&Request::Participation)? {
        Reply::Participation(participation) => Ok(*participation),
        _ => Err(Error::unexpected(DOING)),
    }
}

/// The nodes of the pool, in the order of their slots.
pub(crate) fn nodes(store: &Path) -> Result<Vec<PoolNode>> {
    const DOING: &str = "asking for the nodes of the pool";
    let door = Door::open(store, DOING)?;
    let mut nodes: Vec<PoolNode> = Vec::new();
    loop {
        let after = nodes.last().map(|node| node.slot);
        match door.ask(&Request::Nodes { after })? {
            Reply::Nodes(page) if page.is_empty() => return Ok(nodes),
            Reply::Nodes(page) if page.iter().all(|node| Some(node.slot) > after) => {
                nodes.extend(page);
            }
            _ => return Err(Error::unexpected(DOING)),
        }
    }
}

/// Has all records compared with all copies.
pub(crate) fn verify(store: &Path, within: Duration) -> Result<Verification> {
    const DOING: &str = "having the pool compared";
    let door = Door::open(store, DOING)?;
    let within = within.min(VERIFY_WITHIN_MAX);
    let answer_within = within.saturating_add(ANSWER_WITHIN);
    set_socket_timeout(&door.connection, Timeout::Recv, Some(answer_within))
        .map_err(|error| failed(DOING, error.into()))?;
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    match door.ask(&Request::Verify { within_ms })? {
        Reply::Verify(verification) => Ok(*verification),
        _ => Err(Error::unexpected(DOING)),
    }
}

/// A connection to the pool daemon of a store.
#[derive(Debug)]
pub(crate) struct Door {
    connection: Connection,
    doing: &'static str,
}

impl Door {
    pub(crate) fn open(store: &Path, doing: &'static str) -> Result<Self> {
        let connection = Connection::connect(&socket_of(store)).map_err(|e| failed(doing, e))?;
        let peer = connection.peer().map_err(|error| failed(doing, error))?;
        if peer.uid != rustix::process::geteuid().as_raw() {
            let detail = "the socket of the pool daemon belongs to another user";
            return Err(Error::new(Code::NotPermitted, doing).with_detail(detail));
        }
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&connection, which, Some(ANSWER_WITHIN))
                .map_err(|error| failed(doing, error.into()))?;
        }
        Ok(Self { connection, doing })
    }

    /// The connection, for what is no question.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Reply> {
        self.send(1, request)?;
        match self.receive()? {
            (1, reply) => Ok(reply),
            _ => Err(Error::unexpected(self.doing)),
        }
    }

    /// Sends a request by a number.
    pub(crate) fn send(&self, number: u64, request: &Request) -> Result<()> {
        let of_frame = |bad| Error::of_frame(self.doing, &bad);
        let request = frame::encode_admin_request(number, request).map_err(of_frame)?;
        self.connection.send(&request, &[]).map_err(|error| failed(self.doing, error))
    }

    /// The next reply, and the number of its request.
    pub(crate) fn receive(&self) -> Result<(u64, Reply)> {
        let mut bytes = Vec::new();
        let received = self.connection.recv(&mut bytes, true);
        if received.map_err(|error| failed(self.doing, error))?.bytes == 0 {
            return Err(away(self.doing));
        }
        frame::decode_admin_reply(&bytes).map_err(|bad| Error::of_frame(self.doing, &bad))
    }

    /// Waits until there is a reply, for as long as the pool daemon answers other questions
    /// meanwhile.
    pub(crate) fn await_reply(&self, store: &Path) -> Result<()> {
        let mut probe = Deadline::after(PROBE_AFTER);
        let mut unanswered = 0;
        while !self.wait(interrupt::step(probe).left().unwrap_or(PROBE_PAUSE))? {
            interrupt::check(self.doing)?;
            if !probe.is_past() {
                continue;
            }
            match status(store) {
                Ok(_) => unanswered = 0,
                Err(error) if unanswered >= PROBES_MAX => return Err(error),
                Err(_) => unanswered += 1,
            }
            probe = Deadline::after(PROBE_AFTER);
        }
        Ok(())
    }

    /// Waits until there is a reply, or the connection has ended; false when neither has come
    /// within the time.
    pub(crate) fn wait(&self, time: Duration) -> Result<bool> {
        match edge::ready_within(&self.connection, PollFlags::IN, Some(time)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => ready.map_err(|error| failed(self.doing, error)),
        }
    }
}

fn failed(doing: &'static str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(Code::NotPermitted, doing)
            .with_detail("the pool daemon answers programs of the store's user alone"),
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::WouldBlock => away(doing),
        _ => Error::io(doing, error),
    }
}

fn away(doing: &'static str) -> Error {
    Error::new(Code::Unreachable, doing).with_detail(
        "no pool daemon answers for this store: it belongs to no pool, or the daemon is starting",
    )
}
