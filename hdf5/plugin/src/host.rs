//! The copies of libhdf5 that have loaded this plugin, one slot each.

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock};

use plasmon_hdf5_sys::{Api, Hid, INVALID, Library};

/// How many copies of libhdf5 one process can use the plugin with. Each costs a set of callbacks.
pub(crate) const HOSTS_MAX: usize = 12;

/// Versions of HDF5 below this one have other structures.
const OLDEST: (u32, u32, u32) = (1, 14, 0);
/// Versions from this one on are not known.
const TOO_NEW: u32 = 3;

/// The native connector's number.
const NATIVE: i32 = 0;

static HOSTS: [OnceLock<Host>; HOSTS_MAX] = [const { OnceLock::new() }; HOSTS_MAX];
static CLAIMING: Mutex<()> = Mutex::new(());

/// One libhdf5.
pub(crate) struct Host {
    /// Its functions.
    pub(crate) api: Api,
    path: String,
    library: Library,
    native: AtomicI64,
}

/// Which numbers an error has: whose it is, and what it is.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// A file cannot be opened.
    Open,
    /// Data cannot be read.
    Read,
    /// Data cannot be written.
    Write,
    /// An argument is wrong.
    Argument,
}

impl Host {
    /// The native connector of this libhdf5.
    pub(crate) fn native(&self) -> Hid {
        let known = self.native.load(Ordering::Acquire);
        if known != INVALID {
            return known;
        }
        // SAFETY: the library is running: it has called one of our callbacks.
        let found = unsafe { (self.api.H5VLget_connector_id_by_value)(NATIVE) };
        self.native.store(found, Ordering::Release);
        found
    }

    /// The library is about to close; identifiers end with it, and it may be opened again.
    pub(crate) fn forget_native(&self) {
        self.native.store(INVALID, Ordering::Release);
    }

    /// One of the library's global identifiers, such as `H5P_CLS_DATASET_CREATE_ID_g`.
    pub(crate) fn global(&self, name: &std::ffi::CStr) -> Hid {
        let Some(place) = self.library.symbol(name) else { return INVALID };
        // SAFETY: the names that are asked for are variables of type hid_t, which the library
        // has set when it was opened; it is open, for it calls us.
        unsafe { place.cast::<Hid>().read() }
    }

    /// Adds an entry to HDF5's stack of errors.
    pub(crate) fn push_error(&self, fault: Fault, message: &str) {
        let (major, minor) = match fault {
            Fault::Open => (c"H5E_FILE_g", c"H5E_CANTOPENFILE_g"),
            Fault::Read => (c"H5E_DATASET_g", c"H5E_READERROR_g"),
            Fault::Write => (c"H5E_DATASET_g", c"H5E_WRITEERROR_g"),
            Fault::Argument => (c"H5E_ARGS_g", c"H5E_BADVALUE_g"),
        };
        let text = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: the texts end with zero bytes and are copied by the library; the message is
        // an argument, never the format.
        unsafe {
            (self.api.push_error)(
                0,
                c"plasmon".as_ptr(),
                c"plasmon".as_ptr(),
                0,
                self.global(c"H5E_ERR_CLS_g"),
                self.global(major),
                self.global(minor),
                c"%s".as_ptr(),
                text.as_ptr(),
            );
        }
    }

    /// Runs what cleans up after a failed call, without losing the errors that the call left:
    /// every call of the library's interface clears them.
    pub(crate) fn keeping_errors<T>(&self, cleanup: impl FnOnce() -> T) -> T {
        // SAFETY: takes the errors away into a stack of their own.
        let stack = unsafe { (self.api.H5Eget_current_stack)() };
        let done = cleanup();
        if stack >= 0 {
            // SAFETY: the stack came from the line above; this puts it back and closes it.
            unsafe { (self.api.H5Eset_current_stack)(stack) };
        }
        done
    }
}

/// The host of a slot.
///
/// Only callbacks ask, and a slot's callbacks are known to HDF5 only after the slot was filled.
pub(crate) fn of<const SLOT: usize>() -> &'static Host {
    HOSTS[SLOT].get().expect("the slot was filled before its callbacks were handed out")
}

/// All hosts.
pub(crate) fn all() -> impl Iterator<Item = &'static Host> {
    HOSTS.iter().filter_map(OnceLock::get)
}

/// The slot of the libhdf5 that an address lies in, or why it gets none.
pub(crate) fn claim(caller: *const c_void) -> Result<usize, String> {
    let library = Library::of_address(caller as usize)
        .ok_or("the libhdf5 that loads the plugin cannot be told from its code")?;
    let _one_at_a_time = CLAIMING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (slot, place) in HOSTS.iter().enumerate() {
        match place.get() {
            Some(host) if host.path == library.path() => return Ok(slot),
            Some(_) => {}
            None => {
                let host = introduce(library)?;
                place.set(host).map_err(|_| "two threads filled one slot")?;
                return Ok(slot);
            }
        }
    }
    Err(format!("{HOSTS_MAX} other copies of libhdf5 in this process use it already"))
}

fn introduce(library: Library) -> Result<Host, String> {
    let path = library.path().to_owned();
    let api = Api::load(&library).map_err(|missing| {
        format!(
            "{path} has no function {}; HDF5 1.14.3 to 2.2 is needed",
            missing.0.to_string_lossy()
        )
    })?;
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: three numbers are written into what we own.
    unsafe { (api.H5get_libversion)(&raw mut major, &raw mut minor, &raw mut release) };
    if (major, minor, release) < OLDEST || major >= TOO_NEW {
        return Err(format!(
            "{path} is HDF5 {major}.{minor}.{release}; HDF5 1.14.3 to 2.2 is needed"
        ));
    }
    Ok(Host { api, path, library, native: AtomicI64::new(INVALID) })
}
