//! Saying hello: from a path to a welcomed connection.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Reply, Request, Resume, Welcome};
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use crate::error::{Error, Result};
use crate::receiving::readable_until;

const CONNECTING: &str = "connecting to the store";

/// For how long a daemon that accepted a connection may think about the hello. It answers in
/// microseconds unless the machine is in deep trouble.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits between two tries to connect: short at first, because a restart takes milliseconds.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LAST: Duration = Duration::from_millis(50);

/// The number of the one request that is sent before the connection is shared.
const HELLO_NUMBER: u64 = 0;

/// A welcomed connection and the descriptors that came with the welcome.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) connection: Connection,
    pub(crate) welcome: Welcome,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Who says hello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) channel: bool,
}

/// Why a try failed, and whether another one can help.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Nobody listens, or the daemon went away in between.
    Nobody(Error),
    /// The daemon refused, or this process cannot connect to anything.
    ForGood(Error),
}

impl Failed {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Nobody(error) | Self::ForGood(error) => error,
        }
    }
}

/// Tries until the time has passed, and at least once.
pub(crate) fn connect_within(
    caller: Caller<'_>,
    timeout: Duration,
    resume: &mut dyn FnMut() -> Option<Resume>,
    wanted: &dyn Fn() -> bool,
) -> Result<Welcomed, Failed> {
    let deadline = edge::now().checked_add(timeout);
    let mut pause = RETRY_FIRST;
    loop {
        match connect_once(caller, resume()) {
            Err(Failed::Nobody(error)) => {
                let late = deadline.is_some_and(|deadline| edge::now() >= deadline);
                if late || !wanted() {
                    return Err(Failed::Nobody(error));
                }
                edge::sleep(pause);
                pause = (pause * 2).min(RETRY_LAST);
            }
            outcome => return outcome,
        }
    }
}

fn connect_once(caller: Caller<'_>, resume: Option<Resume>) -> Result<Welcomed, Failed> {
    let connection = Connection::connect(caller.socket).map_err(|error| refused(caller, error))?;
    let hello = Hello {
        version: PROTOCOL_VERSION,
        name: caller.name.to_owned(),
        channel: caller.channel,
        resume,
    };
    let request = Request::Hello(hello);
    let frame = frame::encode_request(HELLO_NUMBER, &request)
        .map_err(|bad| Failed::ForGood(Error::of_frame(CONNECTING, &bad)))?;
    match connection.send(&frame, &[]) {
        // The daemon turned the connection away, and said why before it closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent.map_err(|error| Failed::Nobody(gone(caller, &error)))?,
    }
    if !readable_until(&connection, edge::now() + HELLO_TIMEOUT) {
        let error = Error::new(Code::TimedOut, CONNECTING).with_detail(format!(
            "the daemon on {} did not answer within {HELLO_TIMEOUT:?}",
            caller.socket.display()
        ));
        return Err(Failed::ForGood(error));
    }
    let mut bytes = Vec::new();
    let received =
        connection.recv(&mut bytes, true).map_err(|error| Failed::Nobody(gone(caller, &error)))?;
    if received.bytes == 0 {
        let error = io::Error::from(io::ErrorKind::UnexpectedEof);
        return Err(Failed::Nobody(gone(caller, &error)));
    }
    if received.truncated {
        return Err(Failed::ForGood(Error::new(Code::OutOfDescriptors, CONNECTING)));
    }
    match frame::decode_from_daemon(&bytes) {
        Ok(FromDaemon::Reply(HELLO_NUMBER, Reply::Welcome(welcome))) => {
            Ok(Welcomed { connection, welcome, fds: received.fds })
        }
        Ok(FromDaemon::Reply(_, Reply::Failed(failure))) => {
            Err(Failed::ForGood(Error::of_failure(CONNECTING, failure)))
        }
        Ok(_) => Err(Failed::ForGood(Error::unexpected(CONNECTING))),
        Err(bad) => Err(Failed::ForGood(Error::of_frame(CONNECTING, &bad))),
    }
}

fn refused(caller: Caller<'_>, error: io::Error) -> Failed {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::Interrupted
        // The daemon's queue of new connections is full for a moment.
        | io::ErrorKind::WouldBlock => Failed::Nobody(gone(caller, &error)),
        io::ErrorKind::PermissionDenied => {
            let text = format!("{} does not let this user in", caller.socket.display());
            Failed::ForGood(Error::new(Code::NotPermitted, CONNECTING).with_detail(text))
        }
        _ => Failed::ForGood(
            Error::io(CONNECTING, error).with_detail(caller.socket.display().to_string()),
        ),
    }
}

fn gone(caller: Caller<'_>, error: &io::Error) -> Error {
    Error::new(Code::Disconnected, CONNECTING)
        .with_detail(format!("no daemon answers on {}: {error}", caller.socket.display()))
}
