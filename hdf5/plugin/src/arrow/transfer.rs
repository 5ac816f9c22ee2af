//! A program's request to read or write a dataset.

use plasmon_hdf5_sys::Hid;

/// The arguments of a read or a write.
pub(crate) struct Call {
    /// The type of the elements in memory.
    pub(crate) memory_type: Hid,
    /// Which elements of the memory.
    pub(crate) memory_space: Hid,
    /// Which elements of the dataset.
    pub(crate) file_space: Hid,
    /// The transfer property list.
    pub(crate) dxpl: Hid,
}

/// The memory of a program.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// Is read into.
    Target(*mut u8),
    /// Is written from.
    Source(*const u8),
}

impl Memory {
    /// Whether the program gave none.
    pub(crate) fn is_null(self) -> bool {
        match self {
            Self::Target(memory) => memory.is_null(),
            Self::Source(memory) => memory.is_null(),
        }
    }
}
