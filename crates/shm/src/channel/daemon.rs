//! The daemon's side of one client's channel. Nothing in the channel is believed.

use std::io;
use std::sync::atomic::Ordering;

use plasmon_proto::limits::TOUCHES;
use plasmon_proto::ring::{Completion, Record};

use super::layout::{
    CHANNEL_BYTES, COMPLETION_HEAD_AT, COMPLETION_TAIL_AT, LEDGER_AT, LEDGER_HIGH_AT, LEFT_AT,
    LOST_AT, Layout, MAGIC, MAGIC_AT, PARTED_AT, REFUSALS_LOST_AT, SUBMISSION_HEAD_AT,
    TOUCH_CURSOR_AT, not_a_channel,
};
use super::pages::Pages;
use crate::disconnect_word;
use crate::edge::{self, Attempt, Mutation};
use crate::futex;
use crate::map::{Populate, WriteMap};
use crate::memfd::Memfd;
use crate::ring::{BadCursor, Consumer, Producer};
use crate::scan::{LedgerScan, PinCounts};
use crate::sleep_flag;
use crate::wake_page::FutexEvent;

/// The client broke the protocol of its ring: disconnect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client corrupted its submission ring: {0}")]
pub struct ProtocolViolation(#[from] pub BadCursor);

/// The daemon's side of one client's channel.
#[derive(Debug)]
pub struct ChannelDaemon {
    memfd: Memfd,
    layout: Layout,
    /// Of the ledger.
    pages: Pages,
    submissions: Consumer,
    completions: Producer,
    lost: u64,
    refusals_lost: u64,
    touches_seen: u64,
    /// The number of the next wait for the client's doorbell, odd.
    wait: u32,
}

impl ChannelDaemon {
    /// A channel for a new client.
    pub fn create() -> io::Result<Self> {
        let memfd = Memfd::create("plasmon-channel", CHANNEL_BYTES)?;
        let channel = Self::map(memfd)?;
        channel.layout.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(channel)
    }

    /// Takes over the channel of a client that was connected to a daemon that died. The cursors are
    /// those that the old daemon left in the channel; a client that changed them harms itself.
    ///
    /// The magic is for clients. It lies in memory that they write, so it says nothing here.
    pub fn adopt(memfd: Memfd) -> io::Result<Self> {
        Self::map(memfd)
    }

    fn map(memfd: Memfd) -> io::Result<Self> {
        if memfd.bytes() != CHANNEL_BYTES {
            return Err(not_a_channel());
        }
        let layout = Layout(WriteMap::new(&memfd, CHANNEL_BYTES, Populate::No)?);
        let word = |offset| layout.word(offset).load(Ordering::Acquire);
        let submissions = Consumer::new(word(SUBMISSION_HEAD_AT));
        let completions = Producer::new(word(COMPLETION_TAIL_AT));
        let (lost, refusals_lost) = (word(LOST_AT), word(REFUSALS_LOST_AT));
        let touches_seen = word(TOUCH_CURSOR_AT);
        let channel = Self {
            memfd,
            layout,
            pages: Pages::new(),
            submissions,
            completions,
            lost,
            refusals_lost,
            touches_seen,
            wait: first_wait(),
        };
        channel.watch_submissions();
        Ok(channel)
    }

    /// The memfd.
    pub fn memfd(&self) -> &Memfd {
        &self.memfd
    }

    /// How many submissions wait to be drained.
    pub fn pending(&self) -> Result<u64, ProtocolViolation> {
        Ok(self.submissions.available(&self.layout.submissions())?)
    }

    /// Has the client ring its doorbell with its next submission; until then the ring need not be
    /// looked at. False, and nothing has changed, when there is something in it, or it is broken.
    pub fn await_doorbell(&mut self) -> bool {
        sleep_flag::prepare_to_sleep(self.layout.awaited(), self.wait);
        self.wait = self.wait.wrapping_add(2);
        let is_idle = self.pending() == Ok(0);
        if !is_idle {
            self.watch_submissions();
        }
        is_idle
    }

    /// The daemon looks at the ring by itself again: no doorbell is needed.
    pub fn watch_submissions(&self) {
        sleep_flag::stay_awake(self.layout.awaited());
    }

    /// Copies up to `max` submissions with their positions out. Apply them, then [`Self::advance`].
    pub fn drain(
        &mut self,
        max: usize,
        into: &mut Vec<(u64, Record)>,
    ) -> Result<usize, ProtocolViolation> {
        let ring = self.layout.submissions();
        let count = self.submissions.available(&ring)?.min(max as u64) as usize;
        into.extend((0..count).map(|_| self.submissions.pop(&ring)));
        Ok(count)
    }

    /// Says that everything drained is applied. [`Self::wake`] must follow, if not at once.
    pub fn advance(&self) {
        self.submissions.advance(&self.layout.submissions());
    }

    /// Says that everything before a position is applied, while more of what was drained is not.
    pub fn advance_to(&self, position: u64) {
        self.submissions.advance_to(&self.layout.submissions(), position);
    }

    /// Wakes the client's threads that wait for what was applied.
    pub fn wake(&self) -> io::Result<()> {
        if sleep_flag::must_ring(self.layout.sleepers()) {
            futex::wake(self.layout.head_futex(), u32::MAX)?;
        }
        Ok(())
    }

    /// The position of the next submission that will be drained.
    pub fn position(&self) -> u64 {
        self.submissions.next()
    }

    /// Tells the client something; `false` when it did not make room, which is counted where the
    /// client can see it.
    pub fn complete(&mut self, completion: &Completion) -> bool {
        let ring = self.layout.completions();
        // A head out of range means a client that ignores its completions.
        let has_room = self.completions.room(&ring).is_ok_and(|room| room > 0)
            // A ring that is read to its end is not full, also in the simulator.
            && (edge::attempt(Attempt::Complete).is_ok() || !self.has_unread());
        if has_room {
            self.completions.push(&ring, &completion.encode());
            self.completions.publish(&ring);
        } else if !edge::is_broken(Mutation::LoseSilently) {
            self.count_lost(completion);
        }
        has_room
    }

    /// Refusals have their own count: after other losses no put is in doubt.
    fn count_lost(&mut self, completion: &Completion) {
        if matches!(completion, Completion::Refused { .. }) {
            self.refusals_lost = self.refusals_lost.wrapping_add(1);
            self.layout.word(REFUSALS_LOST_AT).store(self.refusals_lost, Ordering::Relaxed);
        }
        self.lost = self.lost.wrapping_add(1);
        // Pairs with the Acquire in `ChannelClient::completions_lost`: the count of refusals comes
        // before.
        self.layout.word(LOST_AT).store(self.lost, Ordering::Release);
    }

    /// Whether the client has said that it left for good.
    pub fn has_left(&self) -> bool {
        // Pairs with the Release in `ChannelClient::leave`.
        self.layout.word(LEFT_AT).load(Ordering::Acquire) != 0
    }

    fn has_unread(&self) -> bool {
        let read = self.layout.word(COMPLETION_HEAD_AT).load(Ordering::Acquire);
        read != self.layout.word(COMPLETION_TAIL_AT).load(Ordering::Relaxed)
    }

    /// Says whether the daemon has closed the connection. A client whose pin does not come
    /// before this gives it up again, so [`Self::pins`] tells all that will ever be held.
    pub fn set_parted(&self, parted: bool) {
        disconnect_word::set(self.layout.word(PARTED_AT), parted);
    }

    /// the event to wake after a message was sent to this client.
    pub fn mail(&self) -> FutexEvent<'_> {
        self.layout.mail()
    }

    /// the event to wake when an extent is gone whose memory stays until this client unmaps it.
    pub fn gone(&self) -> FutexEvent<'_> {
        self.layout.gone()
    }

    /// Adds the records that the client touched since the last call, the oldest first; whether
    /// these records exist is for the caller to check. At most as many as the ring of touches
    /// holds.
    pub fn touches(&mut self, into: &mut Vec<u32>) {
        let cursor = self.layout.word(TOUCH_CURSOR_AT).load(Ordering::Acquire);
        let count = cursor.wrapping_sub(self.touches_seen).min(TOUCHES as u64);
        let touches = self.layout.touches();
        into.extend((0..count).rev().map(|back| {
            let at = cursor.wrapping_sub(back + 1) as usize % TOUCHES;
            touches[at].load(Ordering::Relaxed)
        }));
        self.touches_seen = cursor;
    }

    /// Counts this client's pins. Hide the slots first: a pin that is not counted then was never
    /// seen to succeed. Returns how many entries were looked at.
    pub fn scan_pins(&self, counts: &mut PinCounts) -> usize {
        let mut looked_at = 0;
        self.scan(|part| {
            looked_at += part.len();
            part.count(counts);
        });
        looked_at
    }

    /// Calls `each` with the serial of every pin of this client. Numbers that are no serials may
    /// occur.
    pub fn pins(&self, mut each: impl FnMut(u64)) {
        self.scan(|part| part.pins().for_each(&mut each));
    }

    /// How many pins this client holds.
    pub fn pins_count(&self) -> usize {
        self.count_pins().0
    }

    /// How many pins the client holds, and in how many entries of its ledger that was looked for.
    pub fn count_pins(&self) -> (usize, usize) {
        let (mut pins, mut entries) = (0, 0);
        self.scan(|part| {
            pins += part.pins().count();
            entries += part.len();
        });
        (pins, entries)
    }

    fn scan(&self, mut look: impl FnMut(LedgerScan<'_>)) {
        let ledger = LedgerScan::new(self.layout.ledger(), self.layout.word(LEDGER_HIGH_AT));
        let part = |entries| look(ledger.part(entries));
        self.pages.runs(&self.memfd, LEDGER_AT, ledger.len(), part);
    }
}

/// An odd number that most probably no daemon before this one has used.
fn first_wait() -> u32 {
    edge::unix_time().subsec_nanos() << 1 | 1
}
