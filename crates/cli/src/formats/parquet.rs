//! Types that Parquet cannot express, and the types that stand in for them.
//!
//! Parquet's times and timestamps are in milliseconds or finer units. Seconds would be written as
//! plain integers, which other programs read as such.

use std::sync::Arc;

use anyhow::Result;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

/// The columns as a Parquet file has them.
pub(super) fn schema(schema: &SchemaRef) -> SchemaRef {
    let kept = fields(schema.fields());
    if kept == *schema.fields() {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(kept, schema.metadata().clone()))
}

/// Rows with these columns. A moment that milliseconds do not hold is an error.
pub(super) fn batch(batch: &RecordBatch, kept: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref().fields() == kept.fields() {
        return Ok(batch.clone());
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(kept.fields());
    let columns =
        columns.map(|(column, field)| cast_with_options(column, field.data_type(), &strict));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(kept), columns, &options)?)
}

fn fields(fields: &Fields) -> Fields {
    fields.iter().map(field).collect()
}

fn field(field: &FieldRef) -> FieldRef {
    let kept = data_type(field.data_type());
    if kept == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(kept))
}

fn data_type(found: &DataType) -> DataType {
    match found {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(item), *size),
        DataType::Struct(found) => DataType::Struct(fields(found)),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Dictionary(key, values) => {
            DataType::Dictionary(key.clone(), Box::new(data_type(values)))
        }
        _ => found.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, ListArray, TimestampSecondArray, new_empty_array};
    use arrow_buffer::OffsetBuffer;

    use super::*;

    /// A timestamp in seconds was an integer in the file.
    #[test]
    fn seconds_become_milliseconds_wherever_they_are() {
        let stamps = TimestampSecondArray::from(vec![Some(1), None, Some(-2)]).with_timezone("UTC");
        let stamp = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        let item = Arc::new(Field::new_list_field(stamp, true));
        let lists =
            ListArray::new(item, OffsetBuffer::from_lengths([1, 2]), Arc::new(stamps), None);
        let rows = RecordBatch::try_from_iter([("t", Arc::new(lists) as ArrayRef)]).unwrap();
        let kept = schema(&rows.schema());
        let text = format!("{}", kept.field(0).data_type());
        assert!(text.contains("Timestamp(ms, \"UTC\")"), "{text}");
        let rows = batch(&rows, &kept).unwrap();
        let items = rows.column(0).to_data().child_data()[0].buffers()[0].clone();
        assert_eq!(items.typed_data::<i64>()[0], 1000);
        let far = TimestampSecondArray::from(vec![i64::MAX]);
        let far = RecordBatch::try_from_iter([("t", Arc::new(far) as ArrayRef)]).unwrap();
        assert!(batch(&far, &schema(&far.schema())).is_err(), "milliseconds do not hold it");
    }

    #[test]
    fn other_columns_stay_as_they_are() {
        let kinds = [DataType::Date64, DataType::Duration(TimeUnit::Second), DataType::Utf8View];
        for kind in kinds {
            let rows = RecordBatch::try_from_iter([("x", new_empty_array(&kind))]).unwrap();
            assert!(Arc::ptr_eq(&schema(&rows.schema()), rows.schema_ref()), "{kind}");
        }
    }
}
