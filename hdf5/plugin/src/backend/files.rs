//! Data in Arrow files beside the skeleton.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plasmon_hdf5_model::{
    Columns, DataFile, FileError, Image, Place, Table, copy_data, rename_data,
};

use super::{Data, Made, Source};
use crate::container::Container;

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

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }
}

pub(super) fn open(
    path: &Path,
    table: &Table,
    body_offset: u64,
    writable: bool,
) -> Result<Arc<dyn Data>, String> {
    let file = DataFile::open(path, table, body_offset, writable);
    let file = file.map_err(|error| error.to_string())?;
    Ok(Arc::new(file))
}

pub(super) fn make(container: &Container, path: &[u8], table: &Table) -> Result<Made, String> {
    let image = Image::of(table, &[]);
    let (file, within) = DataFile::create(&container.data_folder(), path, table, &image)
        .map_err(|error: FileError| error.to_string())?;
    let source = Source::File(file.path().to_owned());
    let Some(place) = place(container, &within) else {
        source.remove();
        return Err("the file's name is not UTF-8".to_owned());
    };
    let body_offset = image.body_offset();
    Ok(Made { place, source, data: Arc::new(file), body_offset, plain: true })
}

pub(super) fn rename(container: &Container, old: &str, path: &[u8]) -> Option<Place> {
    let old = container.folder().join(old);
    let within = rename_data(&old, &container.data_folder(), path).ok()?;
    place(container, &within)
}

pub(super) fn copy(container: &Container, old: &Path, path: &[u8]) -> Result<Place, String> {
    let within = copy_data(old, &container.data_folder(), path);
    let within = within.map_err(|error| error.to_string())?;
    place(container, &within).ok_or_else(|| "the file's name is not UTF-8".to_owned())
}

pub(super) fn keep_only(container: &Container, wanted: &[Place]) {
    let path = |place: &Place| match place {
        Place::File(path) => Some(container.folder().join(path)),
        Place::Object { .. } | Place::View { .. } => None,
    };
    let wanted: HashSet<PathBuf> = wanted.iter().filter_map(path).collect();
    // What cannot be removed now does no harm but to take room.
    let _ = plasmon_hdf5_model::keep_only(&container.data_folder(), &wanted);
}

/// A path within the folder of data, as the skeleton names it.
fn place(container: &Container, within: &Path) -> Option<Place> {
    let path = PathBuf::from(container.data_name()).join(within);
    path.to_str().map(|path| Place::File(path.to_owned()))
}
