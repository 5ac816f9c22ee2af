//! The HDF5 connector: a plugin that any libhdf5 of 1.14.3 to 2.2 loads.
//!
//! ```text
//! program ─► libhdf5 ─► callbacks (one module per class of objects) ─► native connector
//!              ▲              │
//!              └── host.rs ◄──┘  the same libhdf5, found by return address
//! ```
//!
//! Everything that is not ours is passed to the native connector of the same libhdf5, unchanged.
//! So a file is a real HDF5 file, and the whole interface of HDF5 goes on working.
//!
//! A process may hold several libhdf5. Callbacks are not told which one calls, so there is one
//! set of them for each: they are generic over the number of a slot (`host::Host`).
//!
//! Loading never fails, because h5py ends the process at import when the connector named in
//! `HDF5_VOL_CONNECTOR` cannot be loaded: what is wrong is said when a file is opened.

mod adopting;
mod array;
mod attribute;
mod attribute_mirror;
mod attributes;
mod backend;
mod blob;
mod chunks;
mod class;
mod comment;
mod connector;
mod container;
mod copying;
mod creating;
mod creation_list;
mod data;
mod dataset;
mod datatype;
mod elements;
mod explaining;
mod file;
mod file_object;
mod forward;
mod group;
mod growing;
mod guard;
mod host;
mod id;
mod info;
mod introspect;
mod kinds;
mod link;
mod mappings;
mod members;
mod node;
mod object;
mod pointing;
mod ranks;
mod refusal;
mod request;
mod selection;
mod skeleton;
mod tie;
mod token;
mod transfer;
mod unused;
mod virtuals;
mod walking;
mod whole;
mod wrap;

use std::ffi::{c_int, c_void};

use plasmon_hdf5_sys::VolClass;

/// What kind of plugin this is: a connector (`H5PL_TYPE_VOL`).
const PLUGIN_IS_CONNECTOR: c_int = 1;

/// HDF5 asks this first.
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
    guard::or(std::ptr::from_ref(refusal::class()), || match host::claim(caller) {
        Ok((slot, host)) => class::of_slot(slot, host),
        Err(reason) => refusal::because(&reason),
    })
}
