//! A handshake over a stream, with a deadline.
//!
//! It never reads beyond the frame that it waits for, so that what follows is the lane's.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::frame::{self, Class, Decoder, FrameInfo, Kind, Phase};
use crate::handshake::{Failure, Handshake, Local, Nonce, Peer, Purpose, Refusal, Step, Token};
use crate::stream::{Stream, unless_blocked};
use crate::tls::Fault;

/// How long connecting and the handshake may take together.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection whose handshake is not over. Times are counted from any fixed moment, the same for
/// all calls.
#[derive(Debug)]
pub struct Greeting<S> {
    stream: S,
    handshake: Handshake,
    decoder: Decoder,
    /// Frames to be sent, of which so many bytes are.
    unsent: Vec<u8>,
    sent: usize,
    sequence: u64,
    peer: Option<Peer>,
    bulk_token: Option<Token>,
    deadline: Duration,
}

impl<S: Stream> Greeting<S> {
    /// The connecting side. The nonce is random.
    pub fn connect(
        stream: S,
        local: Arc<Local>,
        purpose: Purpose,
        nonce: Nonce,
        now: Duration,
    ) -> Self {
        let (handshake, hello) = Handshake::connect(local, purpose, nonce);
        let mut greeting = Self::new(stream, handshake, now);
        greeting.put(Kind::Hello, &hello);
        greeting
    }

    /// The accepting side. The nonce is random.
    pub fn accept(stream: S, local: Arc<Local>, nonce: Nonce, now: Duration) -> Self {
        Self::new(stream, Handshake::accept(local, nonce), now)
    }

    fn new(stream: S, handshake: Handshake, now: Duration) -> Self {
        Self {
            stream,
            handshake,
            decoder: Decoder::new(Phase::Handshake, 0),
            unsent: Vec::new(),
            sent: 0,
            sequence: 0,
            peer: None,
            bulk_token: None,
            deadline: now.saturating_add(HANDSHAKE_TIMEOUT),
        }
    }

    /// When it fails if it is not over.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether it waits for the stream to take bytes.
    pub fn wants_write(&self) -> bool {
        self.stream.wants_write(self.has_unsent())
    }

    fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// The stream, to wait for its events.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, once there is a peer.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// The connection to the peer that [`drive`](Self::drive) has found.
    pub fn into_admitted(self, peer: Peer) -> Admitted<S> {
        Admitted { stream: self.stream, peer, bulk_token: self.bulk_token }
    }

    /// Does what can be done now; the peer, once both sides have proved what they are.
    pub fn drive(&mut self, now: Duration) -> Result<Option<Peer>, Error> {
        loop {
            while self.has_unsent() {
                match unless_blocked(self.stream.send(&self.unsent[self.sent..], false))? {
                    Some(count) => self.sent += count,
                    None => return self.pause(now),
                }
            }
            if self.peer.is_some() {
                return Ok(self.peer);
            }
            if let Some(frame) = self.decoder.next_frame()? {
                self.handshake.set_certified(self.stream.certified());
                match self.handshake.receive(frame.info.kind, &frame.payload) {
                    Ok(step) => self.take(step),
                    Err(failure) => return Err(self.fail(failure)),
                }
                continue;
            }
            let wanted = self.decoder.wanted();
            let space = self.decoder.space();
            let count = wanted.min(space.len());
            match unless_blocked(self.stream.recv(&mut space[..count])).map_err(Error::from) {
                Ok(Some(0)) => return Err(Error::Closed { midway: self.decoder.has_part() }),
                Ok(Some(count)) => self.decoder.filled(count),
                Ok(None) => return self.pause(now),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// A peer that begins TLS where there is no certificate is told so, and not encrypted.
    fn broken(&mut self, error: Error) -> Error {
        if matches!(error, Error::Tls(Fault::NotConfigured)) {
            tell(&mut self.stream, Refusal::NoCertificate, self.sequence);
        }
        error
    }

    fn pause(&self, now: Duration) -> Result<Option<Peer>, Error> {
        if now < self.deadline { Ok(None) } else { Err(Error::HandshakeTimeout) }
    }

    fn take(&mut self, step: Step) {
        if let Some((kind, payload)) = step.reply {
            self.put(kind, &payload);
        }
        self.peer = step.peer;
        self.bulk_token = step.bulk_token;
    }

    fn put(&mut self, kind: Kind, payload: &[u8]) {
        let info = FrameInfo { kind, class: Class::Urgent, sequence: self.sequence };
        self.unsent.clear();
        self.sent = 0;
        frame::encode(info, payload, &mut self.unsent);
        self.sequence += 1;
    }

    /// Ends the connection, after the peer was told why, if it is to be told.
    fn fail(&mut self, failure: Failure) -> Error {
        match failure {
            Failure::Malformed => Error::NotAHandshake,
            Failure::RefusedByPeer(refusal) => Error::RefusedByPeer(refusal),
            Failure::Refused(refusal) => {
                tell(&mut self.stream, refusal, self.sequence);
                Error::Refused(refusal)
            }
        }
    }
}

/// A connection that belongs to a peer.
#[derive(Debug)]
pub struct Admitted<S> {
    /// The connection, from which nothing after the handshake was asked.
    pub stream: S,
    /// The peer.
    pub peer: Peer,
    /// What the bulk lanes of this start of the peer prove, where they are not encrypted though
    /// this lane, its control lane, is.
    pub bulk_token: Option<Token>,
}

/// Tells a peer that it is refused before anything was read from it.
pub(crate) fn refuse(stream: &mut impl Stream, refusal: Refusal) {
    tell(stream, refusal, 0);
}

/// Tells a peer that it is refused, and ends the connection. Nothing else waits to be sent, so
/// there is room for it; where there is not, the peer sees the connection end.
fn tell(stream: &mut impl Stream, refusal: Refusal, sequence: u64) {
    let mut bytes = Vec::new();
    let info = FrameInfo { kind: Kind::Refused, class: Class::Urgent, sequence };
    frame::encode(info, &refusal.encode(), &mut bytes);
    let mut unsent = bytes.as_slice();
    while let Ok(count) = stream.send(unsent, false) {
        unsent = &unsent[count..];
        if unsent.is_empty() {
            break;
        }
    }
    stream.close();
}
