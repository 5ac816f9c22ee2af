//! Files on one side, objects on the other.
//!
//! Loading happens in two steps, so that the store's memory is written once and nothing else holds
//! the encoded bytes: [`load`] reads a file far enough to know how many bytes its object has, then
//! [`Loaded::write`] writes them where the object is being created.

mod npy;
mod tables;

use tables::{BATCH_ROWS, ROWS_AT_ONCE};
pub(crate) use tables::{Rows, Table, TableWriter, read_stream};

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use plasmon_columns::Batches;
use plasmon_proto::object::tag;

use crate::arguments::Format;

/// A file that is about to become an object.
pub(crate) struct Loaded {
    /// The kind of value.
    pub(crate) tag: u8,
    /// The object's metadata.
    pub(crate) metadata: Vec<u8>,
    /// Bytes of the object's data.
    pub(crate) data_bytes: u64,
    body: Body,
}

enum Body {
    File(File),
    Table(tables::Table),
}

impl Loaded {
    /// Writes the object's data, `data_bytes` of it, reporting progress in bytes.
    pub(crate) fn write(self, mut into: &mut [u8], progress: &dyn Fn(u64)) -> Result<()> {
        match self.body {
            Body::Table(table) => table.encode(Counted { inner: into, progress }),
            Body::File(mut file) => {
                while !into.is_empty() {
                    let step = into.len().min(8 << 20);
                    let (now, later) = into.split_at_mut(step);
                    file.read_exact(now).context("the file became shorter while it was read")?;
                    progress(step as u64);
                    into = later;
                }
                Ok(())
            }
        }
    }
}

struct Counted<'a, W> {
    inner: W,
    progress: &'a dyn Fn(u64),
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        (self.progress)(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// The format that a file's ending means.
pub(crate) fn of_path(path: &Path) -> Format {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Format::Parquet,
        "csv" | "tsv" => Format::Csv,
        "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
        "npy" => Format::Npy,
        _ => Format::Raw,
    }
}

/// The rows of a file that holds a table.
pub(crate) fn load_table(path: &Path) -> Result<Table> {
    let format = of_path(path);
    if matches!(format, Format::Npy | Format::Raw) {
        bail!("{}: a table is a .parquet, .csv, .tsv or .arrow file", path.display());
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    table_of(file, path, format)
}

/// The rows of a file that holds a table, a batch at a time.
pub(crate) fn table_rows(path: &Path) -> Result<Rows> {
    let format = of_path(path);
    if matches!(format, Format::Npy | Format::Raw) {
        bail!("{}: a table is a .parquet, .csv, .tsv or .arrow file", path.display());
    }
    rows(path, Some(format))
}

/// All rows of a table's file.
fn table_of(file: File, path: &Path, format: Format) -> Result<Table> {
    rows_of(file, path, format, BATCH_ROWS)?.table().with_context(|| unreadable(path, format))
}

fn rows_of(file: File, path: &Path, format: Format, batch_rows: usize) -> Result<Rows> {
    let rows = match format {
        Format::Parquet => Rows::parquet(file, batch_rows),
        Format::Csv => Rows::csv(file, delimiter(path), batch_rows),
        Format::Arrow => Rows::arrow(file),
        Format::Npy | Format::Raw => bail!(
            "{} is no table: give --format parquet, csv or arrow if it is one, or use put",
            path.display()
        ),
    };
    rows.with_context(|| unreadable(path, format))
}

fn unreadable(path: &Path, format: Format) -> String {
    format!("{} is no {} file that can be read", path.display(), key(format))
}

/// Opens and reads a file as this format.
pub(crate) fn load(path: &Path, format: Format) -> Result<Loaded> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let size = file.metadata()?.len();
    if file.metadata()?.is_dir() {
        bail!("{} is a directory", path.display());
    }
    match format {
        Format::Raw => {
            let body = Body::File(file);
            Ok(Loaded { tag: tag::RAW, metadata: Vec::new(), data_bytes: size, body })
        }
        Format::Npy => {
            let (header, file) =
                npy::read_header(file).with_context(|| unreadable(path, format))?;
            let metadata = header.metadata()?;
            let data_bytes = header.data_bytes;
            let body = Body::File(file);
            Ok(Loaded { tag: tag::NDARRAY, metadata, data_bytes, body })
        }
        Format::Parquet | Format::Csv | Format::Arrow => {
            let table = table_of(file, path, format)?;
            let data_bytes = table.encoded_bytes()?;
            let body = Body::Table(table);
            Ok(Loaded { tag: tag::ARROW_STREAM, metadata: Vec::new(), data_bytes, body })
        }
    }
}

/// Opens a file of rows, as this format or as its ending says.
pub(crate) fn rows(path: &Path, format: Option<Format>) -> Result<Rows> {
    let format = format.unwrap_or_else(|| of_path(path));
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    rows_of(file, path, format, ROWS_AT_ONCE)
}

fn delimiter(path: &Path) -> u8 {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tsv")) {
        b'\t'
    } else {
        b','
    }
}

fn key(format: Format) -> &'static str {
    match format {
        Format::Parquet => "Parquet",
        Format::Csv => "CSV",
        Format::Arrow => "Arrow",
        Format::Npy => "npy",
        Format::Raw => "raw",
    }
}

/// Writes an object's value to a file of this format; tables in parts are for [`save_table`].
pub(crate) fn save(
    format: Format,
    tag_found: u8,
    data: &[u8],
    metadata: &[u8],
    out: &mut (dyn Write + Send),
) -> Result<()> {
    match (format, tag_found) {
        (Format::Raw, _) => out.write_all(data)?,
        (Format::Npy, tag::NDARRAY) => npy::write(data, metadata, out)?,
        (Format::Arrow, tag::ARROW_STREAM) => out.write_all(data)?,
        (Format::Parquet | Format::Csv, tag::ARROW_STREAM) => {
            save_table(format, tables::read_stream(data)?, out)?;
        }
        _ => bail!(
            "an object of kind {} cannot be written as {}; --format raw writes its bytes",
            kind(tag_found),
            key(format)
        ),
    }
    Ok(())
}

/// Writes a table to a file of this format.
pub(crate) fn save_table(
    format: Format,
    table: Batches,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    match format {
        Format::Parquet => tables::write_parquet(table, out),
        Format::Csv => tables::write_csv(table, out),
        Format::Arrow => tables::write_arrow(table, out),
        Format::Npy | Format::Raw => bail!("a table cannot be written as {}", key(format)),
    }
}

/// The kind of value in words.
pub(crate) fn kind(tag_found: u8) -> &'static str {
    match tag_found {
        tag::RAW => "bytes",
        tag::ARROW_STREAM => "table",
        tag::NDARRAY => "array",
        tag::PYTHON => "python",
        tag::COMPOSITE => "table in parts",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
