//! The tables of an object, each as typed slices.

use super::slices::{Bitmap, ByteStringsView, Longs, Words};
use crate::layout::Layout;
use crate::sizes::{self, Sizes, at};

/// The nodes where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct NodesView<'a> {
    pub kind: &'a [u8],
    pub elem: &'a [u8],
    pub elem2: &'a [u8],
    pub start: Words<'a>,
    pub length: Words<'a>,
    pub start2: Words<'a>,
}

/// The classes where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct ClassesView<'a> {
    pub source: &'a [u8],
    pub make: &'a [u8],
    pub name: ByteStringsView<'a>,
    pub version: Words<'a>,
    pub fields: Words<'a>,
    pub field_names: ByteStringsView<'a>,
    pub ext: Words<'a>,
}

/// The tensors where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct TensorsView<'a> {
    pub kind: &'a [u8],
    pub dtype: Words<'a>,
    pub shape_offsets: Words<'a>,
    pub shape: Longs<'a>,
    pub stride_offsets: Words<'a>,
    pub strides: Longs<'a>,
    pub heap: Words<'a>,
    pub offset: Longs<'a>,
}

/// The extensions where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct ExtsView<'a> {
    pub kind: &'a [u8],
    pub data: ByteStringsView<'a>,
    pub heap_offsets: Words<'a>,
    pub heaps: Words<'a>,
}

/// The children of slots that are indices, from `str` to `ext`.
pub const INDEX_CHILDREN: usize = 6;

/// The slots where they lie.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the table in spec/objects.md")]
pub struct SlotsView<'a> {
    pub kind: &'a [u8],
    pub offset: Words<'a>,
    pub bool: Bitmap<'a>,
    pub int: Longs<'a>,
    pub float: Longs<'a>,
    pub indices: [Words<'a>; INDEX_CHILDREN],
}

impl SlotsView<'_> {
    /// The index in a slot whose type is one of [`crate::codes::slot`] from `STR` on.
    #[inline]
    pub fn index(&self, slot: usize, kind: u8) -> usize {
        let child = usize::from(kind).wrapping_sub(usize::from(crate::codes::slot::STR));
        let at = self.offset.index(slot);
        self.indices.get(child).map_or(usize::MAX, |values| values.index(at))
    }
}

/// All tables where they lie.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of section 2 of spec/objects.md")]
pub struct View<'a> {
    pub sizes: Sizes,
    pub layout: Layout,
    pub slots: SlotsView<'a>,
    pub nodes: NodesView<'a>,
    pub i32: Words<'a>,
    pub i64: Longs<'a>,
    pub f64: Longs<'a>,
    pub bits: Bitmap<'a>,
    pub strs: ByteStringsView<'a>,
    pub refs: Words<'a>,
    pub bins: ByteStringsView<'a>,
    pub classes: ClassesView<'a>,
    pub dtype_strings: ByteStringsView<'a>,
    pub dtype_itemsizes: Words<'a>,
    pub tensors: TensorsView<'a>,
    pub exts: ExtsView<'a>,
    pub heap_offsets: Longs<'a>,
    pub heap: &'a [u8],
}

impl View<'_> {
    #[inline]
    pub(super) fn empty(sizes: Sizes, layout: Layout) -> Self {
        Self {
            sizes,
            layout,
            slots: SlotsView::default(),
            nodes: NodesView::default(),
            i32: Words::default(),
            i64: Longs::default(),
            f64: Longs::default(),
            bits: Bitmap::default(),
            strs: ByteStringsView::default(),
            refs: Words::default(),
            bins: ByteStringsView::default(),
            classes: ClassesView::default(),
            dtype_strings: ByteStringsView::default(),
            dtype_itemsizes: Words::default(),
            tensors: TensorsView::default(),
            exts: ExtsView::default(),
            heap_offsets: Longs::default(),
            heap: &[],
        }
    }

    /// Where the bytes of a heap entry lie in the heap.
    pub fn heap_range(&self, entry: usize) -> std::ops::Range<usize> {
        let at = |index| usize::try_from(self.heap_offsets.at(index)).unwrap_or(usize::MAX);
        at(entry)..at(entry + 1)
    }

    /// Where the heap's data starts in the object.
    pub fn heap_at(&self) -> usize {
        self.layout.heap_at as usize
    }

    /// The length of the object.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// A size as a count in memory.
    #[inline]
    pub fn count(&self, number: usize) -> usize {
        self.sizes.count(number)
    }
}

// Every number of entries can be an index here.
const _: () = assert!(usize::BITS == 64 && at::HEAP_BYTES < sizes::COUNT, "for 64-bit machines");
