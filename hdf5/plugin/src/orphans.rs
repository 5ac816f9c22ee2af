//! Files of data whose dataset was deleted.
//!
//! A deleted dataset's file stays until the skeleton that no longer names it is written: else a
//! process that is killed in between would leave a dataset without data.

use std::collections::HashSet;
use std::ffi::c_int;

use plasmon_hdf5_model::keep_only;
use plasmon_hdf5_sys::arguments::{FileFlush, dataset, file};
use plasmon_hdf5_sys::{KIND_DATASET, KIND_FILE, Ptr};

use crate::array::{get, marker};
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::node::Node;
use crate::walking;

/// Removes the files of data that no dataset of an open skeleton names. Nothing is removed when the
/// skeleton cannot be written or gone over.
pub(crate) fn remove(host: &'static Host, node: &Node) {
    if !flush(host, node.native(), KIND_FILE) {
        return;
    }
    let mut wanted = HashSet::new();
    let container = &node.container;
    let complete = walking::datasets(host, node.native(), KIND_FILE, &mut |under| {
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        if let Some(named) = marker(host, dcpl.get()) {
            wanted.insert(container.folder().join(named.marker.path));
        }
        Some(())
    });
    if complete.is_some() {
        // What cannot be removed now does no harm but to take room.
        let _ = keep_only(&container.data_folder(), &wanted);
    }
}

/// Writes the skeleton of an open dataset, to the disk if the program's settings ask for that.
pub(crate) fn flush_of_dataset(host: &Host, node: &Node) -> Result<(), String> {
    if !flush(host, node.native(), KIND_DATASET) {
        return Err("the skeleton cannot be written".to_owned());
    }
    node.container.sync()
}

/// Writes the skeleton that an object is in.
pub(crate) fn flush(host: &Host, under: Ptr, kind: c_int) -> bool {
    let mut arguments =
        FileFlush { operation: file::FLUSH, padding: 0, kind, scope: 0, rest: [0; 4] };
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: the object is the native connector's.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLfile_specific)(under, host.native(), arguments, dxpl, std::ptr::null_mut())
    };
    done >= 0
}
