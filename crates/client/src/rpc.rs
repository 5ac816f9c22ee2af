//! Requests on the socket and their answers, for any number of threads.
//!
//! A thread that waits for an answer reads the socket when no other does, and delivers replies that
//! belong to other threads. So the library needs no thread of its own, a blocked wait blocks no
//! other thread, and a lone caller pays no hand-over. Sending never waits: bytes that the socket
//! does not take are sent by the threads that wait for answers, as soon as there is room.
//!
//! ```text
//! begin ─► unanswered ──(a frame arrives)──► answered ─► taken
//!              │  ▲
//!   link broken│  │ relink: asked again on the new connection
//!              ▼  │
//!            waiting for a reconnect ──(it was given up)──► failed ─► taken
//! ```
//!
//! Which requests there are is the business of [`crate::requests`]. Reconnecting itself is done by
//! [`crate::connection::Connection`].

mod reconnection;

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::extent::Range;
use plasmon_proto::message::Request;
use plasmon_shm::FutexEvent;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::eventfd::Doorbell;
use plasmon_shm::socket::Connection;

use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::frame_reader::{Read, await_ready, receive};
use crate::interrupt;
use crate::requests::Requests;

pub(crate) use self::reconnection::{BrokenConnection, ReconnectClaim};
use self::reconnection::{Fruitless, LastConnection};

/// How many messages are sent before a look whether there are answers: the daemon reads no more
/// from a client that leaves a few dozen of them unread.
const SENT_UNREAD_MAX: u32 = 16;

/// Answers to what was taken back that may stay unread until this client has something else to do.
const UNREAD_RETURNS_MAX: usize = 32;

/// How long a thread waits for room in the socket before it looks for its answer, which another
/// thread may have read meanwhile.
const ROOM_STEP: Duration = Duration::from_millis(10);

/// How long the background thread waits for the daemon before it looks what there is to send.
const SERVE_STEP: Duration = Duration::from_secs(1);

/// How one look for an answer ended.
#[derive(Debug)]
pub(crate) enum Step {
    /// The request at this position of the ones asked for was answered.
    Answered(usize, Result<Answer>),
    /// The connection with this number is broken: reconnect it, then look again.
    Broken(u64),
    /// The time has passed.
    TimedOut,
}

#[derive(Debug)]
struct State {
    link: Option<Arc<Connection>>,
    link_number: u64,
    requests: Requests,
    /// Whether a thread reads the socket, sends, waits for room.
    reading: bool,
    sending: bool,
    awaiting_room: bool,
    /// Messages sent since the socket was found empty.
    sent_unread: u32,
    reconnecting: bool,
    /// The connection that is to be restored, once a thread has begun.
    broken: Option<BrokenConnection>,
    closed: bool,
    sleepers: u32,
    /// The connection, until it was of use.
    linked: Option<LastConnection>,
    /// Connections that ended at once without an answer, since the last that did not.
    fruitless: Fruitless,
}

/// The requests of one process on one connection.
#[derive(Debug)]
pub(crate) struct Rpc {
    state: Mutex<State>,
    changed: Condvar,
    /// For threads that sleep on events, see [`crate::wait::futex`].
    changes: AtomicU32,
}

type Guard<'a> = MutexGuard<'a, State>;

impl Rpc {
    /// On a connection that has been welcomed.
    pub(crate) fn new(link: Connection) -> Self {
        let state = State {
            link: Some(Arc::new(link)),
            link_number: 0,
            requests: Requests::new(),
            reading: false,
            sending: false,
            awaiting_room: false,
            sent_unread: 0,
            reconnecting: false,
            broken: None,
            closed: false,
            sleepers: 0,
            linked: None,
            fruitless: Fruitless::default(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), changes: AtomicU32::new(0) }
    }

    /// Sends a request, at the latest when a thread waits for an answer; the answer is collected
    /// with [`Self::step`]. Does not wait.
    pub(crate) fn begin(
        &self,
        doing: &'static str,
        request: Request,
        signal: Option<Arc<Doorbell>>,
    ) -> Result<u64> {
        let mut state = self.lock();
        if state.closed {
            return Err(closed(doing));
        }
        let in_background = signal.is_some();
        let number = state.requests.add(doing, request, signal)?;
        if in_background && state.sleepers > 0 {
            self.changed.notify_all();
        }
        // Without a link the request goes out when there is one again.
        drop(self.send(state));
        Ok(number)
    }

    /// Takes something back, as `change` says, without awaiting an answer. A broken connection
    /// swallows it: what it is about ended with that. Does not wait; `true` when something could
    /// not be sent now or many answers are to be read, which [`Self::serve`] must see to.
    #[must_use]
    pub(crate) fn take_back(&self, change: impl FnOnce(&mut Requests)) -> bool {
        let mut state = self.lock();
        if state.closed || state.link.is_none() {
            return false;
        }
        change(&mut state.requests);
        let state = self.send(state);
        let is_unread = state.requests.unanswered_returns() > UNREAD_RETURNS_MAX;
        let is_unsent = state.requests.has_unsent() && !state.sending;
        let is_left = state.link.is_some() && (is_unsent || is_unread);
        if is_left && state.sleepers > 0 {
            self.changed.notify_all();
        }
        is_left
    }

    /// How often something was taken back, unless it is known that the daemon has read all of it.
    pub(crate) fn unread_returns(&self) -> Option<u64> {
        self.lock().requests.unread_returns()
    }

    /// Remembers that the daemon has read everything up to this count.
    pub(crate) fn returns_read(&self, returned: u64) {
        self.lock().requests.returns_read(returned);
    }

    /// Leased memory that came after its caller had gone.
    pub(crate) fn take_strays(&self) -> Vec<(Range, u64)> {
        self.lock().requests.take_strays()
    }

    /// Looks for the answer to one of the requests until the deadline. An error: the caller was
    /// interrupted.
    pub(crate) fn step(&self, numbers: &[u64], deadline: Deadline) -> Result<Step> {
        loop {
            let mut state = self.lock();
            let until = interrupt::step(deadline);
            loop {
                if let Some((position, answer)) = state.requests.take(numbers) {
                    return Ok(Step::Answered(position, answer));
                }
                if state.closed {
                    return Ok(Step::Answered(0, Err(closed("waiting for the daemon"))));
                }
                if deadline.is_past() {
                    return Ok(Step::TimedOut);
                }
                if state.link.is_none() && !state.reconnecting {
                    return Ok(Step::Broken(state.link_number));
                }
                if until.is_past() {
                    break;
                }
                let interrupted;
                (state, interrupted) = self.read_or_sleep(state, until);
                if interrupted {
                    break;
                }
            }
            drop(state);
            interrupt::check("waiting for the daemon")?;
        }
    }

    /// Takes in what the daemon has sent, without waiting for more. Whether [`Self::step`] would
    /// now do anything but wait for the answer to this request.
    pub(crate) fn look(&self, number: u64) -> bool {
        let mut state = self.lock();
        loop {
            if state.requests.is_answered(number) || state.closed || state.link.is_none() {
                return true;
            }
            if state.reading {
                // The thread that reads tells the others when it stops. It does not send for them.
                return !state.requests.is_sent(number);
            }
            let more;
            (state, more) = self.read_now(state);
            if !more {
                state = self.send(state);
                if state.sleepers > 0 {
                    // One of them reads in this thread's place, which is about to sleep elsewhere.
                    self.changed.notify_all();
                }
                return !state.requests.is_sent(number);
            }
        }
    }

    /// What is woken when something changed that a thread may sleep on elsewhere than here.
    pub(crate) fn changes(&self) -> FutexEvent<'_> {
        FutexEvent::new(&self.changes)
    }

    /// Wakes the threads that sleep elsewhere.
    pub(crate) fn wake_sleepers(&self) {
        if let Err(error) = self.changes().wake() {
            // They look around after a while.
            tracing::warn!(%error, "cannot wake a thread that waits for an object");
        }
    }

    /// What a background thread does for requests that no caller waits for: sends and reads as long
    /// as there are any. Gives the number of a connection to reconnect, `None` when everything is
    /// over.
    pub(crate) fn serve(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let is_linked = state.link.is_some();
            let is_unsent = state.requests.has_unsent() && !state.sending;
            let has_work = state.requests.has_signalled()
                || is_linked && (is_unsent || state.requests.unanswered_returns() > 0);
            if !has_work {
                state = self.sleep(state, Deadline::NEVER);
            } else if !is_linked && !state.reconnecting {
                return Some(state.link_number);
            } else {
                // What other threads could not send meanwhile is sent after a while.
                (state, _) = self.read_or_sleep(state, Deadline::after(SERVE_STEP));
            }
        }
    }

    /// Whether the connection with this number stands, as far as is known here.
    pub(crate) fn is_linked(&self, number: u64) -> bool {
        let state = self.lock();
        state.link.is_some() && state.link_number == number
    }

    /// The answer, if it is there.
    pub(crate) fn take(&self, number: u64) -> Option<Result<Answer>> {
        self.lock().requests.take(&[number]).map(|(_, answer)| answer)
    }

    /// The answer is not wanted any more, and the daemon knows that by itself.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().requests.forget(number);
    }

    /// Ends everything. The socket is closed when its last reader noticed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let link = state.link.take();
        let signals = state.requests.signals();
        self.notify_all_threads(&state);
        drop(state);
        if let Some(link) = link {
            // Wakes a thread that is reading; an error means that the connection has ended already.
            let _ = link.shutdown();
        }
        signals.iter().for_each(|signal| ring(signal));
    }

    /// The connection, as the simulator breaks it.
    #[cfg(feature = "sim")]
    pub(crate) fn link(&self) -> Option<Arc<Connection>> {
        self.lock().link.clone()
    }

    /// Sends what is to be sent as far as the socket takes it, unless another thread is at it: that
    /// one then sends this as well. The lock is given up meanwhile.
    fn send<'a>(&'a self, mut state: Guard<'a>) -> Guard<'a> {
        while !state.sending
            && let Some(link) = state.link.clone()
        {
            if state.sent_unread >= SENT_UNREAD_MAX && !state.reading {
                let more;
                (state, more) = self.read_now(state);
                if more {
                    continue;
                }
                state.sent_unread = 0;
            }
            let Some(message) = state.requests.next() else { break };
            state.sending = true;
            let link_number = state.link_number;
            drop(state);
            let sent = link.try_send(&message.frame, &[]);
            state = self.lock();
            state.sending = false;
            state.sent_unread += 1;
            if state.link_number != link_number {
                // It was asked again on the new connection.
                continue;
            }
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.requests.put_back(message);
                    break;
                }
                Err(error) if is_break(&error) => {
                    state.link = None;
                    self.notify_all_threads(&state);
                }
                Err(error) => {
                    let failed =
                        |number| state.requests.fail(number, Error::io("sending a request", error));
                    let signal = message.number.and_then(failed);
                    state = self.notified(state, signal);
                }
            }
        }
        state
    }

    /// Takes in one message if there is one. Whether there was, or the connection broke. The caller
    /// has made sure that no other thread reads.
    fn read_now<'a>(&'a self, mut state: Guard<'a>) -> (Guard<'a>, bool) {
        let Some(link) = state.link.clone() else { return (state, false) };
        state.reading = true;
        let link_number = state.link_number;
        drop(state);
        let read = receive(&link);
        if matches!(read, Read::Nothing) {
            let mut state = self.lock();
            state.reading = false;
            return (state, false);
        }
        (self.take_in(read, link_number), true)
    }

    /// Waits for something to change: reads if no other thread does, and sends when there is room.
    /// Whether a signal handler ran.
    fn read_or_sleep<'a>(&'a self, mut state: Guard<'a>, until: Deadline) -> (Guard<'a>, bool) {
        let reads = !state.reading;
        let sends = !state.awaiting_room && !state.sending && state.requests.has_unsent();
        let Some(link) = state.link.clone().filter(|_| reads || sends) else {
            return (self.sleep(state, until), false);
        };
        state.reading |= reads;
        state.awaiting_room |= sends;
        let link_number = state.link_number;
        drop(state);
        // Without the role of the reader this thread does not see its answer come.
        let until = if reads { until } else { until.earlier(Deadline::after(ROOM_STEP)) };
        let ready = await_ready(&link, reads, sends, until);
        let read = if reads && ready.readable { receive(&link) } else { Read::Nothing };
        let mut state = if reads { self.take_in(read, link_number) } else { self.lock() };
        if sends {
            state.awaiting_room = false;
            if ready.writable {
                state = self.send(state);
            } else if state.sleepers > 0 {
                // Another thread waits for the room.
                self.changed.notify_all();
            }
        }
        (state, ready.interrupted)
    }

    /// Hands over what the caller has read, as announced before.
    fn take_in(&self, read: Read, link_number: u64) -> Guard<'_> {
        let mut state = self.lock();
        state.reading = false;
        let signal = match read {
            Read::Nothing => None,
            Read::Frame { number, reply, fds } => {
                // Whatever comes later: this connection was of use.
                state.linked = None;
                let answer =
                    reply.map(|reply| Answer { reply, fds, again: false, link: link_number });
                state.requests.deliver(number, answer)
            }
            Read::Broken => {
                if state.link_number == link_number {
                    state.link = None;
                }
                None
            }
        };
        self.notified(state, signal)
    }

    /// Tells every other thread that something changed, and the one that waits for this signal.
    fn notified<'a>(&'a self, state: Guard<'a>, signal: Option<Arc<Doorbell>>) -> Guard<'a> {
        self.notify_all_threads(&state);
        let Some(signal) = signal else { return state };
        drop(state);
        ring(&signal);
        self.lock()
    }

    /// Tells every other thread that something changed.
    fn notify_all_threads(&self, state: &Guard<'_>) {
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
        self.wake_sleepers();
    }

    fn sleep<'a>(&'a self, mut state: Guard<'a>, until: Deadline) -> Guard<'a> {
        state.sleepers += 1;
        let mut state = match until.left() {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleepers -= 1;
        state
    }

    fn lock(&self) -> Guard<'_> {
        // Nothing that panics runs under this lock, and its state is whole at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells an event loop that its answer is there.
fn ring(signal: &Doorbell) {
    if let Err(error) = signal.ring() {
        // An eventfd of our own cannot be full or closed; if it ever is, the waiter's timeout
        // helps.
        tracing::warn!(%error, "cannot deliver an answer to the waiting thread");
    }
}

fn is_break(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

fn closed(doing: &'static str) -> Error {
    Error::new(Code::Disconnected, doing).with_detail("this client has disconnected")
}

#[cfg(test)]
mod tests;
