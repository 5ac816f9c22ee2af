//! An open file: where its data is and whether new data goes there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plasmon_hdf5_model::Place;
use plasmon_hdf5_sys::Ptr;

use crate::data::source::Source;
use crate::data::staging::Staging;
use crate::host::Host;
use crate::info::{Backend, Settings};
use crate::mpi_processes::Ranks;
use crate::skeleton::with_file;
use crate::tie::Tie;

/// How many objects are remembered whose attributes were changed by name: the copies of more are
/// brought up to date the next time.
const NAMED_MAX: usize = 4096;

/// An open skeleton.
pub(crate) struct Container {
    /// The folder that the skeleton lies in, as it was when the file was opened: the program may
    /// change its working directory later.
    folder: PathBuf,
    /// The skeleton's name in that folder.
    name: OsString,
    /// As the program named it.
    given: OsString,
    /// The folder that this name led to then, links and all.
    given_folder: PathBuf,
    /// Whether the file was opened for writing.
    pub(crate) writable: bool,
    /// Whether new datasets become Arrow files. Not with a driver that keeps the file elsewhere
    /// than under its name, such as in memory.
    pub(crate) keeps_arrow: bool,
    /// How the program opened it.
    pub(crate) settings: Settings,
    /// Data that others do not see yet.
    pub(crate) staging: Staging,
    /// The processes that have the file open together, if there are several.
    pub(crate) ranks: Option<Ranks>,
    /// The ties of this skeleton, and of others that links led to, to their data.
    ties: Mutex<BTreeMap<PathBuf, Arc<Tie>>>,
    /// Whether data may have lost its dataset.
    has_unused: AtomicBool,
    /// Whether some data is in a store.
    has_objects: AtomicBool,
    /// Objects whose links were deleted.
    deleted: Mutex<Vec<Place>>,
    /// Objects whose attributes may have changed and that were named, not open.
    named: Mutex<BTreeSet<CString>>,
}

impl Container {
    /// A file under a name that HDF5 was given.
    pub(crate) fn new(given: &CStr, writable: bool, keeps_arrow: bool, settings: Settings) -> Self {
        let given = OsStr::from_bytes(given.to_bytes());
        let path = std::path::absolute(given).unwrap_or_else(|_| PathBuf::from(given));
        let given_folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        // A link to a file elsewhere has its data beside the file, not beside the link.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        Self {
            folder: path.parent().unwrap_or(Path::new("/")).to_owned(),
            name: path.file_name().unwrap_or(given).to_owned(),
            given: given.to_owned(),
            given_folder,
            writable,
            keeps_arrow,
            has_objects: AtomicBool::new(settings.backend == Backend::Store),
            settings,
            staging: Staging::default(),
            ranks: None,
            ties: Mutex::default(),
            has_unused: AtomicBool::new(false),
            named: Mutex::default(),
            deleted: Mutex::default(),
        }
    }

    /// The place of a file that HDF5 has no path of; `None` when that is not known.
    pub(crate) fn place_at(&mut self, path: Option<PathBuf>) {
        let path = path.unwrap_or_default();
        self.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        self.name = path.file_name().unwrap_or_default().to_owned();
    }

    /// Whether this process does what only one may do: it is alone, or the first.
    pub(crate) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(Ranks::is_first)
    }

    /// The folder that paths in the skeleton begin at.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The skeleton.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// The source that a place in this skeleton means.
    pub(crate) fn source(&self, place: &Place) -> Source {
        match Source::new(place, &self.path(), &self.settings) {
            Source::Object { socket, name, own } => {
                let own = own || self.tie().is_some_and(|tie| tie.owns_object(&name));
                Source::Object { socket, name, own }
            }
            other => other,
        }
    }

    /// Reads from the open file, an object of the native connector, which data belongs to it.
    pub(crate) fn learn(&self, host: &'static Host, under: Ptr) {
        let tie = Tie::of_file(host, under, self.path());
        self.ties().insert(self.path(), Arc::new(tie));
    }

    /// The tie of this skeleton to its data.
    pub(crate) fn tie(&self) -> Option<Arc<Tie>> {
        self.ties().get(&self.path()).cloned()
    }

    /// The tie of a skeleton that may be another one, which is opened for that.
    pub(crate) fn tie_of(&self, host: &'static Host, skeleton: &Path) -> Option<Arc<Tie>> {
        let known = self.ties().get(skeleton).cloned();
        known.or_else(|| {
            let ask = |under| Some(Tie::of_file(host, under, skeleton.to_owned()));
            let tie = Arc::new(with_file(host, skeleton, ask)?);
            self.ties().insert(skeleton.to_owned(), Arc::clone(&tie));
            Some(tie)
        })
    }

    fn ties(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Arc<Tie>>> {
        self.ties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the skeleton is that HDF5 knows under this name: an external link leads into another
    /// file than the one that was opened.
    pub(crate) fn path_of(&self, given: &OsStr) -> PathBuf {
        if given == self.given {
            return self.path();
        }
        std::fs::canonicalize(given).unwrap_or_else(|_| PathBuf::from(given))
    }

    /// The folder of the file that HDF5 knows under this name, links and all.
    pub(crate) fn given_folder(&self, given: &OsStr) -> PathBuf {
        if given == self.given {
            return self.given_folder.clone();
        }
        let path = std::path::absolute(given).unwrap_or_else(|_| PathBuf::from(given));
        path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    /// Whether an object that was reached through this file lies in it: external links and mounts
    /// lead into others. `given` is the name that HDF5 knows the object's file under.
    pub(crate) fn is_own(&self, given: Option<&OsStr>) -> bool {
        given == Some(&self.given)
    }

    /// Waits until the skeleton is on the disk, if the program's settings require that.
    pub(crate) fn sync(&self) -> Result<(), String> {
        if !self.settings.syncs {
            return Ok(());
        }
        let path = self.path();
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Remembers that the attributes of an object with this path may change.
    pub(crate) fn note_named(&self, path: Vec<u8>) {
        if let Ok(path) = CString::new(path)
            && self.writable
            && self.ranks.is_none()
        {
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            if named.len() < NAMED_MAX {
                named.insert(path);
            }
        }
    }

    /// The objects that were remembered so.
    pub(crate) fn take_named(&self) -> BTreeSet<CString> {
        std::mem::take(&mut *self.named.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a dataset may have gone.
    pub(crate) fn may_have_unused(&self) -> bool {
        self.has_unused.load(Ordering::Relaxed)
            || self.tie().is_some_and(|tie| tie.may_have_unnamed())
    }

    /// Remembers that some data is in a store.
    pub(crate) fn expect_objects(&self) {
        self.has_objects.store(true, Ordering::Relaxed);
    }

    /// Whether some data is known to be in a store.
    pub(crate) fn has_objects(&self) -> bool {
        self.has_objects.load(Ordering::Relaxed)
    }

    /// Remembers objects whose links are deleted.
    pub(crate) fn note_deleted(&self, places: impl IntoIterator<Item = Place>) {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
    }

    /// The objects whose links were deleted since the last time.
    pub(crate) fn take_deleted(&self) -> Vec<Place> {
        std::mem::take(&mut *self.deleted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers that a dataset may have gone.
    pub(crate) fn expect_unused(&self) {
        self.has_unused.store(true, Ordering::Relaxed);
    }
}
