//! A client's side of its channel, shared by its threads.

use std::io;
#[cfg(feature = "sim")]
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plasmon_proto::limits::TOUCHES;
use plasmon_proto::ring::{Completion, Record};

use super::layout::{
    CHANNEL_BYTES, COMPLETION_HEAD_AT, COMPLETION_TAIL_AT, LEDGER_HIGH_AT, LEFT_AT, LOST_AT,
    Layout, MAGIC, MAGIC_AT, PARTED_AT, REFUSALS_LOST_AT, SUBMISSION_HEAD_AT, SUBMISSION_TAIL_AT,
    TOUCH_CURSOR_AT, not_a_channel,
};
use crate::control::ControlReader;
use crate::disconnect_word;
use crate::edge;
use crate::futex::{self, Outcome};
use crate::ledger::{Ledger, LedgerLocal};
use crate::map::{Populate, WriteMap};
use crate::memfd::Memfd;
use crate::ring::{Consumer, Producer};
use crate::sleep_flag;
use crate::wake_page::FutexEvent;

/// How often the head is looked at before sleeping: some microseconds, as long as a busy daemon
/// takes for a batch.
const SPINS: u32 = 100;

/// A submission on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The position of the first record; those after it follow.
    pub position: u64,
    /// How many records the ring took.
    pub count: usize,
    /// Whether to ring the daemon's doorbell now, and to say so with [`ChannelClient::rang`]: the
    /// daemon sleeps, or it does not look at this ring before it is told to.
    pub must_ring: bool,
    /// What it is told to look for.
    awaited: u32,
}

/// A client's side of its channel.
#[derive(Debug)]
pub struct ChannelClient {
    layout: Layout,
    ledger: LedgerLocal,
    submissions: Mutex<Producer>,
    completions: Mutex<Consumer>,
    /// The number of the daemon's sleep that this client rang for last.
    rung: AtomicU32,
    /// The number of the daemon's wait for this client's doorbell that it rang for last.
    told: AtomicU32,
}

impl ChannelClient {
    /// Maps the channel that the daemon passed.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let memfd = Memfd::adopt(fd)?;
        if memfd.bytes() != CHANNEL_BYTES {
            return Err(not_a_channel());
        }
        let layout = Layout(WriteMap::new(&memfd, CHANNEL_BYTES, Populate::No)?);
        #[cfg(feature = "sim")]
        edge::simulated::within(|world| world.has_memfd("joined", memfd.as_fd()));
        if layout.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC {
            return Err(not_a_channel());
        }
        let tail = layout.word(SUBMISSION_TAIL_AT).load(Ordering::Relaxed);
        let head = layout.word(COMPLETION_HEAD_AT).load(Ordering::Relaxed);
        Ok(Self {
            layout,
            ledger: LedgerLocal::new(),
            submissions: Mutex::new(Producer::new(tail)),
            completions: Mutex::new(Consumer::new(head)),
            rung: AtomicU32::new(0),
            told: AtomicU32::new(0),
        })
    }

    /// The pins of this client.
    #[inline]
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger::new(self.layout.ledger(), self.layout.word(LEDGER_HIGH_AT), &self.ledger)
    }

    /// Submits a record; `None` when the ring is full: wait for the head to move.
    pub fn submit(&self, record: &Record, control: &ControlReader) -> Option<InFlight> {
        let submitted = self.submit_many(std::slice::from_ref(record), control);
        (submitted.count == 1).then_some(submitted)
    }

    /// Submits as many of `records` as the ring has room for, in their order and with one fence.
    pub fn submit_many(&self, records: &[Record], control: &ControlReader) -> InFlight {
        let ring = self.layout.submissions();
        let mut producer = lock(&self.submissions);
        let position = producer.tail();
        let mut count = 0;
        for record in records {
            // A head out of range is a broken daemon. It gets no more records; the caller finds out
            // as with a daemon that hangs.
            if producer.room(&ring).unwrap_or(0) == 0 {
                break;
            }
            producer.push(&ring, record);
            count += 1;
        }
        producer.publish(&ring);
        drop(producer);
        edge::pause(edge::Point::Submit);
        if count == 0 {
            return InFlight { position, count, must_ring: false, awaited: 0 };
        }
        let awaited = sleep_flag::number_to_ring(self.layout.awaited(), &self.told);
        let must_ring = control.must_ring(&self.rung) || awaited != 0;
        InFlight { position, count, must_ring, awaited }
    }

    /// The doorbell was rung for this submission. Until then another thread may not rely on that.
    #[inline]
    pub fn rang(&self, submitted: &InFlight) {
        if submitted.awaited != 0 {
            sleep_flag::has_rung(&self.told, submitted.awaited);
        }
    }

    /// Another daemon took over, which numbers its sleeps from the start. Ring it once after this.
    pub fn forget_rung(&self) {
        self.rung.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
    }

    /// The submissions that are not applied yet, the oldest first: what a client tells a restarted
    /// daemon about. While a daemon is at work they may be applied at any moment.
    pub fn unapplied(&self) -> Vec<Record> {
        lock(&self.submissions).pending(&self.layout.submissions()).collect()
    }

    /// The position of the next submission: everything submitted lies before it.
    pub fn tail(&self) -> u64 {
        lock(&self.submissions).tail()
    }

    /// The daemon has applied every submission before this position.
    pub fn head(&self) -> u64 {
        // Pairs with the release in `Consumer::advance`.
        self.layout.word(SUBMISSION_HEAD_AT).load(Ordering::Acquire)
    }

    /// Whether the submission at `position` is applied.
    pub fn is_applied(&self, position: u64) -> bool {
        // The difference and not the order, because positions may pass the end of 64 bits.
        self.head().wrapping_sub(position).wrapping_sub(1) < 1 << 63
    }

    /// Waits until the submission at `position` is applied; `false` when `deadline` came first or a
    /// signal handler ran. Rings nothing: see [`InFlight::must_ring`].
    pub fn wait_applied(&self, position: u64, deadline: Option<Instant>) -> io::Result<bool> {
        for _ in 0..SPINS {
            if self.is_applied(position) {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        let sleepers = self.layout.sleepers();
        sleep_flag::join_sleepers(sleepers);
        let outcome = self.sleep_until_applied(position, deadline);
        sleep_flag::leave_sleepers(sleepers);
        outcome
    }

    fn sleep_until_applied(&self, position: u64, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            let head = self.head();
            if self.is_applied(position) {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(edge::now()));
            match futex::wait(self.layout.head_futex(), head as u32, left)? {
                Outcome::Woken | Outcome::Changed => {}
                Outcome::TimedOut | Outcome::Interrupted => return Ok(self.is_applied(position)),
            }
        }
    }

    /// The next completion, if there is one. Records that mean nothing are skipped.
    ///
    /// Not public: an [`Completion::ExtentGone`] must not be passed by, which [`crate::Reader`]
    /// sees to.
    pub(crate) fn next_completion(&self) -> Option<Completion> {
        let ring = self.layout.completions();
        let mut consumer = lock(&self.completions);
        while consumer.available(&ring).is_ok_and(|count| count > 0) {
            let (_, record) = consumer.pop(&ring);
            consumer.advance(&ring);
            if let Ok(completion) = Completion::decode(&record) {
                return Some(completion);
            }
        }
        None
    }

    /// Whether there may be completions to take: two loads, for callers that look often.
    #[inline]
    pub fn has_completions(&self) -> bool {
        let tail = self.layout.word(COMPLETION_TAIL_AT).load(Ordering::Relaxed);
        tail != self.layout.word(COMPLETION_HEAD_AT).load(Ordering::Relaxed)
    }

    /// How many completions the daemon dropped since the channel was made, because this client did
    /// not read them in time.
    pub fn completions_lost(&self) -> u64 {
        self.layout.word(LOST_AT).load(Ordering::Acquire)
    }

    /// How many of them were refusals. To be asked after [`ChannelClient::completions_lost`].
    pub fn refusals_lost(&self) -> u64 {
        self.layout.word(REFUSALS_LOST_AT).load(Ordering::Relaxed)
    }

    /// Whether the daemon has closed this connection. To be asked after a pin, which is void
    /// then: the daemon may have looked at the ledger for the last time.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        disconnect_word::is_set(self.layout.word(PARTED_AT))
    }

    /// Says that this client has left for good: it reads and writes nothing of the store any more.
    /// The daemon looks there when the connection has ended, so call this before that.
    pub fn leave(&self) {
        // Pairs with the Acquire in `ChannelDaemon::has_left`: what was written comes before.
        self.layout.word(LEFT_AT).store(1, Ordering::Release);
    }

    /// The event that the daemon wakes when it has sent this client a message, or disconnected it.
    pub fn mail(&self) -> FutexEvent<'_> {
        self.layout.mail()
    }

    /// The event that the daemon wakes when extents are gone that this client may have mapped and
    /// whose memory stays until it unmaps them.
    pub fn gone(&self) -> FutexEvent<'_> {
        self.layout.gone()
    }

    /// Tells the daemon's eviction clock that the object with this record was read.
    ///
    /// A hint and made as cheap as one: threads that touch at the same moment may lose a touch.
    #[inline]
    pub fn touch(&self, record: u32) {
        let cursor = self.layout.word(TOUCH_CURSOR_AT);
        let at = cursor.load(Ordering::Relaxed);
        self.layout.touches()[at as usize % TOUCHES].store(record, Ordering::Relaxed);
        cursor.store(at.wrapping_add(1), Ordering::Release);
    }
}

/// A cursor is whole after every statement, so a thread that panicked left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
