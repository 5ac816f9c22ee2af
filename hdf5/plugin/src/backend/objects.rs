//! Data in objects of a store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plasmon_hdf5_model::{Columns, Place, Table};
use plasmon_hdf5_store::{self as store, Dataset, DatasetKey};

use super::made::{NewData, UNKNOWN};
use crate::container::Container;
use crate::data::Data;
use crate::data::source::Source;
use crate::info::Settings;
use crate::tie::SkeletonFile;

/// A dataset in a store, as this handle has it.
struct Handle(Arc<Dataset>);

impl Data for Handle {
    fn columns(&self) -> Columns<'_> {
        self.0.columns()
    }

    fn describe(&self, table: &Table, attributes: &[(String, String)]) -> io::Result<()> {
        self.0.describe(table, attributes);
        Ok(())
    }

    fn first_column(&self) -> io::Result<String> {
        self.0.first_column().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn begin_filled(&self) {
        self.0.begin_filled();
    }

    fn stages(&self) -> bool {
        true
    }

    fn is_staged(&self) -> bool {
        self.0.is_staged()
    }

    fn commit(&self, everything: bool) -> Result<(), String> {
        self.0.commit(everything).map_err(|error| error.to_string())
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

pub(super) fn open(socket: &Path, name: &str, table: &Table) -> Result<Arc<dyn Data>, String> {
    let found = store::open(socket, name, table).map_err(|error| error.to_string())?;
    Ok(Arc::new(Handle(found)))
}

pub(super) fn make(container: &Container, path: &[u8], table: &Table) -> Result<NewData, String> {
    let socket = socket(&container.settings)?;
    let (tie, file) = (container.tie().ok_or(UNKNOWN)?, container.path());
    let data = tie.ready_for_objects(&socket)?;
    let made = store::make(&socket, DatasetKey { file: &file, data, dataset: path }, table);
    let made = made.map_err(|error| error.to_string())?;
    tie.note_made(Path::new(&made.name()))?;
    let place = place(&socket, &made.name())?;
    let source = Source::Object { socket, name: made.name(), own: true };
    Ok(NewData { place, source, data: Arc::new(Handle(made)), body_offset: 0, plain: false })
}

/// Gives an object the name for another path.
pub(super) fn rename(container: &Container, old: &Source, path: &[u8]) -> Option<Place> {
    let Source::Object { socket, name, own: true } = old else { return None };
    let dataset = store::known(socket, name)?;
    let (tie, file) = (container.tie()?, container.path());
    let data = tie.ready_for_objects(socket).ok()?;
    let name = store::rename(&dataset, DatasetKey { file: &file, data, dataset: path }).ok()?;
    tie.note_made(Path::new(&name)).ok()?;
    place(socket, &name).ok()
}

pub(super) fn rename_back(now: &Source, old: &Source) {
    if let (Source::Object { socket, name, .. }, Source::Object { name: old, .. }) = (now, old)
        && let Some(dataset) = store::known(socket, name)
    {
        // A reader that does not find the data reports it.
        let _ = store::rename_back(&dataset, old);
    }
}

/// Makes the object of another dataset of the same values, without copying them.
pub(super) fn share(
    container: &Container,
    (socket, name): (&Path, &str),
    path: &[u8],
    table: &Table,
) -> Result<Place, String> {
    let (tie, file) = (container.tie().ok_or(UNKNOWN)?, container.path());
    let data = tie.ready_for_objects(socket)?;
    let shared = store::open(socket, name, table)
        .and_then(|dataset| store::copy(&dataset, DatasetKey { file: &file, data, dataset: path }));
    let shared = shared.map_err(|error| error.to_string())?;
    tie.note_made(Path::new(&shared))?;
    place(socket, &shared)
}

/// Removes the objects whose links were deleted. As with files, the data gets another generation
/// before: a free name is given to other data.
pub(super) fn keep_only(from: SkeletonFile<'_>, container: &Container, wanted: &[Place]) {
    let deleted = container.take_deleted();
    for place in deleted.iter().filter(|place| !wanted.contains(place)) {
        let Place::Object { name, .. } = place else { continue };
        let changed = container.tie().map(|tie| tie.before_change(from, Path::new(name)));
        if matches!(changed, Some(Ok(()))) {
            container.source(place).remove();
        }
    }
}

/// Whether the store that new data is to go to is there.
pub(super) fn reach(settings: &Settings) -> Result<(), String> {
    store::store(&socket(settings)?).map(drop).map_err(|error| error.to_string())
}

/// The store that new data goes to.
pub(super) fn socket(settings: &Settings) -> Result<PathBuf, String> {
    let socket = match &settings.store {
        Some(socket) => socket.clone(),
        None => store::default_socket().map_err(|error| error.to_string())?,
    };
    std::path::absolute(&socket).map_err(|error| format!("{}: {error}", socket.display()))
}

fn place(socket: &Path, name: &str) -> Result<Place, String> {
    let store = socket.to_str().ok_or("the name of the store's socket is not UTF-8")?;
    Ok(Place::Object { store: store.to_owned(), name: name.to_owned() })
}
