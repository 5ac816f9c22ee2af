//! Parquet, CSV and Arrow files as Arrow IPC streams with every buffer at a multiple of 64 bytes.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::arguments::Format;

/// Rows in one record batch of a table that came from a file.
const BATCH_ROWS: usize = 1 << 20;

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

/// A Parquet file.
pub(super) fn read_parquet(file: File) -> Result<Table> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS).build()?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    let batches = reader.collect::<Result<_, _>>()?;
    Ok(Table { schema, batches })
}

/// A CSV file whose first line names the columns; their types are inferred from the first lines.
pub(super) fn read_csv(mut file: File, delimiter: u8) -> Result<Table> {
    let format = csv::reader::Format::default().with_header(true).with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(BufReader::new(&file), Some(CSV_SAMPLE_LINES))?;
    file.seek(SeekFrom::Start(0))?;
    let schema = Arc::new(schema);
    let reader = csv::ReaderBuilder::new(schema.clone())
        .with_format(format)
        .with_batch_size(BATCH_ROWS)
        .build(BufReader::with_capacity(1 << 20, file))?;
    let batches = reader.collect::<Result<_, _>>()?;
    Ok(Table { schema, batches })
}

/// An Arrow file or stream, told apart by the magic letters of a file.
pub(super) fn read_arrow(mut file: File) -> Result<Table> {
    let mut magic = [0; 6];
    let whole = file.read(&mut magic)? == magic.len();
    file.seek(SeekFrom::Start(0))?;
    let input = BufReader::with_capacity(1 << 20, file);
    if whole && &magic == b"ARROW1" {
        let reader = FileReader::try_new(input, None)?;
        let schema = reader.schema();
        return Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? });
    }
    let reader = StreamReader::try_new(input, None)?;
    let schema = reader.schema();
    Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? })
}

/// The rows of an IPC stream.
pub(crate) fn read_stream(stream: &[u8]) -> Result<Table> {
    let reader = StreamReader::try_new(stream, None)?;
    let schema = reader.schema();
    Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? })
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

/// Writes a stored IPC stream as a Parquet file.
pub(super) fn write_parquet(stream: &[u8], out: &mut (dyn Write + Send)) -> Result<()> {
    let reader = StreamReader::try_new(stream, None)?;
    let mut writer = ArrowWriter::try_new(out, reader.schema(), None)?;
    for batch in reader {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// Writes a stored IPC stream as a CSV file with a header line.
pub(super) fn write_csv(stream: &[u8], out: &mut (dyn Write + Send)) -> Result<()> {
    let reader = StreamReader::try_new(stream, None)?;
    let mut writer = csv::Writer::new(out);
    for batch in reader {
        writer.write(&batch?)?;
    }
    Ok(())
}
