//! The creation property list of a dataset in the skeleton: it names the data as an external file.
//!
//! Programs get the list as they gave it: without that file, and with the chunks they asked for.

use std::ffi::{CStr, CString, c_int};

use plasmon_hdf5_model::Marker;
use plasmon_hdf5_sys::Hid;

use crate::host::Host;
use crate::id::Id;

/// `H5D_COMPACT`.
pub(crate) const LAYOUT_COMPACT: c_int = 0;
/// `H5D_CONTIGUOUS`.
pub(crate) const LAYOUT_CONTIGUOUS: c_int = 1;
/// `H5D_CHUNKED`.
pub(crate) const LAYOUT_CHUNKED: c_int = 2;
/// `H5D_VIRTUAL`.
pub(crate) const LAYOUT_VIRTUAL: c_int = 3;
/// The longest name of an external file that is looked at.
const NAME_BYTES: usize = 8192;
/// The property of the list that has the external files.
const EXTERNAL_FILES: &CStr = c"efl";

/// The record of our data in a creation property list of the skeleton.
pub(crate) fn marker(host: &Host, dcpl: Hid) -> Option<(Marker, u64)> {
    let (name, offset, _) = external(host, dcpl)?;
    Some((Marker::of_name(&name)?, offset))
}

/// The only external file of a creation property list: its name, and from which byte on how many.
pub(crate) fn external(host: &Host, dcpl: Hid) -> Option<(String, u64, u64)> {
    let mut name = vec![0_u8; NAME_BYTES];
    let (mut offset, mut bytes) = (0, 0);
    // SAFETY: the list is open; the name is cut off at the room for it, and terminated below.
    let done = unsafe {
        if (host.api.H5Pget_external_count)(dcpl) != 1 {
            return None;
        }
        let room = name.len() - 1;
        (host.api.H5Pget_external)(
            dcpl,
            0,
            room,
            name.as_mut_ptr().cast(),
            &raw mut offset,
            &raw mut bytes,
        )
    };
    if done < 0 {
        return None;
    }
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    Some((name.to_owned(), u64::try_from(offset).ok()?, bytes))
}

/// Says in a creation property list where the data is, and from which byte on how many.
pub(crate) fn name_data(
    host: &Host,
    dcpl: Hid,
    marker: &Marker,
    place: (u64, u64),
) -> Result<(), String> {
    set_external(host, dcpl, &marker.to_name(), place)
}

/// Puts an external file into a creation property list.
pub(crate) fn set_external(
    host: &Host,
    dcpl: Hid,
    name: &str,
    (offset, bytes): (u64, u64),
) -> Result<(), String> {
    let name = CString::new(name).map_err(|e| e.to_string())?;
    let offset = i64::try_from(offset).map_err(|e| e.to_string())?;
    // SAFETY: the list is ours; the name ends and is copied. External storage is contiguous.
    let done = unsafe {
        if (host.api.H5Pget_layout)(dcpl) != LAYOUT_CONTIGUOUS {
            (host.api.H5Pset_layout)(dcpl, LAYOUT_CONTIGUOUS);
        }
        (host.api.H5Pset_external)(dcpl, name.as_ptr(), offset, bytes)
    };
    if done < 0 { Err("the skeleton cannot name the data".to_owned()) } else { Ok(()) }
}

/// Makes a list what the program gave: without the external storage that we put in, and with its
/// chunks.
pub(crate) fn give_back(host: &'static Host, dcpl: Hid, chunk: &[u64]) {
    remove_external(host, dcpl);
    if let Ok(rank) = i32::try_from(chunk.len())
        && rank > 0
    {
        // SAFETY: the list is ours; there are as many dimensions as are said.
        unsafe { (host.api.H5Pset_chunk)(dcpl, rank, chunk.as_ptr()) };
    }
}

/// Takes the external storage out of a list that we put in.
pub(crate) fn remove_external(host: &'static Host, dcpl: Hid) {
    let class = host.global(c"H5P_CLS_DATASET_CREATE_ID_g");
    // SAFETY: the class is the library's own.
    let Some(fresh) = Id::of_list(host, unsafe { (host.api.H5Pcreate)(class) }) else { return };
    let name = EXTERNAL_FILES.as_ptr();
    let mut bytes = 0;
    // SAFETY: both are creation property lists, which have a property of this name and the same
    // size; an empty list of files, as the fresh one has, owns no memory.
    unsafe {
        (host.api.H5Pget_size)(fresh.get(), name, &raw mut bytes);
        let mut none = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
        if (host.api.H5Pget)(fresh.get(), name, none.as_mut_ptr().cast()) >= 0 {
            (host.api.H5Pset)(dcpl, name, none.as_ptr().cast());
        }
    }
}
