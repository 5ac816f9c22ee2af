//! Links: they live in the skeleton.

use plasmon_hdf5_sys::arguments::{HardLink, LINK_CREATE_HARD, LINK_DELETE};
use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request};

use crate::guard;
use crate::host;
use crate::node::Node;
use crate::operations::first_link;
use crate::operations::unlinked_data;
use crate::vol::forward::{call, pass, refused};

pass! {
    /// `H5Lget_*`.
    get(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLlink_get)(under, place, native, arguments, dxpl, request);
    /// `H5Ldelete`, `H5Lexists`, `H5Literate`, `H5Lvisit`.
    specific_native(object, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = |api, under, native|
            (api.H5VLlink_specific)(under, place, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, place: *const Location, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native|
            (api.H5VLlink_optional)(under, place, native, arguments, dxpl, request);
    /// `H5Lcopy`.
    copy(source, from: *const Location, target: Ptr, to: *const Location, lcpl: Hid, lapl: Hid,
        dxpl: Hid, request: Request) -> Herr = |api, under, native| match Node::under(target) {
            None => refused(host::of::<SLOT>()),
            Some(target) => (api.H5VLlink_copy)(
                under, from, target, to, native, lcpl, lapl, dxpl, request),
        };
    /// `H5Lmove`.
    relocate(source, from: *const Location, target: Ptr, to: *const Location, lcpl: Hid, lapl: Hid,
        dxpl: Hid, request: Request) -> Herr = |api, under, native| match Node::under(target) {
            None => refused(host::of::<SLOT>()),
            Some(target) => (api.H5VLlink_move)(
                under, from, target, to, native, lcpl, lapl, dxpl, request),
        };
    /// `H5Lcreate_*`, whose first argument is not the object.
    create_at(object, arguments: Ptr, place: *const Location, lcpl: Hid, lapl: Hid, dxpl: Hid,
        request: Request) -> Herr = |api, under, native| (api.H5VLlink_create)(
            arguments, under, place, native, lcpl, lapl, dxpl, request);
}

call! {
    /// `H5Ldelete`, `H5Lexists`, `H5Literate`, `H5Lvisit`.
    specific<SLOT>(object: Ptr, place: *const Location, arguments: Ptr, dxpl: Hid,
        request: Request) -> Herr = {
        if arguments.cast::<i32>().read() == LINK_DELETE && let Some(node) = Node::of(object) {
            let host = host::of::<SLOT>();
            // Data that cannot be examined is not removed, and takes room.
            guard::or(None, || host.keeping_errors(|| unlinked_data::note(host, node, &*place)));
        }
        specific_native::<SLOT>(object, place, arguments, dxpl, request)
    };
    /// `H5Lcreate_*`.
    create<SLOT>(arguments: Ptr, object: Ptr, place: *const Location, lcpl: Hid, lapl: Hid,
        dxpl: Hid, request: Request) -> Herr = {
        let mut link = HardLink::EMPTY;
        let host = host::of::<SLOT>();
        guard::or(None, || first_link::name(host, arguments, object, place));
        let Some(arguments) = unwrapped(arguments, &mut link) else { return refused(host) };
        create_at::<SLOT>(object, arguments, place, lcpl, lapl, dxpl, request)
    };
}

/// The arguments with the object that a hard link leads to unwrapped, for it is one of ours; `None`
/// when it was closed before.
///
/// # Safety
///
/// The arguments begin with the operation's number and are a `HardLink` when it says so.
unsafe fn unwrapped(arguments: Ptr, link: &mut HardLink) -> Option<Ptr> {
    // SAFETY: promised by the caller; the object is ours or null.
    unsafe {
        if arguments.cast::<i32>().read() != LINK_CREATE_HARD {
            return Some(arguments);
        }
        *link = arguments.cast::<HardLink>().read();
        link.current = Node::under(link.current)?;
    }
    Some(std::ptr::from_mut(link).cast())
}
