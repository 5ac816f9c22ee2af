//! Attributes: they live in the skeleton, so every call is passed on. Those of datasets are
//! mirrored when the dataset is closed (`mirroring`).

use std::ffi::c_void;

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::forward::{call, close, open, pass};
use crate::mirroring;
use crate::node::Node;

open! {
    /// `H5Acreate` and its kin.
    create_native(object, place: *const Location, name: Text, kind: Hid, space: Hid, acpl: Hid,
        aapl: Hid, dxpl: Hid, request: Request) = |api, under, native| (api.H5VLattr_create)(
            under, place, native, name, kind, space, acpl, aapl, dxpl, request);
    /// `H5Aopen` and its kin.
    open_native(object, place: *const Location, name: Text, aapl: Hid, dxpl: Hid,
        request: Request) = |api, under, native|
            (api.H5VLattr_open)(under, place, native, name, aapl, dxpl, request);
}

pass! {
    /// `H5Aread`.
    read(attribute, kind: Hid, buffer: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLattr_read)(under, native, kind, buffer, dxpl, request);
    /// `H5Awrite`.
    write(attribute, kind: Hid, buffer: *const c_void, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLattr_write)(under, native, kind, buffer, dxpl, request);
    /// `H5Aget_*`.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLattr_get)(under, native, arguments, dxpl, request);
    /// `H5Adelete`, `H5Aexists`, `H5Aiterate`, `H5Arename`.
    specific_native(object, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = |api, under, native|
            (api.H5VLattr_specific)(under, place, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLattr_optional)(under, native, arguments, dxpl, request);
}

call! {
    /// `H5Acreate` and its kin.
    create<SLOT>(object: Ptr, place: *const Location, name: Text, kind: Hid, space: Hid, acpl: Hid,
        aapl: Hid, dxpl: Hid, request: Request) -> Ptr = {
        note(object, place);
        create_native::<SLOT>(object, place, name, kind, space, acpl, aapl, dxpl, request)
    };
    /// `H5Aopen` and its kin; the attribute may be written then.
    open<SLOT>(object: Ptr, place: *const Location, name: Text, aapl: Hid, dxpl: Hid,
        request: Request) -> Ptr = {
        note(object, place);
        open_native::<SLOT>(object, place, name, aapl, dxpl, request)
    };
    /// `H5Adelete`, `H5Aexists`, `H5Aiterate`, `H5Arename`.
    specific<SLOT>(object: Ptr, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = {
        note(object, place);
        specific_native::<SLOT>(object, place, arguments, dxpl, request)
    };
}

/// Remembers that a dataset's attributes may change.
///
/// # Safety
///
/// HDF5 handed object and place over.
unsafe fn note(object: Ptr, place: *const Location) {
    // SAFETY: promised by the caller; a place may be null.
    let (node, place) = unsafe { (Node::of(object), place.as_ref()) };
    if let Some(node) = node
        // SAFETY: promised by the caller.
        && place.is_some_and(|place| unsafe { mirroring::concerns_dataset(place) })
    {
        node.expect_attributes();
    }
}

close! {
    /// `H5Aclose`.
    close = H5VLattr_close;
}
