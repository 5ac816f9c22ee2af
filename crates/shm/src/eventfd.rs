//! A doorbell: a descriptor that becomes readable when another process rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// An eventfd. Ringing it many times before it is read is ringing it once.
///
/// Give every client its own doorbell, and never read one whose open file a client shares: a
/// process that holds the descriptor can make every read of it wait, or fill its counter. Watch it
/// with an edge-triggered epoll instead, which names it once for each time that it was rung.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A new doorbell.
    pub fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// A doorbell that another process passed.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) -> io::Result<()> {
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes())) {
            // The counter is full: no reader answered yet, so it rings already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// Ends the ringing; tells whether it rang. Look for work after this, not before. Only for a
    /// doorbell that no other process has.
    pub fn answer(&self) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8])) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    /// A second descriptor of the same doorbell, to be passed to another process.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_until_it_is_answered() {
        let doorbell = Doorbell::new().unwrap();
        let button = Doorbell::adopt(doorbell.duplicate().unwrap());
        assert!(!doorbell.answer().unwrap());
        button.ring().unwrap();
        button.ring().unwrap();
        assert!(doorbell.answer().unwrap());
        assert!(!doorbell.answer().unwrap());
    }

    #[test]
    fn a_full_counter_is_no_error() {
        let doorbell = Doorbell::new().unwrap();
        rustix::io::write(&doorbell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        doorbell.ring().unwrap();
        assert!(doorbell.answer().unwrap());
    }
}
