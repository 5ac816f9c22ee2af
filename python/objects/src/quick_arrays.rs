//! Arrays on an object's memory, made by NumPy's own function instead of its constructor.

use plasmon_cpython::buffer::Flat;
use plasmon_cpython::dtype::array_type;
use plasmon_cpython::ndarray::ArrayMaker;
use pyo3::ffi;
use pyo3::prelude::*;

use super::errors::changed;

/// Arrays with more dimensions are rare, and left to NumPy's constructor.
const DIMENSIONS_FEW: usize = 8;

/// Makes arrays on an object's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuickArrays {
    pub(super) maker: ArrayMaker,
    pub(super) class: *mut ffi::PyTypeObject,
    /// Where the object's memory starts, and how much of it is there.
    pub(super) start: *const u8,
    pub(super) bytes: usize,
}

/// Extents or strides of a tensor, copied out of the object.
pub(super) struct Extents {
    values: [isize; DIMENSIONS_FEW],
    count: usize,
}

impl Extents {
    /// `None` for more than there is room for.
    #[inline]
    pub(super) fn copied(found: &[[u8; 8]]) -> Option<Self> {
        let mut extents = Self { values: [0; DIMENSIONS_FEW], count: found.len() };
        let room = extents.values.get_mut(..found.len())?;
        for (room, value) in room.iter_mut().zip(found) {
            // SAFETY: a place in the object. What is checked is what is used: the compiler must not
            // read it again.
            let value = unsafe { std::ptr::from_ref(value).read_volatile() };
            *room = i64::from_le_bytes(value) as isize;
        }
        Some(extents)
    }

    #[inline]
    pub(super) fn all(&self) -> &[isize] {
        &self.values[..self.count]
    }

    /// The strides of elements without gaps, the last index fastest.
    #[inline]
    pub(super) fn strides(&self, itemsize: usize) -> Option<Self> {
        let mut strides = Self { values: [0; DIMENSIONS_FEW], count: self.count };
        let mut step = isize::try_from(itemsize).ok()?;
        for (room, extent) in strides.values.iter_mut().zip(self.all()).rev() {
            *room = step;
            step = step.checked_mul(*extent)?;
        }
        Some(strides)
    }

    /// Whether every element of an array with these extents lies in memory of the given size.
    #[inline]
    pub(super) fn lie_in(&self, strides: &Self, itemsize: usize, place: i64, bytes: usize) -> bool {
        let (mut low, mut high) = (i128::from(place), i128::from(place) + itemsize as i128);
        let mut empty = false;
        for (extent, stride) in self.all().iter().zip(strides.all()) {
            if *extent < 0 {
                return false;
            }
            empty |= *extent == 0;
            // Sums of a few products of 64 bits each fit by far.
            let reach = (*extent as i128 - 1) * *stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        let (low, high) = if empty { (i128::from(place), i128::from(place)) } else { (low, high) };
        self.count == strides.count && low >= 0 && high <= bytes as i128
    }
}

impl QuickArrays {
    /// For a read-only view of the object's memory, in bytes; `None` without NumPy's functions.
    pub(super) fn of(memory: &Bound<'_, PyAny>, object_bytes: usize) -> PyResult<Option<Self>> {
        let py = memory.py();
        let class = match array_type(py)? {
            Some(class) => class.as_type_ptr(),
            None => return Ok(None),
        };
        let Some(maker) = ArrayMaker::of(py) else { return Ok(None) };
        // The view has lent the memory; asked again it says where that is.
        let lent = Flat::with_flags(memory, ffi::PyBUF_C_CONTIGUOUS)?;
        // The check was of an earlier buffer, and an exporter may give another one each time.
        if lent.bytes().len() < object_bytes {
            return Err(changed());
        }
        let (start, bytes) = lent.memory();
        Ok(Some(Self { maker, class, start, bytes }))
    }
}
