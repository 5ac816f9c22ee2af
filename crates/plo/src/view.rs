//! An object's tables where they lie: typed slices of its bytes.
//!
//! [`View::of`] finds the buffers; nothing in them is looked at. [`crate::check::check`] does that,
//! once, and gives a [`crate::check::Checked`], whose accessors then need no outcome.

use crate::error::{Error, Result, broken};
use crate::layout::{END_MARKER, Form, Layout};
use crate::sizes::{self, Sizes, at};
use crate::stream::SCHEMA_MESSAGE;
use crate::write::SMALL_MAGIC;

mod find;

use find::{Cursor, read_sizes};

/// Numbers of four bytes where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a>(pub &'a [[u8; 4]]);

impl<'a> Words<'a> {
    /// The number at an index, 0 past the end.
    #[inline]
    pub fn at(self, index: usize) -> i32 {
        self.0.get(index).map_or(0, |bytes| i32::from_le_bytes(*bytes))
    }

    /// The number at an index as an index; one that is negative leads nowhere.
    #[inline]
    pub fn index(self, index: usize) -> usize {
        usize::try_from(self.at(index)).unwrap_or(usize::MAX)
    }

    /// The numbers of a stretch.
    #[inline]
    pub fn range(self, start: usize, length: usize) -> &'a [[u8; 4]] {
        stretch(self.0, start, length)
    }
}

/// Numbers of eight bytes where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longs<'a>(pub &'a [[u8; 8]]);

impl<'a> Longs<'a> {
    /// The number at an index, 0 past the end.
    #[inline]
    pub fn at(self, index: usize) -> i64 {
        self.0.get(index).map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }

    /// The numbers of a stretch.
    #[inline]
    pub fn range(self, start: usize, length: usize) -> &'a [[u8; 8]] {
        stretch(self.0, start, length)
    }
}

#[inline]
fn stretch<T>(values: &[T], start: usize, length: usize) -> &[T] {
    start.checked_add(length).and_then(|end| values.get(start..end)).unwrap_or(&[])
}

/// A bitmap where it lies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bitmap<'a>(pub &'a [u8]);

impl Bitmap<'_> {
    /// The bit at an index.
    #[inline]
    pub fn at(self, index: usize) -> bool {
        self.0.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0)
    }
}

/// Byte strings where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextsView<'a> {
    /// Where each one starts and the last one ends; nothing for none.
    pub offsets: Words<'a>,
    /// The bytes of all.
    pub bytes: &'a [u8],
}

impl<'a> TextsView<'a> {
    /// The byte string with a number.
    #[inline]
    pub fn at(self, number: usize) -> &'a [u8] {
        self.range(number, 1)
    }

    /// The bytes of several.
    #[inline]
    pub fn range(self, first: usize, count: usize) -> &'a [u8] {
        let (start, end) =
            (self.offsets.index(first), self.offsets.index(first.saturating_add(count)));
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.offsets.0.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

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
    pub name: TextsView<'a>,
    pub version: Words<'a>,
    pub fields: Words<'a>,
    pub field_names: TextsView<'a>,
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
    pub data: TextsView<'a>,
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
    pub strs: TextsView<'a>,
    pub refs: Words<'a>,
    pub bins: TextsView<'a>,
    pub classes: ClassesView<'a>,
    pub dtype_texts: TextsView<'a>,
    pub dtype_itemsizes: Words<'a>,
    pub tensors: TensorsView<'a>,
    pub exts: ExtsView<'a>,
    pub heap_offsets: Longs<'a>,
    pub heap: &'a [u8],
}

/// How many bytes at the front of `bytes` are an object, without looking further into it; for
/// objects that follow one another.
pub fn object_bytes(bytes: &[u8]) -> Result<u64> {
    read_sizes(bytes).map(|(_, layout, _)| layout.bytes)
}

/// Whether bytes start like an object in one of its forms.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(&SMALL_MAGIC) || bytes.starts_with(SCHEMA_MESSAGE)
}

impl<'a> View<'a> {
    /// Finds the tables of the object at the front of `bytes`. What follows it is ignored.
    pub fn of(bytes: &'a [u8]) -> Result<Box<Self>> {
        let (sizes, layout, front) = read_sizes(bytes)?;
        let Some(object) = usize::try_from(layout.bytes).ok().and_then(|end| bytes.get(..end))
        else {
            return Err(Error::Truncated { wanted: layout.bytes, found: bytes.len() as u64 });
        };
        if layout.form == Form::Stream && !object.ends_with(&END_MARKER) {
            return broken("no end marker", layout.bytes);
        }
        let (form, end) = (layout.form, front as usize);
        let mut cursor = Cursor { object, sizes, form, end, wrong: None };
        let mut view = Box::new(Self::empty(sizes, layout));
        cursor.tables(&mut view);
        view.heap = stretch(object, layout.heap_at as usize, sizes.count(at::HEAP_BYTES));
        if layout.form == Form::Small
            && layout != Layout::small_ending_at(cursor.end as u64, sizes.get(at::HEAP_BYTES))
        {
            return broken("a length that does not follow from the sizes", layout.bytes);
        }
        if view.heap.len() != sizes.count(at::HEAP_BYTES) {
            return broken("an incomplete heap", layout.heap_at);
        }
        match cursor.wrong {
            None => Ok(view),
            Some(place) => broken("outer offsets that are not one row's", place),
        }
    }

    fn empty(sizes: Sizes, layout: Layout) -> Self {
        Self {
            sizes,
            layout,
            slots: SlotsView::default(),
            nodes: NodesView::default(),
            i32: Words::default(),
            i64: Longs::default(),
            f64: Longs::default(),
            bits: Bitmap::default(),
            strs: TextsView::default(),
            refs: Words::default(),
            bins: TextsView::default(),
            classes: ClassesView::default(),
            dtype_texts: TextsView::default(),
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
