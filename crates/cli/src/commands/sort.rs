//! `plasmon sort`: tables in, one table out, in order.
//!
//! From files to a file no store is needed. A file appears whole or not at all; so does a result
//! in the store, because the partitions are sealed when all of them are done, and what is not
//! sealed ends with this process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow::datatypes::SchemaRef;
use plasmon_client::{Name, ObjectId, PutOptions, Store};
use plasmon_proto::object::tag;
use plasmon_sort::{Heap, Job, Partition, Progress, SortKey, Table};
use serde_json::json;

use crate::arguments::Sort;
use crate::commands::get::replace;
use crate::formats::{self, TableWriter, read_stream};
use crate::output::Output;
use crate::{progress, target};

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
    let (mut schema, mut batches) = (None, Vec::new());
    for input in &sort.inputs {
        let table = read(connect, input).with_context(|| format!("reading {input}"))?;
        let first: &SchemaRef = schema.get_or_insert_with(|| table.schema.clone());
        if first.fields() != table.schema.fields() {
            bail!("{input} has other columns than {}", sort.inputs[0]);
        }
        batches.extend(table.batches);
    }
    let table = Table::new(schema.context("no input")?, batches)?;
    let rows = table.rows();
    let mut names = Vec::new();
    let work = Work { sort, order: &order, table: &table, quiet: output.is_json() };
    match (&sort.out, &sort.name) {
        (Some(out), _) => {
            let sorted = work.run(&mut |bytes| Ok(Heap::new(bytes)))?;
            write(out, &table.sorted_schema(), &sorted)?;
        }
        (None, name) => {
            let name = name.as_deref().context("give --out or --name")?;
            names = store(&connect()?, &work, name)?;
        }
    }
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

/// The rows of a file, or else of an object.
fn read(connect: &dyn Fn() -> Result<Store>, input: &str) -> Result<formats::Table> {
    let path = Path::new(input);
    if path.exists() {
        return formats::load_table(path);
    }
    let id = target::object(input)?;
    let store = connect().context("it is no file, and for an object there must be a store")?;
    let buffer = store.get(&id, Some(Duration::ZERO))?;
    if !matches!(buffer.tag(), tag::ARROW_STREAM | tag::COMPOSITE) {
        bail!("the object holds {}, not a table", formats::kind(buffer.tag()));
    }
    let (schema, batches) = plasmon_columns::read(&buffer)?;
    Ok(formats::Table { schema, batches })
}

struct Work<'a> {
    sort: &'a Sort,
    order: &'a [SortKey],
    table: &'a Table,
    quiet: bool,
}

impl Work<'_> {
    /// Sorts, with a bar that another thread draws.
    fn run<M>(&self, create: &mut plasmon_sort::Create<'_, M>) -> Result<Vec<Partition<M>>>
    where
        M: std::ops::DerefMut<Target = [u8]> + Send,
    {
        let (state, done) = (Progress::default(), AtomicBool::new(false));
        let job = Job {
            table: self.table,
            order: self.order,
            partitions: self.sort.partitions,
            only: None,
            threads: self.sort.threads.map(usize::from),
            progress: &state,
        };
        std::thread::scope(|scope| {
            let drawing = scope.spawn(|| {
                let bar = progress::steps("sorting", self.quiet);
                while !done.load(Ordering::Acquire) {
                    let (steps, total) = state.steps();
                    bar.set_length(total.max(1));
                    bar.set_position(steps);
                    std::thread::park_timeout(DRAW);
                }
                bar.finish_and_clear();
            });
            let sorted = plasmon_sort::sort(&job, create);
            done.store(true, Ordering::Release);
            drawing.thread().unpark();
            Ok(sorted?)
        })
    }
}

/// Sorts into the store; the names of the partitions.
fn store(store: &Store, work: &Work<'_>, name: &str) -> Result<Vec<String>> {
    let count = work.sort.partitions.unwrap_or(1);
    let named = |at: usize| if count == 1 { name.to_owned() } else { format!("{name}/{at:04}") };
    let names: Vec<String> = (0..count).map(named).collect();
    let mut wanted = names.iter();
    let sorted = work.run(&mut |bytes| {
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
