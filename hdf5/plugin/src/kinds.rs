//! Which datasets become Arrow, and why others do not.

use std::ffi::{CStr, c_int};

use plasmon_hdf5_model::{Column, Number, Table};
use plasmon_hdf5_sys::{Hid, RANK_MAX};

use crate::host::Host;
use crate::id::Id;

/// `H5T_COMPOUND`.
pub(crate) const CLASS_COMPOUND: c_int = 6;
/// `H5D_CONTIGUOUS`.
const LAYOUT_CONTIGUOUS: c_int = 1;
/// `H5S_SIMPLE`.
const SPACE_SIMPLE: c_int = 1;
/// How many columns a table may have; more members are kept as records.
const COLUMNS_MAX: c_int = 1024;

/// The types that are the same in Arrow and HDF5, under HDF5's names.
const NUMBERS: [(&CStr, Number); 11] = [
    (c"H5T_IEEE_F64LE_g", Number::F64),
    (c"H5T_IEEE_F32LE_g", Number::F32),
    (c"H5T_STD_I64LE_g", Number::I64),
    (c"H5T_STD_I32LE_g", Number::I32),
    (c"H5T_STD_I16LE_g", Number::I16),
    (c"H5T_STD_I8LE_g", Number::I8),
    (c"H5T_STD_U64LE_g", Number::U64),
    (c"H5T_STD_U32LE_g", Number::U32),
    (c"H5T_STD_U16LE_g", Number::U16),
    (c"H5T_STD_U8LE_g", Number::U8),
    (c"H5T_IEEE_F16LE_g", Number::F16),
];

/// The library's own type for a number.
pub(crate) fn type_of(host: &Host, number: Number) -> Hid {
    let known = NUMBERS.iter().find(|(_, other)| *other == number);
    known.map_or(plasmon_hdf5_sys::INVALID, |(name, _)| host.global(name))
}

/// The number that a type is.
pub(crate) fn number(host: &Host, kind: Hid) -> Option<Number> {
    NUMBERS.iter().find_map(|(name, number)| {
        let known = host.global(name);
        // SAFETY: both are identifiers of types; an old library lacks one of ours.
        (known >= 0 && unsafe { (host.api.H5Tequal)(kind, known) } > 0).then_some(*number)
    })
}

/// The columns of a type: one for a number, one for each member of a compound.
pub(crate) fn columns(
    host: &'static Host,
    kind: Hid,
    name: &str,
) -> Result<Vec<Column>, &'static str> {
    if let Some(number) = number(host, kind) {
        return Ok(vec![Column { name: name.to_owned(), number }]);
    }
    // SAFETY: the type is open.
    match unsafe { (host.api.H5Tget_class)(kind) } {
        0 => Err("an integer of an unusual size or byte order"),
        1 => Err("a floating-point number of an unusual format or byte order"),
        2 => Err("a time"),
        3 => Err("strings"),
        4 => Err("a bit field"),
        5 => Err("opaque bytes"),
        CLASS_COMPOUND => members(host, kind),
        7 => Err("references"),
        8 => Err("an enumeration"),
        9 => Err("sequences of variable length"),
        10 => Err("arrays as elements"),
        11 => Err("complex numbers"),
        _ => Err("a type that is not known"),
    }
}

fn members(host: &'static Host, kind: Hid) -> Result<Vec<Column>, &'static str> {
    // SAFETY: the type is an open compound.
    let count = unsafe { (host.api.H5Tget_nmembers)(kind) };
    if count > COLUMNS_MAX {
        return Err("a compound of very many members");
    }
    let mut columns = Vec::new();
    for at in 0..u32::try_from(count).unwrap_or(0) {
        // SAFETY: the member is one of the type's.
        let member = Id::of_type(host, unsafe { (host.api.H5Tget_member_type)(kind, at) });
        let number = member.and_then(|member| number(host, member.get()));
        let number = number.ok_or("a compound with members other than numbers")?;
        let name = member_name(host, kind, at).ok_or("a compound with a name that is no text")?;
        columns.push(Column { name, number });
    }
    Ok(columns)
}

/// The name of a member of a compound.
pub(crate) fn member_name(host: &Host, kind: Hid, at: u32) -> Option<String> {
    // SAFETY: the member is one of the type's; the text is the library's memory and is given back.
    unsafe {
        let text = (host.api.H5Tget_member_name)(kind, at);
        if text.is_null() {
            return None;
        }
        let name = CStr::from_ptr(text).to_str().ok().map(str::to_owned);
        (host.api.H5free_memory)(text.cast());
        name
    }
}

/// The dimensions of a dataspace and those that it may grow to.
pub(crate) fn shape(host: &Host, space: Hid) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut now, mut most) = ([0; RANK_MAX], [0; RANK_MAX]);
    // SAFETY: a dataspace has at most as many dimensions as there is room for.
    let rank = unsafe {
        if (host.api.H5Sget_simple_extent_type)(space) != SPACE_SIMPLE {
            return None;
        }
        (host.api.H5Sget_simple_extent_dims)(space, now.as_mut_ptr(), most.as_mut_ptr())
    };
    let rank = usize::try_from(rank).ok()?;
    Some((now[..rank].to_vec(), most[..rank].to_vec()))
}

/// The table that a new dataset becomes, or why it stays as HDF5 keeps it.
pub(crate) fn table(
    host: &'static Host,
    name: &str,
    kind: Hid,
    space: Hid,
    dcpl: Hid,
) -> Result<Table, &'static str> {
    // SAFETY: the list is an open creation property list.
    let (layout, external) =
        unsafe { ((host.api.H5Pget_layout)(dcpl), (host.api.H5Pget_external_count)(dcpl)) };
    if external > 0 {
        return Err("stored in external files by the program");
    }
    if layout != LAYOUT_CONTIGUOUS {
        return Err("chunked, compact or virtual");
    }
    let (now, most) = shape(host, space).ok_or("a scalar or without a value")?;
    if now != most {
        return Err("of a size that may change");
    }
    if now.contains(&0) {
        return Err("without elements");
    }
    let columns = columns(host, kind, name)?;
    if now.len() > 1 && columns.len() > 1 {
        return Err("a compound in more than one dimension");
    }
    if now.len() > 1 && now[1..].iter().product::<u64>() > i32::MAX as u64 {
        return Err("of rows too long for Arrow");
    }
    Table::new(now, columns).ok_or("a scalar, or too large to be counted")
}
