//! The libhdf5 that a piece of code lies in.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// A shared library of this process. It is never unloaded by us.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    path: String,
}

// SAFETY: the handle is an opaque name for the loader, which may be asked from any thread.
unsafe impl Send for Library {}
// SAFETY: as above; the library is not changed through the handle.
unsafe impl Sync for Library {}

impl Library {
    /// The library whose code lies at an address; nothing new is loaded.
    ///
    /// A program that has HDF5 linked into itself is the main program: it has no name to look up.
    #[must_use]
    pub fn of_address(address: usize) -> Option<Self> {
        // SAFETY: an all-zero Dl_info is valid: it consists of pointers.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr takes any address and writes into what we own.
        if unsafe { libc::dladdr(address as *const c_void, &raw mut found) } == 0
            || found.dli_fname.is_null()
        {
            return None;
        }
        // SAFETY: the loader keeps the name as long as the library is loaded, and its code is
        // running right now, on behalf of the caller.
        let path = unsafe { CStr::from_ptr(found.dli_fname) };
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        // SAFETY: the path is a text that ends; NOLOAD runs no code of the library.
        let mut handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        if handle.is_null() {
            // SAFETY: a null name means the main program, which is always loaded.
            handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        }
        let path = path.to_string_lossy().into_owned();
        NonNull::new(handle).map(|handle| Self { handle, path })
    }

    /// Where the library was loaded from.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The address of a variable.
    ///
    /// A program that is linked to the library and names one of its variables has its own copy of
    /// it, and the loader lets the library use that one, too.
    #[must_use]
    pub fn variable(&self, name: &CStr) -> Option<NonNull<c_void>> {
        program_symbol(name).filter(|place| is_in_program(*place)).or_else(|| self.symbol(name))
    }

    /// The address of a function.
    #[must_use]
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle came from dlopen and is never closed; the name is a text that ends.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

/// The address of something in the main program or in what it is linked to.
#[must_use]
pub fn program_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a null name means the main program and what it is linked to; always loaded.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
    // SAFETY: the handle came from dlopen; the name is a text that ends.
    NonNull::new(unsafe { libc::dlsym(program, name.as_ptr()) })
}

/// Whether something lies in the main program itself.
fn is_in_program(place: NonNull<c_void>) -> bool {
    // SAFETY: the kernel tells every process where its program begins to run.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let base = |address: *const c_void| {
        // SAFETY: an all-zero Dl_info is valid: it consists of pointers.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr takes any address and writes into what we own.
        (unsafe { libc::dladdr(address, &raw mut found) } != 0).then_some(found.dli_fbase)
    };
    let program = usize::try_from(entry).ok().and_then(|entry| base(entry as *const c_void));
    program.is_some() && program == base(place.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_the_library_that_holds_it() {
        let library =
            Library::of_address(libc::getpid as *const c_void as usize).expect("libc is loaded");
        assert!(library.path().contains("libc"), "{}", library.path());
        assert_eq!(
            library.symbol(c"getpid").map(|found| found.as_ptr().cast_const()),
            Some(libc::getpid as *const c_void)
        );
        assert!(library.symbol(c"H5open_or_so").is_none());
    }

    #[test]
    fn addresses_of_the_program_and_of_a_library_are_distinguished() {
        static OURS: u8 = 1;
        let libc = NonNull::new(libc::getpid as *mut c_void).expect("an address");
        assert!(is_in_program(NonNull::from(&OURS).cast()));
        assert!(!is_in_program(libc));
        let library = Library::of_address(libc.as_ptr() as usize).expect("libc is loaded");
        assert_eq!(library.variable(c"environ"), library.symbol(c"environ"));
        assert!(library.variable(c"no_such_variable").is_none());
    }

    #[test]
    fn an_address_without_code_has_no_library() {
        assert!(Library::of_address(0).is_none());
    }
}
