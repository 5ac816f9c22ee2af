//! libfabric itself, found at run time: a program that uses this crate starts without it.
//!
//! The library is opened once and never closed: its providers may have threads, and handlers that
//! run when the process ends.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

use crate::abi::{FabricAttr, FidFabric, Info, version};
use crate::error::Error;
use crate::signals::keeping_signals;
use crate::version::Version;

/// The name by which all versions with this ABI are found.
const NAME: &CStr = c"libfabric.so.1";

/// The oldest version that is used.
const OLDEST: Version = Version { major: 1, minor: 17 };

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type Open = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;

/// The calls that are symbols of the library; all others go through tables.
pub(crate) struct Library {
    pub(crate) version: Version,
    pub(crate) getinfo: GetInfo,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut Info),
    pub(crate) dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(crate) fabric: Open,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The version of the libfabric that is installed, or why there is none that can be used.
pub fn installed() -> Result<Version, Error> {
    library().map(|library| library.version)
}

/// The library, opened by the first call.
pub(crate) fn library() -> Result<&'static Library, Error> {
    static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
    LIBRARY.get_or_init(|| keeping_signals(Library::open)).as_ref().map_err(Clone::clone)
}

impl Library {
    fn open() -> Result<Self, Error> {
        // SAFETY: the name is a C string, and initializers of the library are trusted as those of
        // every library that a program is linked with are.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Error::NoLibrary { reason: loader_error() });
        }
        let get_version = symbol(handle, c"fi_version")?;
        // SAFETY: fi_version has this type in all versions of the library.
        let get_version = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(get_version)
        };
        // SAFETY: it has no arguments and no conditions.
        let found = unsafe { get_version() };
        let found = Version { major: found >> 16, minor: found & 0xffff };
        if version(found.major, found.minor) < version(OLDEST.major, OLDEST.minor) {
            return Err(Error::OldLibrary { found });
        }
        let getinfo = symbol(handle, c"fi_getinfo")?;
        let freeinfo = symbol(handle, c"fi_freeinfo")?;
        let dupinfo = symbol(handle, c"fi_dupinfo")?;
        let fabric = symbol(handle, c"fi_fabric")?;
        let strerror = symbol(handle, c"fi_strerror")?;
        // SAFETY: the symbols are functions of these types since 1.3 of the ABI.
        Ok(unsafe {
            Self {
                version: found,
                getinfo: std::mem::transmute::<*mut c_void, GetInfo>(getinfo),
                freeinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Info)>(
                    freeinfo,
                ),
                dupinfo: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const Info) -> *mut Info,
                >(dupinfo),
                fabric: std::mem::transmute::<*mut c_void, Open>(fabric),
                strerror: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int) -> *const c_char,
                >(strerror),
            }
        })
    }

    /// What a call returned, as a result: negative numbers are errors.
    pub(crate) fn check(&self, call: &'static str, returned: c_int) -> Result<(), Error> {
        if returned >= 0 { Ok(()) } else { Err(self.error(call, -returned)) }
    }

    /// The error of this number.
    pub(crate) fn error(&self, call: &'static str, code: i32) -> Error {
        // SAFETY: the call takes every number, and returns a string that is never freed.
        let text = unsafe { (self.strerror)(code) };
        let message = if text.is_null() {
            String::from("an unknown error")
        } else {
            // SAFETY: it is a C string, see above.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Error::Call { call, code, message }
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, Error> {
    // SAFETY: the handle is that of an open library, the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() { Err(Error::NoLibrary { reason: loader_error() }) } else { Ok(found) }
}

/// What the loader says of the last call that failed.
fn loader_error() -> String {
    // SAFETY: the string is the thread's, and is valid until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("the loader does not say why");
    }
    // SAFETY: see above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
