//! What each number of the poll belongs to.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_net::handshake::Lane;

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conn {
    /// Accepted, in this handshake.
    Accepted(u64),
    /// Connected by this node, in its handshake.
    Dialed(Slot, Lane),
    /// The control lane to a peer.
    Control(Slot),
}

/// Connections by their numbers, none of which is used twice.
#[derive(Debug)]
pub(super) struct Conns {
    by_number: BTreeMap<u64, Conn>,
    next: u64,
}

impl Conns {
    /// No connections; the numbers from `first` on are theirs.
    pub(super) fn new(first: u64) -> Self {
        Self { by_number: BTreeMap::new(), next: first }
    }

    /// A number that is not used yet.
    pub(super) fn draw(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(super) fn add(&mut self, conn: Conn) -> u64 {
        let number = self.draw();
        self.by_number.insert(number, conn);
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<Conn> {
        self.by_number.get(&number).copied()
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }
}
