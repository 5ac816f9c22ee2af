//! Where the memory of a dataset's Arrow image comes from, who commits it and who names it.
//!
//! ```text
//! creating ──► Container ──► make ──► Place (into the skeleton's marker)
//! reading  ──► marker ──► Place ──► Source ──► open ──► Data (columns, moved by the model)
//! ```
//!
//! A backend is a module here, a variant of [`Source`] and of the model's `Place`, and an
//! implementation of [`Data`]. Everything else of the connector asks only these.

mod files;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use plasmon_hdf5_model::{Columns, Place, Table};

use crate::container::Container;

/// The open data of a dataset.
pub(crate) trait Data: Send + Sync {
    /// The columns, to be read and written.
    fn columns(&self) -> Columns<'_>;

    /// Says beside the data what the columns are called, and what the dataset's attributes are, if
    /// there is room for it.
    fn describe(&self, table: &Table, attributes: &[(String, String)]) -> io::Result<()>;

    /// What the first column is called.
    fn first_column(&self) -> io::Result<String>;

    /// Waits until the data is on the disk, if there is one.
    fn sync(&self) -> io::Result<()>;
}

/// Where the data of a dataset is, for this process.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An Arrow file.
    File(PathBuf),
}

impl Source {
    /// What a skeleton in a folder means.
    pub(crate) fn new(place: &Place, folder: &Path) -> Self {
        match place {
            Place::File(path) => Self::File(folder.join(path)),
        }
    }

    /// Opens the data and checks that it is that of a table whose columns begin at an offset.
    pub(crate) fn open(
        &self,
        table: &Table,
        body_offset: u64,
        writable: bool,
    ) -> Result<Box<dyn Data>, String> {
        match self {
            Self::File(path) => files::open(path, table, body_offset, writable),
        }
    }

    /// Takes data away that no skeleton names. If this fails, something stays behind that takes
    /// room and does no other harm.
    pub(crate) fn remove(&self) {
        match self {
            Self::File(path) => {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The data of a new dataset. It reads as zeros.
pub(crate) struct Made {
    /// For the skeleton.
    pub(crate) place: Place,
    pub(crate) source: Source,
    pub(crate) data: Box<dyn Data>,
    /// Where the first column begins.
    pub(crate) body_offset: u64,
}

/// Makes the data of a dataset with this path in a skeleton.
pub(crate) fn make(container: &Container, path: &[u8], table: &Table) -> Result<Made, String> {
    files::make(container, path, table)
}

/// Gives data the name that another path asks for; `None` when it has to stay where it is.
pub(crate) fn rename(container: &Container, place: &Place, path: &[u8]) -> Option<Place> {
    match place {
        Place::File(old) => files::rename(container, old, path),
    }
}

/// Puts a name back that [`rename`] changed.
pub(crate) fn rename_back(container: &Container, now: &Place, old: &Place) {
    let (Place::File(now), Place::File(old)) = (now, old);
    // Whoever cannot find the data says so.
    let _ = std::fs::rename(container.folder().join(now), container.folder().join(old));
}

/// Copies the data of a dataset for another one with this path.
pub(crate) fn copy(container: &Container, source: &Source, path: &[u8]) -> Result<Place, String> {
    match source {
        Source::File(old) => files::copy(container, old, path),
    }
}

/// Takes the data away that a skeleton no longer names.
pub(crate) fn keep_only(container: &Container, wanted: &[Place]) {
    files::keep_only(container, wanted);
}

/// Takes away what a skeleton of the same name left behind: this one is new.
pub(crate) fn clear(container: &Container) {
    // What cannot be removed does no harm: new files get other names.
    let _ = plasmon_hdf5_model::clear(&container.data_folder());
}
