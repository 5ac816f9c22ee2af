//! Sorting tables of any producer, in memory, into new objects of the store.
//!
//! How the partitions are made, and that all or none of them stay, is in `plasmon-sort-store`. What
//! is larger than memory is sorted by [`crate::external_sort`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plasmon_client::{Client, ObjectId, PutOptions, tag};
use plasmon_proto::value::ValueHeader;
use plasmon_sort::{Job, Progress, SortKey, Table};
use plasmon_sort_store::{Error, Output, SealedPartition, UnpublishedPartitions};
use pyo3::prelude::*;

use crate::header::describe;
use crate::id::{Id, name};
use crate::interrupt::call;
use crate::sort_errors::in_python;
use crate::sorting::{Key, WorkOutcome, of_panic, order_of, read, tell, watch};
use crate::store::Store;

/// Where the partitions go; all of it is always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Target {
    /// The form of each object when it is read.
    kind: u8,
    name: Option<String>,
}

impl Target {
    /// The partitions in a store.
    pub(crate) fn output(self, py: Python<'_>, store: &Bound<'_, Store>) -> PyResult<Output> {
        let header = ValueHeader { kind: self.kind, ..ValueHeader::default() };
        let mut options = PutOptions::default();
        describe(py, &mut options, tag::ARROW_STREAM, &header)?;
        let name = self.name.map(|text| name("", &text)).transpose()?;
        Ok(Output { store: store.get().client().clone(), name, options })
    }
}

/// The package's options; all of them are always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SortOptions<'py> {
    /// None: as few as can be.
    partitions: Option<usize>,
    /// Which of the partitions, from one to another; None: all.
    only: Option<(usize, usize)>,
    threads: Option<usize>,
    target: Target,
    progress: Option<Bound<'py, PyAny>>,
}

/// The partitions of a sort, which stay only when they are published.
#[pyclass(frozen, module = "plasmon._native", name = "UnpublishedPartitions")]
pub(crate) struct Unpublished {
    store: Client,
    ids: Vec<ObjectId>,
    /// `None` once it was published or deleted.
    sorted: Mutex<Option<UnpublishedPartitions>>,
    partitions: Vec<(ObjectId, usize)>,
}

impl Unpublished {
    fn new(store: Client, sorted: UnpublishedPartitions) -> Self {
        let partitions: Vec<_> =
            sorted.partitions().iter().map(|SealedPartition { id, rows }| (*id, *rows)).collect();
        let ids = partitions.iter().map(|(id, _)| *id).collect();
        Self { store, ids, sorted: Mutex::new(Some(sorted)), partitions }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnpublishedPartitions>> {
        self.sorted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Unpublished {
    /// (id, rows) of each.
    #[getter]
    fn partitions(&self) -> Vec<(Id, usize)> {
        self.partitions.iter().map(|(id, rows)| (Id::new(*id), *rows)).collect()
    }

    /// Makes them stay, all of them at once.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let Some(sorted) = self.lock().take() else { return Ok(()) };
        call(py, || sorted.publish())?.map(drop).map_err(|error| in_python(py, error))
    }

    /// Deletes them, also those that were published.
    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        let sorted = self.lock().take();
        py.detach(|| match sorted {
            Some(unpublished) => drop(unpublished),
            // What cannot be deleted is not there, or the store is not.
            None => drop(plasmon_client::interruptible(|| false, || self.store.delete(&self.ids))),
        });
        Ok(())
    }
}

/// Sorts tables, as if they were one, into new objects. Returns the partitions, unpublished.
#[pyfunction]
pub(crate) fn sort_into(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    tables: Vec<Bound<'_, PyAny>>,
    by: Vec<Key>,
    wanted: SortOptions<'_>,
) -> PyResult<Unpublished> {
    let SortOptions { partitions, only, threads, target, progress } = wanted;
    let task = Task {
        output: target.output(py, store)?,
        table: read(py, &tables)?,
        order: order_of(by),
        partitions,
        only: only.map(|(from, to)| from..to),
        threads,
        progress: Arc::new(Progress::default()),
    };
    let client = task.output.store.clone();
    let state = Arc::clone(&task.progress);
    let watched = watch(py, &state, progress.as_ref(), move || task.run())?;
    let WorkOutcome { outcome, mut stopped, panic } = watched;
    if stopped.is_none() && matches!(outcome, Some(Ok(_))) {
        stopped = tell(progress.as_ref(), &state).err();
    }
    let outcome = outcome.map(|outcome| outcome.map_err(|error| in_python(py, error)));
    settle(py, client, outcome.unwrap_or_else(|| Err(of_panic(panic))), stopped)
}

/// Everything that the sort needs, so that it can run on its own thread.
struct Task {
    output: Output,
    table: Table,
    order: Vec<SortKey>,
    partitions: Option<usize>,
    only: Option<std::ops::Range<usize>>,
    threads: Option<usize>,
    progress: Arc<Progress>,
}

impl Task {
    fn run(self) -> Result<UnpublishedPartitions, Error> {
        self.output.sort(&Job {
            table: &self.table,
            order: &self.order,
            partitions: self.partitions,
            only: self.only.clone(),
            threads: self.threads,
            progress: &self.progress,
        })
    }
}

/// The result of a sort: the partitions, unless it was stopped; then they are deleted.
pub(crate) fn settle(
    py: Python<'_>,
    store: Client,
    outcome: PyResult<UnpublishedPartitions>,
    stopped: Option<PyErr>,
) -> PyResult<Unpublished> {
    match stopped {
        Some(error) => {
            py.detach(|| drop(outcome));
            Err(error)
        }
        None => Ok(Unpublished::new(store, outcome?)),
    }
}
