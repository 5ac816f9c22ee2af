//! What waits to be sent to one client.
//!
//! Replies keep their order and are never dropped: a client that does not read them is not read
//! from either, and its waits are bounded, so they cannot pile up. Notices go behind the replies,
//! many to a frame. A subscriber that is too slow loses the newest ones, and is told how many at
//! the very point where they are missing.
//!
//! ```text
//! reply ──► frames ──────────────┐
//! notice ─► notices ── batched ──┴─► socket, until it would block
//!              └ full: Lost(n) in place of n notices
//! ```

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use plasmon_proto::frame;
use plasmon_proto::limits::NOTIFICATIONS_QUEUED_MAX;
use plasmon_proto::message::{Notice, Push};
use plasmon_shm::Memfd;

/// Frames beyond which the client's requests stay in its socket until it has read some.
pub(crate) const FRAMES_QUEUED_MAX: usize = 64;

/// Notices in one frame: each takes at most 42 bytes, so these fit with room to spare.
pub(crate) const NOTICES_PER_FRAME_MAX: usize = 1024;

/// A descriptor on its way to a client.
#[derive(Debug)]
pub(crate) enum Passed {
    /// One made for this, closed here once it is sent.
    Made(OwnedFd),
    /// An extent's own, so that a granted lease never fails for want of a free descriptor.
    Extent(Arc<Memfd>),
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Made(fd) => fd.as_fd(),
            Self::Extent(memfd) => memfd.as_fd(),
        }
    }
}

/// One frame and the descriptors beside it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// The descriptors.
    pub(crate) fds: Vec<Passed>,
}

/// What a subscriber is going to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Notice(Notice),
    Lost(u64),
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing is left.
    All,
    /// The socket takes no more at the moment.
    Blocked,
}

/// The queues of one client.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    frames: VecDeque<Outgoing>,
    notices: VecDeque<Told>,
}

impl Outbox {
    /// Queues a reply.
    pub(crate) fn push(&mut self, outgoing: Outgoing) {
        self.frames.push_back(outgoing);
    }

    /// Queues a notice, or counts it as lost when too many wait.
    pub(crate) fn notify(&mut self, notice: Notice) {
        if self.notices.len() < NOTIFICATIONS_QUEUED_MAX {
            self.notices.push_back(Told::Notice(notice));
            return;
        }
        match self.notices.back_mut() {
            Some(Told::Lost(count)) => *count += 1,
            _ => self.notices.push_back(Told::Lost(1)),
        }
    }

    /// Drops the notices: the client unsubscribed.
    pub(crate) fn forget_notices(&mut self) {
        self.notices = VecDeque::new();
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.notices.is_empty()
    }

    /// Whether the client should read before it asks for more.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_QUEUED_MAX
    }

    /// Sends as much as `send` takes; `WouldBlock` ends it for now, other errors are the client's
    /// end.
    pub(crate) fn flush(
        &mut self,
        mut send: impl FnMut(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>,
    ) -> io::Result<Sent> {
        loop {
            while let Some(next) = self.frames.front() {
                let fds: Vec<BorrowedFd<'_>> = next.fds.iter().map(AsFd::as_fd).collect();
                match send(&next.bytes, &fds) {
                    Ok(()) => drop(self.frames.pop_front()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Sent::Blocked);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(push) = self.next_push() else {
                return Ok(Sent::All);
            };
            let bytes = frame::encode_push(&push).map_err(io::Error::other)?;
            self.frames.push_back(Outgoing { bytes, fds: Vec::new() });
        }
    }

    fn next_push(&mut self) -> Option<Push> {
        if let Some(Told::Lost(count)) = self.notices.front() {
            let count = *count;
            self.notices.pop_front();
            return Some(Push::NoticesLost(count));
        }
        let mut notices = Vec::new();
        while let Some(Told::Notice(notice)) = self.notices.front() {
            if notices.len() == NOTICES_PER_FRAME_MAX {
                break;
            }
            notices.push(*notice);
            self.notices.pop_front();
        }
        (!notices.is_empty()).then_some(Push::Notices(notices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::frame::{FromDaemon, decode_from_daemon};
    use plasmon_proto::{ObjectId, ObjectState};

    fn notice(number: u64) -> Notice {
        Notice {
            id: ObjectId::new([u8::MAX; 20]),
            state: ObjectState::Sealed,
            data_bytes: number,
            metadata_bytes: u64::MAX,
        }
    }

    fn reply(byte: u8) -> Outgoing {
        Outgoing { bytes: vec![byte], fds: Vec::new() }
    }

    /// What arrives when the socket takes `room` frames.
    fn sent(outbox: &mut Outbox, room: usize) -> (Sent, Vec<Vec<u8>>) {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let end = outbox.flush(|bytes, _| {
            if frames.len() == room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            frames.push(bytes.to_vec());
            Ok(())
        });
        (end.unwrap(), frames)
    }

    fn told(frames: &[Vec<u8>]) -> (Vec<u64>, Vec<u64>) {
        let (mut seen, mut lost) = (Vec::new(), Vec::new());
        for frame in frames {
            match decode_from_daemon(frame).unwrap() {
                FromDaemon::Push(Push::Notices(notices)) => {
                    seen.extend(notices.iter().map(|notice| notice.data_bytes));
                }
                FromDaemon::Push(Push::NoticesLost(count)) => lost.push(count),
                FromDaemon::Reply(..) => panic!("no reply was queued"),
            }
        }
        (seen, lost)
    }

    #[test]
    fn a_blocked_socket_gets_the_rest_later_in_order() {
        let mut outbox = Outbox::default();
        (1..=3).for_each(|byte| outbox.push(reply(byte)));
        assert_eq!(sent(&mut outbox, 2), (Sent::Blocked, vec![vec![1], vec![2]]));
        assert_eq!(sent(&mut outbox, 2), (Sent::All, vec![vec![3]]));
        assert_eq!(sent(&mut outbox, 1), (Sent::All, vec![]));
    }

    #[test]
    fn notices_are_batched_and_the_largest_batch_fits_a_frame() {
        let mut outbox = Outbox::default();
        let count = 2 * NOTICES_PER_FRAME_MAX as u64 + 1;
        (0..count).for_each(|number| outbox.notify(notice(u64::MAX - number)));
        let (end, frames) = sent(&mut outbox, usize::MAX);
        assert_eq!((end, frames.len()), (Sent::All, 3));
        let (seen, lost) = told(&frames);
        assert_eq!(seen, (0..count).map(|number| u64::MAX - number).collect::<Vec<_>>());
        assert!(lost.is_empty());
    }

    #[test]
    fn a_slow_subscriber_is_told_what_it_lost_where_it_lost_it() {
        let mut outbox = Outbox::default();
        let limit = NOTIFICATIONS_QUEUED_MAX as u64;
        (0..limit + 5).for_each(|number| outbox.notify(notice(number)));
        let (end, first) = sent(&mut outbox, 1);
        assert_eq!(end, Sent::Blocked);
        // There is room again behind the gap.
        outbox.notify(notice(9_999_999));
        let (_, rest) = sent(&mut outbox, usize::MAX);
        let (mut seen, lost) = told(&[first, rest].concat());
        assert_eq!(seen.pop(), Some(9_999_999));
        assert_eq!(seen, (0..limit).collect::<Vec<_>>());
        assert_eq!(lost, [5]);
    }

    #[test]
    fn a_client_that_does_not_read_is_full_at_the_limit() {
        let mut outbox = Outbox::default();
        (1..FRAMES_QUEUED_MAX).for_each(|_| outbox.push(reply(0)));
        assert!(!outbox.is_full());
        outbox.push(reply(0));
        assert!(outbox.is_full());
    }
}
