//! Attributes: they live in the skeleton, so every call is passed on. Those of datasets are
//! mirrored when the dataset is closed (`attribute_mirror`).

use std::ffi::c_void;

use plasmon_hdf5_sys::{BY_NAME, Herr, Hid, Location, Ptr, Request, Text};

use crate::guard;
use crate::host::{self, Host};
use crate::node::{Kind, Node};
use crate::operations::attribute_mirror;
use crate::operations::creation::future_path;
use crate::vol::forward::{call, open, pass};

open! {
    /// `H5Acreate` and its kin.
    create_native(object, place: *const Location, name: Text, kind: Hid, space: Hid, acpl: Hid,
        aapl: Hid, dxpl: Hid, request: Request) -> Some(Kind::Attribute) =>
        |api, under, native| (api.H5VLattr_create)(
            under, place, native, name, kind, space, acpl, aapl, dxpl, request);
    /// `H5Aopen` and its kin.
    open_native(object, place: *const Location, name: Text, aapl: Hid, dxpl: Hid,
        request: Request) -> Some(Kind::Attribute) => |api, under, native|
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
        note(host::of::<SLOT>(), object, place);
        create_native::<SLOT>(object, place, name, kind, space, acpl, aapl, dxpl, request)
    };
    /// `H5Aopen` and its kin; the attribute may be written then.
    open<SLOT>(object: Ptr, place: *const Location, name: Text, aapl: Hid, dxpl: Hid,
        request: Request) -> Ptr = {
        note(host::of::<SLOT>(), object, place);
        open_native::<SLOT>(object, place, name, aapl, dxpl, request)
    };
    /// `H5Adelete`, `H5Aexists`, `H5Aiterate`, `H5Arename`.
    specific<SLOT>(object: Ptr, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = {
        note(host::of::<SLOT>(), object, place);
        specific_native::<SLOT>(object, place, arguments, dxpl, request)
    };
}

/// Remembers that a dataset's attributes may change.
///
/// # Safety
///
/// HDF5 handed object and place over.
unsafe fn note(host: &'static Host, object: Ptr, place: *const Location) {
    // SAFETY: promised by the caller; a place may be null.
    let (node, known) = unsafe { (Node::of(object), place.as_ref()) };
    let (Some(node), Some(known)) = (node, known) else { return };
    // SAFETY: promised by the caller; a place by name has one.
    unsafe {
        if attribute_mirror::concerns_dataset(known) {
            node.expect_attributes();
        } else if known.by == BY_NAME && node.container.keeps_arrow {
            let name = known.data.by_name.name;
            let path = guard::or(Vec::new(), || future_path(host, node, place, name));
            node.container.note_named(path);
        }
    }
}
