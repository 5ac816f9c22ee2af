//! Values of variable length, which the native connector keeps in its heaps.

use std::ffi::c_void;

use plasmon_hdf5_sys::{Herr, Ptr};

use crate::vol::forward::pass;

pass! {
    /// Stores a value.
    put(object, buffer: *const c_void, bytes: usize, id: Ptr, context: Ptr) -> Herr =
        |api, under, native| (api.H5VLblob_put)(under, native, buffer, bytes, id, context);
    /// Reads a value.
    get(object, id: *const c_void, buffer: Ptr, bytes: usize, context: Ptr) -> Herr =
        |api, under, native| (api.H5VLblob_get)(under, native, id, buffer, bytes, context);
    /// Deletes a value, or asks whether there is one.
    specific(object, id: Ptr, arguments: Ptr) -> Herr =
        |api, under, native| (api.H5VLblob_specific)(under, native, id, arguments);
    /// Operations of single connectors.
    optional(object, id: Ptr, arguments: Ptr) -> Herr =
        |api, under, native| (api.H5VLblob_optional)(under, native, id, arguments);
}
