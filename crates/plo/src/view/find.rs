//! Where the tables of an object lie: one buffer after the other, by its sizes.

use super::header::read_sizes;
use super::slices::{Bitmap, ByteStringsView, Longs, Words, stretch};
use super::tables::{ClassesView, ExtsView, NodesView, SlotsView, TensorsView, View};
use crate::error::{Error, Result, broken};
use crate::layout::{Form, HEAP_ALIGN, Layout};
use crate::messages::END_MARKER;
use crate::sizes::{Sizes, at};

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

    /// As many bytes as a size.
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

    /// The offsets of a number of entries.
    #[inline]
    fn offsets(&mut self, size: usize) -> Words<'a> {
        match self.sizes.count(size) {
            0 => Words::default(),
            entries => Words(self.bytes(4 * (entries + 1)).as_chunks::<4>().0),
        }
    }

    #[inline]
    fn strings(&mut self, size: usize, bytes: usize) -> ByteStringsView<'a> {
        ByteStringsView { offsets: self.offsets(size), bytes: self.flags(bytes) }
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
            name: self.strings(at::CLASSES, at::CLASS_NAME_BYTES),
            version: self.words(at::CLASSES),
            fields: self.offsets(at::CLASSES),
            field_names: self.strings(at::CLASS_FIELDS, at::CLASS_FIELD_BYTES),
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
            data: self.strings(at::EXTS, at::EXT_BYTES),
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
            view.strs = self.strings(at::STRS, at::STRS_BYTES);
        }
        if self.table(at::REFS) {
            view.refs = self.words(at::REFS);
        }
        if self.table(at::BINS) {
            view.bins = self.strings(at::BINS, at::BINS_BYTES);
        }
        if self.table(at::CLASSES) {
            view.classes = self.classes();
        }
        if self.table(at::DTYPES) {
            view.dtype_strings = self.strings(at::DTYPES, at::DTYPE_BYTES);
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
