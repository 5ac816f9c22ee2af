//! The Arrow columns of a datatype: one for each part that has no parts.

use std::ffi::{CStr, c_char, c_int};

use plasmon_hdf5_model::{Base, Column, Number};
use plasmon_hdf5_sys::{Hid, RANK_MAX};

use crate::host::Host;
use crate::id::Id;

/// `H5T_STRING`.
const CLASS_STRING: c_int = 3;
/// `H5T_BITFIELD`.
const CLASS_BITFIELD: c_int = 4;
/// `H5T_OPAQUE`.
const CLASS_OPAQUE: c_int = 5;
/// `H5T_COMPOUND`.
pub(crate) const CLASS_COMPOUND: c_int = 6;
/// `H5T_ENUM`.
const CLASS_ENUMERATION: c_int = 8;
/// `H5T_ARRAY`.
const CLASS_ARRAY: c_int = 10;
/// `H5T_COMPLEX`, since HDF5 2.0.
const CLASS_COMPLEX: c_int = 11;
/// How many columns a table may have; more members are kept as records.
const COLUMNS_MAX: usize = 1024;
/// How many names of an enumeration are written into a field's metadata.
const NAMES_MAX: c_int = 4096;

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

/// Bit fields, as the numbers that they are in Arrow.
const BIT_FIELDS: [(&CStr, Number); 4] = [
    (c"H5T_STD_B8LE_g", Number::U8),
    (c"H5T_STD_B16LE_g", Number::U16),
    (c"H5T_STD_B32LE_g", Number::U32),
    (c"H5T_STD_B64LE_g", Number::U64),
];

/// A column, and where its elements are in one of the type.
pub(crate) struct Leaf {
    pub(crate) column: Column,
    pub(crate) offset: usize,
}

/// The number that a type is.
fn number(host: &Host, known: &[(&'static CStr, Number)], kind: Hid) -> Option<Number> {
    known.iter().find_map(|(name, number)| {
        let known = host.global(name);
        // SAFETY: both are identifiers of types; an old library lacks one of ours.
        (known >= 0 && unsafe { (host.api.H5Tequal)(kind, known) } > 0).then_some(*number)
    })
}

/// The columns of a type, or why it has none: one for a type of its own, one for each member of a
/// compound.
pub(crate) fn leaves(
    host: &'static Host,
    kind: Hid,
    name: &str,
) -> Result<Vec<Leaf>, &'static str> {
    let mut all = Vec::new();
    if is_structure(host, kind) {
        members(host, kind, &[], 0, &mut all)?;
    } else {
        all.push(Leaf { column: leaf(host, kind, vec![name.to_owned()])?, offset: 0 });
    }
    Ok(all)
}

/// Whether a type is a compound whose members are columns. One of a real and an imaginary part is
/// none: it is a complex number.
pub(crate) fn is_structure(host: &'static Host, kind: Hid) -> bool {
    // SAFETY: the type is open.
    let class = unsafe { (host.api.H5Tget_class)(kind) };
    class == CLASS_COMPOUND && complex(host, kind).is_none()
}

fn members(
    host: &'static Host,
    kind: Hid,
    path: &[String],
    offset: usize,
    all: &mut Vec<Leaf>,
) -> Result<(), &'static str> {
    // SAFETY: the type is an open compound.
    let count = unsafe { (host.api.H5Tget_nmembers)(kind) };
    for at in 0..u32::try_from(count).unwrap_or(0) {
        // SAFETY: the member is one of the type's.
        let (part, within) = unsafe {
            ((host.api.H5Tget_member_type)(kind, at), (host.api.H5Tget_member_offset)(kind, at))
        };
        let part = Id::of_type(host, part).ok_or("a compound with a member that has no type")?;
        let name = member_name(host, kind, at).ok_or("a compound with a name that is not UTF-8")?;
        let mut path = path.to_vec();
        path.push(name);
        if is_structure(host, part.get()) {
            members(host, part.get(), &path, offset + within, all)?;
            continue;
        }
        let column = leaf(host, part.get(), path)?;
        all.push(Leaf { column, offset: offset + within });
        if all.len() > COLUMNS_MAX {
            return Err("a compound with too many members");
        }
    }
    Ok(())
}

/// The column of a type that has no members.
fn leaf(host: &'static Host, kind: Hid, path: Vec<String>) -> Result<Column, &'static str> {
    let of = |base| Column { path: path.clone(), base, inner: Vec::new(), notes: Vec::new() };
    if let Some(number) = number(host, &NUMBERS, kind) {
        return Ok(of(Base::Number(number)));
    }
    // SAFETY: the type is open.
    let (class, bytes) = unsafe { ((host.api.H5Tget_class)(kind), (host.api.H5Tget_size)(kind)) };
    let bytes = u32::try_from(bytes).ok().filter(|bytes| i32::try_from(*bytes).is_ok());
    let bytes = bytes.ok_or("elements of more bytes than Arrow can count")?;
    match class {
        0 | 1 => Err("numbers of another byte order, size or format than Arrow has"),
        2 => Err("a time"),
        CLASS_STRING => {
            // SAFETY: the type is an open string.
            if unsafe { (host.api.H5Tis_variable_str)(kind) } != 0 {
                return Err("strings of variable length");
            }
            Ok(of(Base::Bytes(bytes)).noted("hdf5.string", string_form(host, kind)))
        }
        CLASS_BITFIELD => {
            let number = number(host, &BIT_FIELDS, kind).ok_or("a bit field of unusual form")?;
            Ok(of(Base::Number(number)).noted("hdf5.bitfield", "yes"))
        }
        CLASS_OPAQUE => Ok(of(Base::Bytes(bytes)).noted("hdf5.opaque", &tag(host, kind))),
        CLASS_ENUMERATION => enumeration(host, kind, path),
        CLASS_COMPOUND | CLASS_COMPLEX => {
            let number = complex(host, kind).ok_or("complex numbers of unusual parts")?;
            let mut column = of(Base::Number(number)).noted("hdf5.complex", "yes");
            column.inner = vec![2];
            Ok(column)
        }
        CLASS_ARRAY => array(host, kind, path),
        7 => Err("references"),
        9 => Err("sequences of variable length"),
        _ => Err("a type that is not known"),
    }
}

/// The number that the parts of a complex type are: HDF5's own, or as h5py and PyTables make it.
fn complex(host: &'static Host, kind: Hid) -> Option<Number> {
    // SAFETY: the type is open; members are asked for where there are two.
    let (class, size) = unsafe { ((host.api.H5Tget_class)(kind), (host.api.H5Tget_size)(kind)) };
    if class == CLASS_COMPLEX {
        // SAFETY: the type is open.
        let part = Id::of_type(host, unsafe { (host.api.H5Tget_super)(kind) })?;
        return number(host, &NUMBERS, part.get());
    }
    // SAFETY: as above.
    if class != CLASS_COMPOUND || unsafe { (host.api.H5Tget_nmembers)(kind) } != 2 {
        return None;
    }
    let mut numbers = Vec::new();
    for (at, name) in [(0, "r"), (1, "i")] {
        // SAFETY: the type has two members.
        let (part, offset) = unsafe {
            ((host.api.H5Tget_member_type)(kind, at), (host.api.H5Tget_member_offset)(kind, at))
        };
        let part = Id::of_type(host, part)?;
        let number = number(host, &NUMBERS, part.get())?;
        let floats = matches!(number, Number::F16 | Number::F32 | Number::F64);
        let packed = offset == at as usize * number.bytes() && size == 2 * number.bytes();
        if !floats || !packed || member_name(host, kind, at)? != name {
            return None;
        }
        numbers.push(number);
    }
    (numbers[0] == numbers[1]).then_some(numbers[0])
}

fn array(host: &'static Host, kind: Hid, path: Vec<String>) -> Result<Column, &'static str> {
    let mut dimensions = [0; RANK_MAX];
    // SAFETY: the type is an open array, which has at most as many dimensions as there is room for.
    let (rank, part) = unsafe {
        (
            (host.api.H5Tget_array_dims2)(kind, dimensions.as_mut_ptr()),
            (host.api.H5Tget_super)(kind),
        )
    };
    let part = Id::of_type(host, part).ok_or("an array without elements")?;
    let rank = usize::try_from(rank).map_err(|_| "an array without dimensions")?;
    if is_structure(host, part.get()) {
        return Err("arrays of compounds as elements");
    }
    let mut column = leaf(host, part.get(), path)?;
    column.inner = dimensions[..rank].iter().chain(&column.inner).copied().collect();
    Ok(column)
}

fn enumeration(host: &'static Host, kind: Hid, path: Vec<String>) -> Result<Column, &'static str> {
    // SAFETY: the type is an open enumeration.
    let (part, count) =
        unsafe { ((host.api.H5Tget_super)(kind), (host.api.H5Tget_nmembers)(kind)) };
    let part = Id::of_type(host, part).ok_or("an enumeration without values")?;
    let number = number(host, &NUMBERS, part.get())
        .ok_or("an enumeration of numbers that Arrow does not have")?;
    if count > NAMES_MAX {
        return Err("an enumeration with too many names");
    }
    let mut names = Vec::new();
    for at in 0..u32::try_from(count).unwrap_or(0) {
        let mut value = [0_u8; 8];
        // SAFETY: the member is one of the type's; its value has as many bytes as the number.
        let got = unsafe { (host.api.H5Tget_member_value)(kind, at, value.as_mut_ptr().cast()) };
        let name = member_name(host, kind, at).filter(|_| got >= 0);
        names.push((name.ok_or("an enumeration with a name that is not UTF-8")?, value));
    }
    let is = |at: usize, name: &str| {
        let place = names.get(at).map(|(name, value)| (name.as_str(), u64::from_le_bytes(*value)));
        place == Some((name, at as u64))
    };
    let column = |base| Column { path, base, inner: Vec::new(), notes: Vec::new() };
    if number.bytes() == 1 && names.len() == 2 && is(0, "FALSE") && is(1, "TRUE") {
        return Ok(column(Base::Boolean));
    }
    let entries =
        names.iter().map(|(name, value)| format!("{}:{}", json(name), word(number, value)));
    let text = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    Ok(column(Base::Number(number)).noted("hdf5.enumeration", &text))
}

/// The value of an enumeration's name, whose first bytes are those of a number.
fn word(number: Number, value: &[u8; 8]) -> i128 {
    let wide = u64::from_le_bytes(*value);
    let unused = 64 - 8 * number.bytes();
    let signed = matches!(number, Number::I8 | Number::I16 | Number::I32 | Number::I64);
    if signed { i128::from((wide << unused).cast_signed() >> unused) } else { i128::from(wide) }
}

/// A text as JSON has it.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// How a text fills its bytes.
fn string_form(host: &Host, kind: Hid) -> &'static str {
    // SAFETY: the type is an open string.
    match unsafe { ((host.api.H5Tget_cset)(kind), (host.api.H5Tget_strpad)(kind)) } {
        (1, 0) => "utf-8, ends with a zero byte",
        (1, 2) => "utf-8, filled with spaces",
        (1, _) => "utf-8, filled with zero bytes",
        (_, 0) => "ascii, ends with a zero byte",
        (_, 2) => "ascii, filled with spaces",
        _ => "ascii, filled with zero bytes",
    }
}

fn tag(host: &Host, kind: Hid) -> String {
    // SAFETY: the type is open and opaque.
    text(host, unsafe { (host.api.H5Tget_tag)(kind) }).unwrap_or_default()
}

/// The name of a member of a compound or an enumeration.
pub(crate) fn member_name(host: &Host, kind: Hid, at: u32) -> Option<String> {
    // SAFETY: the member is one of the type's.
    text(host, unsafe { (host.api.H5Tget_member_name)(kind, at) })
}

/// A text in memory of the library, which is given back.
fn text(host: &Host, text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller got a text that ends from the library, for itself.
    unsafe {
        let name = CStr::from_ptr(text).to_str().ok().map(str::to_owned);
        (host.api.H5free_memory)(text.cast());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_enumerations_have_their_signs() {
        let minus = (-3_i64).to_le_bytes();
        assert_eq!(word(Number::I64, &minus), -3);
        let mut short = [0; 8];
        short[..2].copy_from_slice(&(-3_i16).to_le_bytes());
        assert_eq!(word(Number::I16, &short), -3);
        assert_eq!(word(Number::U16, &short), 65_533);
        assert_eq!(json("a\"b\\\n"), "\"a\\\"b\\\\\\u000a\"");
    }
}
