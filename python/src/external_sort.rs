//! Sorting what is larger than memory into new objects of the store.
//!
//! ```text
//!   this thread, with Python                        a thread of the sort
//!   takes tables from an iterator  ── batch ─────►  collects and sorts runs, writes them
//!        (one when the other asks) ◄─ ready ──────
//!                                  ◄─ done ───────  makes and seals one partition after the other
//! ```
//!
//! How the partitions are made, and taken back, is in `plasmon-sort-store`.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_python_arrow::Tables;
use plasmon_sort::{External, Means, Progress, SortKey};
use plasmon_sort_store::{Error, Output, UnpublishedPartitions, scratch_folder};
use pyo3::prelude::*;

use crate::interrupt::stoppable;
use crate::sort_errors::in_python;
use crate::sort_into::{Target, Unpublished, settle};
use crate::sorting::{Key, STEP, of_panic, order_of, tell};
use crate::store::Store;

/// The package's options; all of them are always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SpillOptions<'py> {
    /// None: as few as can be.
    partitions: Option<usize>,
    threads: Option<usize>,
    target: Target,
    progress: Option<Bound<'py, PyAny>>,
    /// How many rows there will be, when that is known.
    rows: Option<u64>,
    /// About how many bytes they take.
    rows_bytes: u64,
    folder: Option<PathBuf>,
    /// How large the scratch file may be.
    scratch_bytes_max: Option<u64>,
    memory_bytes: u64,
}

/// The partitions, or why there are none.
enum Failure {
    Sort(Error),
    /// The other thread has its own error.
    Left,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sort(error)
    }
}

impl From<plasmon_sort::Error> for Failure {
    fn from(error: plasmon_sort::Error) -> Self {
        Self::Sort(error.into())
    }
}

type Outcome = Result<UnpublishedPartitions, Failure>;

/// A message of the sort's thread.
enum Event {
    Ready,
    Done(Outcome),
}

/// A message to it.
enum Order {
    Sort(RecordBatch),
    End,
}

/// Sorts the tables of an iterator, as if they were one, with little memory. Returns the
/// partitions, unpublished.
#[pyfunction]
pub(crate) fn sort_spilling(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    tables: &Bound<'_, PyAny>,
    by: Vec<Key>,
    wanted: SpillOptions<'_>,
) -> PyResult<Unpublished> {
    let input = Tables::of(tables.try_iter()?)?;
    let progress = Arc::new(Progress::default());
    let (send, events) = channel();
    let (orders, take) = channel();
    let task = Task {
        output: wanted.target.output(py, store)?,
        schema: input.schema.clone(),
        order: order_of(by),
        partitions: wanted.partitions,
        threads: wanted.threads,
        rows: wanted.rows,
        rows_bytes: wanted.rows_bytes,
        folder: scratch_folder(wanted.folder, std::env::var_os("TMPDIR")),
        scratch_bytes_max: wanted.scratch_bytes_max,
        memory_bytes: wanted.memory_bytes,
        progress: Arc::clone(&progress),
        tell: send,
        take,
    };
    let thread = std::thread::Builder::new().name("plasmon-sort".to_owned());
    let thread = thread.spawn(move || {
        let progress = Arc::clone(&task.progress);
        stoppable(&progress, || task.run());
    })?;
    let other = SortThread { events: Mutex::new(events), orders, progress: &progress };
    let (mut outcome, mut stopped) = match other.lead(py, input, wanted.progress.as_ref()) {
        Ok(outcome) => (outcome, None),
        Err(error) => {
            progress.cancel();
            (None, Some(error))
        }
    };
    let SortThread { events, orders, .. } = other;
    // A thread that waits for an order hears that there is none.
    drop(orders);
    let ended = py.detach(|| thread.join());
    if stopped.is_some() {
        // It may have been done before it heard that it should stop.
        let events = events.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome = events.try_iter().find_map(|event| match event {
            Event::Done(outcome) => Some(outcome),
            Event::Ready => None,
        });
    } else if matches!(outcome, Some(Ok(_))) {
        stopped = tell(wanted.progress.as_ref(), &progress).err();
    }
    let outcome = match outcome {
        Some(Ok(sealed)) => Ok(sealed),
        Some(Err(Failure::Sort(error))) => Err(in_python(py, error)),
        Some(Err(Failure::Left)) | None => Err(of_panic(ended.err())),
    };
    settle(py, store.get().client().clone(), outcome, stopped)
}

/// The thread of the sort, seen from the one that called.
struct SortThread<'a> {
    events: Mutex<Receiver<Event>>,
    orders: Sender<Order>,
    progress: &'a Progress,
}

impl SortThread<'_> {
    /// Answers the other thread until it is done; `None` when it ended silently.
    fn lead<'py>(
        &self,
        py: Python<'py>,
        mut input: Tables<'py, impl Iterator<Item = PyResult<Bound<'py, PyAny>>>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Outcome>> {
        loop {
            let step = || {
                let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
                events.recv_timeout(STEP)
            };
            let order = match py.detach(step) {
                Ok(Event::Done(outcome)) => return Ok(Some(outcome)),
                Ok(Event::Ready) => input.next_batch()?.map_or(Order::End, Order::Sort),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    py.check_signals()?;
                    tell(progress, self.progress)?;
                    continue;
                }
            };
            // One that has ended says why next.
            let _ = self.orders.send(order);
        }
    }
}

/// Everything that the thread of the sort needs.
struct Task {
    output: Output,
    schema: SchemaRef,
    order: Vec<SortKey>,
    partitions: Option<usize>,
    threads: Option<usize>,
    rows: Option<u64>,
    rows_bytes: u64,
    folder: PathBuf,
    scratch_bytes_max: Option<u64>,
    memory_bytes: u64,
    progress: Arc<Progress>,
    tell: Sender<Event>,
    take: Receiver<Order>,
}

impl Task {
    fn run(self) {
        let outcome = self.sort();
        // The receiver stays until this thread has ended.
        let _ = self.tell.send(Event::Done(outcome));
    }

    fn sort(&self) -> Outcome {
        let means = Means {
            folder: &self.folder,
            scratch_bytes_max: self.scratch_bytes_max,
            memory_bytes: self.memory_bytes,
            threads: self.threads,
            progress: &self.progress,
        };
        let mut external = External::new(&self.schema, &self.order, means)?;
        external.expect_bytes(self.rows_bytes)?;
        if let Some(rows) = self.rows {
            external.expect_rows(rows);
        }
        while let Order::Sort(batch) = self.ask(Event::Ready)? {
            external.push(&batch)?;
        }
        Ok(self.output.write(external.finish(self.partitions)?)?)
    }

    fn ask(&self, event: Event) -> Result<Order, Failure> {
        self.tell.send(event).map_err(|_| Failure::Left)?;
        self.take.recv().map_err(|_| Failure::Left)
    }
}
