//! Arrays as they were when an object was made of them.
//!
//! NumPy lets a program give an array another shape, other elements or other memory in place, and
//! has no way to forbid that. So what the tables say about an array, and where its bytes are, is
//! compared with the array each time before its memory is read.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::raw::Ptr;
use super::raw::ndarray::{ArrayFields, fields};

/// An array that is kept as a tensor.
#[derive(Debug)]
pub(super) struct ArrayTensor {
    pub(super) array: Py<PyAny>,
    /// The tensor's number.
    pub(super) tensor: usize,
    pub(super) itemsize: usize,
}

/// How an array looked.
#[derive(Debug)]
struct ArrayFingerprint {
    of: ArrayTensor,
    data: usize,
    dtype: Ptr,
    dimensions: usize,
    /// Where its extents and then its strides are.
    extents: usize,
    owner: Ptr,
    /// Of an owner that is an array: its memory, and how many elements it has.
    owned: Option<(usize, isize)>,
}

// SAFETY: the addresses are only compared; they are looked through attached to the interpreter.
unsafe impl Send for ArrayFingerprint {}
// SAFETY: as above.
unsafe impl Sync for ArrayFingerprint {}

/// The arrays whose memory the heap of an object lies in.
#[derive(Debug, Default)]
pub(super) struct HeapArrays {
    seen: Vec<ArrayFingerprint>,
    extents: Vec<isize>,
}

fn elements(array: &ArrayFields) -> isize {
    array.shape().iter().product()
}

impl HeapArrays {
    /// Notes how an array looks. `class` is the type of arrays.
    pub(super) fn see(&mut self, of: ArrayTensor, array: &ArrayFields, class: Option<Ptr>) {
        let extents = self.extents.len();
        self.extents.extend_from_slice(array.shape());
        self.extents.extend_from_slice(array.strides());
        let owner = array.owner;
        // SAFETY: attached; the array holds the owner, and an array looks like one.
        let owned = class.filter(|_| !owner.is_null()).and_then(|class| unsafe {
            let is_array = ffi::PyObject_TypeCheck(owner, class.cast()) != 0;
            is_array.then(|| (fields(owner).data.addr(), elements(fields(owner))))
        });
        let (data, dtype, dimensions) = (array.data.addr(), array.dtype, array.shape().len());
        self.seen.push(ArrayFingerprint { of, data, dtype, dimensions, extents, owner, owned });
    }

    /// The arrays, by the order in which they were seen.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &ArrayTensor> {
        self.seen.iter().map(|seen| &seen.of)
    }

    /// One of them.
    pub(super) fn of(&self, number: usize) -> &ArrayTensor {
        &self.seen[number].of
    }

    fn is_as_seen(&self, seen: &ArrayFingerprint) -> bool {
        // SAFETY: an array stays one, and is held; it holds its owner.
        let array = unsafe { fields(seen.of.array.as_ptr()) };
        let extents = &self.extents[seen.extents..];
        let (shape, strides) = extents[..2 * seen.dimensions].split_at(seen.dimensions);
        array.data.addr() == seen.data
            && array.dtype == seen.dtype
            && array.owner == seen.owner
            && array.shape() == shape
            && array.strides() == strides
            && seen.owned.is_none_or(|owned| {
                // SAFETY: as above; an owner that was an array is one.
                let owner = unsafe { fields(seen.owner) };
                (owner.data.addr(), elements(owner)) == owned
            })
    }

    /// Whether all arrays look as they did.
    pub(super) fn are_as_seen(&self) -> bool {
        self.seen.iter().all(|seen| self.is_as_seen(seen))
    }

    /// Checks that all arrays are unchanged; returns one that is not.
    pub(super) fn check(&self, py: Python<'_>) -> PyResult<()> {
        let other = self.seen.iter().find(|seen| !self.is_as_seen(seen));
        other.map_or(Ok(()), |seen| Err(self.changed(seen.of.array.bind(py), seen)))
    }

    /// Shows the arrays to the garbage collector.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.seen.iter().try_for_each(|seen| visit.call(&seen.of.array))
    }

    fn changed(&self, array: &Bound<'_, PyAny>, seen: &ArrayFingerprint) -> PyErr {
        let was = &self.extents[seen.extents..seen.extents + seen.dimensions];
        let now = array.getattr("shape").map_or_else(|_| "?".to_owned(), |it| it.to_string());
        PyValueError::new_err(format!(
            "an array of the shape {was:?} has changed in place since it was serialized (its shape \
             is {now} now, or its strides, its element type or its memory are others): serialize \
             the value again, and change none of its arrays in place until it is written"
        ))
    }
}

/// The error of an array that was changed in place while the value was taken apart.
pub(super) fn changed() -> PyErr {
    PyValueError::new_err(
        "an array was changed in place (its shape, its element type or its memory) while the value \
         was serialized: let no code of the value and no other thread do that",
    )
}
