//! `plasmon ingest`: tables in files become one table in the store, built there.
//!
//! Rows are read a batch at a time and appended to columns that grow in shared memory, so this
//! process never holds more than a batch, and nothing is copied once it is in the store. A table
//! with a type that no builder is made for is read as a whole and put, and so is one for a pool,
//! whose objects are one piece.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use indicatif::ProgressBar;
use plasmon_client::{Client, Code};
use plasmon_columns::{BuilderOptions, Error, TableBuilder};
use serde_json::json;

use super::put;
use crate::arguments::Ingest;
use crate::formats::{self, FileType, InputFile, Table, TableFile};
use crate::output::{Output, bytes};
use crate::progress;
use crate::target::{self, Target};

/// Builds one table of all files; they must have the same columns.
pub(super) fn ingest(store: &Client, ingest: &Ingest, output: &Output) -> Result<()> {
    let start = Instant::now();
    let name = target::new_name(&ingest.name, ingest.kept.namespace.as_deref())?;
    let object = Target::parse(&target::display_name(&name))?;
    let options = ingest.kept.options(&name)?;
    let files = ingest.files.iter().map(|path| {
        let kind = FileType::of_table(path, ingest.format)?;
        Ok((path.as_path(), kind.with_delimiter(ingest.delimiter)?))
    });
    let files = files.collect::<Result<Vec<_>>>()?;
    let files = formats::open_all(&files, |least| check_size(store, least))?;
    let total = files.iter().map(|(_, file)| file.bytes_about).sum();
    let bar = progress::bytes(total, &object.text, output.is_json());
    let timeout = target::seconds("--timeout", ingest.timeout)?;
    let builder = BuilderOptions { timeout, ..BuilderOptions::default() };
    // An object of a pool is one piece, which is written once all rows are known.
    let builder = Some(builder).filter(|_| !name.is_pooled());
    let built = build(store, files, builder, &bar);
    bar.finish_and_clear();
    let table = built?;
    let rows = table.rows();
    let id = match table {
        Destination::Memory(table) => {
            put::write(store, InputFile::table(table)?, options, &object, output)?
        }
        Destination::Builder(mut table) => table.finish(&options).map_err(|error| match error {
            Error::Store(error) => object.failure(store, error),
            error => error.into(),
        })?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({
        "name": name.text, "namespace": name.namespace, "id": id.to_string(),
        "rows": rows, "bytes_about": total, "seconds": seconds,
    });
    output.value(&document, || {
        format!("{}: {rows} rows, about {} in {seconds:.2} s, {id}", object.text, bytes(total))
    })
}

/// Refuses a table that does not fit even an empty store, before minutes of reading.
fn check_size(store: &Client, least: u64) -> Result<()> {
    let capacity = store.capacity_bytes();
    if least <= capacity {
        return Ok(());
    }
    let error = plasmon_client::Error::new(Code::TooLarge, "ingesting files");
    Err(anyhow::Error::from(error).context(format!(
        "the table needs at least {} and the store holds {}: {WAYS_OUT}",
        bytes(least),
        bytes(capacity)
    )))
}

/// Advice for a table that does not fit.
const WAYS_OUT: &str = "start the store with more capacity, or ingest fewer files at a time";

/// The error when the store is full in the middle of a file. Nothing of the table stays.
fn no_room(store: &Client, table: &TableBuilder, error: Error) -> anyhow::Error {
    let rows = table.rows();
    let capacity = bytes(store.capacity_bytes());
    let advice = match error.code() {
        Code::StoreFull => format!(
            "the store is full after {rows} rows: delete objects, start the store with \
             --spill-dir so that others make room, or wait for room with --timeout"
        ),
        Code::TooLarge => format!(
            "after {rows} rows a column is larger than the store, which holds {capacity}: \
             {WAYS_OUT}"
        ),
        _ => return error.into(),
    };
    anyhow::Error::from(error).context(advice)
}

/// The builder of the rows.
enum Destination {
    Builder(Box<TableBuilder>),
    /// Of a table with a type that has no builder, such as the strings of polars' files, and of one
    /// that is not to be built in the store.
    Memory(Table),
}

impl Destination {
    fn new(store: &Client, schema: &SchemaRef, builder: Option<BuilderOptions>) -> Result<Self> {
        match builder.map(|options| TableBuilder::new(store, schema, &options)) {
            Some(Ok(builder)) => Ok(Self::Builder(Box::new(builder))),
            None | Some(Err(Error::Unsupported(_))) => {
                Ok(Self::Memory(Table { schema: schema.clone(), batches: Vec::new() }))
            }
            Some(Err(error)) => Err(error.into()),
        }
    }

    fn append(&mut self, store: &Client, batch: RecordBatch) -> Result<()> {
        match self {
            Self::Memory(table) => table.batches.push(batch),
            Self::Builder(table) => {
                table.append_batch(&batch).map_err(|error| no_room(store, table, error))?;
            }
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        match self {
            Self::Memory(table) => table.batches.iter().map(|rows| rows.num_rows()).sum(),
            Self::Builder(table) => table.rows(),
        }
    }
}

fn build(
    store: &Client,
    files: Vec<(&Path, TableFile)>,
    builder: Option<BuilderOptions>,
    bar: &ProgressBar,
) -> Result<Destination> {
    let schema = match files.first() {
        Some((_, file)) => file.schema.clone(),
        None => bail!("no file was given"),
    };
    let mut table = Destination::new(store, &schema, builder)?;
    let mut before = 0;
    for (path, file) in files {
        let failed = || format!("ingesting {}", path.display());
        let bytes_about = file.bytes_about;
        let mut rows = file.rows().with_context(failed)?;
        if rows.schema.fields() != schema.fields() {
            bail!("{} has different columns from the first file", path.display());
        }
        while let Some(batch) = rows.next().transpose().with_context(failed)? {
            table.append(store, batch).with_context(failed)?;
            bar.set_position(before + rows.bytes_read());
        }
        before += bytes_about;
        bar.set_position(before);
    }
    Ok(table)
}
