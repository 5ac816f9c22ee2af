//! Tables that become files, batch by batch.

use std::io::Write;

use ::parquet::arrow::ArrowWriter;
use anyhow::{Result, bail};
use arrow_array::RecordBatch;
use arrow_csv as csv;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_json::{ArrayWriter, LineDelimitedWriter, WriterBuilder};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use plasmon_files::CompressingWriter;

use super::file_type::FileType;
use super::parquet;
use super::table::ipc_options;
use crate::arguments::Format;

/// A file that is being written.
pub(crate) struct TableWriter<W: Write + Send> {
    schema: SchemaRef,
    form: Form<W>,
}

enum Form<W: Write + Send> {
    /// With the columns as the file has them.
    Parquet(ArrowWriter<W>, SchemaRef),
    Csv(Box<csv::Writer<CompressingWriter<W>>>),
    Json(ArrayWriter<CompressingWriter<W>>),
    Lines(LineDelimitedWriter<CompressingWriter<W>>),
    Stream(StreamWriter<W>),
    File(FileWriter<W>),
    /// An Arrow file has one dictionary for each column, and batches may have one each: they
    /// become one batch.
    Gathered(FileWriter<W>, Vec<RecordBatch>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file.
    pub(crate) fn new(kind: FileType, schema: &SchemaRef, out: W) -> Result<Self> {
        let text = |out| CompressingWriter::new(kind.compression, out);
        // A column of nothing but nulls is a column all the same.
        let json = || WriterBuilder::new().with_explicit_nulls(true);
        let form = match kind.format {
            Format::Parquet => {
                let kept = parquet::schema(schema);
                Form::Parquet(ArrowWriter::try_new(out, kept.clone(), None)?, kept)
            }
            Format::Csv => {
                let mut csv =
                    csv::WriterBuilder::new().with_delimiter(kind.delimiter).build(text(out)?);
                // The line of names is there also when no row is.
                csv.write(&RecordBatch::new_empty(schema.clone()))?;
                Form::Csv(Box::new(csv))
            }
            Format::Json => Form::Json(json().build(text(out)?)),
            Format::Jsonl => Form::Lines(json().build(text(out)?)),
            Format::Arrows => {
                Form::Stream(StreamWriter::try_new_with_options(out, schema, ipc_options()?)?)
            }
            Format::Arrow => {
                let file = FileWriter::try_new_with_options(out, schema, ipc_options()?)?;
                let any = schema.fields().iter().any(|field| has_dictionary(field.data_type()));
                if any { Form::Gathered(file, Vec::new()) } else { Form::File(file) }
            }
            Format::Npy | Format::Raw => bail!("a table cannot be written as {}", kind.key()),
        };
        Ok(Self { schema: schema.clone(), form })
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.form {
            Form::Parquet(writer, kept) => writer.write(&parquet::batch(batch, kept)?)?,
            Form::Csv(writer) => writer.write(batch)?,
            Form::Json(writer) => writer.write(batch)?,
            Form::Lines(writer) => writer.write(batch)?,
            Form::Stream(writer) => writer.write(batch)?,
            Form::File(writer) => writer.write(batch)?,
            Form::Gathered(_, batches) => batches.push(batch.clone()),
        }
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<()> {
        match self.form {
            Form::Parquet(writer, _) => drop(writer.close()?),
            Form::Csv(writer) => writer.into_inner().finish()?,
            Form::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner().finish()?;
            }
            Form::Lines(mut writer) => {
                writer.finish()?;
                writer.into_inner().finish()?;
            }
            Form::Stream(mut writer) => writer.finish()?,
            Form::File(mut writer) => writer.finish()?,
            Form::Gathered(mut writer, batches) => {
                if batches.len() == 1 {
                    writer.write(&batches[0])?;
                } else if !batches.is_empty() {
                    writer.write(&concat_batches(&self.schema, &batches)?)?;
                }
                writer.finish()?;
            }
        }
        Ok(())
    }
}

fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => has_dictionary(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::Union(fields, _) => {
            fields.iter().any(|(_, field)| has_dictionary(field.data_type()))
        }
        DataType::RunEndEncoded(_, values) => has_dictionary(values.data_type()),
        _ => false,
    }
}
