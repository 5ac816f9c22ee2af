//! NumPy's arrays: where their elements lie.
//!
//! The fields are part of NumPy's binary interface. Whoever uses them finds out first, with an
//! array whose fields are known, that they are what this module believes.

use std::ffi::c_int;

use pyo3::ffi;

use crate::Ptr;

/// The fields of an array, which are part of NumPy's binary interface since its first version.
#[derive(Debug)]
#[repr(C)]
pub struct ArrayFields {
    base: ffi::PyObject,
    /// The first element.
    pub data: *mut u8,
    /// How many dimensions.
    pub dimensions: c_int,
    /// The extents.
    pub shape: *const isize,
    /// The strides, in bytes.
    pub strides: *const isize,
    /// Whose memory it is a view of, or null.
    pub owner: Ptr,
    /// The element type.
    pub dtype: Ptr,
    flags: c_int,
}

/// An array's fields.
///
/// # Safety
///
/// `array` must be an exact `numpy.ndarray` that outlives the result.
pub unsafe fn fields<'a>(array: Ptr) -> &'a ArrayFields {
    // SAFETY: by this function's contract.
    unsafe { &*array.cast::<ArrayFields>() }
}

impl ArrayFields {
    /// The extents.
    pub fn shape(&self) -> &[isize] {
        self.extents(self.shape)
    }

    /// The strides, in bytes.
    pub fn strides(&self) -> &[isize] {
        self.extents(self.strides)
    }

    fn extents(&self, start: *const isize) -> &[isize] {
        if self.dimensions == 0 {
            return &[];
        }
        // SAFETY: an array has as many extents and strides as dimensions.
        unsafe { std::slice::from_raw_parts(start, self.dimensions as usize) }
    }

    /// The first and the last address that elements use, from and to; `None` without elements.
    pub fn span(&self, itemsize: usize) -> Option<(usize, usize)> {
        let (mut low, mut high) = (self.data.addr(), self.data.addr() + itemsize);
        for (extent, stride) in self.shape().iter().zip(self.strides()) {
            match extent {
                0 => return None,
                extent => {
                    let reach = (extent - 1) * stride;
                    if reach < 0 {
                        low -= reach.unsigned_abs();
                    } else {
                        high += reach.unsigned_abs();
                    }
                }
            }
        }
        (itemsize != 0).then_some((low, high))
    }

    /// Whether the elements follow one another without gaps, the last index fastest.
    pub fn is_c_order(&self, itemsize: usize) -> bool {
        let mut wanted = itemsize as isize;
        self.shape().iter().zip(self.strides()).rev().all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == wanted;
            wanted *= extent;
            fits
        })
    }
}
