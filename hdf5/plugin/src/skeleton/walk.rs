//! Going over what a skeleton holds, by the native connector alone.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_int};

use plasmon_hdf5_sys::arguments::{
    GROUP_GET_INFO, GroupInfo, GroupInfoOf, INFO_ATTRIBUTES, INFO_BASIC, OBJECT_GET_INFO,
    ObjectInfo, ObjectInfoOf, ObjectName, Single,
};
use plasmon_hdf5_sys::{KIND_DATASET, KIND_GROUP, Location, Ptr};

use crate::host::{Host, Lists};

/// `H5L_TYPE_HARD`.
const LINK_IS_HARD: c_int = 0;
/// `H5VL_LINK_GET_INFO`.
const LINK_GET_INFO: c_int = 0;
/// `H5VL_LINK_GET_NAME`.
const LINK_GET_NAME: c_int = 1;
/// The longest name of a link.
const NAME_BYTES: usize = 65_536;
/// How deep groups may lie in each other; the library itself has no limit.
const DEPTH_MAX: usize = 512;

/// An object of the native connector that is closed when dropped.
pub(crate) struct NativeObject {
    host: &'static Host,
    pub(crate) under: Ptr,
    pub(crate) kind: c_int,
}

impl NativeObject {
    /// Opens what a place names, seen from an object.
    ///
    /// # Safety
    ///
    /// The object is the native connector's; names in the place end.
    pub(crate) unsafe fn new(host: &'static Host, from: Ptr, place: &Location) -> Option<Self> {
        let mut kind = 0;
        // SAFETY: promised by the caller.
        let under = unsafe {
            (host.api.H5VLobject_open)(
                from,
                std::ptr::from_ref(place),
                host.native(),
                &raw mut kind,
                host.default_list(Lists::Transfer),
                std::ptr::null_mut(),
            )
        };
        (!under.is_null()).then_some(Self { host, under, kind })
    }
}

impl NativeObject {
    /// Takes over an object that is open.
    pub(crate) fn adopt(host: &'static Host, under: Ptr, kind: c_int) -> Self {
        Self { host, under, kind }
    }
}

impl Drop for NativeObject {
    fn drop(&mut self) {
        let api = &self.host.api;
        let close = match self.kind {
            KIND_DATASET => api.H5VLdataset_close,
            KIND_GROUP => api.H5VLgroup_close,
            _ => api.H5VLdatatype_close,
        };
        let (native, dxpl) = (self.host.native(), self.host.default_list(Lists::Transfer));
        // SAFETY: the object is ours, of the kind that is closed, and closed once.
        unsafe { close(self.under, native, dxpl, std::ptr::null_mut()) };
    }
}

/// Information about an object.
pub(crate) fn info(host: &Host, under: Ptr, kind: c_int) -> Option<ObjectInfo> {
    let mut info = ObjectInfo::default();
    let mut arguments = ObjectInfoOf {
        operation: OBJECT_GET_INFO,
        padding: 0,
        fields: INFO_BASIC | INFO_ATTRIBUTES,
        info: &raw mut info,
    };
    let (place, dxpl) = (Location::itself(kind), host.default_list(Lists::Transfer));
    // SAFETY: the object is the native connector's; the answer goes into what we own.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        let none = std::ptr::null_mut();
        (host.api.H5VLobject_get)(under, &raw const place, host.native(), arguments, dxpl, none)
    };
    (done >= 0).then_some(info)
}

/// How many links a group has.
fn links(host: &Host, under: Ptr, kind: c_int) -> Option<u64> {
    let mut info = GroupInfo::default();
    let mut arguments = GroupInfoOf {
        operation: GROUP_GET_INFO,
        location: Location::itself(kind),
        info: &raw mut info,
    };
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: the object is the native connector's; the answer goes into what we own.
    let done = unsafe {
        let arguments = (&raw mut arguments).cast();
        (host.api.H5VLgroup_get)(under, host.native(), arguments, dxpl, std::ptr::null_mut())
    };
    (done >= 0).then_some(info.links)
}

/// Whether the link at a place leads to an object by itself, not by a name.
fn is_hard(host: &Host, under: Ptr, place: &Location) -> Option<bool> {
    // The library writes a structure of 40 bytes that begins with the link's type.
    let mut info = [0_u64; 8];
    let mut arguments = Single::new(LINK_GET_INFO, info.as_mut_ptr().addr() as u64);
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: the object is the native connector's; the answer goes into what we own, whose
    // address is exposed by the cast to a pointer.
    let done = unsafe {
        let pointer = &raw mut arguments.value;
        pointer.cast::<*mut u64>().write(info.as_mut_ptr());
        let (arguments, none) = ((&raw mut arguments).cast(), std::ptr::null_mut());
        (host.api.H5VLlink_get)(under, place, host.native(), arguments, dxpl, none)
    };
    (done >= 0).then_some(info[0] as u32 as c_int == LINK_IS_HARD)
}

/// Calls `visit` for every dataset below a group, once for each link that leads to it. `None` when
/// something could not be looked at.
pub(crate) fn datasets(
    host: &'static Host,
    group: Ptr,
    kind: c_int,
    visit: &mut dyn FnMut(Ptr) -> Option<()>,
) -> Option<()> {
    let mut walk = Walk { host, visit, seen: HashSet::new() };
    walk.group(group, kind, 0)
}

/// The names of the hard links of a group. `None` when they cannot be had, or the group lies too
/// deep: groups may contain each other.
pub(crate) fn names(host: &Host, group: Ptr, depth: usize) -> Option<Vec<CString>> {
    let mut names = Vec::new();
    for at in 0..links(host, group, KIND_GROUP).filter(|_| depth <= DEPTH_MAX)? {
        let place = Location::placed(KIND_GROUP, c".".as_ptr(), at);
        if is_hard(host, group, &place)? {
            names.push(link_name(host, group, &place)?);
        }
    }
    Some(names)
}

fn link_name(host: &Host, group: Ptr, place: &Location) -> Option<CString> {
    let (mut text, mut length) = (vec![0_u8; NAME_BYTES], 0);
    // Of the same form as getting the name of an object, but for the number.
    let mut arguments = ObjectName {
        operation: LINK_GET_NAME,
        bytes: text.len(),
        text: text.as_mut_ptr().cast(),
        length: &raw mut length,
    };
    let dxpl = host.default_list(Lists::Transfer);
    // SAFETY: the group is the native connector's; the text is cut off at the room for it.
    let done = unsafe {
        let (arguments, none) = ((&raw mut arguments).cast(), std::ptr::null_mut());
        (host.api.H5VLlink_get)(group, place, host.native(), arguments, dxpl, none)
    };
    let name = CStr::from_bytes_until_nul(&text).ok()?;
    (done >= 0).then(|| name.to_owned())
}

struct Walk<'a> {
    host: &'static Host,
    visit: &'a mut dyn FnMut(Ptr) -> Option<()>,
    /// Groups that more than one link leads to: groups may contain each other.
    seen: HashSet<[u8; 16]>,
}

impl Walk<'_> {
    fn group(&mut self, group: Ptr, kind: c_int, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        for at in 0..links(self.host, group, kind)? {
            let place = Location::placed(kind, c".".as_ptr(), at);
            if !is_hard(self.host, group, &place)? {
                continue;
            }
            // SAFETY: the group is the native connector's and open; the name ends.
            let opened = unsafe { NativeObject::new(self.host, group, &place) }?;
            match opened.kind {
                KIND_DATASET => (self.visit)(opened.under)?,
                KIND_GROUP => {
                    let info = info(self.host, opened.under, KIND_GROUP)?;
                    if info.links < 2 || self.seen.insert(info.token) {
                        self.group(opened.under, KIND_GROUP, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Some(())
    }
}
