//! Putting, creating, deleting.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::time::Duration;

use plasmon_client::{Ack, Code, CopyPlacement, Durability, Policy, PutOptions, Result, Writer};

use crate::arguments::{
    array, array_mut, bad_request, borrow, clear_out, give, optional_text, options, take_back,
    timeout, write_optional, write_out,
};
use crate::boundary::{PLASMON_OK, done, value};
use crate::connection::plasmon_store;
use crate::id::{self, name_of, plasmon_id};

/// An object under construction, as C sees it: opaque.
#[derive(Debug)]
pub struct plasmon_writer(Writer);

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_part {
    data: *const c_void,
    bytes: usize,
}

impl plasmon_part {
    /// Where these bytes are; null for none.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let data = if bytes.is_empty() { ptr::null() } else { bytes.as_ptr().cast() };
        Self { data, bytes: bytes.len() }
    }
}

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_put_options {
    struct_bytes: usize,
    id: *const plasmon_id,
    name_space: *const c_char,
    name: *const c_char,
    metadata: *const c_void,
    metadata_bytes: usize,
    policy: i32,
    tag: u8,
    ttl_ms: i64,
    members: *const plasmon_id,
    members_count: usize,
    owned: i32,
    strict: i32,
    replace: i32,
    // These four lie where the struct had padding: it is as large as before them.
    copies: u8,
    copies_min: u8,
    pool: u8,
    ack: u8,
    placement: i32,
    storage: i32,
    owns_members: i32,
}

impl Default for plasmon_put_options {
    fn default() -> Self {
        Self {
            struct_bytes: size_of::<Self>(),
            id: ptr::null(),
            name_space: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            metadata_bytes: 0,
            policy: Policy::Keep as i32,
            tag: plasmon_client::tag::RAW,
            ttl_ms: 0,
            members: ptr::null(),
            members_count: 0,
            owned: 0,
            strict: 0,
            replace: 0,
            copies: 0,
            copies_min: 0,
            pool: 0,
            ack: 0,
            placement: 0,
            storage: 0,
            owns_members: 0,
        }
    }
}

/// # Safety
///
/// As the header requires of the struct.
pub(crate) unsafe fn put_options(pointer: *const plasmon_put_options) -> Result<PutOptions> {
    if pointer.is_null() {
        return Ok(PutOptions::default());
    }
    // SAFETY: the caller's promise, passed on.
    let given = unsafe { options(pointer, plasmon_put_options::default(), "options") }?;
    // SAFETY: the pointers of the struct are null, or as the header requires.
    let id = unsafe { given.id.as_ref() }.map(plasmon_id::id);
    // SAFETY: the same.
    let name_space = unsafe { optional_text(given.name_space, "name_space") }?;
    // SAFETY: the same.
    let name = unsafe { optional_text(given.name, "name") }?;
    let name = name.map(|name| name_of(name_space, name)).transpose()?;
    // SAFETY: the same.
    let metadata =
        unsafe { array(given.metadata.cast::<u8>(), given.metadata_bytes, "metadata") }?.to_vec();
    // SAFETY: the same.
    let members = unsafe { id::ids(given.members, given.members_count) }?;
    let policy = match given.policy {
        0 => Policy::Keep,
        1 => Policy::Cache,
        other => return Err(bad_request(format!("{other} is not a policy"))),
    };
    let ttl = match u64::try_from(given.ttl_ms) {
        Ok(0) => None,
        Ok(ttl_ms) => Some(Duration::from_millis(ttl_ms)),
        Err(_) => return Err(bad_request("a time to live cannot be negative")),
    };
    let (owned, strict) = (given.owned != 0, given.strict != 0);
    let ack = match given.ack {
        0 => None,
        1 => Some(Ack::Local),
        2 => Some(Ack::Copies),
        other => return Err(bad_request(format!("{other} is not an acknowledgement"))),
    };
    let placement = match given.placement {
        0 => CopyPlacement::Local,
        1 => CopyPlacement::Spread,
        other => return Err(bad_request(format!("{other} is not a placement"))),
    };
    let storage = match given.storage {
        0 => None,
        1 => Some(Durability::Cache),
        2 => Some(Durability::Durable),
        other => return Err(bad_request(format!("{other} is not a storage"))),
    };
    Ok(PutOptions {
        id,
        name,
        metadata,
        policy,
        tag: given.tag,
        ttl,
        members,
        owns_members: given.owns_members != 0,
        pool: given.pool != 0,
        copies: given.copies,
        copies_min: given.copies_min,
        placement,
        storage,
        ack,
        owned,
        strict,
        replace: given.replace != 0,
        durable: false,
        trusted: false,
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_put_options_init(options: *mut plasmon_put_options) -> i32 {
    // SAFETY: the caller gives room for the struct, or null.
    done(|| unsafe { write_out(options, "options", plasmon_put_options::default()) })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_new_id(store: *const plasmon_store, id: *mut plasmon_id) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", store.0.new_id().into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_put(
    store: *const plasmon_store,
    data: *const c_void,
    bytes: usize,
    options: *const plasmon_put_options,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many bytes, or null when there are none.
        let data = unsafe { array(data.cast::<u8>(), bytes, "data") }?;
        // SAFETY: the caller gives an initialized struct, or null.
        let put = store.0.put(data, &unsafe { put_options(options) }?)?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_optional(id, put.into()) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_put_parts(
    store: *const plasmon_store,
    parts: *const plasmon_part,
    count: usize,
    options: *const plasmon_put_options,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many parts, or null when there are none.
        let given = unsafe { array(parts, count, "parts") }?;
        let mut parts = Vec::with_capacity(given.len());
        for part in given {
            // SAFETY: each part has that many bytes, or null when there are none.
            parts.push(unsafe { array(part.data.cast::<u8>(), part.bytes, "part") }?);
        }
        // SAFETY: the caller gives an initialized struct, or null.
        let put = store.0.put_parts(&parts, &unsafe { put_options(options) }?)?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_optional(id, put.into()) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_flush(store: *const plasmon_store) -> i32 {
    // SAFETY: the caller gives an open store, or null.
    done(|| unsafe { borrow(store, "store") }?.0.flush())
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_create(
    store: *const plasmon_store,
    data_bytes: u64,
    options: *const plasmon_put_options,
    writer: *mut *mut plasmon_writer,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(writer, "writer") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an initialized struct, or null.
        let created = store.0.create(data_bytes, &unsafe { put_options(options) }?)?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(writer, "writer", plasmon_writer(created)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_data(writer: *mut plasmon_writer) -> *mut c_void {
    value(ptr::null_mut(), || {
        // SAFETY: the caller gives a writer that no other thread uses, or null.
        unsafe { writer.as_mut() }.map_or(ptr::null_mut(), |writer| writer.0.as_mut_ptr().cast())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_data_bytes(writer: *const plasmon_writer) -> u64 {
    // SAFETY: the caller gives a writer, or null.
    value(0, || unsafe { writer.as_ref() }.map_or(0, |writer| writer.0.len() as u64))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_metadata(writer: *mut plasmon_writer) -> *mut c_void {
    value(ptr::null_mut(), || {
        // SAFETY: the caller gives a writer that no other thread uses, or null.
        unsafe { writer.as_mut() }
            .map_or(ptr::null_mut(), |writer| writer.0.metadata_mut().as_mut_ptr().cast())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_metadata_bytes(writer: *mut plasmon_writer) -> u64 {
    value(0, || {
        // SAFETY: the caller gives a writer that no other thread uses, or null.
        unsafe { writer.as_mut() }.map_or(0, |writer| writer.0.metadata_mut().len() as u64)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_id(
    writer: *const plasmon_writer,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives a writer, or null.
        let writer = unsafe { borrow(writer, "writer") }?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", writer.0.id().into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_seal(
    writer: *mut plasmon_writer,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives back what create gave, once, or null.
        let writer =
            unsafe { take_back(writer) }.ok_or_else(|| bad_request("\"writer\" is null"))?;
        let sealed = writer.0.seal()?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_optional(id, sealed.into()) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_writer_abort(writer: *mut plasmon_writer) -> i32 {
    done(|| {
        // SAFETY: the caller gives back what create gave, once, or null.
        unsafe { take_back(writer) }.map_or(Ok(()), |writer| writer.0.abort())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_delete(
    store: *const plasmon_store,
    ids: *const plasmon_id,
    count: usize,
    outcomes: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let codes = store.0.delete(&unsafe { id::ids(ids, count) }?)?;
        if outcomes.is_null() {
            return Ok(());
        }
        // SAFETY: the caller gives room for that many codes.
        let room = unsafe { array_mut(outcomes, count, "outcomes") }?;
        for (to, code) in room.iter_mut().zip(codes) {
            to.write(code.map_or(PLASMON_OK, |code: Code| i32::from(code.number())));
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_settle(
    store: *const plasmon_store,
    ids: *const plasmon_id,
    count: usize,
    timeout_ms: i64,
    outcomes: *mut i32,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        let codes = store.0.settle(&unsafe { id::ids(ids, count) }?, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for that many codes.
        let room = unsafe { array_mut(outcomes, count, "outcomes") }?;
        for (to, code) in room.iter_mut().zip(codes) {
            to.write(code.map_or(PLASMON_OK, |code: Code| i32::from(code.number())));
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_delete_soon(
    store: *const plasmon_store,
    id: *const plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        store.0.delete_soon(&unsafe { borrow(id, "id") }?.id())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_evict(
    store: *const plasmon_store,
    bytes: u64,
    evicted_bytes: *mut u64,
    evicted_objects: *mut u64,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let (bytes, objects) = unsafe { borrow(store, "store") }?.0.evict(bytes)?;
        // SAFETY: the caller gives room for a number, or null.
        unsafe { write_optional(evicted_bytes, bytes) };
        // SAFETY: the same.
        unsafe { write_optional(evicted_objects, objects) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_touch(
    store: *const plasmon_store,
    ids: *const plasmon_id,
    count: usize,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives that many ids, or null when there are none.
        store.0.touch(&unsafe { id::ids(ids, count) }?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_set_quota(store: *const plasmon_store, bytes: u64) -> i32 {
    // SAFETY: the caller gives an open store, or null.
    done(|| unsafe { borrow(store, "store") }?.0.set_quota(bytes))
}
