//! Object ids and names.
//!
//! An object is known by 20 bytes. A name (a namespace and a text) is mapped to an id by hashing,
//! so looking a name up needs no table and no message: every process computes the same id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::{NAME_BYTES_MAX, NAMESPACE_BYTES_MAX};

/// Bytes in an object id.
pub const OBJECT_ID_BYTES: usize = 20;

/// Bytes of a pooled id that tell it from all others.
pub const POOLED_IDENTITY_BYTES: usize = 12;

/// What a pooled id ends in. Six bytes, because clients may choose their ids at random.
const POOLED_MARK: [u8; 6] = *b"@pool\0";

/// The home of a pooled id that has none.
const NO_HOME: u16 = 0xffff;

/// The 20-byte id of an object, chosen by its creator.
///
/// The id of an object in a pool of several nodes says so itself:
///
/// | bytes | in a pooled id |
/// |---|---|
/// | 0-11 | identity |
/// | 12-13 | slot of the node that makes the object, little-endian; `0xffff` when it has no home |
/// | 14-19 | the mark `@pool` and a zero |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId([u8; OBJECT_ID_BYTES]);

impl ObjectId {
    /// The id with exactly these bytes.
    #[inline]
    pub const fn new(bytes: [u8; OBJECT_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The id in `bytes`, or `None` unless there are exactly 20.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The id that `name` stands for: the first 20 bytes of a keyed BLAKE3 of namespace and text.
    /// For a name of a pool, the first 12 are the identity of a free pooled id.
    pub fn from_name(name: &Name) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("plasmon 2026 name to object id v1");
        hasher.update(&(name.namespace.len() as u64).to_le_bytes());
        hasher.update(name.namespace.as_bytes());
        hasher.update(name.text.as_bytes());
        let hash = hasher.finalize();
        if name.is_pooled() {
            let mut identity = [0; POOLED_IDENTITY_BYTES];
            identity.copy_from_slice(&hash.as_bytes()[..POOLED_IDENTITY_BYTES]);
            return Self::pooled(identity, None);
        }
        let mut bytes = [0; OBJECT_ID_BYTES];
        bytes.copy_from_slice(&hash.as_bytes()[..OBJECT_ID_BYTES]);
        Self(bytes).unmarked()
    }

    /// The same id, or one that differs in a bit if this one happens to have the mark of pooled
    /// ids. Used where ids are made from hashes or at random.
    #[must_use]
    pub const fn unmarked(self) -> Self {
        let mut bytes = self.0;
        if self.is_pooled() {
            bytes[OBJECT_ID_BYTES - 1] ^= 1;
        }
        Self(bytes)
    }

    /// The id of an object in a pool: of one that is made on the node in slot `home` and never
    /// again, or of one that any node may make. Slot `0xffff` is no home.
    pub const fn pooled(identity: [u8; POOLED_IDENTITY_BYTES], home: Option<u16>) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11] = identity;
        let [h0, h1] = match home {
            Some(slot) => slot.to_le_bytes(),
            None => NO_HOME.to_le_bytes(),
        };
        let [m0, m1, m2, m3, m4, m5] = POOLED_MARK;
        Self([a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, h0, h1, m0, m1, m2, m3, m4, m5])
    }

    /// Whether this is the id of an object in a pool.
    #[inline]
    pub const fn is_pooled(&self) -> bool {
        let [.., m0, m1, m2, m3, m4, m5] = self.0;
        let [n0, n1, n2, n3, n4, n5] = POOLED_MARK;
        m0 == n0 && m1 == n1 && m2 == n2 && m3 == n3 && m4 == n4 && m5 == n5
    }

    /// The slot of the node that makes the object with this pooled id; `None` when the id is free,
    /// so that any node may make it, or is not pooled.
    pub const fn home(&self) -> Option<u16> {
        let [_, _, _, _, _, _, _, _, _, _, _, _, h0, h1, ..] = self.0;
        let home = u16::from_le_bytes([h0, h1]);
        if self.is_pooled() && home != NO_HOME { Some(home) } else { None }
    }

    /// The id in three little-endian words: bytes 0-7, 8-15 and 16-19. The high half of the last
    /// one is 0.
    ///
    /// Nothing but loads and shifts: on the way of every put, a word that is loaded across bytes
    /// that were just stored one by one would wait until they, and the object that was copied
    /// before them, have reached the cache.
    #[inline]
    pub const fn words(&self) -> [u64; 3] {
        let [b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = self.0;
        let [b8, b9, b10, b11, b12, b13, b14, b15, rest @ ..] = rest;
        [
            u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            u64::from_le_bytes([b8, b9, b10, b11, b12, b13, b14, b15]),
            u32::from_le_bytes(rest) as u64,
        ]
    }

    /// The id with these [`Self::words`]; the high half of the last one is not looked at.
    #[inline]
    pub const fn from_words(words: [u64; 3]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = words[0].to_le_bytes();
        let [b0, b1, b2, b3, b4, b5, b6, b7] = words[1].to_le_bytes();
        let [c0, c1, c2, c3] = (words[2] as u32).to_le_bytes();
        Self([a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3])
    }

    /// The bytes of the id.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; OBJECT_ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// Why a text is not an object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object id is written as 40 hexadecimal digits, found {found} characters")]
pub struct NotAnId {
    /// How many characters the text has.
    pub found: usize,
}

impl FromStr for ObjectId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let wrong = NotAnId { found: text.chars().count() };
        if text.len() != 2 * OBJECT_ID_BYTES || !text.is_ascii() {
            return Err(wrong);
        }
        let mut bytes = [0; OBJECT_ID_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong)?;
        }
        Ok(Self(bytes))
    }
}

/// What the namespaces of pools begin with.
pub const POOLED_PREFIX: char = '@';

/// A human name of an object: a text within a namespace.
///
/// A namespace that begins with [`POOLED_PREFIX`] is one of the pool that the store belongs to; `@`
/// alone is the default one of the pool. Such a name is also written as one text, `@prod:sales`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The namespace; the empty text is the default one.
    pub namespace: String,
    /// The text, not empty.
    pub text: String,
}

/// Why a pair of strings is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// The text is empty.
    #[error("a name has at least one character")]
    Empty,
    /// The namespace or the text is too long.
    #[error("a {part} has at most {limit} bytes, found {found}")]
    TooLong {
        /// `"name"` or `"namespace"`.
        part: &'static str,
        /// The limit in bytes.
        limit: usize,
        /// The bytes found.
        found: usize,
    },
    /// A control character.
    #[error("a name holds no control characters")]
    Control,
    /// A text that begins with `@`, without a namespace.
    #[error(
        "a name that begins with @ belongs to a pool and is written @NAMESPACE:NAME, or @:NAME in \
         the default namespace of the pool"
    )]
    NoPooledNamespace,
    /// A colon in a namespace of a pool.
    #[error("a namespace that begins with @ has no colon")]
    PooledColon,
}

impl Name {
    /// A checked name. Without a namespace, a text such as `@prod:sales` gives the name `sales` in
    /// the namespace `@prod`.
    pub fn new(namespace: impl Into<String>, text: impl Into<String>) -> Result<Self, BadName> {
        let mut name = Self { namespace: namespace.into(), text: text.into() };
        if name.namespace.is_empty() && name.text.starts_with(POOLED_PREFIX) {
            let (namespace, text) = name.text.split_once(':').ok_or(BadName::NoPooledNamespace)?;
            name = Self { namespace: namespace.to_owned(), text: text.to_owned() };
        }
        if name.is_pooled() && name.namespace.contains(':') {
            return Err(BadName::PooledColon);
        }
        name.check()?;
        Ok(name)
    }

    /// Whether the name belongs to a pool.
    pub fn is_pooled(&self) -> bool {
        self.namespace.starts_with(POOLED_PREFIX)
    }

    /// Whether the name keeps the rules; names that arrive from a peer are checked with this.
    pub fn check(&self) -> Result<(), BadName> {
        let lengths = [
            ("namespace", self.namespace.len(), NAMESPACE_BYTES_MAX),
            ("name", self.text.len(), NAME_BYTES_MAX),
        ];
        if self.text.is_empty() {
            return Err(BadName::Empty);
        }
        for (part, found, limit) in lengths {
            if found > limit {
                return Err(BadName::TooLong { part, limit, found });
            }
        }
        if self.namespace.chars().chain(self.text.chars()).any(char::is_control) {
            return Err(BadName::Control);
        }
        Ok(())
    }

    /// The id that this name stands for.
    pub fn id(&self) -> ObjectId {
        ObjectId::from_name(self)
    }

    /// The id of an object with this name of a pool that is made on the node in slot `home` and
    /// never again, so that other nodes find it without the records of the pool. The name alone
    /// does not lead to it, and each node may have one.
    pub fn id_at(&self, home: u16) -> ObjectId {
        let id = *self.id().as_bytes();
        let identity = std::array::from_fn(|at| id[at]);
        ObjectId::pooled(identity, Some(home))
    }

    /// Whether an object with this id may have this name: it is the name's [`Self::id`], or
    /// [`Self::id_at`] a node.
    pub fn is_of(&self, id: &ObjectId) -> bool {
        match id.home() {
            Some(home) => self.is_pooled() && self.id_at(home) == *id,
            None => self.id() == *id,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}:{}", self.namespace, self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        let id = ObjectId::new(std::array::from_fn(|i| (i * 13) as u8));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("12".parse::<ObjectId>(), Err(NotAnId { found: 2 }));
        assert!("zz".repeat(20).parse::<ObjectId>().is_err());
        assert!("é".repeat(20).parse::<ObjectId>().is_err());
    }

    #[test]
    fn a_name_is_one_id_and_the_border_between_namespace_and_text_counts() {
        let id = |ns: &str, text: &str| Name::new(ns, text).unwrap().id();
        assert_eq!(id("a", "b"), id("a", "b"));
        assert_ne!(id("a", "bc"), id("ab", "c"));
        // The mapping is a format: other processes and later versions must agree.
        assert_eq!(id("", "prices").to_string(), "c5e0d09f7f2df657c6e808cf8d163c54896c9b2c");
    }

    #[test]
    fn a_pooled_id_says_that_it_is_pooled_and_where_it_is_made() {
        let identity = std::array::from_fn(|i| i as u8);
        let homed = ObjectId::pooled(identity, Some(0x0102));
        assert!(homed.is_pooled());
        assert_eq!(homed.home(), Some(0x0102));
        // The layout is a format: nodes and later versions must agree.
        assert_eq!(homed.to_string(), "000102030405060708090a0b020140706f6f6c00");
        let free = ObjectId::pooled(identity, None);
        assert_eq!((free.is_pooled(), free.home()), (true, None));
        assert_eq!(free.to_string(), "000102030405060708090a0bffff40706f6f6c00");
        assert_eq!(ObjectId::pooled(identity, Some(0xfffe)).home(), Some(0xfffe));
        assert_eq!(ObjectId::pooled(identity, Some(0xffff)), free);
    }

    #[test]
    fn one_wrong_byte_of_the_mark_is_not_pooled() {
        let pooled = *ObjectId::pooled([7; POOLED_IDENTITY_BYTES], Some(3)).as_bytes();
        for at in 0..OBJECT_ID_BYTES {
            let mut bytes = pooled;
            bytes[at] ^= 1;
            let id = ObjectId::new(bytes);
            assert_eq!(id.is_pooled(), at < 14, "byte {at}");
            assert_eq!(id.home().is_some(), at < 14, "byte {at}");
        }
        assert!(!Name::new("", "prices").unwrap().id().is_pooled());
    }

    #[test]
    fn a_name_of_a_pool_has_an_id_on_each_node() {
        let name = Name::new("@", "x").unwrap();
        // The layout is a format: nodes, later versions and the shuffle of Spark must agree.
        assert_eq!(name.id_at(3).to_string(), "5548544c087a1e0509021d90030040706f6f6c00");
        assert_eq!(name.id_at(3).home(), Some(3));
        assert!(name.is_of(&name.id()) && name.is_of(&name.id_at(3)));
        let other = Name::new("@", "y").unwrap();
        assert!(!name.is_of(&other.id()) && !name.is_of(&other.id_at(3)));
        let local = Name::new("", "x").unwrap();
        assert!(local.is_of(&local.id()) && !local.is_of(&local.id_at(3)));
    }

    #[test]
    fn a_name_of_a_pool_gives_a_free_pooled_id() {
        let name = |ns: &str, text: &str| Name::new(ns, text).unwrap();
        let sales = name("", "@prod:sales");
        assert_eq!(sales, name("@prod", "sales"));
        assert_eq!(sales.to_string(), "@prod:sales");
        assert_eq!((sales.id().is_pooled(), sales.id().home()), (true, None));
        // The mapping is a format: nodes and later versions must agree.
        assert_eq!(sales.id().to_string(), "c3350503b13fb6e45b6e6461ffff40706f6f6c00");
        assert_eq!(name("", "@:x"), name("@", "x"));
        assert_eq!(name("", "@:x").id().to_string(), "5548544c087a1e0509021d90ffff40706f6f6c00");
        assert_eq!(name("", "@a:b:c"), name("@a", "b:c"));
        let local = [name("", "a@b:c"), name("a", "@b"), name("a", "@b:c")];
        assert!(local.iter().all(|name| !name.is_pooled() && !name.id().is_pooled()));
    }

    #[test]
    fn names_of_a_pool_have_one_way_to_be_split() {
        assert_eq!(Name::new("", "@sales"), Err(BadName::NoPooledNamespace));
        assert_eq!(Name::new("", "@"), Err(BadName::NoPooledNamespace));
        assert_eq!(Name::new("@a:b", "c"), Err(BadName::PooledColon));
        assert_eq!(Name::new("", "@prod:"), Err(BadName::Empty));
        let longest = format!("@{}", "n".repeat(NAMESPACE_BYTES_MAX - 1));
        assert!(Name::new("", format!("{longest}:x")).is_ok());
        assert!(Name::new("", format!("{longest}n:x")).is_err());
    }

    #[test]
    fn an_id_that_happens_to_have_the_mark_loses_it() {
        let marked = ObjectId::pooled([7; POOLED_IDENTITY_BYTES], Some(3));
        assert!(!marked.unmarked().is_pooled());
        assert_eq!(marked.as_bytes()[..19], marked.unmarked().as_bytes()[..19]);
        let other = ObjectId::new([7; OBJECT_ID_BYTES]);
        assert_eq!(other.unmarked(), other);
    }

    #[test]
    fn names_at_and_past_their_limits() {
        assert!(Name::new("", "x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(matches!(
            Name::new("", "x".repeat(NAME_BYTES_MAX + 1)),
            Err(BadName::TooLong { part: "name", .. })
        ));
        assert!(Name::new("n".repeat(NAMESPACE_BYTES_MAX), "x").is_ok());
        assert!(Name::new("n".repeat(NAMESPACE_BYTES_MAX + 1), "x").is_err());
        assert_eq!(Name::new("", ""), Err(BadName::Empty));
        assert_eq!(Name::new("", "a\nb"), Err(BadName::Control));
    }
}
