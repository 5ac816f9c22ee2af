//! `plasmon sort`: tables in, one table out, in order.
//!
//! From files to a file no store is needed, and tables that need more memory than there is go
//! through a scratch file. A file appears whole or not at all; so does a result in the store. When
//! and how much of all this is decided in `plasmon-sort-store`, for Python alike.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use arrow_schema::SchemaRef;
use plasmon_client::{Client, Name, PutOptions};
use plasmon_proto::object::tag;
use plasmon_sort::{Heap, Partition};
use plasmon_sort_store::{
    Error, Output as Partitions, Plan, SealedPartition, StoreRoom, partition_name,
};
use serde_json::json;

use crate::arguments::Sort;
use crate::commands::get::replace;
use crate::commands::sort_inputs::Inputs;
use crate::commands::sort_spill;
use crate::commands::sort_work::{Work, order};
use crate::formats::{FileType, TableWriter, read_stream};
use crate::output::Output;
use crate::target;

/// Sorts; `connect` is called only when the sort uses the store.
pub(super) fn sort(
    connect: &dyn Fn() -> Result<Client>,
    sort: &Sort,
    output: &Output,
) -> Result<()> {
    let start = Instant::now();
    let order = order(&sort.by, sort.nulls_first)?;
    if let Some(out) = &sort.out {
        // Rather now than after the work.
        FileType::of_table(out, None)?;
    }
    let name = sort.name.as_deref().map(|name| target::new_name(name, None)).transpose()?;
    let inputs = Inputs::open(connect, &sort.inputs)?;
    let work = Work { sort, order: &order, quiet: output.is_json() };
    let (rows, names) = match (&sort.out, name) {
        (Some(out), _) => (into_file(inputs, &work, out)?, Vec::new()),
        (None, Some(name)) => into_store(connect, inputs, &work, &name)?,
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
    if let Plan::Spill { memory_bytes } = work.plan(&inputs, None)? {
        return sort_spill::into_file(inputs, work, memory_bytes, out);
    }
    let table = inputs.table()?;
    let sorted =
        work.in_memory(&table, |job| plasmon_sort::sort(job, &mut |bytes| Ok(Heap::new(bytes))))?;
    write(out, &table.sorted_schema(), &sorted)?;
    Ok(table.rows())
}

/// Sorts into the store; how many rows there were, and the names of the partitions.
fn into_store(
    connect: &dyn Fn() -> Result<Client>,
    inputs: Inputs,
    work: &Work<'_>,
    name: &Name,
) -> Result<(usize, Vec<String>)> {
    let store = connect()?;
    let room = StoreRoom::from(&store.status()?);
    let options = PutOptions { tag: tag::ARROW_STREAM, ..PutOptions::default() };
    let partitions = Partitions { store, name: Some(name.clone()), options };
    let sealed = match work.plan(&inputs, Some(room))? {
        Plan::Spill { memory_bytes } => {
            sort_spill::into_store(inputs, work, memory_bytes, &partitions)
        }
        Plan::InMemory { or_spill_with } => {
            match (in_memory(inputs, work, &partitions), or_spill_with) {
                (Err(error), Some(memory_bytes)) if is_no_room(&error) => {
                    // All partitions at once are too much beside what others have in the store.
                    let inputs = Inputs::open(connect, &work.sort.inputs)?;
                    sort_spill::into_store(inputs, work, memory_bytes, &partitions)
                }
                (outcome, _) => outcome,
            }
        }
    };
    let sealed = sealed.map_err(with_advice)?;
    let count = sealed.len();
    let names = (0..count).map(|at| Ok(target::display_name(&partition_name(name, at, count)?)));
    Ok((sealed.iter().map(|one| one.rows).sum(), names.collect::<Result<_>>()?))
}

/// Sorts into the store in memory.
fn in_memory(
    inputs: Inputs,
    work: &Work<'_>,
    partitions: &Partitions,
) -> Result<Vec<SealedPartition>> {
    let table = inputs.table()?;
    work.in_memory(&table, |job| partitions.sort(job)?.publish())
}

fn is_no_room(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_no_room)
}

/// An error with the advice that fits the command line.
fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::Exists { name, .. }) => anyhow::anyhow!(
            "object {} exists already: choose another --name, or delete it",
            target::display_name(name)
        ),
        _ => error,
    }
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
