//! Tensors and extensions: values that have no parts, or keep them for themselves.

use plasmon_cpython::dtype::{array_type, type_object};
use plasmon_cpython::ndarray::NewArray;
use plasmon_plo::codes::{ext, tensor};
use plasmon_plo::view::{Longs, Words};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyComplex, PyDict, PyInt, PyList, PySlice, PyTuple};

use super::array_memory::set_items;
use super::decimal::decimal_class;
use super::decoder::{Decoder, NodeCopy, text_of};
use super::errors::{broken, changed, misfit};
use super::memory::Block;
use super::owned::{OwnedReferences, shared};
use super::quick_arrays::{Extents, QuickArrays};
use super::raw::{self, Ptr};

/// Kinds of elements that refer to nothing and have no parts.
const PLAIN: &[u8] = b"biufcmMSU";

static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

impl<'a, 'py> Decoder<'a, 'py> {
    /// A tensor as a reference of the caller's.
    pub(super) fn tensor(&mut self, number: usize) -> PyResult<Ptr> {
        if let Some(known) = self.tensors.0.get(number).filter(|known| !known.is_null()) {
            return Ok(shared(*known));
        }
        let kind = self.object.view.tensors.kind.get(number).copied();
        let made = match kind {
            Some(tensor::NUMPY) => self.array(number),
            Some(tensor::MEMORYVIEW) => self.lent_memory(number),
            _ => return Err(changed()),
        };
        let made = made.map_err(|error| misfit(self.py, error))?;
        if let Some(room) = self.tensors.0.get_mut(number) {
            *room = shared(made.as_ptr());
        }
        Ok(made.into_ptr())
    }

    /// The extents of a tensor.
    pub(super) fn shape_of(&self, number: usize) -> &'a [[u8; 8]] {
        let tensors = &self.object.view.tensors;
        let from = tensors.shape_offsets.index(number);
        let to = tensors.shape_offsets.index(number.saturating_add(1));
        tensors.shape.range(from, to.saturating_sub(from))
    }

    fn strides_of(&self, number: usize) -> &'a [[u8; 8]] {
        let tensors = &self.object.view.tensors;
        let from = tensors.stride_offsets.index(number);
        let to = tensors.stride_offsets.index(number.saturating_add(1));
        tensors.strides.range(from, to.saturating_sub(from))
    }

    /// The element type of a tensor or a scalar, which is as long as the object says.
    fn dtype(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some((known, dtype, _)) = &self.last_dtype
            && *known == number
        {
            return Ok(dtype.clone());
        }
        let view = &self.object.view;
        let text = text_of(view.dtype_strings.at(number))?;
        let text = text.as_str();
        let unknown = |error| broken(self.py, &format!("unknown element type {text:?}: {error}"));
        let dtype = type_object(self.py, text).map_err(unknown)?;
        let itemsize: usize = dtype.getattr(intern!(self.py, "itemsize"))?.extract()?;
        if itemsize != view.dtype_itemsizes.index(number) {
            return Err(broken(self.py, &format!("{text} has {itemsize} bytes")));
        }
        let is_plain =
            matches!(text.as_bytes(), [b'<' | b'>' | b'|', kind, ..] if PLAIN.contains(kind));
        let plain = (is_plain && itemsize != 0).then_some(itemsize);
        self.last_dtype = Some((number, dtype.clone(), plain));
        Ok(dtype)
    }

    /// The extents of a tensor as a tuple.
    fn shape_tuple(&mut self, number: usize) -> PyResult<Bound<'py, PyTuple>> {
        let shape = self.shape_of(number);
        if let Some((known, tuple)) = &self.last_shape
            && *known == shape
        {
            return Ok(tuple.clone());
        }
        let tuple = numbers(self.py, shape)?;
        self.last_shape = Some((shape, tuple.clone()));
        Ok(tuple)
    }

    /// Where the bytes of a tensor begin in the object; `None` for one without any.
    fn place_of(&self, number: usize) -> PyResult<Option<i64>> {
        let view = &self.object.view;
        let Ok(entry) = usize::try_from(view.tensors.heap.at(number)) else { return Ok(None) };
        let start = view.heap_at().checked_add(view.heap_range(entry).start);
        let start = start.and_then(|start| i64::try_from(start).ok());
        let place = start.and_then(|start| start.checked_add(view.tensors.offset.at(number)));
        place.map(Some).ok_or_else(changed)
    }

    fn array(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let dtype = self.dtype(self.object.view.tensors.dtype.index(number))?;
        let class = match array_type(py)? {
            Some(class) => class.clone(),
            None => py.import("numpy")?.getattr("ndarray")?.cast_into()?,
        };
        let Some(place) = self.place_of(number)? else {
            // No bytes, but aligned like all others.
            let shape = self.shape_tuple(number)?;
            return class.call1((shape, dtype, Block::new(0)?));
        };
        if let Some(made) = self.quick_array(number, &dtype, place)? {
            return Ok(made);
        }
        // NumPy compares what it is given with the memory.
        let strides = self.strides_of(number);
        let shape = self.shape_tuple(number)?;
        let memory = self.memory_view()?;
        if strides.is_empty() {
            return class.call1((shape, dtype, memory, place));
        }
        class.call1((shape, dtype, memory, place, numbers(py, strides)?))
    }

    /// An array of a plain element type and few dimensions, made by NumPy's own function; `place`
    /// is where in the object the element at index 0 lies.
    fn quick_array(
        &mut self,
        number: usize,
        dtype: &Bound<'py, PyAny>,
        place: i64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((_, _, Some(itemsize))) = self.last_dtype else { return Ok(None) };
        let Some(shape) = Extents::copied(self.shape_of(number)) else { return Ok(None) };
        let strides = self.strides_of(number);
        let strides =
            if strides.is_empty() { shape.strides(itemsize) } else { Extents::copied(strides) };
        let Some(strides) = strides else { return Ok(None) };
        let memory = self.memory_view()?;
        let quick = match self.quick_arrays {
            Some(known) => known,
            None => {
                let bytes = self.object.view.bytes() as usize;
                *self.quick_arrays.insert(QuickArrays::of(&memory, bytes)?)
            }
        };
        let Some(quick) = quick else { return Ok(None) };
        if !shape.lie_in(&strides, itemsize, place, quick.bytes) {
            return Err(changed());
        }
        let new = NewArray {
            class: quick.class,
            dtype: dtype.as_ptr(),
            shape: shape.all(),
            strides: strides.all(),
            data: quick.start.wrapping_offset(place as isize),
            owner: memory.as_ptr(),
        };
        // SAFETY: attached; the class and the type are NumPy's. Every element lies in this view of
        // the memory, by the numbers that are passed on, and the view keeps it.
        let made = unsafe { quick.maker.make(&new) };
        // SAFETY: a new reference or null with an error set.
        unsafe { Bound::from_owned_ptr_or_err(self.py, made) }.map(Some)
    }

    fn lent_memory(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let view = &self.object.view;
        let dtype = view.tensors.dtype.index(number);
        let letter = text_of(view.dtype_strings.at(dtype))?;
        let shape = self.shape_of(number).iter().map(|extent| i64::from_le_bytes(*extent));
        let shape: Vec<i64> = shape.collect();
        let mut bytes = Some(view.dtype_itemsizes.index(dtype));
        for extent in &shape {
            let extent = usize::try_from(*extent).ok();
            bytes = bytes.zip(extent).and_then(|(bytes, extent)| bytes.checked_mul(extent));
        }
        let bytes = if shape.contains(&0) { 0 } else { bytes.ok_or_else(changed)? };
        let memory = match self.place_of(number)? {
            None => pyo3::types::PyMemoryView::from(PyBytes::new(py, b"").as_any())?.into_any(),
            Some(place) => {
                let from = usize::try_from(place).map_err(|_| changed())?;
                self.slice(from, bytes)?
            }
        };
        if shape.len() == 1 && letter == "B" {
            return Ok(memory);
        }
        // Without elements a view can only have one dimension.
        if bytes == 0 {
            return memory.call_method1(intern!(py, "cast"), (letter,));
        }
        memory.call_method1(intern!(py, "cast"), (letter, PyList::new(py, shape)?))
    }

    /// A stretch of the object's memory.
    fn slice(&mut self, from: usize, bytes: usize) -> PyResult<Bound<'py, PyAny>> {
        let end = from.checked_add(bytes).filter(|end| *end as u64 <= self.object.view.bytes());
        let end = end.ok_or_else(changed)?;
        let range = PySlice::new(self.py, from as isize, end as isize, 1);
        self.memory_view()?.get_item(range)
    }

    /// The bytes of heap entries of an extension, and what else its data says.
    fn heap_parts(&mut self, number: usize) -> PyResult<Vec<(usize, usize)>> {
        let exts = &self.object.view.exts;
        let from = exts.heap_offsets.index(number);
        let to = exts.heap_offsets.index(number + 1);
        let lengths = Longs(exts.data.at(number).as_chunks::<8>().0);
        if to.saturating_sub(from) > lengths.0.len() {
            return Err(changed());
        }
        let mut parts = Vec::new();
        for (at, heap) in (from..to).enumerate() {
            let entry = self.object.view.heap_range(exts.heaps.index(heap));
            let bytes = usize::try_from(lengths.at(at)).map_err(|_| changed())?;
            let start = self.object.view.heap_at().checked_add(entry.start);
            match start.filter(|_| bytes <= entry.len()) {
                Some(start) => parts.push((start, bytes)),
                None => return Err(changed()),
            }
        }
        Ok(parts)
    }

    /// The bytes of the one heap entry of an extension.
    fn heap_bytes(&mut self, number: usize) -> PyResult<&'a [u8]> {
        let parts = self.heap_parts(number)?;
        let (from, bytes) = parts.first().copied().ok_or_else(changed)?;
        let start = from - self.object.view.heap_at();
        let end = start.checked_add(bytes).ok_or_else(changed)?;
        self.object.view.heap.get(start..end).ok_or_else(changed)
    }

    /// An extension as a reference of the caller's.
    pub(super) fn ext(&mut self, number: usize) -> PyResult<Ptr> {
        if let Some(known) = self.exts.0.get(number).filter(|known| !known.is_null()) {
            return Ok(shared(*known));
        }
        let made = self.new_ext(number)?;
        if let Some(room) = self.exts.0.get_mut(number) {
            *room = shared(made.as_ptr());
        }
        Ok(made.into_ptr())
    }

    fn new_ext(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let data = self.object.view.exts.data.at(number);
        let kind = self.object.view.exts.kind.get(number).copied().unwrap_or(u8::MAX);
        Ok(match kind {
            ext::INT => {
                let options = PyDict::new(py);
                options.set_item("signed", true)?;
                let arguments = (PyBytes::new(py, data), "little");
                py.get_type::<PyInt>().call_method("from_bytes", arguments, Some(&options))?
            }
            ext::COMPLEX => {
                let parts = Longs(data.as_chunks::<8>().0);
                let part = |at| f64::from_le_bytes(parts.at(at).to_le_bytes());
                PyComplex::from_doubles(py, part(0), part(1)).into_any()
            }
            ext::SURROGATES => {
                PyBytes::new(py, data).call_method1("decode", ("utf-8", "surrogatepass"))?
            }
            ext::LONG_STR => {
                let text = self.heap_bytes(number)?;
                // SAFETY: attached. The first look spares a copy; the second is at the copy.
                let made = unsafe {
                    if text.is_ascii() { raw::new_ascii(text) } else { raw::new_str(text) }
                };
                // SAFETY: a new reference.
                unsafe { Bound::from_owned_ptr(py, self.made_text(made)?) }
            }
            ext::LONG_BYTES => PyBytes::new(py, self.heap_bytes(number)?).into_any(),
            ext::BYTEARRAY => PyByteArray::new(py, data).into_any(),
            ext::LONG_BYTEARRAY => PyByteArray::new(py, self.heap_bytes(number)?).into_any(),
            ext::SCALAR | ext::DTYPE => {
                let dtype = self.dtype(Words(data.as_chunks::<4>().0).index(0))?;
                if kind == ext::DTYPE {
                    return Ok(dtype);
                }
                let data = PyBytes::new(py, data.get(4..).unwrap_or_default());
                self.in_python(kind, (dtype, data).into_pyobject(py)?)?
            }
            ext::PICKLE | ext::CLOUDPICKLE => {
                let buffers = PyList::empty(py);
                let parts = self.heap_parts(number)?;
                let skip = 8 * parts.len();
                for (from, bytes) in parts {
                    buffers.append(self.slice(from, bytes)?)?;
                }
                let data = PyBytes::new(py, data.get(skip..).unwrap_or_default());
                self.in_python(kind, (data, buffers).into_pyobject(py)?)?
            }
            ext::ARROW => {
                let parts = self.heap_parts(number)?;
                let (from, bytes) = parts.first().copied().ok_or_else(changed)?;
                let table_kind = data.get(8).copied().ok_or_else(changed)?;
                let text = text_of(data.get(9..).unwrap_or_default())?;
                let memory = self.slice(from, bytes)?;
                self.in_python(kind, (table_kind, text, memory).into_pyobject(py)?)?
            }
            ext::DECIMAL => {
                // There may be one for each cell of a column.
                let made = decimal_class(py)?.call1((text_of(data)?,));
                made.map_err(|error| misfit(py, error))?
            }
            _ => self.in_python(kind, (PyBytes::new(py, data),).into_pyobject(py)?)?,
        })
    }

    /// An extension that `plasmon.objects._extensions` makes.
    fn in_python(&self, kind: u8, parts: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let decode = DECODE.import(self.py, "plasmon.objects._extensions", "decode")?;
        decode.call1((kind, parts, self.context, self.pickle))
    }

    pub(super) fn new_array_of_objects(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let shape = self.shape_of(node.start2).iter().map(|extent| i64::from_le_bytes(*extent));
        let shape: Vec<i64> = shape.collect();
        let elements =
            shape.iter().try_fold(1, |product: i64, extent| product.checked_mul(*extent));
        let elements = if shape.contains(&0) { Some(0) } else { elements };
        if elements.and_then(|elements| usize::try_from(elements).ok()) != Some(node.length) {
            return Err(changed());
        }
        let shape = PyTuple::new(self.py, shape)?;
        // As many strides as extents say that the first index is the fastest in memory.
        let order = if self.strides_of(node.start2).is_empty() { "C" } else { "F" };
        let made = self.py.import("numpy")?.getattr("empty")?.call1((shape, "O", order))?;
        Ok(made.into_ptr())
    }

    pub(super) fn array_of_objects(&mut self, node: &NodeCopy) -> PyResult<Ptr> {
        let mut items = OwnedReferences::nulls(node.length);
        self.fill(node.elem, node.start, &mut items.0)?;
        let empty = self.empty(node.number);
        let array = if empty.is_null() { self.new_array_of_objects(node)? } else { shared(empty) };
        // SAFETY: a reference of ours.
        let array = unsafe { Bound::from_owned_ptr(self.py, array) };
        set_items(&array, &mut items.0)?;
        Ok(if empty.is_null() { array.into_ptr() } else { empty })
    }
}

/// Numbers as a tuple.
fn numbers<'py>(py: Python<'py>, values: &[[u8; 8]]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, values.iter().map(|value| i64::from_le_bytes(*value)))
}
