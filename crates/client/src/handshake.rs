//! Saying hello: from a path to a welcomed connection.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Reply, Request, Resume, Welcome};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use crate::error::{Error, Result};
use crate::frame_reader::await_message;
use crate::interrupt;
use crate::options::ConnectOptions;
use crate::owner::check_owner;

const CONNECTING: &str = "connecting to the store";

/// Waits between two tries to connect: short at first, because a restart takes milliseconds.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LAST: Duration = Duration::from_millis(50);

/// The number of the one request that is sent before the connection is shared.
const HELLO_NUMBER: u64 = 0;

/// A welcomed connection and the descriptors that came with the welcome.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) connection: Connection,
    /// The daemon's user.
    pub(crate) owner: u32,
    pub(crate) welcome: Welcome,
    pub(crate) fds: Vec<OwnedFd>,
}

/// The client that says hello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) channel: bool,
    /// Whose store it may be, besides this user's.
    pub(crate) owner: Option<u32>,
    /// For how long a daemon that listens may take to answer.
    pub(crate) answer_timeout: Duration,
}

impl<'a> Caller<'a> {
    /// As the options of a connection say.
    pub(crate) fn new(socket: &'a Path, options: &'a ConnectOptions) -> Self {
        Self {
            socket,
            name: &options.name,
            channel: options.channel,
            owner: options.owner,
            answer_timeout: options.request_timeout,
        }
    }
}

/// For how long to go on trying.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Until when a daemon may begin to listen.
    pub(crate) until: Deadline,
    /// Until when the caller has time at all.
    pub(crate) own: Deadline,
}

/// Why a try failed, and whether another one can help.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// No daemon listens, or it went away in between.
    NoDaemon(Error),
    /// The daemon has more connections to accept than may wait for it.
    Busy(Error),
    /// The daemon refused, or this process cannot connect to anything.
    Permanent(Error),
    /// The caller was interrupted, or has no more time of its own.
    Ended(Error),
}

impl HandshakeError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::NoDaemon(error)
            | Self::Busy(error)
            | Self::Permanent(error)
            | Self::Ended(error) => error,
        }
    }
}

/// Tries until the time has passed, and at least once.
pub(crate) fn connect_within(
    caller: Caller<'_>,
    timeouts: Timeouts,
    resume: &mut dyn FnMut() -> Option<Resume>,
    wanted: &dyn Fn() -> bool,
) -> Result<Handshake, HandshakeError> {
    // A daemon that listens is there: it is waited for as for any other answer of its.
    let busy_until = Deadline::after(caller.answer_timeout);
    let mut pause = RETRY_FIRST;
    loop {
        let (error, is_late) = match connect_once(caller, timeouts.own, resume()) {
            Err(HandshakeError::NoDaemon(error)) => (error, timeouts.until.is_past()),
            Err(HandshakeError::Busy(error)) => {
                (error, timeouts.until.is_past() && busy_until.is_past())
            }
            outcome => return outcome,
        };
        if is_late || !wanted() {
            return Err(HandshakeError::NoDaemon(error));
        }
        edge::sleep(interrupt::pause(pause, timeouts.own));
        interrupt::check(CONNECTING).map_err(HandshakeError::Ended)?;
        if timeouts.own.is_past() {
            return Err(HandshakeError::Ended(Error::new(Code::TimedOut, CONNECTING)));
        }
        pause = (pause * 2).min(RETRY_LAST);
    }
}

fn connect_once(
    caller: Caller<'_>,
    own: Deadline,
    resume: Option<Resume>,
) -> Result<Handshake, HandshakeError> {
    let connection = Connection::connect(caller.socket).map_err(|error| refused(caller, error))?;
    let owner =
        check_owner(caller.socket, &connection, caller.owner).map_err(HandshakeError::Permanent)?;
    let hello = Hello {
        version: PROTOCOL_VERSION,
        name: caller.name.to_owned(),
        channel: caller.channel,
        resume,
    };
    let request = Request::Hello(hello);
    let frame = frame::encode_request(HELLO_NUMBER, &request)
        .map_err(|bad| HandshakeError::Permanent(Error::of_frame(CONNECTING, &bad)))?;
    // The first message of a connection always finds room.
    match connection.try_send(&frame, &[]) {
        // The daemon turned the connection away, and said why before it closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent.map_err(|error| HandshakeError::NoDaemon(gone(caller, &error)))?,
    }
    let answer_by = Deadline::after(caller.answer_timeout);
    let until = answer_by.earlier(own);
    if !await_message(&connection, CONNECTING, until).map_err(HandshakeError::Ended)? {
        let error = Error::new(Code::TimedOut, CONNECTING);
        if own.is_past() {
            return Err(HandshakeError::Ended(error));
        }
        return Err(HandshakeError::Permanent(error.with_detail(format!(
            "the daemon on {} did not answer within {:?}: it is stopped or overloaded",
            caller.socket.display(),
            caller.answer_timeout
        ))));
    }
    let mut bytes = Vec::new();
    let received = connection
        .recv(&mut bytes, false)
        .map_err(|error| HandshakeError::NoDaemon(gone(caller, &error)))?;
    if received.bytes == 0 {
        let error = io::Error::from(io::ErrorKind::UnexpectedEof);
        return Err(HandshakeError::NoDaemon(gone(caller, &error)));
    }
    if received.truncated {
        return Err(HandshakeError::Permanent(Error::new(Code::OutOfDescriptors, CONNECTING)));
    }
    match frame::decode_from_daemon(&bytes) {
        Ok(FromDaemon::Reply(HELLO_NUMBER, Reply::Welcome(welcome))) => {
            Ok(Handshake { connection, owner, welcome, fds: received.fds })
        }
        Ok(FromDaemon::Reply(_, Reply::Failed(failure))) => {
            Err(HandshakeError::Permanent(Error::of_failure(CONNECTING, failure)))
        }
        Ok(_) => Err(HandshakeError::Permanent(Error::unexpected(CONNECTING))),
        Err(bad) => Err(HandshakeError::Permanent(Error::of_frame(CONNECTING, &bad))),
    }
}

fn refused(caller: Caller<'_>, error: io::Error) -> HandshakeError {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::Interrupted => HandshakeError::NoDaemon(gone(caller, &error)),
        io::ErrorKind::WouldBlock => HandshakeError::Busy(gone(caller, &error)),
        io::ErrorKind::PermissionDenied => {
            let text = format!("{} does not admit this user", caller.socket.display());
            HandshakeError::Permanent(Error::new(Code::NotPermitted, CONNECTING).with_detail(text))
        }
        _ => HandshakeError::Permanent(
            Error::io(CONNECTING, error).with_detail(caller.socket.display().to_string()),
        ),
    }
}

fn gone(caller: Caller<'_>, error: &io::Error) -> Error {
    Error::new(Code::Disconnected, CONNECTING)
        .with_detail(format!("no daemon answers on {}: {error}", caller.socket.display()))
}
