//! Taking one frame from the daemon's socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use plasmon_proto::Code;
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::message::Reply;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;
use rustix::event::PollFlags;

use crate::error::{Error, Result};

/// What a look at the socket gave.
pub(crate) enum Read {
    /// The answer to the request of this number.
    Frame { number: u64, reply: Result<Reply>, fds: Vec<OwnedFd> },
    /// Nothing that concerns a request, for now.
    Nothing,
    /// The connection has ended, or makes no sense.
    Broken,
}

/// Waits for a frame until the deadline.
pub(crate) fn read(link: &Connection, deadline: Option<Instant>) -> Read {
    if let Some(deadline) = deadline
        && !readable_until(link, deadline)
    {
        return Read::Nothing;
    }
    receive(link, deadline.is_none())
}

/// Takes the next frame, if there is one or the caller can wait.
pub(crate) fn receive(link: &Connection, block: bool) -> Read {
    const DOING: &str = "reading the daemon's answer";
    let mut bytes = Vec::new();
    let received = match link.recv(&mut bytes, block) {
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
            tracing::warn!(code = failure.code.key(), detail = failure.detail, "the daemon parts");
            Read::Nothing
        }
        Ok(FromDaemon::Reply(number, reply)) => {
            Read::Frame { number, reply: Ok(reply), fds: received.fds }
        }
        // Only a subscription's own connection is pushed to.
        Ok(FromDaemon::Push(_)) => Read::Nothing,
        Err(bad) => {
            tracing::warn!(%bad, "the daemon sent what is no frame");
            Read::Broken
        }
    }
}

/// Whether the connection became readable before the deadline.
pub(crate) fn readable_until(link: &Connection, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(edge::now());
    // Interrupted: the caller looks at its deadline and comes again.
    edge::ready_within(link, PollFlags::IN, Some(left)).unwrap_or(false)
}
