//! Files: the skeleton is a file of the native connector under the same name.

use std::ffi::c_uint;

use plasmon_hdf5_sys::arguments::{FileNamed, Reopen, file};
use plasmon_hdf5_sys::{Herr, Hid, INVALID, Ptr, Request, Text};

use crate::forward::{close, pass};
use crate::host::{self, Host};
use crate::node::Node;

pass! {
    /// What is known of a file.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLfile_get)(under, native, arguments, dxpl, request);
    /// Operations of single connectors; netCDF needs those of the native one.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLfile_optional)(under, native, arguments, dxpl, request);
}

close! {
    /// `H5Fclose`.
    close = H5VLfile_close;
}

/// The program's access property list with the native connector in it; closed when dropped,
/// without touching the errors of the call that it was for.
struct NativeAccess {
    host: &'static Host,
    fapl: Hid,
}

impl NativeAccess {
    /// A copy of a list that names our connector.
    fn of(host: &'static Host, fapl: Hid) -> Self {
        // SAFETY: the list is the one that HDF5 opens the file with; the copy is ours.
        let copy = unsafe { (host.api.H5Pcopy)(fapl) };
        if copy != INVALID {
            // SAFETY: the copy is a file access property list; the native connector has no
            // settings.
            unsafe { (host.api.H5Pset_vol)(copy, host.native(), std::ptr::null()) };
        }
        Self { host, fapl: copy }
    }
}

impl Drop for NativeAccess {
    fn drop(&mut self) {
        // SAFETY: the copy is ours and used nowhere else.
        self.host.keeping_errors(|| unsafe { (self.host.api.H5Pclose)(self.fapl) });
    }
}

/// `H5Fcreate`.
pub(crate) unsafe extern "C" fn create<const SLOT: usize>(
    name: Text,
    flags: c_uint,
    fcpl: Hid,
    fapl: Hid,
    dxpl: Hid,
    request: Request,
) -> Ptr {
    let host = host::of::<SLOT>();
    let access = NativeAccess::of(host, fapl);
    // SAFETY: HDF5 hands us arguments as its interface defines them.
    let under =
        unsafe { (host.api.H5VLfile_create)(name, flags, fcpl, access.fapl, dxpl, request) };
    Node::hand_out(under)
}

/// `H5Fopen`.
pub(crate) unsafe extern "C" fn open<const SLOT: usize>(
    name: Text,
    flags: c_uint,
    fapl: Hid,
    dxpl: Hid,
    request: Request,
) -> Ptr {
    let host = host::of::<SLOT>();
    let access = NativeAccess::of(host, fapl);
    // SAFETY: HDF5 hands us arguments as its interface defines them.
    let under = unsafe { (host.api.H5VLfile_open)(name, flags, access.fapl, dxpl, request) };
    Node::hand_out(under)
}

/// Flushing, opening again, asking for and deleting a file by its name, comparing.
pub(crate) unsafe extern "C" fn specific<const SLOT: usize>(
    object: Ptr,
    arguments: Ptr,
    dxpl: Hid,
    request: Request,
) -> Herr {
    let host = host::of::<SLOT>();
    let call = |under: Ptr, arguments: Ptr| {
        // SAFETY: the object is the native connector's, or null where the operation has none.
        unsafe { (host.api.H5VLfile_specific)(under, host.native(), arguments, dxpl, request) }
    };
    // SAFETY: HDF5 hands us an object of ours, or null, and arguments that begin with the
    // operation's number and are what that number says.
    unsafe {
        match arguments.cast::<i32>().read() {
            file::IS_ACCESSIBLE | file::DELETE => {
                let mut named = arguments.cast::<FileNamed>().read();
                let access = NativeAccess::of(host, named.fapl);
                named.fapl = access.fapl;
                call(std::ptr::null_mut(), (&raw mut named).cast())
            }
            file::REOPEN => {
                let done = call(Node::under(object), arguments);
                let out = arguments.cast::<Reopen>().read().file;
                if done >= 0 && !out.read().is_null() {
                    out.write(Node::hand_out(out.read()));
                }
                done
            }
            _ => call(Node::under(object), arguments),
        }
    }
}
