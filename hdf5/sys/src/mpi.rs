//! MPI, as a libhdf5 that was built with it sees it.
//!
//! Nothing here links to MPI: its functions are looked up through the libhdf5, which depends on
//! the MPI of the program. Implementations differ in what a communicator is (a number in MPICH and
//! its descendants, a pointer in Open MPI), so one is held as a word: both are passed in one
//! register, and a number occupies its lower half.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use crate::library::Library;
use crate::types::{Herr, Hid};

/// A communicator, an info or a datatype.
pub type Handle = usize;

/// Open MPI's symbol for the datatype of bytes.
const OPEN_MPI_BYTE: &CStr = c"ompi_mpi_byte";
/// The datatype of bytes in the binary interface that MPICH and its descendants share.
const MPICH_BYTE: Handle = 0x4c00_010d;
/// The names of the libraries with that interface, as in the text of their versions.
const MPICH_FAMILY: [&str; 3] = ["MPICH", "Intel(R) MPI", "MVAPICH"];
/// The room that MPI requires for the text of a version.
const VERSION_BYTES: usize = 8192;

type GetList = unsafe extern "C" fn(Hid, *mut Handle, *mut Handle) -> Herr;
type Broadcast = unsafe extern "C" fn(*mut u8, c_int, Handle, c_int, Handle) -> c_int;

/// The functions of MPI that are needed, and those of HDF5 that only a build with MPI has.
#[derive(Clone, Copy)]
pub struct Mpi {
    /// `H5FD_mpio_init`: the driver's identifier.
    pub driver: unsafe extern "C" fn() -> Hid,
    /// `H5Pget_fapl_mpio`: copies of a list's communicator and info, the caller's then. Either
    /// place may be null.
    pub of_list: GetList,
    /// `MPI_Comm_rank`.
    pub rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    /// `MPI_Bcast`.
    pub broadcast: Broadcast,
    /// `MPI_Comm_free`.
    pub free_communicator: unsafe extern "C" fn(*mut Handle) -> c_int,
    /// `MPI_Finalized`.
    pub is_over: unsafe extern "C" fn(*mut c_int) -> c_int,
    /// The datatype of bytes.
    pub byte: Handle,
}

impl Mpi {
    /// The MPI of a libhdf5; `None` when it was built without, or with one that is not known.
    #[must_use]
    pub fn load(library: &Library) -> Option<Self> {
        /// The address of a function as the function.
        ///
        /// # Safety
        ///
        /// The symbol is a function of this type.
        unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Option<F> {
            let found = library.symbol(name)?;
            assert_eq!(size_of::<F>(), size_of::<NonNull<()>>(), "a function is an address");
            // SAFETY: promised by the caller; an address has the size of a function pointer.
            Some(unsafe { std::mem::transmute_copy(&found) })
        }
        // SAFETY: the symbols are functions of HDF5 and MPI of these signatures, where handles are
        // words or numbers in the lower half of one.
        unsafe {
            Some(Self {
                driver: function(library, c"H5FD_mpio_init")?,
                of_list: function(library, c"H5Pget_fapl_mpio")?,
                rank: function(library, c"MPI_Comm_rank")?,
                broadcast: function(library, c"MPI_Bcast")?,
                free_communicator: function(library, c"MPI_Comm_free")?,
                is_over: function(library, c"MPI_Finalized")?,
                byte: byte(library, function(library, c"MPI_Get_library_version")?)?,
            })
        }
    }
}

/// The datatype of bytes, which every family of implementations has its own of.
fn byte(
    library: &Library,
    version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
) -> Option<Handle> {
    if let Some(open) = library.symbol(OPEN_MPI_BYTE) {
        return Some(open.as_ptr().addr());
    }
    let (mut text, mut length) = (vec![0_u8; VERSION_BYTES], 0);
    // SAFETY: there is the room that MPI asks for; this function may be called before others.
    unsafe { version(text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
    MPICH_FAMILY.iter().any(|name| text.contains(name)).then_some(MPICH_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_mpi_has_none() {
        let address = libc::getpid as *const std::ffi::c_void as usize;
        let library = Library::of_address(address).expect("libc is loaded");
        assert!(Mpi::load(&library).is_none());
    }
}
