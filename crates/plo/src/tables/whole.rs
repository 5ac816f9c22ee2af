//! All the tables together: their sizes, and their buffers in the order of the format.

use super::classes::Classes;
use super::dtypes::Dtypes;
use super::exts::Exts;
use super::heap::Heap;
use super::nodes::Nodes;
use super::slots::Slots;
use super::tensors::Tensors;
use crate::columns::{Bits, ByteStrings, Long, Word};
use crate::error::{Error, Result};
use crate::sizes::{self, Sizes, at};

/// All the tables of an object.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of section 2 of spec/objects.md")]
pub struct Tables {
    pub slots: Slots,
    pub nodes: Nodes,
    pub i32: Vec<Word>,
    pub i64: Vec<Long>,
    pub f64: Vec<Long>,
    pub bits: Bits,
    pub strs: ByteStrings,
    pub refs: Vec<Word>,
    pub bins: ByteStrings,
    pub classes: Classes,
    pub dtypes: Dtypes,
    pub tensors: Tensors,
    pub exts: Exts,
    pub heap: Heap,
}

impl Tables {
    /// The sizes, each within its limit, and which of them are not 0.
    pub(crate) fn sizes(&self) -> Result<(Sizes, u64)> {
        let (sizes, present) = self.count();
        match sizes.past_limit() {
            None => Ok((sizes, present)),
            Some(number) => Err(Error::TooLarge {
                what: sizes::name(number),
                found: sizes.get(number),
                most: crate::codes::limit::ENTRIES_MAX,
            }),
        }
    }

    /// The sizes, and which of them are not 0, a bit for each.
    #[inline]
    pub(crate) fn count(&self) -> (Sizes, u64) {
        let (mut sizes, mut present) = (Sizes::default(), 0u64);
        let mut set = |number: usize, size: usize| {
            sizes.set(number, size as u64);
            present |= u64::from(size != 0) << number;
        };
        set(at::SLOTS, self.slots.len());
        set(at::SLOT_NULL, self.slots.nulls);
        set(at::SLOT_BOOL, self.slots.bools.len());
        set(at::SLOT_INT, self.slots.ints.len());
        set(at::SLOT_FLOAT, self.slots.floats.len());
        for (child, values) in self.slots.indices.iter().enumerate() {
            set(at::SLOT_STR + child, values.len());
        }
        set(at::NODES, self.nodes.len());
        set(at::I32, self.i32.len());
        set(at::I64, self.i64.len());
        set(at::F64, self.f64.len());
        set(at::BITS, self.bits.len());
        set(at::STRS, self.strs.len());
        set(at::STRS_BYTES, self.strs.bytes.len());
        set(at::REFS, self.refs.len());
        set(at::BINS, self.bins.len());
        set(at::BINS_BYTES, self.bins.bytes.len());
        set(at::CLASSES, self.classes.len());
        set(at::CLASS_NAME_BYTES, self.classes.names.bytes.len());
        set(at::CLASS_FIELDS, self.classes.field_names.len());
        set(at::CLASS_FIELD_BYTES, self.classes.field_names.bytes.len());
        set(at::DTYPES, self.dtypes.len());
        set(at::DTYPE_BYTES, self.dtypes.strings.bytes.len());
        set(at::TENSORS, self.tensors.len());
        set(at::TENSOR_SHAPE, self.tensors.shape.values.len());
        set(at::TENSOR_STRIDES, self.tensors.strides.values.len());
        set(at::EXTS, self.exts.len());
        set(at::EXT_BYTES, self.exts.data.bytes.len());
        set(at::EXT_HEAPS, self.exts.heaps.values.len());
        set(at::HEAP, self.heap.len());
        set(at::HEAP_BYTES, self.heap.bytes as usize);
        (sizes, present)
    }

    /// Gives tables in order, those without entries only with `empty`: how many entries there are,
    /// and the buffers in the order of [`crate::layout::BUFFERS`], without the heap's data.
    #[inline]
    pub(crate) fn visit<'t>(&'t self, empty: bool, mut give: impl FnMut(usize, &[&'t [u8]])) {
        let given = |entries: usize| empty || entries != 0;
        let [str, bytes, node, refs, tensor, ext] = &self.slots.indices;
        if given(self.slots.len()) {
            give(
                self.slots.len(),
                &[
                    &self.slots.types,
                    self.slots.offsets.as_flattened(),
                    &self.slots.bools.bytes,
                    self.slots.ints.as_flattened(),
                    self.slots.floats.as_flattened(),
                    str.as_flattened(),
                    bytes.as_flattened(),
                    node.as_flattened(),
                    refs.as_flattened(),
                    tensor.as_flattened(),
                    ext.as_flattened(),
                ],
            );
        }
        if given(self.nodes.len()) {
            give(
                self.nodes.len(),
                &[
                    &self.nodes.kinds,
                    &self.nodes.elems,
                    &self.nodes.elems2,
                    self.nodes.starts.as_flattened(),
                    self.nodes.lengths.as_flattened(),
                    self.nodes.starts2.as_flattened(),
                ],
            );
        }
        if given(self.i32.len()) {
            give(self.i32.len(), &[self.i32.as_flattened()]);
        }
        if given(self.i64.len()) {
            give(self.i64.len(), &[self.i64.as_flattened()]);
        }
        if given(self.f64.len()) {
            give(self.f64.len(), &[self.f64.as_flattened()]);
        }
        if given(self.bits.len()) {
            give(self.bits.len(), &[&self.bits.bytes]);
        }
        if given(self.strs.len()) {
            give(self.strs.len(), &[self.strs.offsets.as_flattened(), &self.strs.bytes]);
        }
        if given(self.refs.len()) {
            give(self.refs.len(), &[self.refs.as_flattened()]);
        }
        if given(self.bins.len()) {
            give(self.bins.len(), &[self.bins.offsets.as_flattened(), &self.bins.bytes]);
        }
        self.visit_rare(empty, give);
    }

    /// The tables that plain data doesn't need.
    fn visit_rare<'t>(&'t self, empty: bool, mut give: impl FnMut(usize, &[&'t [u8]])) {
        let Self { classes, dtypes, tensors, exts, heap, .. } = self;
        let given = |entries: usize| empty || entries != 0;
        if given(classes.len()) {
            give(
                classes.len(),
                &[
                    &classes.sources,
                    &classes.makes,
                    classes.names.offsets.as_flattened(),
                    &classes.names.bytes,
                    classes.versions.as_flattened(),
                    classes.fields.offsets.as_flattened(),
                    classes.field_names.offsets.as_flattened(),
                    &classes.field_names.bytes,
                    classes.exts.as_flattened(),
                ],
            );
        }
        let strings = &dtypes.strings;
        let itemsizes = dtypes.itemsizes.as_flattened();
        if given(dtypes.len()) {
            give(dtypes.len(), &[strings.offsets.as_flattened(), &strings.bytes, itemsizes]);
        }
        if given(tensors.len()) {
            give(
                tensors.len(),
                &[
                    &tensors.kinds,
                    tensors.dtypes.as_flattened(),
                    tensors.shape.offsets.as_flattened(),
                    tensors.shape.values.as_flattened(),
                    tensors.strides.offsets.as_flattened(),
                    tensors.strides.values.as_flattened(),
                    tensors.heaps.as_flattened(),
                    tensors.offsets.as_flattened(),
                ],
            );
        }
        if given(exts.len()) {
            give(
                exts.len(),
                &[
                    &exts.kinds,
                    exts.data.offsets.as_flattened(),
                    &exts.data.bytes,
                    exts.heaps.offsets.as_flattened(),
                    exts.heaps.values.as_flattened(),
                ],
            );
        }
        if given(heap.len()) {
            give(heap.len(), &[heap.offsets.as_flattened()]);
        }
    }

    /// Empties the tables and keeps their memory for the next object.
    pub fn clear(&mut self) {
        let Self { slots, nodes, strs, bins, classes, dtypes, tensors, exts, heap, .. } = self;
        slots.types.clear();
        slots.offsets.clear();
        slots.nulls = 0;
        slots.bools.truncate(0);
        slots.ints.clear();
        slots.floats.clear();
        slots.indices.iter_mut().for_each(Vec::clear);
        for column in [&mut nodes.kinds, &mut nodes.elems, &mut nodes.elems2] {
            column.clear();
        }
        for column in [&mut nodes.starts, &mut nodes.lengths, &mut nodes.starts2] {
            column.clear();
        }
        strs.clear();
        bins.clear();
        if !classes.is_empty() {
            *classes = Classes::default();
        }
        if !dtypes.is_empty() {
            *dtypes = Dtypes::default();
        }
        tensors.kinds.clear();
        tensors.dtypes.clear();
        tensors.shape.clear();
        tensors.strides.clear();
        tensors.heaps.clear();
        tensors.offsets.clear();
        exts.kinds.clear();
        exts.data.clear();
        exts.heaps.clear();
        *heap = Heap::default();
        self.i32.clear();
        self.i64.clear();
        self.f64.clear();
        self.bits.truncate(0);
        self.refs.clear();
    }

    /// Bytes of memory that the tables hold on to, about.
    pub fn held_bytes(&self) -> usize {
        let words = self.i32.capacity() + self.refs.capacity() + self.strs.offsets.capacity();
        let longs = self.i64.capacity() + self.f64.capacity() + 2 * self.nodes.starts.capacity();
        4 * words + 8 * longs + self.strs.bytes.capacity() + 5 * self.slots.types.capacity()
    }
}
