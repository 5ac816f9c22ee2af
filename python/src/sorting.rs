//! Sorting tables of any producer: what the ways of doing it share, and that of a worker process.
//!
//! The sort runs on threads of its own; the thread that called waits for it in steps, between which
//! Python's signal handlers run and the caller hears how far it is. Whatever ends it early, an
//! error, Ctrl-C or the caller's own exception, takes back every object that was begun.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plasmon_client::{PutOptions, Writer, tag};
use plasmon_proto::value::ValueHeader;
use plasmon_python_arrow::Tables;
use plasmon_sort::{Error, Job, Partition, Progress, SortKey, Table, sort};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments::put_options;
use crate::error::OrRaise;
use crate::header::describe;
use crate::id::Id;
use crate::interrupt::{outcome, stoppable};
use crate::sort_errors::of_sort;
use crate::store::Store;

/// How long the calling thread waits before it looks at signals and progress.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// A key as Python gives it: column, descending, nulls first.
pub(crate) type Key = (String, bool, bool);

/// What the package asks for; all of it is always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted<'py> {
    /// None: as few as can be.
    partitions: Option<usize>,
    /// Which of the partitions, from one to another; None: all.
    only: Option<(usize, usize)>,
    threads: Option<usize>,
    /// What each object comes back as.
    kind: u8,
    /// The put options of each object; those behind the last ones get none.
    options: Vec<Bound<'py, PyDict>>,
    progress: Option<Bound<'py, PyAny>>,
    /// Takes the id of each object that is sealed, or may be: what the caller takes back when it
    /// fails or is interrupted before it has the answer.
    made: Bound<'py, PyList>,
}

/// Makes a worker process's share of the partitions, whose caller guards them. Returns (id, rows)
/// for each.
#[pyfunction]
pub(crate) fn sort_tables(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    tables: Vec<Bound<'_, PyAny>>,
    by: Vec<Key>,
    wanted: Wanted<'_>,
) -> PyResult<Vec<(Id, usize)>> {
    let Wanted { partitions, only, threads, kind, options, progress, made } = wanted;
    let mut prepared = Vec::with_capacity(options.len());
    for options in &options {
        prepared.push(put_options(Some(options))?);
    }
    let header = ValueHeader { kind, ..ValueHeader::default() };
    let mut plain = PutOptions::default();
    for options in prepared.iter_mut().chain([&mut plain]) {
        describe(py, options, tag::ARROW_STREAM, &header)?;
    }
    let named = prepared.iter().any(|options| options.name.is_some());
    let task = Task {
        store: store.get().client().clone(),
        table: read(py, &tables)?,
        order: order_of(by),
        partitions,
        only: only.map(|(from, to)| from..to),
        threads,
        options: prepared,
        plain,
        progress: Arc::new(Progress::default()),
    };
    let state = Arc::clone(&task.progress);
    let watched = watch(py, &state, progress.as_ref(), move || task.run())?;
    let writers = match (watched.stopped, watched.outcome) {
        (Some(error), _) => return Err(error),
        (None, Some(outcome)) => outcome.map_err(|error| of_sort(py, error))?,
        (None, None) => return Err(of_panic(watched.panic)),
    };
    tell(progress.as_ref(), &state)?;
    let mut sealed = Vec::with_capacity(writers.len());
    for Partition { memory, rows } in writers {
        let id = Id::new(memory.id());
        let (outcome, interrupted) = outcome(py, || memory.seal());
        // An object of a chosen name that could not be sealed may be another's.
        if outcome.is_ok() || (interrupted.is_some() && !named) {
            made.append(id)?;
        }
        if let Some(error) = interrupted {
            return Err(error);
        }
        sealed.push((Id::new(outcome.or_raise(py)?), rows));
    }
    Ok(sealed)
}

/// The keys for the engine.
pub(crate) fn order_of(by: Vec<Key>) -> Vec<SortKey> {
    let key = |(column, descending, nulls_first)| SortKey { column, descending, nulls_first };
    by.into_iter().map(key).collect()
}

/// The tables as one, on the memory of their producers.
pub(crate) fn read(py: Python<'_>, tables: &[Bound<'_, PyAny>]) -> PyResult<Table> {
    let mut tables = Tables::of(tables.iter().map(|table| Ok(table.clone())))?;
    let mut batches = Vec::new();
    while let Some(batch) = tables.next_batch()? {
        batches.push(batch);
    }
    let schema = tables.schema;
    py.detach(|| Table::new(schema, batches)).map_err(|error| of_sort(py, error))
}

/// Everything that the sort needs, so that it can run on a thread of its own.
struct Task {
    store: plasmon_client::Client,
    table: Table,
    order: Vec<SortKey>,
    partitions: Option<usize>,
    only: Option<std::ops::Range<usize>>,
    threads: Option<usize>,
    options: Vec<PutOptions>,
    plain: PutOptions,
    progress: Arc<Progress>,
}

impl Task {
    fn run(self) -> Result<Vec<Partition<Writer>>, Error> {
        let job = Job {
            table: &self.table,
            order: &self.order,
            partitions: self.partitions,
            only: self.only.clone(),
            threads: self.threads,
            progress: &self.progress,
        };
        let mut options = self.options.iter();
        sort(&job, &mut |bytes| {
            let options = options.next().unwrap_or(&self.plain);
            Ok(self.store.create(bytes, options)?)
        })
    }
}

/// What became of some work on a thread of its own.
pub(crate) struct Watched<T> {
    /// `None` when it panicked.
    pub(crate) outcome: Option<T>,
    /// What the caller's function or a signal handler raised meanwhile.
    pub(crate) stopped: Option<PyErr>,
    pub(crate) panic: Option<Box<dyn std::any::Any + Send>>,
}

/// Runs the work and waits for it, with an ear for signals.
pub(crate) fn watch<T: Send + 'static>(
    py: Python<'_>,
    state: &Arc<Progress>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<Watched<T>> {
    let (send, receive) = channel();
    let receive = Mutex::new(receive);
    let thread = std::thread::Builder::new().name("plasmon-sort".to_owned());
    let of_thread = Arc::clone(state);
    let thread = thread.spawn(move || {
        // The receiver stays until the thread has ended.
        let _ = send.send(stoppable(&of_thread, work));
    })?;
    let mut stopped = None;
    let outcome = loop {
        let step = || receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(STEP);
        match py.detach(step) {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stopped.is_none() {
            let heard = py.check_signals().and_then(|()| tell(progress, state));
            stopped = heard.err();
        }
        if stopped.is_some() {
            state.cancel();
        }
    };
    // The thread has sent its answer or panicked: it ends now.
    let panic = py.detach(|| thread.join()).err();
    Ok(Watched { outcome, stopped, panic })
}

/// A sort that panicked, in the words of its panic.
pub(crate) fn of_panic(panic: Option<Box<dyn std::any::Any + Send>>) -> PyErr {
    let text = panic.as_ref().and_then(|panic| {
        let owned = panic.downcast_ref::<String>().map(String::as_str);
        owned.or_else(|| panic.downcast_ref::<&str>().copied())
    });
    let text = text.unwrap_or("no message");
    PyRuntimeError::new_err(format!("the sort failed because of a bug in Plasmon: {text}"))
}

pub(crate) fn tell(progress: Option<&Bound<'_, PyAny>>, state: &Progress) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    progress.call1(state.steps()).map(drop)
}
