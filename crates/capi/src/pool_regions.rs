//! Memory of the pool by address.

use std::ffi::{c_char, c_void};
use std::ptr;

use plasmon_client::{Address, BadAddress, RegionOptions, Result};

use crate::arguments::{
    array, array_mut, bad_request, borrow, check_out, clear_out, give, optional_text, options,
    text, timeout, write_out,
};
use crate::boundary::done;
use crate::connection::plasmon_store;
use crate::id::plasmon_id;
use crate::pool::{plasmon_pieces, plasmon_range, ranges_of};

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_address {
    id: plasmon_id,
    offset: u64,
}

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_region_options {
    struct_bytes: usize,
    node: *const c_char,
    copies: u8,
    copies_min: u8,
}

impl Default for plasmon_region_options {
    fn default() -> Self {
        Self { struct_bytes: size_of::<Self>(), node: ptr::null(), copies: 0, copies_min: 0 }
    }
}

impl From<Address> for plasmon_address {
    fn from(Address { id, offset }: Address) -> Self {
        Self { id: id.into(), offset }
    }
}

/// # Safety
///
/// The pointer is null, or an address lies there during the call.
unsafe fn address(pointer: *const plasmon_address) -> Result<Address> {
    // SAFETY: the caller's promise, passed on.
    let given = unsafe { borrow(pointer, "address") }?;
    Ok(Address { id: given.id.id(), offset: given.offset })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_address_to_text(
    given: *const plasmon_address,
    text: *mut c_char,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an address, or null.
        let words = unsafe { address(given) }?.to_string();
        // SAFETY: the caller gives room for 62 bytes, or null; these are as many at most.
        let room = unsafe { array_mut(text.cast::<u8>(), words.len() + 1, "text") }?;
        for (to, byte) in room.iter_mut().zip(words.bytes().chain([0])) {
            to.write(byte);
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_address_from_text(
    words: *const c_char,
    address: *mut plasmon_address,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a text with a terminating zero, or null.
        let words = unsafe { text(words, "text") }?;
        let read: Address =
            words.parse().map_err(|bad: BadAddress| bad_request(bad.to_string()))?;
        // SAFETY: the caller gives room for an address, or null.
        unsafe { write_out(address, "address", read.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_region_options_init(options: *mut plasmon_region_options) -> i32 {
    // SAFETY: the caller gives room for the struct, or null.
    done(|| unsafe { write_out(options, "options", plasmon_region_options::default()) })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_allocate(
    store: *const plasmon_store,
    bytes: u64,
    given: *const plasmon_region_options,
    address: *mut plasmon_address,
) -> i32 {
    done(|| {
        // Before there is a region that nothing could name.
        check_out(address, "address")?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an initialized struct, or null.
        let given = unsafe { options(given, plasmon_region_options::default(), "options") }?;
        let (copies, copies_min) = (given.copies, given.copies_min);
        // SAFETY: the string of the struct is terminated, or null.
        let node = unsafe { optional_text(given.node, "node") }?.map(str::to_owned);
        let made = store.0.pool_allocate(bytes, &RegionOptions { copies, copies_min, node })?;
        // SAFETY: the caller gives room for an address.
        unsafe { write_out(address, "address", made.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_write(
    store: *const plasmon_store,
    to: *const plasmon_address,
    data: *const c_void,
    bytes: usize,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an address, or null.
        let to = unsafe { address(to) }?;
        // SAFETY: the caller gives that many bytes, or null when there are none.
        store.0.pool_write(to, unsafe { array(data.cast::<u8>(), bytes, "data") }?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_read_at(
    store: *const plasmon_store,
    from: *const plasmon_address,
    ranges: *const plasmon_range,
    count: usize,
    timeout_ms: i64,
    pieces: *mut *mut plasmon_pieces,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(pieces, "pieces") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an address, or null.
        let from = unsafe { address(from) }?;
        // SAFETY: the caller gives that many ranges, or null when there are none.
        let ranges = unsafe { ranges_of(ranges, count) }?;
        let read = store.0.pool_read_at(from, &ranges, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(pieces, "pieces", plasmon_pieces::new(read)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_seal(
    store: *const plasmon_store,
    region: *const plasmon_address,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an address, or null.
        store.0.pool_seal(&unsafe { address(region) }?.id)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_free(
    store: *const plasmon_store,
    region: *const plasmon_address,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an address, or null.
        store.0.pool_free(&unsafe { address(region) }?.id)
    })
}
