//! Ends objects.
//!
//! HDF5 may close an object a second time, and through the callback of another kind (`node` says
//! why). So the kind of the object itself decides, and what was closed before is left alone.

use plasmon_hdf5_sys::{Herr, Hid, Ptr, Request};

use crate::host;
use crate::node::{Kind, Node};
use crate::vol::dataset;
use crate::vol::file;

/// `H5Fclose`, `H5Gclose`, `H5Tclose` of a named type, `H5Dclose`, `H5Aclose`.
pub(crate) unsafe extern "C" fn close<const SLOT: usize>(
    object: Ptr,
    dxpl: Hid,
    request: Request,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands us an object of ours, or a pointer that it gave up; no call about the
    // object is under way. The native object is closed once.
    unsafe {
        let Some(kind) = Node::of(object).map(|node| node.kind) else { return 0 };
        let native = match kind {
            Kind::File => return file::close::<SLOT>(object, dxpl, request),
            Kind::Dataset => return dataset::close::<SLOT>(object, dxpl, request),
            Kind::Group => host.api.H5VLgroup_close,
            Kind::Type => host.api.H5VLdatatype_close,
            Kind::Attribute => host.api.H5VLattr_close,
        };
        let Some(node) = Node::withdraw(object) else { return 0 };
        let done = native(node.native(), host.native(), dxpl, request);
        node.end(done)
    }
}
