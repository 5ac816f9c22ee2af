//! Where the tables of an object lie: its sizes first, from which everything follows.

use super::{
    Bitmap, ClassesView, ExtsView, Longs, NodesView, SlotsView, TensorsView, TextsView, View, Words,
};
use crate::codes::limit::ENTRIES_MAX;
use crate::error::{Error, Result, broken};
use crate::layout::{BODY_AT, Form, HEAP_ALIGN, Layout, header_bytes};
use crate::sizes::{self, Sizes, at};
use crate::stream::{BATCH_MESSAGE, SCHEMA_MESSAGE, read_batch_message};
use crate::write::SMALL_MAGIC;

/// The sizes, the layout, and where the first buffer is.
pub(super) fn read_sizes(bytes: &[u8]) -> Result<(Sizes, Layout, u64)> {
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
            return broken("a size of 0 that is marked as present, or one past its limit", number);
        }
        sizes.set(number, size);
    }
    let bytes = u64::from(word(1));
    // The tables will have to end where this says that the heap begins.
    let heap_at = bytes.checked_sub(sizes.get(at::HEAP_BYTES));
    let Some(heap_at) = heap_at else { return broken("a length less than the heap's", word(1)) };
    Ok((sizes, Layout { form: Form::Small, heap_at, bytes }, front))
}

/// Gives the buffers one after the other. Tables without entries take nothing but, in the stream
/// form, their outer offsets; most tables of a small object are such.
pub(super) struct Cursor<'a> {
    pub(super) object: &'a [u8],
    pub(super) sizes: Sizes,
    pub(super) form: Form,
    pub(super) end: usize,
    /// Where the first buffer lies that is not all there, or outer offsets that are not those of
    /// one row.
    pub(super) wrong: Option<usize>,
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
    pub(super) fn tables(&mut self, view: &mut View<'a>) {
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
