//! Parquet, CSV and Arrow files as Arrow IPC streams with every buffer at a multiple of 64 bytes.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plasmon_columns::Batches;

use crate::arguments::Format;

/// Rows in one record batch of a table that is read as a whole.
pub(super) const BATCH_ROWS: usize = 1 << 20;

/// Rows that are in this process's memory at once while a table is built in the store.
pub(super) const ROWS_AT_ONCE: usize = 1 << 16;

/// A time of 30 letters and its comma take eight bytes as a number; nothing shrinks much more.
const CSV_SHRINKS_MAX: u64 = 4;

/// How many lines of a CSV file decide the types of its columns.
const CSV_SAMPLE_LINES: usize = 10_000;

const ALIGNMENT: usize = 64;

/// A table in this process's memory, on its way into the store.
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Table {
    /// Writes the table as an IPC stream.
    pub(super) fn encode(&self, into: impl Write) -> Result<()> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let mut writer = StreamWriter::try_new_with_options(into, &self.schema, options)?;
        for batch in &self.batches {
            writer.write(batch)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// How many bytes [`Self::encode`] writes, found by letting it write into nothing.
    pub(super) fn encoded_bytes(&self) -> Result<u64> {
        let mut count = 0;
        self.encode(Count(&mut count))?;
        Ok(count)
    }
}

struct Count<'a>(&'a mut u64);

impl Write for Count<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether an Arrow file starts as a file, not as a stream.
fn is_arrow_file(file: &mut File) -> Result<bool> {
    let mut magic = [0; 6];
    let whole = file.read(&mut magic)? == magic.len();
    file.seek(SeekFrom::Start(0))?;
    Ok(whole && &magic == b"ARROW1")
}

/// A file that is being written, batch by batch.
pub(crate) enum TableWriter<W: Write + Send> {
    /// Parquet.
    Parquet(ArrowWriter<W>),
    /// CSV with a header line.
    Csv(csv::Writer<W>),
    /// An Arrow stream.
    Arrow(StreamWriter<W>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file.
    pub(crate) fn new(format: Format, schema: &SchemaRef, out: W) -> Result<Self> {
        Ok(match format {
            Format::Parquet => Self::Parquet(ArrowWriter::try_new(out, schema.clone(), None)?),
            Format::Csv => Self::Csv(csv::Writer::new(out)),
            Format::Arrow => Self::Arrow(StreamWriter::try_new(out, schema)?),
            Format::Npy | Format::Raw => bail!("a table is written as Parquet, CSV or Arrow"),
        })
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch)?,
            Self::Csv(writer) => writer.write(batch)?,
            Self::Arrow(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Parquet(writer) => drop(writer.close()?),
            Self::Csv(writer) => writer.into_inner().flush()?,
            Self::Arrow(mut writer) => writer.finish()?,
        }
        Ok(())
    }
}

/// The rows of a file, read a batch at a time.
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
    /// About how many bytes the rows took that were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.min(self.bytes_about)
    }

    /// All of them.
    pub(super) fn table(self) -> Result<Table> {
        Ok(Table { schema: self.schema, batches: self.batches.collect::<Result<_, _>>()? })
    }

    /// A Parquet file.
    pub(super) fn parquet(file: File, batch_rows: usize) -> Result<Self> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let groups = builder.metadata().row_groups();
        let bytes_about = groups.iter().map(|group| group.total_byte_size().max(0) as u64).sum();
        let schema = builder.schema().clone();
        let batches = Box::new(builder.with_batch_size(batch_rows).build()?);
        // The encodings of Parquet make most columns smaller and none much larger.
        let bytes_min = bytes_about / 2;
        Ok(Self { schema, bytes_about, bytes_min, batches, bytes_read: 0 })
    }

    /// A CSV file whose first line names the columns; their types are inferred from the first
    /// lines.
    pub(super) fn csv(mut file: File, delimiter: u8, batch_rows: usize) -> Result<Self> {
        let bytes_about = file.metadata()?.len();
        let format = csv::reader::Format::default().with_header(true).with_delimiter(delimiter);
        let (schema, _) = format.infer_schema(BufReader::new(&file), Some(CSV_SAMPLE_LINES))?;
        file.seek(SeekFrom::Start(0))?;
        let schema = Arc::new(schema);
        let reader = csv::ReaderBuilder::new(schema.clone())
            .with_format(format)
            .with_batch_size(batch_rows)
            .build(BufReader::with_capacity(1 << 20, file))?;
        let (batches, bytes_min) = (Box::new(reader), bytes_about / CSV_SHRINKS_MAX);
        Ok(Self { schema, bytes_about, bytes_min, batches, bytes_read: 0 })
    }

    /// An Arrow file or stream, told apart by the magic letters of a file, in the batches that it
    /// has.
    pub(super) fn arrow(mut file: File) -> Result<Self> {
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

/// The batches of a stored IPC stream.
pub(crate) fn read_stream(stream: &[u8]) -> Result<Batches> {
    let reader = StreamReader::try_new(stream, None)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<_, _>>()?))
}

/// Writes a stored table as an Arrow IPC stream.
pub(super) fn write_arrow((schema, batches): Batches, out: &mut (dyn Write + Send)) -> Result<()> {
    Table { schema, batches }.encode(out)
}

/// Writes a stored table as a Parquet file.
pub(super) fn write_parquet(
    (schema, batches): Batches,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut writer = ArrowWriter::try_new(out, schema, None)?;
    for batch in batches {
        writer.write(&batch)?;
    }
    writer.close()?;
    Ok(())
}

/// Writes a stored table as a CSV file with a header line.
pub(super) fn write_csv((_, batches): Batches, out: &mut (dyn Write + Send)) -> Result<()> {
    let mut writer = csv::Writer::new(out);
    for batch in batches {
        writer.write(&batch)?;
    }
    Ok(())
}
