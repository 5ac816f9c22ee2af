//! The requests of one connection: what is to be sent, what is under way, what was answered.
//!
//! ```text
//! added ─► unsent ─► sent ─► answered ─► taken
//!            │         │
//!            └─────────┴─ abandoned: what the daemon would give is given back, unasked for
//! ```
//!
//! Requests that only take something back (a pin, an object under construction, a wait) have no
//! caller that waits for the answer: mostly something was dropped. They are kept here as what they
//! are about, joined into as few messages as possible, and sent before any other request. Each of
//! them is about something that an earlier request got, and a request is sent only after all of
//! them, so there are never more of them than a client may hold pins, objects and waits.
//!
//! Nothing here sends or sleeps: [`crate::rpc`] does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;
use plasmon_proto::frame;
use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_shm::edge;
use plasmon_shm::eventfd::Doorbell;

use crate::answer::Answer;
use crate::error::{Error, Result};

/// Numbers of requests that are gone, which may be among those to be sent.
const UNSENT_GONE_MAX: usize = 64;

/// A message on its way to the socket, and the request that it is, if a caller awaits the answer.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) number: Option<u64>,
    pub(crate) frame: Vec<u8>,
}

#[derive(Debug)]
struct Slot {
    request: Request,
    /// What is to be sent, until it is.
    frame: Option<Vec<u8>>,
    answer: Option<Result<Answer>>,
    /// Whether it is sent a second time.
    again: bool,
    signal: Option<Arc<Doorbell>>,
    /// When a wait ends, so that a wait that is asked again asks only for what is left.
    deadline: Option<Instant>,
    /// Whether its caller has gone.
    abandoned: bool,
}

/// What is taken back without awaiting an answer.
#[derive(Debug, Default)]
struct Returns {
    released: Vec<u64>,
    aborted: VecDeque<ObjectId>,
    cancelled: VecDeque<u64>,
    others: VecDeque<Request>,
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Requests {
    next_number: u64,
    slots: HashMap<u64, Slot>,
    /// The numbers of requests that were not sent, in their order; some may be gone.
    unsent: VecDeque<u64>,
    /// What the socket did not take.
    refused: Option<Message>,
    returns: Returns,
    /// Requests whose answer rings a doorbell, and that are not answered.
    signalled: usize,
    /// How often something was taken back, and how many of these the daemon is known to have read.
    returned: u64,
    returned_read: u64,
    /// The numbers of messages that took something back and are not answered.
    unanswered_returns: HashSet<u64>,
    /// Memory that came after its caller had gone, and the connection that it came on.
    strays: Vec<(Range, u64)>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            // 0 is the number of the hello.
            next_number: 1,
            slots: HashMap::new(),
            unsent: VecDeque::new(),
            refused: None,
            returns: Returns::default(),
            signalled: 0,
            returned: 0,
            returned_read: 0,
            unanswered_returns: HashSet::new(),
            strays: Vec::new(),
        }
    }

    /// A request to be sent; its number.
    pub(crate) fn add(
        &mut self,
        doing: &'static str,
        request: Request,
        signal: Option<Arc<Doorbell>>,
    ) -> Result<u64> {
        let number = self.next_number;
        let frame = frame::encode_request(number, &request);
        let frame = Some(frame.map_err(|bad| Error::of_frame(doing, &bad))?);
        let deadline = match &request {
            Request::Wait { timeout_ms: Some(ms), .. }
            | Request::Settle { timeout_ms: Some(ms), .. } => {
                edge::now().checked_add(Duration::from_millis(*ms))
            }
            _ => None,
        };
        self.next_number += 1;
        self.signalled += usize::from(signal.is_some());
        let (answer, again, abandoned) = (None, false, false);
        let slot = Slot { request, frame, answer, again, signal, deadline, abandoned };
        self.slots.insert(number, slot);
        self.unsent.push_back(number);
        Ok(number)
    }

    /// The pin with this serial is dropped.
    pub(crate) fn release(&mut self, serial: u64) {
        self.returned += 1;
        self.returns.released.push(serial);
    }

    /// The object under construction is given up.
    pub(crate) fn abort(&mut self, id: ObjectId) {
        self.returned += 1;
        self.returns.aborted.push_back(id);
    }

    /// Anything else whose answer is of no interest.
    pub(crate) fn send_unanswered(&mut self, request: Request) {
        self.returned += 1;
        self.returns.others.push_back(request);
    }

    /// Ends a wait early: it is answered.
    pub(crate) fn cancel(&mut self, number: u64) {
        match self.slots.get_mut(&number) {
            Some(slot) if slot.frame.is_some() => {
                slot.deadline = Some(edge::now());
                slot.shorten();
                slot.frame = frame::encode_request(number, &slot.request).ok();
            }
            _ => self.returns.cancelled.push_back(number),
        }
    }

    /// What the next message to send is, if there is anything to send.
    pub(crate) fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.refused.take() {
            return Some(message);
        }
        while let Some(request) = self.returns.next() {
            let number = self.next_number;
            self.next_number += 1;
            // Only a namespace could be too long, and that one was adopted before.
            if let Ok(frame) = frame::encode_request(number, &request) {
                self.unanswered_returns.insert(number);
                return Some(Message { number: None, frame });
            }
        }
        while let Some(number) = self.unsent.pop_front() {
            if let Some(frame) = self.slots.get_mut(&number).and_then(|slot| slot.frame.take()) {
                return Some(Message { number: Some(number), frame });
            }
        }
        None
    }

    /// The socket did not take the message for now: it is the next one again.
    pub(crate) fn put_back(&mut self, message: Message) {
        self.refused = Some(message);
    }

    /// Whether there is anything to send.
    pub(crate) fn has_unsent(&self) -> bool {
        self.refused.is_some() || !self.returns.is_empty() || !self.unsent.is_empty()
    }

    /// The number of answers on their way that no thread waits for. They have to be read all the
    /// same: the daemon reads no more from a client that leaves many of them unread.
    pub(crate) fn unanswered_returns(&self) -> usize {
        self.unanswered_returns.len()
    }

    /// Whether the request was sent, as far as this side knows.
    pub(crate) fn is_sent(&self, number: u64) -> bool {
        self.slots.get(&number).is_none_or(|slot| slot.frame.is_none())
    }

    /// Whether [`Self::take`] would give something, or the request is unknown.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        self.slots.get(&number).is_none_or(|slot| slot.answer.is_some())
    }

    /// Whether an answer will ring a doorbell.
    pub(crate) fn has_signalled(&self) -> bool {
        self.signalled > 0
    }

    /// The first of the requests that was answered, and its answer.
    pub(crate) fn take(&mut self, numbers: &[u64]) -> Option<(usize, Result<Answer>)> {
        let answered = |number: &u64| self.slots.get(number).is_some_and(|s| s.answer.is_some());
        let position = numbers.iter().position(answered)?;
        let slot = self.slots.remove(&numbers[position])?;
        Some((position, slot.answer?))
    }

    /// An answer came. Gives what is to be signalled.
    pub(crate) fn deliver(&mut self, number: u64, answer: Result<Answer>) -> Option<Arc<Doorbell>> {
        self.unanswered_returns.remove(&number);
        // An answer that is awaited no more: its descriptors close here.
        let slot = self.slots.get_mut(&number)?;
        if slot.abandoned {
            self.slots.remove(&number);
            self.give_back(answer);
            return None;
        }
        let again = slot.again;
        self.settle(number, answer.map(|answer| Answer { again, ..answer }))
    }

    fn settle(&mut self, number: u64, answer: Result<Answer>) -> Option<Arc<Doorbell>> {
        let slot = self.slots.get_mut(&number)?;
        let signal = slot.signal.clone();
        if signal.is_some() && slot.answer.is_none() {
            self.signalled -= 1;
        }
        slot.answer = Some(answer);
        signal
    }

    /// The answer is not wanted, and the daemon knows that by itself.
    pub(crate) fn forget(&mut self, number: u64) {
        let Some(slot) = self.slots.remove(&number) else { return };
        if slot.signal.is_some() && slot.answer.is_none() {
            self.signalled -= 1;
        }
        // Numbers of requests that were never sent are taken out many at a time.
        if self.unsent.len() > 2 * self.slots.len() + UNSENT_GONE_MAX {
            let slots = &self.slots;
            self.unsent.retain(|number| slots.contains_key(number));
        }
    }

    /// The caller has gone. What the request asks for is taken back, whether the daemon has read it
    /// or not.
    pub(crate) fn abandon(&mut self, number: u64) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if slot.frame.is_some() {
            return self.forget(number);
        }
        match &slot.request {
            // The daemon reads this after the request, and takes back what it has given by then.
            Request::Create { id, .. } | Request::CreateGrowing { id, .. } => {
                let id = *id;
                self.abort(id);
                self.forget(number);
            }
            Request::Wait { .. } | Request::Settle { .. } => {
                if slot.answer.is_none() {
                    self.cancel(number);
                }
                self.forget(number);
            }
            Request::Get { .. } | Request::Lease { .. } => match slot.answer.take() {
                Some(answer) => {
                    self.forget(number);
                    self.give_back(answer);
                }
                None => slot.abandoned = true,
            },
            _ => self.forget(number),
        }
    }

    /// An answer came after its caller had gone.
    fn give_back(&mut self, answer: Result<Answer>) {
        let Ok(answer) = answer else { return };
        match answer.reply {
            Reply::Located(located) => {
                for location in located.into_iter().flatten() {
                    self.release(location.serial);
                }
            }
            Reply::Lease(granted) => self.strays.push((granted.range, answer.link)),
            _ => {}
        }
    }

    /// Leased memory that no caller took, and the connections that it came on.
    pub(crate) fn take_strays(&mut self) -> Vec<(Range, u64)> {
        std::mem::take(&mut self.strays)
    }

    /// How often something was taken back, if the daemon is not known to have read all of it.
    pub(crate) fn unread_returns(&self) -> Option<u64> {
        (self.returned > self.returned_read).then_some(self.returned)
    }

    /// The daemon has read as much of what was taken back.
    pub(crate) fn returns_read(&mut self, returned: u64) {
        self.returned_read = self.returned_read.max(returned);
    }

    /// On a new connection everything unanswered is sent again. What was to be taken back ended
    /// with the old one.
    pub(crate) fn send_again(&mut self) {
        self.end_returns();
        let unanswered = self.slots.iter().filter(|(_, slot)| slot.answer.is_none());
        let mut numbers: Vec<u64> = unanswered.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        for number in &numbers {
            let Some(slot) = self.slots.get_mut(number) else { continue };
            slot.again |= slot.frame.is_none();
            slot.shorten();
            match frame::encode_request(*number, &slot.request) {
                Ok(frame) => slot.frame = Some(frame),
                Err(bad) => drop(self.settle(*number, Err(Error::of_frame("asking again", &bad)))),
            }
        }
        self.unsent = numbers.into();
    }

    /// The connection cannot be restored: everything unanswered fails. Gives what is to be
    /// signalled.
    pub(crate) fn fail_all(&mut self, why: &dyn Fn() -> Error) -> Vec<Arc<Doorbell>> {
        self.end_returns();
        self.unsent.clear();
        let unanswered = self.slots.iter().filter(|(_, slot)| slot.answer.is_none());
        let mut unanswered: Vec<u64> = unanswered.map(|(number, _)| *number).collect();
        unanswered.sort_unstable();
        unanswered.into_iter().filter_map(|number| self.settle(number, Err(why()))).collect()
    }

    /// One request cannot be sent.
    pub(crate) fn fail(&mut self, number: u64, why: Error) -> Option<Arc<Doorbell>> {
        self.settle(number, Err(why))
    }

    /// Everything that is to be signalled about anything.
    pub(crate) fn signals(&self) -> Vec<Arc<Doorbell>> {
        self.slots.values().filter_map(|slot| slot.signal.clone()).collect()
    }

    /// A broken connection swallows what was to be taken back: all of it was about this one.
    fn end_returns(&mut self) {
        self.refused = None;
        self.returns = Returns::default();
        self.unanswered_returns.clear();
        self.slots.retain(|_, slot| !slot.abandoned);
    }
}

impl Returns {
    fn is_empty(&self) -> bool {
        self.released.is_empty()
            && self.aborted.is_empty()
            && self.cancelled.is_empty()
            && self.others.is_empty()
    }

    /// The next request, as large as it may be.
    fn next(&mut self) -> Option<Request> {
        if !self.released.is_empty() {
            let rest = self.released.len().saturating_sub(REQUEST_IDS_MAX);
            return Some(Request::Release { serials: self.released.split_off(rest) });
        }
        if let Some(id) = self.aborted.pop_front() {
            return Some(Request::Abort { id });
        }
        if let Some(request) = self.cancelled.pop_front() {
            return Some(Request::Cancel { request });
        }
        self.others.pop_front()
    }
}

impl Slot {
    fn shorten(&mut self) {
        if let (
            Request::Wait { timeout_ms, .. } | Request::Settle { timeout_ms, .. },
            Some(deadline),
        ) = (&mut self.request, self.deadline)
        {
            let left = deadline.saturating_duration_since(edge::now());
            *timeout_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests;
