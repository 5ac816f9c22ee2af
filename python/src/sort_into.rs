//! Sorting tables of any producer, in memory, into new objects of the store.
//!
//! How the partitions are made, guarded and taken back is in `plasmon-sort-store`. What is larger
//! than memory is sorted by [`crate::spilling`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use plasmon_client::{PutOptions, tag};
use plasmon_proto::value::ValueHeader;
use plasmon_sort::{Job, Progress, SortKey, Table};
use plasmon_sort_store::{Error, GuardCommand, Output, Sealed};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::header::describe;
use crate::id::{Id, name};
use crate::sort_errors::in_python;
use crate::sorting::{Key, Watched, of_panic, order_of, read, tell, watch};
use crate::store::Store;

/// Where the partitions go; all of it is always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Target {
    /// What each object comes back as.
    kind: u8,
    name: Option<String>,
    /// What runs as a guard: a program, its arguments, and variables of its environment.
    guard: (PathBuf, Vec<OsString>, Vec<(OsString, OsString)>),
}

impl Target {
    /// The partitions in a store.
    pub(crate) fn output(self, py: Python<'_>, store: &Bound<'_, Store>) -> PyResult<Output> {
        let header = ValueHeader { kind: self.kind, ..ValueHeader::default() };
        let mut options = PutOptions::default();
        describe(py, &mut options, tag::ARROW_STREAM, &header)?;
        let name = self.name.map(|text| name("", &text)).transpose()?;
        let (program, arguments, environment) = self.guard;
        let guard = GuardCommand { program, arguments, environment };
        Ok(Output { store: store.get().client().clone(), name, options, guard })
    }
}

/// What the package asks for; all of it is always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted<'py> {
    /// None: as few as can be.
    partitions: Option<usize>,
    /// Which of the partitions, from one to another; None: all.
    only: Option<(usize, usize)>,
    threads: Option<usize>,
    target: Target,
    progress: Option<Bound<'py, PyAny>>,
    /// Takes the id of each object that is sealed: what the caller takes back when it is
    /// interrupted before it has the answer.
    made: Bound<'py, PyList>,
}

/// Sorts tables, as if they were one, into new objects. Returns (id, rows) for each.
#[pyfunction]
pub(crate) fn sort_into(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    tables: Vec<Bound<'_, PyAny>>,
    by: Vec<Key>,
    wanted: Wanted<'_>,
) -> PyResult<Vec<(Id, usize)>> {
    let Wanted { partitions, only, threads, target, progress, made } = wanted;
    let task = Task {
        output: target.output(py, store)?,
        table: read(py, &tables)?,
        order: order_of(by),
        partitions,
        only: only.map(|(from, to)| from..to),
        threads,
        progress: Arc::new(Progress::default()),
    };
    let state = Arc::clone(&task.progress);
    let watched = watch(py, &state, progress.as_ref(), move || task.run())?;
    let Watched { outcome, mut stopped, panic } = watched;
    if stopped.is_none() && matches!(outcome, Some(Ok(_))) {
        stopped = tell(progress.as_ref(), &state).err();
    }
    let outcome = outcome.map(|outcome| outcome.map_err(|error| in_python(py, error)));
    settle(&made, outcome.unwrap_or_else(|| Err(of_panic(panic))), stopped)
}

/// Everything that the sort needs, so that it can run on a thread of its own.
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
    fn run(self) -> Result<Vec<Sealed>, Error> {
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

/// Adds to the error that is raised what another one says of objects that stay.
fn keep_notes(py: Python<'_>, from: &PyErr, to: &PyErr) {
    // Without notes there is nothing to add, and what cannot be added is less than the error.
    let Ok(notes) = from.value(py).getattr("__notes__") else { return };
    for note in notes.try_iter().into_iter().flatten().flatten() {
        let _ = to.value(py).call_method1("add_note", (note,));
    }
}

/// What a sort gives its caller: the partitions, unless it was stopped. Those that are there are
/// noted in any case.
pub(crate) fn settle(
    made: &Bound<'_, PyList>,
    outcome: PyResult<Vec<Sealed>>,
    stopped: Option<PyErr>,
) -> PyResult<Vec<(Id, usize)>> {
    for one in outcome.iter().flatten() {
        made.append(Id::new(one.id))?;
    }
    if let Some(error) = stopped {
        if let Err(other) = &outcome {
            keep_notes(made.py(), other, &error);
        }
        return Err(error);
    }
    Ok(outcome?.into_iter().map(|one| (Id::new(one.id), one.rows)).collect())
}
