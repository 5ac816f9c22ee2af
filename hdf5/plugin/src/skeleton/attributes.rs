//! Copying attributes from one dataset to another in the same file, by the native connector.

use std::ffi::{CStr, c_char};

use plasmon_hdf5_sys::arguments::Single;
use plasmon_hdf5_sys::{Hid, KIND_DATASET, Location, Ptr};

use crate::host::{Host, Lists};
use crate::id::Id;
use crate::skeleton::walk;

/// `H5VL_ATTR_GET_NAME`.
const GET_NAME: i32 = 2;
/// `H5VL_ATTR_GET_SPACE`.
pub(crate) const GET_SPACE: i32 = 3;
/// `H5VL_ATTR_GET_TYPE`.
pub(crate) const GET_TYPE: i32 = 5;
/// `H5I_ATTR`.
const KIND_ATTRIBUTE: i32 = 7;
/// The longest name of an attribute.
const NAME_BYTES: usize = 65_536;

/// `H5VL_ATTR_EXISTS`.
const EXISTS: i32 = 2;

/// Whether there is an attribute.
#[repr(C)]
struct ExistsOf {
    operation: i32,
    name: *const c_char,
    answer: *mut bool,
}

/// Whether an object has an attribute of this name.
pub(crate) fn has(host: &Host, under: Ptr, kind: i32, name: &CStr) -> bool {
    let mut found = false;
    let mut arguments = ExistsOf { operation: EXISTS, name: name.as_ptr(), answer: &raw mut found };
    let (place, dxpl) = (Location::itself(kind), host.default_list(Lists::Transfer));
    // SAFETY: the object is the native connector's; the name ends; the answer goes into what we
    // own.
    let done = unsafe {
        let (arguments, none) = ((&raw mut arguments).cast(), std::ptr::null_mut());
        (host.api.H5VLattr_specific)(under, &raw const place, host.native(), arguments, dxpl, none)
    };
    done >= 0 && found
}

/// Getting the name of an attribute.
#[repr(C)]
struct NameOf {
    operation: i32,
    location: Location,
    bytes: usize,
    text: *mut c_char,
    length: *mut usize,
}

/// An open attribute, closed when dropped.
pub(crate) struct Attribute {
    host: &'static Host,
    under: Ptr,
}

impl Drop for Attribute {
    fn drop(&mut self) {
        let (native, dxpl) = (self.host.native(), self.host.default_list(Lists::Transfer));
        // SAFETY: the attribute is ours and closed once.
        unsafe { (self.host.api.H5VLattr_close)(self.under, native, dxpl, std::ptr::null_mut()) };
    }
}

impl Attribute {
    /// The native connector's object.
    pub(crate) fn under(&self) -> Ptr {
        self.under
    }

    /// Its type or dataspace, which is the caller's then.
    pub(crate) fn get(&self, what: i32) -> Option<Hid> {
        let mut arguments = Single::new(what, 0);
        self.ask((&raw mut arguments).cast())?;
        Some(arguments.value.cast_signed())
    }

    /// Its name, with the zero byte that ends it.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        let (mut text, mut length) = (vec![0_u8; NAME_BYTES], 0);
        let mut arguments = NameOf {
            operation: GET_NAME,
            location: Location::itself(KIND_ATTRIBUTE),
            bytes: text.len(),
            text: text.as_mut_ptr().cast(),
            length: &raw mut length,
        };
        self.ask((&raw mut arguments).cast())?;
        let end = text.iter().position(|byte| *byte == 0)?;
        text.truncate(end + 1);
        Some(text)
    }

    fn ask(&self, arguments: Ptr) -> Option<()> {
        let (native, dxpl) = (self.host.native(), self.host.default_list(Lists::Transfer));
        // SAFETY: the attribute is open; the arguments are those of the operation and long enough
        // for its answer.
        let done = unsafe {
            let none = std::ptr::null_mut();
            (self.host.api.H5VLattr_get)(self.under, native, arguments, dxpl, none)
        };
        (done >= 0).then_some(())
    }
}

/// Copies all attributes; `None` when one cannot be copied.
pub(crate) fn copy(host: &'static Host, from: Ptr, to: Ptr) -> Option<()> {
    let mut good = Some(());
    each(host, from, u64::MAX, &mut |attribute| {
        good = good.and_then(|()| copy_one(host, attribute, to));
    })?;
    good
}

/// Visits a limited number of attributes of a dataset; `None` when one cannot be opened.
pub(crate) fn each(
    host: &'static Host,
    dataset: Ptr,
    most: u64,
    visit: &mut dyn FnMut(&Attribute),
) -> Option<()> {
    let count = walk::info(host, dataset, KIND_DATASET)?.attributes.min(most);
    let aapl = host.default_list(Lists::AttributeAccess);
    let dxpl = host.default_list(Lists::Transfer);
    for at in 0..count {
        let place = Location::placed(KIND_DATASET, c".".as_ptr(), at);
        // SAFETY: the dataset is open; the attribute is named by its place.
        let under = unsafe {
            let (none, name) = (std::ptr::null_mut(), std::ptr::null());
            let place = &raw const place;
            (host.api.H5VLattr_open)(dataset, place, host.native(), name, aapl, dxpl, none)
        };
        if under.is_null() {
            return None;
        }
        visit(&Attribute { host, under });
    }
    Some(())
}

/// A copy of a type that describes values in memory, not in the file.
pub(crate) fn in_memory(host: &'static Host, kind: &Id) -> Option<Id> {
    // SAFETY: the type is open.
    Id::of_type(host, unsafe { (host.api.H5Tcopy)(kind.get()) })
}

fn copy_one(host: &'static Host, old: &Attribute, to: Ptr) -> Option<()> {
    let kind = Id::of_type(host, old.get(GET_TYPE)?)?;
    let space = Id::of_space(host, old.get(GET_SPACE)?)?;
    let memory = in_memory(host, &kind)?;
    let name = old.name()?;
    let place = Location::itself(KIND_DATASET);
    let (acpl, aapl) =
        (host.default_list(Lists::AttributeCreation), host.default_list(Lists::AttributeAccess));
    let dxpl = host.default_list(Lists::Transfer);
    let none = std::ptr::null_mut();
    // SAFETY: the dataset, the type and the space are open; the name ends.
    let made = unsafe {
        let (place, name) = (&raw const place, name.as_ptr().cast());
        let (kind, space) = (kind.get(), space.get());
        (host.api.H5VLattr_create)(
            to,
            place,
            host.native(),
            name,
            kind,
            space,
            acpl,
            aapl,
            dxpl,
            none,
        )
    };
    if made.is_null() {
        return None;
    }
    let new = Attribute { host, under: made };
    // SAFETY: type and space are open; the buffer has room for all values, and what they own is
    // given back.
    let done = unsafe {
        let points = (host.api.H5Sget_simple_extent_npoints)(space.get());
        let bytes = usize::try_from(points).ok()? * (host.api.H5Tget_size)(memory.get());
        let mut buffer = vec![0_u64; bytes.div_ceil(size_of::<u64>()).max(1)];
        let (buffer, native) = (buffer.as_mut_ptr().cast(), host.native());
        let read = (host.api.H5VLattr_read)(old.under, native, memory.get(), buffer, dxpl, none);
        let written = if read < 0 {
            read
        } else {
            (host.api.H5VLattr_write)(new.under, native, memory.get(), buffer, dxpl, none)
        };
        (host.api.H5Treclaim)(memory.get(), space.get(), dxpl, buffer);
        written
    };
    (done >= 0).then_some(())
}
