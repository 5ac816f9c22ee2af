//! Object ids.

use std::ffi::c_char;

use plasmon_client::{Name, ObjectId, Result};

use crate::arguments::{array, array_mut, bad_request, borrow, optional_text, text, write_out};
use crate::boundary::done;

/// An object's id, as C sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct plasmon_id {
    bytes: [u8; 20],
}

impl plasmon_id {
    pub(crate) fn id(&self) -> ObjectId {
        ObjectId::new(self.bytes)
    }
}

impl From<ObjectId> for plasmon_id {
    fn from(id: ObjectId) -> Self {
        Self { bytes: *id.as_bytes() }
    }
}

/// Ids; null is allowed for an empty array.
///
/// # Safety
///
/// As [`array`].
pub(crate) unsafe fn ids(pointer: *const plasmon_id, count: usize) -> Result<Vec<ObjectId>> {
    // SAFETY: the caller's promise, passed on.
    let ids = unsafe { array(pointer, count, "ids") }?;
    Ok(ids.iter().map(|id| id.id()).collect())
}

/// A name from its two strings.
pub(crate) fn name_of(name_space: Option<&str>, name: &str) -> Result<Name> {
    Name::new(name_space.unwrap_or_default(), name).map_err(|bad| bad_request(bad.to_string()))
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_id_of_name(
    name_space: *const c_char,
    name: *const c_char,
    id: *mut plasmon_id,
) -> i32 {
    done(|| {
        // SAFETY: the caller gives strings with a terminating zero, or null.
        let name_space = unsafe { optional_text(name_space, "name_space") }?;
        // SAFETY: the same.
        let name = name_of(name_space, unsafe { text(name, "name") }?)?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", name.id().into()) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_id_to_text(id: *const plasmon_id, text: *mut c_char) -> i32 {
    done(|| {
        // SAFETY: the caller gives an id, or null.
        let digits = unsafe { borrow(id, "id") }?.id().to_string();
        // SAFETY: the caller gives room for 41 bytes, or null.
        let room = unsafe { array_mut(text.cast::<u8>(), digits.len() + 1, "text") }?;
        for (to, byte) in room.iter_mut().zip(digits.bytes().chain([0])) {
            to.write(byte);
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plasmon_id_from_text(digits: *const c_char, id: *mut plasmon_id) -> i32 {
    done(|| {
        // SAFETY: the caller gives a text with a terminating zero, or null.
        let digits = unsafe { text(digits, "text") }?;
        let read: ObjectId = digits
            .parse()
            .map_err(|bad: plasmon_proto::id::NotAnId| bad_request(bad.to_string()))?;
        // SAFETY: the caller gives room for an id, or null.
        unsafe { write_out(id, "id", read.into()) }
    })
}
