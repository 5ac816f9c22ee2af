//! Regions: memory of a pool that is written by address, and read once it is sealed.
//!
//! ```text
//!   allocate ──► under construction on its home ── write, from any node ──► seal ──► an object
//!                        └── free, or the end of what allocated it ──► gone
//! ```
//!
//! A region is an object under construction on the node that its id names. Programs ask the pool
//! daemon of their machine ([`crate::pool_admin`]), which asks the home.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::id::ObjectId;
use crate::inline::InlineBytes;
use crate::limits::{COPIES_MAX, NODE_NAME_BYTES_MAX, OBJECT_BYTES_MAX};

/// Bytes of a region that one request writes: they fit a frame, and a message between nodes. More
/// is written by several.
pub const REGION_PIECE_BYTES_MAX: usize = 60 << 10;

/// Writes of one connection that a pool daemon has under way.
pub const REGION_WRITES_MAX: usize = 8;

/// A place in a region: its id, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The region, and the object that it is once it is sealed.
    pub id: ObjectId,
    /// Where in its data.
    pub offset: u64,
}

impl Address {
    /// The beginning of a region.
    pub const fn new(id: ObjectId) -> Self {
        Self { id, offset: 0 }
    }

    /// The address so many bytes further on; `None` beyond the largest number.
    pub fn plus(self, bytes: u64) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }
}

/// The digits of the id, a plus, and the offset in decimal digits.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.id, self.offset)
    }
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address is the 40 digits of an id of the pool, a plus, and an offset")]
pub struct BadAddress;

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (id, offset) = text.split_once('+').ok_or(BadAddress)?;
        let id: ObjectId = id.parse().map_err(|_| BadAddress)?;
        let is_number = !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit());
        let offset = offset.parse().ok().filter(|_| is_number && is_region(&id));
        Ok(Self { id, offset: offset.ok_or(BadAddress)? })
    }
}

/// Whether a region can have this id: it says on which node.
pub fn is_region(id: &ObjectId) -> bool {
    id.is_pooled() && id.home().is_some()
}

/// Asks for a new region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateRequest {
    /// Bytes of its data.
    pub bytes: u64,
    /// How many nodes shall have the sealed object.
    pub copies: u8,
    /// How many at least, before the seal is answered.
    pub copies_min: u8,
    /// The name of its home; `None`: this node.
    pub node: Option<String>,
}

impl AllocateRequest {
    /// Whether it keeps the limits.
    pub fn is_valid(&self) -> bool {
        let is_name = |name: &String| (1..=NODE_NAME_BYTES_MAX).contains(&name.len());
        self.bytes <= OBJECT_BYTES_MAX
            && is_copies(self.copies, self.copies_min)
            && self.node.as_ref().is_none_or(is_name)
    }
}

fn is_copies(copies: u8, copies_min: u8) -> bool {
    (1..=COPIES_MAX).contains(&copies) && (1..=copies).contains(&copies_min)
}

/// What the home of a region is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionRequest {
    /// Between nodes alone: make memory for a new region.
    Allocate {
        /// Its id, drawn by the node that asks.
        id: ObjectId,
        /// Bytes of its data.
        bytes: u64,
        /// How many nodes shall have the sealed object.
        copies: u8,
        /// How many at least, before the seal is answered.
        copies_min: u8,
    },
    /// Put these bytes into it.
    Write {
        /// The region.
        id: ObjectId,
        /// Where they begin.
        offset: u64,
        /// The bytes, at most [`REGION_PIECE_BYTES_MAX`].
        bytes: InlineBytes,
    },
    /// Make it an object, which nothing changes any more.
    Seal {
        /// The region.
        id: ObjectId,
    },
    /// End it, unless it is sealed.
    Free {
        /// The region.
        id: ObjectId,
        /// Between nodes alone: what allocated it is gone.
        is_abandoned: bool,
    },
    /// What is with it?
    Look {
        /// The region.
        id: ObjectId,
    },
}

impl RegionRequest {
    /// The region.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Allocate { id, .. }
            | Self::Write { id, .. }
            | Self::Seal { id }
            | Self::Free { id, .. }
            | Self::Look { id } => *id,
        }
    }

    /// Whether it keeps the limits.
    pub fn is_valid(&self) -> bool {
        let keeps_limits = match self {
            Self::Allocate { bytes, copies, copies_min, .. } => {
                *bytes <= OBJECT_BYTES_MAX && is_copies(*copies, *copies_min)
            }
            Self::Write { bytes, .. } => bytes.0.len() <= REGION_PIECE_BYTES_MAX,
            Self::Seal { .. } | Self::Free { .. } | Self::Look { .. } => true,
        };
        keeps_limits && is_region(&self.id())
    }

    /// Whether a program may ask it; the other requests are the pool daemons' own.
    pub fn is_of_program(&self) -> bool {
        !matches!(self, Self::Allocate { .. } | Self::Free { is_abandoned: true, .. })
    }
}

/// What became of a [`RegionRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionReply {
    /// It is done.
    Done,
    /// Between nodes alone: it is not decided yet, and asked again.
    Pending,
    /// The answer to [`RegionRequest::Look`]: it is under construction.
    Open {
        /// Bytes of its data.
        bytes: u64,
    },
    /// It was not done.
    Failed(RegionFailure),
}

/// Why something was not done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionFailure {
    /// The bytes are not within its data.
    Beyond {
        /// Where the data ends.
        bytes: u64,
    },
    /// It is sealed.
    Sealed,
    /// It was freed before it was sealed.
    Freed,
    /// What allocated it ended before it was sealed.
    AllocatorGone,
    /// The store of its home, or the pool, refused it.
    Refused(Code),
    /// Its home knows of no region under construction with this id.
    Unknown,
    /// The pool has no such node.
    NoNode,
    /// Its home was given up.
    Lost,
    /// Its home does not answer.
    Unreachable,
    /// The connection to its home is not there, or ended meanwhile: ask again.
    Interrupted,
    /// The node has too many regions, or requests under way.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::pool_admin::{Reply, Request};

    const TEXT: &str = "0909090909090909090909090300";

    fn id() -> ObjectId {
        ObjectId::pooled([9; 12], Some(3))
    }

    #[test]
    fn addresses_are_printed_and_read() {
        let address = Address::new(id()).plus(4096).unwrap();
        let text = address.to_string();
        assert!(text.starts_with("09090909") && text.ends_with("+4096"));
        assert_eq!(text.parse(), Ok(address));
        assert_eq!(address.plus(u64::MAX), None);
        let free = Address::new(ObjectId::pooled([9; 12], None)).to_string();
        let local = Address::new(ObjectId::new([1; 20])).to_string();
        let digits = id().to_string();
        for wrong in ["", "+1", &digits, &free, &local] {
            assert_eq!(wrong.parse::<Address>(), Err(BadAddress), "{wrong}");
        }
        for offset in ["", "-1", "+1", "1x", " 1", "18446744073709551616"] {
            assert_eq!(format!("{digits}+{offset}").parse::<Address>(), Err(BadAddress));
        }
    }

    #[test]
    fn requests_at_and_past_their_limits() {
        let allocate = |bytes, copies, copies_min| {
            RegionRequest::Allocate { id: id(), bytes, copies, copies_min }.is_valid()
        };
        assert!(allocate(OBJECT_BYTES_MAX, 8, 8) && allocate(0, 1, 1));
        assert!(!allocate(OBJECT_BYTES_MAX + 1, 1, 1));
        assert!(!allocate(1, 9, 1) && !allocate(1, 0, 0) && !allocate(1, 2, 3));
        let write = |id, bytes| RegionRequest::Write {
            id,
            offset: u64::MAX,
            bytes: InlineBytes(vec![1; bytes]),
        };
        assert!(write(id(), REGION_PIECE_BYTES_MAX).is_valid());
        assert!(!write(id(), REGION_PIECE_BYTES_MAX + 1).is_valid());
        assert!(!write(ObjectId::pooled([1; 12], None), 1).is_valid(), "an id without a home");
        assert!(!RegionRequest::Seal { id: ObjectId::new([1; 20]) }.is_valid());
        let largest = Request::Region(write(id(), REGION_PIECE_BYTES_MAX));
        let bytes = frame::encode_admin_request(u64::MAX, &largest).unwrap();
        assert_eq!(frame::decode_admin_request(&bytes), Ok((u64::MAX, largest)));
        let named = |name: &str| {
            let node = Some(name.to_owned());
            AllocateRequest { bytes: 1, copies: 1, copies_min: 1, node }.is_valid()
        };
        assert!(named("b") && !named("") && !named(&"n".repeat(NODE_NAME_BYTES_MAX + 1)));
    }

    #[test]
    fn requests_and_replies_are_a_format() {
        let hex =
            |bytes: &[u8]| bytes[16..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = id();
        let text = format!("{TEXT}40706f6f6c00");
        let allocate =
            AllocateRequest { bytes: 300, copies: 2, copies_min: 1, node: Some("b".to_owned()) };
        let write = RegionRequest::Write { id, offset: 300, bytes: InlineBytes(vec![7, 8]) };
        let request = |request| Request::Region(request);
        let requests = [
            (Request::Allocate(allocate), "08ac0202010101".to_owned() + "62"),
            (
                request(RegionRequest::Allocate { id, bytes: 300, copies: 2, copies_min: 1 }),
                format!("0900{text}ac020201"),
            ),
            (request(write), format!("0901{text}ac02020708")),
            (request(RegionRequest::Seal { id }), format!("0902{text}")),
            (request(RegionRequest::Free { id, is_abandoned: false }), format!("0903{text}00")),
            (request(RegionRequest::Look { id }), format!("0904{text}")),
        ];
        for (request, golden) in requests {
            let bytes = frame::encode_admin_request(1, &request).unwrap();
            assert_eq!(hex(&bytes), golden, "{request:?}");
            assert_eq!(frame::decode_admin_request(&bytes), Ok((1, request)));
        }
        let failed = |failure| Reply::Region(RegionReply::Failed(failure));
        let replies = [
            (Reply::Allocated(id), format!("07{text}")),
            (Reply::Region(RegionReply::Done), "0800".to_owned()),
            (Reply::Region(RegionReply::Pending), "0801".to_owned()),
            (Reply::Region(RegionReply::Open { bytes: 300 }), "0802ac02".to_owned()),
            (failed(RegionFailure::Beyond { bytes: 300 }), "080300ac02".to_owned()),
            (failed(RegionFailure::Refused(Code::StoreFull)), "08030402".to_owned()),
            (failed(RegionFailure::Busy), "08030a".to_owned()),
        ];
        for (reply, golden) in replies {
            let bytes = frame::encode_admin_reply(1, &reply).unwrap();
            assert_eq!(hex(&bytes), golden, "{reply:?}");
            assert_eq!(frame::decode_admin_reply(&bytes), Ok((1, reply)));
        }
    }
}
