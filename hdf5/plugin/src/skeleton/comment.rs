//! The comment of a group, where a skeleton says which data it belongs to.
//!
//! A comment is a message in the object's header that no attribute shows and that lies in the file,
//! so it goes wherever the file's bytes go.

use std::ffi::{CStr, CString, c_int};

use plasmon_hdf5_model::{Identity, Mark};
use plasmon_hdf5_sys::arguments::{
    Comment, NewComment, OBJECT_GET_COMMENT, OBJECT_SET_COMMENT, Optional,
};
use plasmon_hdf5_sys::{Herr, KIND_FILE, Location, Ptr};

use crate::host::{Host, Lists};

/// How long comments are, mostly.
const BYTES: usize = 512;

/// The comment of an object of the native connector; empty when it has none.
pub(crate) fn get(host: &Host, under: Ptr, kind: c_int) -> Option<String> {
    String::from_utf8(find(host, under, &Location::itself(kind))?).ok()
}

/// Gives an object of the native connector a comment.
pub(crate) fn set(host: &Host, under: Ptr, kind: c_int, text: &str) -> bool {
    let Ok(text) = CString::new(text) else { return false };
    put(host, under, &Location::itself(kind), &text) >= 0
}

/// Which data an open file belongs to.
pub(crate) fn data_of(host: &Host, under: Ptr) -> Option<Mark> {
    let comment = get(host, under, KIND_FILE)?;
    Some(Identity::of_comment(&comment).1?.data)
}

/// Carries out an operation on the comment of an object that says which data is its; `None` for all
/// others, which are the native connector's.
///
/// # Safety
///
/// HDF5 handed all of this over.
pub(crate) unsafe fn answer(
    host: &Host,
    under: Ptr,
    place: &Location,
    arguments: Ptr,
) -> Option<Herr> {
    // SAFETY: promised by the caller.
    let arguments = unsafe { &*arguments.cast::<Optional>() };
    if !matches!(arguments.operation, OBJECT_GET_COMMENT | OBJECT_SET_COMMENT) {
        return None;
    }
    let known = String::from_utf8(host.keeping_errors(|| find(host, under, place))?).ok()?;
    let (others, identity) = Identity::of_comment(&known);
    let identity = identity?;
    if arguments.operation == OBJECT_GET_COMMENT {
        // SAFETY: promised by the caller: the arguments are those of the operation.
        unsafe { (*arguments.arguments.cast::<Comment>()).fill(others.as_bytes()) };
        return Some(0);
    }
    // SAFETY: as above; the text ends, or there is none.
    let text = unsafe {
        let text = (*arguments.arguments.cast::<NewComment>()).text;
        if text.is_null() { c"" } else { CStr::from_ptr(text) }
    };
    let text = identity.to_comment(&text.to_string_lossy());
    Some(put(host, under, place, &CString::new(text).ok()?))
}

fn find(host: &Host, under: Ptr, place: &Location) -> Option<Vec<u8>> {
    let mut text = vec![0_u8; BYTES];
    let mut length = ask(host, under, place, &mut text)?;
    if length >= text.len() {
        text = vec![0; length + 1];
        length = ask(host, under, place, &mut text)?;
    }
    text.truncate(length);
    Some(text)
}

fn ask(host: &Host, under: Ptr, place: &Location, text: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    let bytes = text.len();
    let text = text.as_mut_ptr().cast();
    let mut comment = Comment { bytes, text, length: &raw mut length };
    let done = call(host, under, place, OBJECT_GET_COMMENT, (&raw mut comment).cast());
    (done >= 0).then_some(length)
}

fn put(host: &Host, under: Ptr, place: &Location, text: &CStr) -> Herr {
    let mut comment = NewComment { text: text.as_ptr(), rest: [0; 2] };
    call(host, under, place, OBJECT_SET_COMMENT, (&raw mut comment).cast())
}

fn call(host: &Host, under: Ptr, place: &Location, operation: c_int, arguments: Ptr) -> Herr {
    let mut arguments = Optional { operation, arguments };
    let (dxpl, none) = (host.default_list(Lists::Transfer), std::ptr::null_mut());
    // SAFETY: the object is the native connector's; the arguments are those of the operation, and
    // live until the call is over.
    unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLobject_optional)(under, place, host.native(), arguments, dxpl, none)
    }
}
