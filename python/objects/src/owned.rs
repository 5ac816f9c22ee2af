//! References that are held until they are given to what is built of them.

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::raw::Ptr;

/// References that are dropped with this.
#[derive(Default)]
pub(super) struct OwnedReferences(pub(super) Vec<Ptr>);

impl OwnedReferences {
    /// Room for references, without any; an error instead of the end of the process when
    /// there is no memory for it.
    pub(super) fn with_capacity(count: usize) -> PyResult<Self> {
        let mut room = Vec::new();
        let outcome = room.try_reserve_exact(count);
        outcome.map_err(|_| PyMemoryError::new_err(format!("no memory for {count} values")))?;
        Ok(Self(room))
    }

    pub(super) fn nulls(count: usize) -> Self {
        Self(vec![std::ptr::null_mut(); count])
    }
}

impl Drop for OwnedReferences {
    fn drop(&mut self) {
        for object in &self.0 {
            // SAFETY: each is null or a reference of ours; these live in functions that are called
            // attached to the interpreter.
            unsafe { ffi::Py_XDECREF(*object) };
        }
    }
}

/// One reference that is dropped with this.
pub(super) struct OwnedReference(pub(super) Ptr);

impl OwnedReference {
    /// The reference, the caller's from now on.
    pub(super) fn release(self) -> Ptr {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for OwnedReference {
    fn drop(&mut self) {
        // SAFETY: a reference of ours; see `OwnedReferences`.
        unsafe { ffi::Py_XDECREF(self.0) };
    }
}

/// Values on their way into a set or a dict. Most are few, and then need no memory of their own.
pub(super) struct Scratch {
    few: [Ptr; FEW],
    many: Vec<Ptr>,
    count: usize,
}

/// Up to this many values need no memory of their own.
const FEW: usize = 16;

impl Scratch {
    pub(super) fn new(count: usize) -> Self {
        let many = if count > FEW { vec![std::ptr::null_mut(); count] } else { Vec::new() };
        Self { few: [std::ptr::null_mut(); FEW], many, count }
    }

    pub(super) fn all(&mut self) -> &mut [Ptr] {
        if self.count > FEW { &mut self.many } else { &mut self.few[..self.count] }
    }

    /// Drops the values.
    pub(super) fn clear(&mut self) {
        for object in self.all() {
            let object = std::mem::replace(object, std::ptr::null_mut());
            // SAFETY: null or a reference of ours; see `OwnedReferences`.
            unsafe { ffi::Py_XDECREF(object) };
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One more reference to something that is alive.
#[inline]
pub(super) fn shared(object: Ptr) -> Ptr {
    // SAFETY: alive: constants, and what caches hold.
    unsafe { ffi::Py_INCREF(object) };
    object
}
