//! Groups: they live in the skeleton.

use plasmon_hdf5_sys::arguments::{GROUP_MOUNT, Mount};
use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::host;
use crate::node::{Kind, Node};
use crate::vol::forward::{open, pass, refused};

open! {
    /// `H5Gcreate`.
    create(object, place: *const Location, name: Text, lcpl: Hid, gcpl: Hid, gapl: Hid, dxpl: Hid,
        request: Request) -> Some(Kind::Group) => |api, under, native| (api.H5VLgroup_create)(
            under, place, native, name, lcpl, gcpl, gapl, dxpl, request);
    /// `H5Gopen`.
    open(object, place: *const Location, name: Text, gapl: Hid, dxpl: Hid, request: Request)
        -> Some(Kind::Group) =>
        |api, under, native| (api.H5VLgroup_open)(under, place, native, name, gapl, dxpl, request);
}

pass! {
    /// Information about a group.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLgroup_get)(under, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLgroup_optional)(under, native, arguments, dxpl, request);
}

/// Mounting, unmounting, flushing. A file to mount is one of ours and is unwrapped.
pub(crate) unsafe extern "C" fn specific<const SLOT: usize>(
    object: Ptr,
    arguments: Ptr,
    dxpl: Hid,
    request: Request,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands us an object of ours; the arguments begin with the operation's number,
    // and are a Mount when it says so.
    unsafe {
        let Some(under) = Node::under(object) else { return refused(host) };
        if arguments.cast::<i32>().read() != GROUP_MOUNT {
            return (host.api.H5VLgroup_specific)(under, host.native(), arguments, dxpl, request);
        }
        let mut mount = arguments.cast::<Mount>().read();
        let Some(child) = Node::under(mount.child) else { return refused(host) };
        mount.child = child;
        let mount = (&raw mut mount).cast();
        (host.api.H5VLgroup_specific)(under, host.native(), mount, dxpl, request)
    }
}
