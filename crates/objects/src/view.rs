//! An object's tables where they lie: typed slices of its bytes.
//!
//! [`View::of`] finds the buffers; nothing in them is looked at. [`crate::check::check`] does that,
//! once, and gives a [`crate::check::Checked`], whose accessors then need no outcome.

use crate::codes::limit::ENTRIES_MAX;
use crate::error::{Error, Result, broken};
use crate::layout::{BODY_AT, END_MARKER, Form, HEAP_ALIGN, Layout, header_bytes};
use crate::sizes::{self, Sizes, at};
use crate::stream::{BATCH_MESSAGE, SCHEMA_MESSAGE, read_batch_message};
use crate::write::SMALL_MAGIC;

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
        let (start, end) = (self.offsets.index(first), self.offsets.index(first + count));
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

/// Gives the buffers one after the other. Tables without entries take nothing but, in the stream
/// form, their outer offsets; most tables of a small object are such.
struct Cursor<'a> {
    object: &'a [u8],
    sizes: Sizes,
    form: Form,
    end: usize,
    /// Where the first buffer lies that is not all there, or outer offsets that are not those of
    /// one row.
    wrong: Option<usize>,
}

impl<'a> Cursor<'a> {
    /// Enters a table; false when it is empty.
    #[inline]
    fn table(&mut self, size: usize) -> bool {
        if self.form == Form::Stream {
            self.outer(self.sizes.get(size));
        }
        self.sizes.get(size) != 0
    }

    /// Outer offsets, which this reader doesn't need, must be what other readers take them for.
    fn outer(&mut self, size: u64) {
        let wanted = [0u32.to_le_bytes(), (size as u32).to_le_bytes()];
        if self.object.get(self.end..self.end + 8) != Some(wanted.as_flattened()) {
            self.wrong = self.wrong.or(Some(self.end));
        }
        self.end += HEAP_ALIGN as usize;
    }

    #[inline]
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let start = self.end;
        self.end = (start + length).next_multiple_of(self.form.align() as usize);
        self.object.get(start..start + length).unwrap_or_else(|| {
            self.wrong = self.wrong.or(Some(start));
            &[]
        })
    }

    /// As many bytes as a size says.
    #[inline]
    fn flags(&mut self, size: usize) -> &'a [u8] {
        self.bytes(self.sizes.count(size))
    }

    #[inline]
    fn bits(&mut self, size: usize) -> Bitmap<'a> {
        Bitmap(self.bytes(self.sizes.count(size).div_ceil(8)))
    }

    #[inline]
    fn words(&mut self, size: usize) -> Words<'a> {
        Words(self.bytes(4 * self.sizes.count(size)).as_chunks::<4>().0)
    }

    #[inline]
    fn longs(&mut self, size: usize) -> Longs<'a> {
        Longs(self.bytes(8 * self.sizes.count(size)).as_chunks::<8>().0)
    }

    /// The offsets of so many entries.
    #[inline]
    fn offsets(&mut self, size: usize) -> Words<'a> {
        match self.sizes.count(size) {
            0 => Words::default(),
            entries => Words(self.bytes(4 * (entries + 1)).as_chunks::<4>().0),
        }
    }

    #[inline]
    fn texts(&mut self, size: usize, bytes: usize) -> TextsView<'a> {
        TextsView { offsets: self.offsets(size), bytes: self.flags(bytes) }
    }

    fn slots(&mut self, slots: &mut SlotsView<'a>) {
        slots.kind = self.flags(at::SLOTS);
        slots.offset = self.words(at::SLOTS);
        slots.bool = self.bits(at::SLOT_BOOL);
        slots.int = self.longs(at::SLOT_INT);
        slots.float = self.longs(at::SLOT_FLOAT);
        for (child, values) in slots.indices.iter_mut().enumerate() {
            if self.sizes.get(at::SLOT_STR + child) != 0 {
                *values = self.words(at::SLOT_STR + child);
            }
        }
    }

    fn nodes(&mut self) -> NodesView<'a> {
        NodesView {
            kind: self.flags(at::NODES),
            elem: self.flags(at::NODES),
            elem2: self.flags(at::NODES),
            start: self.words(at::NODES),
            length: self.words(at::NODES),
            start2: self.words(at::NODES),
        }
    }

    fn classes(&mut self) -> ClassesView<'a> {
        ClassesView {
            source: self.flags(at::CLASSES),
            make: self.flags(at::CLASSES),
            name: self.texts(at::CLASSES, at::CLASS_NAME_BYTES),
            version: self.words(at::CLASSES),
            fields: self.offsets(at::CLASSES),
            field_names: self.texts(at::CLASS_FIELDS, at::CLASS_FIELD_BYTES),
            ext: self.words(at::CLASSES),
        }
    }

    fn tensors(&mut self) -> TensorsView<'a> {
        TensorsView {
            kind: self.flags(at::TENSORS),
            dtype: self.words(at::TENSORS),
            shape_offsets: self.offsets(at::TENSORS),
            shape: self.longs(at::TENSOR_SHAPE),
            stride_offsets: self.offsets(at::TENSORS),
            strides: self.longs(at::TENSOR_STRIDES),
            heap: self.words(at::TENSORS),
            offset: self.longs(at::TENSORS),
        }
    }

    fn exts(&mut self) -> ExtsView<'a> {
        ExtsView {
            kind: self.flags(at::EXTS),
            data: self.texts(at::EXTS, at::EXT_BYTES),
            heap_offsets: self.offsets(at::EXTS),
            heaps: self.words(at::EXT_HEAPS),
        }
    }

    fn heap(&mut self, view: &mut View<'a>) {
        let offsets = self.bytes(8 * (self.sizes.count(at::HEAP) + 1));
        view.heap_offsets = Longs(offsets.as_chunks::<8>().0);
    }

    /// Fills the view with the tables before the heap's data.
    fn tables(&mut self, view: &mut View<'a>) {
        if self.table(at::SLOTS) {
            self.slots(&mut view.slots);
        }
        if self.table(at::NODES) {
            view.nodes = self.nodes();
        }
        if self.table(at::I32) {
            view.i32 = self.words(at::I32);
        }
        if self.table(at::I64) {
            view.i64 = self.longs(at::I64);
        }
        if self.table(at::F64) {
            view.f64 = self.longs(at::F64);
        }
        if self.table(at::BITS) {
            view.bits = self.bits(at::BITS);
        }
        if self.table(at::STRS) {
            view.strs = self.texts(at::STRS, at::STRS_BYTES);
        }
        if self.table(at::REFS) {
            view.refs = self.words(at::REFS);
        }
        if self.table(at::BINS) {
            view.bins = self.texts(at::BINS, at::BINS_BYTES);
        }
        if self.table(at::CLASSES) {
            view.classes = self.classes();
        }
        if self.table(at::DTYPES) {
            view.dtype_texts = self.texts(at::DTYPES, at::DTYPE_BYTES);
            view.dtype_itemsizes = self.words(at::DTYPES);
        }
        if self.table(at::TENSORS) {
            view.tensors = self.tensors();
        }
        if self.table(at::EXTS) {
            view.exts = self.exts();
        }
        if self.table(at::HEAP) {
            self.heap(view);
        }
    }
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

/// The sizes, the layout, and where the first buffer is.
fn read_sizes(bytes: &[u8]) -> Result<(Sizes, Layout, u64)> {
    if bytes.starts_with(&SMALL_MAGIC) {
        return read_small_sizes(bytes);
    }
    let Some(rest) = bytes.strip_prefix(SCHEMA_MESSAGE) else {
        return Err(Error::NotAnObject("start with neither the small form's magic nor its schema"));
    };
    let Some(message) = rest.get(..BATCH_MESSAGE.len()) else {
        return Err(Error::Truncated { wanted: BODY_AT, found: bytes.len() as u64 });
    };
    let (sizes, _) = read_batch_message(message)?;
    Ok((sizes, Layout::of(&sizes, Form::Stream), BODY_AT))
}

fn read_small_sizes(bytes: &[u8]) -> Result<(Sizes, Layout, u64)> {
    let truncated = |wanted| Error::Truncated { wanted, found: bytes.len() as u64 };
    let (fixed, rest) = bytes.split_first_chunk::<16>().ok_or_else(|| truncated(16))?;
    let words = fixed.as_chunks::<4>().0;
    let word = |at: usize| u32::from_le_bytes(words[at]);
    let mut present = u64::from(word(2)) | u64::from(word(3)) << 32;
    if present >> sizes::COUNT != 0 {
        return broken("an unknown size", present.leading_zeros());
    }
    let (count, front) = (present.count_ones() as usize, header_bytes(present));
    let Some(given) = rest.as_chunks::<4>().0.get(..count) else {
        return Err(truncated(16 + 4 * count as u64));
    };
    let mut sizes = Sizes::default();
    for size in given {
        let number = present.trailing_zeros() as usize;
        present &= present - 1;
        let size = u64::from(u32::from_le_bytes(*size));
        if size == 0 || (size > ENTRIES_MAX && number != at::HEAP_BYTES) {
            return broken("a size of 0 that is said not to be, or one past its limit", number);
        }
        sizes.set(number, size);
    }
    let bytes = u64::from(word(1));
    // The tables will have to end where this says that the heap begins.
    let heap_at = bytes.checked_sub(sizes.get(at::HEAP_BYTES));
    let Some(heap_at) = heap_at else { return broken("a length less than the heap's", word(1)) };
    Ok((sizes, Layout { form: Form::Small, heap_at, bytes }, front))
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
            return broken("a heap that is not all there", layout.heap_at);
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
