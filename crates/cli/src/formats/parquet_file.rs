//! Parquet files as they are opened: with the columns that their writer noted.
//!
//! A writer of Arrow data notes its schema in the file, because Parquet has fewer types. Decided
//! here is what the reader leaves out: the zone of a timestamp that is stored in another unit than
//! it had, the extension types of Parquet's UUID and JSON, and intervals, of which it drops the
//! months.

use std::fs::File;
use std::slice;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::root_as_message;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::LogicalType;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescPtr;

/// The key under which a file notes the Arrow schema of its writer.
const NOTE: &str = "ARROW:schema";

/// The marker that begins an encapsulated message of Arrow, and the length that follows.
const CONTINUATION: [u8; 4] = [0xFF; 4];
const PREFIX_BYTES: usize = 8;

/// The names of the extension types of two of Parquet's.
const UUID: &str = "arrow.uuid";
const JSON: &str = "arrow.json";

/// Opens a Parquet file. Refuses one whose intervals would lose their months.
pub(super) fn open(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let found = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let note = noted_schema(found.metadata())?;
    let noted = note.as_ref().map_or(Fields::empty(), |schema| schema.fields().clone());
    let leaves = found.parquet_schema().columns().iter();
    let fields = Columns { leaves }.fields(found.schema().fields(), &noted)?;
    if fields == *found.schema().fields() {
        return Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, found));
    }
    let schema = Schema::new_with_metadata(fields, found.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    let kept = ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options)?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, kept))
}

/// The schema that the writer noted.
fn noted_schema(metadata: &ParquetMetaData) -> Result<Option<Schema>> {
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let Some(text) = pairs.filter(|pair| pair.key == NOTE).find_map(|pair| pair.value.as_ref())
    else {
        return Ok(None);
    };
    let bytes = BASE64_STANDARD.decode(text).context("the stored Arrow schema is not base64")?;
    let message = match bytes.get(PREFIX_BYTES..) {
        Some(message) if bytes.starts_with(&CONTINUATION) => message,
        _ => &bytes,
    };
    let message = root_as_message(message).context("the stored Arrow schema is broken")?;
    let schema = message.header_as_schema().context("the stored Arrow schema is not a schema")?;
    Ok(Some(try_fb_to_schema(schema)?))
}

/// The columns of the file that are not passed yet: one for each field without fields of its own.
struct Columns<'a> {
    leaves: slice::Iter<'a, ColumnDescPtr>,
}

impl Columns<'_> {
    /// The fields as they are read, from those that the reader found and those that were noted.
    fn fields(&mut self, found: &Fields, noted: &Fields) -> Result<Fields> {
        let noted = |field: &FieldRef| noted.iter().find(|noted| noted.name() == field.name());
        found.iter().map(|field| self.field(field, noted(field).map(AsRef::as_ref))).collect()
    }

    fn field(&mut self, found: &FieldRef, noted: Option<&Field>) -> Result<FieldRef> {
        let inner = noted.map(Field::data_type).and_then(item);
        let kept = match found.data_type() {
            DataType::List(item) => DataType::List(self.field(item, inner)?),
            DataType::LargeList(item) => DataType::LargeList(self.field(item, inner)?),
            DataType::FixedSizeList(item, size) => {
                DataType::FixedSizeList(self.field(item, inner)?, *size)
            }
            DataType::Map(entries, sorted) => DataType::Map(self.field(entries, inner)?, *sorted),
            DataType::Struct(fields) => DataType::Struct(match noted.map(Field::data_type) {
                Some(DataType::Struct(noted)) => self.fields(fields, noted)?,
                _ => self.fields(fields, &Fields::empty())?,
            }),
            _ => return self.leaf(found, noted.map(Field::data_type)),
        };
        Ok(Arc::new(Field::clone(found).with_data_type(kept)))
    }

    fn leaf(&mut self, found: &FieldRef, noted: Option<&DataType>) -> Result<FieldRef> {
        let column = self.leaves.next().context("the file has fewer columns than its schema")?;
        let field = Field::clone(found);
        let field = match (found.data_type(), noted) {
            (DataType::Timestamp(unit, Some(_)), Some(DataType::Timestamp(_, Some(zone)))) => {
                field.with_data_type(DataType::Timestamp(*unit, Some(Arc::clone(zone))))
            }
            (DataType::Interval(_), noted) if noted != Some(found.data_type()) => bail!(
                "column \"{}\" has Parquet intervals (months, days and milliseconds in 12 bytes), \
                 which this command does not read: plasmon.ingest(path) in Python keeps \
                 the 12 bytes",
                column.path()
            ),
            _ => field,
        };
        let extension = match column.logical_type_ref() {
            Some(LogicalType::Uuid) => UUID,
            Some(LogicalType::Json) => JSON,
            _ => return Ok(Arc::new(field)),
        };
        if field.extension_type_name().is_some() {
            return Ok(Arc::new(field));
        }
        let mut metadata = field.metadata().clone();
        metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), extension.to_owned());
        metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new());
        Ok(Arc::new(field.with_metadata(metadata)))
    }
}

/// The field of which a list or a map has many.
fn item(found: &DataType) -> Option<&Field> {
    match found {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}
