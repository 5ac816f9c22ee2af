//! The comment of a group, where a skeleton says which data it belongs to.
//!
//! A comment is a message in the object's header that no attribute shows and that lies in the file,
//! so it goes wherever the file's bytes go.

use std::ffi::{CStr, CString, c_int};

use plasmon_hdf5_model::{Identity, Mark};
use plasmon_hdf5_sys::arguments::{
    Comment, NewComment, OBJECT_GET_COMMENT, OBJECT_SET_COMMENT, Optional,
};
use plasmon_hdf5_sys::{KIND_FILE, Location, Ptr};

use crate::host::{Host, Lists};

/// How long comments are, mostly.
const BYTES: usize = 512;

/// The comment of an object of the native connector; empty when it has none.
pub(crate) fn get(host: &Host, under: Ptr, kind: c_int) -> Option<String> {
    let mut text = vec![0_u8; BYTES];
    let mut length = ask(host, under, kind, &mut text)?;
    if length >= text.len() {
        text = vec![0; length + 1];
        length = ask(host, under, kind, &mut text)?;
    }
    text.truncate(length);
    String::from_utf8(text).ok()
}

/// Which data an open file belongs to.
pub(crate) fn data_of(host: &Host, under: Ptr) -> Option<Mark> {
    let comment = get(host, under, KIND_FILE)?;
    Some(Identity::of_comment(&comment).1?.data)
}

fn ask(host: &Host, under: Ptr, kind: c_int, text: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    let bytes = text.len();
    let text = text.as_mut_ptr().cast();
    let mut comment = Comment { bytes, text, length: &raw mut length };
    call(host, under, kind, OBJECT_GET_COMMENT, (&raw mut comment).cast()).then_some(length)
}

/// Gives an object of the native connector a comment.
pub(crate) fn set(host: &Host, under: Ptr, kind: c_int, text: &str) -> bool {
    let Ok(text) = CString::new(text) else { return false };
    let text: &CStr = &text;
    let mut comment = NewComment { text: text.as_ptr(), rest: [0; 2] };
    call(host, under, kind, OBJECT_SET_COMMENT, (&raw mut comment).cast())
}

fn call(host: &Host, under: Ptr, kind: c_int, operation: c_int, arguments: Ptr) -> bool {
    let place = Location::itself(kind);
    let mut arguments = Optional { operation, arguments };
    let (dxpl, none) = (host.default_list(Lists::Transfer), std::ptr::null_mut());
    // SAFETY: the object is the native connector's; the arguments are those of the operation, and
    // live until the call is over.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLobject_optional)(
            under,
            &raw const place,
            host.native(),
            arguments,
            dxpl,
            none,
        )
    };
    done >= 0
}
