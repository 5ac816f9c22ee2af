//! CSV files: what their columns are, and their rows.
//!
//! A file is read twice. The first time every field of every row decides the type of its column
//! ([`kinds`]), so no value is lost, however late it comes; the second time the fields become
//! values ([`columns`]). `docs/guides/columns.md` has the table of types.

mod columns;
mod kinds;
mod records;
mod values;

use std::io::BufRead;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::error::{Error, Result};
use columns::{Column, FieldError};
use kinds::Kinds;
use records::Records;

/// Other common delimiters, in words and as `--delimiter` takes them.
const OTHERS: [(char, &str, &str); 4] =
    [(',', "comma", "','"), (';', "semicolon", "';'"), ('\t', "tab", "tab"), ('|', "bar", "'|'")];

/// How much of a line or a value an error quotes.
const QUOTED_LETTERS_MAX: usize = 60;

/// Bytes of text that become one batch at most, but for a longer record.
const BATCH_BYTES: u64 = 64 << 20;

/// The columns of a CSV file, or of several that are read as one table.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    kinds: Vec<Kinds>,
}

impl Columns {
    /// Reads a file to its end.
    pub(crate) fn of(text: Box<dyn BufRead + Send>, delimiter: u8) -> Result<Self> {
        let mut records = Records::new(text, delimiter);
        let names = head(&mut records, delimiter)?;
        let mut kinds = vec![Kinds::default(); names.len()];
        while records.next()? {
            check_fields(&records, names.len())?;
            for (at, kinds) in kinds.iter_mut().enumerate() {
                kinds.add(records.field(at));
            }
        }
        Ok(Self { names, kinds })
    }

    /// Takes the values of another file; `false` if its columns have other names.
    pub(crate) fn merge(&mut self, other: &Self) -> bool {
        if self.names != other.names {
            return false;
        }
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(kinds, other)| kinds.merge(*other));
        true
    }

    /// The types that hold all values.
    pub(crate) fn schema(&self) -> Schema {
        let columns = self.names.iter().zip(&self.kinds);
        let field = |(name, kinds): (&String, &Kinds)| Field::new(name, kinds.data_type(), true);
        Schema::new(columns.map(field).collect::<Vec<_>>())
    }
}

/// The names of the columns, from the first line.
fn head(records: &mut Records, delimiter: u8) -> Result<Vec<String>> {
    if !records.next()? {
        return Err(if records.bytes_read() == 0 { Error::Empty } else { Error::BlankHead });
    }
    let only = (records.len() == 1).then(|| records.field(0));
    if records.line() > 1 || only.is_some_and(|it| it.bytes.trim_ascii().is_empty() && !it.quoted) {
        return Err(Error::BlankHead);
    }
    if let Some(only) = only.filter(|only| !only.quoted || only.bytes.contains(&b'"')) {
        check_delimiter(&String::from_utf8_lossy(only.bytes), char::from(delimiter))?;
    }
    let name = |at| {
        let name = std::str::from_utf8(records.field(at).bytes);
        name.map(str::to_owned).map_err(|_| Error::HeadEncoding)
    };
    (0..records.len()).map(name).collect()
}

/// Refuses a line of one name that another delimiter would split.
fn check_delimiter(head: &str, delimiter: char) -> Result<()> {
    let count = |other: char| head.matches(other).count();
    let others = OTHERS.iter().filter(|(other, ..)| *other != delimiter);
    match others.max_by_key(|(other, ..)| count(*other)) {
        Some((other, word, flag)) if count(*other) > 0 => Err(Error::OtherDelimiter {
            head: head.chars().take(QUOTED_LETTERS_MAX).collect(),
            found: count(*other),
            word,
            flag,
            other: *other,
            delimiter,
        }),
        _ => Ok(()),
    }
}

fn check_fields(records: &Records, wanted: usize) -> Result<()> {
    let found = records.len();
    if found == wanted {
        return Ok(());
    }
    Err(Error::Fields { line: records.line(), wanted, found })
}

/// The rows of a CSV file, as batches of the types that were found before.
pub(crate) struct Rows {
    schema: SchemaRef,
    records: Records,
    columns: Vec<Column>,
    batch_rows: usize,
    is_over: bool,
}

impl Rows {
    /// From the beginning of a file. `schema` is that of its [`Columns`].
    pub(crate) fn new(
        text: Box<dyn BufRead + Send>,
        delimiter: u8,
        schema: SchemaRef,
        batch_rows: usize,
    ) -> Result<Self> {
        let mut records = Records::new(text, delimiter);
        let names = head(&mut records, delimiter)?;
        if !schema.fields().iter().map(|field| field.name()).eq(&names) {
            return Err(Error::OtherColumns);
        }
        let columns = schema.fields().iter().map(|field| {
            Column::new(field.data_type()).ok_or_else(|| {
                let detail = format!("a CSV file has no {}", field.data_type());
                Error::Arrow(ArrowError::SchemaError(detail))
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { schema, records, columns, batch_rows, is_over: false })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let (begin, mut rows) = (self.records.bytes_read(), 0);
        while rows < self.batch_rows && self.records.bytes_read() - begin < BATCH_BYTES {
            if !self.records.next()? {
                self.is_over = true;
                break;
            }
            check_fields(&self.records, self.columns.len())?;
            for (at, column) in self.columns.iter_mut().enumerate() {
                if let Err(refused) = column.push(self.records.field(at)) {
                    return Err(self.refused(at, refused));
                }
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }

    /// The error for a field of the record.
    fn refused(&self, at: usize, refused: FieldError) -> Error {
        let line = self.records.line();
        let field = self.schema.field(at);
        let column = field.name().clone();
        match refused {
            FieldError::Encoding => Error::Encoding { line, column },
            FieldError::Type => {
                let value = String::from_utf8_lossy(self.records.field(at).bytes);
                let value = value.chars().take(QUOTED_LETTERS_MAX).collect();
                Error::Value { line, column, value, data_type: field.data_type().clone() }
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.read();
        // After an error nothing more is read.
        self.is_over |= batch.is_err();
        batch.transpose()
    }
}

#[cfg(test)]
mod tests;
