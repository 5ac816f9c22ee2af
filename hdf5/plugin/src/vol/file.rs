//! Files: the skeleton is a file of the native connector under the same name.

use std::ffi::{CStr, OsStr, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plasmon_hdf5_model::{Home, Place};
use plasmon_hdf5_sys::arguments::{FileNamed, Reopen, file};
use plasmon_hdf5_sys::{
    ACCESS_TRUNCATE, ACCESS_WRITE, Herr, Hid, INVALID, KIND_FILE, Ptr, Request, Text,
};

use crate::backend;
use crate::container::Container;
use crate::guard;
use crate::host::{self, Fault, Host, Lists};
use crate::info::{self, Backend, Settings};
use crate::mpi_processes::Ranks;
use crate::node::{Kind, Node};
use crate::operations::attribute_mirror;
use crate::operations::unlinked_data;
use crate::skeleton::attributes;
use crate::skeleton::comment;
use crate::skeleton::file_object;
use crate::skeleton::with_file;
use crate::tie::{SkeletonFile, Tie};
use crate::vol::forward::{call, pass, refused};

/// The attribute of the root of a file that shows data of others.
const VIEW: &CStr = c"plasmon.view";
const VIEW_IS_READ_ONLY: &str = "the file is a view of existing Arrow data, which can only be \
                                 read: errno = 30, \
                                 error message = 'Read-only file system'";

pass! {
    /// Information about a file.
    get(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLfile_get)(under, native, arguments, dxpl, request);
    /// Operations of single connectors; netCDF needs those of the native one.
    optional(object, arguments: Ptr, dxpl: Hid, request: Request) -> Herr =
        |api, under, native| (api.H5VLfile_optional)(under, native, arguments, dxpl, request);
}

call! {
    /// `H5Fclose`. Others see what was written from here on at the latest. Data of datasets that
    /// were deleted goes when the skeleton no longer names it.
    ///
    /// A file that cannot be closed is HDF5's still, and is closed again later. After a failure of
    /// the native connector only that may be done with its object: the rest of it may be gone.
    close<SLOT>(object: Ptr, dxpl: Hid, request: Request) -> Herr = {
        let host = host::of::<SLOT>();
        let Some(node) = Node::of(object) else { return 0 };
        let is_whole = !node.close_failed.load(Ordering::Relaxed);
        if is_whole {
            guard::or((), || {
                host.keeping_errors(|| attribute_mirror::refresh_named(host, node));
            });
        }
        if !report(host, guard::or(Ok(()), || node.container.staging.finish())) {
            return -1;
        }
        if is_whole && node.container.writable && node.container.may_have_unused() {
            guard::or((), || host.keeping_errors(|| unlinked_data::remove(host, node)));
        }
        let done = (host.api.H5VLfile_close)(node.native(), host.native(), dxpl, request);
        if done < 0 {
            node.close_failed.store(true, Ordering::Relaxed);
            return done;
        }
        // Several processes write the skeleton here, together; the first then waits for the disk.
        let container = &node.container;
        let waits = container.ranks.is_some() && container.is_first() && container.writable;
        let sync = || if waits { container.sync() } else { Ok(()) };
        let answer = if report(host, guard::or(Ok(()), sync)) { done } else { -1 };
        Node::withdraw(object).map_or(answer, |node| node.end(answer))
    };
}

/// The program's access property list with the native connector in it; closed when dropped,
/// without touching the errors of the call that it was for.
struct NativeAccess {
    host: &'static Host,
    fapl: Hid,
}

impl NativeAccess {
    /// A copy of a list that names our connector.
    fn of(host: &'static Host, fapl: Hid) -> Self {
        // SAFETY: the list is the one that HDF5 opens the file with; the copy is ours.
        let copy = unsafe { (host.api.H5Pcopy)(fapl) };
        if copy != INVALID {
            // SAFETY: the copy is a file access property list; the native connector has no
            // settings.
            unsafe { (host.api.H5Pset_vol)(copy, host.native(), std::ptr::null()) };
        }
        Self { host, fapl: copy }
    }
}

impl Drop for NativeAccess {
    fn drop(&mut self) {
        // SAFETY: the copy is ours and used nowhere else.
        self.host.keeping_errors(|| unsafe { (self.host.api.H5Pclose)(self.fapl) });
    }
}

/// The data that a file named which is about to be replaced.
#[derive(Default)]
struct ReplacedFile {
    /// Objects of stores.
    objects: Vec<Place>,
    /// The tie to its data, and the data, if the file owned it.
    data: Option<(Tie, Home)>,
}

impl ReplacedFile {
    /// That of a file under a name, if there is one.
    fn of(host: &'static Host, path: &Path) -> Self {
        let read = |under| {
            let objects = unlinked_data::objects(host, under, KIND_FILE).unwrap_or_default();
            let tie = Tie::of_file(host, under, path.to_owned());
            let data = tie.owned().map(|home| (tie, home));
            Some(Self { objects, data })
        };
        let found = || if path.is_file() { with_file(host, path, read) } else { None };
        guard::or(None, found).unwrap_or_default()
    }
}

/// The path under which a file is known, which a name may lead to through links.
///
/// # Safety
///
/// The name is a text that ends.
unsafe fn path_of(name: Text) -> PathBuf {
    // SAFETY: promised by the caller.
    let name = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    std::fs::canonicalize(name).unwrap_or_else(|_| name.to_owned())
}

/// `H5Fcreate`.
pub(crate) unsafe extern "C" fn create<const SLOT: usize>(
    name: Text,
    flags: c_uint,
    fcpl: Hid,
    fapl: Hid,
    dxpl: Hid,
    request: Request,
) -> Ptr {
    let host = host::of::<SLOT>();
    let Some(settings) = settings(host, fapl) else { return std::ptr::null_mut() };
    let access = NativeAccess::of(host, fapl);
    if let Err(error) = guard::or(Ok(()), || backend::check(&settings)) {
        host.push_error(Fault::Open, &error);
        return std::ptr::null_mut();
    }
    let first = Ranks::of_list(host, fapl).is_none_or(|ranks| ranks.is_first());
    let old = if flags & ACCESS_TRUNCATE != 0 && first {
        // SAFETY: HDF5 hands us a text that ends.
        ReplacedFile::of(host, &unsafe { path_of(name) })
    } else {
        ReplacedFile::default()
    };
    // SAFETY: HDF5 hands us arguments as its interface defines them.
    let under =
        unsafe { (host.api.H5VLfile_create)(name, flags, fcpl, access.fapl, dxpl, request) };
    if under.is_null() {
        // Nothing more may be asked of the library: that would lose why it failed.
        return under;
    }
    // SAFETY: as above.
    let container = unsafe { container(host, name, ACCESS_WRITE, fapl, settings) };
    container.learn(host, under);
    clear(host, &container, old);
    Node::hand_out(under, Kind::File, Arc::new(container))
}

/// The connector's settings; what is wrong with them is said where a file is opened.
fn settings(host: &Host, fapl: Hid) -> Option<Settings> {
    match guard::or(Ok(Settings::default()), || info::of_list(host, fapl)) {
        Ok(settings) => Some(settings),
        Err(error) => {
            host.push_error(Fault::Open, &error);
            None
        }
    }
}

/// Information about a file that is opened.
///
/// # Safety
///
/// The name is a text that ends.
unsafe fn container(
    host: &'static Host,
    name: Text,
    flags: c_uint,
    fapl: Hid,
    settings: Settings,
) -> Container {
    // SAFETY: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: both are lists for opening files, the second the library's default.
    let is_usual = unsafe {
        let usual = host.default_list(Lists::FileAccess);
        (host.api.H5Pget_driver)(fapl) == (host.api.H5Pget_driver)(usual)
    };
    let writable = flags & ACCESS_WRITE != 0;
    let ranks = Ranks::of_list(host, fapl);
    // Memory of a store is written by one process: among several, data stays with HDF5.
    let shared = ranks.is_some() && settings.backend == Backend::Files;
    let mut container = Container::new(name, writable, writable && (is_usual || shared), settings);
    container.ranks = ranks;
    if !is_usual && !container.path().is_file() && container.ranks.is_none() {
        container.place_at(guard::or(None, || file_object::path(host, fapl)));
    }
    container
}

/// Takes away what a file had that is no more.
fn clear(host: &'static Host, container: &Container, old: ReplacedFile) {
    if container.keeps_arrow && container.is_first() {
        guard::or((), || {
            let says = |path: &Path| with_file(host, path, |under| comment::data_of(host, under));
            let removed = old.data.and_then(|(tie, home)| tie.remove_data(&home, says));
            backend::clear(container, &old.objects, removed);
        });
    }
}

/// `H5Fopen`.
pub(crate) unsafe extern "C" fn open<const SLOT: usize>(
    name: Text,
    flags: c_uint,
    fapl: Hid,
    dxpl: Hid,
    request: Request,
) -> Ptr {
    let host = host::of::<SLOT>();
    let Some(settings) = settings(host, fapl) else { return std::ptr::null_mut() };
    let access = NativeAccess::of(host, fapl);
    // SAFETY: HDF5 hands us arguments as its interface defines them.
    let under = unsafe { (host.api.H5VLfile_open)(name, flags, access.fapl, dxpl, request) };
    if under.is_null() {
        return under;
    }
    if flags & ACCESS_WRITE != 0
        && guard::or(false, || attributes::has(host, under, KIND_FILE, VIEW))
    {
        // SAFETY: the file was opened above, and not handed out yet.
        unsafe { (host.api.H5VLfile_close)(under, host.native(), dxpl, request) };
        host.push_error(Fault::Open, VIEW_IS_READ_ONLY);
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let container = unsafe { container(host, name, flags, fapl, settings) };
    container.learn(host, under);
    if let Err(error) = guard::or(Ok(()), || announce(host, under, &container)) {
        // SAFETY: the file was opened above, and not handed out yet.
        unsafe { (host.api.H5VLfile_close)(under, host.native(), dxpl, request) };
        host.push_error(Fault::Open, &error);
        return std::ptr::null_mut();
    }
    Node::hand_out(under, Kind::File, Arc::new(container))
}

/// Gives data another generation that several processes may change: each of them writes when it
/// wants to, and only here are they together.
fn announce(host: &'static Host, under: Ptr, container: &Container) -> Result<(), String> {
    let Some(tie) = container.tie().filter(|tie| tie.has_data()) else { return Ok(()) };
    if container.ranks.is_none() || !container.writable {
        return Ok(());
    }
    let from = SkeletonFile { host, under, kind: KIND_FILE, ranks: container.ranks.as_ref() };
    tie.before_change(from, Path::new(""))
}

/// Whether something succeeded; reports the error to the program if not.
fn report(host: &Host, done: Result<(), String>) -> bool {
    done.map_err(|error| host.push_error(Fault::Write, &error)).is_ok()
}

/// Flushing, opening again, asking for and deleting a file by its name, comparing.
pub(crate) unsafe extern "C" fn specific<const SLOT: usize>(
    object: Ptr,
    arguments: Ptr,
    dxpl: Hid,
    request: Request,
) -> Herr {
    let host = host::of::<SLOT>();
    let call = |under: Ptr, arguments: Ptr| {
        // SAFETY: the object is the native connector's, or null where the operation has none.
        unsafe { (host.api.H5VLfile_specific)(under, host.native(), arguments, dxpl, request) }
    };
    // SAFETY: HDF5 hands us an object of ours, or null, and arguments that begin with the
    // operation's number and are what that number says.
    unsafe {
        let Some(under) = Node::under(object) else { return refused(host) };
        match arguments.cast::<i32>().read() {
            file::IS_ACCESSIBLE | file::DELETE => {
                let mut named = arguments.cast::<FileNamed>().read();
                let deletes = named.operation == file::DELETE;
                let known = || deletes.then(|| info::of_list(host, named.fapl).ok()).flatten();
                let settings = guard::or(None, known);
                let access = NativeAccess::of(host, named.fapl);
                named.fapl = access.fapl;
                let old = match deletes {
                    true => ReplacedFile::of(host, &path_of(named.name)),
                    false => ReplacedFile::default(),
                };
                let done = call(std::ptr::null_mut(), (&raw mut named).cast());
                if done >= 0 && deletes {
                    let settings = settings.unwrap_or_default();
                    let name = CStr::from_ptr(named.name);
                    clear(host, &Container::new(name, true, true, settings), old);
                }
                done
            }
            file::REOPEN => {
                let done = call(under, arguments);
                let out = arguments.cast::<Reopen>().read().file;
                if done >= 0 && !out.read().is_null() {
                    out.write(Node::hand_out_beside(out.read(), Some(Kind::File), object));
                }
                done
            }
            file::FLUSH => {
                let node = Node::of(object);
                let commit = || node.map_or(Ok(()), |node| node.container.staging.commit_all());
                if !report(host, guard::or(Ok(()), commit)) {
                    return -1;
                }
                let done = call(under, arguments);
                let sync = || node.map_or(Ok(()), |node| node.container.sync());
                if done < 0 || report(host, guard::or(Ok(()), sync)) { done } else { -1 }
            }
            _ => call(under, arguments),
        }
    }
}
