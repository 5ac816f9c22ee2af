//! NumPy arrays as tensors: where their memory lies, and which of them share it.
//!
//! Arrays that overlap become views of one entry of the heap. An array that uses only some of the
//! memory that it spans, and shares it with no other, is copied without the gaps.

use plasmon_cpython::buffer::letter_of;
use plasmon_cpython::dtype::{array_type, known_type, type_text};
use plasmon_plo::codes::{kind, limit, tensor};
use plasmon_plo::tables::Node;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyString};

use super::array_memory::fields_fit;
use super::array_reuse::{ArrayTensor, HeapArrays, changed};
use super::array_types::Dtype;
use super::encoder::{Encoder, Items};
use super::heap::Piece;
use super::raw::ndarray::{ArrayFields, fields};
use super::raw::{self, Ptr};

/// Overlapping arrays share an entry unless it would be this many times what they hold.
const SPARSE_MAX: usize = 4;

/// Relative to this, arrays in one entry keep their alignment.
const ENTRY_ALIGN: usize = 16;

unsafe extern "C" {
    static mut PyPickleBuffer_Type: ffi::PyTypeObject;
}

/// The memory of one tensor.
#[derive(Clone, Copy)]
struct Span {
    waiting: usize,
    low: usize,
    high: usize,
    /// Bytes of all elements.
    bytes: usize,
}

impl<'py> Encoder<'py> {
    /// Whether an object is an array that is kept as a tensor, or as an array of objects. Code of
    /// others may run.
    pub(super) fn is_array(&mut self, object: Ptr) -> bool {
        if !self.arrays.looked_up {
            self.open();
            self.arrays.looked_up = true;
            let class = array_type(self.py).ok().flatten();
            let class = class.filter(|_| fields_fit(self.py));
            self.arrays.class = class.map(|class| class.as_ptr());
        }
        // SAFETY: an exact array that is alive.
        self.is_exact_array(object) && self.dtype(unsafe { fields(object) }.dtype).is_some()
    }

    pub(super) fn is_exact_array(&self, object: Ptr) -> bool {
        // SAFETY: alive, as all items of a run.
        Some(unsafe { raw::type_of(object) }.cast()) == self.arrays.class
    }

    /// Whether an object is certainly an array whose elements are known, without running any code.
    pub(super) fn is_known_array(&mut self, object: Ptr) -> bool {
        if !self.is_exact_array(object) {
            return false;
        }
        // SAFETY: an exact array that is alive.
        let dtype = unsafe { fields(object) }.dtype;
        if self.arrays.dtype(dtype).is_some() {
            return true;
        }
        let Some((text, itemsize)) = known_type(dtype) else { return false };
        // NumPy's own element types live for as long as it does.
        let number = self.dtype_number(&text, itemsize);
        self.arrays.dtypes.push(Dtype { object: dtype, number, itemsize, objects: false });
        true
    }

    /// The entry of an element type; `None` for one that arrays aren't kept with.
    fn dtype(&mut self, object: Ptr) -> Option<Dtype> {
        if let Some(known) = self.arrays.dtype(object) {
            return Some(known);
        }
        let dtype = self.own(object);
        self.open();
        let found = self.describe_dtype(&dtype).ok().flatten()?;
        self.arrays.dtypes.push(found);
        // It is known by its address from now on.
        self.keep(&dtype);
        Some(found)
    }

    fn describe_dtype(&mut self, dtype: &Bound<'py, PyAny>) -> PyResult<Option<Dtype>> {
        let py = self.py;
        let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
        let itemsize: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
        let objects = kind == 'O';
        let number = if objects {
            if !dtype.getattr(intern!(py, "metadata"))?.is_none() {
                return Ok(None);
            }
            self.dtype_number("|O", itemsize)
        } else if let Some(text) = type_text(dtype)? {
            self.dtype_number(&text, itemsize)
        } else if kind == 'V' {
            let describe = py.import("plasmon._dtypes")?.getattr("describe_dtype")?;
            let Ok(text) = describe.call1((dtype,)) else { return Ok(None) };
            self.dtype_number(text.cast::<PyString>()?.to_str()?, itemsize)
        } else {
            return Ok(None);
        };
        Ok(Some(Dtype { object: dtype.as_ptr(), number, itemsize, objects }))
    }

    fn dtype_number(&mut self, text: &str, itemsize: usize) -> usize {
        if let Some((_, number)) = self.arrays.strings.iter().find(|(known, _)| &**known == text) {
            return *number;
        }
        let number = self.tables.dtypes.push(text.as_bytes(), itemsize);
        self.arrays.strings.push((text.into(), number));
        number
    }

    /// The number of the element type that a handler speaks of.
    pub(super) fn described_dtype(&mut self, dtype: &Bound<'py, PyAny>) -> PyResult<usize> {
        let describe = self.py.import("plasmon._dtypes")?.getattr("describe_dtype")?;
        let text = describe.call1((dtype,))?;
        let itemsize: usize = dtype.getattr(intern!(self.py, "itemsize"))?.extract()?;
        Ok(self.dtype_number(text.cast::<PyString>()?.to_str()?, itemsize))
    }

    /// Writes an array as a tensor; false for one of objects, which becomes a node.
    pub(super) fn push_array(&mut self, object: Ptr) -> PyResult<bool> {
        // SAFETY: `is_array` said that it is an exact array; it is alive.
        let array = unsafe { fields(object) };
        // Code that ran for the element type may have given the array another one.
        let Some(dtype) = self.arrays.dtype(array.dtype).filter(|dtype| !dtype.objects) else {
            return Ok(false);
        };
        let extents = array.shape().iter().map(|extent| (*extent as i64).to_le_bytes());
        self.tables.tensors.shape.values.extend(extents);
        let number = self.tables.tensors.push(tensor::NUMPY, dtype.number);
        self.arrays.has_views |= !array.owner.is_null();
        let (tensor, itemsize) = (number, dtype.itemsize);
        let of = ArrayTensor { array: self.own(object).unbind(), tensor, itemsize };
        self.arrays.placed.see(of, array, self.arrays.class);
        Ok(true)
    }

    /// Writes a memoryview, or other lent memory, as a tensor.
    pub(super) fn push_memory(&mut self, object: Ptr) -> PyResult<Option<usize>> {
        self.open();
        let value = self.own(object);
        // SAFETY: alive; the address of a type is compared only.
        let is_pickle_buffer = unsafe { raw::type_of(object) == &raw mut PyPickleBuffer_Type };
        if !is_pickle_buffer && !value.is_exact_instance_of::<PyMemoryView>() {
            return Ok(None);
        }
        let view = if is_pickle_buffer { value.call_method0("raw")? } else { value };
        let format: String = view.getattr("format")?.extract()?;
        let Some(letter) = letter_of(&format) else {
            let text = format!("cannot serialize a memoryview with the format '{format}'");
            return Err(PyTypeError::new_err(text));
        };
        let itemsize: usize = view.getattr("itemsize")?.extract()?;
        let shape: Vec<i64> = view.getattr("shape")?.extract()?;
        if shape.len() > limit::DIMENSIONS_MAX {
            return Err(PyTypeError::new_err("cannot serialize an array with so many dimensions"));
        }
        let dtype = self.dtype_number(letter, itemsize);
        let extents = shape.iter().map(|extent| extent.to_le_bytes());
        self.tables.tensors.shape.values.extend(extents);
        let number = self.tables.tensors.push(tensor::MEMORYVIEW, dtype);
        let contiguous: bool = view.getattr("c_contiguous")?.extract()?;
        let view = if contiguous { view } else { view.call_method0("tobytes")? };
        let piece = Piece::of_buffer(&view)?;
        if piece.bytes() != 0 {
            let entry = self.tables.heap.push(piece.bytes());
            self.heap.push(piece);
            self.tables.tensors.place(number, entry, 0);
        }
        Ok(Some(number))
    }

    pub(super) fn array_of_objects(
        &mut self,
        number: usize,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        // SAFETY: here and below: an exact array that is alive.
        let found = unsafe { fields(array.as_ptr()) };
        // One of other elements is a tensor: it was of objects when it became a node.
        let dtype = self.dtype(found.dtype).filter(|dtype| dtype.objects).ok_or_else(changed)?;
        let (flat, base) = if found.is_c_order(dtype.itemsize) {
            (array.clone(), 1)
        } else {
            (array.call_method1("ravel", ("C",))?, 2)
        };
        // From here on no code of others runs until the items are held.
        self.in_hand();
        if !self.is_exact_array(flat.as_ptr()) {
            return Err(changed());
        }
        // SAFETY: as above.
        let (shaped, found) = unsafe { (fields(array.as_ptr()), fields(flat.as_ptr())) };
        let count = found.shape().iter().product::<isize>() as usize;
        if found.dtype != dtype.object
            || !found.is_c_order(dtype.itemsize)
            || shaped.shape().iter().product::<isize>() as usize != count
        {
            return Err(changed());
        }
        let extents = shaped.shape().iter().map(|extent| (*extent as i64).to_le_bytes());
        self.tables.tensors.shape.values.extend(extents);
        let extra = self.tables.tensors.push(tensor::OBJECTS, dtype.number);
        if !shaped.is_c_order(dtype.itemsize) && shaped.is_fortran_order(dtype.itemsize) {
            let strides = shaped.strides().iter().map(|stride| (*stride as i64).to_le_bytes());
            self.arrays.fortran.push((extra, strides.collect()));
        }
        let items = found.data.cast::<Ptr>();
        // An element that was never set is None. A field of packed records may lie anywhere.
        // SAFETY: the array has that many elements, each an object or null.
        let item = |at: usize| unsafe { items.add(at).read_unaligned() };
        // SAFETY: None lives as long as the interpreter.
        let none = unsafe { ffi::Py_None() };
        let items = (0..count).map(item).map(|item| if item.is_null() { none } else { item });
        let items: Vec<Ptr> = items.collect();
        let run = self.run(Items { all: &items, base, also: &[], held: false })?;
        self.done();
        let node = Node { kind: kind::ARRAY, run, length: count, extra, ..Node::default() };
        self.tables.nodes.set(number, node);
        Ok(())
    }

    /// Gives every array its place in the heap.
    pub(super) fn place_arrays(&mut self) -> PyResult<()> {
        if self.tables.tensors.is_empty() {
            return Ok(());
        }
        let placed = std::mem::take(&mut self.arrays.placed);
        if self.is_pinned() && !placed.are_as_seen() {
            return Err(changed());
        }
        let mut spans = Vec::with_capacity(placed.all().len());
        for (number, one) in placed.all().enumerate() {
            // SAFETY: an exact array that is held.
            let array = unsafe { fields(one.array.as_ptr()) };
            let Some((low, high)) = array.span(one.itemsize) else { continue };
            let bytes = array.shape().iter().product::<isize>() as usize * one.itemsize;
            spans.push(Span { waiting: number, low, high, bytes });
        }
        let mut strides = vec![Vec::new(); self.tables.tensors.len()];
        for (tensor, own) in std::mem::take(&mut self.arrays.fortran) {
            strides[tensor] = own;
        }
        if self.arrays.has_views {
            spans.sort_by_key(|span| (span.low, span.high));
            let mut groups = Vec::new();
            let mut rest = &mut spans[..];
            while !rest.is_empty() {
                let (group, others) = rest.split_at_mut(overlapping(rest));
                group.sort_by_key(|span| span.waiting);
                groups.push(group);
                rest = others;
            }
            // Where the arrays happen to lie must not show in the bytes.
            groups.sort_by_key(|group| group[0].waiting);
            for group in groups {
                self.place_group(&placed, group, &mut strides)?;
            }
        } else {
            for span in &spans {
                self.place_one(&placed, *span, &mut strides)?;
            }
        }
        for own in strides {
            self.tables.tensors.strides.values.extend(own);
            self.tables.tensors.strides.end();
        }
        self.arrays.placed = placed;
        Ok(())
    }

    fn place_group(
        &mut self,
        placed: &HeapArrays,
        group: &[Span],
        strides: &mut [Vec<[u8; 8]>],
    ) -> PyResult<()> {
        let low = group.iter().map(|span| span.low).min().unwrap_or_default();
        let high = group.iter().map(|span| span.high).max().unwrap_or_default();
        let held: usize = group.iter().map(|span| span.bytes).sum();
        if group.len() == 1 || high - low > SPARSE_MAX * held {
            return group.iter().try_for_each(|span| self.place_one(placed, *span, strides));
        }
        let pad = low % ENTRY_ALIGN;
        // The piece lies in the memory of all arrays, so all of them are held.
        let owners = pyo3::types::PyTuple::new(
            self.py,
            group.iter().map(|span| placed.of(span.waiting).array.bind(self.py)),
        )?;
        let start = std::ptr::with_exposed_provenance(low);
        // SAFETY: overlapping arrays span this stretch, in memory that some of them keeps.
        let piece = unsafe { Piece::of_memory(owners.as_any(), start, high - low, pad) };
        let entry = self.tables.heap.push(piece.bytes());
        self.heap.push(piece);
        for span in group {
            let one = placed.of(span.waiting);
            // SAFETY: an exact array, held by `placed`.
            let array = unsafe { fields(one.array.as_ptr()) };
            let offset = pad + array.data.addr() - low;
            self.tables.tensors.place(one.tensor, entry, offset as u64);
            set_strides(array, one, strides);
        }
        Ok(())
    }

    fn place_one(
        &mut self,
        placed: &HeapArrays,
        span: Span,
        strides: &mut [Vec<[u8; 8]>],
    ) -> PyResult<()> {
        let one = placed.of(span.waiting);
        let (mut owner, mut low, mut high) = (one.array.bind(self.py).clone(), span.low, span.high);
        if high - low > span.bytes {
            // There are gaps: leave them out and keep the order.
            // SAFETY: an exact array, alive.
            let shape = unsafe { fields(owner.as_ptr()) }.shape().to_vec();
            self.open();
            let names = owner.getattr(intern!(self.py, "dtype"))?.getattr("names")?;
            if !names.is_none() {
                // As bytes: a copy of records would have anything between their fields.
                owner = owner.call_method1("view", (format!("V{}", one.itemsize),))?;
            }
            owner = owner.call_method1(intern!(self.py, "copy"), ("K",))?;
            // SAFETY: as above, and a copy of an array is one.
            let copied = unsafe { fields(owner.as_ptr()) };
            if !self.is_exact_array(owner.as_ptr()) || copied.shape() != shape {
                return Err(changed());
            }
            (low, high) = copied.span(one.itemsize).unwrap_or_default();
        }
        // SAFETY: as above.
        let array = unsafe { fields(owner.as_ptr()) };
        let start = std::ptr::with_exposed_provenance(low);
        // SAFETY: the array spans this stretch and keeps its memory.
        let piece = unsafe { Piece::of_memory(&owner, start, high - low, 0) };
        let entry = self.tables.heap.push(piece.bytes());
        self.heap.push(piece);
        self.tables.tensors.place(one.tensor, entry, (array.data.addr() - low) as u64);
        set_strides(array, one, strides);
        Ok(())
    }
}

fn set_strides(array: &ArrayFields, one: &ArrayTensor, strides: &mut [Vec<[u8; 8]>]) {
    if !array.is_c_order(one.itemsize) {
        let own = array.strides().iter().map(|stride| (*stride as i64).to_le_bytes());
        strides[one.tensor] = own.collect();
    }
}

/// How many spans from the first on overlap, one with some other.
fn overlapping(spans: &[Span]) -> usize {
    let mut end = 0;
    let together = spans.iter().enumerate().take_while(|(at, span)| {
        let joins = *at == 0 || span.low < end;
        end = end.max(span.high);
        joins
    });
    together.count()
}
