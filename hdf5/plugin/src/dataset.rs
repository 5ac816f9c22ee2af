//! Datasets.

use std::ffi::c_void;

use plasmon_hdf5_sys::{Herr, Hid, Location, Ptr, Request, Text};

use crate::forward::{close, open, pass};
use crate::host;
use crate::node::Node;

open! {
    /// `H5Dcreate`.
    create(object, place: *const Location, name: Text, lcpl: Hid, kind: Hid, space: Hid, dcpl: Hid,
        dapl: Hid, dxpl: Hid, request: Request) = |api, under, native| (api.H5VLdataset_create)(
            under, place, native, name, lcpl, kind, space, dcpl, dapl, dxpl, request);
    /// `H5Dopen`.
    open(object, place: *const Location, name: Text, dapl: Hid, dxpl: Hid, request: Request) =
        |api, under, native|
            (api.H5VLdataset_open)(under, place, native, name, dapl, dxpl, request);
}

pass! {
    /// What is known of a dataset.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_get)(under, native, arguments, dxpl, request);
    /// `H5Dset_extent`, `H5Dflush`, `H5Drefresh`.
    specific(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_specific)(under, native, arguments, dxpl, request);
    /// Operations of single connectors.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLdataset_optional)(under, native, arguments, dxpl, request);
}

close! {
    /// `H5Dclose`.
    close = H5VLdataset_close;
}

macro_rules! transfer {
    ($($(#[$about:meta])* $name:ident: $buffer:ty = $function:ident;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const SLOT: usize>(
            count: usize,
            datasets: *mut Ptr,
            memory_types: *mut Hid,
            memory_spaces: *mut Hid,
            file_spaces: *mut Hid,
            dxpl: Hid,
            buffers: *mut $buffer,
            request: Request,
        ) -> Herr {
            let host = host::of::<SLOT>();
            // SAFETY: HDF5 hands us as many datasets of ours as it says.
            let mut under: Vec<Ptr> = unsafe {
                let nodes = std::slice::from_raw_parts(datasets, count);
                nodes.iter().map(|node| Node::under(*node)).collect()
            };
            // SAFETY: the other arguments are passed on as they came.
            unsafe {
                (host.api.$function)(count, under.as_mut_ptr(), host.native(), memory_types,
                    memory_spaces, file_spaces, dxpl, buffers, request)
            }
        }
    )*};
}

transfer! {
    /// `H5Dread` and `H5Dread_multi`.
    read: Ptr = H5VLdataset_read;
    /// `H5Dwrite` and `H5Dwrite_multi`.
    write: *const c_void = H5VLdataset_write;
}
