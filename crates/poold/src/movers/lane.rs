//! One bulk lane with what it sends, and the transfers that a mover receives.

use std::collections::{BTreeMap, VecDeque};

use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};
use plasmon_net::transport::{Destination, Destinations, Received, Sent, Source};
use plasmon_net::{BulkLane, Error, FramedBulk};
use plasmon_pool::message::TransferNo;

use super::job::{Done, LaneId, Receive, Serve};
use crate::clock::now_ms;
use crate::links::LaneStream;
use crate::memory::BoxedLanding;
use crate::poll::Interest;

/// Segments sent and received by one lane before others have their turn.
const SEGMENTS_AT_ONCE: usize = 16;

/// So often the node is told that content arrives: less often than it takes a transfer for one that
/// stands still.
pub(super) const MOVING_MS: u64 = 100;

const _: () = assert!(2 * MOVING_MS < plasmon_pool::limits::STALL_MS, "it is told in time");

/// A lane of a mover.
pub(super) struct Lane {
    id: LaneId,
    /// Of the poll.
    number: u64,
    connection: u64,
    lane: FramedBulk<LaneStream>,
    serves: VecDeque<Sending>,
    /// The segment of the first serve that is sent in part.
    current: Option<Segment>,
    /// A transfer that was ended while a segment of it was sent in part: the rest of that segment
    /// has to follow.
    is_last_segment: bool,
    /// The content of that segment, where the source has it in pieces.
    gathered: Vec<u8>,
    is_waiting: bool,
    interest: Interest,
    /// The bytes that had been received when the node was told last that content arrives, and when
    /// that was.
    told: (u64, u64),
}

/// A transfer that is served.
struct Sending {
    serve: Serve,
    /// The next segment, in the first of the ranges that are left.
    next: u32,
    range: usize,
}

impl Sending {
    /// The next segment, which the sending goes past; `None` after the last one. Its content is in
    /// one piece, or gathered.
    fn next_segment(&mut self, gathered: &mut Vec<u8>) -> Option<Segment> {
        loop {
            let range = self.serve.ranges.get(self.range)?;
            let number = range.first.checked_add(self.next).filter(|_| self.next < range.count);
            let source = &self.serve.source;
            let place = |number| {
                let offset = u64::from(number) * u64::from(SEGMENT_BYTES_MAX);
                let left = source.bytes().checked_sub(offset)?.min(u64::from(SEGMENT_BYTES_MAX));
                (left > 0).then_some((number, offset, left as usize))
            };
            // What a peer asks for beyond the end is not there, nor is what follows in that range.
            let Some((number, offset, length)) = number.and_then(place) else {
                (self.range, self.next) = (self.range + 1, 0);
                continue;
            };
            let mut content = source.part(offset, length);
            if content.len() != length && source.gather(offset, length, gathered) {
                content = gathered;
            }
            if content.len() != length {
                (self.range, self.next) = (self.range + 1, 0);
                continue;
            }
            self.next += 1;
            let checksum = crc32c::crc32c(content);
            let (transfer, bytes) = (self.serve.transfer.0, content.len() as u32);
            return Some(Segment { transfer, number, bytes, offset, checksum });
        }
    }
}

impl Lane {
    pub(super) fn new(id: LaneId, number: u64, connection: u64, stream: LaneStream) -> Self {
        Self {
            id,
            number,
            connection,
            lane: FramedBulk::new(stream),
            serves: VecDeque::new(),
            current: None,
            is_last_segment: false,
            gathered: Vec::new(),
            is_waiting: false,
            interest: Interest::Read,
            told: (0, 0),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    pub(super) fn stream(&self) -> &LaneStream {
        self.lane.stream()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Whether there is something to receive that no event tells of.
    pub(super) fn has_buffered(&self) -> bool {
        !self.is_waiting && self.lane.has_buffered()
    }

    pub(super) fn close(&mut self) {
        self.lane.close();
    }

    /// What the lane is to be waited for, if that has changed. A lane that stands still is not
    /// waited for to be readable, which it is all the time.
    pub(super) fn new_interest(&mut self) -> Option<Interest> {
        let wanted = match (self.is_waiting, self.current.is_some() || !self.serves.is_empty()) {
            (false, false) => Interest::Read,
            (false, true) => Interest::ReadWrite,
            (true, false) => Interest::Nothing,
            (true, true) => Interest::Write,
        };
        (wanted != self.interest).then(|| {
            self.interest = wanted;
            wanted
        })
    }

    pub(super) fn serve(&mut self, serve: Serve) {
        self.end_serve(serve.transfer);
        self.serves.push_back(Sending { serve, next: 0, range: 0 });
    }

    /// What it was to send and has not, to be begun again on another connection.
    pub(super) fn take_serves(&mut self) -> Vec<Serve> {
        // Of a transfer that was ended, a part of a segment was left.
        if std::mem::take(&mut self.is_last_segment) {
            self.serves.pop_front();
        }
        self.serves.drain(..).map(|sending| sending.serve).collect()
    }

    pub(super) fn end_serve(&mut self, transfer: TransferNo) {
        let is_current = self.current.is_some_and(|segment| segment.transfer == transfer.0);
        if is_current {
            self.is_last_segment = true;
        }
        let mut at = 0;
        self.serves.retain(|sending| {
            let is_kept = sending.serve.transfer != transfer || (is_current && at == 0);
            at += 1;
            is_kept
        });
    }

    /// Sends and receives what can be now.
    pub(super) fn drive(
        &mut self,
        transfers: &mut Transfers,
        done: &mut dyn FnMut(Done),
    ) -> Result<(), Error> {
        self.receive(transfers, done)?;
        self.tell_moving(done);
        self.send()
    }

    /// Tells the node now and then that content arrives: a segment over a slow link takes long, and
    /// so does the turn of a transfer among many.
    fn tell_moving(&mut self, done: &mut dyn FnMut(Done)) {
        let (bytes, at_ms) = self.told;
        let received = self.lane.received_bytes();
        if received == bytes {
            return;
        }
        let now = now_ms();
        if now.saturating_sub(at_ms) >= MOVING_MS {
            self.told = (received, now);
            done(Done::Moving(self.id.0));
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        for _ in 0..SEGMENTS_AT_ONCE {
            let Some(sending) = self.serves.front_mut() else { return Ok(()) };
            let segment = match self.current {
                Some(segment) => segment,
                None => match sending.next_segment(&mut self.gathered) {
                    Some(segment) => segment,
                    None => {
                        self.serves.pop_front();
                        continue;
                    }
                },
            };
            self.current = Some(segment);
            let mut content = sending.serve.source.part(segment.offset, segment.bytes as usize);
            if content.is_empty() {
                content = &self.gathered;
            }
            if content.len() != segment.bytes as usize {
                return Err(Error::SourceShort);
            }
            match self.lane.send(&segment, Source::Memory(content))? {
                Sent::Blocked | Sent::NeedsMemory => return Ok(()),
                Sent::Whole => {}
            }
            self.current = None;
            if std::mem::take(&mut self.is_last_segment) {
                self.serves.pop_front();
            } else {
                // The next transfer has its turn.
                self.serves.rotate_left(1);
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        transfers: &mut Transfers,
        done: &mut dyn FnMut(Done),
    ) -> Result<(), Error> {
        self.is_waiting = false;
        for _ in 0..SEGMENTS_AT_ONCE {
            let arrived = |segment: Segment, intact, memory| Done::Arrived {
                transfer: TransferNo(segment.transfer),
                segment: segment.number,
                intact,
                memory,
            };
            match self.lane.receive(&mut OnLane { transfers, lane: self.id })? {
                Received::Segment(segment) => {
                    let whole = transfers.note_arrived(&segment);
                    done(arrived(segment, true, whole));
                }
                Received::Corrupt(segment) => done(arrived(segment, false, None)),
                Received::Discarded(segment) => {
                    if let Some(intact) = transfers.what_is_here(&segment) {
                        done(arrived(segment, intact, None));
                    }
                }
                Received::Waiting(_) => {
                    self.is_waiting = true;
                    return Ok(());
                }
                Received::Blocked => return Ok(()),
            }
        }
        Ok(())
    }
}

/// The transfers that a mover receives.
#[derive(Default)]
pub(crate) struct Transfers {
    accepted: BTreeMap<TransferNo, Transfer>,
    /// The highest number of a transfer so far; nodes number them upwards.
    highest: Option<TransferNo>,
    /// One whose segment came though it was not known.
    unknown: Option<TransferNo>,
}

/// A transfer that is received.
struct Transfer {
    /// Its segments come over this lane alone.
    lane: LaneId,
    state: State,
}

enum State {
    /// The memory is not here yet.
    Expected,
    Here(BoxedLanding, u32),
}

impl Transfers {
    pub(crate) fn expect(&mut self, lane: LaneId, transfer: TransferNo) {
        self.highest = self.highest.max(Some(transfer));
        self.accepted.insert(transfer, Transfer { lane, state: State::Expected });
    }

    /// Takes the memory of a transfer. One without bytes is complete.
    pub(crate) fn accept(&mut self, receive: Receive) -> Option<Done> {
        let Receive { lane, transfer, segments, mut memory } = receive;
        self.highest = self.highest.max(Some(transfer));
        if memory.bytes().is_empty() {
            self.accepted.remove(&transfer);
            return Some(Done::Arrived {
                transfer,
                segment: 0,
                intact: true,
                memory: Some(memory),
            });
        }
        let state = State::Here(memory, segments);
        self.accepted.insert(transfer, Transfer { lane, state });
        None
    }

    /// Whether this transfer is or was accepted.
    pub(crate) fn is_known(&self, transfer: TransferNo) -> bool {
        Some(transfer) <= self.highest
    }

    /// The transfer that a lane stands still for though it is not known.
    pub(crate) fn take_unknown(&mut self) -> Option<TransferNo> {
        self.unknown.take()
    }

    /// A segment is in its place. After the last one that was asked for the memory is given back:
    /// the core has something to do with it, and would have to ask for it.
    fn note_arrived(&mut self, segment: &Segment) -> Option<BoxedLanding> {
        let transfer = TransferNo(segment.transfer);
        let State::Here(memory, left) = &mut self.accepted.get_mut(&transfer)?.state else {
            return None;
        };
        if memory.arrived().insert(segment.number) {
            *left = left.saturating_sub(1);
        }
        if *left > 0 { None } else { self.refuse(transfer) }
    }

    /// Of a segment that was passed over though its transfer is received: whether one of its number
    /// is here.
    fn what_is_here(&mut self, segment: &Segment) -> Option<bool> {
        match &mut self.accepted.get_mut(&TransferNo(segment.transfer))?.state {
            State::Here(memory, _) => Some(memory.arrived().contains(&segment.number)),
            State::Expected => None,
        }
    }

    /// Forgets a transfer; its memory.
    pub(crate) fn refuse(&mut self, transfer: TransferNo) -> Option<BoxedLanding> {
        match self.accepted.remove(&transfer)?.state {
            State::Here(memory, _) => Some(memory),
            State::Expected => None,
        }
    }
}

/// The transfers as one lane sees them: a peer writes into what was asked of it alone.
struct OnLane<'a> {
    transfers: &'a mut Transfers,
    lane: LaneId,
}

impl Destinations for OnLane<'_> {
    fn find(&mut self, segment: &Segment) -> Destination<'_> {
        let transfer = TransferNo(segment.transfer);
        let is_known = self.transfers.is_known(transfer);
        match self.transfers.accepted.get_mut(&transfer) {
            Some(accepted) if accepted.lane != self.lane => Destination::Unknown,
            // One that is here is not written again, nor may another be written over it.
            Some(Transfer { state: State::Here(memory, _), .. }) => {
                let place = u64::from(segment.number) * u64::from(SEGMENT_BYTES_MAX);
                let is_wanted =
                    place == segment.offset && !memory.arrived().contains(&segment.number);
                if is_wanted { Destination::Memory(memory.bytes()) } else { Destination::Discard }
            }
            Some(Transfer { state: State::Expected, .. }) => Destination::Later,
            None if is_known => Destination::Discard,
            None => {
                self.transfers.unknown = Some(transfer);
                Destination::Later
            }
        }
    }
}
