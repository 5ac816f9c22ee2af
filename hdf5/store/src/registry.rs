//! The stores and datasets that this process has open: one of each, however many handles there are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use plasmon_client::{Client, ConnectOptions};
use plasmon_hdf5_model::{Mark, Table, object_name};

use crate::dataset::Dataset;
use crate::error::Error;
use crate::object::Object;

/// For how long to go on trying when the store goes away: a daemon that is started again answers
/// within milliseconds.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How many names are tried for a dataset whose name is taken.
const COPIES_MAX: u32 = 10_000;
/// The fewest datasets that are looked over for those that are gone.
const CROWD: usize = 64;

#[derive(Default)]
struct Registry {
    stores: HashMap<PathBuf, Client>,
    datasets: HashMap<(PathBuf, String), Weak<Dataset>>,
    /// The number of datasets at which those that are gone are looked for.
    crowded: usize,
}

/// Held while a dataset is looked up or made, so that there is one of it: a thread that waits
/// for it needs the same dataset.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// The parts of an object's name.
#[derive(Clone, Copy, Debug)]
pub struct DatasetKey<'a> {
    /// The skeleton.
    pub file: &'a Path,
    /// The number of its data.
    pub data: Mark,
    /// The path of the dataset in it.
    pub dataset: &'a [u8],
}

struct RegistryGuard(MutexGuard<'static, Option<Registry>>);

impl RegistryGuard {
    fn new() -> Self {
        Self(REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&mut self) -> &mut Registry {
        self.0.get_or_insert_default()
    }

    fn store(&mut self, socket: &Path) -> Result<Client, Error> {
        let stores = &mut self.get().stores;
        if let Some(store) = stores.get(socket) {
            return Ok(store.clone());
        }
        let options = ConnectOptions {
            socket: Some(socket.to_owned()),
            name: "hdf5".to_owned(),
            reconnect_timeout: RECONNECT_TIMEOUT,
            ..ConnectOptions::default()
        };
        let store = Client::connect(&options);
        let store = store.map_err(|why| Error::Unreachable(socket.to_owned(), why))?;
        stores.insert(socket.to_owned(), store.clone());
        Ok(store)
    }

    fn dataset(&mut self, socket: &Path, name: &str) -> Option<Arc<Dataset>> {
        self.get().datasets.get(&(socket.to_owned(), name.to_owned()))?.upgrade()
    }

    fn remember(&mut self, socket: &Path, name: &str, dataset: &Arc<Dataset>) {
        let registry = self.get();
        let datasets = &mut registry.datasets;
        if datasets.len() >= registry.crowded {
            datasets.retain(|_, dataset| dataset.strong_count() > 0);
            registry.crowded = 2 * datasets.len() + CROWD;
        }
        datasets.insert((socket.to_owned(), name.to_owned()), Arc::downgrade(dataset));
    }

    fn rename(&mut self, dataset: &Arc<Dataset>, name: &str) -> Result<(), Error> {
        let old = (dataset.socket().to_owned(), dataset.name());
        dataset.rename(name)?;
        self.get().datasets.remove(&old);
        self.remember(dataset.socket(), name, dataset);
        Ok(())
    }

    /// A name for a dataset of a file, not in use yet.
    fn free_name(&mut self, store: &Client, of: DatasetKey<'_>) -> Result<String, Error> {
        let name = |copy| object_name(of.file, of.data, of.dataset, copy);
        for copy in 0..COPIES_MAX {
            let name = name(copy);
            let known = self.dataset(store.socket(), &name).is_some();
            if !known && (Object { store, name: &name }).is_none()? {
                return Ok(name);
            }
        }
        Err(Error::NoName(store.socket().to_owned(), name(0)))
    }
}

/// The socket of this user's store.
///
/// # Errors
///
/// It cannot be told.
pub fn default_socket() -> Result<PathBuf, Error> {
    plasmon_client::default_socket().map_err(|why| Error::Unreachable(PathBuf::new(), why))
}

/// The connection to a store that all datasets of this process share.
///
/// # Errors
///
/// It is not there.
pub fn store(socket: &Path) -> Result<Client, Error> {
    RegistryGuard::new().store(socket)
}

/// Makes a dataset of a file. Its memory is reserved; no reader sees it before it is sealed.
///
/// # Errors
///
/// The store is not there or full.
pub fn make(socket: &Path, of: DatasetKey<'_>, table: &Table) -> Result<Arc<Dataset>, Error> {
    let mut registry = RegistryGuard::new();
    let store = registry.store(socket)?;
    let name = registry.free_name(&store, of)?;
    let made = Arc::new(Dataset::new(&store, &name, table)?);
    registry.remember(socket, &name, &made);
    Ok(made)
}

/// Opens a dataset, or takes the one that is open in this process.
///
/// # Errors
///
/// The store is not there, or does not have it as this table.
pub fn open(socket: &Path, name: &str, table: &Table) -> Result<Arc<Dataset>, Error> {
    let mut registry = RegistryGuard::new();
    if let Some(known) = registry.dataset(socket, name) {
        return Ok(known);
    }
    let store = registry.store(socket)?;
    let found = Arc::new(Dataset::existing(&store, name, table)?);
    registry.remember(socket, name, &found);
    Ok(found)
}

/// A dataset that is open in this process.
pub fn known(socket: &Path, name: &str) -> Option<Arc<Dataset>> {
    RegistryGuard::new().dataset(socket, name)
}

/// Gives a dataset a name after another path. Returns the name.
///
/// # Errors
///
/// The store refuses.
pub fn rename(dataset: &Arc<Dataset>, of: DatasetKey<'_>) -> Result<String, Error> {
    let mut registry = RegistryGuard::new();
    let store = registry.store(dataset.socket())?;
    let name = registry.free_name(&store, of)?;
    registry.rename(dataset, &name)?;
    Ok(name)
}

/// Gives a dataset a name back that it had.
///
/// # Errors
///
/// The store refuses.
pub fn rename_back(dataset: &Arc<Dataset>, name: &str) -> Result<(), Error> {
    RegistryGuard::new().rename(dataset, name)
}

/// Makes a dataset of a file with the values of another one in the same store; they share their
/// bytes until one of them is written. Returns its name.
///
/// # Errors
///
/// The store refuses.
pub fn copy(dataset: &Dataset, of: DatasetKey<'_>) -> Result<String, Error> {
    let mut registry = RegistryGuard::new();
    let store = registry.store(dataset.socket())?;
    let name = registry.free_name(&store, of)?;
    dataset.share(&name)?;
    Ok(name)
}

/// Deletes the object of a dataset that no skeleton names, if it is there.
pub fn remove(socket: &Path, name: &str) {
    let mut registry = RegistryGuard::new();
    if let Ok(store) = registry.store(socket) {
        Object { store: &store, name }.delete();
    }
}
