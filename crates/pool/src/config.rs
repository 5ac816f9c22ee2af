//! What a node is told when it starts.

use plasmon_cluster::Slot;

use crate::limits::{COMMIT_STUCK_MS, COMMIT_UNHEARD_MS, ISOLATED_SERVE_MS};
use crate::record::Birth;

/// The settings of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its slot in the map.
    pub slot: Slot,
    /// Drawn at this start; it is what the node's member in the map says.
    pub incarnation: u64,
    /// The token of its store.
    pub boot: u64,
    /// The capacity of its store.
    pub capacity_bytes: u64,
    /// For so long the store shows copies of free ids after the node lost its lease.
    pub isolated_serve_ms: u64,
    /// For so long a commit is asked of primaries of which none answers.
    pub commit_unheard_ms: u64,
    /// For so long a commit waits for other nodes while no byte of it moves.
    pub commit_stuck_ms: u64,
    /// How many bytes a second copies that were lost may be made again with.
    pub repair_bytes_per_s: u64,
    #[cfg(test)]
    pub(crate) mutation: Option<Mutation>,
}

impl Config {
    /// The settings of a node, with the defaults.
    pub fn new(slot: Slot, incarnation: u64, boot: u64, capacity_bytes: u64) -> Self {
        Self {
            slot,
            incarnation,
            boot,
            capacity_bytes,
            isolated_serve_ms: ISOLATED_SERVE_MS,
            commit_unheard_ms: COMMIT_UNHEARD_MS,
            commit_stuck_ms: COMMIT_STUCK_MS,
            repair_bytes_per_s: 100 << 20,
            #[cfg(test)]
            mutation: None,
        }
    }

    /// The incarnation of an object that the node's store made.
    pub(crate) fn birth(&self, serial: u64) -> Birth {
        Birth { slot: self.slot, boot: self.boot, serial }
    }

    /// Where this start begins to number its questions and transfers, so that an answer to an
    /// earlier start is not taken for one to this.
    pub(crate) fn first_number(&self) -> u64 {
        let mixed = self.incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1
    }

    #[cfg(test)]
    pub(crate) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }

    #[cfg(not(test))]
    pub(crate) fn breaks(&self, _: Mutation) -> bool {
        false
    }
}

/// A rule that the simulator can break, to see that it notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A primary answers and commits without its lease.
    DecideWithoutLease,
    /// A group that does not know all copies says that an object is absent.
    AbsentWhenIncomplete,
    /// A commit is acknowledged before its copies are made.
    AcknowledgeBeforeCopies,
    /// Deletes, and the answers to commits and deletes, count for any object of the id.
    IgnoreBirths,
}
