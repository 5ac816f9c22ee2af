//! Membership and the map of a pool of nodes, as pure rules.

#![forbid(unsafe_code)]

pub mod codec;
#[cfg(test)]
mod fixtures;
pub mod lease;
pub mod limits;
pub mod map;
pub mod node;
pub mod placement;

pub use map::{Group, GroupNo, Map};
pub use node::{Epoch, Member, Node, NodeState, NodeUuid, ProtocolRange, Slot};
