//! Attributes: they live in the skeleton, so every call is passed on.

use std::ffi::c_void;

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::forward::{close, open, pass};

open! {
    /// `H5Acreate` and its kin.
    create(object, place: *const Location, name: Text, kind: Hid, space: Hid, acpl: Hid, aapl: Hid,
        dxpl: Hid, request: Request) = |api, under, native| (api.H5VLattr_create)(
            under, place, native, name, kind, space, acpl, aapl, dxpl, request);
    /// `H5Aopen` and its kin.
    open(object, place: *const Location, name: Text, aapl: Hid, dxpl: Hid, request: Request) =
        |api, under, native| (api.H5VLattr_open)(under, place, native, name, aapl, dxpl, request);
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
    specific(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native|
            (api.H5VLattr_specific)(under, place, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLattr_optional)(under, native, arguments, dxpl, request);
}

close! {
    /// `H5Aclose`.
    close = H5VLattr_close;
}
