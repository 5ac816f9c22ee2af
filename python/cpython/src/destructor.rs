//! The use of the interpreter in a destructor.
//!
//! A destructor runs wherever the last reference goes: while an exception is on its way, on a
//! thread that Python does not know, after the interpreter's end. Code that it calls must not see
//! that exception, and must not replace it.

use pyo3::ffi;
use pyo3::prelude::*;

/// Runs `work` in a destructor, attached to the interpreter. An exception that is set is put aside
/// meanwhile. False when there is no interpreter any more: then nothing ran, and what `work` would
/// have given back is left to the end of the process.
pub fn in_drop(work: impl FnOnce(Python<'_>)) -> bool {
    let done = Python::try_attach(|py| {
        let _set = SavedException::take(py);
        work(py);
    });
    done.is_some()
}

/// The exception of this thread, which is set again when this is dropped.
#[derive(Debug)]
struct SavedException {
    #[cfg(Py_3_12)]
    exception: *mut ffi::PyObject,
    #[cfg(not(Py_3_12))]
    parts: [*mut ffi::PyObject; 3],
}

impl SavedException {
    fn take(_py: Python<'_>) -> Self {
        #[cfg(Py_3_12)]
        // SAFETY: attached; the reference, if there is an exception, is ours.
        unsafe {
            Self { exception: ffi::PyErr_GetRaisedException() }
        }
        #[cfg(not(Py_3_12))]
        // SAFETY: attached; the references, if there is an exception, are ours.
        unsafe {
            let [mut kind, mut value, mut traceback] = [std::ptr::null_mut(); 3];
            ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback);
            Self { parts: [kind, value, traceback] }
        }
    }
}

impl Drop for SavedException {
    fn drop(&mut self) {
        #[cfg(Py_3_12)]
        // SAFETY: these live in `in_drop`, attached; null clears what was set meanwhile.
        unsafe {
            ffi::PyErr_SetRaisedException(self.exception);
        }
        #[cfg(not(Py_3_12))]
        // SAFETY: as above.
        unsafe {
            let [kind, value, traceback] = self.parts;
            ffi::PyErr_Restore(kind, value, traceback);
        }
    }
}
