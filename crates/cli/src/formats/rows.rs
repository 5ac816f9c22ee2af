//! Files that hold tables: their columns, and their rows a batch at a time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use anyhow::{Context, Result, bail};
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::ArrowError;
use arrow_schema::{Schema, SchemaRef};
use plasmon_files::{Columns, TextFile, TextFormat};

use super::file_type::FileType;
use super::input::{open, unreadable};
use super::parquet_file;
use super::table::Table;
use crate::arguments::Format;

/// Rows in one record batch of a table that is read as a whole.
const BATCH_ROWS: usize = 1 << 20;

/// Rows that are in this process's memory at once while a table is built in the store.
const ROWS_AT_ONCE: usize = 1 << 16;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A file that holds a table.
pub(crate) struct TableFile {
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// About how many bytes all rows take in memory.
    pub(crate) bytes_about: u64,
    /// How many they take at least.
    bytes_min: u64,
    source: Source,
}

enum Source {
    /// Its columns are known when it was read once.
    Text(TextFile),
    Parquet(Box<ParquetRecordBatchReaderBuilder<File>>),
    /// In the batches that it has.
    Arrow(Batches),
}

impl TableFile {
    /// Opens a file of this type.
    fn new(file: File, kind: FileType) -> Result<Self> {
        match kind.format {
            Format::Parquet => Self::parquet(file),
            Format::Csv => Self::text(file, kind, TextFormat::Csv { delimiter: kind.delimiter }),
            Format::Json | Format::Jsonl => Self::text(file, kind, TextFormat::Json),
            Format::Arrow | Format::Arrows => Self::arrow(file),
            Format::Npy | Format::Raw => bail!("a {} file holds no table", kind.key()),
        }
    }

    fn parquet(file: File) -> Result<Self> {
        let builder = parquet_file::open(file)?;
        let groups = builder.metadata().row_groups();
        let bytes_about = groups.iter().map(|group| group.total_byte_size().max(0) as u64).sum();
        let schema = builder.schema().clone();
        let source = Source::Parquet(Box::new(builder));
        // The encodings of Parquet make most columns smaller and none much larger.
        Ok(Self { schema, bytes_about, bytes_min: bytes_about / 2, source })
    }

    fn text(file: File, kind: FileType, format: TextFormat) -> Result<Self> {
        let file = TextFile::new(file, format, kind.compression)?;
        let (bytes_about, bytes_min) = (file.bytes_about()?, file.bytes_min()?);
        let schema = SchemaRef::new(Schema::empty());
        Ok(Self { schema, bytes_about, bytes_min, source: Source::Text(file) })
    }

    /// An Arrow file or stream, distinguished by the magic bytes of a file.
    fn arrow(mut file: File) -> Result<Self> {
        let bytes_about = file.metadata()?.len();
        let is_file = is_arrow_file(&mut file)?;
        let input = BufReader::with_capacity(1 << 20, file);
        let (schema, batches): (_, Batches) = if is_file {
            let reader = FileReader::try_new(input, None)?;
            (reader.schema(), Box::new(reader))
        } else {
            let reader = StreamReader::try_new(input, None)?;
            (reader.schema(), Box::new(reader))
        };
        let source = Source::Arrow(batches);
        Ok(Self { schema, bytes_about, bytes_min: bytes_about / 2, source })
    }

    /// The rows, a moderate number at once.
    pub(crate) fn rows(self) -> Result<Rows> {
        self.batches(ROWS_AT_ONCE)
    }

    /// All rows.
    pub(crate) fn table(self) -> Result<Table> {
        let rows = self.batches(BATCH_ROWS)?;
        Ok(Table { schema: rows.schema.clone(), batches: rows.collect::<Result<_, _>>()? })
    }

    fn batches(self, batch_rows: usize) -> Result<Rows> {
        let Self { schema, bytes_about, source, .. } = self;
        let batches: Batches = match source {
            Source::Text(file) => Box::new(file.rows(&schema, batch_rows)?),
            Source::Parquet(builder) => Box::new(builder.with_batch_size(batch_rows).build()?),
            Source::Arrow(batches) => batches,
        };
        Ok(Rows { schema, bytes_about, batches, bytes_read: 0 })
    }
}

/// Opens the files of one table. `check` hears how many bytes their rows take at least, before any
/// are read.
///
/// Of text all is read, because each value has to do with the type of its column, and that of all
/// files together: one may have no value where another has some.
pub(crate) fn open_all<'a>(
    files: &[(&'a Path, FileType)],
    check: impl FnOnce(u64) -> Result<()>,
) -> Result<Vec<(&'a Path, TableFile)>> {
    let mut opened = Vec::with_capacity(files.len());
    for (path, kind) in files {
        let failed = || unreadable(path, *kind);
        opened.push((*path, TableFile::new(open(path)?, *kind).with_context(failed)?));
    }
    check(opened.iter().map(|(_, file)| file.bytes_min).sum())?;
    let mut merged: Option<(&Path, Columns)> = None;
    for ((path, file), (_, kind)) in opened.iter().zip(files) {
        let Source::Text(text) = &file.source else { continue };
        let columns = text.columns().with_context(|| unreadable(path, *kind))?;
        let Some((first, merged)) = &mut merged else {
            merged = Some((path, columns));
            continue;
        };
        let failed =
            || format!("{} has different columns from {}", path.display(), first.display());
        merged.merge(columns).with_context(failed)?;
    }
    if let Some((_, columns)) = merged {
        let schema = Arc::new(columns.schema());
        let text_files =
            opened.iter_mut().filter(|(_, file)| matches!(file.source, Source::Text(_)));
        text_files.for_each(|(_, file)| file.schema.clone_from(&schema));
    }
    Ok(opened)
}

/// The rows of a file.
pub(crate) struct Rows {
    /// The columns.
    pub(crate) schema: SchemaRef,
    bytes_about: u64,
    batches: Batches,
    bytes_read: u64,
}

impl Rows {
    /// About how many bytes the rows took that were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.min(self.bytes_about)
    }
}

/// Whether an Arrow file starts as a file, not as a stream.
fn is_arrow_file(file: &mut File) -> Result<bool> {
    let mut magic = Vec::new();
    file.by_ref().take(6).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    if magic.starts_with(b"FEA1") {
        bail!(
            "it is a Feather file of version 1, which is not Arrow data: write it again with \
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
