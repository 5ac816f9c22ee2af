//! A file of text that holds a table.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::compression::{Compression, text};
use crate::error::{Error, Interrupt, Result};
use crate::{csv, json_types};

/// Cells of JSON that are read at once: the reader allocates memory for all of them.
const JSON_CELLS: usize = 1 << 20;

/// A time of 30 letters and its comma take eight bytes as a number; nothing shrinks much more.
const SHRINKS_MAX: u64 = 4;

/// How many times as long a compressed text is about.
const COMPRESSION_ABOUT: u64 = 5;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// A line of names, then a line for each row.
    Csv {
        /// The delimiter.
        delimiter: u8,
    },
    /// An array of objects, or an object in each line.
    Json,
}

/// A file that is open, and can be read more than once.
#[derive(Debug)]
pub struct TextFile {
    file: Arc<File>,
    format: TextFormat,
    compression: Compression,
}

impl TextFile {
    /// Opens a file.
    pub fn open(path: &Path, format: TextFormat, compression: Compression) -> Result<Self> {
        Self::new(File::open(path)?, format, compression)
    }

    /// The same of a file that is open. What is no plain file, such as a pipe, is read to its end
    /// into a file without a name, in `$TMPDIR` or `/var/tmp`.
    pub fn new(file: File, format: TextFormat, compression: Compression) -> Result<Self> {
        let file = if file.metadata()?.is_file() { file } else { kept(file)? };
        Ok(Self { file: Arc::new(file), format, compression })
    }

    /// About how many bytes all rows take in memory.
    pub fn bytes_about(&self) -> Result<u64> {
        let times = if self.compression == Compression::Plain { 1 } else { COMPRESSION_ABOUT };
        Ok(self.file.metadata()?.len().saturating_mul(times))
    }

    /// How many bytes they take at least.
    pub fn bytes_min(&self) -> Result<u64> {
        // Each row of JSON repeats the names of its columns, of which nothing is kept.
        let bytes = if self.format == TextFormat::Json { 0 } else { self.file.metadata()?.len() };
        Ok(bytes / SHRINKS_MAX)
    }

    /// The columns of all rows.
    pub fn columns(&self) -> Result<Columns> {
        self.columns_unless(|| false)
    }

    /// The same until `is_interrupted` returns true, which is called often.
    pub fn columns_unless(&self, is_interrupted: fn() -> bool) -> Result<Columns> {
        let text = self.text(is_interrupted)?;
        let columns = match self.format {
            TextFormat::Csv { delimiter } => csv::Columns::of(text, delimiter).map(Form::Csv),
            TextFormat::Json => json_types::Columns::of(text).map(Form::Json),
        };
        columns
            .map(Columns)
            .map_err(|error| if error.is_interrupt() { Error::Interrupted } else { error })
    }

    /// All rows, as batches of a limited number of rows. `schema` is that of the [`Columns`].
    pub fn rows(&self, schema: &SchemaRef, batch_rows: usize) -> Result<TextRows> {
        let text = self.text(|| false)?;
        let batches: Batches = match self.format {
            TextFormat::Csv { delimiter } => {
                let rows = csv::Rows::new(text, delimiter, Arc::clone(schema), batch_rows)?;
                Box::new(rows.map(|batch| batch.map_err(ArrowError::from)))
            }
            TextFormat::Json => {
                let rows_max = JSON_CELLS / schema.flattened_fields().len().max(1);
                let reader = arrow_json::ReaderBuilder::new(Arc::clone(schema))
                    .with_flatten(true)
                    .with_strict_mode(true)
                    .with_batch_size(batch_rows.min(rows_max.max(1)))
                    .build(text)?;
                Box::new(reader)
            }
        };
        Ok(TextRows { schema: Arc::clone(schema), batches })
    }

    /// The text, from its beginning.
    fn text(&self, is_interrupted: fn() -> bool) -> Result<Box<dyn BufRead + Send>> {
        let file = Arc::clone(&self.file);
        Ok(text(FileReader { file, offset: 0, is_interrupted }, self.compression)?)
    }
}

/// A place in a file, which moves only with what is read here.
struct FileReader {
    file: Arc<File>,
    offset: u64,
    is_interrupted: fn() -> bool,
}

impl Read for FileReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.is_interrupted)() {
            return Err(io::Error::other(Interrupt));
        }
        let count = self.file.read_at(into, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The bytes of a pipe, in an unnamed file.
fn kept(mut from: File) -> io::Result<File> {
    let folder = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let unnamed = i32::try_from(rustix::fs::OFlags::TMPFILE.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).custom_flags(unnamed).open(&folder)?;
    io::copy(&mut from, &mut file)?;
    Ok(file)
}

/// The columns of a file, or of several that are read as one table.
#[derive(Debug)]
pub struct Columns(Form);

#[derive(Debug)]
enum Form {
    Csv(csv::Columns),
    Json(json_types::Columns),
}

impl Columns {
    /// Takes the columns of another file of the same table, so that the types hold the values of
    /// both.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        let is_same = match (&mut self.0, other.0) {
            (Form::Csv(one), Form::Csv(other)) => one.merge(&other),
            (Form::Json(one), Form::Json(other)) => return one.merge(other),
            _ => false,
        };
        if is_same { Ok(()) } else { Err(Error::OtherColumns) }
    }

    /// Their names and types.
    pub fn schema(&self) -> Schema {
        match &self.0 {
            Form::Csv(columns) => columns.schema(),
            Form::Json(columns) => columns.schema(),
        }
    }
}

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// The rows of a file.
pub struct TextRows {
    schema: SchemaRef,
    batches: Batches,
}

impl TextRows {
    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for TextRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl fmt::Debug for TextRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}
