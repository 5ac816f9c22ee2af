//! A pinned object in Python: bytes that stay where they are for as long as they are referred to.
//!
//! A buffer is either held or released. Users of its memory are counted: memoryviews and objects
//! made from them through the buffer protocol, Arrow and DLPack consumers through an [`Export`].
//! NumPy arrays that only keep a reference to the buffer itself cannot be counted; they mark the
//! buffer as lent, which lasts until it is collected.
//!
//! ```text
//! held ── release(), nothing counted, not lent ──► released
//!   └──── collected, when nothing refers to it ──► released
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::ObjectId;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::error::raised;

/// A sealed object, pinned and read in place; it has the buffer protocol, read-only.
///
/// An array says so through every protocol: `memoryview(buffer)`, `numpy.asarray(buffer)` and
/// DLPack have its element type and shape where they can name it. `buffer.data` is its bytes.
#[pyclass(frozen, module = "plasmon", name = "Buffer", weakref)]
#[derive(Debug)]
pub(crate) struct Buffer {
    state: Mutex<State>,
    trusted: bool,
}

#[derive(Debug)]
struct State {
    buffer: Option<plasmon_client::Buffer>,
    exports: usize,
    lent: bool,
}

impl Buffer {
    /// A Python buffer on a pinned object. `trusted` says that only processes that could harm this
    /// one anyway can have written it.
    #[inline]
    pub(crate) fn new(buffer: plasmon_client::Buffer, trusted: bool) -> Self {
        Self { state: Mutex::new(State { buffer: Some(buffer), exports: 0, lent: false }), trusted }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds this lock, and a count is never half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the held object.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&plasmon_client::Buffer) -> T) -> PyResult<T> {
        let state = self.lock();
        Ok(look(Self::ours(&state)?))
    }

    /// Whether the bytes need no validation.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Counts one more that looks at the data; the address and the length of it.
    pub(crate) fn count(&self) -> PyResult<(*const u8, usize)> {
        let mut state = self.lock();
        let data = Self::ours(&state)?.data();
        let part = (data.as_ptr(), data.len());
        state.exports += 1;
        Ok(part)
    }

    /// The held object, unless it was released or belongs to the process that this one was forked
    /// from.
    fn ours(state: &State) -> PyResult<&plasmon_client::Buffer> {
        let buffer = state.buffer.as_ref().ok_or_else(was_released)?;
        buffer.check_ours().map_err(|error| Python::attach(|py| raised(py, &error)))?;
        Ok(buffer)
    }

    /// Counts one less that looks at the data.
    pub(crate) fn uncount(&self) {
        self.lock().exports -= 1;
    }

    /// Marks the buffer as lent to an object that holds a reference to it and cannot be counted.
    pub(crate) fn lend(&self) {
        self.lock().lent = true;
    }

    /// Whether the buffer was released.
    pub(crate) fn is_released(&self) -> bool {
        self.lock().buffer.is_none()
    }

    /// Unpins the object, unless something counted or lent refers to its memory.
    pub(crate) fn unpin(&self) -> PyResult<()> {
        let mut state = self.lock();
        if state.exports != 0 || state.lent {
            return Err(PyBufferError::new_err(if state.lent {
                "an array still refers to the buffer: drop both and the object is released"
            } else {
                "a memoryview, array or Arrow buffer still refers to the object: drop it first"
            }));
        }
        let buffer = state.buffer.take();
        drop(state);
        drop(buffer);
        Ok(())
    }
}

fn was_released() -> PyErr {
    PyValueError::new_err("the buffer was released")
}

/// A counted use of a buffer's data: the object stays pinned until this is dropped.
#[derive(Debug)]
pub(crate) struct Export {
    owner: Py<Buffer>,
    address: usize,
    bytes: usize,
}

impl Export {
    /// Counts one more that looks at the data of `owner`.
    pub(crate) fn of(owner: &Bound<'_, Buffer>) -> PyResult<Self> {
        let (address, bytes) = owner.get().count()?;
        Ok(Self { owner: owner.clone().unbind(), address: address as usize, bytes })
    }

    /// Where the data is.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // Consumers may drop it on any thread; dropping the reference itself is then put off until
        // a thread is attached to the interpreter.
        self.owner.get().uncount();
    }
}

/// The id of a buffer that is certainly held.
pub(crate) fn id_of(buffer: &Bound<'_, Buffer>) -> Option<ObjectId> {
    buffer.get().with(|buffer| buffer.id()).ok()
}
