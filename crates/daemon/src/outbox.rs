//! The messages that wait to be sent to one client.
//!
//! Replies keep their order and are never dropped: a client that does not read them is not read
//! from either, and its waits are bounded, so they cannot pile up. Notices follow the replies,
//! many to a frame; so do the calls to a pool daemon, which is disconnected when too many wait. A
//! subscriber that is too slow loses the newest ones, and is told how many at
//! the very point where they are missing. All outboxes share a budget: when it is used up, each
//! keeps a few notices, and a client that has not read one reply is not read from.
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
use std::sync::atomic::{AtomicUsize, Ordering};

use plasmon_proto::frame;
use plasmon_proto::limits::{
    CALLS_MAX, CALLS_QUEUED_MAX, FRAME_FDS_MAX, NOTIFICATIONS_QUEUED_IN_ALL_MAX,
    NOTIFICATIONS_QUEUED_MAX, NOTIFICATIONS_QUEUED_MIN, REPLIES_BYTES_IN_ALL_MAX,
    REPLIES_BYTES_MAX,
};
use plasmon_proto::message::{Notice, Push};
use plasmon_proto::pool::Call;
use plasmon_shm::Memfd;
use rustix::io::Errno;

use plasmon_shm::shortage::is_passing;

/// Frames beyond which the client's requests stay in its socket until it has read some.
pub(crate) const FRAMES_QUEUED_MAX: usize = 64;

/// Descriptors in them beyond which it is the same.
pub(crate) const FDS_QUEUED_MAX: usize = 2 * FRAME_FDS_MAX;

/// Notices in one frame: each takes at most 42 bytes, so these fit with room to spare.
pub(crate) const NOTICES_PER_FRAME_MAX: usize = 1024;

/// A descriptor on its way to a client.
#[derive(Debug)]
pub(crate) enum PassedDescriptor {
    /// One made for this, closed here once it is sent.
    Made(OwnedFd),
    /// One for reading that several clients are sent, closed here once all of them are.
    Shared(Arc<OwnedFd>),
    /// An extent's own, so that a granted lease never fails for want of a free descriptor.
    Extent(Arc<Memfd>),
}

impl AsFd for PassedDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Made(fd) => fd.as_fd(),
            Self::Shared(fd) => fd.as_fd(),
            Self::Extent(memfd) => memfd.as_fd(),
        }
    }
}

/// One frame and the descriptors beside it.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// The descriptors.
    pub(crate) fds: Vec<PassedDescriptor>,
}

/// What a subscriber is going to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingNotification {
    Notice(Notice),
    Lost(u64),
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// Nothing is left.
    All,
    /// The socket takes no more at the moment.
    Blocked,
    /// The system is out of something, or the client has too many descriptors to receive: nothing
    /// says when that is over.
    Later,
}

/// What waits in all outboxes together.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Bytes of replies.
    bytes: AtomicUsize,
    /// Notices beyond those that each subscriber may have in any case.
    notices: AtomicUsize,
}

impl Budget {
    fn take_notice(&self) -> bool {
        let has_room = self.notices.load(Ordering::Relaxed) < NOTIFICATIONS_QUEUED_IN_ALL_MAX;
        if has_room {
            self.notices.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

/// The queues of one client.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    frames: VecDeque<OutgoingFrame>,
    notices: VecDeque<PendingNotification>,
    /// What the pool daemon is told, if the client is that.
    calls: VecDeque<Call>,
    /// Bytes of the frames.
    bytes: usize,
    /// How many of the notices count against the budget of all.
    counted: usize,
    budget: Arc<Budget>,
}

impl Outbox {
    /// An empty one that shares a budget with others.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let mut outbox = Self::default();
        outbox.budget = Arc::clone(budget);
        outbox
    }

    /// Queues a reply.
    pub(crate) fn push(&mut self, outgoing: OutgoingFrame) {
        self.bytes += outgoing.bytes.len();
        self.budget.bytes.fetch_add(outgoing.bytes.len(), Ordering::Relaxed);
        self.frames.push_back(outgoing);
    }

    fn pop(&mut self) {
        if let Some(sent) = self.frames.pop_front() {
            self.bytes -= sent.bytes.len();
            self.budget.bytes.fetch_sub(sent.bytes.len(), Ordering::Relaxed);
        }
    }

    /// Queues a notice, or counts it as lost when too many wait.
    pub(crate) fn notify(&mut self, notice: Notice) {
        let waiting = self.notices.len();
        if waiting < NOTIFICATIONS_QUEUED_MIN {
            self.notices.push_back(PendingNotification::Notice(notice));
            return;
        }
        if waiting < NOTIFICATIONS_QUEUED_MAX && self.budget.take_notice() {
            self.counted += 1;
            self.notices.push_back(PendingNotification::Notice(notice));
            return;
        }
        match self.notices.back_mut() {
            Some(PendingNotification::Lost(count)) => *count += 1,
            _ => self.notices.push_back(PendingNotification::Lost(1)),
        }
    }

    /// Queues a call for the pool daemon. False when too many wait.
    pub(crate) fn call(&mut self, call: Call) -> bool {
        let has_room = self.calls.len() < CALLS_QUEUED_MAX;
        if has_room {
            self.calls.push_back(call);
        }
        has_room
    }

    /// How many calls wait for the pool daemon.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Drops the notices: the client unsubscribed.
    pub(crate) fn forget_notices(&mut self) {
        self.notices = VecDeque::new();
        self.count_fewer(usize::MAX);
    }

    /// So many notices wait no more.
    fn count_fewer(&mut self, notices: usize) {
        let fewer = notices.min(self.counted);
        self.counted -= fewer;
        self.budget.notices.fetch_sub(fewer, Ordering::Relaxed);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.notices.is_empty() && self.calls.is_empty()
    }

    /// Whether the client should read before it asks for more.
    pub(crate) fn is_full(&self) -> bool {
        let passed = || self.frames.iter().map(|frame| frame.fds.len()).sum::<usize>();
        let all = self.budget.bytes.load(Ordering::Relaxed);
        self.frames.len() >= FRAMES_QUEUED_MAX
            || self.bytes >= REPLIES_BYTES_MAX
            || all >= REPLIES_BYTES_IN_ALL_MAX && !self.frames.is_empty()
            || passed() >= FDS_QUEUED_MAX
    }

    /// How many descriptors go beside the next reply.
    pub(crate) fn next_fds(&self) -> usize {
        self.frames.front().map_or(0, |frame| frame.fds.len())
    }

    /// Sends as much as `send` takes; `WouldBlock` ends it for now, other errors are the client's
    /// end.
    pub(crate) fn flush(
        &mut self,
        mut send: impl FnMut(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>,
    ) -> io::Result<SendOutcome> {
        loop {
            while let Some(next) = self.frames.front() {
                let fds: Vec<BorrowedFd<'_>> = next.fds.iter().map(AsFd::as_fd).collect();
                match send(&next.bytes, &fds) {
                    Ok(()) => self.pop(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(SendOutcome::Blocked);
                    }
                    Err(error) if Errno::from_io_error(&error).is_some_and(is_passing) => {
                        return Ok(SendOutcome::Later);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(push) = self.next_push() else {
                return Ok(SendOutcome::All);
            };
            let bytes = frame::encode_push(&push).map_err(io::Error::other)?;
            self.push(OutgoingFrame { bytes, fds: Vec::new() });
        }
    }

    fn next_push(&mut self) -> Option<Push> {
        if !self.calls.is_empty() {
            let count = self.calls.len().min(CALLS_MAX);
            return Some(Push::Calls(self.calls.drain(..count).collect()));
        }
        if let Some(PendingNotification::Lost(count)) = self.notices.front() {
            let count = *count;
            self.notices.pop_front();
            return Some(Push::NoticesLost(count));
        }
        let mut notices = Vec::new();
        while let Some(PendingNotification::Notice(notice)) = self.notices.front() {
            if notices.len() == NOTICES_PER_FRAME_MAX {
                break;
            }
            notices.push(*notice);
            self.notices.pop_front();
        }
        self.count_fewer(notices.len());
        (!notices.is_empty()).then_some(Push::Notices(notices))
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.count_fewer(usize::MAX);
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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

    fn reply(byte: u8) -> OutgoingFrame {
        OutgoingFrame { bytes: vec![byte], fds: Vec::new() }
    }

    /// What arrives when the socket takes `room` frames.
    fn sent(outbox: &mut Outbox, room: usize) -> (SendOutcome, Vec<Vec<u8>>) {
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

    fn notices_in(frames: &[Vec<u8>]) -> (Vec<u64>, Vec<u64>) {
        let (mut seen, mut lost) = (Vec::new(), Vec::new());
        for frame in frames {
            match decode_from_daemon(frame).unwrap() {
                FromDaemon::Push(Push::Notices(notices)) => {
                    seen.extend(notices.iter().map(|notice| notice.data_bytes));
                }
                FromDaemon::Push(Push::NoticesLost(count)) => lost.push(count),
                FromDaemon::Push(push) => panic!("not a notice: {push:?}"),
                FromDaemon::Reply(..) => panic!("no reply was queued"),
            }
        }
        (seen, lost)
    }

    #[test]
    fn calls_go_many_to_a_frame_in_order_up_to_a_limit() {
        let mut outbox = Outbox::default();
        let call = |number: u64| {
            let mut identity = [0; 12];
            identity[..8].copy_from_slice(&number.to_le_bytes());
            Call::Unseek(plasmon_proto::ObjectId::pooled(identity, None))
        };
        assert!((0..CALLS_QUEUED_MAX as u64).all(|number| outbox.call(call(number))));
        assert!(!outbox.call(call(0)), "one more than may wait");
        let mut told = Vec::new();
        while let Some(Push::Calls(calls)) = outbox.next_push() {
            assert!(calls.len() <= CALLS_MAX);
            told.extend(calls);
        }
        assert!(told.into_iter().eq((0..CALLS_QUEUED_MAX as u64).map(call)));
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_blocked_socket_gets_the_rest_later_in_order() {
        let mut outbox = Outbox::default();
        (1..=3).for_each(|byte| outbox.push(reply(byte)));
        assert_eq!(sent(&mut outbox, 2), (SendOutcome::Blocked, vec![vec![1], vec![2]]));
        assert_eq!(sent(&mut outbox, 2), (SendOutcome::All, vec![vec![3]]));
        assert_eq!(sent(&mut outbox, 1), (SendOutcome::All, vec![]));
    }

    #[test]
    fn notices_are_batched_and_the_largest_batch_fits_a_frame() {
        let mut outbox = Outbox::default();
        let count = 2 * NOTICES_PER_FRAME_MAX as u64 + 1;
        (0..count).for_each(|number| outbox.notify(notice(u64::MAX - number)));
        let (end, frames) = sent(&mut outbox, usize::MAX);
        assert_eq!((end, frames.len()), (SendOutcome::All, 3));
        let (seen, lost) = notices_in(&frames);
        assert_eq!(seen, (0..count).map(|number| u64::MAX - number).collect::<Vec<_>>());
        assert!(lost.is_empty());
    }

    #[test]
    fn a_slow_subscriber_is_notified_of_the_gap_where_it_is() {
        let mut outbox = Outbox::default();
        let limit = NOTIFICATIONS_QUEUED_MAX as u64;
        (0..limit + 5).for_each(|number| outbox.notify(notice(number)));
        let (end, first) = sent(&mut outbox, 1);
        assert_eq!(end, SendOutcome::Blocked);
        // There is room again after the gap.
        outbox.notify(notice(9_999_999));
        let (_, rest) = sent(&mut outbox, usize::MAX);
        let (mut seen, lost) = notices_in(&[first, rest].concat());
        assert_eq!(seen.pop(), Some(9_999_999));
        assert_eq!(seen, (0..limit).collect::<Vec<_>>());
        assert_eq!(lost, [5]);
    }

    /// Forty subscribers that did not read took 390 MB of the daemon; 4000 would have taken all.
    #[test]
    fn subscribers_share_a_budget_and_each_keeps_a_few_notices() {
        let budget = Arc::new(Budget::default());
        let greedy = NOTIFICATIONS_QUEUED_IN_ALL_MAX / NOTIFICATIONS_QUEUED_MAX + 1;
        let mut outboxes: Vec<Outbox> = (0..greedy).map(|_| Outbox::new(&budget)).collect();
        for outbox in &mut outboxes {
            (0..NOTIFICATIONS_QUEUED_MAX as u64).for_each(|number| outbox.notify(notice(number)));
        }
        assert_eq!(budget.notices.load(Ordering::Relaxed), NOTIFICATIONS_QUEUED_IN_ALL_MAX);
        let mut late = Outbox::new(&budget);
        let count = NOTIFICATIONS_QUEUED_MIN as u64;
        (0..count + 3).for_each(|number| late.notify(notice(number)));
        let (_, frames) = sent(&mut late, usize::MAX);
        assert_eq!(notices_in(&frames), ((0..count).collect(), vec![3]));
        // One that reads, one that leaves and one that unsubscribes give back what they had.
        sent(&mut outboxes[0], usize::MAX);
        outboxes.pop();
        outboxes.iter_mut().skip(1).for_each(Outbox::forget_notices);
        assert_eq!(budget.notices.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn replies_share_a_budget_and_each_client_keeps_one() {
        let budget = Arc::new(Budget::default());
        let reply = |bytes| OutgoingFrame { bytes: vec![0; bytes], fds: Vec::new() };
        let mut one = Outbox::new(&budget);
        one.push(reply(REPLIES_BYTES_MAX - 1));
        assert!(!one.is_full());
        one.push(reply(1));
        assert!(one.is_full(), "its own limit");
        sent(&mut one, usize::MAX);
        assert!(!one.is_full());
        let mut other = Outbox::new(&budget);
        other.push(reply(REPLIES_BYTES_IN_ALL_MAX));
        assert!(!one.is_full(), "nothing of it waits");
        one.push(reply(1));
        assert!(one.is_full(), "that of all");
        drop(other);
        assert!(!one.is_full());
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_the_system_is_out_of_for_a_moment_ends_no_client() {
        let mut outbox = Outbox::default();
        outbox.push(reply(1));
        let refused = outbox.flush(|_, _| Err(Errno::TOOMANYREFS.into()));
        assert_eq!(refused.unwrap(), SendOutcome::Later);
        assert_eq!(sent(&mut outbox, 1), (SendOutcome::All, vec![vec![1]]));
        outbox.push(reply(2));
        assert!(outbox.flush(|_, _| Err(Errno::PIPE.into())).is_err());
    }

    #[test]
    fn a_client_with_many_descriptors_to_read_is_full() {
        let mut outbox = Outbox::default();
        let passed = || PassedDescriptor::Made(std::fs::File::open("/dev/null").unwrap().into());
        for number in 0..FDS_QUEUED_MAX {
            assert!(!outbox.is_full(), "{number}");
            outbox.push(OutgoingFrame { bytes: vec![0], fds: vec![passed()] });
        }
        assert!(outbox.is_full());
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
