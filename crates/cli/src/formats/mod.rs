//! Files on one side, objects on the other.
//!
//! Loading happens in two steps, so that the store's memory is written once and nothing else holds
//! the encoded bytes: [`load`] reads a file far enough to know how many bytes its object has, then
//! [`InputFile::write`] writes them where the object is being created.

mod file_type;
mod input;
mod npy;
mod output;
mod parquet;
mod parquet_file;
mod rows;
mod shape;
mod table;

pub(crate) use file_type::{FileType, stem};
pub(crate) use output::TableWriter;
pub(crate) use rows::{TableFile, open_all};
pub(crate) use shape::Shape;
pub(crate) use table::{Table, read_stream};

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use plasmon_columns::Batches;
use plasmon_proto::object::tag;

use self::input::{open, unreadable};
use crate::arguments::Format;

/// A file that is about to become an object.
pub(crate) struct InputFile {
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
    Table(Table),
}

impl InputFile {
    /// A table that is about to become an object.
    pub(crate) fn table(table: Table) -> Result<Self> {
        let data_bytes = table.encoded_bytes()?;
        let body = Body::Table(table);
        Ok(Self { tag: tag::ARROW_STREAM, metadata: Vec::new(), data_bytes, body })
    }

    /// Writes the object's data, `data_bytes` of it, reporting progress in bytes.
    pub(crate) fn write(self, mut into: &mut [u8], progress: &dyn Fn(u64)) -> Result<()> {
        match self.body {
            Body::Table(table) => table.encode(ProgressWriter { inner: into, progress }),
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

struct ProgressWriter<'a, W> {
    inner: W,
    progress: &'a dyn Fn(u64),
}

impl<W: Write> Write for ProgressWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        (self.progress)(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Reads a file that holds a table.
fn load_table(path: &Path, kind: FileType) -> Result<Table> {
    let files = open_all(&[(path, kind)], |_| Ok(()))?;
    let (_, file) = files.into_iter().next().context("no file was given")?;
    file.table().with_context(|| unreadable(path, kind))
}

/// Opens and reads a file.
pub(crate) fn load(path: &Path, kind: FileType) -> Result<InputFile> {
    match kind.format {
        Format::Raw => {
            let file = open(path)?;
            let data_bytes = file.metadata()?.len();
            let body = Body::File(file);
            Ok(InputFile { tag: tag::RAW, metadata: Vec::new(), data_bytes, body })
        }
        Format::Npy => {
            let file = open(path)?;
            let (header, file) = npy::read_header(file).with_context(|| unreadable(path, kind))?;
            let metadata = header.metadata()?;
            let data_bytes = header.data_bytes;
            let body = Body::File(file);
            Ok(InputFile { tag: tag::NDARRAY, metadata, data_bytes, body })
        }
        _ => InputFile::table(load_table(path, kind)?),
    }
}

/// Writes an object's value to a file; tables in parts are for [`save_table`].
pub(crate) fn save(
    kind: FileType,
    tag_found: u8,
    data: &[u8],
    metadata: &[u8],
    out: &mut (dyn Write + Send),
) -> Result<()> {
    match (kind.format, tag_found) {
        (Format::Raw, _) => out.write_all(data)?,
        (Format::Npy, tag::NDARRAY) => npy::write(data, metadata, out)?,
        // It lies there as one.
        (Format::Arrows, tag::ARROW_STREAM) => out.write_all(data)?,
        (Format::Npy, _) => refuse(kind, tag_found)?,
        (_, tag::ARROW_STREAM) => save_table(kind, read_stream(data)?, out)?,
        _ => refuse(kind, tag_found)?,
    }
    Ok(())
}

fn refuse(kind: FileType, tag_found: u8) -> Result<()> {
    bail!(
        "the object is of kind {}, which cannot be written as {}: {}",
        tag::in_words(tag_found),
        kind.key(),
        ways(tag_found)
    )
}

/// The formats that an object of a kind can be written in.
fn ways(tag_found: u8) -> &'static str {
    match tag_found {
        tag::ARROW_STREAM | tag::COMPOSITE => {
            "a table becomes .parquet, .arrow, .arrows, .csv, .tsv, .json or .jsonl"
        }
        tag::NDARRAY => "an array becomes .npy, or --format raw writes its bytes",
        tag::PYTHON => {
            "Python reads it with plasmon.connect().get(..), or --format raw writes its bytes"
        }
        _ => "--format raw writes its bytes",
    }
}

/// Writes a table to a file.
pub(crate) fn save_table(
    kind: FileType,
    (schema, batches): Batches,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut writer = TableWriter::new(kind, &schema, out)?;
    for batch in &batches {
        writer.write(batch)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests;
