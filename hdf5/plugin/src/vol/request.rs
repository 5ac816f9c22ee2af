//! Requests of asynchronous calls. They are the native connector's own, if it ever makes one.

use std::ffi::c_int;

use plasmon_hdf5_sys::{Herr, Ptr};

/// Declares callbacks about a request, which is not wrapped.
macro_rules! ask {
    ($($(#[$about:meta])* $name:ident($($arg:ident: $kind:ty),*) = $function:ident;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const SLOT: usize>(
            request: Ptr $(, $arg: $kind)*
        ) -> Herr {
            let host = crate::host::of::<SLOT>();
            // SAFETY: HDF5 hands us a request that came from the native connector.
            unsafe { (host.api.$function)(request, host.native() $(, $arg)*) }
        }
    )*};
}

ask! {
    /// Waits for the end.
    wait(timeout_ns: u64, status: *mut c_int) = H5VLrequest_wait;
    /// Asks to be told of the end.
    notify(callback: Ptr, context: Ptr) = H5VLrequest_notify;
    /// Ends it early.
    cancel(status: *mut c_int) = H5VLrequest_cancel;
    /// Information about it.
    specific(arguments: Ptr) = H5VLrequest_specific;
    /// Operations of single connectors.
    optional(arguments: Ptr) = H5VLrequest_optional;
    /// Releases it.
    free() = H5VLrequest_free;
}
