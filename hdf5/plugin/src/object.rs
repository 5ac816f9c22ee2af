//! Objects of any kind, named by a link.

use std::ffi::c_int;

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::forward::{open, pass};
use crate::node::Node;

open! {
    /// `H5Oopen` and its kin.
    open(object, place: *const Location, kind: *mut c_int, dxpl: Hid, request: Request) =
        |api, under, native| (api.H5VLobject_open)(under, place, native, kind, dxpl, request);
}

pass! {
    /// `H5Ocopy`.
    copy(source, from: *const Location, name: Text, target: Ptr, to: *const Location,
        target_name: Text, ocpypl: Hid, lcpl: Hid, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLobject_copy)(under, from, name, Node::under(target), to,
            target_name, native, ocpypl, lcpl, dxpl, request);
    /// What is known of an object.
    get(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLobject_get)(under, place, native, arguments, dxpl, request);
    /// `H5Oexists_by_name`, `H5Ovisit`, `H5Oflush`, reference counts.
    specific(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native|
            (api.H5VLobject_specific)(under, place, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native|
            (api.H5VLobject_optional)(under, place, native, arguments, dxpl, request);
}
