//! The arguments of those calls that the connector looks into.
//!
//! Each begins with the number of an operation; what follows it depends on that number. Where a
//! call has operations that are only passed on, the rest is not declared.

use std::ffi::{c_int, c_uint};

use crate::types::{Hid, Hsize, Location, Ptr, Text};

/// The numbers of a file's operations.
pub mod file {
    use std::ffi::c_int;

    /// `H5Fflush`.
    pub const FLUSH: c_int = 0;
    /// `H5Freopen`.
    pub const REOPEN: c_int = 1;
    /// `H5Fis_accessible`.
    pub const IS_ACCESSIBLE: c_int = 2;
    /// `H5Fdelete`.
    pub const DELETE: c_int = 3;
    /// Getting the name.
    pub const GET_NAME: c_int = 5;
}

/// The numbers of a dataset's operations.
pub mod dataset {
    use std::ffi::c_int;

    /// Getting the access property list.
    pub const GET_ACCESS: c_int = 0;
    /// Getting the creation property list.
    pub const GET_CREATION: c_int = 1;
    /// Getting the dataspace.
    pub const GET_SPACE: c_int = 2;
    /// Getting whether the storage is there.
    pub const GET_SPACE_STATUS: c_int = 3;
    /// Getting the size of the storage.
    pub const GET_STORAGE_SIZE: c_int = 4;
    /// Getting the type.
    pub const GET_TYPE: c_int = 5;
    /// `H5Dset_extent`.
    pub const SET_EXTENT: c_int = 0;
    /// `H5Dflush`.
    pub const FLUSH: c_int = 1;
}

/// Creating a hard link.
pub const LINK_CREATE_HARD: c_int = 0;
/// Deleting a link.
pub const LINK_DELETE: c_int = 0;
/// Mounting a file.
pub const GROUP_MOUNT: c_int = 0;
/// Getting what is known of a group.
pub const GROUP_GET_INFO: c_int = 1;
/// Getting an object's name.
pub const OBJECT_GET_NAME: c_int = 1;
/// Getting what is known of an object.
pub const OBJECT_GET_INFO: c_int = 3;

/// `H5Freopen`: where the other file goes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reopen {
    /// The number of the operation.
    pub operation: c_int,
    /// Where the object goes.
    pub file: *mut Ptr,
}

/// `H5Fis_accessible` and `H5Fdelete`: a file by its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileNamed {
    /// The number of the operation.
    pub operation: c_int,
    /// The name.
    pub name: Text,
    /// The access property list.
    pub fapl: Hid,
    /// Whether the file is accessible; not there for `H5Fdelete`.
    pub accessible: *mut bool,
}

/// `H5Fflush`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileFlush {
    /// The number of the operation.
    pub operation: c_int,
    /// What follows is a union in C, which begins at a multiple of 8.
    pub padding: u32,
    /// What the object of the call is.
    pub kind: c_int,
    /// 0: this file, 1: and what is mounted.
    pub scope: c_int,
    /// The C structure is a union and longer than this operation needs.
    pub rest: [u64; 4],
}

/// Getting the name of the file that an object is in.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileName {
    /// The number of the operation.
    pub operation: c_int,
    /// What follows is a union in C, which begins at a multiple of 8.
    pub padding: u32,
    /// What the object of the call is.
    pub kind: c_int,
    /// How many bytes the text may have.
    pub bytes: usize,
    /// Where the text goes.
    pub text: *mut std::ffi::c_char,
    /// Where its length goes.
    pub length: *mut usize,
}

/// Mounting a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mount {
    /// The number of the operation.
    pub operation: c_int,
    /// Where.
    pub name: Text,
    /// The file.
    pub child: Ptr,
    /// The mount property list.
    pub fmpl: Hid,
}

/// Creating a hard link.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HardLink {
    /// The number of the operation.
    pub operation: c_int,
    /// The object that is linked to; may be null.
    pub current: Ptr,
    /// And how it is named.
    pub location: Location,
}

impl HardLink {
    /// One that links to nothing.
    pub const EMPTY: Self = Self {
        operation: LINK_CREATE_HARD,
        current: std::ptr::null_mut(),
        location: Location {
            kind: 0,
            by: crate::types::BY_SELF,
            data: crate::types::LocationData { token: std::ptr::null_mut() },
        },
    };
}

/// An operation whose one argument is a number or a pointer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Single {
    /// The number of the operation.
    pub operation: c_int,
    /// An identifier that comes out, or a pointer to where something goes.
    pub value: u64,
    /// The C structures are unions and may be longer than this operation needs.
    pub rest: [u64; 6],
}

impl Single {
    /// An operation with this argument.
    #[must_use]
    pub fn new(operation: c_int, value: u64) -> Self {
        Self { operation, value, rest: [0; 6] }
    }
}

/// An operation that only some connectors have.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Optional {
    /// The number of the operation.
    pub operation: c_int,
    /// The arguments of the operation.
    pub arguments: Ptr,
}

/// Getting the comment of an object: the native connector's own operation.
pub const OBJECT_GET_COMMENT: c_int = 0;
/// Setting it.
pub const OBJECT_SET_COMMENT: c_int = 1;

/// Getting the comment of an object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Comment {
    /// How many bytes the text may have, with its end.
    pub bytes: usize,
    /// Where the text goes.
    pub text: *mut std::ffi::c_char,
    /// Where its length goes.
    pub length: *mut usize,
}

impl Comment {
    /// Answers with a text, cut off at the room for it, and its length.
    ///
    /// # Safety
    ///
    /// There is as much room as is said, or none; the length goes where something may be written.
    pub unsafe fn fill(&self, answer: &[u8]) {
        // SAFETY: promised by the caller.
        unsafe {
            if !self.text.is_null() && self.bytes > 0 {
                let count = answer.len().min(self.bytes - 1);
                std::ptr::copy_nonoverlapping(answer.as_ptr(), self.text.cast(), count);
                self.text.add(count).write(0);
            }
            if !self.length.is_null() {
                self.length.write(answer.len());
            }
        }
    }
}

/// Setting the comment of an object. The C structure is a union, and this its shorter part.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NewComment {
    /// The text; null takes the comment away.
    pub text: Text,
    /// The rest of the union.
    pub rest: [u64; 2],
}

/// Getting what is known of a group.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupInfoOf {
    /// The number of the operation.
    pub operation: c_int,
    /// Which group.
    pub location: Location,
    /// Where it goes.
    pub info: *mut GroupInfo,
}

/// Information about a group.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GroupInfo {
    /// How links are stored.
    pub storage: c_int,
    /// How many links there are.
    pub links: Hsize,
    /// The highest creation order.
    pub creation_max: i64,
    /// Whether a file is mounted here.
    pub mounted: bool,
}

/// Getting the name of an object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectName {
    /// The number of the operation.
    pub operation: c_int,
    /// How many bytes the text may have.
    pub bytes: usize,
    /// Where the text goes.
    pub text: *mut std::ffi::c_char,
    /// Where its length goes.
    pub length: *mut usize,
}

/// Getting what is known of an object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectInfoOf {
    /// The number of the operation.
    pub operation: c_int,
    /// What follows is a union in C, which begins at a multiple of 8.
    pub padding: u32,
    /// Which fields are wanted.
    pub fields: c_uint,
    /// Where they go.
    pub info: *mut ObjectInfo,
}

/// The basic fields of [`ObjectInfo`].
pub const INFO_BASIC: c_uint = 1;
/// How many attributes there are.
pub const INFO_ATTRIBUTES: c_uint = 4;

/// Information about an object.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ObjectInfo {
    /// The file's number.
    pub file: std::ffi::c_ulong,
    /// Names the object within its file.
    pub token: [u8; 16],
    /// A group (0), a dataset (1) or a type (2).
    pub kind: c_int,
    /// How many hard links lead to it.
    pub links: c_uint,
    /// When it was used and changed.
    pub times: [i64; 4],
    /// How many attributes it has.
    pub attributes: Hsize,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn what_follows_the_operation_begins_where_the_union_does() {
        assert_eq!(offset_of!(FileFlush, kind), 8);
        assert_eq!(offset_of!(FileName, kind), 8);
        assert_eq!(offset_of!(ObjectInfoOf, fields), 8);
        assert_eq!(offset_of!(FileNamed, name), 8);
        assert_eq!(offset_of!(GroupInfoOf, location), 8);
        assert_eq!(offset_of!(ObjectName, bytes), 8);
        assert_eq!(offset_of!(Mount, name), 8);
        assert_eq!(offset_of!(HardLink, current), 8);
        assert_eq!(offset_of!(Single, value), 8);
    }
}
