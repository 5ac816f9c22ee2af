//! The listening socket, also when there are no descriptors left for those who knock.
//!
//! A process without free descriptors cannot even accept in order to refuse. So one descriptor is
//! kept in reserve: it is closed, the connection accepted, told why and closed, and the reserve
//! taken again. Where that fails, too, the door stays shut for a moment instead of spinning.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use plasmon_shm::{Connection, Listener, edge};

/// How long the door stays shut when the system is out of something.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Listener,
    reserve: Option<OwnedFd>,
    paused_until: Option<Instant>,
}

/// Who knocks.
#[derive(Debug)]
pub(crate) enum Knock {
    /// A connection.
    Welcome(Connection),
    /// A connection that there is no descriptor for: tell it and close it.
    NoRoom(Connection),
    /// Nobody, for now.
    Nobody,
    /// Somebody who cannot be let in: pause.
    Trouble(io::Error),
}

impl Door {
    /// Opens the door.
    pub(crate) fn open(listener: Listener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            reserve: Some(listener.as_fd().try_clone_to_owned()?),
            listener,
            paused_until: None,
        })
    }

    /// The socket itself.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The next connection.
    pub(crate) fn answer(&mut self) -> Knock {
        match self.listener.accept() {
            Ok(connection) => Knock::Welcome(connection),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Knock::Nobody,
                // It hung up before it was let in.
                io::ErrorKind::ConnectionAborted => Knock::Nobody,
                _ => self.answer_with_reserve(error),
            },
        }
    }

    fn answer_with_reserve(&mut self, error: io::Error) -> Knock {
        if self.reserve.take().is_none() {
            return Knock::Trouble(error);
        }
        match self.listener.accept() {
            Ok(connection) => Knock::NoRoom(connection),
            // The kernel looks for a descriptor before it looks for a connection.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.restock();
                Knock::Nobody
            }
            Err(error) => Knock::Trouble(error),
        }
    }

    /// Takes the reserve again, after the connection was closed.
    pub(crate) fn restock(&mut self) {
        if self.reserve.is_none() {
            // Without it the door pauses the next time.
            self.reserve = self.listener.as_fd().try_clone_to_owned().ok();
        }
    }

    /// Shuts the door for a moment.
    pub(crate) fn pause(&mut self) {
        self.paused_until = Some(edge::now() + PAUSE);
    }

    /// When it opens again.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Whether the pause is over; told once.
    pub(crate) fn reopens(&mut self, now: Instant) -> bool {
        let over = self.paused_until.is_some_and(|until| until <= now);
        if over {
            self.paused_until = None;
            self.restock();
        }
        over
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
