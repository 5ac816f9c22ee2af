//! The sizes of an object: the numbers from which its whole layout follows.

use crate::codes::limit;

/// How many sizes there are.
pub const COUNT: usize = 35;

/// The number of each size.
pub mod at {
    #![allow(missing_docs, reason = "the names are those of the table in spec/objects.md")]
    pub const SLOTS: usize = 0;
    pub const SLOT_NULL: usize = 1;
    pub const SLOT_BOOL: usize = 2;
    pub const SLOT_INT: usize = 3;
    pub const SLOT_FLOAT: usize = 4;
    pub const SLOT_STR: usize = 5;
    pub const SLOT_BYTES: usize = 6;
    pub const SLOT_NODE: usize = 7;
    pub const SLOT_REF: usize = 8;
    pub const SLOT_TENSOR: usize = 9;
    pub const SLOT_EXT: usize = 10;
    pub const NODES: usize = 11;
    pub const I32: usize = 12;
    pub const I64: usize = 13;
    pub const F64: usize = 14;
    pub const BITS: usize = 15;
    pub const STRS: usize = 16;
    pub const STRS_BYTES: usize = 17;
    pub const REFS: usize = 18;
    pub const BINS: usize = 19;
    pub const BINS_BYTES: usize = 20;
    pub const CLASSES: usize = 21;
    pub const CLASS_NAME_BYTES: usize = 22;
    pub const CLASS_FIELDS: usize = 23;
    pub const CLASS_FIELD_BYTES: usize = 24;
    pub const DTYPES: usize = 25;
    pub const DTYPE_BYTES: usize = 26;
    pub const TENSORS: usize = 27;
    pub const TENSOR_SHAPE: usize = 28;
    pub const TENSOR_STRIDES: usize = 29;
    pub const EXTS: usize = 30;
    pub const EXT_BYTES: usize = 31;
    pub const EXT_HEAPS: usize = 32;
    pub const HEAP: usize = 33;
    pub const HEAP_BYTES: usize = 34;
}

/// The sizes, by their numbers. They are many and mostly 0, so they are kept small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Those with 32 bits.
    entries: [u32; at::HEAP_BYTES],
    /// The last one.
    heap_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { entries: [0; at::HEAP_BYTES], heap_bytes: 0 }
    }
}

impl Sizes {
    /// A size.
    #[inline]
    pub fn get(&self, number: usize) -> u64 {
        self.entries.get(number).map_or(self.heap_bytes, |size| u64::from(*size))
    }

    /// Sets a size. One that has no 32 bits where it should is past its limit in any case.
    #[inline]
    pub fn set(&mut self, number: usize, size: u64) {
        match self.entries.get_mut(number) {
            Some(entry) => *entry = u32::try_from(size).unwrap_or(u32::MAX),
            None => self.heap_bytes = size,
        }
    }

    /// The first size past its limit.
    pub fn past_limit(&self) -> Option<usize> {
        let most = limit::ENTRIES_MAX as u32;
        // Without early ends the compiler compares many at once.
        let past = self.entries.iter().fold(false, |past, size| past | (*size > most));
        let entries = past.then(|| self.entries.iter().position(|size| *size > most)).flatten();
        entries.or((self.heap_bytes > limit::HEAP_BYTES_MAX).then_some(at::HEAP_BYTES))
    }

    /// Which sizes are not 0, a bit for each.
    #[inline]
    pub fn present(&self) -> u64 {
        let last = u64::from(self.heap_bytes != 0);
        // From the last to the first, so that each is shifted to its place by those before it.
        self.entries.iter().rev().fold(last, |present, size| present << 1 | u64::from(*size != 0))
    }

    /// A size as an index. A checked object lies in memory, so every size of it fits.
    #[inline]
    pub(crate) fn count(&self, number: usize) -> usize {
        self.get(number) as usize
    }
}

/// The quantity that a size counts, in words for an error.
pub fn name(number: usize) -> &'static str {
    const NAMES: [&str; COUNT] = [
        "slots",
        "slots of None",
        "slots of bool",
        "slots of int",
        "slots of float",
        "slots of str",
        "slots of bytes",
        "slots of nodes",
        "slots of references",
        "slots of tensors",
        "slots of extensions",
        "nodes",
        "integers of 32 bits",
        "integers of 64 bits",
        "floats",
        "bits",
        "strings",
        "bytes of strings",
        "references to strings",
        "byte strings",
        "bytes of byte strings",
        "classes",
        "bytes of class names",
        "class fields",
        "bytes of class fields",
        "element types",
        "bytes of element types",
        "tensors",
        "extents",
        "strides",
        "extensions",
        "bytes of extensions",
        "heap numbers of extensions",
        "heap entries",
        "bytes of the heap",
    ];
    NAMES.get(number).copied().unwrap_or("entries")
}
