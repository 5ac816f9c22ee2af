//! The process that a store was started for.
//!
//! A program that starts its own store may be killed before it stops it. The daemon watches
//! that process, by a descriptor, and once it is gone the daemon ends after its last client: what
//! the program's own workers still read stays until they are gone, too.

use std::io;

use plasmon_shm::incarnation::Incarnation;
use plasmon_shm::pidfd::ProcessFd;

use crate::poll::{Poll, Source};

/// Whether the process lives that the store was started for.
#[derive(Debug)]
pub(crate) enum Starter {
    /// The store was started for no process.
    None,
    /// It lives.
    Alive(ProcessFd, u32),
    /// It has ended.
    Gone,
}

impl Starter {
    /// Watches the process; one that has ended already is gone.
    pub(crate) fn watch(starter: Option<Incarnation>, poll: &Poll) -> io::Result<Self> {
        let Some(starter) = starter else { return Ok(Self::None) };
        match starter.open()? {
            Some(process) => {
                poll.add(&process, Source::Starter)?;
                Ok(Self::Alive(process, starter.pid))
            }
            None => Ok(Self::Gone),
        }
    }

    /// The poll named it: whether it has ended now.
    pub(crate) fn ended(&mut self, poll: &Poll) -> bool {
        let Self::Alive(process, _) = self else { return false };
        if process.is_alive().unwrap_or(false) {
            return false;
        }
        poll.remove(process);
        *self = Self::Gone;
        true
    }

    /// Whether there was such a process and it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }

    /// Its number while it lives, else 0.
    pub(crate) fn pid(&self) -> u32 {
        if let Self::Alive(_, pid) = self { *pid } else { 0 }
    }
}
