//! Parts of objects on other nodes of the pool, where objects are, and adopted namespaces.

use std::ffi::{CString, c_char};
use std::ops::Range;
use std::ptr;

use plasmon_client::{ObjectPlace, Piece, Result};

use crate::arguments::{array, bad_request, borrow, clear_out, give, take_back, text, timeout};
use crate::boundary::{done, value};
use crate::connection::plasmon_store;
use crate::id::plasmon_id;
use crate::writer::plasmon_part;

/// See the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct plasmon_range {
    offset: u64,
    bytes: u64,
}

/// Pieces of an object, as C sees them: opaque.
#[derive(Debug)]
pub struct plasmon_pieces {
    /// Where the bytes of the pieces are.
    parts: Vec<plasmon_part>,
    #[expect(dead_code, reason = "they keep the bytes")]
    pieces: Vec<Piece>,
}

/// Ranges; null is allowed for an empty array.
///
/// # Safety
///
/// As [`array`].
pub(crate) unsafe fn ranges_of(
    ranges: *const plasmon_range,
    count: usize,
) -> Result<Vec<Range<u64>>> {
    // SAFETY: the caller's promise, passed on.
    let given = unsafe { array(ranges, count, "ranges") }?;
    let range = |range: &plasmon_range| {
        let end = range.offset.checked_add(range.bytes);
        end.map(|end| range.offset..end)
            .ok_or_else(|| bad_request("a range ends beyond the largest number"))
    };
    given.iter().map(range).collect()
}

impl plasmon_pieces {
    pub(crate) fn new(pieces: Vec<Piece>) -> Self {
        let parts = pieces.iter().map(|piece| plasmon_part::of(piece)).collect();
        Self { parts, pieces }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_read(
    store: *const plasmon_store,
    id: *const plasmon_id,
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
        // SAFETY: the caller gives an id, or null.
        let id = unsafe { borrow(id, "id") }?.id();
        // SAFETY: the caller gives that many ranges, or null when there are none.
        let ranges = unsafe { ranges_of(ranges, count) }?;
        let read = store.0.pool_read(&id, &ranges, timeout(timeout_ms))?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { give(pieces, "pieces", plasmon_pieces::new(read)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pieces_parts(
    pieces: *const plasmon_pieces,
) -> *const plasmon_part {
    value(ptr::null(), || {
        // SAFETY: the caller gives pieces, or null.
        let parts = unsafe { pieces.as_ref() }.map(|pieces| &pieces.parts);
        parts.filter(|parts| !parts.is_empty()).map_or(ptr::null(), |parts| parts.as_ptr())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pieces_free(pieces: *mut plasmon_pieces) {
    // SAFETY: the caller gives back what a read gave, once, or null.
    value((), || drop(unsafe { take_back(pieces) }));
}

/// See the header.
#[derive(Debug)]
#[repr(C)]
pub struct plasmon_place {
    standing: i32,
    has_record: i32,
    data_bytes: u64,
    metadata_bytes: u64,
    copies: u8,
    copies_min: u8,
    primary: *const c_char,
    origin: *const c_char,
    holders: *const *const c_char,
    holders_count: usize,
    caches: *const *const c_char,
    caches_count: usize,
}

/// A place, and the strings that it points to.
#[derive(Debug)]
#[repr(C)]
struct OwnedPlace {
    /// The first field, so that a pointer to it is one to all.
    place: plasmon_place,
    names: Vec<CString>,
    lists: [Vec<*const c_char>; 2],
}

/// A name for C, in which a zero byte would end it.
fn name(text: String) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

impl OwnedPlace {
    fn new(found: ObjectPlace) -> Self {
        let mut names = Vec::new();
        // The bytes of a string stay where they are when the string moves.
        let mut keep = |text: String| {
            names.push(name(text));
            names.last().map_or(ptr::null(), |name| name.as_ptr())
        };
        let mut place = plasmon_place {
            standing: found.standing as i32,
            has_record: i32::from(found.found.is_some()),
            data_bytes: 0,
            metadata_bytes: 0,
            copies: 0,
            copies_min: 0,
            primary: found.primary.map_or(ptr::null(), &mut keep),
            origin: ptr::null(),
            holders: ptr::null(),
            holders_count: 0,
            caches: ptr::null(),
            caches_count: 0,
        };
        let mut lists = [Vec::new(), Vec::new()];
        if let Some(record) = found.found {
            (place.data_bytes, place.metadata_bytes) =
                (record.data_bytes, record.metadata_bytes.into());
            (place.copies, place.copies_min) = (record.copies, record.copies_min);
            place.origin = keep(record.origin);
            lists = [record.holders, record.caches]
                .map(|nodes| nodes.into_iter().map(&mut keep).collect::<Vec<_>>());
            (place.holders, place.holders_count) = (lists[0].as_ptr(), lists[0].len());
            (place.caches, place.caches_count) = (lists[1].as_ptr(), lists[1].len());
        }
        Self { place, names, lists }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_pool_where(
    store: *const plasmon_store,
    id: *const plasmon_id,
    place: *mut *mut plasmon_place,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives room for a pointer, or null.
        unsafe { clear_out(place, "place") }?;
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives an id, or null.
        let found = store.0.pool_place(&unsafe { borrow(id, "id") }?.id())?;
        // SAFETY: the caller gives room for a pointer. The place is the first field.
        unsafe { give(place.cast::<*mut OwnedPlace>(), "place", OwnedPlace::new(found)) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_place_free(place: *mut plasmon_place) {
    // SAFETY: the caller gives back what where gave, once, or null.
    value((), || drop(unsafe { take_back(place.cast::<OwnedPlace>()) }));
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_adopt(
    store: *const plasmon_store,
    name_space: *const c_char,
    bytes_max: u64,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives a string with a terminating zero, or null.
        store.0.adopt(unsafe { text(name_space, "name_space") }?, bytes_max)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_end_adoption(
    store: *const plasmon_store,
    name_space: *const c_char,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives an open store, or null.
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: the caller gives a string with a terminating zero, or null.
        store.0.end_adoption(unsafe { text(name_space, "name_space") }?)
    })
}
