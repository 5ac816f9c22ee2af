//! All values of a dataset of the native connector.

use plasmon_hdf5_sys::{Herr, Hid, Ptr, SPACE_ALL};

use crate::host::{Host, Lists};

/// Reads all values, as elements of a type.
///
/// # Safety
///
/// The dataset is the native connector's; there is room for all of its values.
pub(crate) unsafe fn read(host: &Host, mut under: Ptr, mut kind: Hid, mut values: Ptr) -> Herr {
    let [mut memory_space, mut file_space] = [SPACE_ALL; 2];
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: promised by the caller.
    unsafe {
        (host.api.H5VLdataset_read)(
            1,
            &raw mut under,
            host.native(),
            &raw mut kind,
            &raw mut memory_space,
            &raw mut file_space,
            dxpl,
            &raw mut values,
            std::ptr::null_mut(),
        )
    }
}

/// Writes all values, which are elements of a type.
///
/// # Safety
///
/// The dataset is the native connector's; the memory holds all of its values.
pub(crate) unsafe fn write(host: &Host, mut under: Ptr, mut kind: Hid, values: Ptr) -> Herr {
    let [mut memory_space, mut file_space] = [SPACE_ALL; 2];
    let dxpl = host.default_list(Lists::Transfer);
    let mut values = values.cast_const();
    // SAFETY: promised by the caller.
    unsafe {
        (host.api.H5VLdataset_write)(
            1,
            &raw mut under,
            host.native(),
            &raw mut kind,
            &raw mut memory_space,
            &raw mut file_space,
            dxpl,
            &raw mut values,
            std::ptr::null_mut(),
        )
    }
}
