//! Objects for consumers of DLPack.
//!
//! Only the versioned form (DLPack 1.0) can say that memory is read-only, so only that is offered.
//! The structures follow `dlpack.h`; the capsule owns a [`Tensor`] until a consumer renames it.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::buffer::{Buffer, Export};
use crate::layout::{Layout, UntypedReason};

/// The processor's memory.
pub(crate) const DEVICE: (i32, i32) = (1, 0);

const NAME: &CStr = c"dltensor_versioned";
const READ_ONLY: u64 = 1;

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: [i32; 2],
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Tensor {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Tensor)>,
    flags: u64,
    tensor: DlTensor,
    // After the fields of dlpack.h: what the pointers above point to.
    export: Export,
    extents: Vec<i64>,
}

/// An object for DLPack: an array by its element type, anything else as bytes.
fn layout(buffer: &plasmon_client::Buffer) -> PyResult<Layout> {
    match Layout::of_array(buffer) {
        Ok(layout) => Ok(layout),
        Err(UntypedReason::NoArray) => Ok(Layout::flat(buffer.data().len())),
        Err(UntypedReason::Element(text)) => {
            let text = format!("DLPack has no element type for '{text}'");
            Err(PyBufferError::new_err(text))
        }
        Err(UntypedReason::Corrupt) => {
            Err(PyBufferError::new_err("the array's description does not fit its bytes"))
        }
    }
}

/// The object in a capsule.
pub(crate) fn capsule<'py>(
    owner: &Bound<'py, Buffer>,
    max_version: Option<(u32, u32)>,
    device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyCapsule>> {
    if max_version.is_none_or(|(major, _)| major < 1) {
        let text = "the memory is read-only, which DLPack before 1.0 cannot express";
        return Err(PyBufferError::new_err(text));
    }
    if device.is_some_and(|device| device != DEVICE) || copy == Some(true) {
        return Err(PyBufferError::new_err(
            "an object in the store cannot be exported to another device",
        ));
    }
    let layout = owner.get().with(layout)??;
    let (code, bits) = (layout.element.code, layout.element.bits);
    // Shape, then strides in elements.
    let extents: Vec<i64> =
        layout.shape.iter().chain(&layout.strides).map(|extent| *extent as i64).collect();
    let export = Export::of(owner)?;
    let dimensions = i32::try_from(extents.len() / 2)
        .map_err(|_| PyTypeError::new_err("too many dimensions"))?;
    let data = export.address().cast::<c_void>();
    let (shape, strides) = (std::ptr::null_mut(), std::ptr::null_mut());
    let device = [DEVICE.0, DEVICE.1];
    let tensor =
        DlTensor { data, device, dimensions, code, bits, lanes: 1, shape, strides, byte_offset: 0 };
    let context = std::ptr::null_mut();
    let (version, flags, deleter) = ([1, 0], READ_ONLY, Some(delete as unsafe extern "C" fn(_)));
    let mut boxed = Box::new(Tensor { version, context, deleter, flags, tensor, export, extents });
    boxed.tensor.shape = boxed.extents.as_mut_ptr();
    // Strides follow the shape in the same vector, which is not resized any more.
    boxed.tensor.strides = boxed.tensor.shape.wrapping_add(dimensions as usize);
    let pointer = std::ptr::NonNull::from(Box::leak(boxed)).cast::<c_void>();
    // SAFETY: the pointer is a leaked Tensor, which `destroy` or the consumer's call of its deleter
    // frees once.
    let made = unsafe {
        PyCapsule::new_with_pointer_and_destructor(owner.py(), pointer, NAME, Some(destroy))
    };
    if made.is_err() {
        // SAFETY: no capsule took the tensor over.
        unsafe { delete(pointer.cast::<Tensor>().as_ptr()) };
    }
    made
}

/// Frees a tensor.
unsafe extern "C" fn delete(tensor: *mut Tensor) {
    // SAFETY: the pointer came from Box::leak in `capsule`, and DLPack calls the deleter once.
    drop(unsafe { Box::from_raw(tensor) });
}

/// Frees the tensor of a capsule that was not consumed; a consumer renames the capsule.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: CPython calls it with the capsule that is being collected, attached.
    let tensor = unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 0 {
            return;
        }
        ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr())
    };
    // SAFETY: the capsule still has its first name, so the tensor is not freed elsewhere.
    unsafe { delete(tensor.cast()) };
}
