//! Descriptions of objects, one by one and in listings.

use std::ffi::c_char;

use plasmon_client::{Code, Error, Listing, ObjectInfo};

use crate::arguments::{
    borrow, borrow_mut, check_out, clear_out, filter, give, take_back, write_out,
};
use crate::boundary::{PLASMON_END, PLASMON_OK, done, run, value};
use crate::connection::plasmon_store;
use crate::id::plasmon_id;

const NAME_TEXT_BYTES: usize = plasmon_proto::limits::NAME_BYTES_MAX + 1;
const NAMESPACE_TEXT_BYTES: usize = plasmon_proto::limits::NAMESPACE_BYTES_MAX + 1;

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_info {
    id: plasmon_id,
    state: i32,
    policy: i32,
    level: i32,
    owned: i32,
    tag: u8,
    // It lies where the struct had padding.
    durable: u8,
    data_bytes: u64,
    metadata_bytes: u64,
    created_ms: u64,
    construct_ms: u64,
    expires_ms: u64,
    creator_pid: u32,
    pins: u32,
    holders: u32,
    name_space: [u8; NAMESPACE_TEXT_BYTES],
    name: [u8; NAME_TEXT_BYTES],
}

/// A listing, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_listing(Listing);

/// A string in a field of the struct, with at least one zero after it.
fn field<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut field = [0; BYTES];
    for (to, byte) in field[..BYTES - 1].iter_mut().zip(text.bytes()) {
        *to = byte;
    }
    field
}

impl From<ObjectInfo> for plasmon_info {
    fn from(info: ObjectInfo) -> Self {
        let (name_space, name) =
            info.name.as_ref().map_or(("", ""), |name| (&*name.namespace, &*name.text));
        Self {
            id: info.id.into(),
            state: info.state as i32,
            policy: info.traits.policy as i32,
            level: info.level as i32,
            owned: i32::from(info.traits.owned),
            tag: info.traits.tag,
            durable: u8::from(info.durable),
            data_bytes: info.sizes.data,
            metadata_bytes: info.sizes.metadata,
            created_ms: info.created_ms,
            construct_ms: info.construct_ms,
            expires_ms: info.expires_ms.unwrap_or(0),
            creator_pid: info.creator_pid,
            pins: info.pins,
            holders: info.holders,
            name_space: field(name_space),
            name: field(name),
        }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_stat(
    store: *const plasmon_store,
    id: *const plasmon_id,
    info: *mut plasmon_info,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        let id = unsafe { borrow(id, "id") }?.id();
        let absent = || Error::new(Code::Absent, "describing object").with_id(id);
        let found = store.0.stat(&id)?.ok_or_else(absent)?;
        // SAFETY: the caller gives room for the struct, or null.
        unsafe { write_out(info, "info", found.into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_list(
    store: *const plasmon_store,
    name_space: *const c_char,
    prefix: *const c_char,
    listing: *mut *mut plasmon_listing,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(listing, "listing") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives strings with a terminating zero, or null.
        let filter = unsafe { filter(name_space, prefix) }?;
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { give(listing, "listing", plasmon_listing(store.0.listing(&filter))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_listing_next(
    listing: *mut plasmon_listing,
    info: *mut plasmon_info,
) -> i32 {
    run(|| {
        check_out(info, "info")?;
        // SAFETY: the caller gives a listing that no other thread uses, or null.
        let Some(next) = unsafe { borrow_mut(listing, "listing") }?.0.next() else {
            return Ok(PLASMON_END);
        };
        // SAFETY: the caller gives room for the struct.
        unsafe { write_out(info, "info", next?.into()) }?;
        Ok(PLASMON_OK)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_listing_free(listing: *mut plasmon_listing) {
    // SAFETY: the caller gives back what list gave, once, or null.
    value((), || drop(unsafe { take_back(listing) }));
}
