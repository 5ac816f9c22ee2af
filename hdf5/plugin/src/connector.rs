//! The connector's description for HDF5.

use std::ffi::{CStr, c_int};

/// Its name, as in `HDF5_VOL_CONNECTOR`.
pub(crate) const NAME: &CStr = c"plasmon";
/// Its number; those below 256 are reserved by HDF5, those below 512 given out by it.
pub(crate) const VALUE: c_int = 20_583;
/// The version of what it does.
pub(crate) const VERSION: u32 = 1;
