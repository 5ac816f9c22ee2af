//! Getting objects and reading them in place.

use std::ffi::c_void;
use std::ptr;

use plasmon_client::Buffer;

use crate::arguments::{array_mut, borrow, clear_out, give, take_back, timeout, write_out};
use crate::boundary::{PLASMON_OK, done, failed, value};
use crate::connection::plasmon_store;
use crate::id::{ids, plasmon_id};

/// A pinned object, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_buffer(pub(crate) Buffer);

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_get(
    store: *const plasmon_store,
    id: *const plasmon_id,
    timeout_ms: i64,
    buffer: *mut *mut plasmon_buffer,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(buffer, "buffer") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        let id = unsafe { borrow(id, "id") }?.id();
        let got = store.0.get(&id, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(buffer, "buffer", plasmon_buffer(got)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_get_many(
    store: *const plasmon_store,
    ids_given: *const plasmon_id,
    count: usize,
    timeout_ms: i64,
    buffers: *mut *mut plasmon_buffer,
    codes: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let ids = unsafe { ids(ids_given, count) }?;
        // SAFETY: the caller gives room for that many pointers.
        let buffers = unsafe { array_mut(buffers, count, "buffers") }?;
        // SAFETY: the caller gives room for that many codes.
        let codes = unsafe { array_mut(codes, count, "codes") }?;
        let all = store.0.get_many(&ids, timeout(timeout_ms))?;
        for ((got, buffer), code) in all.into_iter().zip(buffers).zip(codes) {
            match got {
                Ok(got) => {
                    buffer.write(Box::into_raw(Box::new(plasmon_buffer(got))));
                    code.write(PLASMON_OK);
                }
                Err(error) => {
                    buffer.write(ptr::null_mut());
                    code.write(failed(error));
                }
            }
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_data(buffer: *const plasmon_buffer) -> *const c_void {
    value(ptr::null(), || {
        // SAFETY: the caller gives a buffer, or null.
        unsafe { buffer.as_ref() }.map_or(ptr::null(), |buffer| buffer.0.data().as_ptr().cast())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_data_bytes(buffer: *const plasmon_buffer) -> u64 {
    // SAFETY: the caller gives a buffer, or null.
    value(0, || unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.data().len() as u64))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_metadata(buffer: *const plasmon_buffer) -> *const c_void {
    value(ptr::null(), || {
        // SAFETY: the caller gives a buffer, or null.
        unsafe { buffer.as_ref() }.map_or(ptr::null(), |buffer| buffer.0.metadata().as_ptr().cast())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_metadata_bytes(buffer: *const plasmon_buffer) -> u64 {
    // SAFETY: the caller gives a buffer, or null.
    value(0, || unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.metadata().len() as u64))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_id(
    buffer: *const plasmon_buffer,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a buffer, or null.
        let buffer = unsafe { borrow(buffer, "buffer") }?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", buffer.0.id().into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_tag(buffer: *const plasmon_buffer) -> u8 {
    // SAFETY: the caller gives a buffer, or null.
    value(0, || unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.tag()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_serial(buffer: *const plasmon_buffer) -> u64 {
    // SAFETY: the caller gives a buffer, or null.
    value(0, || unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.serial()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_clone(
    buffer: *const plasmon_buffer,
    clone: *mut *mut plasmon_buffer,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(clone, "clone") }?;
        // SAFETY: the caller gives a buffer, or null.
        let buffer = unsafe { borrow(buffer, "buffer") }?;
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { give(clone, "clone", plasmon_buffer(buffer.0.clone())) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_buffer_release(buffer: *mut plasmon_buffer) {
    // SAFETY: the caller gives back what a get or clone gave, once, or null.
    value((), || drop(unsafe { take_back(buffer) }));
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_digest(
    store: *const plasmon_store,
    id: *const plasmon_id,
    digest: *mut u8,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        let computed = store.0.digest(&unsafe { borrow(id, "id") }?.id())?;
        // SAFETY: the caller gives room for 32 bytes, or null.
        unsafe { write_out(digest.cast::<[u8; 32]>(), "digest", computed) }
    })
}
