//! Datasets that are made without a link and get one later.
//!
//! h5py's `f["x"] = array` does so. The file of data should be called after the dataset, but when
//! it was made the name was not known, and the skeleton's part of a dataset cannot be changed. So
//! when the dataset gets its first link, the file is renamed and the skeleton's part made again.

use plasmon_hdf5_model::Marker;
use plasmon_hdf5_sys::arguments::{HardLink, LINK_CREATE_HARD, dataset};
use plasmon_hdf5_sys::{BY_NAME, BY_SELF, DEFAULT, KIND_DATASET, Location, Ptr};

use crate::backend;
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::node::Node;
use crate::operations::creation::future_path;
use crate::skeleton::creation_list::{marker, name_data, remove_external};
use crate::skeleton::get;
use crate::skeleton::walk;

/// `H5VL_DATASET_GET_DAPL`.
const GET_ACCESS: i32 = 0;

/// Names the data of a dataset that gets its first link. Where that is not possible the data keeps
/// the name that it has, which does no harm.
///
/// # Safety
///
/// HDF5 handed all of this over, to make a link.
pub(crate) unsafe fn name(
    host: &'static Host,
    arguments: Ptr,
    group: Ptr,
    place: *const Location,
) -> Option<()> {
    // SAFETY: promised by the caller: the arguments begin with the operation's number.
    let link = unsafe {
        if arguments.cast::<i32>().read() != LINK_CREATE_HARD || (*place).by != BY_NAME {
            return None;
        }
        &*arguments.cast::<HardLink>()
    };
    if link.location.by != BY_SELF || link.location.kind != KIND_DATASET {
        return None;
    }
    // SAFETY: the objects are ours and open; the name is that of the place.
    let (node, group, name) =
        unsafe { (Node::of(link.current)?, Node::of(group)?, (*place).data.by_name.name) };
    let info = walk::info(host, node.native(), KIND_DATASET)?;
    if info.links > 0 || info.attributes > 0 {
        return None;
    }
    let dcpl = Id::of_list(host, get(host, node.native(), dataset::GET_CREATION)?)?;
    let (marker, offset) = marker(host, dcpl.get())?;
    let container = &node.container;
    // SAFETY: HDF5 handed name and place over.
    let path = unsafe { future_path(host, group, place, name) };
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    node.array(host)?.rename(node.native(), &String::from_utf8_lossy(last));
    let place = backend::rename(container, &marker.place, &path)?;
    let renamed = Marker { place, plain: marker.plain };
    let remade = remake(host, node.native(), dcpl, &renamed, offset);
    match remade {
        Some(made) => {
            let old = node.exchange(made);
            let dxpl = host.default_list(Lists::Transfer);
            // SAFETY: the old part has no link and is not used elsewhere: it ends here.
            unsafe { (host.api.H5VLdataset_close)(old, host.native(), dxpl, std::ptr::null_mut()) };
            Some(())
        }
        None => {
            // The skeleton still has the old name.
            backend::rename_back(container, &renamed.place, &marker.place);
            None
        }
    }
}

/// Makes the skeleton's part of a dataset once more, with its data elsewhere.
pub(crate) fn remake(
    host: &'static Host,
    under: Ptr,
    dcpl: Id,
    marker: &Marker,
    offset: u64,
) -> Option<Ptr> {
    let bytes = bytes(host, dcpl.get())?;
    remove_external(host, dcpl.get());
    name_data(host, dcpl.get(), marker, (offset, bytes)).ok()?;
    make_unnamed(host, under, &dcpl)
}

/// Makes a dataset without a link that is like another one but for its creation properties.
pub(crate) fn make_unnamed(host: &'static Host, like: Ptr, dcpl: &Id) -> Option<Ptr> {
    let kind = Id::of_type(host, get(host, like, dataset::GET_TYPE)?)?;
    let space = Id::of_space(host, get(host, like, dataset::GET_SPACE)?)?;
    let dapl = Id::of_list(host, get(host, like, GET_ACCESS)?)?;
    let place = Location::itself(KIND_DATASET);
    // SAFETY: all identifiers are open; a dataset without a name has no link.
    let made = unsafe {
        (host.api.H5VLdataset_create)(
            like,
            &raw const place,
            host.native(),
            std::ptr::null(),
            host.default_list(Lists::LinkCreation),
            kind.get(),
            space.get(),
            dcpl.get(),
            dapl.get(),
            host.default_list(Lists::Transfer),
            std::ptr::null_mut(),
        )
    };
    (!made.is_null()).then_some(made)
}

/// How many bytes the skeleton takes the data for.
fn bytes(host: &Host, dcpl: i64) -> Option<u64> {
    let (mut offset, mut bytes) = (0, DEFAULT.cast_unsigned());
    // SAFETY: the list is open; no room is given for the name.
    let done = unsafe {
        let none = std::ptr::null_mut();
        (host.api.H5Pget_external)(dcpl, 0, 0, none, &raw mut offset, &raw mut bytes)
    };
    (done >= 0).then_some(bytes)
}
