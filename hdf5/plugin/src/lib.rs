//! The HDF5 connector: a plugin that any libhdf5 of 1.14.3 to 2.2 loads.
//!
//! ```text
//! program ─► libhdf5 ─► callbacks (one module per class of objects) ─► native connector
//!              ▲              │
//!              └── host.rs ◄──┘  the same libhdf5, found by return address
//! ```
//!
//! ```text
//! vol           the callbacks, one module for each class of HDF5's table
//! operations    what they do with datasets of ours: make, copy, grow, show, clean up
//! node          our objects that HDF5 holds
//! arrow         datasets whose data is Arrow: types, selections, moving elements
//! backend       makes, opens, renames and removes data, in files, stores and views
//! container     an open file
//! data          where data is, and what of it is not committed
//! tie           what ties a file to its data
//! skeleton      reads and writes the HDF5 file through the native connector
//! host          one libhdf5; id, info, ranks: its identifiers, settings, processes
//! ```
//!
//! Each imports only those below it.
//!
//! Everything that is not ours is passed to the native connector of the same libhdf5, unchanged.
//! So a file is a real HDF5 file, and the whole interface of HDF5 goes on working.
//!
//! A process may hold several libhdf5. Callbacks cannot see which one calls, so there is one
//! set of them for each: they are generic over the number of a slot (`host::Host`).
//!
//! Loading never fails, because h5py ends the process at import when the connector named in
//! `HDF5_VOL_CONNECTOR` cannot be loaded: the error is reported when a file is opened.

mod arrow;
mod backend;
mod connector;
mod container;
mod data;
mod guard;
mod host;
mod id;
mod info;
mod mpi_processes;
mod node;
mod operations;
mod skeleton;
mod tie;
mod vol;

use std::ffi::{c_int, c_void};

use plasmon_hdf5_sys::VolClass;

/// The type of this plugin: a connector (`H5PL_TYPE_VOL`).
const PLUGIN_IS_CONNECTOR: c_int = 1;

/// HDF5 calls this first.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    PLUGIN_IS_CONNECTOR
}

/// Then this. The return address lies in the libhdf5 that asks; it is handed on as an argument
/// before any other code runs, for a later frame would not know it.
///
/// # Safety
///
/// Only for HDF5, which calls it without arguments.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn H5PLget_plugin_info() -> *const c_void {
    core::arch::naked_asm!("mov rdi, [rsp]", "jmp {class}", class = sym class_for)
}

/// Then this. The return address lies in the libhdf5 that asks; it is handed on as an argument
/// before any other code runs, for a later frame would not know it.
///
/// # Safety
///
/// Only for HDF5, which calls it without arguments.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn H5PLget_plugin_info() -> *const c_void {
    core::arch::naked_asm!("mov x0, x30", "b {class}", class = sym class_for)
}

/// The table of callbacks for the libhdf5 that `caller` lies in; never null.
extern "C" fn class_for(caller: *const c_void) -> *const VolClass {
    guard::or(std::ptr::from_ref(vol::stub_connector::class()), || match host::claim(caller) {
        Ok((slot, host)) => vol::class::of_slot(slot, host),
        Err(reason) => vol::stub_connector::because(&reason),
    })
}
