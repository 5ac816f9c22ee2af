//! Numbers and small structures.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// An identifier of anything in the library.
pub type Hid = i64;
/// The outcome of a call: negative when it failed.
pub type Herr = c_int;
/// A boolean that may also be a failure: negative.
pub type Htri = c_int;
/// A size in a file or of a dimension.
pub type Hsize = u64;
/// A connector's object, or anything else whose inside is not ours.
pub type Ptr = *mut c_void;
/// Where the request of an asynchronous call goes; null when the call is not one.
pub type Request = *mut *mut c_void;
/// A text that ends with a zero byte.
pub type Text = *const c_char;

/// No identifier.
pub const INVALID: Hid = -1;
/// The default property list, and the whole of a dataspace.
pub const DEFAULT: Hid = 0;
/// All elements of a dataspace.
pub const SPACE_ALL: Hid = 0;
/// The memory is one block of as many elements as are selected in the file.
pub const SPACE_BLOCK: Hid = 1;
/// The selection is in the transfer property list.
pub const SPACE_PLIST: Hid = 2;
/// A dimension or a file without an end.
pub const UNLIMITED: Hsize = Hsize::MAX;

/// `H5I_FILE`.
pub const KIND_FILE: c_int = 1;
/// `H5I_GROUP`.
pub const KIND_GROUP: c_int = 2;
/// `H5I_DATATYPE`.
pub const KIND_TYPE: c_int = 3;
/// `H5I_DATASET`.
pub const KIND_DATASET: c_int = 5;
/// `H5I_ATTR`.
pub const KIND_ATTRIBUTE: c_int = 7;

/// Flags of opening a file: truncate one that is there.
pub const ACCESS_TRUNCATE: c_uint = 2;
/// Flags of opening a file: for writing, too.
pub const ACCESS_WRITE: c_uint = 1;

/// The most dimensions that a dataspace has.
pub const RANK_MAX: usize = 32;

/// How an object is named in a call.
pub const BY_SELF: c_int = 0;
/// By the name of a link.
pub const BY_NAME: c_int = 1;
/// By the place of a link in an index.
pub const BY_INDEX: c_int = 2;

/// By the name of a link.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByName {
    /// The name.
    pub name: Text,
    /// A link access property list; may be one for datasets.
    pub lapl: Hid,
}

/// By the place of a link in an index of a group.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByIndex {
    /// The group, seen from the object of the call.
    pub name: Text,
    /// Which index: 0 by names, 1 by creation.
    pub index: c_int,
    /// In which order: 0 upwards.
    pub order: c_int,
    /// The place.
    pub place: Hsize,
    /// A link access property list.
    pub lapl: Hid,
}

/// By a token.
pub const BY_TOKEN: c_int = 3;

/// The part of [`Location`] that depends on its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union LocationData {
    /// A pointer to a token.
    pub token: Ptr,
    /// For [`BY_NAME`].
    pub by_name: ByName,
    /// For [`BY_INDEX`].
    pub by_index: ByIndex,
}

/// Which object a call is about, seen from the one that it names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// What the named object is.
    pub kind: c_int,
    /// How the wanted object is named: [`BY_SELF`], [`BY_NAME`], [`BY_INDEX`] or by a token.
    pub by: c_int,
    /// Its name.
    pub data: LocationData,
}

impl Location {
    /// The object of the call itself.
    #[must_use]
    pub fn itself(kind: c_int) -> Self {
        Self { kind, by: BY_SELF, data: LocationData { token: std::ptr::null_mut() } }
    }

    /// The object with a token, in the file of an object; the token must outlive the location.
    #[must_use]
    pub fn with_token(kind: c_int, token: &[u8; 16]) -> Self {
        let token = std::ptr::from_ref(token).cast_mut().cast();
        Self { kind, by: BY_TOKEN, data: LocationData { token } }
    }

    /// What `name` links to; the text must outlive the location.
    #[must_use]
    pub fn named(kind: c_int, name: Text) -> Self {
        Self { kind, by: BY_NAME, data: LocationData { by_name: ByName { name, lapl: DEFAULT } } }
    }

    /// The link at a place of a group, by names upwards; the text must outlive the location.
    #[must_use]
    pub fn placed(kind: c_int, group: Text, place: Hsize) -> Self {
        let by_index = ByIndex { name: group, index: 0, order: 0, place, lapl: DEFAULT };
        Self { kind, by: BY_INDEX, data: LocationData { by_index } }
    }
}
