//! The rows of files that hold tables, read a batch at a time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use arrow::csv::reader::Format as CsvFormat;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::{csv, json};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::compression::text;
use super::file_type::{Compression, FileType};
use super::table::Table;
use super::{csv as csv_head, json as json_rows};
use crate::arguments::Format;

/// Rows in one record batch of a table that is read as a whole.
pub(super) const BATCH_ROWS: usize = 1 << 20;

/// Rows that are in this process's memory at once while a table is built in the store.
pub(super) const ROWS_AT_ONCE: usize = 1 << 16;

/// A time of 30 letters and its comma take eight bytes as a number; nothing shrinks much more.
const TEXT_SHRINKS_MAX: u64 = 4;

/// How many times as long a compressed text is about.
const COMPRESSION_ABOUT: u64 = 5;

/// The rows of a file.
pub(crate) struct Rows {
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// About how many bytes all rows take in memory.
    pub(crate) bytes_about: u64,
    /// How many they take at least.
    pub(crate) bytes_min: u64,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    bytes_read: u64,
}

impl Rows {
    /// Opens a file of this type.
    pub(super) fn open(file: File, kind: FileType, batch_rows: usize) -> Result<Self> {
        match kind.format {
            Format::Parquet => Self::parquet(file, batch_rows),
            Format::Csv => Self::csv(file, kind, batch_rows),
            Format::Json | Format::Jsonl => Self::json(file, kind, batch_rows),
            Format::Arrow | Format::Arrows => Self::arrow(file),
            Format::Npy | Format::Raw => bail!("a {} file holds no table", kind.key()),
        }
    }

    /// About how many bytes the rows took that were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.min(self.bytes_about)
    }

    /// All of them.
    pub(super) fn table(self) -> Result<Table> {
        Ok(Table { schema: self.schema, batches: self.batches.collect::<Result<_, _>>()? })
    }

    fn parquet(file: File, batch_rows: usize) -> Result<Self> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let groups = builder.metadata().row_groups();
        let bytes_about = groups.iter().map(|group| group.total_byte_size().max(0) as u64).sum();
        let schema = builder.schema().clone();
        let batches = Box::new(builder.with_batch_size(batch_rows).build()?);
        // The encodings of Parquet make most columns smaller and none much larger.
        let bytes_min = bytes_about / 2;
        Ok(Self { schema, bytes_about, bytes_min, batches, bytes_read: 0 })
    }

    fn csv(mut file: File, kind: FileType, batch_rows: usize) -> Result<Self> {
        let (bytes_min, bytes_about) = text_bytes(&file, kind)?;
        let format = CsvFormat::default().with_header(true).with_delimiter(kind.delimiter);
        let sample = text(file.try_clone()?, kind.compression)?;
        let schema = Arc::new(csv_head::schema(sample, kind.delimiter, &format)?);
        file.seek(SeekFrom::Start(0))?;
        let reader = csv::ReaderBuilder::new(schema.clone())
            .with_format(format)
            .with_batch_size(batch_rows)
            .build_buffered(text(file, kind.compression)?)?;
        Ok(Self { schema, bytes_about, bytes_min, batches: Box::new(reader), bytes_read: 0 })
    }

    fn json(mut file: File, kind: FileType, batch_rows: usize) -> Result<Self> {
        let (_, bytes_about) = text_bytes(&file, kind)?;
        let schema = Arc::new(json_rows::schema(text(file.try_clone()?, kind.compression)?)?);
        file.seek(SeekFrom::Start(0))?;
        let reader = json::ReaderBuilder::new(schema.clone())
            .with_flatten(true)
            .with_strict_mode(true)
            .with_batch_size(batch_rows)
            .build(text(file, kind.compression)?)?;
        // Each row repeats the names of its columns, of which nothing is kept.
        Ok(Self { schema, bytes_about, bytes_min: 0, batches: Box::new(reader), bytes_read: 0 })
    }

    /// An Arrow file or stream, told apart by the magic letters of a file, in the batches that it
    /// has.
    fn arrow(mut file: File) -> Result<Self> {
        let bytes_about = file.metadata()?.len();
        let is_file = is_arrow_file(&mut file)?;
        let input = BufReader::with_capacity(1 << 20, file);
        let (schema, batches): (_, Box<dyn Iterator<Item = _>>) = if is_file {
            let reader = FileReader::try_new(input, None)?;
            (reader.schema(), Box::new(reader))
        } else {
            let reader = StreamReader::try_new(input, None)?;
            (reader.schema(), Box::new(reader))
        };
        Ok(Self { schema, bytes_about, bytes_min: bytes_about / 2, batches, bytes_read: 0 })
    }
}

/// How many bytes the rows of a file of text take at least, and about how many.
fn text_bytes(file: &File, kind: FileType) -> Result<(u64, u64)> {
    let bytes = file.metadata()?.len();
    let times = if kind.compression == Compression::Plain { 1 } else { COMPRESSION_ABOUT };
    Ok((bytes / TEXT_SHRINKS_MAX, bytes.saturating_mul(times)))
}

/// Whether an Arrow file starts as a file, not as a stream.
fn is_arrow_file(file: &mut File) -> Result<bool> {
    let mut magic = Vec::new();
    file.by_ref().take(6).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    if magic.starts_with(b"FEA1") {
        bail!(
            "it is a Feather file of version 1, whose form is not Arrow's: write it again with \
             pyarrow.feather.write_feather(table, path, version=2)"
        );
    }
    Ok(magic == b"ARROW1")
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        if let Ok(batch) = &batch {
            self.bytes_read += batch.get_array_memory_size() as u64;
        }
        Some(batch)
    }
}
