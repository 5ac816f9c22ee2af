//! The events that the daemon waits for: an epoll instance whose events name their source.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use plasmon_shm::edge;
use rustix::event::{PollFlags, Timespec, epoll};

/// Events taken from the kernel at once; the rest comes with the next call.
pub(crate) const EVENTS_AT_ONCE: usize = 64;

/// Who has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A client connects.
    Listener,
    /// A worker has finished something.
    Workers,
    /// The process is asked to end.
    Signals,
    /// The keeper is gone.
    Keeper,
    /// A client's socket, by the client's number.
    Peer(u32),
    /// A client's doorbell, by the number of its session.
    Doorbell(u32),
    /// Any doorbell.
    Doorbells,
    /// A process ended, by the number of its session.
    Process(u32),
    /// The process ended that the store was started for.
    Starter,
    /// The pool daemon ended.
    PoolDaemon,
}

impl Source {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Listener => (0, 0),
            Self::Workers => (1, 0),
            Self::Signals => (2, 0),
            Self::Keeper => (3, 0),
            Self::Peer(number) => (4, number),
            Self::Doorbell(number) => (5, number),
            Self::Process(number) => (6, number),
            Self::Doorbells => (7, 0),
            Self::Starter => (8, 0),
            Self::PoolDaemon => (9, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn decode(word: u64) -> Self {
        let number = word as u32;
        match word >> 32 {
            0 => Self::Listener,
            1 => Self::Workers,
            2 => Self::Signals,
            3 => Self::Keeper,
            4 => Self::Peer(number),
            5 => Self::Doorbell(number),
            6 => Self::Process(number),
            8 => Self::Starter,
            9 => Self::PoolDaemon,
            _ => Self::Doorbells,
        }
    }
}

/// Something that happened to a source. A source that was removed may still be named by an event
/// that was under way, so an event is a hint to look and never a proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The source.
    pub(crate) source: Source,
    /// Whether it takes bytes again.
    pub(crate) writable: bool,
    /// Whether there is something to read, or it is closed.
    pub(crate) readable: bool,
}

/// The epoll instance.
pub(crate) struct Poll {
    epoll: OwnedFd,
    buffer: Vec<epoll::Event>,
}

impl Poll {
    /// An instance that waits for nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, buffer: Vec::with_capacity(EVENTS_AT_ONCE) })
    }

    /// Waits for a source to become readable (or closed).
    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.encode());
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    /// Waits for a source to be rung, once for each time. Nothing is read from it: the source's
    /// open file is shared with a client, which could have every read of it wait forever.
    pub(crate) fn add_doorbell(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.encode());
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// Changes what a source is waited for.
    pub(crate) fn change(
        &self,
        fd: impl AsFd,
        source: Source,
        interest: Interest,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.encode());
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.readable);
        flags.set(epoll::EventFlags::OUT, interest.writable);
        Ok(epoll::modify(&self.epoll, fd, data, flags)?)
    }

    /// Stops waiting for a source. Must come before its descriptor is closed if another process
    /// holds a copy of it, for epoll goes by the open file.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // It fails only for a descriptor that is not there, which is what is wanted.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits until something happens or the time is over; `None` waits forever.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let waited = edge::waited_elsewhere(&self.epoll, PollFlags::IN, timeout);
        let timeout = if waited { Some(Duration::ZERO) } else { timeout };
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        ready.clear();
        self.buffer.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.buffer);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            // A signal: its pipe is readable next time.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        ready.extend(self.buffer.drain(..).map(|event| {
            // Copied out, because the kernel's structure is packed.
            let flags = event.flags;
            let closed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            Ready {
                source: Source::decode(event.data.u64()),
                writable: flags.contains(epoll::EventFlags::OUT),
                readable: closed || flags.contains(epoll::EventFlags::IN),
            }
        }));
        Ok(())
    }
}

impl AsFd for Poll {
    /// Becomes readable when something happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Requests. Off while the client has many replies to read.
    pub(crate) readable: bool,
    /// Room for replies.
    pub(crate) writable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_shm::Doorbell;

    #[test]
    fn sources_come_back() {
        for source in [
            Source::Listener,
            Source::Workers,
            Source::Signals,
            Source::Keeper,
            Source::Peer(u32::MAX),
            Source::Doorbell(0),
            Source::Process(7),
            Source::Doorbells,
        ] {
            assert_eq!(Source::decode(source.encode()), source);
        }
    }

    #[test]
    fn a_source_is_named_until_it_is_removed() {
        let mut poll = Poll::new().unwrap();
        let doorbell = Doorbell::new().unwrap();
        let mut ready = Vec::new();
        poll.add(&doorbell, Source::Doorbell(3)).unwrap();
        poll.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        doorbell.ring().unwrap();
        poll.wait(None, &mut ready).unwrap();
        assert_eq!(ready[0].source, Source::Doorbell(3));
        assert!(ready[0].readable && !ready[0].writable);
        poll.remove(&doorbell);
        poll.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_doorbell_is_listed_each_time_it_rings_and_is_never_read() {
        let mut poll = Poll::new().unwrap();
        let doorbell = Doorbell::new().unwrap();
        let mut ready = Vec::new();
        poll.add_doorbell(&doorbell, Source::Doorbell(3)).unwrap();
        for round in 0..3 {
            doorbell.ring().unwrap();
            doorbell.ring().unwrap();
            poll.wait(None, &mut ready).unwrap();
            assert_eq!((ready.len(), ready[0].source), (1, Source::Doorbell(3)), "round {round}");
            poll.wait(Some(Duration::ZERO), &mut ready).unwrap();
            assert!(ready.is_empty(), "it was listed in round {round}");
        }
        assert!(doorbell.answer().unwrap(), "what was rung is still there to be read");
    }
}
