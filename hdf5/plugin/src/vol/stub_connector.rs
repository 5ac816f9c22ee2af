//! The connector for a libhdf5 that cannot be served: it opens no file.
//!
//! A plugin that fails to load ends an h5py program at its import. This one loads, and says what is
//! wrong when a file is opened.

use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, OnceLock};

use plasmon_hdf5_sys::class::{CLASS_VERSION, VolClass};
use plasmon_hdf5_sys::{Herr, Hid, Ptr, Request, Text};

use crate::connector;

static REASON: Mutex<String> = Mutex::new(String::new());

/// The connector that opens no file; remembers the reason to give.
pub(crate) fn because(reason: &str) -> *const VolClass {
    reason.clone_into(&mut REASON.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    std::ptr::from_ref(class())
}

/// The connector that opens no file.
pub(crate) fn class() -> &'static VolClass {
    static CLASS: OnceLock<VolClass> = OnceLock::new();
    CLASS.get_or_init(|| {
        // SAFETY: an all-zero table is one without callbacks, which HDF5 allows; the pointers in
        // it are options, or strings that are set right below.
        let mut class: VolClass = unsafe { std::mem::zeroed() };
        class.version = CLASS_VERSION;
        class.value = connector::VALUE;
        class.name = connector::NAME.as_ptr();
        class.connector_version = connector::VERSION;
        class.file.create = Some(create);
        class.file.open = Some(open);
        class.file.specific = Some(specific);
        class.introspect.class = Some(introspect);
        class.introspect.capabilities = Some(capabilities);
        class.introspect.optional = Some(optional);
        class
    })
}

/// There is no way to HDF5's own stack of errors here, so the standard error has to do.
#[expect(clippy::print_stderr, reason = "the library that should report the error is not usable")]
fn say() {
    let reason = REASON.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    eprintln!("plasmon: this libhdf5 cannot use the connector: {reason}");
}

unsafe extern "C" fn create(_: Text, _: c_uint, _: Hid, _: Hid, _: Hid, _: Request) -> Ptr {
    crate::guard::or((), say);
    std::ptr::null_mut()
}

unsafe extern "C" fn open(_: Text, _: c_uint, _: Hid, _: Hid, _: Request) -> Ptr {
    crate::guard::or((), say);
    std::ptr::null_mut()
}

unsafe extern "C" fn specific(_: Ptr, _: Ptr, _: Hid, _: Request) -> Herr {
    crate::guard::or((), say);
    -1
}

unsafe extern "C" fn introspect(_: Ptr, _: i32, out: *mut *const VolClass) -> Herr {
    // SAFETY: HDF5 gives a place for the answer.
    unsafe { out.write(std::ptr::from_ref(class())) };
    0
}

unsafe extern "C" fn capabilities(_: *const c_void, out: *mut u64) -> Herr {
    // SAFETY: HDF5 gives a place for the answer.
    unsafe { out.write(0) };
    0
}

unsafe extern "C" fn optional(_: Ptr, _: i32, _: i32, out: *mut u64) -> Herr {
    // SAFETY: HDF5 gives a place for the answer.
    unsafe { out.write(0) };
    0
}
