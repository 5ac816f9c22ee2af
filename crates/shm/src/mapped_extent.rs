//! One entry of a client's table of mapped extents: whose mapping lies where.
//!
//! Three words in one cache line: the identity of the extent, the first byte of its mapping, and
//! how many bytes are mapped. Writers hold a lock; readers take none:
//!
//! ```text
//! writer: identity = 0; release fence; base, bytes; identity = the extent's (release)
//! reader: identity (acquire) == the extent's; base, bytes; acquire fence; identity still the same
//! ```
//!
//! Identities are never used twice, so two equal loads mean that the words between them belong to
//! this very extent. A reader that sees anything else takes the extent for one that is not mapped.

use plasmon_proto::extent::ExtentId;

use crate::sync::{AtomicU64, Ordering, fence};

/// Where an extent is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedExtent {
    /// The address of its first byte.
    pub(crate) base: u64,
    /// How many bytes are mapped.
    pub(crate) bytes: u64,
}

impl MappedExtent {
    /// Whether a part of the extent lies within the mapping.
    #[inline]
    pub(crate) const fn contains(&self, offset: u64, bytes: u64) -> bool {
        // What a slot can say never overflows: offsets have 38 bits, sizes 48 and 32.
        offset + bytes <= self.bytes
    }
}

/// An entry where it lies. All zeroes is an empty one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place {
    identity: AtomicU64,
    base: AtomicU64,
    bytes: AtomicU64,
    /// Two entries fill a cache line, so none lies in two.
    _padding: u64,
}

impl Place {
    /// An empty entry for the models; a real table comes zeroed from the kernel.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { identity: zero(), base: zero(), bytes: zero(), _padding: 0 }
    }

    /// Where the extent is mapped, if it is.
    #[inline]
    pub(crate) fn lookup(&self, extent: ExtentId) -> Option<MappedExtent> {
        // Pairs with the release in `set`.
        if self.identity.load(Ordering::Acquire) != extent.0 {
            return None;
        }
        let base = self.base.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        // Pairs with the release fence in `set`: a newer base or size comes with another identity.
        fence(Ordering::Acquire);
        let same = self.identity.load(Ordering::Relaxed) == extent.0;
        (same && base != 0).then_some(MappedExtent { base, bytes })
    }

    /// The extent that the entry is about, with the identity 0 when there is none.
    pub(crate) fn extent(&self) -> ExtentId {
        ExtentId(self.identity.load(Ordering::Relaxed))
    }

    /// Makes the entry that of another extent. One thread at a time.
    pub(crate) fn set(&self, extent: ExtentId, mapped: MappedExtent) {
        self.clear();
        self.base.store(mapped.base, Ordering::Relaxed);
        self.bytes.store(mapped.bytes, Ordering::Relaxed);
        self.identity.store(extent.0, Ordering::Release);
    }

    /// Empties the entry. One thread at a time.
    pub(crate) fn clear(&self) {
        self.identity.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}
