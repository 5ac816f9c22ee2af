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
mod objects;
mod staging;
mod views;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plasmon_hdf5_model::{
    Columns, Mark, Place, Run, Table, ViewOf, Written, is_object_of, object_data,
};

use crate::container::Container;
use crate::info::{Backend, Settings};
use crate::tie::{Tie, Within};

pub(crate) use staging::Staging;

/// Why no data can be made: the file was not learned from when it was opened.
const UNKNOWN: &str = "the folder of the file's data is unknown";
/// How much is copied at once from one backend to another.
const COPY_BYTES: usize = 1 << 20;

/// The open data of a dataset.
pub(crate) trait Data: Send + Sync {
    /// The columns, to be read and written.
    fn columns(&self) -> Columns<'_>;

    /// Says beside the data what the columns are called, and what the dataset's attributes are, if
    /// there is room for it.
    fn describe(&self, table: &Table, attributes: &[(String, String)]) -> io::Result<()>;

    /// What the first column is called.
    fn first_column(&self) -> io::Result<String>;

    /// Gives a table that grows another number of rows. New ones hold `fill`.
    fn resize(&self, _table: &Table, _rows: u64, _fill: &[Vec<u8>]) -> io::Result<()> {
        Err(io::Error::other("the rows of data that is kept here cannot change"))
    }

    /// Takes the room behind the last row away.
    fn settle(&self, _table: &Table) -> io::Result<()> {
        Ok(())
    }

    /// The dimensions of the chunks that the program asked for.
    fn chunk(&self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// The chunks that were written; `None` when all of them are there.
    fn written(&self) -> io::Result<Option<Written>> {
        Ok(None)
    }

    /// Says which chunks were written.
    fn tell_written(&self, _written: &Written) -> io::Result<()> {
        Ok(())
    }

    /// Waits until the data is on the disk, if there is one.
    fn sync(&self) -> io::Result<()>;

    /// Takes what was written so far for what a new dataset begins with.
    fn begin_filled(&self) {}

    /// Whether what is written is seen by others only when it is committed.
    fn stages(&self) -> bool {
        false
    }

    /// Whether there is something to commit.
    fn is_staged(&self) -> bool {
        false
    }

    /// Lets others see what was written: everything, or only if no byte is missing. After an error
    /// that is lost, and what was committed before is as it was.
    fn commit(&self, _everything: bool) -> Result<(), String> {
        Ok(())
    }

    /// The same number for all handles of this process on data that stages.
    fn identity(&self) -> usize {
        0
    }
}

impl dyn Data {
    /// Remembers that the chunks of these elements were written.
    pub(crate) fn note_written(
        &self,
        table: &Table,
        chunk: &[u64],
        runs: &[Run],
    ) -> io::Result<()> {
        let Some(mut written) = self.written()? else { return Ok(()) };
        let is_new = written.insert_runs(table, chunk, runs);
        if is_new { self.tell_written(&written) } else { Ok(()) }
    }

    /// Forgets the chunks that no row of a table is in.
    pub(crate) fn forget_written(&self, now: &Table, chunk: &[u64]) -> io::Result<()> {
        let end: Option<u64> = now.grid(chunk).map(|grid| grid.iter().product());
        let (Some(mut written), Some(end)) = (self.written()?, end) else { return Ok(()) };
        if written.truncate(end) { self.tell_written(&written) } else { Ok(()) }
    }
}

/// Where the data of a dataset is, for this process.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An Arrow file.
    File {
        /// The skeleton's folder.
        folder: PathBuf,
        /// The path from there.
        within: PathBuf,
        /// Whether it is the skeleton's to change.
        own: bool,
    },
    /// An Arrow file of a skeleton that was opened without a path.
    Pathless {
        /// The path from its folder.
        within: PathBuf,
    },
    /// An object of a store.
    Object {
        /// The store's socket.
        socket: PathBuf,
        /// The object's name.
        name: String,
        /// Whether it is the skeleton's to delete and rename.
        own: bool,
    },
    /// An object of a store that only the skeleton names.
    Unlisted {
        /// The store's socket.
        socket: String,
        /// What it is there.
        what: String,
        /// What the tools call it.
        kind: &'static str,
    },
    /// A column of data that others wrote.
    View {
        /// Whose.
        of: ViewOf,
        /// The column's name.
        column: String,
    },
}

impl Source {
    /// What a skeleton means, under the settings of the program that opened it. The skeleton is the
    /// word of whoever wrote it: it chooses neither the store that this process connects to, nor
    /// what is deleted there.
    pub(crate) fn new(place: &Place, skeleton: &Path, settings: &Settings) -> Self {
        let is_listed = |store: &str| objects::is_listed(settings, Path::new(store));
        match place {
            Place::File(path) if skeleton.as_os_str().is_empty() => {
                Self::Pathless { within: PathBuf::from(path) }
            }
            Place::File(path) => {
                let folder = skeleton.parent().unwrap_or(Path::new("/")).to_owned();
                let within = PathBuf::from(path);
                let own = files::is_own(skeleton, &within);
                Self::File { folder, within, own }
            }
            Place::Object { store, name } => match &settings.store {
                None if !is_listed(store) => Self::Unlisted {
                    socket: store.clone(),
                    what: format!("hdf5:{name} in the store {store}"),
                    kind: "store",
                },
                socket => Self::Object {
                    socket: socket.clone().unwrap_or_else(|| PathBuf::from(store)),
                    name: name.clone(),
                    // With a number the container tells, which knows the skeleton's.
                    own: object_data(name).is_none() && is_object_of(skeleton, name),
                },
            },
            Place::View { of: of @ ViewOf::Object { store, .. }, column } if !is_listed(store) => {
                let (socket, what) = (store.clone(), format!("column {column:?} of {of}"));
                Self::Unlisted { socket, what, kind: "view" }
            }
            Place::View { of, column } => Self::View { of: of.clone(), column: column.clone() },
        }
    }

    /// The same, where it is now, after a look whether it is what its skeleton was written for.
    pub(crate) fn checked(&self, tie: Option<&Tie>) -> Result<Self, String> {
        match (self, tie) {
            (Self::File { folder, within, own }, Some(tie)) => {
                let (folder, own) = (folder.clone(), *own);
                Ok(Self::File { within: tie.check(within)?, folder, own })
            }
            (Self::Object { name, .. }, Some(tie)) => {
                tie.check_object(name)?;
                Ok(self.clone())
            }
            _ => Ok(self.clone()),
        }
    }

    /// Opens the data and checks that it is that of a table whose columns begin at an offset.
    pub(crate) fn open(
        &self,
        table: &Table,
        body_offset: u64,
        writable: bool,
    ) -> Result<Arc<dyn Data>, String> {
        match self {
            Self::File { folder, within, .. } => {
                files::open((folder, within), table, body_offset, writable)
            }
            Self::Pathless { within } => Err(format!(
                "the data of this dataset is in {}, beside the HDF5 file, and the file was opened \
                 through an object that has no path; open it by its path, or through open(path, \
                 \"rb\"), or write one that needs nothing else: plasmon hdf5 export",
                within.display()
            )),
            Self::Object { .. } if table.grows() => {
                Err(format!("{self}: the rows of objects do not change"))
            }
            Self::Object { socket, name, .. } => objects::open(socket, name, table),
            Self::Unlisted { socket, what, .. } => Err(format!(
                "the data is {what}, and only this file names that store. If the file may choose \
                 it, say so: HDF5_VOL_CONNECTOR=\"plasmon store={socket}\", or \
                 PLASMON_SOCKET={socket}"
            )),
            Self::View { of, column } => views::open(of, column, table),
        }
    }

    /// Whether it may be written through this skeleton: not another skeleton's file.
    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self, Self::File { own: false, .. } | Self::Pathless { .. })
    }

    /// What the tools call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::Pathless { .. } => "arrow",
            Self::Object { .. } => "store",
            Self::Unlisted { kind, .. } => kind,
            Self::View { .. } => "view",
        }
    }

    /// Takes data away that no skeleton names. If this fails, something stays behind that takes
    /// room and does no other harm.
    pub(crate) fn remove(&self) {
        match self {
            Self::File { folder, within, own: true } => {
                let _ = std::fs::remove_file(folder.join(within));
            }
            Self::Object { socket, name, own: true } => plasmon_hdf5_store::remove(socket, name),
            // It is not ours.
            Self::File { .. }
            | Self::Pathless { .. }
            | Self::Object { .. }
            | Self::Unlisted { .. }
            | Self::View { .. } => {}
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { folder, within, .. } => folder.join(within).display().fmt(f),
            Self::Pathless { within } => within.display().fmt(f),
            Self::Object { socket, name, .. } => {
                write!(f, "hdf5:{name} in the store {}", socket.display())
            }
            Self::Unlisted { what, .. } => f.write_str(what),
            Self::View { of, column } => write!(f, "column {column:?} of {of}"),
        }
    }
}

/// The data of a new dataset. It reads as zeros.
pub(crate) struct Made {
    /// For the skeleton.
    pub(crate) place: Place,
    pub(crate) source: Source,
    pub(crate) data: Arc<dyn Data>,
    /// Where the first column begins.
    pub(crate) body_offset: u64,
    /// Whether HDF5 without the plugin can read the bytes of a single column.
    pub(crate) plain: bool,
}

/// Whether new data can be made: asked before a file is made anew, for then the old one goes.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    match settings.backend {
        Backend::Files => Ok(()),
        Backend::Store => objects::reach(settings),
    }
}

/// Makes the data of a dataset with this path in a skeleton.
pub(crate) fn make(container: &Container, path: &[u8], table: &Table) -> Result<Made, String> {
    match container.settings.backend {
        Backend::Files => files::make(container, path, table),
        Backend::Store => objects::make(container, path, table),
    }
}

/// Gives data the name that another path asks for; `None` when it has to stay where it is.
pub(crate) fn rename(container: &Container, place: &Place, path: &[u8]) -> Option<Place> {
    match place {
        Place::File(old) => files::rename(container, old, path),
        Place::Object { .. } => objects::rename(container, &container.source(place), path),
        Place::View { .. } => None,
    }
}

/// Puts a name back that [`rename`] changed.
pub(crate) fn rename_back(container: &Container, now: &Place, old: &Place) {
    if let (Place::File(now), Place::File(old)) = (now, old) {
        // If the data cannot be found then, reading it says so.
        let _ = plasmon_hdf5_model::rename_back(container.folder(), now.as_ref(), old.as_ref());
    }
    objects::rename_back(&container.source(now), &container.source(old));
}

/// What a copy of a dataset is made of.
pub(crate) struct Original<'a> {
    pub(crate) source: &'a Source,
    pub(crate) table: &'a Table,
    pub(crate) body_offset: u64,
}

/// Copies the data of a dataset for another one with this path. Returns where it is and where its
/// first column begins.
pub(crate) fn copy(
    container: &Container,
    original: &Original<'_>,
    path: &[u8],
) -> Result<(Place, u64), String> {
    match (original.source, container.settings.backend) {
        (Source::File { folder, within, .. }, Backend::Files) => {
            Ok((files::copy(container, (folder, within), path)?, original.body_offset))
        }
        (Source::Object { socket, name, .. }, Backend::Store)
            if objects::socket(&container.settings).as_ref() == Ok(socket) =>
        {
            let place = objects::share(container, (socket, name), path, original.table)?;
            Ok((place, original.body_offset))
        }
        _ => carry_over(container, original, path),
    }
}

/// Copies data from one backend to another.
fn carry_over(
    container: &Container,
    original: &Original<'_>,
    path: &[u8],
) -> Result<(Place, u64), String> {
    let table = original.table;
    let from = original.source.open(table, original.body_offset, false)?;
    let made = make(container, path, table)?;
    let copied = copy_columns(table, from.columns(), made.data.columns())
        .map_err(|error| error.to_string())
        .and_then(|()| made.data.commit(true));
    if copied.is_err() {
        made.source.remove();
    }
    copied.map(|()| (made.place, made.body_offset))
}

fn copy_columns(table: &Table, from: Columns<'_>, to: Columns<'_>) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    for (at, column) in table.columns().iter().enumerate() {
        let bytes = table.elements() * column.bytes() as u64;
        let mut done = 0;
        while done < bytes {
            let now = usize::try_from(bytes - done).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            from.bytes.read_exact_at(&mut buffer[..now], from.offsets[at] + done)?;
            to.bytes.write_all_at(&buffer[..now], to.offsets[at] + done)?;
            done += now as u64;
        }
    }
    Ok(())
}

/// Takes the data away that a skeleton no longer names: files that are not wanted, and of the
/// objects those whose links were deleted.
pub(crate) fn keep_only(from: Within<'_>, container: &Container, wanted: &[Place]) {
    files::keep_only(from, container, wanted);
    objects::keep_only(from, container, wanted);
}

/// Takes the objects away that a skeleton named which is no more: those called after the file, as
/// before data had numbers, and those of its data.
pub(crate) fn clear(container: &Container, objects: &[Place], data: Option<Mark>) {
    for place in objects {
        match container.source(place) {
            Source::Object { socket, name, .. } if data.is_some() && object_data(&name) == data => {
                Source::Object { socket, name, own: true }.remove();
            }
            source => source.remove(),
        }
    }
}
