//! What a lane writes into windows of its peer, instead of sending it.
//!
//! ```text
//!   serve ──► waiting ──► writing ──► all is written
//!               │ no window, or none in time   │ a write failed, or the peer wants no more
//!               ▼                              ▼
//!          sent over the lane ◄── ended: nothing is being written
//! ```
//!
//! Both sides know from each other's endpoints whether a transfer may have a window, and the
//! receiving side says for each that may whether it has. A few segments are under way at a time:
//! each is announced with its checksum once it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_fabric::{Completion, Endpoint, Grant, Peer, Place, SourceMemory};
use plasmon_net::note::{Endpoints, Note, TransferWindow};
use plasmon_net::segment::Segment;
use plasmon_pool::message::TransferNo;

use super::job::Serve;
use super::sending::Sending;
use crate::fabric::{Fabric, provider_number};

/// Transfers of fewer bytes are sent: to open a window takes as long as to send them.
pub(super) const WINDOW_BYTES_MIN: u64 = 64 << 10;

/// How long the other side may take to say whether it has a window, at least.
const WINDOW_MS: u64 = 20;

/// For so many bytes it may take a millisecond more: it has to make memory for them, and to send
/// them takes longer than that.
const WINDOW_BYTES_PER_MS: u64 = 4 << 20;

/// How long a write may take, before its endpoint is closed. Its receiver has asked another node
/// long before.
const WRITE_MS: u64 = 5_000;

/// Segments of a transfer that are being written.
const WRITES_AT_ONCE: usize = 8;

/// Answers about windows that came before their transfers.
const ANSWERS_MAX: usize = 256;

/// The windows of a peer, as one lane knows them.
#[derive(Default)]
pub(super) struct Windows {
    /// What the peer said of its endpoints; `None` before it has.
    theirs: Option<Endpoints>,
    /// What it said of transfers that this lane was not told to serve yet.
    answers: BTreeMap<TransferNo, Option<TransferWindow>>,
    serves: BTreeMap<TransferNo, Windowed>,
    /// The transfers of writes that are under way.
    writes: BTreeMap<u64, TransferNo>,
}

/// A transfer that is served through a window, or may be.
struct Windowed {
    serve: Serve,
    sending: Sending,
    /// What is written next.
    next: Option<Prepared>,
    state: State,
}

/// A segment with its content, if that was gathered. Its checksum was computed while the window was
/// waited for, or the segment before it was being written.
type Prepared = (Segment, Vec<u8>);

fn prepare(sending: &mut Sending, serve: &Serve) -> Option<Prepared> {
    let mut gathered = Vec::new();
    sending.next_segment(serve, &mut gathered).map(|segment| (segment, gathered))
}

enum State {
    /// Until when the answer is waited for.
    Waiting(u64),
    Writing(Writing),
}

struct Writing {
    endpoint: Arc<Endpoint>,
    /// Registered while it is written from, where the endpoint wants that.
    _memory: Option<SourceMemory>,
    peer: Peer,
    grant: Grant,
    under_way: BTreeMap<u64, Segment>,
    /// Segments that are there.
    written: BTreeSet<u32>,
    /// Whether nothing more is to be written.
    is_over: bool,
    /// Whether the peer is to be told when nothing is under way.
    is_told: bool,
    /// Whether the transfer is wanted still.
    is_wanted: bool,
    /// Whether what is missing is sent then.
    is_sent: bool,
    /// When something last ended.
    moved_ms: u64,
}

/// What a lane has to do after something happened to its windows.
#[derive(Default)]
pub(super) struct Outcome {
    /// To be told to the peer.
    pub(super) notes: Vec<Note>,
    /// To be sent over the lane, without these segments.
    pub(super) send: Vec<(Serve, BTreeSet<u32>)>,
    /// Bytes that were written.
    pub(super) written_bytes: u64,
}

impl Windows {
    /// The peer has said what it can be written by.
    pub(super) fn set_theirs(&mut self, theirs: Endpoints) {
        self.theirs = Some(theirs);
    }

    /// The endpoint for transfers with this peer, if there is one.
    pub(super) fn endpoint(&self, fabric: &Fabric) -> Option<Arc<Endpoint>> {
        fabric.common(self.theirs.as_ref()?)
    }

    /// Takes a transfer that may have a window; one that may not is given back.
    pub(super) fn serve(&mut self, serve: Serve, fabric: &Fabric, now_ms: u64) -> Option<Serve> {
        let answer = self.answers.remove(&serve.transfer);
        let bytes = serve.source.bytes();
        let is_large = bytes >= WINDOW_BYTES_MIN;
        if !is_large || answer == Some(None) || self.endpoint(fabric).is_none() {
            return Some(serve);
        }
        let (transfer, mut sending) = (serve.transfer, Sending::default());
        let next = prepare(&mut sending, &serve);
        let within_ms = WINDOW_MS + bytes / WINDOW_BYTES_PER_MS;
        let state = State::Waiting(now_ms.saturating_add(within_ms));
        self.serves.insert(transfer, Windowed { serve, sending, next, state });
        if let Some(Some(window)) = answer {
            self.begin(transfer, window, fabric, now_ms);
        }
        None
    }

    /// The peer has a window for a transfer, or has not.
    pub(super) fn answered(
        &mut self,
        transfer: TransferNo,
        window: Option<TransferWindow>,
        fabric: &Fabric,
        now_ms: u64,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let is_waiting = |of: &Windowed| matches!(of.state, State::Waiting(_));
        match (self.serves.get(&transfer).map(is_waiting), window) {
            (Some(true), Some(window)) => {
                if !self.begin(transfer, window, fabric, now_ms) {
                    self.give_up(transfer, &mut outcome);
                }
            }
            (Some(true), None) => self.give_up(transfer, &mut outcome),
            (Some(false), _) => {}
            (None, window) => {
                self.answers.insert(transfer, window);
                if self.answers.len() > ANSWERS_MAX
                    && let Some((oldest, Some(_))) = self.answers.pop_first()
                {
                    outcome.notes.push(Note::Ended { transfer: oldest.0 });
                }
            }
        }
        outcome
    }

    /// Begins to write into a window; false where that cannot be.
    fn begin(
        &mut self,
        transfer: TransferNo,
        window: TransferWindow,
        fabric: &Fabric,
        now_ms: u64,
    ) -> bool {
        let TransferWindow { provider, base, key, bytes } = window;
        let mut theirs = self.theirs.iter().flat_map(|theirs| &theirs.endpoints);
        let name = theirs.find(|one| one.provider == provider);
        let endpoint = fabric.of_provider(provider);
        let Some((name, endpoint)) = name.zip(endpoint) else { return false };
        let Some(windowed) = self.serves.get_mut(&transfer) else { return false };
        let peer = endpoint.peer(&name.name).inspect_err(|error| {
            tracing::debug!("a window of a peer cannot be written: {error}");
        });
        let Ok(peer) = peer else { return false };
        let memory = endpoint.hold_source(&windowed.serve.source, |source| source.memory());
        windowed.state = State::Writing(Writing {
            endpoint,
            _memory: memory,
            peer,
            grant: Grant { base, key, bytes },
            under_way: BTreeMap::new(),
            written: BTreeSet::new(),
            is_over: false,
            is_told: false,
            is_wanted: true,
            is_sent: false,
            moved_ms: now_ms,
        });
        true
    }

    /// Sends a transfer instead.
    fn give_up(&mut self, transfer: TransferNo, outcome: &mut Outcome) {
        if let Some(Windowed { serve, .. }) = self.serves.remove(&transfer) {
            outcome.notes.push(Note::Ended { transfer: transfer.0 });
            outcome.send.push((serve, BTreeSet::new()));
        }
    }

    /// Writes what can be now. `next_token` draws the numbers of writes.
    pub(super) fn write(&mut self, mut next_token: impl FnMut() -> u64) -> Outcome {
        let mut outcome = Outcome::default();
        let transfers: Vec<TransferNo> = self.serves.keys().copied().collect();
        for transfer in transfers {
            let Some(windowed) = self.serves.get_mut(&transfer) else { continue };
            let State::Writing(writing) = &mut windowed.state else { continue };
            while !writing.is_over && writing.under_way.len() < WRITES_AT_ONCE {
                let Some((segment, gathered)) = windowed.next.take() else {
                    writing.is_over = true;
                    break;
                };
                let token = next_token();
                match writing.put(&windowed.serve, &segment, gathered, token) {
                    Ok(()) => {
                        writing.under_way.insert(token, segment);
                        self.writes.insert(token, transfer);
                        windowed.next = prepare(&mut windowed.sending, &windowed.serve);
                    }
                    Err(error) => {
                        tracing::debug!("transfer {} is sent: {error}", transfer.0);
                        writing.fail();
                    }
                }
            }
            self.settle(transfer, &mut outcome);
        }
        outcome
    }

    /// A write ended.
    pub(super) fn written(&mut self, completion: &Completion, now_ms: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(transfer) = self.writes.remove(&completion.token) else { return outcome };
        let Some(windowed) = self.serves.get_mut(&transfer) else { return outcome };
        let State::Writing(writing) = &mut windowed.state else { return outcome };
        let Some(segment) = writing.under_way.remove(&completion.token) else { return outcome };
        writing.moved_ms = now_ms;
        match &completion.result {
            Ok(()) => {
                writing.written.insert(segment.number);
                // What the peer does not want any more it does not wait for.
                outcome.notes.push(Note::Written(segment));
                outcome.written_bytes += u64::from(segment.bytes);
            }
            Err(error) => {
                tracing::debug!("transfer {} is sent: {error}", transfer.0);
                writing.fail();
            }
        }
        self.settle(transfer, &mut outcome);
        outcome
    }

    /// The peer wants no more of a transfer written.
    pub(super) fn stop(&mut self, transfer: TransferNo) -> Outcome {
        let mut outcome = Outcome::default();
        self.answers.remove(&transfer);
        match self.serves.get_mut(&transfer).map(|windowed| &mut windowed.state) {
            Some(State::Writing(writing)) => {
                (writing.is_over, writing.is_told) = (true, true);
                (writing.is_wanted, writing.is_sent) = (false, false);
                self.settle(transfer, &mut outcome);
            }
            Some(State::Waiting(_)) => {
                self.serves.remove(&transfer);
                outcome.notes.push(Note::Ended { transfer: transfer.0 });
            }
            None => outcome.notes.push(Note::Ended { transfer: transfer.0 }),
        }
        outcome
    }

    /// This node is not to serve a transfer any more.
    pub(super) fn end_serve(&mut self, transfer: TransferNo) {
        match self.serves.get_mut(&transfer).map(|windowed| &mut windowed.state) {
            Some(State::Writing(writing)) => {
                (writing.is_over, writing.is_wanted, writing.is_sent) = (true, false, false);
                self.settle(transfer, &mut Outcome::default());
            }
            Some(State::Waiting(_)) => _ = self.serves.remove(&transfer),
            None => {}
        }
    }

    /// Whether this transfer is served here.
    pub(super) fn has(&self, transfer: TransferNo) -> bool {
        self.serves.contains_key(&transfer)
    }

    /// A transfer is over, or is sent from now on, once nothing of it is under way.
    fn settle(&mut self, transfer: TransferNo, outcome: &mut Outcome) {
        let Some(windowed) = self.serves.get(&transfer) else { return };
        let State::Writing(writing) = &windowed.state else { return };
        if !writing.is_over || !writing.under_way.is_empty() {
            return;
        }
        let Some(Windowed { serve, state: State::Writing(writing), .. }) =
            self.serves.remove(&transfer)
        else {
            return;
        };
        if writing.is_told || writing.is_sent {
            outcome.notes.push(Note::Ended { transfer: transfer.0 });
        }
        if writing.is_sent {
            outcome.send.push((serve, writing.written));
        }
    }

    /// Answers that did not come in time are not waited for.
    pub(super) fn time_passed(&mut self, now_ms: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let is_late =
            |of: &Windowed| matches!(of.state, State::Waiting(until_ms) if until_ms <= now_ms);
        let late = self.serves.iter().filter(|(_, of)| is_late(of));
        let late: Vec<TransferNo> = late.map(|(transfer, _)| *transfer).collect();
        late.into_iter().for_each(|transfer| self.give_up(transfer, &mut outcome));
        outcome
    }

    /// Endpoints whose writes do not end.
    pub(super) fn stuck(&self, now_ms: u64) -> Vec<Arc<Endpoint>> {
        let stuck = self.serves.values().filter_map(|windowed| match &windowed.state {
            State::Writing(writing) if !writing.under_way.is_empty() => {
                let is_late = writing.moved_ms.saturating_add(WRITE_MS) <= now_ms;
                is_late.then(|| writing.endpoint.clone())
            }
            State::Writing(_) | State::Waiting(_) => None,
        });
        stuck.collect()
    }

    /// When something has to be done though nothing happens.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        let deadlines = self.serves.values().filter_map(|windowed| match &windowed.state {
            State::Waiting(until_ms) => Some(*until_ms),
            State::Writing(writing) if !writing.under_way.is_empty() => {
                Some(writing.moved_ms.saturating_add(WRITE_MS))
            }
            State::Writing(_) => None,
        });
        deadlines.min()
    }

    /// What was to be written, to be begun again on another connection.
    pub(super) fn take_serves(&mut self) -> Vec<Serve> {
        self.writes.clear();
        let is_wanted = |of: &Windowed| match &of.state {
            State::Waiting(_) => true,
            State::Writing(writing) => writing.is_wanted,
        };
        let serves = std::mem::take(&mut self.serves).into_values();
        serves.filter(is_wanted).map(|windowed| windowed.serve).collect()
    }
}

impl Writing {
    /// Writes a segment, whose content is in one piece in the source, or was gathered.
    fn put(
        &self,
        serve: &Serve,
        segment: &Segment,
        gathered: Vec<u8>,
        token: u64,
    ) -> Result<(), plasmon_fabric::Error> {
        let (peer, window, offset) = (self.peer, self.grant, segment.offset);
        let (to, bytes) = (Place { peer, window, offset }, segment.bytes as usize);
        if serve.source.part(offset, bytes).len() == bytes {
            let source = serve.source.clone();
            return self.endpoint.write(to, source, |source| source.part(offset, bytes), token);
        }
        self.endpoint.write(to, Arc::new(gathered), |gathered| gathered.as_slice(), token)
    }

    /// What is missing is sent, once nothing is under way.
    fn fail(&mut self) {
        (self.is_over, self.is_sent) = (true, self.is_wanted);
    }
}

/// What the peer is told of a window.
pub(super) fn window_note(transfer: TransferNo, endpoint: &Endpoint, grant: Grant) -> Note {
    let Grant { base, key, bytes } = grant;
    let window = TransferWindow { provider: provider_number(endpoint), base, key, bytes };
    Note::Window { transfer: transfer.0, window }
}
