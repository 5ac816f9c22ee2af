//! `plasmon ingest`: tables in files become one table in the store, built there.
//!
//! Rows are read a batch at a time and appended to columns that grow in shared memory, so this
//! process never holds more than a batch, and nothing is copied once it is in the store.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use plasmon_client::{PutOptions, Store};
use plasmon_columns::{BuilderOptions, TableBuilder};
use plasmon_proto::{Name, Policy};
use serde_json::json;

use crate::arguments::Ingest;
use crate::formats::{self, Rows};
use crate::output::{Output, bytes};
use crate::{progress, target};

/// Builds one table of all files; they must have the same columns.
pub(super) fn ingest(store: &Store, ingest: &Ingest, output: &Output) -> Result<()> {
    let start = Instant::now();
    let name = Name::new(ingest.namespace.clone(), ingest.name.clone())?;
    let options = PutOptions {
        name: Some(name.clone()),
        policy: if ingest.cache { Policy::Cache } else { Policy::Keep },
        ttl: ingest.ttl.map(|ttl| target::seconds("--ttl", ttl)).transpose()?,
        ..PutOptions::default()
    };
    let files: Vec<(&Path, Rows)> = ingest
        .files
        .iter()
        .map(|path| Ok((path.as_path(), formats::rows(path, ingest.format)?)))
        .collect::<Result<_>>()?;
    check_size(store, &files)?;
    let total = files.iter().map(|(_, rows)| rows.bytes_about).sum();
    let bar = progress::bytes(total, &name.to_string(), output.is_json());
    let patience = target::seconds("--patience", ingest.patience)?;
    let built = build(store, files, BuilderOptions { patience, ..BuilderOptions::default() }, &bar);
    bar.finish_and_clear();
    let mut table = built?;
    let rows = table.rows();
    if ingest.replace {
        store.delete(&[name.id()])?;
    }
    let id = table.finish(&options)?;
    let seconds = start.elapsed().as_secs_f64();
    let document = json!({
        "name": name.text, "namespace": name.namespace, "id": id.to_string(),
        "rows": rows, "bytes_about": total, "seconds": seconds,
    });
    output.value(&document, || {
        format!("{name}: {rows} rows, about {} in {seconds:.2} s, {id}", bytes(total))
    })
}

/// Better told before than after minutes: what cannot fit an empty store will not fit this one.
fn check_size(store: &Store, files: &[(&Path, Rows)]) -> Result<()> {
    let (capacity, total) =
        (store.capacity_bytes(), files.iter().map(|(_, rows)| rows.bytes_about).sum::<u64>());
    if total > capacity {
        bail!(
            "the table needs about {} and the store holds {}: start the store with more \
             capacity, or ingest fewer files at a time",
            bytes(total),
            bytes(capacity)
        );
    }
    Ok(())
}

fn build(
    store: &Store,
    files: Vec<(&Path, Rows)>,
    options: BuilderOptions,
    bar: &ProgressBar,
) -> Result<TableBuilder> {
    let schema = match files.first() {
        Some((_, rows)) => rows.schema.clone(),
        None => bail!("no file was given"),
    };
    let mut table = TableBuilder::new(store, &schema, &options)?;
    let mut before = 0;
    for (path, mut rows) in files {
        let failed = || format!("ingesting {}", path.display());
        if rows.schema.fields() != schema.fields() {
            bail!("{} has other columns than the first file", path.display());
        }
        while let Some(batch) = rows.next().transpose().with_context(failed)? {
            table.append_batch(&batch).with_context(failed)?;
            bar.set_position(before + rows.bytes_read());
        }
        before += rows.bytes_about;
        bar.set_position(before);
    }
    Ok(table)
}
