//! Objects of any kind, named by a link.

use std::ffi::c_int;

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::guard;
use crate::host::{self, Fault};
use crate::node::{Kind, Node};
use crate::operations::copies;
use crate::skeleton::comment;
use crate::vol::forward::{call, open, pass, refused};

open! {
    /// `H5Oopen` and its kin.
    open(object, place: *const Location, kind: *mut c_int, dxpl: Hid, request: Request)
        -> Kind::of_number(kind.read()) =>
        |api, under, native| (api.H5VLobject_open)(under, place, native, kind, dxpl, request);
}

pass! {
    /// `H5Ocopy` of the skeleton.
    copy_native(source, from: *const Location, name: Text, target: Ptr, to: *const Location,
        target_name: Text, ocpypl: Hid, lcpl: Hid, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| match Node::under(target) {
            None => refused(host::of::<SLOT>()),
            Some(target) => (api.H5VLobject_copy)(under, from, name, target, to, target_name,
                native, ocpypl, lcpl, dxpl, request),
        };
    /// Information about an object.
    get(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLobject_get)(under, place, native, arguments, dxpl, request);
    /// `H5Oexists_by_name`, `H5Ovisit`, `H5Oflush`, reference counts.
    specific(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native|
            (api.H5VLobject_specific)(under, place, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional_native(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request)
        -> Herr =
        |api, under, native|
            (api.H5VLobject_optional)(under, place, native, arguments, dxpl, request);
}

call! {
    /// Operations of single connectors. Programs do not see what the skeleton says in the comment
    /// of its root group, and what they put there stays beside it.
    optional<SLOT>(object: Ptr, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        let known = guard::or(None, || {
            let node = Node::of(object)?;
            comment::answer(host, node.native(), &*place, arguments)
        });
        known.unwrap_or_else(|| optional_native::<SLOT>(object, place, arguments, dxpl, request))
    };
    /// `H5Ocopy`. The skeleton's copy names the same data as the original; it gets its own.
    copy<SLOT>(source: Ptr, from: *const Location, name: Text, target: Ptr, to: *const Location,
        target_name: Text, ocpypl: Hid, lcpl: Hid, dxpl: Hid, request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        let done = copy_native::<SLOT>(source, from, name, target, to, target_name, ocpypl, lcpl,
            dxpl, request);
        if done < 0 {
            return done;
        }
        let stopped = || Err("the connector failed because of a bug in it; please report \
                              it".to_owned());
        let separated = guard::or_else(stopped, || match (Node::of(source), Node::of(target)) {
            (Some(source), Some(target)) => {
                let (source, target) = ((source, &*from, name), (target, &*to, target_name));
                copies::separate(host, source, target)
            }
            _ => Ok(()),
        });
        match separated {
            Ok(()) => done,
            Err(error) => {
                host.push_error(Fault::Write, &error);
                -1
            }
        }
    };
}
