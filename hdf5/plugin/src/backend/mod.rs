//! Where the memory of a dataset's Arrow image comes from, what commits it and what names it.
//!
//! ```text
//! creating ──► Container ──► make ──► Place (into the skeleton's marker)
//! reading  ──► marker ──► Place ──► Source ──► open ──► Data (columns, moved by the model)
//! ```
//!
//! A backend is a module here, a variant of [`Source`] and of the model's `Place`, and an
//! implementation of [`Data`]. The rest of the connector calls only these.

mod files;
mod made;
mod objects;
mod views;

use std::io;
use std::sync::Arc;

use plasmon_hdf5_model::{Columns, Mark, Place, Table, object_data};

use crate::container::Container;
use crate::data::Data;
use crate::data::source::Source;
use crate::info::{Backend, Settings};
use crate::tie::SkeletonFile;

use made::NewData;

/// How much is copied at once from one backend to another.
const COPY_BYTES: usize = 1 << 20;

/// Opens the data and checks that it is that of a table whose columns begin at an offset.
pub(crate) fn open(
    source: &Source,
    table: &Table,
    body_offset: u64,
    writable: bool,
) -> Result<Arc<dyn Data>, String> {
    match source {
        Source::File { folder, within, .. } => {
            files::open((folder, within), table, body_offset, writable)
        }
        Source::Pathless { within } => Err(format!(
            "the data of this dataset is in {}, beside the HDF5 file, and the file was opened \
             through an object that has no path; open it by its path, or through open(path, \
             \"rb\"), or write one that needs nothing else: plasmon hdf5 export",
            within.display()
        )),
        Source::Object { .. } if table.grows() => {
            Err(format!("{source}: the rows of objects do not change"))
        }
        Source::Object { socket, name, .. } => objects::open(socket, name, table),
        Source::Unlisted { socket, what, .. } => Err(format!(
            "the data is {what}, and only this file names that store. If the file may choose \
             it, say so: HDF5_VOL_CONNECTOR=\"plasmon store={socket}\", or \
             PLASMON_SOCKET={socket}"
        )),
        Source::View { of, column } => views::open(of, column, table),
    }
}

/// Whether new data can be made: checked before a file is replaced.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    match settings.backend {
        Backend::Files => Ok(()),
        Backend::Store => objects::reach(settings),
    }
}

/// Makes the data of a dataset with this path in a skeleton.
pub(crate) fn make(container: &Container, path: &[u8], table: &Table) -> Result<NewData, String> {
    match container.settings.backend {
        Backend::Files => files::make(container, path, table),
        Backend::Store => objects::make(container, path, table),
    }
}

/// Gives data the name for another path; `None` when it has to stay where it is.
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

/// The source of a copy of a dataset.
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
    let from = open(original.source, table, original.body_offset, false)?;
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

/// Removes the data that a skeleton no longer names: files that are not wanted, and of the
/// objects those whose links were deleted.
pub(crate) fn keep_only(from: SkeletonFile<'_>, container: &Container, wanted: &[Place]) {
    files::keep_only(from, container, wanted);
    objects::keep_only(from, container, wanted);
}

/// Removes the objects that a removed skeleton named: those called after the file, as
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
