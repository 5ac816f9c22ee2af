//! The copies of libhdf5 that have loaded this plugin, one slot each.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use plasmon_hdf5_sys::{Api, DEFAULT, Hid, INVALID, Library, Mpi, Ptr, VolClass};

/// How many copies of libhdf5 one process can use the plugin with. Each costs a set of callbacks.
pub(crate) const HOSTS_MAX: usize = 12;

/// Versions of HDF5 below this one have other structures.
const OLDEST: (u32, u32, u32) = (1, 14, 0);
/// The first version that is not supported.
const TOO_NEW: u32 = 3;

/// The native connector's number.
const NATIVE: i32 = 0;

static HOSTS: [OnceLock<Host>; HOSTS_MAX] = [const { OnceLock::new() }; HOSTS_MAX];
static CLAIMING: Mutex<()> = Mutex::new(());

/// One libhdf5.
pub(crate) struct Host {
    /// Its functions.
    pub(crate) api: Api,
    /// Its version.
    pub(crate) version: (u32, u32, u32),
    /// The MPI that it was built with.
    mpi: OnceLock<Option<Mpi>>,
    path: String,
    library: Library,
    /// Where its global variables are, those that were asked for.
    variables: Mutex<HashMap<&'static CStr, Option<usize>>>,
    native: AtomicI64,
    /// The callbacks that it was given.
    table: OnceLock<VolClass>,
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
}

/// The classes of property lists that we need the defaults of.
#[derive(Clone, Copy)]
pub(crate) enum Lists {
    /// Of transfers.
    Transfer,
    /// Of making links.
    LinkCreation,
    /// Of following links.
    LinkAccess,
    /// Of making attributes.
    AttributeCreation,
    /// Of opening attributes.
    AttributeAccess,
    /// Of opening files.
    FileAccess,
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

    /// The callbacks of this libhdf5, which `make` makes the first time.
    pub(crate) fn fill_table(&self, make: impl FnOnce() -> VolClass) -> &VolClass {
        self.table.get_or_init(make)
    }

    /// The callbacks of this libhdf5. Only callbacks use it.
    pub(crate) fn table(&self) -> &VolClass {
        self.table.get().expect("a callback is called from the table that it is in")
    }

    /// The MPI that this libhdf5 was built with, if it was. Looked for when a file is opened: the
    /// program has started it by then.
    pub(crate) fn mpi(&self) -> Option<&Mpi> {
        self.mpi.get_or_init(|| Mpi::load(&self.library)).as_ref()
    }

    /// The library is about to close; identifiers end with it, and it may be opened again.
    pub(crate) fn forget_native(&self) {
        self.native.store(INVALID, Ordering::Release);
    }

    /// One of the library's global identifiers, such as `H5P_CLS_DATASET_CREATE_ID_g`.
    pub(crate) fn global(&self, name: &'static CStr) -> Hid {
        let mut places = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked up once: the loader takes microseconds to tell where a variable lies.
        let place = *places.entry(name).or_insert_with(|| {
            self.library.variable(name).map(|place| place.as_ptr().expose_provenance())
        });
        drop(places);
        let Some(place) = place.map(std::ptr::with_exposed_provenance::<Hid>) else {
            return INVALID;
        };
        // SAFETY: the names that are asked for are variables of type hid_t, which the library
        // has set when it was opened; it is open, for it calls us.
        unsafe { place.read() }
    }

    /// Whether a transfer property list has a formula to apply to the data.
    pub(crate) fn has_transform(&self, dxpl: Hid) -> bool {
        if dxpl == DEFAULT || dxpl == self.default_list(Lists::Transfer) {
            return false;
        }
        let mut formula: Ptr = std::ptr::null_mut();
        let place = (&raw mut formula).cast();
        // SAFETY: the list is the program's; the property of this name is a pointer, and the copy
        // that is made of a formula is lost: it is small, and transforms are rare.
        let done = unsafe { (self.api.H5Pget)(dxpl, c"data_transform".as_ptr(), place) };
        done >= 0 && !formula.is_null()
    }

    /// Adds an entry to HDF5's stack of errors.
    pub(crate) fn push_error(&self, fault: Fault, message: &str) {
        let (major, minor) = match fault {
            Fault::Open => (c"H5E_FILE_g", c"H5E_CANTOPENFILE_g"),
            Fault::Read => (c"H5E_DATASET_g", c"H5E_READERROR_g"),
            Fault::Write => (c"H5E_DATASET_g", c"H5E_WRITEERROR_g"),
        };
        let text = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: the strings end with zero bytes and are copied by the library; the message is
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

    /// A default property list of the library, by the name of its class.
    pub(crate) fn default_list(&self, class: Lists) -> Hid {
        self.global(match class {
            Lists::Transfer => c"H5P_LST_DATASET_XFER_ID_g",
            Lists::LinkCreation => c"H5P_LST_LINK_CREATE_ID_g",
            Lists::LinkAccess => c"H5P_LST_LINK_ACCESS_ID_g",
            Lists::AttributeCreation => c"H5P_LST_ATTRIBUTE_CREATE_ID_g",
            Lists::AttributeAccess => c"H5P_LST_ATTRIBUTE_ACCESS_ID_g",
            Lists::FileAccess => c"H5P_LST_FILE_ACCESS_ID_g",
        })
    }

    /// A copy of a property list, which is the caller's then; negative when there is none.
    pub(crate) fn copy_list(&self, list: Hid) -> Hid {
        // SAFETY: the list is one that the program or the library gave us.
        unsafe { (self.api.H5Pcopy)(list) }
    }

    /// Runs what may fail without harm: HDF5 prints nothing of it, and its errors are forgotten.
    pub(crate) fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        let [mut function, mut data]: [Ptr; 2] = [std::ptr::null_mut(); 2];
        // SAFETY: both pointers are written into what we own.
        let known = unsafe {
            (self.api.H5Eget_auto2)(DEFAULT, &raw mut function, &raw mut data) >= 0
                && (self.api.H5Eset_auto2)(DEFAULT, std::ptr::null_mut(), std::ptr::null_mut()) >= 0
        };
        let done = self.keeping_errors(work);
        if known {
            // SAFETY: the program's own settings, as they were.
            unsafe { (self.api.H5Eset_auto2)(DEFAULT, function, data) };
        }
        done
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

/// The host whose path contains a text, or without a text the only one.
pub(crate) fn named(part: Option<&str>) -> Option<&'static Host> {
    let mut hosts = HOSTS.iter().filter_map(OnceLock::get);
    let found = hosts.find(|host| part.is_none_or(|part| host.path.contains(part)))?;
    (part.is_some() || hosts.next().is_none()).then_some(found)
}

/// The libhdf5 that an address lies in and its slot, or the reason why it gets none.
pub(crate) fn claim(caller: *const c_void) -> Result<(usize, &'static Host), String> {
    let library = Library::of_address(caller as usize)
        .ok_or("cannot determine which libhdf5 loads the plugin")?;
    let _one_at_a_time = CLAIMING.lock().unwrap_or_else(PoisonError::into_inner);
    for (slot, place) in HOSTS.iter().enumerate() {
        match place.get() {
            Some(host) if host.path == library.path() => return Ok((slot, host)),
            Some(_) => {}
            None => {
                let host = introduce(library)?;
                return Ok((slot, place.get_or_init(|| host)));
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
    Ok(Host {
        api,
        version: (major, minor, release),
        mpi: OnceLock::new(),
        path,
        library,
        variables: Mutex::new(HashMap::new()),
        native: AtomicI64::new(INVALID),
        table: OnceLock::new(),
    })
}
