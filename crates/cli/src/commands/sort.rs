//! `plasmon sort`: tables in, one table out, in order.
//!
//! From files to a file no store is needed, and tables that need more memory than there is go
//! through a scratch file. A file appears whole or not at all; so does a result in the store: its
//! partitions are sealed when all of them are done, and what is not sealed ends with this process.
//! Several partitions have a guard, which deletes those that are sealed when this process is killed
//! before the last.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use arrow::datatypes::SchemaRef;
use plasmon_client::{ObjectId, PutOptions, Store};
use plasmon_proto::object::tag;
use plasmon_sort::{Heap, Job, Partition, Progress, SortKey, Table};
use serde_json::json;

use crate::arguments::Sort;
use crate::commands::get::replace;
use crate::commands::sort_guard::Guard;
use crate::commands::sort_inputs::Inputs;
use crate::commands::sort_spilling;
use crate::formats::{FileType, TableWriter, read_stream};
use crate::output::Output;
use crate::progress;
use crate::target;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);

/// Sorts; `connect` is called only when the store has to do with it.
pub(super) fn sort(
    connect: &dyn Fn() -> Result<Store>,
    sort: &Sort,
    output: &Output,
) -> Result<()> {
    let start = Instant::now();
    let order = order(&sort.by, sort.nulls_first)?;
    if let Some(out) = &sort.out {
        // Rather now than after the work.
        FileType::of_table(out, None)?;
    }
    if let Some(name) = &sort.name {
        target::new_name(name, None)?;
    }
    let inputs = Inputs::open(connect, &sort.inputs)?;
    let work = Work { sort, order: &order, quiet: output.is_json() };
    let (rows, names) = match (&sort.out, &sort.name) {
        (Some(out), _) => (into_file(inputs, &work, out)?, Vec::new()),
        (None, Some(name)) => into_store(&connect()?, inputs, &work, name)?,
        (None, None) => bail!("give --out or --name"),
    };
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({ "rows": rows, "out": sort.out, "names": names, "seconds": seconds });
    output.value(&document, || {
        let place = sort.out.as_ref().map_or(names.join(", "), |out| out.display().to_string());
        format!("{rows} rows sorted into {place} in {seconds:.2} s")
    })
}

/// Sorts into a file; how many rows there were.
fn into_file(inputs: Inputs, work: &Work<'_>, out: &Path) -> Result<usize> {
    if inputs.spills(work.sort.memory)? {
        return sort_spilling::into_file(inputs, work, out);
    }
    let table = inputs.table()?;
    let sorted = work.run(&table, &mut |bytes| Ok(Heap::new(bytes)))?;
    write(out, &table.sorted_schema(), &sorted)?;
    Ok(table.rows())
}

/// Sorts into the store; how many rows there were, and the names of the partitions.
fn into_store(
    store: &Store,
    inputs: Inputs,
    work: &Work<'_>,
    name: &str,
) -> Result<(usize, Vec<String>)> {
    let capacity = store.status()?.capacity_bytes;
    if inputs.spills(work.sort.memory)? || inputs.rows_bytes() > capacity {
        let (names, rows) = sort_spilling::into_store(store, inputs, work, name)?;
        return Ok((rows, names));
    }
    let table = inputs.table()?;
    Ok((table.rows(), seal_together(store, work, &table, name)?))
}

/// The names of partitions.
pub(super) fn names(name: &str, count: usize) -> Vec<String> {
    let named = |at: usize| if count == 1 { name.to_owned() } else { format!("{name}/{at:04}") };
    (0..count).map(named).collect()
}

/// The order that a text such as `a,-b` means.
fn order(text: &str, nulls_first: bool) -> Result<Vec<SortKey>> {
    let key = |term: &str| {
        let (column, descending) = match term.strip_prefix('-') {
            Some(column) => (column, true),
            None => (term, false),
        };
        if column.is_empty() {
            bail!("--by takes columns such as \"city,-price\", found \"{text}\"");
        }
        Ok(SortKey { column: column.to_owned(), descending, nulls_first })
    };
    text.split(',').map(str::trim).map(key).collect()
}

/// What is asked for.
pub(super) struct Work<'a> {
    pub(super) sort: &'a Sort,
    pub(super) order: &'a [SortKey],
    quiet: bool,
}

impl Work<'_> {
    /// Sorts in memory.
    fn run<M>(
        &self,
        table: &Table,
        create: &mut plasmon_sort::Create<'_, M>,
    ) -> Result<Vec<Partition<M>>>
    where
        M: std::ops::DerefMut<Target = [u8]> + Send,
    {
        let progress = Progress::default();
        let job = Job {
            table,
            order: self.order,
            partitions: self.sort.partitions,
            only: None,
            threads: self.threads(),
            progress: &progress,
        };
        self.drawn(&progress, || Ok(plasmon_sort::sort(&job, create)?))
    }

    pub(super) fn threads(&self) -> Option<usize> {
        self.sort.threads.map(usize::from)
    }

    /// Does something, with a bar that another thread draws.
    pub(super) fn drawn<T>(
        &self,
        progress: &Progress,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let drawing = scope.spawn(|| {
                let bar = progress::steps("sorting", self.quiet);
                while !done.load(Ordering::Acquire) {
                    let (steps, total) = progress.steps();
                    bar.set_length(total.max(1));
                    bar.set_position(steps);
                    std::thread::park_timeout(DRAW);
                }
                bar.finish_and_clear();
            });
            let result = work();
            done.store(true, Ordering::Release);
            drawing.thread().unpark();
            result
        })
    }
}

/// Sorts into the store in memory; the names of the partitions, which are sealed at the end.
fn seal_together(store: &Store, work: &Work<'_>, table: &Table, name: &str) -> Result<Vec<String>> {
    let names = names(name, work.sort.partitions.unwrap_or(1));
    let mut wanted = names.iter();
    let sorted = work.run(table, &mut |bytes| {
        let name = wanted.next().ok_or("more partitions than names: give --partitions")?;
        let name = Some(target::new_name(name, None).map_err(|error| error.to_string())?);
        let options = PutOptions { name, tag: tag::ARROW_STREAM, ..PutOptions::default() };
        Ok(store.create(bytes, &options)?)
    })?;
    let ids: Vec<ObjectId> = sorted.iter().map(|partition| partition.memory.id()).collect();
    // Half a result is none: of several partitions a guard knows, and an error drops the guard.
    let guard = if ids.len() > 1 { Some(Guard::start(store, &ids)?) } else { None };
    for partition in sorted {
        partition.memory.seal()?;
    }
    guard.map_or(Ok(()), Guard::dismiss)?;
    Ok(names)
}

fn write(path: &Path, schema: &SchemaRef, sorted: &[Partition<Heap>]) -> Result<()> {
    replace(path, |file| {
        let mut writer = TableWriter::new(FileType::of_table(path, None)?, schema, file)?;
        for partition in sorted {
            for batch in &read_stream(&partition.memory)?.1 {
                writer.write(batch)?;
            }
        }
        writer.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_columns_with_a_minus_for_downwards() {
        let found = order("city, -price", true).unwrap();
        assert_eq!(found[0], SortKey::ascending("city").nulls_first());
        assert_eq!(found[1], SortKey::descending("price").nulls_first());
        for wrong in ["", "-", "a,,b", "a,-"] {
            assert!(order(wrong, false).is_err(), "{wrong}");
        }
    }
}
