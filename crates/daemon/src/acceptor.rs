//! The listening socket, also when there are no descriptors left for new connections.
//!
//! A process without free descriptors cannot even accept in order to refuse. So one descriptor is
//! kept in reserve: it is closed, the connection accepted, told why and closed, and the reserve
//! taken again. Where that fails, too, the acceptor pauses for a moment instead of spinning.
//!
//! The socket is found by the name of its file, and that can be removed: by a program that tidies a
//! temporary folder, or with the folder of a user who logged out. The daemon is not notified, so it
//! checks at intervals and listens under its name again. Where another daemon took the name, this
//! one serves the clients that it has, and ends with the last of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plasmon_shm::socket::BindError;
use plasmon_shm::{Connection, Listener, edge, socket_folder};

/// How often the daemon looks whether its socket still has its name.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long the acceptor pauses when the system is out of something.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: Listener,
    reserve: Option<OwnedFd>,
    paused_until: Option<Instant>,
    name: Name,
}

/// Where the socket is to be found.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    mode: u32,
    /// Device and number of the file that is the socket; `None` when it is known to be lost.
    file: Option<(u64, u64)>,
    look_at: Instant,
}

/// What accepting a connection gave.
#[derive(Debug)]
pub(crate) enum AcceptOutcome {
    /// A connection.
    Connection(Connection),
    /// A connection that there is no descriptor for: tell it and close it.
    NoRoom(Connection),
    /// None waits.
    None,
    /// The system cannot give one: pause.
    Failed(io::Error),
}

impl Acceptor {
    /// The acceptor of a listener at this path, whose file has this mode.
    pub(crate) fn open(listener: Listener, path: &Path, mode: u32) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // A lock file of another owner stands beside a socket of that owner.
        let file = if listener.is_locked_at(path) { file_at(path) } else { None };
        let look_at = edge::now() + LOOK_EVERY;
        Ok(Self {
            reserve: Some(listener.as_fd().try_clone_to_owned()?),
            listener,
            paused_until: None,
            name: Name { path: path.to_owned(), mode, file, look_at },
        })
    }

    /// Whether the file of the socket is there.
    pub(crate) fn has_its_name(&self) -> bool {
        self.name.file.is_some() && file_at(&self.name.path) == self.name.file
    }

    /// When to look at the name.
    pub(crate) fn look_at(&self) -> Instant {
        self.name.look_at
    }

    /// Whether it is time to look, and the name is lost.
    pub(crate) fn finds_its_name_lost(&mut self, now: Instant) -> bool {
        if now < self.name.look_at {
            return false;
        }
        self.name.look_at = now + LOOK_EVERY;
        !self.has_its_name()
    }

    /// Listens under the name again.
    pub(crate) fn take_name_again(&mut self) -> Result<(), BindError> {
        let Name { path, mode, .. } = &self.name;
        let failed = |source| BindError::Io { path: path.clone(), source };
        socket_folder::prepare(path).map_err(failed)?;
        let listener = self.listener.bind_again(path, *mode)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.name.file = file_at(path);
        self.listener = listener;
        self.reserve = None;
        self.restock();
        Ok(())
    }

    /// Removes the folder of the socket, which was made for it, with what the store put there. A
    /// folder in which anything else lies stays.
    pub(crate) fn remove_folder(&self) {
        let path = &self.name.path;
        let Some(folder) = path.parent() else { return };
        let log = path.with_extension("log");
        for file in [log, plasmon_shm::socket::lock_path(path)] {
            if let Err(error) = std::fs::remove_file(&file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::info!(%error, file = %file.display(), "a file stays");
            }
        }
        if let Err(error) = std::fs::remove_dir(folder) {
            tracing::info!(%error, folder = %folder.display(), "the folder stays");
        }
    }

    /// The socket itself.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The next connection.
    pub(crate) fn answer(&mut self) -> AcceptOutcome {
        match self.listener.accept() {
            Ok(connection) => AcceptOutcome::Connection(connection),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => AcceptOutcome::None,
                // It hung up before it was let in.
                io::ErrorKind::ConnectionAborted => AcceptOutcome::None,
                _ => self.answer_with_reserve(error),
            },
        }
    }

    fn answer_with_reserve(&mut self, error: io::Error) -> AcceptOutcome {
        if self.reserve.take().is_none() {
            return AcceptOutcome::Failed(error);
        }
        match self.listener.accept() {
            Ok(connection) => AcceptOutcome::NoRoom(connection),
            // The kernel looks for a descriptor before it looks for a connection.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.restock();
                AcceptOutcome::None
            }
            Err(error) => AcceptOutcome::Failed(error),
        }
    }

    /// Takes the reserve again, after the connection was closed.
    pub(crate) fn restock(&mut self) {
        if self.reserve.is_none() {
            // Without it the acceptor pauses the next time.
            self.reserve = self.listener.as_fd().try_clone_to_owned().ok();
        }
    }

    /// Pauses for a moment.
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

/// What the file at a path is known by.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
