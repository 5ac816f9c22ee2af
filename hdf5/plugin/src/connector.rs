//! What HDF5 knows the connector by.

use std::ffi::c_int;

/// Its number; those below 256 are reserved by HDF5, those below 512 given out by it.
pub(crate) const VALUE: c_int = 20_583;
