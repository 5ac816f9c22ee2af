//! Data that no dataset names any more, because the dataset was deleted.
//!
//! A deleted dataset's file stays until the skeleton that no longer names it is written: else a
//! process that is killed in between would leave a dataset without data.

use std::ffi::c_int;

use plasmon_hdf5_model::Place;
use plasmon_hdf5_sys::arguments::dataset;
use plasmon_hdf5_sys::{KIND_DATASET, KIND_FILE, KIND_GROUP, Location, Ptr};

use crate::backend;
use crate::host::Host;
use crate::id::Id;
use crate::node::Node;
use crate::skeleton::creation_list::marker;
use crate::skeleton::walk::{self, NativeObject};
use crate::skeleton::{flush, get};
use crate::tie::SkeletonFile;

/// Removes the files of data that no dataset of an open skeleton names. Nothing is removed when the
/// skeleton cannot be written or visited.
pub(crate) fn remove(host: &'static Host, node: &Node) {
    if !flush(host, node.native(), KIND_FILE) {
        return;
    }
    let mut wanted = Vec::new();
    let container = &node.container;
    let complete = walk::datasets(host, node.native(), KIND_FILE, &mut |under| {
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        if let Some((marker, _)) = marker(host, dcpl.get()) {
            wanted.push(marker.place);
        }
        Some(())
    });
    if complete.is_some() && container.is_first() {
        let (under, ranks) = (node.native(), container.ranks.as_ref());
        let from = SkeletonFile { host, under, kind: KIND_FILE, ranks };
        backend::keep_only(from, container, &wanted);
    }
}

/// Remembers the objects that a link leads to which is about to be deleted. Files need no memory:
/// those that no dataset names are found in their folder.
///
/// # Safety
///
/// HDF5 handed the place over, and the object that it is seen from.
pub(crate) unsafe fn note(host: &'static Host, node: &Node, place: &Location) -> Option<()> {
    node.container.expect_unused();
    if !node.container.has_objects() {
        return Some(());
    }
    // SAFETY: promised by the caller.
    let target = unsafe { NativeObject::new(host, node.native(), place) }?;
    let objects = objects(host, target.under, target.kind)?;
    node.container.note_deleted(objects);
    Some(())
}

/// The objects that a dataset, or what is below a group, names.
pub(crate) fn objects(host: &'static Host, under: Ptr, kind: c_int) -> Option<Vec<Place>> {
    let mut found = Vec::new();
    let mut visit = |under| {
        let dcpl = Id::of_list(host, get(host, under, dataset::GET_CREATION)?)?;
        let marker = marker(host, dcpl.get()).map(|(marker, _)| marker.place);
        found.extend(marker.filter(|place| matches!(place, Place::Object { .. })));
        Some(())
    };
    match kind {
        KIND_DATASET => visit(under)?,
        KIND_GROUP | KIND_FILE => walk::datasets(host, under, kind, &mut visit)?,
        _ => {}
    }
    Some(found)
}
