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
//! a machine between two nodes can read and change it. TLS is for networks that are not trusted.

mod identity;
mod refusal;
mod token;

use std::sync::Arc;

pub use identity::{
    BULK_LANES_MAX, CLUSTER_NAME_BYTES_MAX, Cluster, Introduction, Lane, NodeIdentity, Nonce,
    ProtocolRange,
};
pub use refusal::Refusal;
pub use token::{PROOF_BYTES, Role, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, Token, Transcript};

use crate::frame::Kind;

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
}

impl Local {
    fn introduce(&self, lane: Lane, nonce: Nonce) -> Introduction {
        let Self { cluster, node, protocols, .. } = self;
        Introduction { protocols: *protocols, lane, node: *node, cluster: cluster.clone(), nonce }
    }

    /// What both sides check of the other one's introduction; the version that they talk.
    fn check(&self, theirs: &Introduction) -> Result<u16, Refusal> {
        if theirs.cluster != self.cluster {
            return Err(Refusal::Cluster);
        }
        let common = self.protocols.newest_common(theirs.protocols);
        let protocol = common.ok_or(Refusal::Protocol(self.protocols))?;
        if theirs.node.uuid == self.node.uuid { Err(Refusal::Node) } else { Ok(protocol) }
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
}

/// One side of a handshake. Random numbers are given to it; it waits for nothing.
#[derive(Debug)]
pub struct Handshake {
    local: Arc<Local>,
    state: State,
}

#[derive(Debug)]
enum State {
    HelloSent { ours: Introduction, node: Option<[u8; 16]> },
    ProofSent { transcript: Transcript, peer: Peer },
    HelloAwaited { nonce: Nonce },
    ChallengeSent { transcript: Transcript, peer: Peer },
    Ended,
}

impl Handshake {
    /// The connecting side, with the payload of the `Hello` that it sends.
    pub fn connect(local: Arc<Local>, purpose: Purpose, nonce: Nonce) -> (Self, Vec<u8>) {
        let ours = local.introduce(purpose.lane, nonce);
        let hello = ours.encode();
        (Self { local, state: State::HelloSent { ours, node: purpose.node } }, hello)
    }

    /// The accepting side.
    pub fn accept(local: Arc<Local>, nonce: Nonce) -> Self {
        Self { local, state: State::HelloAwaited { nonce } }
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
            (State::ChallengeSent { transcript, peer }, Kind::Proof) => {
                self.check_proof(Role::Connector, &transcript, payload)?;
                let proof = self.local.token.proof(Role::Acceptor, &transcript);
                Ok(Step { reply: Some((Kind::Welcome, proof.to_vec())), peer: Some(peer) })
            }
            (State::ProofSent { transcript, peer }, Kind::Welcome) => {
                self.check_proof(Role::Acceptor, &transcript, payload)?;
                Ok(Step { reply: None, peer: Some(peer) })
            }
            _ => Err(Failure::Malformed),
        }
    }

    fn hello(&mut self, nonce: Nonce, payload: &[u8]) -> Result<Step, Failure> {
        let theirs = Introduction::decode(payload).ok_or(Failure::Malformed)?;
        let protocol = self.local.check(&theirs).map_err(Failure::Refused)?;
        let challenge = self.local.introduce(theirs.lane, nonce).encode();
        let reply = Some((Kind::Challenge, challenge.clone()));
        let transcript = Transcript { hello: payload.to_vec(), challenge };
        let peer = Peer { node: theirs.node, lane: theirs.lane, protocol };
        self.state = State::ChallengeSent { transcript, peer };
        Ok(Step { reply, peer: None })
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
        let protocol = self.local.check(&theirs).map_err(Failure::Refused)?;
        if node.is_some_and(|node| node != theirs.node.uuid) {
            return Err(Failure::Refused(Refusal::Node));
        }
        let transcript = Transcript { hello: ours.encode(), challenge: payload.to_vec() };
        let proof = self.local.token.proof(Role::Connector, &transcript);
        let peer = Peer { node: theirs.node, lane: theirs.lane, protocol };
        self.state = State::ProofSent { transcript, peer };
        Ok(Step { reply: Some((Kind::Proof, proof.to_vec())), peer: None })
    }

    fn check_proof(&self, by: Role, transcript: &Transcript, proof: &[u8]) -> Result<(), Failure> {
        let is_right = self.local.token.is_proof(by, transcript, proof);
        if is_right { Ok(()) } else { Err(Failure::Refused(Refusal::Token)) }
    }
}

#[cfg(test)]
mod tests;
