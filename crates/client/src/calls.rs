//! Requests on the socket and their answers, for any number of threads.
//!
//! Whoever waits for an answer reads the socket when nobody else does, and hands what belongs to
//! others over to them. So no thread of the library's own is needed, a blocked wait blocks nobody,
//! and a lone caller pays no hand-over.
//!
//! ```text
//! begin ─► unanswered ──(a frame arrives)──► answered ─► taken
//!              │  ▲
//!   link broken│  │ relink: asked again on the new connection
//!              ▼  │
//!            waiting for the mender ──(it gave up)──► failed ─► taken
//! ```
//!
//! Reconnecting itself is done by [`crate::process::Process`]; here is only who does it: the first
//! that asks.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plasmon_proto::Code;
use plasmon_proto::frame;
use plasmon_proto::message::{Reply, Request};
use plasmon_shm::Alarm;
use plasmon_shm::edge;
use plasmon_shm::eventfd::Doorbell;
use plasmon_shm::socket::Connection;

use crate::error::{Error, Result};
use crate::receiving::{Read, read, receive};

/// A connection that ends sooner after it was made was not ended by bad luck.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What the daemon answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) fds: Vec<OwnedFd>,
    /// The connection broke in between and the request was sent a second time: what it asks for
    /// may have happened the first time.
    pub(crate) again: bool,
    /// The number of the connection that it came on.
    pub(crate) link: u64,
}

/// How one look for an answer ended.
#[derive(Debug)]
pub(crate) enum Step {
    /// The request at this position of the ones asked for was answered.
    Answered(usize, Result<Answer>),
    /// The connection with this number is broken: mend it, then look again.
    Broken(u64),
    /// The time has passed.
    TimedOut,
}

/// Who mends a broken connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mending {
    /// The caller; it must end with [`Calls::relink`] or [`Calls::give_up`]. So many connections in
    /// a row, this one included, ended at once without an answer.
    Mine { fruitless: u32 },
    /// Somebody else did already.
    Done,
}

#[derive(Debug)]
struct Slot {
    request: Request,
    answer: Option<Result<Answer>>,
    again: bool,
    signal: Option<Arc<Doorbell>>,
    /// When a wait ends, so that a wait that is asked again asks only for what is left.
    deadline: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Connection>>,
    link_number: u64,
    next_number: u64,
    reading: bool,
    mending: bool,
    closed: bool,
    sleepers: u32,
    /// The last request that nobody awaits, and the last that the daemon is known to have read.
    last_unawaited: u64,
    last_read: u64,
    /// When the connection was made.
    linked: Option<Instant>,
    /// Connections that ended at once without an answer, since the last that did not.
    fruitless: u32,
    slots: HashMap<u64, Slot>,
}

/// The requests of one process on one connection.
#[derive(Debug)]
pub(crate) struct Calls {
    state: Mutex<State>,
    changed: Condvar,
    /// For threads that sleep on alarms, see [`crate::sleeping`].
    news: AtomicU32,
}

impl Calls {
    /// On a connection that has been welcomed.
    pub(crate) fn new(link: Connection) -> Self {
        let state = State { link: Some(Arc::new(link)), next_number: 1, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new(), news: AtomicU32::new(0) }
    }

    /// Sends a request; its answer is collected with [`Self::step`].
    pub(crate) fn begin(
        &self,
        doing: &'static str,
        request: Request,
        signal: Option<Arc<Doorbell>>,
    ) -> Result<u64> {
        let deadline = match &request {
            Request::Wait { timeout_ms: Some(ms), .. } => {
                edge::now().checked_add(Duration::from_millis(*ms))
            }
            _ => None,
        };
        let mut state = self.lock();
        if state.closed {
            return Err(closed(doing));
        }
        let number = state.next_number;
        let frame =
            frame::encode_request(number, &request).map_err(|bad| Error::of_frame(doing, &bad))?;
        state.next_number += 1;
        let in_background = signal.is_some();
        let slot = Slot { request, answer: None, again: false, signal, deadline };
        state.slots.insert(number, slot);
        let link = state.link.clone();
        if in_background && state.sleepers > 0 {
            self.changed.notify_all();
        }
        drop(state);
        // Without a link the request goes out when there is one again.
        if let Some(link) = link
            && let Err(error) = link.send(&frame, &[])
            && !is_break(&error)
        {
            self.forget(number);
            return Err(Error::io(doing, error));
        }
        Ok(number)
    }

    /// Sends a request whose answer nobody awaits. A broken connection swallows it.
    pub(crate) fn send_unawaited(&self, request: &Request) {
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.last_unawaited = number;
        let link = state.link.clone();
        drop(state);
        if let (Some(link), Ok(frame)) = (link, frame::encode_request(number, request)) {
            // What is lost here is lost with the connection, and with it what it was about.
            let _ = link.send(&frame, &[]);
        }
    }

    /// The last request that nobody awaits, unless it is known that the daemon has read it.
    pub(crate) fn unawaited(&self) -> Option<u64> {
        let state = self.lock();
        (state.last_unawaited > state.last_read).then_some(state.last_unawaited)
    }

    /// Remembers that the daemon has read everything up to this request.
    pub(crate) fn read_up_to(&self, number: u64) {
        let mut state = self.lock();
        state.last_read = state.last_read.max(number);
    }

    /// Looks for the answer to one of the requests until the deadline.
    pub(crate) fn step(&self, numbers: &[u64], deadline: Option<Instant>) -> Step {
        let mut state = self.lock();
        loop {
            if let Some((position, answer)) = state.take(numbers) {
                return Step::Answered(position, answer);
            }
            if state.closed {
                return Step::Answered(0, Err(closed("waiting for the daemon")));
            }
            if state.link.is_none() && !state.mending {
                return Step::Broken(state.link_number);
            }
            if deadline.is_some_and(|deadline| edge::now() >= deadline) {
                return Step::TimedOut;
            }
            state = self.read_or_sleep(state, deadline);
        }
    }

    /// Takes in what the daemon has sent, without waiting for more. Whether [`Self::step`] would
    /// now do anything but wait for the answer to this request.
    pub(crate) fn look(&self, number: u64) -> bool {
        let mut state = self.lock();
        loop {
            let answered = state.slots.get(&number).is_none_or(|slot| slot.answer.is_some());
            if answered || state.closed {
                return true;
            }
            let Some(link) = state.link.clone() else { return true };
            if state.reading {
                // Whoever reads tells the others when it stops.
                return false;
            }
            state.reading = true;
            let link_number = state.link_number;
            drop(state);
            let read = receive(&link, false);
            if matches!(read, Read::Nothing) {
                let mut state = self.lock();
                state.reading = false;
                if state.sleepers > 0 {
                    // One of them reads in this thread's place, which is about to sleep elsewhere.
                    self.changed.notify_all();
                }
                return false;
            }
            state = self.take_in(read, link_number);
        }
    }

    /// What is sounded when something changed that a thread may sleep on elsewhere than here.
    pub(crate) fn news(&self) -> Alarm<'_> {
        Alarm::new(&self.news)
    }

    /// Wakes the threads that sleep elsewhere.
    pub(crate) fn tell_sleepers(&self) {
        if let Err(error) = self.news().sound() {
            // They look around after a while.
            tracing::warn!(%error, "a thread that waits for an object cannot be woken");
        }
    }

    /// What a background thread does for requests that nobody waits for: reads as long as there are
    /// any. Gives the number of a connection to mend, `None` when everything is over.
    pub(crate) fn serve(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let wanted = |slot: &Slot| slot.signal.is_some() && slot.answer.is_none();
            if !state.slots.values().any(wanted) {
                state = self.sleep(state, None);
            } else if state.link.is_none() && !state.mending {
                return Some(state.link_number);
            } else {
                state = self.read_or_sleep(state, None);
            }
        }
    }

    /// The answer, if it is there.
    pub(crate) fn take(&self, number: u64) -> Option<Result<Answer>> {
        self.lock().take(&[number]).map(|(_, answer)| answer)
    }

    /// Nobody wants the answer any more.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().slots.remove(&number);
    }

    /// Whether the caller is to mend the connection with this number. Waits while another does.
    pub(crate) fn claim_mending(&self, link_number: u64) -> Mending {
        let mut state = self.lock();
        while state.mending && state.link_number == link_number && !state.closed {
            state = self.sleep(state, None);
        }
        if state.link_number != link_number || state.closed {
            return Mending::Done;
        }
        state.mending = true;
        state.link = None;
        let at_once = state.linked.take().is_some_and(|linked| edge::since(linked) < AT_ONCE);
        state.fruitless = if at_once { state.fruitless + 1 } else { 0 };
        Mending::Mine { fruitless: state.fruitless }
    }

    /// Goes on with a new connection: everything unanswered is asked again.
    pub(crate) fn relink(&self, link: Connection) {
        let link = Arc::new(link);
        let mut state = self.lock();
        state.mending = false;
        state.link_number += 1;
        if !state.closed {
            state.link = Some(Arc::clone(&link));
            state.linked = Some(edge::now());
        }
        let mut frames = Vec::new();
        for (number, slot) in state.slots.iter_mut().filter(|(_, slot)| slot.answer.is_none()) {
            slot.again = true;
            slot.shorten();
            match frame::encode_request(*number, &slot.request) {
                Ok(frame) => frames.push((*number, frame)),
                Err(bad) => slot.answer = Some(Err(Error::of_frame("asking again", &bad))),
            }
        }
        frames.sort_unstable_by_key(|(number, _)| *number);
        self.tell_all(&state);
        drop(state);
        for (_, frame) in frames {
            if link.send(&frame, &[]).is_err() {
                // Whoever reads next finds the new connection broken as well.
                break;
            }
        }
    }

    /// The connection could not be mended: everything unanswered fails. A later request tries
    /// again.
    pub(crate) fn give_up(&self, why: &dyn Fn() -> Error) {
        let mut state = self.lock();
        state.mending = false;
        state.link_number += 1;
        state.link = None;
        let mut signals = Vec::new();
        for slot in state.slots.values_mut().filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(Err(why()));
            signals.extend(slot.signal.clone());
        }
        self.tell_all(&state);
        drop(state);
        signals.iter().for_each(|signal| ring(signal));
    }

    /// Ends everything. The socket is closed when its last reader noticed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let link = state.link.take();
        let signals: Vec<_> = state.slots.values().filter_map(|slot| slot.signal.clone()).collect();
        self.tell_all(&state);
        drop(state);
        if let Some(link) = link {
            // Wakes a thread that is reading; an error means that the connection has ended already.
            let _ = link.shutdown();
        }
        signals.iter().for_each(|signal| ring(signal));
    }

    fn read_or_sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let Some(link) = state.link.clone().filter(|_| !state.reading) else {
            return self.sleep(state, deadline);
        };
        state.reading = true;
        let link_number = state.link_number;
        drop(state);
        let read = read(&link, deadline);
        self.take_in(read, link_number)
    }

    /// Hands over what the caller, who said that it would, has read.
    fn take_in(&self, read: Read, link_number: u64) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.reading = false;
        let signal = match read {
            Read::Nothing => None,
            Read::Frame { number, reply, fds } => {
                let answer =
                    reply.map(|reply| Answer { reply, fds, again: false, link: link_number });
                state.deliver(number, answer)
            }
            Read::Broken => {
                if state.link_number == link_number {
                    state.link = None;
                }
                None
            }
        };
        self.tell_all(&state);
        if let Some(signal) = signal {
            drop(state);
            ring(&signal);
            state = self.lock();
        }
        state
    }

    /// Tells every other thread that something changed.
    fn tell_all(&self, state: &MutexGuard<'_, State>) {
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
        self.tell_sleepers();
    }

    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        state.sleepers += 1;
        let mut state = match deadline {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(edge::now());
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleepers -= 1;
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock, and its state is whole at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, numbers: &[u64]) -> Option<(usize, Result<Answer>)> {
        let answered = |number: &u64| self.slots.get(number).is_some_and(|s| s.answer.is_some());
        let position = numbers.iter().position(answered)?;
        let slot = self.slots.remove(&numbers[position])?;
        Some((position, slot.answer?))
    }

    fn deliver(&mut self, number: u64, answer: Result<Answer>) -> Option<Arc<Doorbell>> {
        // An answer that nobody waits for any more: its descriptors close here.
        let slot = self.slots.get_mut(&number)?;
        // Whatever comes later: this connection was of use.
        self.linked = None;
        slot.answer = Some(answer.map(|answer| Answer { again: slot.again, ..answer }));
        slot.signal.clone()
    }
}

impl Slot {
    fn shorten(&mut self) {
        if let (Request::Wait { timeout_ms: Some(ms), .. }, Some(deadline)) =
            (&mut self.request, self.deadline)
        {
            let left = deadline.saturating_duration_since(edge::now());
            *ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        }
    }
}

/// Tells an event loop that its answer is there.
fn ring(signal: &Doorbell) {
    if let Err(error) = signal.ring() {
        // An eventfd of our own cannot be full or closed; if it ever is, the waiter's timeout
        // helps.
        tracing::warn!(%error, "a waiter could not be told of its answer");
    }
}

fn is_break(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

fn closed(doing: &'static str) -> Error {
    Error::new(Code::Disconnected, doing).with_detail("this client disconnected itself")
}

/// Ends a wait of this process early: names the request for [`Request::Cancel`].
pub(crate) fn cancel_of(number: u64) -> Request {
    Request::Cancel { request: number }
}
