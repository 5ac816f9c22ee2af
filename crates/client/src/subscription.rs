//! Notifications about the lives of objects, on their own connection.
//!
//! The daemon queues notices for each subscriber and says at which point it had to drop some. When
//! the daemon itself goes away, the subscription connects to the next one and says that an unknown
//! number was lost.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::message::{Filter, Notice, Push, Reply, Request};
use plasmon_proto::{Code, Name};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::socket::Connection;

use crate::error::{Error, Result};
use crate::frame_reader::await_message;
use crate::handshake::{Caller, HandshakeError, Timeouts, connect_within};
use crate::options::ConnectOptions;
use crate::pool_subscription;

const SUBSCRIBING: &str = "subscribing to notifications";
const READING: &str = "reading notifications";
const SUBSCRIBE_NUMBER: u64 = 1;

/// The least time for a connection to another daemon, also when the caller has less: it would never
/// be made otherwise.
const RECONNECT: Duration = Duration::from_millis(100);

/// A message to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something happened to an object.
    Notice(Notice),
    /// The subscriber was too slow and this many notices were dropped at this point; `u64::MAX`
    /// when the number is not known because the daemon itself was restarted.
    Lost(u64),
}

/// What was received and not asked for yet, with the names of objects where they were told.
type Queue = VecDeque<(Notification, Option<Name>)>;

/// A subscription: notices in the order in which things happened, and never a silent gap.
///
/// One to a namespace of the pool tells the births and deletes in the whole pool, as *sealed* and
/// *deleted*; those of one id come in order, each once. When a node of the pool comes or goes,
/// notices may be lost, and that is told as [`Notification::Lost`].
#[derive(Debug)]
pub struct Subscription {
    connection: Connection,
    queue: Queue,
    last_name: Option<Name>,
    socket: PathBuf,
    options: ConnectOptions,
    filter: Filter,
}

impl Subscription {
    /// Connects and subscribes; events after this returns are notified.
    pub(crate) fn open(socket: PathBuf, options: ConnectOptions, filter: Filter) -> Result<Self> {
        let mut queue = Queue::new();
        let connection = subscribe(&socket, &options, &filter, Deadline::NEVER, &mut queue)?;
        Ok(Self { connection, queue, last_name: None, socket, options, filter })
    }

    /// The next notification, `None` when the timeout has passed; no timeout means no limit.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Notification>> {
        let deadline = Deadline::within(timeout);
        loop {
            if let Some(notification) = self.next_queued() {
                return Ok(Some(notification));
            }
            if !await_message(&self.connection, READING, deadline)? {
                return Ok(None);
            }
            match receive(&self.connection) {
                Ok(FromDaemon::Push(push)) => take_push(push, &mut self.queue),
                Ok(FromDaemon::Reply(_, Reply::Failed(failure))) => {
                    return Err(Error::of_failure(SUBSCRIBING, failure));
                }
                Ok(FromDaemon::Reply(..)) | Err(ReceiveError::Nothing) => {}
                Err(ReceiveError::Broken) => {
                    let time = deadline.left().map_or(Duration::MAX, |left| left.max(RECONNECT));
                    let own = Deadline::after(time);
                    match self.reconnect(own) {
                        // The next call goes on with it.
                        Err(error) if error.code() == Code::TimedOut && own.is_past() => {
                            return Ok(None);
                        }
                        outcome => outcome?,
                    }
                }
            }
        }
    }

    /// The next notification that has been received already: never waits.
    pub fn next_queued(&mut self) -> Option<Notification> {
        let (notification, name) = self.queue.pop_front()?;
        self.last_name = name;
        Some(notification)
    }

    /// The name of the object that the last notification was about: the pool says it, a store does
    /// not.
    pub fn last_name(&self) -> Option<&Name> {
        self.last_name.as_ref()
    }

    /// A descriptor that is readable when there is something to take off the socket. Call
    /// [`Self::next`] with a timeout of zero until it gives `None` before waiting on it again; take
    /// the descriptor again after each such round, because a lost connection is replaced.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    fn reconnect(&mut self, own: Deadline) -> Result<()> {
        let mut queue = Queue::from([(Notification::Lost(u64::MAX), None)]);
        let connection = subscribe(&self.socket, &self.options, &self.filter, own, &mut queue)?;
        self.connection = connection;
        self.queue = queue;
        Ok(())
    }
}

/// Connects and subscribes, however many daemons go away in between.
fn subscribe(
    socket: &Path,
    options: &ConnectOptions,
    filter: &Filter,
    own: Deadline,
    queue: &mut Queue,
) -> Result<Connection> {
    if let Some(filter) = pool_subscription::pooled(filter) {
        return pool_subscription::subscribe(socket, options, &filter, own);
    }
    let caller = Caller { channel: false, ..Caller::new(socket, options) };
    let timeouts = Timeouts { until: Deadline::after(options.reconnect_timeout), own };
    loop {
        match subscribe_once(caller, timeouts, filter, queue) {
            Err(HandshakeError::NoDaemon(_)) if !timeouts.until.is_past() => {}
            outcome => return outcome.map_err(HandshakeError::into_error),
        }
    }
}

fn subscribe_once(
    caller: Caller<'_>,
    timeouts: Timeouts,
    filter: &Filter,
    queue: &mut Queue,
) -> Result<Connection, HandshakeError> {
    let welcomed = connect_within(caller, timeouts, &mut || None, &|| true)?;
    let connection = welcomed.connection;
    let request = Request::Subscribe { filter: filter.clone() };
    let frame = frame::encode_request(SUBSCRIBE_NUMBER, &request)
        .map_err(|bad| HandshakeError::Permanent(Error::of_frame(SUBSCRIBING, &bad)))?;
    let sent = connection.try_send(&frame, &[]);
    sent.map_err(|error| HandshakeError::NoDaemon(Error::io(SUBSCRIBING, error)))?;
    let answer_by = Deadline::after(caller.answer_timeout).earlier(timeouts.own);
    loop {
        if !await_message(&connection, SUBSCRIBING, answer_by).map_err(HandshakeError::Ended)? {
            let error = Error::new(Code::TimedOut, SUBSCRIBING);
            return Err(HandshakeError::Ended(
                error.with_detail("the daemon did not answer in time"),
            ));
        }
        match receive(&connection) {
            Ok(FromDaemon::Reply(SUBSCRIBE_NUMBER, Reply::Done)) => return Ok(connection),
            Ok(FromDaemon::Reply(_, Reply::Failed(failure))) => {
                return Err(HandshakeError::Permanent(Error::of_failure(SUBSCRIBING, failure)));
            }
            Ok(FromDaemon::Reply(..)) => {
                return Err(HandshakeError::Permanent(Error::unexpected(SUBSCRIBING)));
            }
            Ok(FromDaemon::Push(push)) => take_push(push, queue),
            Err(ReceiveError::Nothing) => {}
            Err(ReceiveError::Broken) => {
                let error = Error::new(Code::Disconnected, SUBSCRIBING);
                return Err(HandshakeError::NoDaemon(error));
            }
        }
    }
}

fn take_push(push: Push, queue: &mut Queue) {
    match push {
        Push::Notices(notices) => {
            queue.extend(notices.into_iter().map(|notice| (Notification::Notice(notice), None)));
        }
        Push::NamedNotices(notices) => {
            let notices = notices.into_iter();
            queue.extend(notices.map(|it| (Notification::Notice(it.notice), Some(it.name))));
        }
        Push::NoticesLost(count) => queue.push_back((Notification::Lost(count), None)),
        // Only the pool daemon is told these.
        Push::Calls(_) | Push::Adoption(_) => {}
    }
}

enum ReceiveError {
    Nothing,
    Broken,
}

fn receive(connection: &Connection) -> Result<FromDaemon, ReceiveError> {
    let mut bytes = Vec::new();
    let received = match connection.recv(&mut bytes, false) {
        Ok(received) if received.bytes > 0 => received,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) =>
        {
            return Err(ReceiveError::Nothing);
        }
        Ok(_) | Err(_) => return Err(ReceiveError::Broken),
    };
    debug_assert_eq!(received.bytes, bytes.len(), "a message is received whole");
    frame::decode_from_daemon(&bytes).map_err(|bad| {
        tracing::warn!(%bad, "the daemon sent an invalid frame");
        ReceiveError::Broken
    })
}
