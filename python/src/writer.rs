//! An object under construction in Python: writable memory until it is sealed.
//!
//! ```text
//! open ── seal() ──────────────────────────────────────────────► sealed
//!   │  └─ seal(force=True) with views alive ─► sealed, pinned until the last view is gone
//!   ├──── abort(), collected ──────────────────────────────────► aborted
//!   └──── abort() with views alive ─► aborting ── last view gone ─► aborted
//! ```
//!
//! Memory is never given back while a view of it is alive, because the view could still write.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::{Code, Error, Mapping, ObjectId};
use plasmon_cpython::buffer::{Flat, fill};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyMemoryView, PyTuple};

use crate::error::{OrRaise, raised};
use crate::id::Id;
use crate::interrupt::call;

/// A copy of fewer bytes is over before another thread would have run.
const DETACHED_BYTES: usize = 32 << 10;

/// An object under construction; it has the buffer protocol, writable. As a context manager it
/// seals the object at the end of the block and aborts it when the block raises.
#[pyclass(frozen, module = "plasmon", name = "Writer", weakref)]
#[derive(Debug)]
pub(crate) struct Writer {
    store: plasmon_client::Client,
    id: ObjectId,
    bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: State,
    views: usize,
}

#[derive(Debug)]
enum State {
    Open(plasmon_client::Writer),
    /// Given up, but a view could still write into its memory.
    #[expect(dead_code, reason = "held until it is dropped, which aborts")]
    Doomed(plasmon_client::Writer),
    /// Sealed, and while views are alive, kept as it was.
    Sealed(Option<KeepAlive>),
    /// Given up; views of what could not be sealed keep its mapping.
    Aborted(Option<Mapping>),
    /// A seal or an abort is under way on some thread.
    Ending,
}

/// What keeps the memory of a sealed object while views of it are alive: the pin keeps it from
/// being used again, the mapping from being unmapped.
#[derive(Debug)]
struct KeepAlive {
    _pin: plasmon_client::Buffer,
    _mapping: Option<Mapping>,
}

impl Inner {
    /// Takes out what only views needed, to be dropped without the lock.
    fn forget(&mut self) -> Option<State> {
        match &mut self.state {
            State::Doomed(_) => Some(std::mem::replace(&mut self.state, State::Aborted(None))),
            State::Sealed(kept) => Some(State::Sealed(kept.take())),
            State::Aborted(mapping) => Some(State::Aborted(mapping.take())),
            State::Open(_) | State::Ending => None,
        }
    }
}

impl Writer {
    /// A Python writer around the client's.
    pub(crate) fn new(store: plasmon_client::Client, writer: plasmon_client::Writer) -> Self {
        let (id, bytes) = (writer.id(), writer.len());
        let inner = Mutex::new(Inner { state: State::Open(writer), views: 0 });
        Self { store, id, bytes, inner }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a part in, from `at` on. It must fit. It may lie in the object itself.
    fn copy_in(&self, at: usize, part: &Flat) -> PyResult<()> {
        let (source, bytes) = part.memory();
        let mut inner = self.lock();
        let State::Open(writer) = &mut inner.state else {
            return Err(PyValueError::new_err("the object is no longer being written"));
        };
        if at.checked_add(bytes).is_none_or(|end| end > writer.len()) {
            let found = writer.len().saturating_sub(at);
            let text = format!("{bytes} bytes do not fit the {found} that are left");
            return Err(PyValueError::new_err(text));
        }
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the view keeps its memory until it is released, and so many bytes of the object
        // follow `at`. No slice is made of either, and the two may overlap.
        unsafe { std::ptr::copy(source.cast_const(), writer.as_mut_ptr().add(at), bytes) };
        Ok(())
    }

    fn ended(&self, py: Python<'_>, doing: &'static str, state: &State) -> PyErr {
        let code = match state {
            State::Sealed(_) => Code::AlreadySealed,
            _ => Code::Cancelled,
        };
        raised(py, &Error::new(code, doing).with_id(self.id))
    }
}

#[pymethods]
impl Writer {
    /// The id that the object will have.
    #[getter]
    fn id(&self) -> Id {
        Id::new(self.id)
    }

    /// The number of bytes of data.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    /// "open", "sealed" or "aborted".
    #[getter]
    fn state(&self) -> &'static str {
        match self.lock().state {
            State::Open(_) => "open",
            State::Sealed(_) => "sealed",
            State::Doomed(_) | State::Aborted(_) | State::Ending => "aborted",
        }
    }

    /// A writable view of the data.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// Copies bytes into the object at an offset; returns the offset after them.
    #[pyo3(signature = (data, offset = 0))]
    fn write(&self, data: &Bound<'_, PyAny>, offset: usize) -> PyResult<usize> {
        let part = Flat::of(data)?;
        let (py, (_, bytes)) = (data.py(), part.memory());
        if bytes < DETACHED_BYTES {
            self.copy_in(offset, &part)?;
        } else {
            py.detach(|| self.copy_in(offset, &part))?;
        }
        Ok(offset + bytes)
    }

    /// Makes the object immutable and visible to all clients, and returns its id.
    ///
    /// Raises BufferError while a memoryview or an array still refers to the memory, because it
    /// could change the immutable object. With `force` it seals all the same; such a view stays
    /// writable until it is dropped, and the object stays pinned for as long.
    #[pyo3(signature = (*, force = false))]
    fn seal(&self, py: Python<'_>, force: bool) -> PyResult<Id> {
        let (writer, views) = {
            let mut inner = self.lock();
            let views = inner.views;
            if views != 0 && !force && matches!(inner.state, State::Open(_)) {
                let text = "a memoryview or an array still refers to the memory of the object: \
                            drop it before sealing, or seal with force=True";
                return Err(PyBufferError::new_err(text));
            }
            match std::mem::replace(&mut inner.state, State::Ending) {
                State::Open(writer) => (writer, views),
                other => {
                    let error = self.ended(py, "sealing object", &other);
                    inner.state = other;
                    return Err(error);
                }
            }
        };
        let mapping = if views == 0 { None } else { writer.mapping() };
        let outcome = call(py, || {
            let id = writer.seal()?;
            let pin = (views != 0).then(|| self.store.get_existing(&id)).transpose()?;
            Ok((id, pin))
        });
        // Interrupted, it may be sealed or not: nothing here holds it any more.
        let outcome = outcome.and_then(|outcome| outcome.or_raise(py));
        let (state, outcome) = match outcome {
            Ok((id, pin)) => {
                let kept = pin.map(|pin| KeepAlive { _pin: pin, _mapping: mapping });
                (State::Sealed(kept), Ok(Id::new(id)))
            }
            Err(error) => (State::Aborted(mapping), Err(error)),
        };
        let gone = {
            let mut inner = self.lock();
            inner.state = state;
            // The last view may have gone while the seal was under way.
            if inner.views == 0 { inner.forget() } else { None }
        };
        py.detach(|| drop(gone));
        outcome
    }

    /// Gives the object up. A second abort does nothing.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let writer = {
            let mut inner = self.lock();
            match std::mem::replace(&mut inner.state, State::Aborted(None)) {
                State::Open(writer) if inner.views != 0 => {
                    inner.state = State::Doomed(writer);
                    return Ok(());
                }
                State::Open(writer) => writer,
                State::Sealed(kept) => {
                    inner.state = State::Sealed(kept);
                    return Err(self.ended(py, "aborting object", &inner.state));
                }
                other => {
                    inner.state = other;
                    return Ok(());
                }
            }
        };
        py.detach(|| writer.abort()).or_raise(py)
    }

    fn __len__(&self) -> usize {
        self.bytes
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let state = slf.get().state();
        if state == "open" {
            return Ok(slf);
        }
        Err(PyValueError::new_err(format!("the object is {state}")))
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        let failed = raised.get_item(0).is_ok_and(|class| !class.is_none());
        match (self.state(), failed) {
            ("open", false) => {
                let outcome = self.seal(py, false).map(|_| ());
                // What could not be sealed must not stay half made until the collector runs.
                outcome.or_else(|error| self.abort(py).and(Err(error)))
            }
            ("open", true) => self.abort(py),
            _ => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<plasmon.Writer {}: {} bytes, {}>", self.id, self.bytes, self.state())
    }

    /// Lends the memory out through the buffer protocol.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut inner = this.lock();
        let address = match &mut inner.state {
            State::Open(writer) => writer.as_mut_ptr(),
            _ => return Err(PyValueError::new_err("the object is no longer being written")),
        };
        // SAFETY: the memory stays where it is and writable while views are counted: neither
        // sealing nor aborting gives it back before the count is zero.
        unsafe { fill(slf.as_any(), view, (address, this.bytes), false, flags)? };
        inner.views += 1;
        Ok(())
    }

    /// Takes back what [`Self::__getbuffer__`] lent.
    ///
    /// # Safety
    ///
    /// CPython calls it once for each successful `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, py: Python<'_>, _view: *mut ffi::Py_buffer) {
        let last = {
            let mut inner = self.lock();
            inner.views -= 1;
            if inner.views != 0 {
                return;
            }
            inner.forget()
        };
        // Dropping a writer aborts; the answer is not needed.
        py.detach(|| drop(last));
    }
}
