//! The table of functions that makes a connector (`H5VL_class_t`).

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::types::{Herr, Hid, Location, Ptr, Request, Text};

/// The version of this structure, the same in HDF5 1.14 to 2.2.
pub const CLASS_VERSION: c_uint = 3;

/// Declares structures of callbacks, in the order of the C structures.
macro_rules! callbacks {
    ($($(#[$about:meta])* $name:ident {
        $($field:ident($($arg:ty),*) -> $out:ty),* $(,)?
    })*) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(
                #[doc = concat!("The callback `", stringify!($field), "`.")]
                pub $field: Option<unsafe extern "C" fn($($arg),*) -> $out>,
            )*
        }
    )*};
}

/// A connector's own settings and how they are copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InfoClass {
    /// The size of the settings.
    pub bytes: usize,
    /// Copies them.
    pub copy: Option<unsafe extern "C" fn(*const c_void) -> Ptr>,
    /// Compares two of them.
    pub compare: Option<unsafe extern "C" fn(*mut c_int, *const c_void, *const c_void) -> Herr>,
    /// Releases them.
    pub free: Option<unsafe extern "C" fn(Ptr) -> Herr>,
    /// Writes them as a text.
    pub to_text: Option<unsafe extern "C" fn(*const c_void, *mut *mut c_char) -> Herr>,
    /// Reads them from one.
    pub from_text: Option<unsafe extern "C" fn(Text, *mut Ptr) -> Herr>,
}

callbacks! {
    /// How objects of the connector below are wrapped.
    WrapClass {
        get_object(*const c_void) -> Ptr,
        get_context(*const c_void, *mut Ptr) -> Herr,
        wrap(Ptr, c_int, Ptr) -> Ptr,
        unwrap(Ptr) -> Ptr,
        free_context(Ptr) -> Herr,
    }
    /// Attributes.
    AttributeClass {
        create(Ptr, *const Location, Text, Hid, Hid, Hid, Hid, Hid, Request) -> Ptr,
        open(Ptr, *const Location, Text, Hid, Hid, Request) -> Ptr,
        read(Ptr, Hid, Ptr, Hid, Request) -> Herr,
        write(Ptr, Hid, *const c_void, Hid, Request) -> Herr,
        get(Ptr, Ptr, Hid, Request) -> Herr,
        specific(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
        optional(Ptr, Ptr, Hid, Request) -> Herr,
        close(Ptr, Hid, Request) -> Herr,
    }
    /// Datasets.
    DatasetClass {
        create(Ptr, *const Location, Text, Hid, Hid, Hid, Hid, Hid, Hid, Request) -> Ptr,
        open(Ptr, *const Location, Text, Hid, Hid, Request) -> Ptr,
        read(usize, *mut Ptr, *mut Hid, *mut Hid, *mut Hid, Hid, *mut Ptr, Request) -> Herr,
        write(usize, *mut Ptr, *mut Hid, *mut Hid, *mut Hid, Hid, *mut *const c_void, Request)
            -> Herr,
        get(Ptr, Ptr, Hid, Request) -> Herr,
        specific(Ptr, Ptr, Hid, Request) -> Herr,
        optional(Ptr, Ptr, Hid, Request) -> Herr,
        close(Ptr, Hid, Request) -> Herr,
    }
    /// Named types.
    DatatypeClass {
        commit(Ptr, *const Location, Text, Hid, Hid, Hid, Hid, Hid, Request) -> Ptr,
        open(Ptr, *const Location, Text, Hid, Hid, Request) -> Ptr,
        get(Ptr, Ptr, Hid, Request) -> Herr,
        specific(Ptr, Ptr, Hid, Request) -> Herr,
        optional(Ptr, Ptr, Hid, Request) -> Herr,
        close(Ptr, Hid, Request) -> Herr,
    }
    /// Files.
    FileClass {
        create(Text, c_uint, Hid, Hid, Hid, Request) -> Ptr,
        open(Text, c_uint, Hid, Hid, Request) -> Ptr,
        get(Ptr, Ptr, Hid, Request) -> Herr,
        specific(Ptr, Ptr, Hid, Request) -> Herr,
        optional(Ptr, Ptr, Hid, Request) -> Herr,
        close(Ptr, Hid, Request) -> Herr,
    }
    /// Groups.
    GroupClass {
        create(Ptr, *const Location, Text, Hid, Hid, Hid, Hid, Request) -> Ptr,
        open(Ptr, *const Location, Text, Hid, Hid, Request) -> Ptr,
        get(Ptr, Ptr, Hid, Request) -> Herr,
        specific(Ptr, Ptr, Hid, Request) -> Herr,
        optional(Ptr, Ptr, Hid, Request) -> Herr,
        close(Ptr, Hid, Request) -> Herr,
    }
    /// Links.
    LinkClass {
        create(Ptr, Ptr, *const Location, Hid, Hid, Hid, Request) -> Herr,
        copy(Ptr, *const Location, Ptr, *const Location, Hid, Hid, Hid, Request) -> Herr,
        relocate(Ptr, *const Location, Ptr, *const Location, Hid, Hid, Hid, Request) -> Herr,
        get(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
        specific(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
        optional(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
    }
    /// Objects of any kind.
    ObjectClass {
        open(Ptr, *const Location, *mut c_int, Hid, Request) -> Ptr,
        copy(Ptr, *const Location, Text, Ptr, *const Location, Text, Hid, Hid, Hid, Request)
            -> Herr,
        get(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
        specific(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
        optional(Ptr, *const Location, Ptr, Hid, Request) -> Herr,
    }
    /// A connector's information about itself.
    IntrospectClass {
        class(Ptr, c_int, *mut *const VolClass) -> Herr,
        capabilities(*const c_void, *mut u64) -> Herr,
        optional(Ptr, c_int, c_int, *mut u64) -> Herr,
    }
    /// Requests of asynchronous calls.
    RequestClass {
        wait(Ptr, u64, *mut c_int) -> Herr,
        notify(Ptr, Ptr, Ptr) -> Herr,
        cancel(Ptr, *mut c_int) -> Herr,
        specific(Ptr, Ptr) -> Herr,
        optional(Ptr, Ptr) -> Herr,
        free(Ptr) -> Herr,
    }
    /// Values of variable length.
    BlobClass {
        put(Ptr, *const c_void, usize, Ptr, Ptr) -> Herr,
        get(Ptr, *const c_void, Ptr, usize, Ptr) -> Herr,
        specific(Ptr, Ptr, Ptr) -> Herr,
        optional(Ptr, Ptr, Ptr) -> Herr,
    }
    /// Names of objects within their file.
    TokenClass {
        compare(Ptr, *const c_void, *const c_void, *mut c_int) -> Herr,
        to_text(Ptr, c_int, *const c_void, *mut *mut c_char) -> Herr,
        from_text(Ptr, c_int, Text, Ptr) -> Herr,
    }
}

/// A connector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VolClass {
    /// [`CLASS_VERSION`].
    pub version: c_uint,
    /// The connector's number.
    pub value: c_int,
    /// Its name.
    pub name: Text,
    /// Its own version.
    pub connector_version: c_uint,
    /// Its capabilities besides those of the connector below.
    pub capabilities: u64,
    /// Called when it is registered.
    pub initialize: Option<unsafe extern "C" fn(Hid) -> Herr>,
    /// Called when it is taken away.
    pub terminate: Option<unsafe extern "C" fn() -> Herr>,
    /// Its settings.
    pub info: InfoClass,
    /// Wrapping.
    pub wrap: WrapClass,
    /// Attributes.
    pub attribute: AttributeClass,
    /// Datasets.
    pub dataset: DatasetClass,
    /// Named types.
    pub datatype: DatatypeClass,
    /// Files.
    pub file: FileClass,
    /// Groups.
    pub group: GroupClass,
    /// Links.
    pub link: LinkClass,
    /// Objects.
    pub object: ObjectClass,
    /// Its information about itself.
    pub introspect: IntrospectClass,
    /// Requests.
    pub request: RequestClass,
    /// Values of variable length.
    pub blob: BlobClass,
    /// Tokens.
    pub token: TokenClass,
    /// Anything else.
    pub optional: Option<unsafe extern "C" fn(Ptr, Ptr, Hid, Request) -> Herr>,
}

// SAFETY: the table is never changed once it was made; its name is a text of the program.
unsafe impl Send for VolClass {}
// SAFETY: as above.
unsafe impl Sync for VolClass {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_size_of_the_c_structure() {
        // 5 head fields in 32 bytes, then one pointer each: 2, info 6, wrap 5, attribute 8,
        // dataset 8, datatype 6, file 6, group 6, link 6, object 5, introspect 3, request 6,
        // blob 4, token 3, optional 1.
        assert_eq!(size_of::<VolClass>(), 32 + 75 * size_of::<usize>());
    }
}
