//! Taking one frame from the daemon's socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::message::Reply;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::interrupt;

/// What a look at the socket gave.
pub(crate) enum Read {
    /// The answer to the request of this number.
    Frame { number: u64, reply: Result<Reply>, fds: Vec<OwnedFd> },
    /// Nothing that concerns a request, for now.
    Nothing,
    /// The connection has ended, or sent something invalid.
    Broken,
}

/// What became possible with a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// A signal handler ran instead.
    pub(crate) interrupted: bool,
}

/// Waits until the socket can be read or written, whichever is asked for. A broken one can be both.
pub(crate) fn await_ready(link: &Connection, read: bool, write: bool, until: Deadline) -> Ready {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, read);
    events.set(PollFlags::OUT, write);
    let left = until.left();
    let waited = edge::waited_elsewhere(link, events, left);
    let left = if waited { Some(Duration::ZERO) } else { left };
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let mut fds = [PollFd::new(link, events)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(0) => Ready::default(),
        Ok(_) => {
            let found = fds[0].revents();
            let broken = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            Ready {
                readable: broken || found.contains(PollFlags::IN),
                writable: broken || found.contains(PollFlags::OUT),
                interrupted: false,
            }
        }
        Err(Errno::INTR) => Ready { interrupted: true, ..Ready::default() },
        // The look at the socket that follows tells what is wrong with it.
        Err(_) => Ready { readable: true, writable: true, interrupted: false },
    }
}

/// Waits until there is a message or the deadline has passed; whether there is one. An error: the
/// caller was interrupted.
pub(crate) fn await_message(
    link: &Connection,
    doing: &'static str,
    deadline: Deadline,
) -> Result<bool> {
    loop {
        if await_ready(link, true, false, interrupt::step(deadline)).readable {
            return Ok(true);
        }
        interrupt::check(doing)?;
        if deadline.is_past() {
            return Ok(false);
        }
    }
}

/// Takes the next frame, if there is one.
pub(crate) fn receive(link: &Connection) -> Read {
    const DOING: &str = "reading the daemon's answer";
    let mut bytes = Vec::new();
    let received = match link.recv(&mut bytes, false) {
        Ok(received) => received,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) =>
        {
            return Read::Nothing;
        }
        Err(error) => {
            tracing::debug!(%error, "the connection to the daemon broke");
            return Read::Broken;
        }
    };
    if received.bytes == 0 {
        return Read::Broken;
    }
    match frame::decode_from_daemon(&bytes) {
        Ok(FromDaemon::Reply(number, _)) if received.truncated => {
            let error = Error::new(Code::OutOfDescriptors, DOING);
            Read::Frame { number, reply: Err(error), fds: Vec::new() }
        }
        Ok(FromDaemon::Reply(0, Reply::Failed(failure))) => {
            // Not an answer: the daemon says why it is about to close the connection.
            tracing::warn!(
                code = failure.code.key(),
                detail = failure.detail,
                "the daemon closed the connection"
            );
            Read::Nothing
        }
        Ok(FromDaemon::Reply(number, reply)) => {
            Read::Frame { number, reply: Ok(reply), fds: received.fds }
        }
        // Only a subscription's own connection is pushed to.
        Ok(FromDaemon::Push(_)) => Read::Nothing,
        Err(bad) => {
            tracing::warn!(%bad, "the daemon sent an invalid frame");
            Read::Broken
        }
    }
}
