//! Data in Arrow files beside the skeleton.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plasmon_hdf5_model::{
    Columns, DataFile, DataFolder, FileError, Image, Place, Table, WrittenChunks, copy_data,
    remove_file, rename_data,
};

use super::made::{NewData, UNKNOWN};
use crate::container::Container;
use crate::data::Data;
use crate::data::source::Source;
use crate::tie::SkeletonFile;

impl Data for DataFile {
    fn columns(&self) -> Columns<'_> {
        Self::columns(self)
    }

    fn describe(&self, table: &Table, attributes: &[(String, String)]) -> io::Result<()> {
        Self::describe(self, table, attributes)
    }

    fn first_column(&self) -> io::Result<String> {
        Self::first_column(self)
    }

    fn resize(&self, table: &Table, rows: u64, fill: &[Vec<u8>]) -> io::Result<()> {
        Self::resize(self, table, rows, fill)
    }

    fn settle(&self, table: &Table) -> io::Result<()> {
        Self::settle(self, table)
    }

    fn chunk(&self) -> io::Result<Vec<u64>> {
        Self::chunk(self)
    }

    fn written(&self) -> io::Result<Option<WrittenChunks>> {
        Self::written(self)
    }

    fn tell_written(&self, written: &WrittenChunks) -> io::Result<()> {
        Self::tell_written(self, written)
    }

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }
}

/// Opens a file below the skeleton's folder. What belongs to another skeleton is only read.
pub(super) fn open(
    (folder, within): (&Path, &Path),
    table: &Table,
    body_offset: u64,
    writable: bool,
) -> Result<Arc<dyn Data>, String> {
    let file = DataFile::open((folder, within), table, body_offset, writable);
    let file = file.map_err(|error| error.to_string())?;
    Ok(Arc::new(file))
}

pub(super) fn make(container: &Container, path: &[u8], table: &Table) -> Result<NewData, String> {
    let image = Image::of(table, table.entries());
    let tie = container.tie().ok_or(UNKNOWN)?;
    let name = tie.folder_of_data().ok_or(UNKNOWN)?;
    let folder = DataFolder { root: container.folder(), name: &name };
    let note = |within: &Path| tie.note_made(within).map_err(io::Error::other);
    let (file, within) = DataFile::create(folder, path, table, &image, &note)
        .map_err(|error: FileError| error.to_string())?;
    let source =
        Source::File { folder: container.folder().to_owned(), within: within.clone(), own: true };
    let Some(place) = place(&within) else {
        source.remove();
        return Err("the file's name is not UTF-8".to_owned());
    };
    let body_offset = image.body_offset();
    Ok(NewData { place, source, data: Arc::new(file), body_offset, plain: true })
}

pub(super) fn rename(container: &Container, old: &str, path: &[u8]) -> Option<Place> {
    let tie = container.tie()?;
    let name = tie.folder_of_data()?;
    let folder = DataFolder { root: container.folder(), name: &name };
    let old = Path::new(old);
    if !old.starts_with(&name) {
        return None;
    }
    let note = |within: &Path| tie.note_made(within).map_err(io::Error::other);
    let within = rename_data(folder, old, path, &note).ok()?;
    tie.note_gone(old);
    place(&within)
}

pub(super) fn copy(
    container: &Container,
    old: (&Path, &Path),
    path: &[u8],
) -> Result<Place, String> {
    let tie = container.tie().ok_or(UNKNOWN)?;
    let name = tie.folder_of_data().ok_or(UNKNOWN)?;
    let folder = DataFolder { root: container.folder(), name: &name };
    let note = |within: &Path| tie.note_made(within).map_err(io::Error::other);
    let within = copy_data(old, folder, path, &note).map_err(|error| error.to_string())?;
    place(&within).ok_or_else(|| "the file's name is not UTF-8".to_owned())
}

/// Removes the files of data that a skeleton does not name any more. A name that is free is given
/// to other data, which a copy of the skeleton would take for what it knows: so the data gets
/// another generation before.
pub(super) fn keep_only(from: SkeletonFile<'_>, container: &Container, wanted: &[Place]) {
    let path = |place: &Place| match place {
        Place::File(path) => Some(PathBuf::from(path)),
        Place::Object { .. } | Place::View { .. } => None,
    };
    let wanted: HashSet<PathBuf> = wanted.iter().filter_map(path).collect();
    let Some(tie) = container.tie().filter(|tie| tie.has_data()) else { return };
    // A program that only deletes has not asked for the folder of its data yet.
    if tie.ready(from).is_err() {
        return;
    }
    for within in tie.unwanted(&wanted) {
        if tie.before_change(from, &within).is_err() {
            return;
        }
        // What cannot be removed now does no harm but to take room.
        if remove_file(container.folder(), &within).is_ok() {
            tie.note_gone(&within);
        }
    }
}

/// A path from the skeleton's folder, as the skeleton names it.
fn place(within: &Path) -> Option<Place> {
    within.to_str().map(|path| Place::File(path.to_owned()))
}
