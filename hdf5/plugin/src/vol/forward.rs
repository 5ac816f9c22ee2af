//! The callbacks that only pass a call on.
//!
//! ```text
//! pass! {
//!     read(object, kind: Hid, ..) -> Herr = |api, under, native| (api.H5VLattr_read)(under, ..);
//! }
//! ```
//!
//! `pass!` is for calls about an object, `open!` for those that make one, `close!` for those that
//! end one, `call!` for those that do more. A request of an asynchronous call is passed on as it
//! is: the native connector makes none.

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
                let $under = $crate::node::Node::under($object);
                ($call)
            }
        }
    )*};
}

/// Declares callbacks that make an object: what the native connector makes is wrapped.
macro_rules! open {
    ($($(#[$about:meta])* $name:ident($object:ident $(, $arg:ident: $kind:ty)*) =
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
                let $under = $crate::node::Node::under($object);
                $crate::node::Node::hand_out_beside($call, $object)
            }
        }
    )*};
}

/// Declares callbacks that end an object.
macro_rules! close {
    ($($(#[$about:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$about])*
        pub(crate) unsafe extern "C" fn $name<const SLOT: usize>(
            object: plasmon_hdf5_sys::Ptr,
            dxpl: plasmon_hdf5_sys::Hid,
            request: plasmon_hdf5_sys::Request,
        ) -> plasmon_hdf5_sys::Herr {
            let host = $crate::host::of::<SLOT>();
            // SAFETY: HDF5 hands us an object of ours, which it does not use again if this
            // succeeds.
            unsafe {
                let under = $crate::node::Node::under(object);
                let done = (host.api.$function)(under, host.native(), dxpl, request);
                if done >= 0 {
                    // What ends with the object (a writer of the client) must not end the process.
                    $crate::guard::or((), || drop($crate::node::Node::take_back(object)));
                }
                done
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

pub(crate) use {call, close, open, pass};
