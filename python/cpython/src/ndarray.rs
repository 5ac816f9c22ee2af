//! NumPy's arrays: where their elements lie.
//!
//! The fields are part of NumPy's binary interface. Code that uses them first checks, with an
//! array whose fields are known, that they are what this module assumes.

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;

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
#[inline]
pub unsafe fn fields<'a>(array: Ptr) -> &'a ArrayFields {
    // SAFETY: by this function's contract.
    unsafe { &*array.cast::<ArrayFields>() }
}

impl ArrayFields {
    /// The extents.
    #[inline]
    pub fn shape(&self) -> &[isize] {
        self.extents(self.shape)
    }

    /// The strides, in bytes.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn is_c_order(&self, itemsize: usize) -> bool {
        without_gaps(self.shape().iter().zip(self.strides()).rev(), itemsize)
    }

    /// The same with the first index fastest.
    pub fn is_fortran_order(&self, itemsize: usize) -> bool {
        without_gaps(self.shape().iter().zip(self.strides()), itemsize)
    }
}

/// Whether each stride is what the extents before it take.
#[inline]
fn without_gaps<'a>(
    mut dimensions: impl Iterator<Item = (&'a isize, &'a isize)>,
    itemsize: usize,
) -> bool {
    let mut wanted = itemsize as isize;
    dimensions.all(|(extent, stride)| {
        let fits = *extent == 1 || *stride == wanted;
        wanted *= extent;
        fits
    })
}

/// Where an array that is to be made has its elements.
#[derive(Debug)]
pub struct NewArray<'a> {
    /// The type of arrays, `numpy.ndarray`.
    pub class: *mut ffi::PyTypeObject,
    /// The element type, which refers to no objects of Python's.
    pub dtype: Ptr,
    /// The extents.
    pub shape: &'a [isize],
    /// The strides, in bytes; as many as extents.
    pub strides: &'a [isize],
    /// The element at index 0.
    pub data: *const u8,
    /// Whose memory it is.
    pub owner: Ptr,
}

type NewFromDescr = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    Ptr,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    Ptr,
) -> Ptr;
type SetBaseObject = unsafe extern "C" fn(Ptr, Ptr) -> c_int;

/// The functions of NumPy's that make arrays, without a call through its constructor.
#[derive(Clone, Copy, Debug)]
pub struct ArrayMaker {
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

/// Their places in NumPy's table of functions, which never change.
const NEW_FROM_DESCR: usize = 94;
const SET_BASE_OBJECT: usize = 282;

impl ArrayMaker {
    /// The functions of the NumPy that the program has imported; `None` for one that gives none.
    pub fn of(py: Python<'_>) -> Option<Self> {
        let module = py.import("numpy._core._multiarray_umath");
        let module = module.or_else(|_| py.import("numpy.core._multiarray_umath")).ok()?;
        let table = module.getattr("_ARRAY_API").ok()?;
        // SAFETY: attached; the capsule has no name, and its pointer is that of NumPy's table of
        // functions, which lives as long as the process.
        unsafe {
            let start = ffi::PyCapsule_GetPointer(table.as_ptr(), std::ptr::null());
            if start.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            let functions = start.cast::<*const c_void>();
            let (new, set) = (*functions.add(NEW_FROM_DESCR), *functions.add(SET_BASE_OBJECT));
            if new.is_null() || set.is_null() {
                return None;
            }
            Some(Self {
                new_from_descr: std::mem::transmute::<*const c_void, NewFromDescr>(new),
                set_base_object: std::mem::transmute::<*const c_void, SetBaseObject>(set),
            })
        }
    }

    /// A new array on borrowed memory, read-only, or null with an error set.
    ///
    /// # Safety
    ///
    /// The thread must be attached to the interpreter, `class` be `numpy.ndarray`, `dtype` one of
    /// its element types, and every element lie in memory that lives as long as `owner`.
    #[inline]
    pub unsafe fn make(self, new: &NewArray<'_>) -> Ptr {
        assert_eq!(new.shape.len(), new.strides.len(), "a stride for each extent");
        // SAFETY: by this function's contract. The element type is given away, so one more
        // reference is taken; so is the owner, also when that fails.
        unsafe {
            ffi::Py_INCREF(new.dtype);
            let (shape, strides) = (new.shape.as_ptr(), new.strides.as_ptr());
            let (count, data) = (new.shape.len() as c_int, new.data.cast_mut().cast());
            // Without flags it is read-only; NumPy finds out about order and alignment itself.
            let none = std::ptr::null_mut();
            let make = self.new_from_descr;
            let array = make(new.class, new.dtype, count, shape, strides, data, 0, none);
            if array.is_null() {
                return array;
            }
            ffi::Py_INCREF(new.owner);
            if (self.set_base_object)(array, new.owner) != 0 {
                ffi::Py_DECREF(array);
                return none;
            }
            array
        }
    }
}
