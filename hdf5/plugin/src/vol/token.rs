//! Tokens name objects within their file; they are the native connector's addresses.

use std::ffi::{c_char, c_int, c_void};

use plasmon_hdf5_sys::{Herr, Ptr, Text};

use crate::vol::forward::pass;

pass! {
    /// Compares two tokens.
    compare(object, one: *const c_void, other: *const c_void, order: *mut c_int) -> Herr =
        |api, under, native| (api.H5VLtoken_cmp)(under, native, one, other, order);
    /// Writes a token as a text.
    to_text(object, kind: c_int, token: *const c_void, text: *mut *mut c_char) -> Herr =
        |api, under, native| (api.H5VLtoken_to_str)(under, kind, native, token, text);
    /// Reads a token from a text.
    from_text(object, kind: c_int, text: Text, token: Ptr) -> Herr =
        |api, under, native| (api.H5VLtoken_from_str)(under, kind, native, text, token);
}
