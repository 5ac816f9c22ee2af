//! A wait that somebody else's event loop watches.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use plasmon_proto::object::ObjectState;

use crate::error::Result;

/// A wait in progress. Dropped, it is cancelled.
#[derive(Debug)]
pub struct PendingWait {
    fd: OwnedFd,
}

impl PendingWait {
    /// An eventfd that is readable as soon as the answer is there; it stays readable.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The answer: one state for each id, once; `None` while the wait goes on.
    pub fn poll(&mut self) -> Option<Result<Vec<ObjectState>>> {
        None
    }

    /// Ends the wait early; it is answered with the states of that moment.
    pub fn cancel(&self) {}
}
