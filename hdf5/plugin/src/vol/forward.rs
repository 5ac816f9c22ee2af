//! The callbacks that only pass a call on.
//!
//! ```text
//! pass! {
//!     read(object, kind: Hid, ..) -> Herr = |api, under, native| (api.H5VLattr_read)(under, ..);
//! }
//! ```
//!
//! `pass!` is for calls about an object, `open!` for those that make one, `call!` for those that do
//! more; `close` ends objects. A call about an object that was closed before fails. A request of an
//! asynchronous call is passed on as it is: the native connector makes none.

use plasmon_hdf5_sys::{Herr, Ptr};

use crate::host::{Fault, Host};

const CLOSED: &str = "the object was closed before, perhaps with an error; open it again";

/// The answer to a call about an object that was closed before.
pub(crate) fn refused(host: &Host) -> Herr {
    host.push_error(Fault::Open, CLOSED);
    -1
}

/// The answer to a call that was to make an object beside one that was closed before.
pub(crate) fn refused_object(host: &Host) -> Ptr {
    refused(host);
    std::ptr::null_mut()
}

/// Declares callbacks that call the native connector with the object behind ours.
macro_rules! pass {
    ($($(#[$about:meta])* $name:ident($object:ident $(, $arg:ident: $kind:ty)*) -> $out:ty =
        |$api:ident, $under:ident, $native:ident| $call:expr;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const SLOT: usize>(
            $object: plasmon_hdf5_sys::Ptr $(, $arg: $kind)*
        ) -> $out {
            let host = $crate::host::of::<SLOT>();
            let ($api, $native) = (&host.api, host.native());
            // SAFETY: HDF5 hands us an object of ours, or null, and arguments as its interface
            // defines them; the native connector gets the same arguments.
            unsafe {
                let Some($under) = $crate::node::Node::under($object) else {
                    return $crate::vol::forward::refused(host);
                };
                ($call)
            }
        }
    )*};
}

/// Declares callbacks that make an object, of a kind that is known after the call: what the native
/// connector makes is wrapped.
macro_rules! open {
    ($($(#[$about:meta])* $name:ident($object:ident $(, $arg:ident: $kind:ty)*) -> $made:expr =>
        |$api:ident, $under:ident, $native:ident| $call:expr;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const SLOT: usize>(
            $object: plasmon_hdf5_sys::Ptr $(, $arg: $kind)*
        ) -> plasmon_hdf5_sys::Ptr {
            let host = $crate::host::of::<SLOT>();
            let ($api, $native) = (&host.api, host.native());
            // SAFETY: HDF5 hands us an object of ours and arguments as its interface defines
            // them; the native connector gets the same arguments.
            unsafe {
                let Some($under) = $crate::node::Node::under($object) else {
                    return $crate::vol::forward::refused_object(host);
                };
                let made = $call;
                $crate::node::Node::hand_out_beside(made, $made, $object)
            }
        }
    )*};
}

/// Declares callbacks with a body of their own, whose signatures HDF5 gives. The body is `unsafe`,
/// because its arguments are what HDF5 says they are.
macro_rules! call {
    ($($(#[$about:meta])* $name:ident<$slot:ident>($($arg:ident: $kind:ty),*) -> $out:ty =
        $body:expr;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const $slot: usize>($($arg: $kind),*) -> $out {
            // SAFETY: HDF5 hands us objects of ours and arguments as its interface defines them.
            unsafe { $body }
        }
    )*};
}

pub(crate) use {call, open, pass};
