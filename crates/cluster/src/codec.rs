//! Maps and members as bytes: the values of keys in etcd, and what nodes send each other.
//!
//! The byte table is in `docs/formats/cluster-map.md`. Bytes come from outside and are hostile:
//! what is decoded has passed every limit, and encodes to the very same bytes. There is no
//! checksum: etcd's log and the frames between nodes have one each.

use std::collections::BTreeMap;

use crate::limits::{ACTING_MAX, ADDRESSES_MAX, GROUPS, MAP_BYTES_MAX, NODES_MAX, WEIGHT_MAX};
use crate::map::{BadMap, Group, Map};
use crate::node::{
    BadMember, Epoch, Member, Node, NodeLog, NodeState, NodeUuid, ProtocolRange, Slot,
};

const MAP_MAGIC: [u8; 6] = *b"PLSMAP";
const MEMBER_MAGIC: [u8; 6] = *b"PLSMEM";
const VERSION: u16 = 1;

/// The bits of the weight of a node that has a log, and of one whose log has failed. Earlier builds
/// refuse them as a weight that is too large.
const HAS_LOG: u32 = 1 << 31;
const LOG_FAILED: u32 = 1 << 30;
const _: () = assert!(WEIGHT_MAX < LOG_FAILED);

/// Why bytes are not a map or a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBytes {
    /// Bytes of something else.
    #[error("neither a map nor a member of a pool")]
    Magic,
    /// Another version of the format; nothing else was looked at.
    #[error("version {found} of the format instead of {VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// They end too early.
    #[error("cut short at byte {at}")]
    Short {
        /// Where more was expected.
        at: usize,
    },
    /// Something follows, or there are more bytes than a map may have.
    #[error("{found} bytes are too many")]
    Long {
        /// How many are there, or are left.
        found: usize,
    },
    /// A field that is invalid.
    #[error("byte {at}: {problem}")]
    Field {
        /// Where the field ends.
        at: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A member that breaks a limit.
    #[error(transparent)]
    Member(#[from] BadMember),
    /// Parts that do not fit together.
    #[error(transparent)]
    Map(#[from] BadMap),
}

impl Map {
    /// The map as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + 128 * self.nodes.len() + 17 * GROUPS);
        put_head(&mut out, MAP_MAGIC);
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.next_slot.0.to_le_bytes());
        out.extend_from_slice(&(self.nodes.len() as u16).to_le_bytes());
        out.extend_from_slice(&(GROUPS as u16).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for (slot, node) in &self.nodes {
            put_node(&mut out, *slot, node);
        }
        for group in &self.groups {
            put_group(&mut out, group);
        }
        assert!(out.len() <= MAP_BYTES_MAX, "the limits of its parts add up to less");
        out
    }

    /// Reads a map and checks it.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        if bytes.len() > MAP_BYTES_MAX {
            return Err(BadBytes::Long { found: bytes.len() });
        }
        let mut reader = Reader::new(bytes, MAP_MAGIC)?;
        let epoch = Epoch(reader.u64()?);
        let next_slot = Slot(reader.u16()?);
        let nodes = usize::from(reader.u16()?);
        if nodes > NODES_MAX {
            return Err(BadMap::Nodes { found: nodes }.into());
        }
        let groups = usize::from(reader.u16()?);
        if groups != GROUPS {
            return Err(BadMap::Groups { found: groups }.into());
        }
        if reader.u16()? != 0 {
            return Err(reader.wrong("a field that is reserved is set"));
        }
        let nodes = read_nodes(&mut reader, nodes)?;
        let groups = (0..groups).map(|_| read_group(&mut reader)).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Self::new(epoch, nodes, groups, next_slot)?)
    }
}

impl Member {
    /// What a node says of itself as bytes; [`Member::check`] comes first.
    pub fn encode(&self) -> Result<Vec<u8>, BadMember> {
        self.check()?;
        let mut out = Vec::with_capacity(128);
        put_head(&mut out, MEMBER_MAGIC);
        put_member(&mut out, self);
        Ok(out)
    }

    /// Reads what a node says of itself and checks it.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = Reader::new(bytes, MEMBER_MAGIC)?;
        let member = read_member(&mut reader)?;
        reader.end()?;
        member.check()?;
        Ok(member)
    }
}

fn put_head(out: &mut Vec<u8>, magic: [u8; 6]) {
    out.extend_from_slice(&magic);
    out.extend_from_slice(&VERSION.to_le_bytes());
}

fn put_node(out: &mut Vec<u8>, slot: Slot, node: &Node) {
    let state = match node.state {
        NodeState::Up => 0,
        NodeState::Down => 1,
        NodeState::Out => 2,
        NodeState::Draining => 3,
    };
    out.extend_from_slice(&slot.0.to_le_bytes());
    out.extend_from_slice(&[state, u8::from(node.drain) | u8::from(node.silent) << 1]);
    out.extend_from_slice(&node.since.0.to_le_bytes());
    put_member(out, &node.member);
}

fn put_member(out: &mut Vec<u8>, member: &Member) {
    out.extend_from_slice(&member.uuid.0);
    out.extend_from_slice(&member.incarnation.to_le_bytes());
    out.extend_from_slice(&member.boot.to_le_bytes());
    let log = match member.log {
        NodeLog::Absent => 0,
        NodeLog::Open => HAS_LOG,
        NodeLog::Failed => HAS_LOG | LOG_FAILED,
    };
    out.extend_from_slice(&(member.weight | log).to_le_bytes());
    out.extend_from_slice(&member.protocol.min.to_le_bytes());
    out.extend_from_slice(&member.protocol.max.to_le_bytes());
    put_string(out, &member.name);
    put_string(out, &member.zone);
    out.push(member.addresses.len() as u8);
    member.addresses.iter().for_each(|address| put_string(out, address));
}

/// The limit of every string fits a byte.
fn put_string(out: &mut Vec<u8>, string: &str) {
    out.push(string.len() as u8);
    out.extend_from_slice(string.as_bytes());
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    for at in 0..ACTING_MAX {
        let slot = group.acting.get(at).copied().unwrap_or(Slot::NONE);
        out.extend_from_slice(&slot.0.to_le_bytes());
    }
    out.extend_from_slice(&group.prior.unwrap_or(Slot::NONE).0.to_le_bytes());
    out.push(group.in_sync);
    out.extend_from_slice(&group.since.0.to_le_bytes());
}

fn read_nodes(reader: &mut Reader<'_>, count: usize) -> Result<BTreeMap<Slot, Node>, BadBytes> {
    let mut nodes = BTreeMap::new();
    for _ in 0..count {
        let slot = Slot(reader.u16()?);
        if nodes.last_key_value().is_some_and(|(last, _)| *last >= slot) {
            return Err(reader.wrong("the nodes are not in the order of their slots"));
        }
        let state = match reader.u8()? {
            0 => NodeState::Up,
            1 => NodeState::Down,
            2 => NodeState::Out,
            3 => NodeState::Draining,
            _ => return Err(reader.wrong("not the state of a node")),
        };
        let flags = reader.u8()?;
        if flags > 3 {
            return Err(reader.wrong("a flag of a node that is reserved is set"));
        }
        let (drain, silent) = (flags & 1 != 0, flags & 2 != 0);
        let since = Epoch(reader.u64()?);
        let member = read_member(reader)?;
        nodes.insert(slot, Node { member, state, drain, since, silent });
    }
    Ok(nodes)
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, BadBytes> {
    let uuid = NodeUuid(reader.array()?);
    let incarnation = reader.u64()?;
    let boot = reader.u64()?;
    let weight = u32::from_le_bytes(reader.array()?);
    let (weight, log) = match (weight & HAS_LOG != 0, weight & LOG_FAILED != 0) {
        // Without a log the other bit makes a weight that is refused.
        (false, _) => (weight, NodeLog::Absent),
        (true, false) => (weight & !HAS_LOG, NodeLog::Open),
        (true, true) => (weight & !(HAS_LOG | LOG_FAILED), NodeLog::Failed),
    };
    let protocol = ProtocolRange { min: reader.u16()?, max: reader.u16()? };
    let name = reader.string()?;
    let zone = reader.string()?;
    let count = usize::from(reader.u8()?);
    if count > ADDRESSES_MAX {
        return Err(BadMember::Addresses { found: count }.into());
    }
    let addresses = (0..count).map(|_| reader.string()).collect::<Result<_, _>>()?;
    Ok(Member { uuid, name, incarnation, boot, addresses, zone, weight, log, protocol })
}

fn read_group(reader: &mut Reader<'_>) -> Result<Group, BadBytes> {
    let mut acting = Vec::with_capacity(ACTING_MAX);
    let mut ended = false;
    for _ in 0..ACTING_MAX {
        let slot = Slot(reader.u16()?);
        if slot == Slot::NONE {
            ended = true;
        } else if ended {
            return Err(reader.wrong("an acting node after an empty place"));
        } else {
            acting.push(slot);
        }
    }
    let prior = Some(Slot(reader.u16()?)).filter(|slot| *slot != Slot::NONE);
    let in_sync = reader.u8()?;
    let since = Epoch(reader.u64()?);
    Ok(Group { acting, in_sync, prior, since })
}

/// Bytes that are read from the front.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the head.
    fn new(bytes: &'a [u8], magic: [u8; 6]) -> Result<Self, BadBytes> {
        let mut reader = Self { bytes, at: 0 };
        if reader.array::<6>()? != magic {
            return Err(BadBytes::Magic);
        }
        let found = reader.u16()?;
        if found != VERSION {
            return Err(BadBytes::Version { found });
        }
        Ok(reader)
    }

    fn wrong(&self, problem: &'static str) -> BadBytes {
        BadBytes::Field { at: self.at, problem }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadBytes> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (array, _) = rest.split_first_chunk().ok_or(BadBytes::Short { at: self.at })?;
        self.at += N;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, BadBytes> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, BadBytes> {
        self.array().map(u16::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadBytes> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Result<String, BadBytes> {
        let length = usize::from(self.u8()?);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let bytes = rest.get(..length).ok_or(BadBytes::Short { at: self.at })?;
        self.at += length;
        let string = std::str::from_utf8(bytes);
        string.map(str::to_owned).map_err(|_| self.wrong("a string is not UTF-8"))
    }

    fn end(&self) -> Result<(), BadBytes> {
        let left = self.bytes.len() - self.at;
        if left > 0 { Err(BadBytes::Long { found: left }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
