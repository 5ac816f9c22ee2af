//! The connector's information about itself.
//!
//! Asked for the connector at the end of the chain it names the native one: by that HDF5 knows that
//! functions of its interface of 1.10, which the wheels of h5py and PyTables use, are allowed.

use std::ffi::{c_int, c_void};

use plasmon_hdf5_sys::{Herr, Ptr, VolClass};

use crate::host;
use crate::node::Node;
use crate::vol::forward::{pass, refused};

/// `H5VL_GET_CONN_LVL_CURR`: this connector, not the one at the end.
const THIS: c_int = 0;

pass! {
    /// Whether an operation of a single connector is known.
    optional(object, class: c_int, operation: c_int, flags: *mut u64) -> Herr =
        |api, under, native|
            (api.H5VLintrospect_opt_query)(under, native, class, operation, flags);
}

/// Our table of callbacks, or that of the native connector.
pub(crate) unsafe extern "C" fn connector<const SLOT: usize>(
    object: Ptr,
    level: c_int,
    out: *mut *const VolClass,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands us an object of ours, or null, and a place for the answer.
    unsafe {
        if level == THIS {
            out.write(std::ptr::from_ref(host.table()));
            return 0;
        }
        let Some(under) = Node::under(object) else { return refused(host) };
        (host.api.H5VLintrospect_get_conn_cls)(under, host.native(), level, out)
    }
}

/// The capabilities of the connector: those of the native one.
pub(crate) unsafe extern "C" fn capabilities<const SLOT: usize>(
    _info: *const c_void,
    flags: *mut u64,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: the native connector has no settings; HDF5 gives a place for the answer.
    unsafe { (host.api.H5VLintrospect_get_cap_flags)(std::ptr::null(), host.native(), flags) }
}
