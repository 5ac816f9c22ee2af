//! One bulk lane with what it sends.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use plasmon_fabric::{Completion, Endpoint};
use plasmon_net::note::Note;
use plasmon_net::segment::Segment;
use plasmon_net::transport::{Received, Sent, Source};
use plasmon_net::{BulkLane, Error, FramedBulk};
use plasmon_pool::message::TransferNo;

use super::job::{Done, LaneId, Serve};
use super::sending::Sending;
use super::transfers::{OnLane, Transfers};
use super::windows::{Outcome, Windows};
use crate::clock::now_ms;
use crate::fabric::Fabric;
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
    serves: VecDeque<Served>,
    windows: Windows,
    /// Bytes that the peer has written into windows.
    window_bytes: u64,
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

/// A transfer that is sent.
struct Served {
    serve: Serve,
    sending: Sending,
}

/// What a lane is driven with.
pub(super) struct Turn<'a> {
    pub(super) transfers: &'a mut Transfers,
    pub(super) fabric: Option<&'a Fabric>,
    /// Draws the numbers of writes.
    pub(super) next_token: &'a mut dyn FnMut() -> u64,
    pub(super) done: &'a mut dyn FnMut(Done),
}

impl Lane {
    pub(super) fn new(id: LaneId, number: u64, connection: u64, stream: LaneStream) -> Self {
        Self {
            id,
            number,
            connection,
            lane: FramedBulk::new(stream),
            serves: VecDeque::new(),
            windows: Windows::default(),
            window_bytes: 0,
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
        let is_sending = self.current.is_some() || !self.serves.is_empty() || self.lane.has_notes();
        let wanted = match (self.is_waiting, is_sending) {
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

    /// Serves a transfer, through a window of the peer if it may have one.
    pub(super) fn serve(&mut self, serve: Serve, fabric: Option<&Fabric>) {
        self.end_serve(serve.transfer);
        let sent = match fabric {
            Some(fabric) => self.windows.serve(serve, fabric, now_ms()),
            None => Some(serve),
        };
        self.serves.extend(sent.map(|serve| Served { serve, sending: Sending::default() }));
    }

    /// What it was to send and has not, to be begun again on another connection.
    pub(super) fn take_serves(&mut self) -> Vec<Serve> {
        // Of a transfer that was ended, a part of a segment was left.
        if std::mem::take(&mut self.is_last_segment) {
            self.serves.pop_front();
        }
        let mut serves = self.windows.take_serves();
        serves.extend(self.serves.drain(..).map(|served| served.serve));
        serves
    }

    pub(super) fn end_serve(&mut self, transfer: TransferNo) {
        if self.windows.has(transfer) {
            self.windows.end_serve(transfer);
        }
        let is_current = self.current.is_some_and(|segment| segment.transfer == transfer.0);
        if is_current {
            self.is_last_segment = true;
        }
        let mut at = 0;
        self.serves.retain(|served| {
            let is_kept = served.serve.transfer != transfer || (is_current && at == 0);
            at += 1;
            is_kept
        });
    }

    /// Tells the peer something, when the lane is driven next.
    pub(super) fn tell(&mut self, note: &Note) -> Result<(), Error> {
        self.lane.queue_note(note)
    }

    /// The endpoint whose windows its peer can write into.
    pub(super) fn endpoint(&self, fabric: &Fabric) -> Option<Arc<Endpoint>> {
        self.windows.endpoint(fabric)
    }

    /// A write into a window of its peer ended; how many bytes it brought there.
    pub(super) fn written(&mut self, completion: &Completion) -> Result<u64, Error> {
        let outcome = self.windows.written(completion, now_ms());
        let bytes = outcome.written_bytes;
        self.carry_out(outcome).map(|()| bytes)
    }

    /// Windows that were waited for long enough are not waited for any more.
    pub(super) fn time_passed(&mut self, now_ms: u64) -> Result<(), Error> {
        let outcome = self.windows.time_passed(now_ms);
        self.carry_out(outcome)
    }

    /// Endpoints whose writes do not end.
    pub(super) fn stuck(&self, now_ms: u64) -> Vec<Arc<Endpoint>> {
        self.windows.stuck(now_ms)
    }

    /// When something has to be done though nothing happens.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.windows.next_deadline_ms()
    }

    fn carry_out(&mut self, outcome: Outcome) -> Result<(), Error> {
        let Outcome { notes, send, .. } = outcome;
        notes.iter().try_for_each(|note| self.lane.queue_note(note))?;
        let served = |(serve, written): (Serve, BTreeSet<u32>)| Served {
            serve,
            sending: Sending::without(written),
        };
        self.serves.extend(send.into_iter().map(served));
        Ok(())
    }

    /// Sends and receives what can be now.
    pub(super) fn drive(&mut self, turn: &mut Turn<'_>) -> Result<(), Error> {
        self.receive(turn)?;
        self.tell_moving(turn.done);
        let outcome = self.windows.write(&mut *turn.next_token);
        self.carry_out(outcome)?;
        self.lane.send_notes()?;
        self.send()?;
        self.lane.send_notes().map(|_| ())
    }

    /// Tells the node now and then that content arrives: a segment over a slow link takes long, and
    /// so does the turn of a transfer among many.
    fn tell_moving(&mut self, done: &mut dyn FnMut(Done)) {
        let (bytes, at_ms) = self.told;
        let received = self.lane.received_bytes() + self.window_bytes;
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
            let Some(Served { serve, sending }) = self.serves.front_mut() else { return Ok(()) };
            let segment = match self.current {
                Some(segment) => segment,
                None => match sending.next_segment(serve, &mut self.gathered) {
                    Some(segment) => segment,
                    None => {
                        self.serves.pop_front();
                        continue;
                    }
                },
            };
            self.current = Some(segment);
            let mut content = serve.source.part(segment.offset, segment.bytes as usize);
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

    fn receive(&mut self, turn: &mut Turn<'_>) -> Result<(), Error> {
        self.is_waiting = false;
        for _ in 0..SEGMENTS_AT_ONCE {
            let transfers = &mut *turn.transfers;
            match self.lane.receive(&mut OnLane { transfers, lane: self.id })? {
                Received::Segment(segment) => {
                    let whole = turn.transfers.note_arrived(&segment);
                    (turn.done)(arrived(&segment, true, whole));
                }
                Received::Corrupt(segment) => (turn.done)(arrived(&segment, false, None)),
                Received::Discarded(segment) => {
                    if let Some(intact) = turn.transfers.what_is_here(&segment) {
                        (turn.done)(arrived(&segment, intact, None));
                    }
                }
                Received::Waiting(_) => {
                    self.is_waiting = true;
                    return Ok(());
                }
                Received::Blocked => return Ok(()),
                Received::Note(note) => self.hear(note, turn)?,
            }
        }
        Ok(())
    }

    /// The peer says something about windows.
    fn hear(&mut self, note: Note, turn: &mut Turn<'_>) -> Result<(), Error> {
        let answered = |windows: &mut Windows, transfer, window| match turn.fabric {
            Some(fabric) => windows.answered(TransferNo(transfer), window, fabric, now_ms()),
            None => Outcome::default(),
        };
        let outcome = match note {
            Note::Endpoints(theirs) => {
                self.windows.set_theirs(theirs);
                Outcome::default()
            }
            Note::Window { transfer, window } => {
                answered(&mut self.windows, transfer, Some(window))
            }
            Note::NoWindow { transfer } => answered(&mut self.windows, transfer, None),
            Note::Stop { transfer } => self.windows.stop(TransferNo(transfer)),
            Note::Ended { transfer } => {
                let transfer = TransferNo(transfer);
                if let Some(memory) = turn.transfers.ended(self.id, transfer) {
                    (turn.done)(Done::Returned(transfer, memory));
                }
                Outcome::default()
            }
            Note::Written(segment) => {
                if let Some((intact, memory)) = turn.transfers.note_written(self.id, &segment) {
                    self.window_bytes += u64::from(segment.bytes);
                    (turn.done)(arrived(&segment, intact, memory));
                }
                Outcome::default()
            }
        };
        self.carry_out(outcome)
    }
}

/// A segment arrived.
fn arrived(segment: &Segment, intact: bool, memory: Option<BoxedLanding>) -> Done {
    Done::Arrived {
        transfer: TransferNo(segment.transfer),
        segment: segment.number,
        intact,
        memory,
    }
}
