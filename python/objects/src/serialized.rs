//! A value that was taken apart: its layout is known and its bytes can be written anywhere.

use std::cell::Cell;

use plasmon_plo::tables::Tables;
use plasmon_plo::{Form, FormChoice, Plan};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyList};

use super::array_reuse::HeapArrays;
use super::context::Context;
use super::encode::encode;
use super::encoder::{Memory, ValueTables};
use super::errors::raised;
use super::heap::Piece;
use super::memory::Block;

/// What one call leaves to the next: the kernel takes longer to provide fresh memory for a column
/// than it takes to fill it. Larger tables are given back.
const HELD_BYTES_MAX: usize = 16 << 20;

thread_local! {
    static MEMORY: Cell<Option<Memory>> = const { Cell::new(None) };
}

/// A value in the PLO format that has a size and is not written yet. Made by `plasmon.serialize`.
///
/// It refers to the arrays and buffers of the value; change none of them until it is written. An
/// array that was given another shape or other memory in place is detected, and refused.
#[pyclass(frozen, module = "plasmon", name = "Serialized")]
#[expect(missing_debug_implementations, reason = "it has a repr in Python")]
pub struct Serialized {
    tables: Box<Tables>,
    heap: Vec<Piece>,
    placed: HeapArrays,
    plan: Plan,
    /// The memory that the next encoder reuses.
    memory: Memory,
}

pub(super) fn wanted(form: Option<&str>) -> PyResult<FormChoice> {
    match form {
        None | Some("auto") => Ok(FormChoice::Auto),
        Some("stream") => Ok(FormChoice::Stream),
        Some("small") => Ok(FormChoice::Small),
        Some(other) => {
            let text = format!("form is \"auto\", \"stream\" or \"small\", found \"{other}\"");
            Err(PyValueError::new_err(text))
        }
    }
}

impl Serialized {
    /// Takes a value apart.
    pub fn of(
        context: &Bound<'_, Context>,
        value: &Bound<'_, PyAny>,
        wanted: FormChoice,
    ) -> PyResult<Self> {
        let memory = MEMORY.take().unwrap_or_default();
        let (ValueTables { tables, heap, placed }, memory) = encode(context, value, memory)?;
        // What the encoder held is dropped by now, which may have run finalizers.
        placed.check(context.py())?;
        let plan = Plan::of(&tables, wanted).map_err(|error| raised(context.py(), &error))?;
        Ok(Self { tables, heap, placed, plan, memory })
    }

    /// How long the object is.
    pub fn bytes(&self) -> usize {
        self.plan.bytes() as usize
    }

    /// Makes sure that the object's bytes are where they were, right before they are read.
    fn ready(&self, py: Python<'_>) -> PyResult<ObjectImage<'_>> {
        self.placed.check(py)?;
        Ok(ObjectImage(self))
    }

    /// Gives the object's bytes in parts, where they lie, to be gathered. Only for an object that
    /// was made in the same call: no code has run since its arrays were looked at.
    pub fn with_parts<T>(&self, gather: impl FnOnce(&[&[u8]]) -> T) -> T {
        let mut glue = Vec::new();
        let mut parts = self.plan.parts(&self.tables, &mut glue);
        parts.extend(self.heap.iter().flat_map(Piece::padded));
        parts.push(self.plan.tail());
        gather(&parts)
    }

    /// Gives the memory that is not needed any more to the next object of this thread.
    pub fn recycle(self) {
        let Self { mut tables, mut memory, .. } = self;
        if tables.held_bytes() <= HELD_BYTES_MAX {
            tables.clear();
            memory.tables = Some(tables);
        }
        MEMORY.set(Some(memory));
    }
}

/// An object whose bytes can be read.
struct ObjectImage<'a>(&'a Serialized);

impl ObjectImage<'_> {
    /// Writes the object.
    fn write(&self, room: &mut [u8]) {
        let Serialized { plan, tables, heap, .. } = self.0;
        let (front, mut rest) = room.split_at_mut(plan.heap_at() as usize);
        plan.write_front(tables, front);
        for slice in heap.iter().flat_map(Piece::padded) {
            let (place, after) = rest.split_at_mut(slice.len());
            place.copy_from_slice(slice);
            rest = after;
        }
        rest.copy_from_slice(plan.tail());
    }

    /// Whether some of the object's bytes lie in this stretch of memory.
    fn lies_in(&self, room: &[u8]) -> bool {
        let room = room.as_ptr_range();
        let mut slices = self.0.heap.iter().flat_map(Piece::slices).map(<[u8]>::as_ptr_range);
        slices.any(|slice| slice.start < room.end && room.start < slice.end)
    }
}

/// The bytes of a value.
pub(super) fn dumps<'py>(
    context: &Bound<'py, Context>,
    value: &Bound<'py, PyAny>,
    wanted: FormChoice,
) -> PyResult<Bound<'py, PyBytes>> {
    let object = Serialized::of(context, value, wanted)?;
    let py = value.py();
    // SAFETY: attached; a new bytes object of this length has its bytes after its header, and
    // was not handed out yet. Zeroing it first would cost as much as writing it.
    let bytes = unsafe {
        let made = ffi::PyBytes_FromStringAndSize(std::ptr::null(), object.bytes() as isize);
        let made = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyBytes>();
        let start = ffi::PyBytes_AS_STRING(made.as_ptr()).cast_mut().cast::<u8>();
        // No code has run since the arrays were looked at.
        ObjectImage(&object).write(std::slice::from_raw_parts_mut(start, object.bytes()));
        made
    };
    object.recycle();
    Ok(bytes)
}

#[pymethods]
impl Serialized {
    /// How many bytes the object has.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }

    /// "stream" (an Arrow IPC stream) or "small" (the compact form of small values).
    #[getter]
    fn form(&self) -> &'static str {
        match self.plan.form() {
            Form::Stream => "stream",
            Form::Small => "small",
        }
    }

    /// Writes the object to the start of `buffer`, anything writable with the buffer protocol, and
    /// returns how many bytes that were.
    ///
    /// Raises ValueError when it has not `nbytes` bytes, or is memory of an array of the value.
    fn write_into(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut room = super::memory::Room::of(buffer)?;
        let bytes = self.bytes();
        let (found, py) = (room.bytes().len(), buffer.py());
        let Some(place) = room.bytes().get_mut(..bytes) else {
            let text = format!("the object has {bytes} bytes, the buffer {found}");
            return Err(PyValueError::new_err(text));
        };
        let ready = self.ready(py)?;
        if ready.lies_in(place) {
            return Err(PyValueError::new_err(
                "the buffer is memory of an array or a buffer of the value, which would be \
                 overwritten while it is read: write to other memory",
            ));
        }
        py.detach(|| ready.write(place));
        Ok(bytes)
    }

    /// The object in its own memory, aligned for every reader; it has the buffer protocol.
    fn to_buffer(&self, py: Python<'_>) -> PyResult<Block> {
        let mut block = Block::new(self.bytes())?;
        let ready = self.ready(py)?;
        py.detach(|| ready.write(block.bytes_mut()));
        Ok(block)
    }

    /// The object in pieces: `{"data": [buffer, ...], "tail": bytes, "nbytes": int}`. The first
    /// buffer is everything but the heap, the others are the heap's entries, which share memory
    /// with the value where they can. One after the other, those after the first padded with zeros
    /// to multiples of 64, and the tail at the end, they are the object.
    fn to_components<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut front = Block::new(self.plan.heap_at() as usize)?;
        self.plan.write_front(&self.tables, front.bytes_mut());
        let data = PyList::empty(py);
        data.append(Bound::new(py, front)?)?;
        self.ready(py)?;
        for piece in &self.heap {
            data.append(piece.lend(py)?)?;
        }
        let components = PyDict::new(py);
        components.set_item("nbytes", self.bytes())?;
        components.set_item("data", data)?;
        components.set_item("tail", PyBytes::new(py, self.plan.tail()))?;
        Ok(components)
    }

    fn __len__(&self) -> usize {
        self.bytes()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.heap.iter().try_for_each(|piece| piece.traverse(&visit))?;
        self.placed.traverse(&visit)
    }

    fn __repr__(&self) -> String {
        format!("<plasmon.Serialized: {} bytes, form {}>", self.bytes(), self.form())
    }
}
