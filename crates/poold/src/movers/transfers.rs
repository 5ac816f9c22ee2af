//! The transfers that a mover receives, and where their content goes.
//!
//! ```text
//!   expected ──► here ◄────────┐ content comes over the lane
//!                 │            │ the peer says that it writes no more: ended, or content
//!                 └──► window ─┤
//!                              └──► stopping ──► the memory is given back
//! ```
//!
//! A window is closed only when nothing is being written into it: the last segment that was asked
//! for is there, the peer has said so, or the endpoint is closed, which is done where the peer was
//! lost or does not say so in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_fabric::{Endpoint, Grant, Window};
use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};
use plasmon_net::transport::{Destination, Destinations};
use plasmon_pool::message::TransferNo;

use super::job::{Done, LaneId, Receive};
use crate::fabric::give_up;
use crate::memory::{BoxedLanding, Landing};

/// How long a peer may take to say that it writes no more, before the endpoint is closed.
const STOP_MS: u64 = 500;

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
    /// The memory is not here yet; whether the peer has said that it sends the content.
    Expected {
        is_sent: bool,
    },
    Here(BoxedLanding, u32),
    /// The peer writes into the memory.
    Window(OpenWindow),
    /// It was told to stop; until when that is waited for.
    Stopping(OpenWindow, u64),
}

/// Memory that a peer writes into.
struct OpenWindow {
    window: Window<dyn Landing>,
    endpoint: Arc<Endpoint>,
    /// The segments that are in it, also those from before.
    arrived: BTreeSet<u32>,
    left: u32,
}

impl OpenWindow {
    /// The memory, with what is in it. It is not registered any more.
    fn close(self) -> (BoxedLanding, u32) {
        let Self { window, arrived, left, .. } = self;
        let mut memory = window.close().unwrap_or_else(|error| give_up(&error));
        *memory.arrived() = arrived;
        (memory, left)
    }
}

/// What came of refusing a transfer.
pub(super) enum Refused {
    /// Its memory.
    Memory(BoxedLanding),
    /// Its peer is to be told to stop; the memory comes later.
    Stop(LaneId),
    /// It has no memory here.
    Nothing,
}

impl Transfers {
    pub(crate) fn expect(&mut self, lane: LaneId, transfer: TransferNo) {
        self.highest = self.highest.max(Some(transfer));
        let state = State::Expected { is_sent: false };
        self.accepted.insert(transfer, Transfer { lane, state });
    }

    /// Whether the peer of a transfer whose memory was waited for has begun to send the content.
    pub(super) fn is_sent(&self, transfer: TransferNo) -> bool {
        let accepted = self.accepted.get(&transfer);
        accepted.is_some_and(|of| matches!(of.state, State::Expected { is_sent: true }))
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

    /// Takes the memory of a transfer as a window of an endpoint; what its peer is to be told.
    /// Where it cannot be opened, it comes back.
    pub(super) fn open(
        &mut self,
        receive: Receive,
        endpoint: Arc<Endpoint>,
    ) -> Result<Grant, Receive> {
        let Receive { lane, transfer, segments, mut memory } = receive;
        let arrived = memory.arrived().clone();
        match endpoint.open_window(memory, |memory| memory.bytes()) {
            Ok(window) => {
                let grant = window.grant();
                self.highest = self.highest.max(Some(transfer));
                let open = OpenWindow { window, endpoint, arrived, left: segments };
                self.accepted.insert(transfer, Transfer { lane, state: State::Window(open) });
                Ok(grant)
            }
            Err((memory, error)) => {
                tracing::debug!("transfer {} has no window: {error}", transfer.0);
                Err(Receive { lane, transfer, segments, memory })
            }
        }
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
    pub(super) fn note_arrived(&mut self, segment: &Segment) -> Option<BoxedLanding> {
        let transfer = TransferNo(segment.transfer);
        let State::Here(memory, left) = &mut self.accepted.get_mut(&transfer)?.state else {
            return None;
        };
        if memory.arrived().insert(segment.number) {
            *left = left.saturating_sub(1);
        }
        if *left > 0 { None } else { self.take_memory(transfer) }
    }

    /// A peer says that it has written a segment: whether it is intact, and the memory after the
    /// last one. `None` for what it may not write, or has written before.
    pub(super) fn note_written(
        &mut self,
        lane: LaneId,
        segment: &Segment,
    ) -> Option<(bool, Option<BoxedLanding>)> {
        let transfer = TransferNo(segment.transfer);
        let accepted = self.accepted.get_mut(&transfer).filter(|of| of.lane == lane)?;
        let State::Window(open) = &mut accepted.state else { return None };
        let place = u64::from(segment.number) * u64::from(SEGMENT_BYTES_MAX);
        let end = segment.offset.checked_add(segment.bytes.into())?;
        if place != segment.offset || open.arrived.contains(&segment.number) {
            return None;
        }
        let content = open.window.bytes(segment.offset..end)?;
        if crc32c::crc32c(content) != segment.checksum {
            return Some((false, None));
        }
        open.arrived.insert(segment.number);
        open.left = open.left.saturating_sub(1);
        if open.left > 0 {
            return Some((true, None));
        }
        // Every segment that was asked for is there, so its peer writes no more.
        self.close(transfer);
        Some((true, self.take_memory(transfer)))
    }

    /// Of a segment that was passed over though its transfer is received: whether one of its number
    /// is here.
    pub(super) fn what_is_here(&mut self, segment: &Segment) -> Option<bool> {
        match &mut self.accepted.get_mut(&TransferNo(segment.transfer))?.state {
            State::Here(memory, _) => Some(memory.arrived().contains(&segment.number)),
            State::Expected { .. } | State::Window(_) | State::Stopping(..) => None,
        }
    }

    /// Receives no more of a transfer.
    pub(super) fn refuse(&mut self, transfer: TransferNo, now_ms: u64) -> Refused {
        let Some(Transfer { lane, state }) = self.accepted.remove(&transfer) else {
            return Refused::Nothing;
        };
        match state {
            State::Expected { .. } => Refused::Nothing,
            State::Here(memory, _) => Refused::Memory(memory),
            State::Window(open) | State::Stopping(open, _) if !open.endpoint.is_open() => {
                Refused::Memory(open.close().0)
            }
            State::Window(open) => {
                let state = State::Stopping(open, now_ms.saturating_add(STOP_MS));
                self.accepted.insert(transfer, Transfer { lane, state });
                Refused::Stop(lane)
            }
            stopping @ State::Stopping(..) => {
                self.accepted.insert(transfer, Transfer { lane, state: stopping });
                Refused::Nothing
            }
        }
    }

    /// The peer writes no more into the window of a transfer: what is missing comes over the lane,
    /// or the memory is given back.
    pub(super) fn ended(&mut self, lane: LaneId, transfer: TransferNo) -> Option<BoxedLanding> {
        let is_its = |accepted: &&mut Transfer| accepted.lane == lane;
        match self.accepted.get_mut(&transfer).filter(is_its) {
            None => return None,
            Some(Transfer { state: State::Expected { is_sent }, .. }) => *is_sent = true,
            Some(_) => {}
        }
        let is_stopping = self.close(transfer);
        if is_stopping { self.take_memory(transfer) } else { None }
    }

    /// Closes the window of a transfer, whose memory is here then; whether it was stopping.
    fn close(&mut self, transfer: TransferNo) -> bool {
        let Some(Transfer { lane, state }) = self.accepted.remove(&transfer) else { return false };
        let (open, is_stopping) = match state {
            State::Window(open) => (open, false),
            State::Stopping(open, _) => (open, true),
            state @ (State::Expected { .. } | State::Here(..)) => {
                self.accepted.insert(transfer, Transfer { lane, state });
                return false;
            }
        };
        let (memory, left) = open.close();
        self.accepted.insert(transfer, Transfer { lane, state: State::Here(memory, left) });
        is_stopping
    }

    /// The endpoints whose windows are open for peers of these lanes: a lane ended, and its peer
    /// may be in the middle of a write.
    pub(super) fn endpoints_of(&self, is_lost: impl Fn(LaneId) -> bool) -> Vec<Arc<Endpoint>> {
        self.endpoints(|lane, _| is_lost(lane))
    }

    /// The endpoints whose windows are waited for, but not any longer.
    pub(super) fn overdue(&self, now_ms: u64) -> Vec<Arc<Endpoint>> {
        self.endpoints(|_, until_ms| until_ms.is_some_and(|until_ms| until_ms <= now_ms))
    }

    fn endpoints(&self, is_meant: impl Fn(LaneId, Option<u64>) -> bool) -> Vec<Arc<Endpoint>> {
        let mut found: Vec<Arc<Endpoint>> = Vec::new();
        for Transfer { lane, state } in self.accepted.values() {
            let (open, until_ms) = match state {
                State::Window(open) => (open, None),
                State::Stopping(open, until_ms) => (open, Some(*until_ms)),
                State::Expected { .. } | State::Here(..) => continue,
            };
            let is_known = found.iter().any(|other| Arc::ptr_eq(other, &open.endpoint));
            if is_meant(*lane, until_ms) && !is_known {
                found.push(open.endpoint.clone());
            }
        }
        found
    }

    /// Endpoints were closed: their windows are memory again, and what was stopping comes back.
    pub(super) fn close_dead(&mut self) -> Vec<(TransferNo, BoxedLanding)> {
        let is_dead = |accepted: &Transfer| match &accepted.state {
            State::Window(open) | State::Stopping(open, _) => !open.endpoint.is_open(),
            State::Expected { .. } | State::Here(..) => false,
        };
        let dead = self.accepted.iter().filter(|(_, accepted)| is_dead(accepted));
        let dead: Vec<TransferNo> = dead.map(|(transfer, _)| *transfer).collect();
        let mut returned = Vec::new();
        for transfer in dead {
            if self.close(transfer)
                && let Some(memory) = self.take_memory(transfer)
            {
                returned.push((transfer, memory));
            }
        }
        returned
    }

    /// Until when a peer is waited for at most.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        let until = self.accepted.values().filter_map(|accepted| match &accepted.state {
            State::Stopping(_, until_ms) => Some(*until_ms),
            State::Expected { .. } | State::Here(..) | State::Window(_) => None,
        });
        until.min()
    }

    /// Forgets a transfer whose memory is here; the memory.
    fn take_memory(&mut self, transfer: TransferNo) -> Option<BoxedLanding> {
        let Transfer { lane, state } = self.accepted.remove(&transfer)?;
        match state {
            State::Here(memory, _) => Some(memory),
            state => {
                self.accepted.insert(transfer, Transfer { lane, state });
                None
            }
        }
    }
}

/// The transfers as one lane sees them: a peer writes into what was asked of it alone.
pub(super) struct OnLane<'a> {
    pub(super) transfers: &'a mut Transfers,
    pub(super) lane: LaneId,
}

impl Destinations for OnLane<'_> {
    fn find(&mut self, segment: &Segment) -> Destination<'_> {
        let transfer = TransferNo(segment.transfer);
        let is_known = self.transfers.is_known(transfer);
        let is_window = |accepted: &Transfer| {
            accepted.lane == self.lane && matches!(accepted.state, State::Window(_))
        };
        if self.transfers.accepted.get(&transfer).is_some_and(is_window) {
            // Its peer does not write what it sends.
            self.transfers.close(transfer);
        }
        match self.transfers.accepted.get_mut(&transfer) {
            Some(accepted) if accepted.lane != self.lane => Destination::Unknown,
            // One that is here is not written again, nor may another be written over it.
            Some(Transfer { state: State::Here(memory, _), .. }) => {
                let place = u64::from(segment.number) * u64::from(SEGMENT_BYTES_MAX);
                let is_wanted =
                    place == segment.offset && !memory.arrived().contains(&segment.number);
                if is_wanted { Destination::Memory(memory.bytes()) } else { Destination::Discard }
            }
            Some(Transfer { state: State::Expected { .. }, .. }) => Destination::Later,
            Some(Transfer { state: State::Window(_) | State::Stopping(..), .. }) => {
                Destination::Discard
            }
            None if is_known => Destination::Discard,
            None => {
                self.transfers.unknown = Some(transfer);
                Destination::Later
            }
        }
    }
}
