//! `plasmon sort`: tables in, one table out, in order.
//!
//! From files to a file no store is needed, and tables that need more memory than there is go
//! through a scratch file. A file appears whole or not at all; so does a result
//! in the store, because the partitions are sealed when all of them are done, and what is not
//! sealed ends with this process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow::datatypes::SchemaRef;
use plasmon_client::{Name, ObjectId, PutOptions, Store};
use plasmon_proto::object::tag;
use plasmon_sort::{External, Heap, Job, Means, Partition, Progress, SortKey, Table};
use serde_json::json;

use crate::arguments::Sort;
use crate::commands::get::replace;
use crate::commands::sort_inputs::Inputs;
use crate::formats::{self, TableWriter, read_stream};
use crate::output::Output;
use crate::progress;

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
        if !matches!(
            formats::of_path(out),
            crate::arguments::Format::Parquet
                | crate::arguments::Format::Csv
                | crate::arguments::Format::Arrow
        ) {
            bail!("{}: a table is a .parquet, .csv, .tsv or .arrow file", out.display());
        }
    }
    let inputs = Inputs::open(connect, &sort.inputs)?;
    let work = Work { sort, order: &order, quiet: output.is_json() };
    let mut names = Vec::new();
    let rows = match &sort.out {
        Some(out) if inputs.spills(sort.memory)? => spill(inputs, &work, out)?,
        None if inputs.spills(sort.memory)? => bail!(
            "{}: sort into a file with --out, or with plasmon.sort in Python, which both spill",
            inputs.too_much(sort.memory)?
        ),
        _ => {
            let table = inputs.table()?;
            match &sort.out {
                Some(out) => {
                    let sorted = work.run(&table, &mut |bytes| Ok(Heap::new(bytes)))?;
                    write(out, &table.sorted_schema(), &sorted)?;
                }
                None => {
                    let name = sort.name.as_deref().context("give --out or --name")?;
                    names = store(&connect()?, &work, &table, name)?;
                }
            }
            table.rows()
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({ "rows": rows, "out": sort.out, "names": names, "seconds": seconds });
    output.value(&document, || {
        let place = sort.out.as_ref().map_or(names.join(", "), |out| out.display().to_string());
        format!("{rows} rows sorted into {place} in {seconds:.2} s")
    })
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

struct Work<'a> {
    sort: &'a Sort,
    order: &'a [SortKey],
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

    fn threads(&self) -> Option<usize> {
        self.sort.threads.map(usize::from)
    }

    /// Does something, with a bar that another thread draws.
    fn drawn<T>(&self, progress: &Progress, work: impl FnOnce() -> Result<T>) -> Result<T> {
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

/// Sorts into a file through a scratch file; how many rows there were.
fn spill(inputs: Inputs, work: &Work<'_>, out: &Path) -> Result<usize> {
    let beside = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = work.sort.spill_dir.as_deref().or(beside).unwrap_or(Path::new("."));
    let progress = Progress::default();
    let memory_bytes = inputs.memory_bytes(work.sort.memory)?;
    let means = Means { folder, memory_bytes, threads: work.threads(), progress: &progress };
    let mut external = External::new(&inputs.schema, work.order, means)?;
    work.drawn(&progress, || {
        inputs.each(&mut |batch| Ok(external.push(&batch)?))?;
        let mut merge = external.finish(work.sort.partitions)?;
        let mut rows = 0;
        replace(out, |file| {
            let mut writer = TableWriter::new(formats::of_path(out), &merge.schema(), file)?;
            while let Some(made) = merge.next_partition(&mut |bytes| Ok(Heap::new(bytes)))? {
                rows += made.rows;
                for batch in &read_stream(&made.memory)?.1 {
                    writer.write(batch)?;
                }
            }
            writer.finish()
        })?;
        Ok(rows)
    })
}

/// Sorts into the store; the names of the partitions.
fn store(store: &Store, work: &Work<'_>, table: &Table, name: &str) -> Result<Vec<String>> {
    let count = work.sort.partitions.unwrap_or(1);
    let named = |at: usize| if count == 1 { name.to_owned() } else { format!("{name}/{at:04}") };
    let names: Vec<String> = (0..count).map(named).collect();
    let mut wanted = names.iter();
    let sorted = work.run(table, &mut |bytes| {
        let name = wanted.next().ok_or("more partitions than names: give --partitions")?;
        let name = Some(Name::new("", name.clone())?);
        let options = PutOptions { name, tag: tag::ARROW_STREAM, ..PutOptions::default() };
        Ok(store.create(bytes, &options)?)
    })?;
    let mut sealed: Vec<ObjectId> = Vec::new();
    for partition in sorted {
        match partition.memory.seal() {
            Ok(id) => sealed.push(id),
            Err(error) => {
                // Half a result is none; the first error is the one to tell.
                let _ = store.delete(&sealed);
                return Err(error.into());
            }
        }
    }
    Ok(names)
}

fn write(path: &Path, schema: &SchemaRef, sorted: &[Partition<Heap>]) -> Result<()> {
    replace(path, |file| {
        let mut writer = TableWriter::new(formats::of_path(path), schema, file)?;
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
