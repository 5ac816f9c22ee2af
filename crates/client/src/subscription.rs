//! Notifications about the lives of objects, on a connection of their own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use plasmon_proto::message::Notice;

use crate::error::Result;

/// What a subscriber is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something happened to an object.
    Notice(Notice),
    /// The subscriber was too slow and this many notices were dropped at this point; `u64::MAX` when
    /// the number is not known because the daemon itself was restarted.
    Lost(u64),
}

/// A subscription: notices in the order in which things happened, and never a silent gap.
#[derive(Debug)]
pub struct Subscription {
    fd: OwnedFd,
}

impl Subscription {
    /// The next notification, `None` when the time given has passed; no timeout waits for ever.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Notification>> {
        let _ = timeout;
        Ok(None)
    }

    /// A descriptor that is readable when there is something to take off the socket. Call
    /// [`Self::next`] with a timeout of zero until it gives `None` before waiting on it again.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
