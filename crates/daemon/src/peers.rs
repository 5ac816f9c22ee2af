//! The connections, by the number that the store knows their clients by.
//!
//! ```text
//! accepted ──► handshake ── hello ──► ready ── end of file, process ended, expelled ──► (gone)
//!                  └── too late, no hello, not admitted ───────────────────────────────────┘
//! ```
//!
//! A number is kept for a client that has no connection and to which something is lent.

use std::collections::VecDeque;
use std::time::Instant;

use plasmon_proto::limits::CLIENTS_MAX;
use plasmon_proto::message::{Access, Request};
use plasmon_shm::Connection;
use plasmon_shm::socket::Peer as Credentials;
use plasmon_store::event::ClientNo;

use crate::connection_limits::{ConnectionLimits, Holder, NoRoom, UnidentifiedConnection};
use crate::descriptors_in_flight::UnreadDescriptors;
use crate::outbox::Outbox;
use crate::poll::Interest;
use crate::settings::config::ConnectionsMax;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not said hello yet, and must by this time.
    Handshake(Instant),
    /// Its client is known to the store.
    Ready,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The socket.
    pub(crate) connection: Connection,
    /// The process at the other end.
    pub(crate) credentials: Credentials,
    /// Where it is in its life.
    pub(crate) stage: Stage,
    /// The client's name for itself.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) access: Access,
    /// What waits to be sent.
    pub(crate) outbox: Outbox,
    /// What was sent and is not received.
    pub(crate) unread: UnreadDescriptors,
    /// What the socket is waited for.
    pub(crate) interest: Interest,
    /// Whether it is among those whose sockets are to be read.
    pub(crate) is_asking: bool,
    /// What it asked and is not answered yet. Nothing more is read from it until then.
    pub(crate) question: Option<Question>,
}

/// A request that waits until the rings are applied as they were when it was read.
#[derive(Debug)]
pub(crate) struct Question {
    /// The client's number of it.
    pub(crate) number: u64,
    /// What it asks.
    pub(crate) request: Request,
    /// The pass over the rings that it waits for.
    pub(crate) pass: u64,
}

/// One number.
#[derive(Debug)]
enum Slot {
    Free,
    /// The store knows the client, which has no connection and may come back.
    Expected,
    Taken(Box<Peer>),
}

/// The last holder of a number.
#[derive(Debug)]
pub(crate) enum FormerPeer {
    /// A connection.
    Peer(Box<Peer>),
    /// A client that was expected and will not come.
    Expected,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Peers {
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    count: usize,
    /// Whose they are.
    users: ConnectionLimits,
}

impl Peers {
    /// No connections yet, of at most this many users.
    pub(crate) fn new(users: usize, most: ConnectionsMax) -> Self {
        let users = ConnectionLimits::new(users, most);
        Self { slots: Vec::new(), free: VecDeque::new(), count: 0, users }
    }

    /// Takes a connection in and numbers it.
    pub(crate) fn insert(&mut self, peer: Peer) -> ClientNo {
        self.count += 1;
        let uid = peer.credentials.uid;
        self.users.take(holder(&peer.credentials));
        let stage = peer.stage;
        let client = self.place(Slot::Taken(Box::new(peer)));
        if let Stage::Handshake(until) = stage {
            self.users.expect_hello(UnidentifiedConnection { client, uid, until });
        }
        client
    }

    /// Whether one more connection of this process may be taken in.
    pub(crate) fn has_room_for(&self, credentials: &Credentials) -> Result<(), NoRoom> {
        self.users.has_room_for(holder(credentials))?;
        if self.count < CLIENTS_MAX { Ok(()) } else { Err(NoRoom::Full) }
    }

    /// The connection of this user that must go before another one comes, because too many of them
    /// have not said hello.
    pub(crate) fn surplus_unidentified(&mut self, uid: u32) -> Option<ClientNo> {
        let Self { slots, users, .. } = self;
        users
            .surplus_unidentified(uid, |unidentified| !is_unidentified(slots, unidentified))
            .map(|unidentified| unidentified.client)
    }

    /// The connection that should have said hello by now.
    pub(crate) fn late(&mut self, now: Instant) -> Option<ClientNo> {
        let Self { slots, users, .. } = self;
        let oldest =
            users.oldest_unidentified(|unidentified| !is_unidentified(slots, unidentified))?;
        (oldest.until <= now).then_some(oldest.client)
    }

    /// When the first connection that has not said hello must have.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let Self { slots, users, .. } = self;
        users
            .oldest_unidentified(|unidentified| !is_unidentified(slots, unidentified))
            .map(|unidentified| unidentified.until)
    }

    /// Keeps a number for a client that is expected.
    pub(crate) fn expect(&mut self) -> ClientNo {
        self.place(Slot::Expected)
    }

    fn place(&mut self, slot: Slot) -> ClientNo {
        // The longest free number first: an event that still names an old client then rarely meets
        // a new one, and if it does, that one is only looked at once too often.
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            (self.slots.len() - 1) as u32
        });
        self.slots[number as usize] = slot;
        ClientNo(number)
    }

    /// Moves a connection to the number that was kept for it; false when it was not.
    pub(crate) fn move_to_expected(&mut self, from: ClientNo, to: ClientNo) -> bool {
        if !self.is_expected(to) || self.get(from).is_none() {
            return false;
        }
        let mut slot = std::mem::replace(&mut self.slots[from.0 as usize], Slot::Free);
        if let Slot::Taken(peer) = &mut slot {
            // It is queued under its old number, which matches no peer from now on.
            peer.is_asking = false;
        }
        self.slots[to.0 as usize] = slot;
        self.free.push_back(from.0);
        true
    }

    /// Takes a connection away and keeps the number for its client.
    pub(crate) fn part(&mut self, client: ClientNo) -> Option<Box<Peer>> {
        let slot = self.slots.get_mut(client.0 as usize)?;
        if !matches!(slot, Slot::Taken(_)) {
            return None;
        }
        let Slot::Taken(peer) = std::mem::replace(slot, Slot::Expected) else { return None };
        self.count -= 1;
        self.users.leave(holder(&peer.credentials));
        Some(peer)
    }

    /// Frees a number.
    pub(crate) fn remove(&mut self, client: ClientNo) -> Option<FormerPeer> {
        let slot = self.slots.get_mut(client.0 as usize)?;
        let departed = match std::mem::replace(slot, Slot::Free) {
            Slot::Free => return None,
            Slot::Expected => FormerPeer::Expected,
            Slot::Taken(peer) => {
                self.count -= 1;
                self.users.leave(holder(&peer.credentials));
                FormerPeer::Peer(peer)
            }
        };
        self.free.push_back(client.0);
        Some(departed)
    }

    /// A connection.
    pub(crate) fn get(&self, client: ClientNo) -> Option<&Peer> {
        match self.slots.get(client.0 as usize)? {
            Slot::Taken(peer) => Some(peer),
            Slot::Free | Slot::Expected => None,
        }
    }

    /// A connection.
    pub(crate) fn get_mut(&mut self, client: ClientNo) -> Option<&mut Peer> {
        match self.slots.get_mut(client.0 as usize)? {
            Slot::Taken(peer) => Some(peer),
            Slot::Free | Slot::Expected => None,
        }
    }

    /// Whether the client is expected.
    pub(crate) fn is_expected(&self, client: ClientNo) -> bool {
        matches!(self.slots.get(client.0 as usize), Some(Slot::Expected))
    }

    /// Whether the store knows the client.
    pub(crate) fn is_known(&self, client: ClientNo) -> bool {
        self.is_expected(client) || self.get(client).is_some_and(|peer| peer.stage == Stage::Ready)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The next connections from this number on, and around, that may have descriptors to receive.
    pub(crate) fn next_unread(&self, from: u32, most: usize) -> Vec<ClientNo> {
        let from = (from as usize).min(self.slots.len());
        let numbers = (from..self.slots.len()).chain(0..from);
        let clients = numbers.map(|number| ClientNo(number as u32));
        let is_unread =
            |client: &ClientNo| self.get(*client).is_some_and(|peer| peer.unread.is_any());
        clients.filter(is_unread).take(most).collect()
    }

    /// Connections whose clients are known, in the order of their numbers.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (ClientNo, &Peer)> {
        self.iter().filter(|(_, peer)| peer.stage == Stage::Ready)
    }

    /// All connections in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientNo, &Peer)> {
        let numbered = self.slots.iter().zip(0..);
        numbered.filter_map(|(slot, number)| match slot {
            Slot::Taken(peer) => Some((ClientNo(number), &**peer)),
            Slot::Free | Slot::Expected => None,
        })
    }
}

fn holder(credentials: &Credentials) -> Holder {
    Holder { uid: credentials.uid, pid: credentials.pid }
}

/// Whether a connection has still not said hello.
fn is_unidentified(slots: &[Slot], unidentified: &UnidentifiedConnection) -> bool {
    match slots.get(unidentified.client.0 as usize) {
        Some(Slot::Taken(peer)) => peer.stage == Stage::Handshake(unidentified.until),
        Some(Slot::Free | Slot::Expected) | None => false,
    }
}
