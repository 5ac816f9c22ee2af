//! The connector's settings: what follows its name in `HDF5_VOL_CONNECTOR`.

use std::ffi::{CStr, c_char, c_int, c_void};

use plasmon_hdf5_sys::{Herr, Ptr, Text};

use crate::{guard, host};

/// The settings as HDF5 holds them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Info {
    /// As the program gave them.
    text: String,
}

/// The size that HDF5 is told; it holds only the pointer.
pub(crate) const BYTES: usize = size_of::<Info>();

/// Copies settings.
pub(crate) unsafe extern "C" fn copy(info: *const c_void) -> Ptr {
    if info.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: HDF5 hands back what came from here.
    let info = unsafe { &*info.cast::<Info>() };
    guard::or(std::ptr::null_mut(), || Box::into_raw(Box::new(info.clone())).cast())
}

/// Compares settings; missing ones come first.
pub(crate) unsafe extern "C" fn compare(
    order: *mut c_int,
    one: *const c_void,
    other: *const c_void,
) -> Herr {
    // SAFETY: HDF5 hands back what came from here, or null, and a place for the answer.
    unsafe {
        let [one, other] = [one, other].map(|info| info.cast::<Info>().as_ref());
        order.write(one.cmp(&other) as c_int);
    }
    0
}

/// Releases settings.
pub(crate) unsafe extern "C" fn free(info: Ptr) -> Herr {
    if !info.is_null() {
        // SAFETY: HDF5 hands back what came from here and does not use it again.
        drop(unsafe { Box::from_raw(info.cast::<Info>()) });
    }
    0
}

/// Writes settings as a text, in memory of the library.
pub(crate) unsafe extern "C" fn to_text<const SLOT: usize>(
    info: *const c_void,
    out: *mut *mut c_char,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands back what came from here, or null, and a place for the text, which it
    // frees by its own means; the memory has room for the text and its end.
    unsafe {
        let text = info.cast::<Info>().as_ref().map_or("", |info| info.text.as_str());
        let memory = (host.api.H5allocate_memory)(text.len() + 1, true).cast::<u8>();
        if memory.is_null() {
            return -1;
        }
        memory.copy_from_nonoverlapping(text.as_ptr(), text.len());
        memory.add(text.len()).write(0);
        out.write(memory.cast());
    }
    0
}

/// Reads settings from a text. Wrong ones are kept as they are: they are refused when a file is
/// opened, for a failure here would end an h5py program at its import.
pub(crate) unsafe extern "C" fn from_text(text: Text, out: *mut Ptr) -> Herr {
    if text.is_null() {
        // SAFETY: HDF5 gives a place for the settings.
        unsafe { out.write(std::ptr::null_mut()) };
        return 0;
    }
    // SAFETY: HDF5 gives a text that ends.
    let text = unsafe { CStr::from_ptr(text) };
    guard::or(-1, || {
        let info = Info { text: text.to_string_lossy().trim().to_owned() };
        // SAFETY: HDF5 gives a place for the settings, which it frees with `free`.
        unsafe { out.write(Box::into_raw(Box::new(info)).cast()) };
        0
    })
}
