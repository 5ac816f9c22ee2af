//! How the two sides of a new lane learn that they belong together: a pure state machine.
//!
//! ```text
//! connecting side                                              accepting side
//! Hello { protocols, lane, node, cluster, nonce }  ─────────►  cluster, protocol, node right?
//!              cluster, protocol, node right?  ◄─────────────  Challenge { the same of its own }
//! Proof { hash of role and both introductions }    ─────────►  proof right?
//!                                proof right?  ◄─────────────  Welcome { its own proof }
//! ```
//!
//! Both sides authenticate, the connecting side first: an accepting side computes nothing with the
//! token for a peer that has not proved to have it. What does not fit is answered by `Refused` with
//! a [`Refusal`], which tells nothing that the peer could not find out anyway; bytes that are not a
//! handshake get no answer.
//!
//! The token keeps out what does not belong to the pool. It does not hide or protect what follows:
//! a machine between two nodes can read and change it. TLS is for networks that are not trusted. In
//! a lane that is encrypted ([`crate::tls`]) both sides also compare the node with the one that its
//! certificate is for. Bulk lanes that are not encrypted, though the control lane is, prove instead
//! of the token that they know the introductions of the control lane, with the random numbers of
//! both sides, which nothing between them has seen.

mod identity;
mod known;
mod refusal;
mod token;

use std::sync::Arc;

pub use identity::{
    BULK_LANES_MAX, CLUSTER_NAME_BYTES_MAX, Cluster, Introduction, Lane, NodeIdentity, Nonce,
    ProtocolRange,
};
pub use known::KnownPeers;
pub use refusal::Refusal;
pub use token::{PROOF_BYTES, Role, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, Token, Transcript};

use crate::frame::Kind;
use crate::tls::Certified;

/// What a node says of itself in every handshake.
#[derive(Clone, Debug)]
pub struct Local {
    /// What it belongs to.
    pub cluster: Cluster,
    /// What it is.
    pub node: NodeIdentity,
    /// The versions of the protocol that it knows.
    pub protocols: ProtocolRange,
    /// What it shares with the other nodes.
    pub token: Token,
    /// Which of its lanes have to be encrypted.
    pub encryption: Encryption,
    /// What it knows of the other nodes.
    pub peers: KnownPeers,
}

/// Which lanes of a node have to be encrypted. A node that has no certificate takes none that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// None.
    #[default]
    Nothing,
    /// The control lanes.
    Control,
    /// All of them.
    Everything,
}

impl Encryption {
    /// Whether such a lane has to be encrypted.
    pub fn is_needed(self, lane: Lane) -> bool {
        match self {
            Self::Nothing => false,
            Self::Control => lane == Lane::Control,
            Self::Everything => true,
        }
    }
}

impl Local {
    fn introduce(&self, lane: Lane, nonce: Nonce) -> Introduction {
        let Self { cluster, node, protocols, .. } = self;
        Introduction { protocols: *protocols, lane, node: *node, cluster: cluster.clone(), nonce }
    }

    /// What both sides check of the other one's introduction; the version that they talk.
    fn check(&self, theirs: &Introduction, certified: Option<&Certified>) -> Result<u16, Refusal> {
        if certified.is_none() && self.encryption.is_needed(theirs.lane) {
            return Err(Refusal::Unencrypted);
        }
        if theirs.cluster != self.cluster {
            return Err(Refusal::Cluster);
        }
        let common = self.protocols.newest_common(theirs.protocols);
        let protocol = common.ok_or(Refusal::Protocol(self.protocols))?;
        if theirs.node.uuid == self.node.uuid {
            return Err(Refusal::Node);
        }
        // A node that is not known cannot be compared; its lane comes to nothing.
        let name = self.peers.name(&theirs.node.uuid);
        let is_for =
            |(certified, name): (&Certified, String)| certified.is_for(self.cluster.name(), &name);
        match certified.zip(name).map(is_for) {
            Some(false) => Err(Refusal::Certificate),
            Some(true) | None => Ok(protocol),
        }
    }

    /// What both sides of a lane with this node prove that they know; `None` where they have not
    /// agreed on anything.
    fn token_for(&self, theirs: &Introduction, certified: Option<&Certified>) -> Option<Token> {
        let is_bulk = matches!(theirs.lane, Lane::Bulk(_));
        if is_bulk && certified.is_none() && self.encryption == Encryption::Control {
            return self.peers.bulk_token(&theirs.node);
        }
        Some(self.token.clone())
    }
}

/// What a lane is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// What it is used for.
    pub lane: Lane,
    /// The node that must be at the other end, where it is known.
    pub node: Option<[u8; 16]>,
}

/// The other side of an open lane, which has proved that it has the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it is.
    pub node: NodeIdentity,
    /// What the lane is used for.
    pub lane: Lane,
    /// The version of the protocol to be talked.
    pub protocol: u16,
}

/// Why a handshake ended without a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This side refuses; the peer is to be told.
    Refused(Refusal),
    /// The peer refused.
    RefusedByPeer(Refusal),
    /// What came is not the next step of a handshake: the peer gets no answer.
    Malformed,
}

/// What is to be done after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is to be sent.
    pub reply: Option<(Kind, Vec<u8>)>,
    /// The peer, when the lane is open.
    pub peer: Option<Peer>,
    /// What bulk lanes prove, when an encrypted control lane is open.
    pub bulk_token: Option<Token>,
}

impl Step {
    fn reply(kind: Kind, payload: Vec<u8>) -> Self {
        Self { reply: Some((kind, payload)), peer: None, bulk_token: None }
    }
}

/// One side of a handshake. Random numbers are given to it; it waits for nothing.
#[derive(Debug)]
pub struct Handshake {
    local: Arc<Local>,
    certified: Option<Certified>,
    state: State,
}

#[derive(Debug)]
enum State {
    HelloSent { ours: Introduction, node: Option<[u8; 16]> },
    ProofSent(Opening),
    HelloAwaited { nonce: Nonce },
    ChallengeSent(Opening),
    Ended,
}

/// A lane whose sides know each other, and have not both proved it.
#[derive(Debug)]
struct Opening {
    transcript: Transcript,
    peer: Peer,
    /// What both prove that they know.
    token: Token,
}

impl Handshake {
    /// The connecting side, with the payload of the `Hello` that it sends.
    pub fn connect(local: Arc<Local>, purpose: Purpose, nonce: Nonce) -> (Self, Vec<u8>) {
        let ours = local.introduce(purpose.lane, nonce);
        let hello = ours.encode();
        let state = State::HelloSent { ours, node: purpose.node };
        (Self { local, certified: None, state }, hello)
    }

    /// The accepting side.
    pub fn accept(local: Arc<Local>, nonce: Nonce) -> Self {
        Self { local, certified: None, state: State::HelloAwaited { nonce } }
    }

    /// What the certificate of the peer is for, before its next frame is [received](Self::receive).
    pub fn set_certified(&mut self, certified: Option<&Certified>) {
        if self.certified.is_none() {
            self.certified = certified.cloned();
        }
    }

    /// The next frame of the peer.
    pub fn receive(&mut self, kind: Kind, payload: &[u8]) -> Result<Step, Failure> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        if kind == Kind::Refused {
            let refusal = Refusal::decode(payload).ok_or(Failure::Malformed)?;
            return Err(Failure::RefusedByPeer(refusal));
        }
        match (state, kind) {
            (State::HelloAwaited { nonce }, Kind::Hello) => self.hello(nonce, payload),
            (State::HelloSent { ours, node }, Kind::Challenge) => {
                self.challenge(ours, node, payload)
            }
            (State::ChallengeSent(opening), Kind::Proof) => {
                opening.check_proof(Role::Connector, payload)?;
                let proof = opening.token.proof(Role::Acceptor, &opening.transcript).to_vec();
                Ok(self.open(&opening, Some((Kind::Welcome, proof))))
            }
            (State::ProofSent(opening), Kind::Welcome) => {
                opening.check_proof(Role::Acceptor, payload)?;
                Ok(self.open(&opening, None))
            }
            _ => Err(Failure::Malformed),
        }
    }

    fn hello(&mut self, nonce: Nonce, payload: &[u8]) -> Result<Step, Failure> {
        let theirs = Introduction::decode(payload).ok_or(Failure::Malformed)?;
        let challenge = self.local.introduce(theirs.lane, nonce).encode();
        let transcript = Transcript { hello: payload.to_vec(), challenge: challenge.clone() };
        self.state = State::ChallengeSent(self.opening(&theirs, transcript)?);
        Ok(Step::reply(Kind::Challenge, challenge))
    }

    fn challenge(
        &mut self,
        ours: Introduction,
        node: Option<[u8; 16]>,
        payload: &[u8],
    ) -> Result<Step, Failure> {
        let theirs = Introduction::decode(payload).ok_or(Failure::Malformed)?;
        // A random number that comes back is an echo of ours.
        if theirs.lane != ours.lane || theirs.nonce == ours.nonce {
            return Err(Failure::Malformed);
        }
        let transcript = Transcript { hello: ours.encode(), challenge: payload.to_vec() };
        let opening = self.opening(&theirs, transcript)?;
        if node.is_some_and(|node| node != theirs.node.uuid) {
            return Err(Failure::Refused(Refusal::Node));
        }
        let proof = opening.token.proof(Role::Connector, &opening.transcript).to_vec();
        self.state = State::ProofSent(opening);
        Ok(Step::reply(Kind::Proof, proof))
    }

    /// The lane with this peer, if it may be opened.
    fn opening(&self, theirs: &Introduction, transcript: Transcript) -> Result<Opening, Failure> {
        let certified = self.certified.as_ref();
        let protocol = self.local.check(theirs, certified).map_err(Failure::Refused)?;
        let token = self.local.token_for(theirs, certified);
        let token = token.ok_or(Failure::Refused(Refusal::Token))?;
        let peer = Peer { node: theirs.node, lane: theirs.lane, protocol };
        Ok(Opening { transcript, peer, token })
    }

    fn open(&self, opening: &Opening, reply: Option<(Kind, Vec<u8>)>) -> Step {
        let agrees = opening.peer.lane == Lane::Control && self.certified.is_some();
        let bulk_token = agrees.then(|| opening.transcript.agreed_token());
        Step { reply, peer: Some(opening.peer), bulk_token }
    }
}

impl Opening {
    fn check_proof(&self, by: Role, proof: &[u8]) -> Result<(), Failure> {
        let is_right = self.token.is_proof(by, &self.transcript, proof);
        if is_right { Ok(()) } else { Err(Failure::Refused(Refusal::Token)) }
    }
}

#[cfg(test)]
mod tests;
