//! The properties of an object besides its bytes.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::id::{Name, ObjectId};
use crate::limits::{
    ATTRIBUTES_BYTES_MAX, MEMBERS_MAX, METADATA_BYTES_MAX, OBJECT_ALIGN, OBJECT_BYTES_MAX,
};

/// What the store may do with an object when memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Policy {
    /// Never dropped; spilled to a file when that is allowed, else it keeps its memory.
    #[default]
    Keep = 0,
    /// May be evicted, the least recently used first.
    Cache = 1,
}

/// Where an object is in its life, in terms that callers can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ObjectState {
    /// Not there: never created, or ended so long ago that its end is forgotten.
    Absent = 0,
    /// Its creator is writing it.
    Creating = 1,
    /// Immutable and in memory.
    Sealed = 2,
    /// Immutable and in a file; a get brings it back.
    Spilled = 3,
    /// Dropped by the store to make room.
    Evicted = 4,
    /// Deleted by a client, or its time to live ended.
    Deleted = 5,
    /// Its creator died before sealing it.
    CreatorDied = 6,
    /// Its bytes do not match their checksum.
    Corrupt = 7,
}

impl ObjectState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Absent,
        Self::Creating,
        Self::Sealed,
        Self::Spilled,
        Self::Evicted,
        Self::Deleted,
        Self::CreatorDied,
        Self::Corrupt,
    ];

    /// The stable name, as scripts and other languages see it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Creating => "creating",
            Self::Sealed => "sealed",
            Self::Spilled => "spilled",
            Self::Evicted => "evicted",
            Self::Deleted => "deleted",
            Self::CreatorDied => "creator_died",
            Self::Corrupt => "corrupt",
        }
    }

    /// The error that a get of an object in this state ends in, `None` where it can succeed.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Absent => Some(Code::Absent),
            Self::Creating => Some(Code::NotSealed),
            Self::Sealed | Self::Spilled => None,
            Self::Evicted => Some(Code::Evicted),
            Self::Deleted => Some(Code::Deleted),
            Self::CreatorDied => Some(Code::CreatorDied),
            Self::Corrupt => Some(Code::Corrupt),
        }
    }

    /// Whether a get of such an object can succeed now.
    pub const fn is_readable(self) -> bool {
        matches!(self, Self::Sealed | Self::Spilled)
    }
}

/// How well sealed objects are protected against their writer (readers never can write).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Level {
    /// One user's processes: readers hold read-only descriptors; memory is recycled among them.
    Shared = 0,
    /// The memory cannot be mapped for writing any more; its one writer still has its mapping.
    Leased = 1,
    /// The writer gave its mapping up and the kernel refuses every write.
    Strict = 2,
}

impl Level {
    /// The stable name.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Leased => "leased",
            Self::Strict => "strict",
        }
    }
}

/// The rarer attributes of an object, which its creator gives once.
///
/// They lie, encoded, after the object's metadata (see `docs/formats/shared-memory.md`), so that a
/// restarted daemon finds them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The name that the id was made from.
    pub name: Option<Name>,
    /// Milliseconds after sealing at which the object deletes itself.
    pub ttl_ms: Option<u64>,
    /// Objects that this one is made of; they live at least as long as it does.
    pub members: Vec<ObjectId>,
}

impl Attributes {
    /// Whether there is nothing to store.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let Self { name, ttl_ms, members } = self;
        name.is_none() && ttl_ms.is_none() && members.is_empty()
    }

    /// The stored form; nothing for empty attributes.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads the stored form back; the bytes may be hostile.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadAttributes> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if bytes.len() > ATTRIBUTES_BYTES_MAX {
            return Err(BadAttributes);
        }
        let (attributes, rest): (Self, _) =
            postcard::take_from_bytes(bytes).map_err(|_| BadAttributes)?;
        attributes.check()?;
        if rest.is_empty() { Ok(attributes) } else { Err(BadAttributes) }
    }

    /// Whether the attributes keep their limits.
    pub fn check(&self) -> Result<(), BadAttributes> {
        let named = self.name.as_ref().is_none_or(|name| name.check().is_ok());
        if named && self.members.len() <= MEMBERS_MAX { Ok(()) } else { Err(BadAttributes) }
    }
}

/// Bytes that are no attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes after the metadata are not object attributes")]
pub struct BadAttributes;

/// The sizes of an object's three parts, which follow each other: data, metadata,
/// attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of data.
    pub data: u64,
    /// Bytes of metadata.
    pub metadata: u64,
    /// Bytes of encoded attributes.
    pub attributes: u64,
}

impl Sizes {
    /// All bytes of the object, or `None` when a part exceeds its limit.
    #[inline]
    pub fn total(&self) -> Option<u64> {
        let within = self.data <= OBJECT_BYTES_MAX
            && self.metadata <= METADATA_BYTES_MAX
            && self.attributes <= ATTRIBUTES_BYTES_MAX as u64;
        within.then(|| self.data + self.metadata + self.attributes)
    }

    /// The bytes that the object occupies: [`Self::total`] rounded up to the alignment, at least
    /// one unit, so that every object has its own address.
    #[inline]
    pub fn footprint(&self) -> Option<u64> {
        self.total().map(|total| total.next_multiple_of(OBJECT_ALIGN).max(OBJECT_ALIGN))
    }
}

/// The small facts that fit an index slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// What the store may do when memory is short.
    pub policy: Policy,
    /// The type of value that the bytes hold; the store itself does not look at it. See [`tag`].
    pub tag: u8,
    /// Whether it is deleted with the last composite that holds it.
    pub owned: bool,
}

/// What is known of an object from the moment at which it is complete, wherever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMeta {
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// How long its creator took to seal it, in milliseconds; an index slot says up to a 64th more.
    pub construct_ms: u64,
}

impl ObjectMeta {
    /// When it was sealed, in milliseconds since 1970.
    pub fn sealed_ms(&self) -> u64 {
        self.created_ms.saturating_add(self.construct_ms)
    }
}

/// The registered kinds of values ([`Traits::tag`]).
pub mod tag {
    /// Bytes as they are.
    pub const RAW: u8 = 0;
    /// An Arrow IPC stream.
    pub const ARROW_STREAM: u8 = 1;
    /// One array of numbers with its NumPy description in the metadata.
    pub const NDARRAY: u8 = 2;
    /// A Python object in the PLO format.
    pub const PYTHON: u8 = 3;
    /// A column or table built in place: the descriptor of a composite object.
    pub const COMPOSITE: u8 = 4;
}

/// A description of one object, for listings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// The id.
    pub id: ObjectId,
    /// Its state.
    pub state: ObjectState,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
    /// The name, where it has one.
    pub name: Option<Name>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// How long its creator took to seal it, in milliseconds.
    pub construct_ms: u64,
    /// When it deletes itself, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The process that created it, 0 when that is no longer known.
    pub creator_pid: u32,
    /// Pins that clients hold on it at this moment.
    pub pins: u32,
    /// Composite objects that hold it.
    pub holders: u32,
    /// How it is protected.
    pub level: Level,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_and_hostile_ones_do_not() {
        let full = Attributes {
            name: Some(Name::new("ns", "x").unwrap()),
            ttl_ms: Some(u64::MAX),
            members: vec![ObjectId::new([7; 20]); 3],
        };
        assert_eq!(Attributes::decode(&full.encode()), Ok(full.clone()));
        assert!(Attributes::default().encode().is_empty());
        assert_eq!(Attributes::decode(&[]), Ok(Attributes::default()));
        for cut in 1..full.encode().len() {
            assert_eq!(Attributes::decode(&full.encode()[..cut]), Err(BadAttributes), "{cut}");
        }
        let mut longer = full.encode();
        longer.push(0);
        assert_eq!(Attributes::decode(&longer), Err(BadAttributes));
    }

    #[test]
    fn sizes_at_and_past_their_limits() {
        let data = |data| Sizes { data, ..Sizes::default() };
        assert_eq!(data(0).footprint(), Some(64));
        assert_eq!(data(64).footprint(), Some(64));
        assert_eq!(data(65).footprint(), Some(128));
        assert!(data(OBJECT_BYTES_MAX).footprint().is_some());
        assert_eq!(data(OBJECT_BYTES_MAX + 1).footprint(), None);
        assert_eq!(data(1 << 63).total(), None);
        assert_eq!(data(u64::MAX).total(), None);
        assert_eq!(Sizes { metadata: METADATA_BYTES_MAX + 1, ..data(0) }.total(), None);
    }
}
