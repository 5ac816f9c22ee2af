//! Memory that other objects lend, through the buffer protocol.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The formats of elements that memory comes back with, those of the module `struct`. What puts
/// memory into the store and what writes it into objects ask [`letter_of`].
const LETTERS: &str = "bBhHiIlLqQnNefd?c";

/// The letter that a format is; none if memory of such elements would not come back as it is.
pub fn letter_of(format: &str) -> Option<&str> {
    let letter = format.strip_prefix('@').unwrap_or(format);
    (letter.len() == 1 && LETTERS.contains(letter)).then_some(letter)
}

/// Memory of another object that lies without gaps, through the buffer protocol.
#[expect(missing_debug_implementations, reason = "the view of the buffer protocol has none")]
pub struct Flat {
    // Boxed because some exporters let the view point into itself.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read, and released while attached to the interpreter (see Drop).
unsafe impl Send for Flat {}
// SAFETY: as above.
unsafe impl Sync for Flat {}

impl Flat {
    /// The memory of `owner`, in C or Fortran order.
    #[inline]
    pub fn of(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with_flags(owner, ffi::PyBUF_ANY_CONTIGUOUS)
    }

    /// The memory of `owner`, asked for with these flags.
    #[inline]
    pub fn with_flags(owner: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: `owner` is a live object and the view has room; attached to the interpreter.
        let outcome = unsafe { ffi::PyObject_GetBuffer(owner.as_ptr(), view.as_mut_ptr(), flags) };
        if outcome != 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        // SAFETY: a successful call has filled the view.
        Ok(Self { view: unsafe { view.assume_init() } })
    }

    /// The bytes. They must lie without gaps: checked by the flags, or by [`Self::is_contiguous`].
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.view.len <= 0 || self.view.buf.is_null() {
            return &[];
        }
        // SAFETY: the exporter keeps the memory until the view is released. Another thread may
        // write to it meanwhile, as with any buffer in Python; then the copy holds some of both.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize) }
    }

    /// Where the memory begins and how many bytes it has. It is there while the view is.
    pub fn memory(&self) -> (*mut u8, usize) {
        (self.view.buf.cast(), self.view.len.unsigned_abs())
    }

    /// The object that lends the memory.
    pub fn owner(&self) -> Option<&Py<PyAny>> {
        // SAFETY: a `Py` is the address of an object, null for none; the view holds the reference
        // for as long as it lives.
        unsafe { (*(&raw const self.view.obj).cast::<Option<Py<PyAny>>>()).as_ref() }
    }

    /// Whether the memory may not be written to.
    pub fn is_readonly(&self) -> bool {
        self.view.readonly != 0
    }

    /// Whether the bytes lie without gaps in the order `C` or `F`.
    pub fn is_contiguous(&self, order: u8) -> bool {
        // SAFETY: the view is filled.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.view, order as std::ffi::c_char) != 0 }
    }

    /// The format of an element, as the module `struct` writes it; empty when it is not UTF-8.
    pub fn format(&self) -> &str {
        if self.view.format.is_null() {
            return "B";
        }
        // SAFETY: the exporter keeps the text, which ends with a zero, until the view is released.
        unsafe { CStr::from_ptr(self.view.format) }.to_str().unwrap_or_default()
    }

    /// The extents.
    pub fn shape(&self) -> Vec<u64> {
        let dimensions = usize::try_from(self.view.ndim).unwrap_or_default();
        if dimensions == 0 || self.view.shape.is_null() {
            return Vec::new();
        }
        // SAFETY: a view with a shape has as many extents as dimensions.
        let shape = unsafe { std::slice::from_raw_parts(self.view.shape, dimensions) };
        shape.iter().map(|extent| *extent as u64).collect()
    }
}

impl Drop for Flat {
    fn drop(&mut self) {
        // Flats live in functions that are called attached, or in objects that may be dropped
        // anywhere; attaching again is cheap.
        crate::destructor::in_drop(|_| {
            // SAFETY: the view was filled by PyObject_GetBuffer and is released once.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
        });
    }
}

/// Fills a view of bytes and gives it a reference to `owner`.
///
/// # Safety
///
/// `view` must be valid for writes, and the bytes must stay where they are until the view is
/// released.
pub unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    (address, bytes): (*mut u8, usize),
    read_only: bool,
    flags: c_int,
) -> PyResult<()> {
    let bytes = isize::try_from(bytes).map_err(|_| PyBufferError::new_err("too many bytes"))?;
    let pointer = address.cast::<c_void>();
    // SAFETY: `view` is valid by this function's contract, `owner` is a live object.
    let outcome = unsafe {
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), pointer, bytes, c_int::from(read_only), flags)
    };
    if outcome == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// What a view says of elements, kept by the view itself until it is released.
#[derive(Debug)]
pub struct Elements {
    format: &'static CStr,
    itemsize: usize,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

impl Elements {
    /// Elements with a format of the module `struct`, their extents, and the steps in bytes.
    pub fn new(
        format: &'static CStr,
        itemsize: usize,
        shape: Vec<isize>,
        strides: Vec<isize>,
    ) -> Self {
        assert!(shape.len() == strides.len(), "each dimension has an extent and a step");
        Self { format, itemsize, shape, strides }
    }

    /// Whether the elements lie without gaps in the order of C, or of Fortran.
    fn is_contiguous(&self, fortran: bool) -> bool {
        let mut step = self.itemsize as isize;
        let mut dimensions: Vec<_> = self.shape.iter().zip(&self.strides).collect();
        if !fortran {
            dimensions.reverse();
        }
        self.shape.contains(&0)
            || dimensions.into_iter().all(|(extent, stride)| {
                let fits = *extent == 1 || *stride == step;
                step = step.wrapping_mul(*extent);
                fits
            })
    }

    /// Whether a consumer that asks with `flags` understands how the elements lie.
    fn suits(&self, flags: c_int) -> bool {
        let asks = |wanted: c_int| flags & wanted == wanted;
        let (c, fortran) = (self.is_contiguous(false), self.is_contiguous(true));
        if !asks(ffi::PyBUF_STRIDES) || asks(ffi::PyBUF_C_CONTIGUOUS) {
            return c;
        }
        !asks(ffi::PyBUF_F_CONTIGUOUS) || fortran
    }

    /// Fills a view of read-only elements and gives it a reference to `owner`.
    ///
    /// # Safety
    ///
    /// `view` must be valid for writes, the bytes must stay where they are until the view is
    /// released, and [`Self::release`] must be called once then.
    pub unsafe fn fill(
        self,
        owner: &Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        part: (*mut u8, usize),
        flags: c_int,
    ) -> PyResult<()> {
        if !self.suits(flags) {
            let text = "the array lies in another order than is asked for: use its bytes (.data)";
            return Err(PyBufferError::new_err(text));
        }
        // SAFETY: as this function's contract says. It refuses a request for writable memory.
        unsafe { fill(owner, view, part, true, flags)? };
        let format = self.format.as_ptr().cast_mut();
        let dimensions = self.shape.len() as c_int;
        let itemsize = self.itemsize as isize;
        let kept = Box::into_raw(Box::new(self));
        // SAFETY: the view was filled just now and is valid for writes; `kept` was leaked just now
        // and lives until `release`.
        unsafe {
            (*view).itemsize = itemsize;
            (*view).ndim = dimensions;
            (*view).format = if flags & ffi::PyBUF_FORMAT == 0 { null_mut() } else { format };
            let (shape, strides) = ((*kept).shape.as_mut_ptr(), (*kept).strides.as_mut_ptr());
            (*view).shape = if dimensions == 0 { null_mut() } else { shape };
            let stepped = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES && dimensions != 0;
            (*view).strides = if stepped { strides } else { null_mut() };
            (*view).internal = kept.cast();
        }
        Ok(())
    }

    /// Takes back what a view of [`Self::fill`] keeps; nothing of one of [`fill`].
    ///
    /// # Safety
    ///
    /// `view` must have been filled by one of the two, and be released once.
    pub unsafe fn release(view: *mut ffi::Py_buffer) {
        // SAFETY: by this function's contract. `PyBuffer_FillInfo` leaves null here.
        unsafe {
            let kept = std::mem::replace(&mut (*view).internal, null_mut());
            if !kept.is_null() {
                drop(Box::from_raw(kept.cast::<Self>()));
            }
        }
    }
}
