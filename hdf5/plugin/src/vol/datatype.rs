//! Named types: they live in the skeleton.

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::node::Kind;
use crate::vol::forward::{open, pass};

open! {
    /// `H5Tcommit`.
    commit(object, place: *const Location, name: Text, kind: Hid, lcpl: Hid, tcpl: Hid, tapl: Hid,
        dxpl: Hid, request: Request) -> Some(Kind::Type) =>
        |api, under, native| (api.H5VLdatatype_commit)(
            under, place, native, name, kind, lcpl, tcpl, tapl, dxpl, request);
    /// `H5Topen`.
    open(object, place: *const Location, name: Text, tapl: Hid, dxpl: Hid, request: Request)
        -> Some(Kind::Type) =>
        |api, under, native|
            (api.H5VLdatatype_open)(under, place, native, name, tapl, dxpl, request);
}

pass! {
    /// Information about a type.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdatatype_get)(under, native, arguments, dxpl, request);
    /// `H5Tflush`, `H5Trefresh`.
    specific(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdatatype_specific)(under, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdatatype_optional)(under, native, arguments, dxpl, request);
}
