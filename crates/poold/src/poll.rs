//! Waiting for many descriptors at once, and being woken by other threads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Events taken from the kernel at once; the rest comes with the next call.
const EVENTS_AT_ONCE: usize = 64;

/// Descriptors with a number each.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    /// Whether it takes bytes, or has ended.
    pub(crate) writable: bool,
    /// Whether it has ended or is broken. That is told whatever it is waited for.
    pub(crate) ended: bool,
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Nothing,
    Read,
    Write,
    ReadWrite,
}

impl Interest {
    pub(crate) fn writing(wants_write: bool) -> Self {
        if wants_write { Self::ReadWrite } else { Self::Read }
    }

    fn flags(self) -> EventFlags {
        match self {
            Self::Nothing => EventFlags::empty(),
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::ReadWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub(crate) fn add(&self, fd: impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(number), interest.flags())?)
    }

    pub(crate) fn change(&self, fd: impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(number), interest.flags())?)
    }

    /// Forgets a descriptor that goes on to be used elsewhere; one that is closed is forgotten by
    /// itself.
    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits for the next events, at most for so long.
    pub(crate) fn wait(&self, time: Option<Duration>) -> io::Result<Vec<Ready>> {
        let time = time.map(|time| {
            Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        let space = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, space, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ended = EventFlags::HUP | EventFlags::ERR;
        let ready = events.iter().map(|event: &epoll::Event| {
            // The structure is packed: its fields are copied out.
            let (data, flags) = (event.data, event.flags);
            let ended = flags.intersects(ended);
            Ready { number: data.u64(), writable: ended || flags.contains(EventFlags::OUT), ended }
        });
        Ok(ready.collect())
    }
}

/// Wakes a thread that waits for its descriptor.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the thread, or lets it not wait the next time.
    pub(crate) fn wake(&self) {
        // It fails only when the counter is full, and then the thread is woken already.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes()));
    }

    /// Ends the waking. What there is to do is looked for after this.
    pub(crate) fn clear(&self) {
        // It fails only when the thread was not woken.
        let _ = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8]));
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_seen_until_it_is_cleared() {
        let (poll, waker) = (Poll::new().unwrap(), Waker::new().unwrap());
        poll.add(&waker, 7, Interest::Read).unwrap();
        assert!(poll.wait(Some(Duration::ZERO)).unwrap().is_empty());
        waker.wake();
        waker.wake();
        let ready = poll.wait(None).unwrap();
        assert_eq!(ready, [Ready { number: 7, writable: false, ended: false }]);
        waker.clear();
        assert!(poll.wait(Some(Duration::ZERO)).unwrap().is_empty());
        poll.change(&waker, 8, Interest::ReadWrite).unwrap();
        let writable = Ready { number: 8, writable: true, ended: false };
        assert_eq!(poll.wait(None).unwrap(), [writable]);
        poll.remove(&waker).unwrap();
        assert!(poll.wait(Some(Duration::ZERO)).unwrap().is_empty());
    }
}
