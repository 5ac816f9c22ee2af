//! The properties of an object besides its bytes.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::id::{Name, ObjectId};
use crate::limits::{
    ATTRIBUTES_BYTES_MAX, COPIES_MAX, MEMBERS_MAX, METADATA_BYTES_MAX, OBJECT_ALIGN,
    OBJECT_BYTES_MAX,
};
use crate::pool::{Birth, Keeping, Origin};

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
    /// Immutable and on other nodes of the pool; a get brings a copy here.
    Remote = 8,
    /// A pooled object of which nothing can be found out now.
    Unreachable = 9,
}

impl ObjectState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Absent,
        Self::Creating,
        Self::Sealed,
        Self::Spilled,
        Self::Evicted,
        Self::Deleted,
        Self::CreatorDied,
        Self::Corrupt,
        Self::Remote,
        Self::Unreachable,
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
            Self::Remote => "remote",
            Self::Unreachable => "unreachable",
        }
    }

    /// The error that a get of an object in this state ends in, `None` where it can succeed.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Absent => Some(Code::Absent),
            Self::Creating => Some(Code::NotSealed),
            Self::Sealed | Self::Spilled | Self::Remote => None,
            Self::Evicted => Some(Code::Evicted),
            Self::Deleted => Some(Code::Deleted),
            Self::CreatorDied => Some(Code::CreatorDied),
            Self::Corrupt => Some(Code::Corrupt),
            Self::Unreachable => Some(Code::Unreachable),
        }
    }

    /// Whether a get of such an object can succeed now.
    pub const fn is_readable(self) -> bool {
        matches!(self, Self::Sealed | Self::Spilled | Self::Remote)
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
    /// What a pool needs to know of it. Stored as a trailer that only such objects have, so that
    /// all others are stored as they were before there were pools.
    #[serde(skip)]
    pub pool: Option<PoolAttributes>,
    /// Whether it is in the store's log before it is seen, and outlives the machine's power. Stored
    /// as a trailer that only such objects have. Of an object in a pool its class says so instead.
    #[serde(skip)]
    pub durable: bool,
}

/// The attributes of an object in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolAttributes {
    /// How many nodes shall keep a copy, 1 to [`COPIES_MAX`].
    pub copies: u8,
    /// With how many copies it is accepted when there are no more nodes, 1 to `copies`.
    pub copies_min: u8,
    /// What it shall survive.
    pub class: Durability,
    /// Where its copies are.
    #[serde(skip)]
    pub placement: CopyPlacement,
    /// The node where it was made and the number of its store, in a copy that was brought here.
    /// An object that was made in this store has none.
    pub origin: Option<Origin>,
    /// Tells the incarnations of an id apart, along with the origin: its creator draws it at
    /// random.
    pub serial: u64,
    /// Whether its members are deleted with it. Told apart by the first byte of the trailer.
    #[serde(skip)]
    pub owns_members: bool,
}

impl PoolAttributes {
    /// Those of an object that has none: one copy, which is kept where it was made.
    pub const ONE: Self = Self {
        copies: 1,
        copies_min: 1,
        class: Durability::Memory,
        placement: CopyPlacement::Local,
        origin: None,
        serial: 0,
        owns_members: false,
    };

    /// The incarnation that an object with these attributes is, in a store that is `here`.
    pub fn birth(&self, here: Origin) -> Birth {
        let Origin { slot, boot } = self.origin.unwrap_or(here);
        Birth { slot, boot, serial: self.serial }
    }

    /// Which of its copies count. Where a cache was asked for with several copies, as earlier
    /// versions did, they are kept.
    pub fn keeping(&self) -> Keeping {
        match (self.class, self.placement) {
            (Durability::Cache, _) if self.copies == 1 => Keeping::Cache,
            (_, CopyPlacement::Local) => Keeping::Local,
            (_, CopyPlacement::Spread) => Keeping::Spread,
        }
    }

    /// Whether the copies that count are in the logs of their nodes.
    pub fn is_durable(&self) -> bool {
        self.class == Durability::Durable
    }

    fn trailer(&self) -> u8 {
        let owner = if self.owns_members { OWNS_MEMBERS } else { 0 };
        let spread = if self.placement == CopyPlacement::Spread { SPREAD } else { 0 };
        POOL_TRAILER + owner + spread
    }

    /// The bytes that follow other attributes, in memory and in the spill tier.
    pub fn encode_trailer(&self) -> Vec<u8> {
        let mut bytes = vec![self.trailer()];
        bytes.extend(postcard::to_allocvec(self).unwrap_or_default());
        bytes
    }

    /// Reads what follows other attributes, which is nothing for an object in no pool. The bytes
    /// may be hostile.
    pub fn decode_trailer(bytes: &[u8]) -> Result<Option<Self>, BadAttributes> {
        let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
        let (pool, rest): (Self, &[u8]) =
            postcard::take_from_bytes(rest).map_err(|_| BadAttributes)?;
        let with = |(owns_members, placement)| Self { owns_members, placement, ..pool };
        let kinds =
            [false, true].into_iter().flat_map(|owns| CopyPlacement::ALL.map(|it| (owns, it)));
        let pool = kinds.map(with).find(|pool| pool.trailer() == *kind).ok_or(BadAttributes)?;
        if rest.is_empty() && pool.is_valid() { Ok(Some(pool)) } else { Err(BadAttributes) }
    }

    /// Whether so many copies can be asked for.
    fn is_valid(&self) -> bool {
        (1..=COPIES_MAX).contains(&self.copies) && (1..=self.copies).contains(&self.copies_min)
    }
}

/// Where the copies of a pooled object are that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CopyPlacement {
    /// The first is on the node of its creator.
    #[default]
    Local,
    /// All are on other nodes. That of its creator's node may be evicted once they are there.
    Spread,
}

impl CopyPlacement {
    /// All of them.
    const ALL: [Self; 2] = [Self::Local, Self::Spread];

    /// The stable name.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Spread => "spread",
        }
    }

    /// The placement of a name.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.key() == key)
    }
}

/// What a pooled object survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing: its one copy may be evicted.
    Cache,
    /// The loss of all nodes with a copy but one.
    #[default]
    Memory,
    /// A loss of power of all nodes: its copies are in persistent logs.
    Durable,
}

impl Durability {
    /// The stable name.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Memory => "memory",
            Self::Durable => "durable",
        }
    }

    /// The class of a name.
    pub fn of_key(key: &str) -> Option<Self> {
        [Self::Cache, Self::Memory, Self::Durable].into_iter().find(|it| it.key() == key)
    }
}

impl Attributes {
    /// Whether there is nothing to store.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let Self { name, ttl_ms, members, pool, durable } = self;
        name.is_none() && ttl_ms.is_none() && members.is_empty() && pool.is_none() && !durable
    }

    /// Whether it is to outlive the machine's power, alone or in a pool.
    pub fn is_durable(&self) -> bool {
        self.durable || self.pool.is_some_and(|pool| pool.is_durable())
    }

    /// The attributes of a copy of this object on another node, which say where it was made. What
    /// depends on a clock is left to the node where it was made.
    #[must_use]
    pub fn of_copy(&self, birth: Birth) -> Self {
        let Birth { slot, boot, serial } = birth;
        let origin = Some(Origin { slot, boot });
        let pool = self.pool.unwrap_or(PoolAttributes::ONE);
        let pool = PoolAttributes { origin, serial, ..pool };
        let (name, members) = (self.name.clone(), self.members.clone());
        Self { name, ttl_ms: None, members, pool: Some(pool), durable: false }
    }

    /// The stored form; nothing for empty attributes.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = postcard::to_allocvec(self).unwrap_or_default();
        bytes.extend(self.encode_trailer());
        bytes
    }

    /// The bytes that follow the attributes that every object can have: nothing, or what a pool
    /// needs to know, or the mark of a durable object.
    pub fn encode_trailer(&self) -> Vec<u8> {
        match &self.pool {
            Some(pool) => pool.encode_trailer(),
            None if self.durable => vec![DURABLE_TRAILER],
            None => Vec::new(),
        }
    }

    /// Takes over what [`Self::encode_trailer`] made. The bytes may be hostile.
    pub fn take_trailer(&mut self, bytes: &[u8]) -> Result<(), BadAttributes> {
        self.durable = *bytes == [DURABLE_TRAILER];
        self.pool = match self.durable {
            true => None,
            false => PoolAttributes::decode_trailer(bytes)?,
        };
        Ok(())
    }

    /// Reads the stored form back; the bytes may be hostile.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadAttributes> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if bytes.len() > ATTRIBUTES_BYTES_MAX {
            return Err(BadAttributes);
        }
        let (mut attributes, trailer): (Self, _) =
            postcard::take_from_bytes(bytes).map_err(|_| BadAttributes)?;
        attributes.take_trailer(trailer)?;
        attributes.check()?;
        Ok(attributes)
    }

    /// Whether the attributes keep their limits.
    pub fn check(&self) -> Result<(), BadAttributes> {
        let named = self.name.as_ref().is_none_or(|name| name.check().is_ok());
        let pooled = self.pool.as_ref().is_none_or(PoolAttributes::is_valid);
        let durable = !self.durable || self.pool.is_none();
        let valid = named && pooled && durable && self.members.len() <= MEMBERS_MAX;
        if valid { Ok(()) } else { Err(BadAttributes) }
    }
}

/// The first byte of the trailer with [`PoolAttributes`]; more than that where they say what
/// earlier versions did not know, and refuse.
const POOL_TRAILER: u8 = 1;

/// The trailer of a durable object that is in no pool.
const DURABLE_TRAILER: u8 = 16;

/// What is added where the members are deleted with the object, and where it is spread.
const OWNS_MEMBERS: u8 = 1;
const SPREAD: u8 = 2;

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

    /// A kind of value in words.
    pub fn in_words(tag: u8) -> &'static str {
        match tag {
            RAW => "bytes",
            ARROW_STREAM => "table",
            NDARRAY => "array",
            PYTHON => "python",
            COMPOSITE => "table in parts",
            _ => "unknown",
        }
    }
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
    /// Whether it outlives the machine's power.
    pub durable: bool,
    /// Copies that nodes of the pool keep, in a listing over all of them. A store does not know it,
    /// and it is not part of its messages.
    #[serde(skip)]
    pub copies: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Slot;

    #[test]
    fn attributes_come_back_and_hostile_ones_do_not() {
        let full = Attributes {
            name: Some(Name::new("ns", "x").unwrap()),
            ttl_ms: Some(u64::MAX),
            members: vec![ObjectId::new([7; 20]); 3],
            pool: None,
            durable: false,
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
    fn attributes_of_a_pool_are_a_trailer_and_others_are_stored_as_before() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let name = Some(Name::new("ns", "x").unwrap());
        let local = Attributes { name, ttl_ms: Some(300), ..Attributes::default() };
        assert_eq!(hex(&local.encode()), "01026e73017801ac0200");

        let origin = Some(Origin { slot: Slot(3), boot: 4 });
        let class = Durability::Memory;
        let pool = PoolAttributes {
            copies: 2,
            copies_min: 1,
            class,
            origin,
            serial: 300,
            ..PoolAttributes::ONE
        };
        let pooled = Attributes { pool: Some(pool), ..local.clone() };
        assert_eq!(hex(&pooled.encode()), "01026e73017801ac020001020101010304ac02");
        assert_eq!(Attributes::decode(&pooled.encode()), Ok(pooled.clone()));
        let alone = Attributes { pool: Some(pool), ..Attributes::default() };
        assert!(!alone.is_empty());
        assert_eq!(Attributes::decode(&alone.encode()), Ok(alone));

        let bytes = pooled.encode();
        for cut in local.encode().len() + 1..bytes.len() {
            assert_eq!(Attributes::decode(&bytes[..cut]), Err(BadAttributes), "{cut}");
        }
        assert_eq!(Attributes::decode(&[&bytes[..], &[0]].concat()), Err(BadAttributes));
        for kind in [0, 5, 255] {
            let mut other = bytes.clone();
            other[local.encode().len()] = kind;
            assert_eq!(Attributes::decode(&other), Err(BadAttributes), "{kind}");
        }

        for (owns_members, placement, kind) in [
            (true, CopyPlacement::Local, 2),
            (false, CopyPlacement::Spread, 3),
            (true, CopyPlacement::Spread, 4),
        ] {
            let pool = PoolAttributes { owns_members, placement, ..pool };
            let other = Attributes { pool: Some(pool), ..local.clone() };
            let mut encoded = bytes.clone();
            encoded[local.encode().len()] = kind;
            assert_eq!(other.encode(), encoded);
            assert_eq!(Attributes::decode(&encoded), Ok(other));
        }
    }

    #[test]
    fn a_durable_object_has_a_mark_after_its_other_attributes() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let marked = Attributes { durable: true, ..Attributes::default() };
        assert!(!marked.is_empty());
        assert_eq!(hex(&marked.encode()), "00000010");
        assert_eq!(Attributes::decode(&marked.encode()), Ok(marked.clone()));
        let name = Some(Name::new("ns", "x").unwrap());
        let named = Attributes { name, ttl_ms: Some(300), ..marked.clone() };
        assert_eq!(hex(&named.encode()), "01026e73017801ac020010");
        assert_eq!(Attributes::decode(&named.encode()), Ok(named.clone()));
        for more in [&[0][..], &[16]] {
            let longer = [&named.encode()[..], more].concat();
            assert_eq!(Attributes::decode(&longer), Err(BadAttributes), "{more:?}");
        }
        let pool = Some(PoolAttributes::ONE);
        assert_eq!(Attributes { pool, ..marked }.check(), Err(BadAttributes));
    }

    #[test]
    fn which_copies_count_follows_from_what_was_asked_for() {
        use {CopyPlacement::*, Durability::*};
        for (class, placement, copies, keeping) in [
            (Memory, Local, 1, Keeping::Local),
            (Memory, Spread, 2, Keeping::Spread),
            (Cache, Local, 1, Keeping::Cache),
            (Cache, Local, 2, Keeping::Local),
            (Durable, Spread, 1, Keeping::Spread),
        ] {
            let pool = PoolAttributes { class, placement, copies, ..PoolAttributes::ONE };
            assert_eq!(pool.keeping(), keeping, "{pool:?}");
            let birth = Birth { slot: Slot(1), boot: 2, serial: 3 };
            let made = Attributes { pool: Some(pool), ..Attributes::default() };
            assert_eq!(made.of_copy(birth).pool.unwrap().keeping(), keeping, "a copy of it");
        }
        for class in [Cache, Memory, Durable] {
            assert_eq!(Durability::of_key(class.key()), Some(class));
        }
        for placement in [Local, Spread] {
            assert_eq!(CopyPlacement::of_key(placement.key()), Some(placement));
        }
        assert_eq!((Durability::of_key("keep"), CopyPlacement::of_key("")), (None, None));
    }

    #[test]
    fn a_copy_has_the_members_and_the_name_and_no_time_to_live() {
        let (class, owns_members) = (Durability::Memory, true);
        let pool = PoolAttributes {
            copies: 3,
            copies_min: 2,
            class,
            serial: 9,
            owns_members,
            ..PoolAttributes::ONE
        };
        let name = Some(Name::new("@ns", "x").unwrap());
        let members = vec![ObjectId::pooled([4; 12], Some(1)); 2];
        let (ttl_ms, pool) = (Some(1), Some(pool));
        let made = Attributes { name, ttl_ms, members, pool, durable: false };
        let birth = Birth { slot: Slot(1), boot: 5, serial: 9 };
        let origin = Some(Origin { slot: Slot(1), boot: 5 });
        let pool = pool.map(|pool| PoolAttributes { origin, ..pool });
        assert_eq!(made.of_copy(birth), Attributes { ttl_ms: None, pool, ..made });
        assert!(!Attributes::default().of_copy(birth).pool.unwrap().owns_members);
    }

    #[test]
    fn the_birth_of_a_copy_is_that_of_its_origin() {
        let here = Origin { slot: Slot(1), boot: 2 };
        let class = Durability::default();
        let made = PoolAttributes { class, serial: 7, ..PoolAttributes::ONE };
        assert_eq!(made.birth(here), Birth { slot: Slot(1), boot: 2, serial: 7 });
        let brought = PoolAttributes { origin: Some(Origin { slot: Slot(3), boot: 4 }), ..made };
        assert_eq!(brought.birth(here), Birth { slot: Slot(3), boot: 4, serial: 7 });
    }

    #[test]
    fn copies_at_and_past_their_limits() {
        for (copies, copies_min, is_valid) in [
            (1, 1, true),
            (COPIES_MAX, COPIES_MAX, true),
            (COPIES_MAX + 1, 1, false),
            (0, 0, false),
            (2, 0, false),
            (2, 3, false),
        ] {
            let class = Durability::default();
            let (origin, serial) = (None, 1);
            let pool = Some(PoolAttributes {
                copies,
                copies_min,
                class,
                origin,
                serial,
                ..PoolAttributes::ONE
            });
            let bytes = Attributes { pool, ..Attributes::default() }.encode();
            assert_eq!(Attributes::decode(&bytes).is_ok(), is_valid, "{copies} {copies_min}");
        }
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
