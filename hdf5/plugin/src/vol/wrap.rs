//! Wrapping: the native connector calls back with objects of its own, which the library then asks
//! us to wrap.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use plasmon_hdf5_sys::{Herr, Ptr};

use crate::container::Container;
use crate::host;
use crate::node::{Kind, Node, stand_in};

/// The context for wrapping an object that comes up during a call.
struct Context {
    under: Ptr,
    container: Arc<Container>,
}

/// The native object behind ours.
pub(crate) unsafe extern "C" fn get_object<const SLOT: usize>(object: *const c_void) -> Ptr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands us an object of ours.
    match unsafe { Node::of(object.cast_mut()) } {
        None => stand_in(object.cast_mut()),
        // SAFETY: as above.
        Some(node) => unsafe { (host.api.H5VLget_object)(node.native(), host.native()) },
    }
}

/// The context for wrapping. That of a closed object is null: HDF5 asks for one before it closes an
/// object, and a second close must succeed for HDF5 to forget the object.
pub(crate) unsafe extern "C" fn get_context<const SLOT: usize>(
    object: *const c_void,
    out: *mut Ptr,
) -> Herr {
    let host = host::of::<SLOT>();
    let mut under = std::ptr::null_mut();
    // SAFETY: HDF5 hands us an object of ours and a place for the context, which it gives back to
    // free_context.
    unsafe {
        let Some(node) = Node::of(object.cast_mut()) else { return 0 };
        let done = (host.api.H5VLget_wrap_ctx)(node.native(), host.native(), &raw mut under);
        if done >= 0 {
            let container = Arc::clone(&node.container);
            out.write(Box::into_raw(Box::new(Context { under, container })).cast());
        }
        done
    }
}

/// Wraps an object of the native connector.
pub(crate) unsafe extern "C" fn wrap<const SLOT: usize>(
    object: Ptr,
    kind: c_int,
    context: Ptr,
) -> Ptr {
    let host = host::of::<SLOT>();
    // SAFETY: the context is null or came from get_context and was not freed; the object is the
    // native connector's.
    unsafe {
        let (context, known) = (context.cast::<Context>().as_ref(), Kind::of_number(kind));
        let (Some(context), Some(known)) = (context, known) else { return std::ptr::null_mut() };
        let under = (host.api.H5VLwrap_object)(object, kind, host.native(), context.under);
        Node::hand_out(under, known, Arc::clone(&context.container))
    }
}

/// Takes our wrapping away.
pub(crate) unsafe extern "C" fn unwrap<const SLOT: usize>(object: Ptr) -> Ptr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands us an object of ours, which it does not use again if this succeeds.
    unsafe {
        let Some(node) = Node::of(object) else { return std::ptr::null_mut() };
        let under = (host.api.H5VLunwrap_object)(node.native(), host.native());
        if !under.is_null()
            && let Some(node) = Node::withdraw(object)
        {
            node.end(0);
        }
        under
    }
}

/// Frees what `get_context` made.
pub(crate) unsafe extern "C" fn free_context<const SLOT: usize>(context: Ptr) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: the context came from get_context, and HDF5 does not use it again.
    unsafe {
        let context = Box::from_raw(context.cast::<Context>());
        if context.under.is_null() {
            return 0;
        }
        let free = || (host.api.H5VLfree_wrap_ctx)(context.under, host.native());
        host.keeping_errors(free)
    }
}
