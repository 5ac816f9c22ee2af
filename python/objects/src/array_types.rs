//! The types of the arrays of an object that is being written, and of their elements.

use plasmon_cpython::dtype::known_array_type;
use pyo3::prelude::*;

use super::array_memory::are_known_to_fit;
use super::array_reuse::HeapArrays;
use super::raw::Ptr;

/// An element type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dtype {
    pub(super) object: Ptr,
    pub(super) number: usize,
    pub(super) itemsize: usize,
    pub(super) objects: bool,
}

/// The arrays of an object that is being written.
#[derive(Default)]
pub(super) struct Arrays {
    pub(super) class: Option<Ptr>,
    pub(super) looked_up: bool,
    pub(super) dtypes: Vec<Dtype>,
    pub(super) strings: Vec<(Box<str>, usize)>,
    /// The tensors of arrays of objects in Fortran order, and their strides.
    pub(super) fortran: Vec<(usize, Vec<[u8; 8]>)>,
    /// Whether some array is a view of another object's memory.
    pub(super) has_views: bool,
    pub(super) placed: HeapArrays,
}

impl Arrays {
    /// With the type of arrays, if that is known. No code runs.
    pub(super) fn known(py: Python<'_>) -> Self {
        let fits = are_known_to_fit(py);
        let class = known_array_type(py).filter(|_| fits).map(|class| class.as_ptr());
        Self { class, looked_up: class.is_some(), ..Self::default() }
    }

    /// The entry of an element type, by its address.
    pub(super) fn dtype(&self, object: Ptr) -> Option<Dtype> {
        self.dtypes.iter().rev().find(|known| known.object == object).copied()
    }
}
