//! How the columns of a dataset are seen from a type in memory.

use std::ffi::CString;
use std::ops::Range;

use plasmon_hdf5_model::{Column, Convert, Member};
use plasmon_hdf5_sys::Hid;

use crate::arrow::datatype::{self, CLASS_COMPOUND};
use crate::arrow::transfer::Memory;
use crate::host::Host;
use crate::id::Id;

/// A column with its types on both sides.
pub(crate) struct ColumnTypes {
    /// For the transfer.
    pub(crate) member: Member,
    file_type: Kind,
    memory_type: Kind,
}

/// A type.
enum Kind {
    /// One that the caller keeps open.
    Given(Hid),
    /// A member of one.
    Part(Id),
}

impl Kind {
    fn get(&self) -> Hid {
        match self {
            Self::Given(id) => *id,
            Self::Part(id) => id.get(),
        }
    }
}

/// The columns that a type in memory selects from a dataset of another type. Members of a compound
/// are found by their names; those that the dataset lacks are left as they are, as HDF5 does.
pub(crate) fn seen(
    host: &'static Host,
    columns: &[Column],
    file_type: Hid,
    memory_type: Hid,
) -> Result<Vec<ColumnTypes>, String> {
    let mut all = Vec::new();
    if datatype::is_structure(host, file_type) {
        let view = View { host, columns };
        view.structure(0..columns.len(), 0, (file_type, memory_type), 0, &mut all)?;
    } else {
        let (file, memory) = (Kind::Given(file_type), Kind::Given(memory_type));
        all.push(one(host, (0, &columns[0]), file, memory, 0));
    }
    Ok(all)
}

struct View<'a> {
    host: &'static Host,
    columns: &'a [Column],
}

impl View<'_> {
    /// The columns of a compound, whose members have their names at a depth.
    fn structure(
        &self,
        range: Range<usize>,
        depth: usize,
        (file_type, memory_type): (Hid, Hid),
        offset: usize,
        all: &mut Vec<ColumnTypes>,
    ) -> Result<(), String> {
        let host = self.host;
        // SAFETY: the type is the program's, or a member of it.
        if unsafe { (host.api.H5Tget_class)(memory_type) } != CLASS_COMPOUND {
            return Err("unable to convert between src and dst datatypes: the dataset is a \
                        compound, the memory is not"
                .to_owned());
        }
        // SAFETY: the type is an open compound.
        let count = unsafe { (host.api.H5Tget_nmembers)(memory_type) };
        for at in 0..u32::try_from(count).unwrap_or(0) {
            let name = datatype::member_name(host, memory_type, at).unwrap_or_default();
            let within = &self.columns[range.clone()];
            let named = |column: &Column| column.path.get(depth) == Some(&name);
            let Some(first) = within.iter().position(named) else { continue };
            let columns = within[first..].iter().take_while(|column| named(column)).count();
            let first = range.start + first;
            let found = first..first + columns;
            let file_part = file_member(host, file_type, &name)?;
            // SAFETY: the member is one of the type's.
            let (part, part_offset) = unsafe {
                (
                    (host.api.H5Tget_member_type)(memory_type, at),
                    (host.api.H5Tget_member_offset)(memory_type, at),
                )
            };
            let part = Id::of_type(host, part).ok_or("a member of a type has no type")?;
            let offset = offset + part_offset;
            if self.columns[first].path.len() > depth + 1 {
                let types = (file_part.get(), part.get());
                self.structure(found, depth + 1, types, offset, all)?;
                continue;
            }
            let column = (first, &self.columns[first]);
            all.push(one(host, column, Kind::Part(file_part), Kind::Part(part), offset));
        }
        Ok(())
    }
}

/// The type of a member by its name.
fn file_member(host: &'static Host, kind: Hid, name: &str) -> Result<Id, String> {
    let unknown = || format!("the dataset has no member {name}");
    let name = CString::new(name).map_err(|_| unknown())?;
    // SAFETY: the type is an open compound; the name ends.
    let part = unsafe {
        let at = (host.api.H5Tget_member_index)(kind, name.as_ptr());
        (host.api.H5Tget_member_type)(kind, u32::try_from(at).map_err(|_| unknown())?)
    };
    Id::of_type(host, part).ok_or_else(unknown)
}

fn one(
    host: &Host,
    (column, about): (usize, &Column),
    file_type: Kind,
    memory_type: Kind,
    offset: usize,
) -> ColumnTypes {
    // SAFETY: both types are open.
    let (memory_bytes, equal) = unsafe {
        (
            (host.api.H5Tget_size)(memory_type.get()),
            (host.api.H5Tequal)(file_type.get(), memory_type.get()) > 0,
        )
    };
    let member =
        Member { column, file_bytes: about.bytes(), memory_bytes, offset, converts: !equal };
    ColumnTypes { member, file_type, memory_type }
}

/// Conversions by the library.
pub(crate) struct Converter {
    host: &'static Host,
    pairs: Vec<Pair>,
    dxpl: Hid,
}

/// From which type into which.
struct Pair {
    from: Hid,
    to: Hid,
    /// How many bytes an element of what the library calls the background has; 0 without one.
    background: usize,
}

impl Converter {
    /// The conversions that a transfer needs. The columns seen must outlive it.
    pub(crate) fn new(
        host: &'static Host,
        seen: &[ColumnTypes],
        memory: Memory,
        dxpl: Hid,
    ) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for seen in seen {
            let (file, inside) = (seen.file_type.get(), seen.memory_type.get());
            let (from, to) = match memory {
                Memory::Target(_) => (file, inside),
                Memory::Source(_) => (inside, file),
            };
            // SAFETY: both types are open.
            let (parts, size) = unsafe {
                let members = |kind| {
                    let compound = (host.api.H5Tget_class)(kind) == CLASS_COMPOUND;
                    compound.then(|| (host.api.H5Tget_nmembers)(kind))
                };
                ((members(from), members(to)), (host.api.H5Tget_size)(to))
            };
            if let (Memory::Source(_), (Some(given), Some(wanted))) = (memory, parts)
                && given < wanted
            {
                return Err("one part of complex numbers cannot be written by itself".to_owned());
            }
            let background = if parts.1.is_some() { size } else { 0 };
            pairs.push(Pair { from, to, background });
        }
        Ok(Self { host, pairs, dxpl })
    }
}

impl Convert for Converter {
    fn convert(&mut self, member: usize, elements: usize, buffer: &mut [u8]) -> Result<(), String> {
        let pair = &self.pairs[member];
        let mut background = vec![0_u8; pair.background * elements];
        let background =
            if background.is_empty() { std::ptr::null_mut() } else { background.as_mut_ptr() };
        // SAFETY: both types are open; the buffer has room for that many elements of either, the
        // background for those of a compound.
        let done = unsafe {
            let (buffer, background) = (buffer.as_mut_ptr().cast(), background.cast());
            (self.host.api.H5Tconvert)(pair.from, pair.to, elements, buffer, background, self.dxpl)
        };
        if done < 0 {
            return Err("unable to convert between src and dst datatypes".to_owned());
        }
        Ok(())
    }
}
