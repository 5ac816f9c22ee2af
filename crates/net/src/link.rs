//! A link: the control lane to one peer, and whether the peer lives.
//!
//! ```text
//!          ┌──────── bytes arrived ────────┐
//!          ▼                               │
//! new ──► up ── nothing for 3 beats ──► slow
//!          └───────────┬───────────────────┘
//!                      ▼  end of the connection, or a broken rule
//!                     down
//! ```
//!
//! That a link is slow or down is evidence about the peer and no verdict: what is decided from it
//! is the pool's. Everything that arrives is a sign of life, not beats alone, and also a part of a
//! message: a large message on a slow line does not make a peer slow.

use std::time::Duration;

use crate::error::Error;
use crate::frame::Class;
use crate::handshake::Peer;
use crate::transport::{ControlLane, Incoming, NotQueued, Outgoing};

/// How often a beat is sent.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);

/// After so many beats without a sign of life a peer is slow.
pub const BEATS_MISSED_MAX: u32 = 3;

/// What happened on a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is usable: it is new, or was slow.
    Up,
    /// The peer shows no life.
    Slow,
    /// The link ended, and why. Nothing follows.
    Down(Error),
    /// It is time for [`Link::send_beat`].
    BeatDue,
    /// A message of the peer.
    Message(Class, Vec<u8>),
    /// A beat of the peer.
    Beat(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Up,
    Slow,
    Down,
}

/// The control lane to a peer. Times are counted from any fixed moment, the same for all calls.
#[derive(Debug)]
pub struct Link<L> {
    lane: L,
    peer: Peer,
    state: State,
    received_bytes: u64,
    received_at: Duration,
    beat_at: Duration,
    wants_write: bool,
}

impl<L: ControlLane> Link<L> {
    /// The link over this lane, whose handshake is over. The first beat is due at once.
    pub fn new(lane: L, peer: Peer, now: Duration) -> Self {
        Self {
            received_bytes: lane.received_bytes(),
            lane,
            peer,
            state: State::New,
            received_at: now,
            beat_at: now,
            wants_write: false,
        }
    }

    /// The peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The lane, to wait for its events.
    pub fn lane(&self) -> &L {
        &self.lane
    }

    /// When bytes of the peer last arrived, or the link was made.
    pub fn heard_at(&self) -> Duration {
        self.received_at
    }

    /// Whether it waits for the transport to take bytes.
    pub fn wants_write(&self) -> bool {
        self.wants_write
    }

    /// Puts a message into the queue of its class. It is sent by the next
    /// [`next_event`](Self::next_event). On a link that is down it is dropped.
    pub fn send(&mut self, class: Class, payload: &[u8]) -> Result<(), NotQueued> {
        self.put(Outgoing::message(class, payload))
    }

    /// Puts a beat into the queue of the urgent class, as [`send`](Self::send) does.
    pub fn send_beat(&mut self, payload: &[u8]) -> Result<(), NotQueued> {
        self.put(Outgoing::beat(payload))
    }

    fn put(&mut self, outgoing: Outgoing<'_>) -> Result<(), NotQueued> {
        if self.state == State::Down {
            return Ok(());
        }
        self.wants_write = true;
        self.lane.queue(outgoing)
    }

    /// Sends and receives what can be now, and says what happened, one event at a time. After an
    /// event of the transport, after sends, and at [`next_deadline`](Self::next_deadline) it is
    /// called until it returns `None`.
    pub fn next_event(&mut self, now: Duration) -> Option<LinkEvent> {
        match self.state {
            State::Down => return None,
            State::New => {
                self.state = State::Up;
                return Some(LinkEvent::Up);
            }
            State::Up | State::Slow => {}
        }
        self.exchange(now).unwrap_or_else(|error| {
            self.state = State::Down;
            self.wants_write = false;
            self.lane.close();
            Some(LinkEvent::Down(error))
        })
    }

    fn exchange(&mut self, now: Duration) -> Result<Option<LinkEvent>, Error> {
        // Beats and what is queued come first, so that a peer that sends without end stops neither.
        if now >= self.beat_at {
            self.beat_at = now.saturating_add(BEAT_EVERY);
            return Ok(Some(LinkEvent::BeatDue));
        }
        let flushed = self.lane.flush();
        self.wants_write = matches!(flushed, Ok(false));
        // What the peer has said is delivered even when it takes nothing any more.
        let incoming = self.lane.receive()?;
        if self.lane.received_bytes() > self.received_bytes {
            self.received_bytes = self.lane.received_bytes();
            self.received_at = now;
        }
        if let Some(Incoming { class, is_beat, payload }) = incoming {
            let event =
                if is_beat { LinkEvent::Beat(payload) } else { LinkEvent::Message(class, payload) };
            return Ok(Some(event));
        }
        flushed?;
        Ok(self.judge(now))
    }

    /// Whether the peer has become slow, or up again.
    fn judge(&mut self, now: Duration) -> Option<LinkEvent> {
        match (self.state, now >= self.slow_at()) {
            (State::Up, true) => {
                self.state = State::Slow;
                Some(LinkEvent::Slow)
            }
            (State::Slow, false) => {
                self.state = State::Up;
                Some(LinkEvent::Up)
            }
            _ => None,
        }
    }

    fn slow_at(&self) -> Duration {
        self.received_at.saturating_add(BEAT_EVERY * BEATS_MISSED_MAX)
    }

    /// When it has something to do even if nothing happens.
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.state {
            State::Down => None,
            State::New | State::Slow => Some(self.beat_at),
            State::Up => Some(self.beat_at.min(self.slow_at())),
        }
    }

    /// Ends the link.
    pub fn close(&mut self) {
        self.state = State::Down;
        self.wants_write = false;
        self.lane.close();
    }
}
