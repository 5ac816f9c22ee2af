//! References inside of a copy. `H5Ocopy` can copy what references lead to, and lets them lead to
//! the copies; where a dataset then took the place of such a copy, they have to lead to that.

use std::collections::HashMap;

use plasmon_hdf5_sys::Ptr;
use plasmon_hdf5_sys::arguments::dataset;

use crate::host::{Host, Lists};
use crate::id::Id;
use crate::skeleton::attributes::{self, Attribute};
use crate::skeleton::get;
use crate::skeleton::read_all;

/// `H5T_REFERENCE`.
const CLASS_REFERENCE: i32 = 7;
/// A reference to an object is its address in the file.
const REFERENCE_BYTES: usize = 8;

/// Lets the references in a dataset, and in its attributes, lead to what took the place of their
/// targets.
pub(crate) fn redirect(host: &'static Host, under: Ptr, moved: &HashMap<u64, u64>) -> Option<()> {
    let mut good = redirect_values(host, under, moved);
    attributes::each(host, under, u64::MAX, &mut |attribute| {
        good = good.and_then(|()| redirect_attribute(host, attribute, moved));
    })?;
    good
}

/// Room for all references of a type and a dataspace; `None` when these are no references.
fn room(host: &'static Host, kind: &Id, space: &Id) -> Option<Vec<u64>> {
    // SAFETY: type and space are open.
    let (class, bytes, count) = unsafe {
        (
            (host.api.H5Tget_class)(kind.get()),
            (host.api.H5Tget_size)(kind.get()),
            (host.api.H5Sget_simple_extent_npoints)(space.get()),
        )
    };
    let references = class == CLASS_REFERENCE && bytes == REFERENCE_BYTES;
    references.then(|| usize::try_from(count).ok()).flatten().map(|count| vec![0; count])
}

/// Puts new addresses in the place of old ones; whether there were any.
fn put_right(values: &mut [u64], moved: &HashMap<u64, u64>) -> bool {
    let mut changed = false;
    for value in values {
        if let Some(now) = moved.get(value) {
            (*value, changed) = (*now, true);
        }
    }
    changed
}

fn redirect_attribute(
    host: &'static Host,
    attribute: &Attribute,
    moved: &HashMap<u64, u64>,
) -> Option<()> {
    let kind = Id::of_type(host, attribute.get(attributes::GET_TYPE)?)?;
    let space = Id::of_space(host, attribute.get(attributes::GET_SPACE)?)?;
    let Some(mut values) = room(host, &kind, &space) else { return Some(()) };
    let (native, dxpl) = (host.native(), host.default_list(Lists::Transfer));
    let (under, kind, none) = (attribute.under(), kind.get(), std::ptr::null_mut());
    // SAFETY: the attribute is open; there is room for all of its values.
    let done = unsafe {
        let buffer = values.as_mut_ptr().cast();
        let read = (host.api.H5VLattr_read)(under, native, kind, buffer, dxpl, none);
        if read < 0 || !put_right(&mut values, moved) {
            return (read >= 0).then_some(());
        }
        let buffer = values.as_ptr().cast();
        (host.api.H5VLattr_write)(under, native, kind, buffer, dxpl, none)
    };
    (done >= 0).then_some(())
}

fn redirect_values(host: &'static Host, under: Ptr, moved: &HashMap<u64, u64>) -> Option<()> {
    let kind = Id::of_type(host, get(host, under, dataset::GET_TYPE)?)?;
    let space = Id::of_space(host, get(host, under, dataset::GET_SPACE)?)?;
    let Some(mut values) = room(host, &kind, &space) else { return Some(()) };
    // SAFETY: the dataset is the native connector's; there is room for all of its values.
    let read = unsafe { read_all::read(host, under, kind.get(), values.as_mut_ptr().cast()) };
    if read < 0 || !put_right(&mut values, moved) {
        return (read >= 0).then_some(());
    }
    // SAFETY: as above.
    let written = unsafe { read_all::write(host, under, kind.get(), values.as_mut_ptr().cast()) };
    (written >= 0).then_some(())
}

/// The address of an object, which its token holds.
pub(crate) fn address(token: [u8; 16]) -> u64 {
    let mut address = [0; 8];
    address.copy_from_slice(&token[..8]);
    u64::from_le_bytes(address)
}
