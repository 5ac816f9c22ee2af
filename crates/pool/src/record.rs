//! What the directory knows of one object.

use plasmon_cluster::limits::NODES_MAX;
use plasmon_cluster::{Epoch, Slot};
pub use plasmon_proto::pool::{Birth, Content};
use plasmon_proto::pool_admin::Standing;
use serde::{Deserialize, Serialize};

use crate::limits::{COPIES_MAX, HOLDERS_MAX};

/// Orders the updates of one record: by the map since which the primary leads, then by its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Since which map the group had its acting nodes.
    pub since: Epoch,
    /// The updates of the group so far.
    pub number: u64,
}

/// Where an object is in its life. An object without a record is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Not yet acknowledged: not all acting nodes have the record, or not all holders the object.
    Pending,
    /// It exists.
    Live,
    /// It was deleted, and there may be copies.
    Dead,
    /// It was never acknowledged and never will be, and there may be copies.
    Withdrawn,
    /// It may have been acknowledged, and there is no copy that any node knows of.
    Lost,
}

/// A record of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The incarnation.
    pub birth: Birth,
    /// Its bytes.
    pub content: Content,
    /// How many copies it should have.
    pub copies: u8,
    /// With how many it is acknowledged when there are no more nodes for it.
    pub copies_min: u8,
    /// Nodes that keep a copy; of a pending one, those that shall.
    pub holders: Vec<Slot>,
    /// Where it is in its life.
    pub state: State,
}

impl Record {
    /// Whether every number in it is possible.
    pub fn is_valid(&self) -> bool {
        self.holders.len() <= HOLDERS_MAX
            && is_copies(self.copies, self.copies_min)
            && self.content.is_movable()
    }
}

/// Whether so many copies, and at least so many, can be asked for.
pub(crate) fn is_copies(copies: u8, copies_min: u8) -> bool {
    (1..=COPIES_MAX).contains(&usize::from(copies)) && (1..=copies).contains(&copies_min)
}

/// What the directory tells of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where it is in its life.
    pub standing: Standing,
    /// What its record says; `None` without one.
    pub found: Option<Found>,
    /// The node that leads the group of the id.
    pub primary: Option<Slot>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The incarnation.
    pub birth: Birth,
    /// Its bytes.
    pub content: Content,
    /// How many copies it should have; of a cache, which no node keeps, none.
    pub copies: u8,
    /// With how many it is acknowledged when there are no more nodes for it.
    pub copies_min: u8,
    /// Nodes that keep a copy.
    pub holders: Vec<Slot>,
    /// Other nodes that may have one.
    pub caches: Vec<Slot>,
}

impl Place {
    /// Nothing is known.
    pub(crate) fn unreachable(primary: Option<Slot>) -> Self {
        Self { standing: Standing::Unreachable, found: None, primary }
    }

    pub(crate) fn keeps_limits(&self) -> bool {
        self.found.as_ref().is_none_or(|found| {
            found.content.is_movable()
                && found.holders.len() <= HOLDERS_MAX
                && found.caches.len() <= NODES_MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_and_past_their_limits() {
        assert!(is_copies(1, 1) && is_copies(8, 4));
        assert!(!is_copies(0, 0) && !is_copies(9, 1) && !is_copies(2, 0) && !is_copies(2, 3));
    }
}
