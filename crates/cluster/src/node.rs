//! What the pool knows of one node: what the node says of itself, and what the leader decided.

use std::fmt;
use std::str::FromStr;

pub use plasmon_proto::pool::Slot;
use serde::{Deserialize, Serialize};

use crate::limits::{
    ADDRESS_BYTES_MAX, ADDRESSES_MAX, NODE_NAME_BYTES_MAX, WEIGHT_MAX, ZONE_BYTES_MAX,
};

/// The number of a map; each map that replaces another has the next one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a node, drawn when it is set up and kept on its disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeUuid(pub [u8; 16]);

impl fmt::Display for NodeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for NodeUuid {
    type Err = BadNodeUuid;

    fn from_str(text: &str) -> Result<Self, BadNodeUuid> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(|number| Self(number.to_be_bytes())).ok_or(BadNodeUuid)
    }
}

/// Not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a uuid has 32 hexadecimal digits")]
pub struct BadNodeUuid;

impl fmt::Debug for NodeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeUuid({self})")
    }
}

/// The versions of the protocol between nodes that a node speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

/// The log for durable objects of a node's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLog {
    /// There is none.
    Absent,
    /// It takes objects.
    Open,
    /// It takes nothing any more. What it had may be there again when the node is started again.
    Failed,
}

/// What a node says of itself: the value of its key in etcd, which lives as long as its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The identity of the node.
    pub uuid: NodeUuid,
    /// What people call the node; unique among the nodes that are not out.
    pub name: String,
    /// Drawn by each start of the node's pool daemon. Another incarnation has forgotten the
    /// records of its groups.
    pub incarnation: u64,
    /// The token of the node's store. Another one has other objects.
    pub boot: u64,
    /// Where the other nodes reach it, the best first; at least one.
    pub addresses: Vec<String>,
    /// What fails together with the node, such as a rack. Nodes that name none are one zone.
    pub zone: String,
    /// Its share of groups and copies, relative to the other nodes; with 0 it has neither.
    pub weight: u32,
    /// The log of its store. Without one that is open it keeps no durable objects.
    pub log: NodeLog,
    /// The versions of the protocol that it speaks.
    pub protocol: ProtocolRange,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// Its lease is held.
    Up,
    /// Its lease is gone. Its groups are led by others, its copies are counted as still there.
    Down,
    /// It has been down for long, so its groups and copies are made again on other nodes; or it was
    /// drained before its lease went.
    Out,
    /// Its lease is held, and its groups and copies are moving to other nodes.
    Draining,
}

impl NodeState {
    /// Whether a node in this state holds its lease and serves what it has.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Up | Self::Draining)
    }
}

/// A node in the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it last said of itself.
    pub member: Member,
    /// Whether it takes part.
    pub state: NodeState,
    /// Whether an operator wants it to be empty. One that returns goes on draining.
    pub drain: bool,
    /// The map in which it got this state or this incarnation.
    pub since: Epoch,
    /// Whether it has been without its lease for so long that its clients see no copy any more
    /// that another node could have deleted ([`crate::silence`]). Gone when it is back.
    pub silent: bool,
}

impl Node {
    /// Whether it holds its lease and serves what it has.
    pub fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// Whether it may be given groups and copies that it does not have.
    pub fn is_assignable(&self) -> bool {
        self.state == NodeState::Up && self.member.weight > 0
    }
}

/// Why what a node says of itself is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMember {
    /// A string is empty or too long.
    #[error("the {part} of a node has {found} bytes; {min} to {limit} are possible")]
    Length {
        /// Which string.
        part: &'static str,
        /// The bytes that it has.
        found: usize,
        /// The fewest bytes.
        min: usize,
        /// The most bytes.
        limit: usize,
    },
    /// A string has a control character.
    #[error("the {part} of a node has a control character")]
    Control {
        /// Which string.
        part: &'static str,
    },
    /// No address, or too many.
    #[error("a node has 1 to {ADDRESSES_MAX} addresses, found {found}")]
    Addresses {
        /// How many.
        found: usize,
    },
    /// A weight that is too large.
    #[error("the weight of a node is {WEIGHT_MAX} at most, found {found}")]
    Weight {
        /// The weight.
        found: u32,
    },
    /// A range that is empty.
    #[error("a node speaks protocol {min} to {max}, which is no version")]
    Protocol {
        /// The lowest version.
        min: u16,
        /// The highest version.
        max: u16,
    },
}

impl Member {
    /// Checks every limit.
    pub fn check(&self) -> Result<(), BadMember> {
        check_string("name", &self.name, 1, NODE_NAME_BYTES_MAX)?;
        check_string("zone", &self.zone, 0, ZONE_BYTES_MAX)?;
        if self.addresses.is_empty() || self.addresses.len() > ADDRESSES_MAX {
            return Err(BadMember::Addresses { found: self.addresses.len() });
        }
        for address in &self.addresses {
            check_string("address", address, 1, ADDRESS_BYTES_MAX)?;
        }
        if self.weight > WEIGHT_MAX {
            return Err(BadMember::Weight { found: self.weight });
        }
        let ProtocolRange { min, max } = self.protocol;
        if min > max {
            return Err(BadMember::Protocol { min, max });
        }
        Ok(())
    }
}

fn check_string(
    part: &'static str,
    string: &str,
    min: usize,
    limit: usize,
) -> Result<(), BadMember> {
    let found = string.len();
    if !(min..=limit).contains(&found) {
        return Err(BadMember::Length { part, found, min, limit });
    }
    if string.chars().any(char::is_control) {
        return Err(BadMember::Control { part });
    }
    Ok(())
}
