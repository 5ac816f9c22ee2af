//! Tensors and extensions: values that have no parts, or keep them for themselves.

use plasmon_cpython::buffer::Flat;
use plasmon_cpython::dtype::array_type;
use plasmon_cpython::ndarray::{ArrayMaker, NewArray};
use plasmon_objects::codes::{ext, tensor};
use plasmon_objects::view::{Longs, Words};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyComplex, PyDict, PyInt, PyList, PySlice, PyTuple};

use super::decode::{Decoder, changed, shared, text_of};
use super::memory::Block;
use super::raw::{self, Ptr};
use super::serialized::{broken, misfit};
use crate::numpy::type_object;

/// Kinds of elements that refer to nothing and have no parts.
const PLAIN: &[u8] = b"biufcmMSU";

/// Arrays with more dimensions are rare, and left to NumPy's constructor.
const DIMENSIONS_FEW: usize = 8;

/// What makes arrays on an object's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuickArrays {
    maker: ArrayMaker,
    class: *mut ffi::PyTypeObject,
    /// Where the object's memory starts.
    start: *const u8,
}

impl QuickArrays {
    /// For a read-only view of the object's memory, in bytes; `None` without NumPy's functions.
    fn of(memory: &Bound<'_, PyAny>, object_bytes: usize) -> PyResult<Option<Self>> {
        let py = memory.py();
        let class = match array_type(py)? {
            Some(class) => class.as_type_ptr(),
            None => return Ok(None),
        };
        let Some(maker) = ArrayMaker::of(py) else { return Ok(None) };
        // The view has lent the memory; asked again it says where that is.
        let lent = Flat::with_flags(memory, ffi::PyBUF_C_CONTIGUOUS)?;
        // What was checked was lent before, and somebody may lend something else each time.
        if lent.bytes().len() < object_bytes {
            return Err(changed());
        }
        Ok(Some(Self { maker, class, start: lent.bytes().as_ptr() }))
    }
}

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
        let to = tensors.shape_offsets.index(number + 1);
        tensors.shape.range(from, to.saturating_sub(from))
    }

    fn strides_of(&self, number: usize) -> &'a [[u8; 8]] {
        let tensors = &self.object.view.tensors;
        let from = tensors.stride_offsets.index(number);
        let to = tensors.stride_offsets.index(number + 1);
        tensors.strides.range(from, to.saturating_sub(from))
    }

    /// The element type of a tensor or a scalar, which is as long as the object says.
    fn dtype(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some((known, dtype)) = &self.last_dtype
            && *known == number
        {
            return Ok(dtype.clone());
        }
        let view = &self.object.view;
        let text = text_of(view.dtype_texts.at(number))?;
        let unknown = |error| broken(self.py, &format!("no element type {text:?}: {error}"));
        let dtype = type_object(self.py, text).map_err(unknown)?;
        let itemsize: usize = dtype.getattr(intern!(self.py, "itemsize"))?.extract()?;
        if itemsize != view.dtype_itemsizes.index(number) {
            return Err(broken(self.py, &format!("{text} has {itemsize} bytes")));
        }
        self.last_dtype = Some((number, dtype.clone()));
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

    fn array(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let tensors = &self.object.view.tensors;
        let dtype = self.dtype(tensors.dtype.index(number))?;
        let class = match array_type(py)? {
            Some(class) => class.clone(),
            None => py.import("numpy")?.getattr("ndarray")?.cast_into()?,
        };
        if tensors.heap.at(number) < 0 {
            // No bytes, but aligned like all others.
            let shape = self.shape_tuple(number)?;
            return class.call1((shape, dtype, Block::new(0)?));
        }
        let entry = self.object.view.heap_range(tensors.heap.index(number));
        let place = (self.object.view.heap_at() + entry.start) as i64 + tensors.offset.at(number);
        let strides = self.strides_of(number);
        if let Some(made) = self.quick_array(number, &dtype, strides, place)? {
            return Ok(made);
        }
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
        strides: &[[u8; 8]],
        place: i64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let view = &self.object.view;
        let entry = view.tensors.dtype.index(number);
        let (text, itemsize) = (view.dtype_texts.at(entry), view.dtype_itemsizes.index(entry));
        let shape = self.shape_of(number);
        let is_plain = matches!(text, [b'<' | b'>' | b'|', kind, ..] if PLAIN.contains(kind));
        if !is_plain || itemsize == 0 || shape.len() > DIMENSIONS_FEW {
            return Ok(None);
        }
        let memory = self.memory_view()?;
        let quick = match self.quick_arrays {
            Some(known) => known,
            None => *self.quick_arrays.insert(QuickArrays::of(&memory, view.bytes() as usize)?),
        };
        let Some(quick) = quick else { return Ok(None) };
        let mut extents = [[0isize; DIMENSIONS_FEW]; 2];
        let [shape_room, stride_room] = &mut extents;
        let mut step = itemsize as isize;
        for (at, extent) in shape.iter().enumerate().rev() {
            shape_room[at] = i64::from_le_bytes(*extent) as isize;
            stride_room[at] = step;
            step = step.wrapping_mul(shape_room[at]);
        }
        for (room, stride) in stride_room.iter_mut().zip(strides) {
            *room = i64::from_le_bytes(*stride) as isize;
        }
        let new = NewArray {
            class: quick.class,
            dtype: dtype.as_ptr(),
            shape: &shape_room[..shape.len()],
            strides: &stride_room[..shape.len()],
            data: quick.start.wrapping_offset(place as isize),
            owner: memory.as_ptr(),
        };
        // SAFETY: attached; the class and the type are NumPy's. The check found every element
        // within the object, this view of its memory is not shorter, and the view keeps it.
        let made = unsafe { quick.maker.make(&new) };
        // SAFETY: a new reference or null with an error set.
        unsafe { Bound::from_owned_ptr_or_err(self.py, made) }.map(Some)
    }

    fn lent_memory(&mut self, number: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let view = &self.object.view;
        let dtype = view.tensors.dtype.index(number);
        let letter = text_of(view.dtype_texts.at(dtype))?;
        let shape = self.shape_of(number).iter().map(|extent| i64::from_le_bytes(*extent));
        let elements = shape.clone().product::<i64>() as usize;
        let bytes = elements * view.dtype_itemsizes.index(dtype);
        let shape = PyList::new(py, shape)?;
        let memory = if view.tensors.heap.at(number) < 0 {
            pyo3::types::PyMemoryView::from(PyBytes::new(py, b"").as_any())?.into_any()
        } else {
            let entry = view.heap_range(view.tensors.heap.index(number));
            let from = view.heap_at() + entry.start + view.tensors.offset.at(number) as usize;
            self.slice(from, bytes)?
        };
        if shape.len() == 1 && letter == "B" {
            return Ok(memory);
        }
        // Without elements a view can only have one dimension.
        if bytes == 0 {
            return memory.call_method1(intern!(py, "cast"), (letter,));
        }
        memory.call_method1(intern!(py, "cast"), (letter, shape))
    }

    /// A stretch of the object's memory.
    fn slice(&mut self, from: usize, bytes: usize) -> PyResult<Bound<'py, PyAny>> {
        let range = PySlice::new(self.py, from as isize, (from + bytes) as isize, 1);
        self.memory_view()?.get_item(range)
    }

    /// The bytes of heap entries of an extension, and what else its data says.
    fn heap_parts(&mut self, number: usize) -> PyResult<Vec<(usize, usize)>> {
        let exts = &self.object.view.exts;
        let from = exts.heap_offsets.index(number);
        let to = exts.heap_offsets.index(number + 1);
        let lengths = Longs(exts.data.at(number).as_chunks::<8>().0);
        let mut parts = Vec::new();
        for (at, heap) in (from..to).enumerate() {
            let entry = self.object.view.heap_range(exts.heaps.index(heap));
            let bytes = usize::try_from(lengths.at(at)).map_err(|_| changed())?;
            if bytes > entry.len() {
                return Err(changed());
            }
            parts.push((self.object.view.heap_at() + entry.start, bytes));
        }
        Ok(parts)
    }

    /// The bytes of the one heap entry of an extension.
    fn heap_bytes(&mut self, number: usize) -> PyResult<&'a [u8]> {
        let parts = self.heap_parts(number)?;
        let (from, bytes) = parts.first().copied().ok_or_else(changed)?;
        let start = from - self.object.view.heap_at();
        self.object.view.heap.get(start..start + bytes).ok_or_else(changed)
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
                // SAFETY: attached; checked to be ASCII, or decoded.
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
            _ => self.in_python(kind, (PyBytes::new(py, data),).into_pyobject(py)?)?,
        })
    }

    /// An extension that `plasmon.objects._extensions` makes.
    fn in_python(&self, kind: u8, parts: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let module = self.py.import("plasmon.objects._extensions")?;
        module.getattr("decode")?.call1((kind, parts, self.context, self.pickle))
    }

    pub(super) fn new_array_of_objects(&mut self, node: usize) -> PyResult<Ptr> {
        let number = self.object.view.nodes.start2.index(node);
        let shape = numbers(self.py, self.shape_of(number))?;
        let made = self.py.import("numpy")?.getattr("empty")?.call1((shape, "O"))?;
        Ok(made.into_ptr())
    }

    pub(super) fn array_of_objects(&mut self, node: usize) -> PyResult<Ptr> {
        let nodes = &self.object.view.nodes;
        let (elem, start) = (nodes.elem[node], nodes.start.index(node));
        let mut items = super::owned::Owned::nulls(nodes.length.index(node));
        self.fill(elem, start, &mut items.0)?;
        let empty = self.empty(node);
        let array = if empty.is_null() { self.new_array_of_objects(node)? } else { shared(empty) };
        // SAFETY: a reference of ours.
        let array = unsafe { Bound::from_owned_ptr(self.py, array) };
        super::arrays::set_items(&array, &mut items.0)?;
        Ok(if empty.is_null() { array.into_ptr() } else { empty })
    }
}

/// Numbers as a tuple.
fn numbers<'py>(py: Python<'py>, values: &[[u8; 8]]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, values.iter().map(|value| i64::from_le_bytes(*value)))
}
