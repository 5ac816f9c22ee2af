//! The structure that the Arrow C data interface hands an array over in.

use std::ffi::c_void;

/// An `ArrowArray` of the C data interface.
#[repr(C)]
pub(crate) struct RawArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut Self,
    pub(crate) dictionary: *mut Self,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) private_data: *mut c_void,
}
