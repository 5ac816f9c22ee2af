//! Sorting what is larger than memory into new objects of the store.
//!
//! ```text
//!   this thread, with Python                        a thread of the sort
//!   takes tables from an iterator  ── batch ─────►  collects and sorts runs, writes them
//!        (one when the other asks) ◄─ ready ──────
//!   names the partitions           ◄─ how many ───  knows the bounds
//!                                  ── options ───►  makes, seals and forgets one after the other
//! ```
//!
//! Partitions are sealed one by one, so that the store can spill them. Whoever calls is told their
//! ids before the first is made, and has them watched: see `plasmon/_sort_guard.py`.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::{ObjectId, PutOptions, tag};
use plasmon_proto::value::ValueHeader;
use plasmon_python_arrow::Tables;
use plasmon_sort::{External, Means, Progress, SortKey};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::put_options;
use crate::error::raised;
use crate::id::Id;
use crate::interrupt::{begin, stoppable};
use crate::put::describe;
use crate::sorting::{Key, STEP, in_python, of_panic, order_of, tell};
use crate::store::Store;

/// What the package asks for; all of it is always given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted<'py> {
    /// None: as few as can be.
    partitions: Option<usize>,
    threads: Option<usize>,
    /// What each object comes back as.
    kind: u8,
    /// Called with the number of partitions; gives the put options of each.
    planned: Bound<'py, PyAny>,
    progress: Option<Bound<'py, PyAny>>,
    /// How many rows there will be, when that is known.
    rows: Option<u64>,
    folder: PathBuf,
    /// How large the scratch file may be.
    scratch_bytes_max: Option<u64>,
    memory_bytes: u64,
}

/// Why there is no result.
enum Failure {
    Sort(plasmon_sort::Error),
    Store(plasmon_client::Error),
    /// The other thread has an error of its own.
    Left,
}

impl From<plasmon_sort::Error> for Failure {
    fn from(error: plasmon_sort::Error) -> Self {
        Self::Sort(error)
    }
}

/// Whether all partitions are made, or why not.
type Outcome = Result<(), Failure>;

/// The partitions that are sealed so far, with their rows.
type Made = Mutex<Vec<(ObjectId, usize)>>;

fn locked(made: &Made) -> MutexGuard<'_, Vec<(ObjectId, usize)>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread of the sort tells.
enum Event {
    Ready,
    Planned(usize),
    Done(Outcome),
}

/// What it is told.
enum Order {
    Sort(RecordBatch),
    End,
    Make(Vec<PutOptions>),
}

/// Sorts the tables of an iterator, as if they were one, with little memory. Returns (id, rows) for
/// each partition.
#[pyfunction]
pub(crate) fn sort_spilling(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    tables: &Bound<'_, PyAny>,
    by: Vec<Key>,
    wanted: Wanted<'_>,
) -> PyResult<Vec<(Id, usize)>> {
    let input = Tables::of(tables.try_iter()?)?;
    let progress = Arc::new(Progress::default());
    let (tell, events) = channel();
    let (orders, take) = channel();
    let store = store.get().client().clone();
    let made = Arc::new(Mutex::new(Vec::new()));
    let task = Task {
        store: store.clone(),
        made: Arc::clone(&made),
        schema: input.schema.clone(),
        order: order_of(by),
        partitions: wanted.partitions,
        threads: wanted.threads,
        rows: wanted.rows,
        folder: wanted.folder.clone(),
        scratch_bytes_max: wanted.scratch_bytes_max,
        memory_bytes: wanted.memory_bytes,
        progress: Arc::clone(&progress),
        tell,
        take,
    };
    let thread = std::thread::Builder::new().name("plasmon-sort".to_owned());
    let thread = thread.spawn(move || {
        let progress = Arc::clone(&task.progress);
        stoppable(&progress, || task.run());
    })?;
    let other = Other { events: Mutex::new(events), orders, progress: &progress };
    let outcome = other.lead(py, input, &wanted);
    if outcome.is_err() {
        progress.cancel();
    }
    drop(other);
    let ended = py.detach(|| thread.join());
    if !matches!(outcome, Ok(Some(Ok(())))) {
        // Half a result is none, and so is a whole one that nobody is told of.
        let ids: Vec<ObjectId> = locked(&made).iter().map(|(id, _)| *id).collect();
        // The first error is the one to tell.
        begin(py, || store.delete(&ids));
    }
    match outcome? {
        Some(Ok(())) => Ok(locked(&made).iter().map(|(id, rows)| (Id::new(*id), *rows)).collect()),
        Some(Err(Failure::Sort(error))) => Err(in_python(py, error)),
        Some(Err(Failure::Store(error))) => Err(raised(py, &error)),
        Some(Err(Failure::Left)) | None => Err(of_panic(ended.err())),
    }
}

/// The thread of the sort, seen from the one that called.
struct Other<'a> {
    events: Mutex<Receiver<Event>>,
    orders: Sender<Order>,
    progress: &'a Progress,
}

impl Other<'_> {
    /// Answers the other thread until it is done; `None` when it ended without a word.
    fn lead<'py>(
        &self,
        py: Python<'py>,
        mut input: Tables<'py, impl Iterator<Item = PyResult<Bound<'py, PyAny>>>>,
        wanted: &Wanted<'_>,
    ) -> PyResult<Option<Outcome>> {
        let progress = wanted.progress.as_ref();
        loop {
            let step = || {
                let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
                events.recv_timeout(STEP)
            };
            let order = match py.detach(step) {
                Ok(Event::Done(outcome)) => {
                    tell(progress, self.progress)?;
                    return Ok(Some(outcome));
                }
                Ok(Event::Ready) => input.next_batch()?.map_or(Order::End, Order::Sort),
                Ok(Event::Planned(count)) => Order::Make(planned(py, wanted, count)?),
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

/// The put options of all partitions.
fn planned(py: Python<'_>, wanted: &Wanted<'_>, count: usize) -> PyResult<Vec<PutOptions>> {
    let options: Vec<Bound<'_, PyDict>> = wanted.planned.call1((count,))?.extract()?;
    let header = ValueHeader { kind: wanted.kind, ..ValueHeader::default() };
    let prepare = |options: &Bound<'_, PyDict>| {
        let mut prepared = put_options(Some(options))?;
        describe(py, &mut prepared, tag::ARROW_STREAM, &header)?;
        Ok(prepared)
    };
    options.iter().map(prepare).collect()
}

/// Everything that the thread of the sort needs.
struct Task {
    store: plasmon_client::Store,
    made: Arc<Made>,
    schema: SchemaRef,
    order: Vec<SortKey>,
    partitions: Option<usize>,
    threads: Option<usize>,
    rows: Option<u64>,
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
        // The receiver stays until this thread has ended, unless its own error is the one to tell.
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
        if let Some(rows) = self.rows {
            external.expect_rows(rows);
        }
        while let Order::Sort(batch) = self.ask(Event::Ready)? {
            external.push(&batch)?;
        }
        let mut merge = external.finish(self.partitions)?;
        let Order::Make(options) = self.ask(Event::Planned(merge.partitions()))? else {
            return Err(Failure::Left);
        };
        for options in &options {
            if let Some(partition) = self.make(&mut merge, options)? {
                locked(&self.made).push(partition);
            }
        }
        Ok(())
    }

    fn make(
        &self,
        merge: &mut plasmon_sort::Merge<'_>,
        options: &PutOptions,
    ) -> Result<Option<(ObjectId, usize)>, Failure> {
        let create = &mut |bytes| Ok(self.store.create(bytes, options)?);
        let Some(partition) = merge.next_partition(create)? else { return Ok(None) };
        let id = partition.memory.seal().map_err(Failure::Store)?;
        Ok(Some((id, partition.rows)))
    }

    fn ask(&self, event: Event) -> Result<Order, Failure> {
        self.tell.send(event).map_err(|_| Failure::Left)?;
        self.take.recv().map_err(|_| Failure::Left)
    }
}
