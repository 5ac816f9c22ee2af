//! The daemon's end of the keeper.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use crate::KEEPER_ARGUMENT;
use crate::child::Child;
use crate::process::{ended_within, watch};
use crate::wire::{self, FromKeeper, Label, ToKeeper, WIRE_VERSION};

/// How long a keeper that was told that the store is over may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Daemons that may fail to start because of something that the keeper hands over; the next one
/// goes on without it.
const GIVEN_UP_STARTS: u32 = 2;

/// The stack of a thread that waits for a process to end.
const STACK_BYTES: usize = 64 * 1024;

/// A keeper and the socket to it.
#[derive(Debug)]
pub struct KeeperLink {
    socket: Connection,
    pid: u32,
    child: Option<Child>,
}

/// What a keeper hands over.
#[derive(Debug, Default)]
pub struct HeldDescriptors {
    /// The descriptors by what they are for.
    pub labelled: Vec<(Label, Vec<OwnedFd>)>,
    /// Daemons that died in a row before they served.
    pub failed_starts: u32,
}

impl KeeperLink {
    /// Starts a keeper, which starts later daemons with these flags and this standard error.
    pub fn start(flags: &[String], errors: Stdio) -> io::Result<Self> {
        let (ours, theirs) = Connection::pair()?;
        let child = Child::start("plasmon-keeper", KEEPER_ARGUMENT, flags, &theirs, errors)?;
        // While this end were open here, the end of the other process would go unnoticed.
        drop(theirs);
        let link = Self { socket: ours, pid: child.id(), child: Some(child) };
        let (version, pid) = (WIRE_VERSION, edge::process_id());
        link.say(&ToKeeper::Watch { version, pid }, &[])?;
        Ok(link)
    }

    /// Takes over everything from the keeper at the other end of `socket`.
    pub fn adopt(socket: OwnedFd) -> io::Result<(Self, HeldDescriptors)> {
        let socket = Connection::adopt(socket);
        let mut held = HeldDescriptors::default();
        let mut pid = 0;
        loop {
            let message = match wire::receive::<FromKeeper>(&socket) {
                // What it was about is given up: nothing else may be lost with it.
                Err(error) if error.kind() == io::ErrorKind::InvalidData && pid != 0 => {
                    tracing::error!(%error, "an item that the keeper held cannot be decoded");
                    continue;
                }
                // The next daemon tries again, but the last ones take what there is.
                Err(error) if held.failed_starts >= GIVEN_UP_STARTS => {
                    tracing::error!(%error, "an item that the keeper held is given up");
                    continue;
                }
                other => other?,
            };
            let (message, fds) = message.ok_or(io::ErrorKind::UnexpectedEof)?;
            match message {
                FromKeeper::Begin { version, .. } if version != WIRE_VERSION => {
                    let text = format!("the keeper speaks version {version}, not {WIRE_VERSION}");
                    return Err(io::Error::other(text));
                }
                FromKeeper::Begin { keeper_pid, failed_starts, was_hung, .. } => {
                    (pid, held.failed_starts) = (keeper_pid, failed_starts);
                    if was_hung {
                        tracing::error!("the previous daemon stopped answering and was killed");
                    }
                }
                FromKeeper::Ask | FromKeeper::Closed { .. } => {}
                FromKeeper::Held(label) => held.labelled.push((label, fds)),
                FromKeeper::Complete => {
                    let link = Self { socket, pid, child: None };
                    return Ok((link, held));
                }
            }
        }
    }

    /// The keeper's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Hands descriptors over. When this returns, they outlive the daemon. Like everything that is
    /// said here, it fails with `WouldBlock` instead of waiting.
    pub fn hold(&self, label: &Label, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.say(&ToKeeper::Hold(label.clone()), fds)
    }

    /// Has descriptors closed.
    pub fn forget(&self, label: &Label) -> io::Result<()> {
        self.say(&ToKeeper::Forget(label.clone()), &[])
    }

    /// Tells that the daemon accepts connections, and how long it may hang.
    pub fn serving(&self, hang_timeout: Duration) -> io::Result<()> {
        let hang_timeout_ms = u64::try_from(hang_timeout.as_millis()).unwrap_or(u64::MAX);
        self.say(&ToKeeper::Serving { hang_timeout_ms }, &[])
    }

    /// Gives a sign of life.
    pub fn answer(&self) -> io::Result<()> {
        self.say(&ToKeeper::Alive, &[])
    }

    /// What the keeper said, if it did; an error when it is gone.
    pub fn receive(&self) -> io::Result<Option<FromKeeper>> {
        match wire::try_receive(&self.socket) {
            Ok(Some((message, _))) => Ok(Some(message)),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the keeper: the store is over.
    pub fn stop(mut self) {
        // If it does not receive this, it sees the end of file and finds this process gone in
        // order.
        let _ = self.say(&ToKeeper::Stop, &[]);
        if let Some(child) = &mut self.child {
            // A keeper that is stopped receives nothing.
            if !watch(child.id()).is_some_and(|keeper| ended_within(&keeper, STOP_WITHIN)) {
                child.kill();
            }
            child.wait();
        }
    }

    /// Does away with a keeper that is gone or does not answer.
    pub fn dismiss(mut self) {
        match self.child.take() {
            Some(mut child) => {
                // It may take a while to close what it holds. Without a thread to wait it is
                // collected at our end.
                child.kill();
                let _ = edge::start_thread("plasmon-reaper", STACK_BYTES, move || {
                    child.wait();
                });
            }
            None => {
                // The keeper is the parent of a daemon that it started; any other process with its
                // number is a stranger. Killing fails only for a process that ended.
                if edge::parent_id() == Some(self.pid) {
                    let _ = edge::kill_process(self.pid);
                }
            }
        }
    }

    fn say(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        wire::try_send(&self.socket, message, fds)
    }
}

impl AsFd for KeeperLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
