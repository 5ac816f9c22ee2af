//! Where in a store's memory something is: its extents, and ranges of bytes in them.

use serde::{Deserialize, Serialize};

use crate::object::Sizes;

/// The identity of an extent: 20 bits of index, which are used again, below the 44 bits of its
/// birth number, which is never used again in the life of a store, over restarts of its daemon. So
/// two extents never have the same identity, however late a client learns of the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtentId(pub u64);

impl ExtentId {
    /// Bits of the index part.
    pub const INDEX_BITS: u32 = 20;

    /// The largest birth number. A store that made a million extents each second would reach it
    /// after half a year; one that does makes no more extents.
    pub const BIRTH_MAX: u64 = (1 << (u64::BITS - Self::INDEX_BITS)) - 1;

    /// The extent with this index and birth number, of which the low 44 bits count.
    pub const fn new(index: u32, birth: u64) -> Self {
        Self((birth << Self::INDEX_BITS) | (index as u64 & ((1 << Self::INDEX_BITS) - 1)))
    }

    /// The index part, below [`crate::limits::EXTENTS_MAX`].
    pub const fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }

    /// The birth number: the extents of a store are numbered in the order in which they are made.
    pub const fn birth(self) -> u64 {
        self.0 >> Self::INDEX_BITS
    }
}

/// A range of bytes in an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// The extent.
    pub extent: ExtentId,
    /// Where the range starts, a multiple of [`crate::limits::OBJECT_ALIGN`].
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// Where the parts of an object start; their sizes say where they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The extent.
    pub extent: ExtentId,
    /// The offset in the extent, a multiple of [`crate::limits::OBJECT_ALIGN`].
    pub offset: u64,
}

impl Placement {
    /// The memory of an object of these sizes, `None` when one of them exceeds its limit.
    #[inline]
    pub fn range(self, sizes: &Sizes) -> Option<Range> {
        let Self { extent, offset } = self;
        Some(Range { extent, offset, bytes: sizes.footprint()? })
    }
}

impl Range {
    /// Where the range starts.
    #[inline]
    pub const fn placement(&self) -> Placement {
        Placement { extent: self.extent, offset: self.offset }
    }
}
