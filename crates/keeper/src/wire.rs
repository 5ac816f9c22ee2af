//! The messages between daemon and keeper over their socket pair.
//!
//! One message is one SEQPACKET packet in postcard encoding; the descriptors of a label travel
//! beside it. Both ends are the same program, whatever happened to its file since it was started.
//! Each side names the version first all the same, so that a mistake is refused and not misread.

use std::os::fd::{BorrowedFd, OwnedFd};

use plasmon_proto::extent::ExtentId;
use plasmon_proto::limits::FRAME_BYTES_MAX;
use plasmon_shm::socket::Connection;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of these messages: to be raised with every change of them.
pub(crate) const WIRE_VERSION: u32 = 5;

/// What descriptors are for, so that a new daemon knows what to do with them.
///
/// The order is that in which a new keeper is told of a store: pins before the memory that they
/// protect, and the index last. Without an index there is no store, so a keeper that was told half
/// of one passes nothing on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Label {
    /// The listening socket and the locked file beside it.
    Listener,
    /// The control page and the wake page, of the store with this token.
    Control {
        /// The store's token.
        store: u64,
    },
    /// The lock on the folder of the spill tier.
    SpillFolder,
    /// The descriptor of a client's process, and its channel if it has one.
    Session {
        /// What the client resumes with.
        token: u64,
        /// Its process.
        pid: u32,
        /// Its user.
        uid: u32,
        /// Whether it may change anything.
        writes: bool,
    },
    /// An extent.
    Extent(ExtentId),
    /// The index table with this number.
    Index {
        /// The number.
        number: u64,
    },
}

/// What a daemon tells its keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToKeeper {
    /// The first message: this is the process to watch.
    Watch {
        /// [`WIRE_VERSION`] of the daemon.
        version: u32,
        /// The daemon.
        pid: u32,
    },
    /// Hold these descriptors.
    Hold(Label),
    /// Close them.
    Forget(Label),
    /// The daemon accepts connections, and may be silent for so long when it is asked.
    Serving {
        /// In milliseconds; 0: forever.
        hang_timeout_ms: u64,
    },
    /// The daemon is alive.
    Alive,
    /// The store ends: let everything go.
    Stop,
}

/// What a keeper tells a daemon that it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromKeeper {
    /// The first message.
    Begin {
        /// [`WIRE_VERSION`] of the keeper.
        version: u32,
        /// The keeper's process.
        keeper_pid: u32,
        /// Daemons that died in a row before they served.
        failed_starts: u32,
        /// Whether the previous daemon stopped answering and was killed.
        was_hung: bool,
    },
    /// Is the daemon alive?
    Ask,
    /// How many of the extents that were to be closed are closed by now.
    Closed {
        /// Counted since the first message of this daemon.
        extents: u64,
    },
    /// These descriptors were held for you.
    Held(Label),
    /// That was all.
    Complete,
}

/// Sends one message if there is room for it now; otherwise the error's kind is `WouldBlock`.
pub(crate) fn try_send(
    link: &Connection,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(std::io::Error::other)?;
    link.try_send(&bytes, fds)
}

/// Sends one message, waiting for room.
pub(crate) fn send(
    link: &Connection,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(std::io::Error::other)?;
    link.send(&bytes, fds)
}

/// Waits for one message; `None` when the other side is gone.
pub(crate) fn receive<M: DeserializeOwned>(
    link: &Connection,
) -> std::io::Result<Option<(M, Vec<OwnedFd>)>> {
    receive_with(link, true)
}

/// The same without waiting; with no message there, the error's kind is `WouldBlock`.
pub(crate) fn try_receive<M: DeserializeOwned>(
    link: &Connection,
) -> std::io::Result<Option<(M, Vec<OwnedFd>)>> {
    receive_with(link, false)
}

fn receive_with<M: DeserializeOwned>(
    link: &Connection,
    block: bool,
) -> std::io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX.min(512));
    let received = link.recv(&mut bytes, block)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.truncated {
        // Of a message with descriptors the kernel cuts off those that there is no room for.
        return Err(rustix::io::Errno::MFILE.into());
    }
    let message = postcard::from_bytes(&bytes[..received.bytes])
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?;
    Ok(Some((message, received.fds)))
}
