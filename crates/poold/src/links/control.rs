//! The control lane to a peer: envelopes in order, or the end of the lane.
//!
//! ```text
//!   send ──► queue, at most 64 MiB ──► class Normal of the lane, at most 4 MiB ──► socket
//!   envelope of this peer ◄── checked ◄── frame ◄── socket
//! ```
//!
//! All envelopes go in one class, so that none overtakes another. What cannot be sent, and what a
//! peer may not send, ends the lane: a message is never left out between two others.

use std::collections::VecDeque;
use std::time::Duration;

use plasmon_cluster::Slot;
use plasmon_net::frame::{Class, MESSAGE_BYTES_MAX};
use plasmon_net::handshake::Peer;
use plasmon_net::tls::{Certified, Fault};
use plasmon_net::transport::NotQueued;
use plasmon_net::{FramedControl, Link, LinkEvent, Stream};
use plasmon_pool::Envelope;
use plasmon_pool::limits::ENVELOPE_BYTES_MAX;
use plasmon_pool::message::BadEnvelope;

use super::stream::LaneStream;
use crate::poll::{Interest, Poll};

/// Bytes of envelopes that wait for one peer. A node that answers a new primary says at once which
/// copies it has, with some 50 bytes for each: a million of them fit.
pub(super) const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Events of one peer in one turn of the loop.
const EVENTS_AT_ONCE: usize = 64;

const _: () = assert!(ENVELOPE_BYTES_MAX <= MESSAGE_BYTES_MAX, "an envelope fits a frame");

/// Why a control lane ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The connection broke, or the peer broke the framing.
    #[error(transparent)]
    Lane(#[from] plasmon_net::Error),
    /// The certificate of the peer is not valid any more.
    #[error(transparent)]
    Certificate(Fault),
    /// The peer sent something else than an envelope.
    #[error("what it sends cannot be read: {0}")]
    Envelope(#[from] BadEnvelope),
    /// The peer sent what another node, or another start of the node, may send.
    #[error("it sends messages of slot {from}, incarnation {incarnation:#x}")]
    Sender {
        /// The slot found.
        from: Slot,
        /// The incarnation found.
        incarnation: u64,
    },
    /// The peer takes nothing.
    #[error("it does not read its messages: {queued_bytes} bytes wait")]
    Full {
        /// The bytes that wait.
        queued_bytes: usize,
    },
    /// A bug of this node: one message is longer than an envelope may be.
    #[error("a message for it is longer than {ENVELOPE_BYTES_MAX} bytes")]
    Long,
}

/// A control lane that is up.
#[derive(Debug)]
pub(super) struct Control {
    number: u64,
    link: Link<FramedControl<LaneStream>>,
    waiting: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    interest: Interest,
    /// Whether more may have arrived, or be to send, than the last turn did.
    has_more: bool,
}

impl Control {
    /// The lane of this peer, which is waited for with this number of the poll.
    pub(super) fn new(number: u64, stream: LaneStream, peer: Peer, now: Duration) -> Self {
        Self {
            number,
            link: Link::new(FramedControl::new(stream), peer, now),
            waiting: VecDeque::new(),
            queued_bytes: 0,
            interest: Interest::Read,
            has_more: true,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What the certificate of the peer is for, if the lane is encrypted.
    pub(super) fn certified(&self) -> Option<&Certified> {
        self.link.lane().stream().certified()
    }

    /// The lane is ready.
    pub(super) fn ready(&mut self) {
        self.has_more = true;
    }

    /// When the peer was last heard.
    pub(super) fn heard_at(&self) -> Duration {
        self.link.heard_at()
    }

    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        if self.has_more { Some(now) } else { self.link.next_deadline() }
    }

    /// Puts messages into the queue, in as many envelopes as they need. It is sent by the next
    /// [`drive`](Self::drive).
    pub(super) fn send(&mut self, envelope: Envelope) -> Result<(), Broken> {
        let Some(bytes) = envelope.encode() else {
            let Envelope { epoch, from, incarnation, messages: mut first } = envelope;
            if first.len() < 2 {
                return Err(Broken::Long);
            }
            let second = first.split_off(first.len() / 2);
            for messages in [first, second] {
                self.send(Envelope { epoch, from, incarnation, messages })?;
            }
            return Ok(());
        };
        self.queue(bytes)
    }

    /// Puts an encoded envelope into the queue.
    pub(super) fn queue(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        if self.queued_bytes + bytes.len() > QUEUE_BYTES_MAX {
            return Err(Broken::Full { queued_bytes: self.queued_bytes });
        }
        self.queued_bytes += bytes.len();
        self.waiting.push_back(bytes);
        self.has_more = true;
        Ok(())
    }

    /// Sends and receives what can be now, if there is anything; the envelopes go to `deliver`.
    pub(super) fn drive(
        &mut self,
        now: Duration,
        poll: &Poll,
        deliver: &mut dyn FnMut(Envelope),
    ) -> Result<(), Broken> {
        let is_due = self.link.next_deadline().is_some_and(|at| at <= now);
        if !self.has_more && !is_due {
            return Ok(());
        }
        self.has_more = false;
        for _ in 0..EVENTS_AT_ONCE {
            self.fill()?;
            match self.link.next_event(now) {
                Some(LinkEvent::Message(_, payload)) => deliver(self.check(&payload)?),
                // A queue that has no room for a beat says enough to the peer.
                Some(LinkEvent::BeatDue) => _ = self.link.send_beat(&[]),
                Some(LinkEvent::Up | LinkEvent::Beat(_)) => {}
                Some(LinkEvent::Slow) => {
                    tracing::warn!("slot {} shows no life", self.link.peer().node.slot);
                }
                Some(LinkEvent::Down(error)) => return Err(error.into()),
                None => {
                    // What the lane had is sent: it has room for more.
                    self.has_more = !self.waiting.is_empty() && !self.link.wants_write();
                    return self.wait(poll);
                }
            }
        }
        self.has_more = true;
        self.wait(poll)
    }

    /// Has the poll wait for what the lane waits for.
    fn wait(&mut self, poll: &Poll) -> Result<(), Broken> {
        let interest = Interest::writing(self.link.wants_write());
        if interest != self.interest {
            let changed = poll.change(self.link.lane().stream(), self.number, interest);
            changed.map_err(plasmon_net::Error::from)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Gives the lane what it has room for.
    fn fill(&mut self) -> Result<(), Broken> {
        while let Some(bytes) = self.waiting.front() {
            match self.link.send(Class::Normal, bytes) {
                Ok(()) => {
                    self.queued_bytes -= bytes.len();
                    self.waiting.pop_front();
                }
                Err(NotQueued::Full { .. }) => break,
                Err(NotQueued::Long { .. }) => return Err(Broken::Long),
            }
        }
        Ok(())
    }

    /// The envelope in these bytes, if the peer may send it.
    fn check(&self, bytes: &[u8]) -> Result<Envelope, Broken> {
        let envelope = Envelope::decode(bytes)?;
        let Envelope { from, incarnation, .. } = envelope;
        let node = &self.link.peer().node;
        if (from, incarnation) == (Slot(node.slot), node.incarnation) {
            Ok(envelope)
        } else {
            Err(Broken::Sender { from, incarnation })
        }
    }

    pub(super) fn close(&mut self) {
        self.link.close();
    }
}
