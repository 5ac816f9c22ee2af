//! How the columns of a dataset are seen from a type in memory.

use plasmon_hdf5_model::{Convert, Member, Table};
use plasmon_hdf5_sys::Hid;

use crate::array::Memory;
use crate::host::Host;
use crate::id::Id;
use crate::kinds;

/// A column with its types on both sides.
pub(crate) struct Seen {
    /// For the transfer.
    pub(crate) member: Member,
    file_type: Hid,
    memory_type: MemoryType,
}

/// The type of a member in memory.
enum MemoryType {
    /// The program's own.
    Given(Hid),
    /// A member of the program's.
    Part(Id),
}

impl MemoryType {
    fn get(&self) -> Hid {
        match self {
            Self::Given(id) => *id,
            Self::Part(id) => id.get(),
        }
    }
}

/// The columns that a type in memory asks for. Members of a compound are found by their names;
/// those that the dataset lacks are left as they are, as HDF5 does.
pub(crate) fn seen(
    host: &'static Host,
    table: &Table,
    memory_type: Hid,
) -> Result<Vec<Seen>, String> {
    // SAFETY: the type is the one that the program gave.
    let class = unsafe { (host.api.H5Tget_class)(memory_type) };
    let is_compound = class == kinds::CLASS_COMPOUND;
    if !is_compound {
        if let [_] = table.columns() {
            return Ok(vec![one(host, table, 0, MemoryType::Given(memory_type), 0)]);
        }
        return Err("unable to convert between src and dst datatypes: the dataset is a compound, \
                    the memory is not"
            .to_owned());
    }
    // SAFETY: the type is an open compound.
    let count = unsafe { (host.api.H5Tget_nmembers)(memory_type) };
    let mut all = Vec::new();
    for at in 0..u32::try_from(count).unwrap_or(0) {
        let name = kinds::member_name(host, memory_type, at).unwrap_or_default();
        let Some(column) = table.columns().iter().position(|column| column.name == name) else {
            continue;
        };
        // SAFETY: the member is one of the type's.
        let (part, offset) = unsafe {
            (
                (host.api.H5Tget_member_type)(memory_type, at),
                (host.api.H5Tget_member_offset)(memory_type, at),
            )
        };
        let part = Id::of_type(host, part).ok_or("a member of a type has no type")?;
        all.push(one(host, table, column, MemoryType::Part(part), offset));
    }
    Ok(all)
}

fn one(host: &Host, table: &Table, column: usize, memory_type: MemoryType, offset: usize) -> Seen {
    let number = table.columns()[column].number;
    let file_type = kinds::type_of(host, number);
    // SAFETY: both types are open.
    let (memory_bytes, equal) = unsafe {
        (
            (host.api.H5Tget_size)(memory_type.get()),
            (host.api.H5Tequal)(file_type, memory_type.get()) > 0,
        )
    };
    let member =
        Member { column, file_bytes: number.bytes(), memory_bytes, offset, converts: !equal };
    Seen { member, file_type, memory_type }
}

/// Conversions by the library.
pub(crate) struct Converter {
    host: &'static Host,
    /// From which type into which.
    pairs: Vec<(Hid, Hid)>,
    dxpl: Hid,
}

impl Converter {
    /// The conversions that a transfer needs. The columns seen must outlive it.
    pub(crate) fn new(host: &'static Host, seen: &[Seen], memory: Memory, dxpl: Hid) -> Self {
        let pair = |seen: &Seen| match memory {
            Memory::Target(_) => (seen.file_type, seen.memory_type.get()),
            Memory::Source(_) => (seen.memory_type.get(), seen.file_type),
        };
        Self { host, pairs: seen.iter().map(pair).collect(), dxpl }
    }
}

impl Convert for Converter {
    fn convert(&mut self, member: usize, elements: usize, buffer: &mut [u8]) -> Result<(), String> {
        let (from, to) = self.pairs[member];
        let none = std::ptr::null_mut();
        // SAFETY: both types are open; the buffer has room for that many elements of either.
        let done = unsafe {
            let buffer = buffer.as_mut_ptr().cast();
            (self.host.api.H5Tconvert)(from, to, elements, buffer, none, self.dxpl)
        };
        if done < 0 {
            return Err("unable to convert between src and dst datatypes".to_owned());
        }
        Ok(())
    }
}
