//! The connections, by the number that the store knows their clients by.
//!
//! ```text
//! accepted ──► greeting ── hello ──► ready ── end of file, process ended, expelled ──► (gone)
//!                  └── too late, no hello, not admitted ──────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use plasmon_proto::message::Access;
use plasmon_shm::Connection;
use plasmon_shm::socket::Peer as Credentials;
use plasmon_store::event::ClientNo;

use crate::outbox::Outbox;
use crate::poll::Interest;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not said hello yet, and must by this time.
    Greeting(Instant),
    /// Its client is known to the store.
    Ready,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The socket.
    pub(crate) connection: Connection,
    /// Who is at the other end.
    pub(crate) credentials: Credentials,
    /// Where it is in its life.
    pub(crate) stage: Stage,
    /// The client's name for itself.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) access: Access,
    /// What waits to be sent.
    pub(crate) outbox: Outbox,
    /// What the socket is waited for.
    pub(crate) interest: Interest,
}

/// One number.
#[derive(Debug)]
enum Seat {
    Free,
    /// The store knows the client; its process is about to come back after a restart.
    Expected,
    Taken(Box<Peer>),
}

/// Who left a number.
#[derive(Debug)]
pub(crate) enum Departed {
    /// A connection.
    Peer(Box<Peer>),
    /// A client that was expected and will not come.
    Expected,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    seats: Vec<Seat>,
    free: VecDeque<u32>,
    count: usize,
}

impl Peers {
    /// Takes a connection in and numbers it.
    pub(crate) fn insert(&mut self, peer: Peer) -> ClientNo {
        self.count += 1;
        self.seat(Seat::Taken(Box::new(peer)))
    }

    /// Keeps a number for a client that is expected.
    pub(crate) fn expect(&mut self) -> ClientNo {
        self.seat(Seat::Expected)
    }

    fn seat(&mut self, seat: Seat) -> ClientNo {
        // The longest free number first: an event that still names an old client then rarely meets
        // a new one, and if it does, that one is only looked at once too often.
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.seats.push(Seat::Free);
            (self.seats.len() - 1) as u32
        });
        self.seats[number as usize] = seat;
        ClientNo(number)
    }

    /// Moves a connection to the number that was kept for it; false when it was not.
    pub(crate) fn move_to_expected(&mut self, from: ClientNo, to: ClientNo) -> bool {
        if !self.is_expected(to) || self.get(from).is_none() {
            return false;
        }
        let seat = std::mem::replace(&mut self.seats[from.0 as usize], Seat::Free);
        self.seats[to.0 as usize] = seat;
        self.free.push_back(from.0);
        true
    }

    /// Frees a number.
    pub(crate) fn remove(&mut self, client: ClientNo) -> Option<Departed> {
        let seat = self.seats.get_mut(client.0 as usize)?;
        let departed = match std::mem::replace(seat, Seat::Free) {
            Seat::Free => return None,
            Seat::Expected => Departed::Expected,
            Seat::Taken(peer) => {
                self.count -= 1;
                Departed::Peer(peer)
            }
        };
        self.free.push_back(client.0);
        Some(departed)
    }

    /// A connection.
    pub(crate) fn get(&self, client: ClientNo) -> Option<&Peer> {
        match self.seats.get(client.0 as usize)? {
            Seat::Taken(peer) => Some(peer),
            Seat::Free | Seat::Expected => None,
        }
    }

    /// A connection.
    pub(crate) fn get_mut(&mut self, client: ClientNo) -> Option<&mut Peer> {
        match self.seats.get_mut(client.0 as usize)? {
            Seat::Taken(peer) => Some(peer),
            Seat::Free | Seat::Expected => None,
        }
    }

    /// Whether the client is expected.
    pub(crate) fn is_expected(&self, client: ClientNo) -> bool {
        matches!(self.seats.get(client.0 as usize), Some(Seat::Expected))
    }

    /// Whether the store knows the client.
    pub(crate) fn is_known(&self, client: ClientNo) -> bool {
        self.is_expected(client) || self.get(client).is_some_and(|peer| peer.stage == Stage::Ready)
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Connections whose clients are known, in the order of their numbers.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (ClientNo, &Peer)> {
        self.iter().filter(|(_, peer)| peer.stage == Stage::Ready)
    }

    /// All connections in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientNo, &Peer)> {
        let numbered = self.seats.iter().zip(0..);
        numbered.filter_map(|(seat, number)| match seat {
            Seat::Taken(peer) => Some((ClientNo(number), &**peer)),
            Seat::Free | Seat::Expected => None,
        })
    }

    /// When the first connection that has not said hello must have.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let greeting = |(_, peer): (ClientNo, &Peer)| match peer.stage {
            Stage::Greeting(until) => Some(until),
            Stage::Ready => None,
        };
        self.iter().filter_map(greeting).min()
    }
}
