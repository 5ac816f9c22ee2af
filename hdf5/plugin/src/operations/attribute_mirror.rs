//! Attributes of a dataset in the schema of its Arrow file, for readers without HDF5.
//!
//! The skeleton's attributes are the true ones; these are a copy, made when a dataset whose
//! attributes may have changed is closed. Numbers and strings are mirrored, scalars and lists of
//! one dimension; what is larger than a page, or of another kind, is left out.

use std::ffi::{CStr, c_char};

use plasmon_hdf5_model::ATTRIBUTE;
use plasmon_hdf5_sys::{BY_NAME, BY_SELF, Hid, KIND_DATASET, KIND_FILE, Location, Ptr};

use crate::arrow::array::Array;
use crate::arrow::eligibility;
use crate::container::Container;
use crate::host::{Host, Lists};
use crate::id::Id;
use crate::node::Node;
use crate::skeleton::attributes::{self, Attribute};
use crate::skeleton::walk::NativeObject;

/// The largest value that is mirrored, in bytes.
const VALUE_BYTES_MAX: usize = 4096;
/// The most attributes of a dataset that are mirrored.
const ATTRIBUTES_MAX: u64 = 256;

/// `H5T_INTEGER`.
const CLASS_INTEGER: i32 = 0;
/// `H5T_FLOAT`.
const CLASS_FLOAT: i32 = 1;
/// `H5T_STRING`.
const CLASS_STRING: i32 = 3;

/// Brings the copy of a dataset's attributes up to date.
pub(crate) fn refresh(host: &'static Host, node: &Node) -> Option<()> {
    mirror(host, node.native(), &node.container, node.array(host)?)
}

/// Brings the copies of attributes up to date that were changed by the names of their datasets.
pub(crate) fn refresh_named(host: &'static Host, file: &Node) {
    for name in file.container.take_named() {
        let place = Location::named(KIND_FILE, name.as_ptr());
        // SAFETY: the file is the native connector's and open; the name ends.
        let Some(found) = (unsafe { NativeObject::new(host, file.native(), &place) }) else {
            continue;
        };
        if found.kind == KIND_DATASET
            && let Some(array) = Array::of_dataset(host, found.under, &file.container)
        {
            // The skeleton has the attributes: without the copy nothing is lost.
            let _ = mirror(host, found.under, &file.container, &array);
        }
    }
}

fn mirror(host: &'static Host, under: Ptr, container: &Container, array: &Array) -> Option<()> {
    let mut entries = Vec::new();
    attributes::each(host, under, ATTRIBUTES_MAX, &mut |attribute| {
        if let Some((name, value)) = text(host, attribute) {
            entries.push((format!("{ATTRIBUTE}{name}"), value));
        }
    })?;
    // All processes of a program have read the same; HDF5 may want them to do so together.
    if container.is_first() {
        array.describe(under, &entries);
    }
    Some(())
}

/// The name and the value of an attribute as strings.
fn text(host: &'static Host, attribute: &Attribute) -> Option<(String, String)> {
    let mut name = attribute.name()?;
    name.pop();
    let kind = Id::of_type(host, attribute.get(attributes::GET_TYPE)?)?;
    let space = Id::of_space(host, attribute.get(attributes::GET_SPACE)?)?;
    let single = eligibility::shape(host, space.get()).is_none_or(|(shape, _)| shape.is_empty());
    // SAFETY: type and space are open.
    let (class, points) = unsafe {
        ((host.api.H5Tget_class)(kind.get()), (host.api.H5Sget_simple_extent_npoints)(space.get()))
    };
    let count = usize::try_from(points).ok().filter(|count| (1..=512).contains(count))?;
    let values: Vec<String> = match class {
        CLASS_INTEGER => {
            let wide = host.global(c"H5T_NATIVE_INT64_g");
            words(host, attribute, wide, count)?
                .into_iter()
                .map(|word| word.cast_signed().to_string())
                .collect()
        }
        CLASS_FLOAT => {
            let wide = host.global(c"H5T_NATIVE_DOUBLE_g");
            let words = words(host, attribute, wide, count)?;
            words.into_iter().map(|word| f64::from_bits(word).to_string()).collect()
        }
        CLASS_STRING => strings(host, attribute, &kind, &space, count)?,
        _ => return None,
    };
    let value = match (single, values.as_slice()) {
        (true, [one]) => one.clone(),
        _ => format!("[{}]", values.join(", ")),
    };
    let name = String::from_utf8(name).ok()?;
    (value.len() <= VALUE_BYTES_MAX).then_some((name, value))
}

/// The values as a type of 8 bytes.
fn words(host: &Host, attribute: &Attribute, kind: Hid, count: usize) -> Option<Vec<u64>> {
    let mut values = vec![0_u64; count];
    let (native, dxpl) = (host.native(), host.default_list(Lists::Transfer));
    // SAFETY: there is room for all values, 8 bytes each.
    let done = unsafe {
        let (buffer, none) = (values.as_mut_ptr().cast(), std::ptr::null_mut());
        (host.api.H5VLattr_read)(attribute.under(), native, kind, buffer, dxpl, none)
    };
    (done >= 0).then_some(values)
}

/// The values of strings, of a fixed or of a variable length.
fn strings(
    host: &'static Host,
    attribute: &Attribute,
    kind: &Id,
    space: &Id,
    count: usize,
) -> Option<Vec<String>> {
    let memory = attributes::in_memory(host, kind)?;
    let (native, dxpl) = (host.native(), host.default_list(Lists::Transfer));
    // SAFETY: the type is open.
    let (variable, bytes) = unsafe {
        ((host.api.H5Tis_variable_str)(memory.get()) > 0, (host.api.H5Tget_size)(memory.get()))
    };
    if bytes.checked_mul(count)? > VALUE_BYTES_MAX {
        return None;
    }
    let mut buffer = vec![0_u64; (bytes * count).div_ceil(size_of::<u64>())];
    // SAFETY: there is room for all values; strings of variable length are pointers to strings that
    // end, which are given back after they were copied.
    unsafe {
        let place = buffer.as_mut_ptr();
        let none = std::ptr::null_mut();
        let under = attribute.under();
        if (host.api.H5VLattr_read)(under, native, memory.get(), place.cast(), dxpl, none) < 0 {
            return None;
        }
        let mut values = Vec::with_capacity(count);
        for at in 0..count {
            let text: Vec<u8> = if variable {
                let text = place.cast::<*const c_char>().add(at).read();
                if text.is_null() { Vec::new() } else { CStr::from_ptr(text).to_bytes().to_vec() }
            } else {
                let text = std::slice::from_raw_parts(place.cast::<u8>().add(at * bytes), bytes);
                text.iter().copied().take_while(|byte| *byte != 0).collect()
            };
            values.push(String::from_utf8_lossy(&text).into_owned());
        }
        if variable {
            (host.api.H5Treclaim)(memory.get(), space.get(), dxpl, place.cast());
        }
        Some(values)
    }
}

/// Whether a call about attributes is about a dataset itself, which h5py names ".".
///
/// # Safety
///
/// HDF5 handed the place over.
pub(crate) unsafe fn concerns_dataset(place: &Location) -> bool {
    let itself = match place.by {
        BY_SELF => true,
        // SAFETY: promised by the caller: the place has a name that ends.
        BY_NAME => unsafe { CStr::from_ptr(place.data.by_name.name) == c"." },
        _ => false,
    };
    itself && place.kind == KIND_DATASET
}
