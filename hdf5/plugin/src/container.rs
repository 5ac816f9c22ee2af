//! What we know of an open file: where its data is and whether new data goes there.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use plasmon_hdf5_model::data_directory;

use crate::ranks::Ranks;

/// An open skeleton.
pub(crate) struct Container {
    /// The folder that the skeleton lies in, as it was when the file was opened: the program may
    /// change its working directory later.
    folder: PathBuf,
    /// The skeleton's name in that folder.
    name: OsString,
    /// As the program named it.
    given: OsString,
    /// Whether the file was opened for writing.
    pub(crate) writable: bool,
    /// Whether new datasets become Arrow files. Not with a driver that keeps the file elsewhere
    /// than under its name, such as in memory.
    pub(crate) keeps_arrow: bool,
    /// Whether data is brought to the disk before the skeleton names or changes it.
    pub(crate) syncs: bool,
    /// The processes that have the file open together, if there are several.
    pub(crate) ranks: Option<Ranks>,
    /// Whether files of data may have lost their dataset.
    has_orphans: AtomicBool,
}

impl Container {
    /// A file under a name that HDF5 was given.
    pub(crate) fn new(given: &CStr, writable: bool, keeps_arrow: bool, syncs: bool) -> Self {
        let given = OsStr::from_bytes(given.to_bytes());
        let path = std::path::absolute(given).unwrap_or_else(|_| PathBuf::from(given));
        // A link to a file elsewhere has its data beside the file, not beside the link.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        Self {
            folder: path.parent().unwrap_or(Path::new("/")).to_owned(),
            name: path.file_name().unwrap_or(given).to_owned(),
            given: given.to_owned(),
            writable,
            keeps_arrow,
            syncs,
            ranks: None,
            has_orphans: AtomicBool::new(false),
        }
    }

    /// Whether this process does what only one may do: it is alone, or the first.
    pub(crate) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(Ranks::is_first)
    }

    /// The folder that paths in the skeleton begin at.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of the folder of data, beside the skeleton.
    pub(crate) fn data_name(&self) -> OsString {
        data_directory(&self.name)
    }

    /// The folder of data.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.folder.join(self.data_name())
    }

    /// Where the skeleton is that HDF5 knows under this name: an external link leads into another
    /// file than the one that was opened.
    pub(crate) fn folder_of(&self, given: &OsStr) -> PathBuf {
        if given == self.given {
            return self.folder.clone();
        }
        let path = std::fs::canonicalize(given).unwrap_or_else(|_| PathBuf::from(given));
        path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    /// Whether an object that was reached through this file lies in it: external links and mounts
    /// lead into others. `given` is the name that HDF5 knows the object's file under.
    pub(crate) fn is_own(&self, given: Option<&OsStr>) -> bool {
        given == Some(&self.given)
    }

    /// Waits until the skeleton is on the disk, if the program's settings ask for that.
    pub(crate) fn sync(&self) -> Result<(), String> {
        if !self.syncs {
            return Ok(());
        }
        let path = self.folder.join(&self.name);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether a dataset may have gone.
    pub(crate) fn may_have_orphans(&self) -> bool {
        self.has_orphans.load(Ordering::Relaxed)
    }

    /// Remembers that a dataset may have gone.
    pub(crate) fn expect_orphans(&self) {
        self.has_orphans.store(true, Ordering::Relaxed);
    }
}
