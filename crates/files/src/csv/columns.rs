//! Columns of a batch that are built field by field.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, Time32SecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, Int64Array, NullArray, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};

use super::records::Field;
use super::values::{
    Integer, Moment, boolean, date, is_null_word, moment, real, time, trimmed, whole,
};

/// The values of one column so far. Nothing is allocated before there is a value: files may have
/// thousands of columns.
pub(super) enum Column {
    Nulls(usize),
    Booleans(BooleanBuilder),
    Signed(PrimitiveBuilder<Int64Type>),
    Unsigned(PrimitiveBuilder<UInt64Type>),
    Reals(PrimitiveBuilder<Float64Type>),
    Dates(PrimitiveBuilder<Date32Type>),
    Times(PrimitiveBuilder<Time32SecondType>),
    Moments { unit: TimeUnit, zone: Option<Arc<str>>, values: PrimitiveBuilder<Int64Type> },
    Strings(StringBuilder),
}

/// Why a field cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldError {
    /// It is not of the column's type.
    Type,
    /// It is not UTF-8.
    Encoding,
}

impl Column {
    /// An empty column; `None` for a type that no CSV file has.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Nulls(0),
            DataType::Boolean => Self::Booleans(BooleanBuilder::with_capacity(0)),
            DataType::Int64 => Self::Signed(PrimitiveBuilder::with_capacity(0)),
            DataType::UInt64 => Self::Unsigned(PrimitiveBuilder::with_capacity(0)),
            DataType::Float64 => Self::Reals(PrimitiveBuilder::with_capacity(0)),
            DataType::Date32 => Self::Dates(PrimitiveBuilder::with_capacity(0)),
            DataType::Time32(TimeUnit::Second) => Self::Times(PrimitiveBuilder::with_capacity(0)),
            DataType::Timestamp(unit, zone) => Self::Moments {
                unit: *unit,
                zone: zone.clone(),
                values: PrimitiveBuilder::with_capacity(0),
            },
            DataType::Utf8 => Self::Strings(StringBuilder::with_capacity(0, 0)),
            _ => return None,
        })
    }

    /// Adds a field.
    #[inline]
    pub(super) fn push(&mut self, field: Field<'_>) -> Result<(), FieldError> {
        if let Self::Strings(values) = self {
            if field.bytes.is_empty() && !field.quoted {
                values.append_null();
                return Ok(());
            }
            let text = std::str::from_utf8(field.bytes).map_err(|_| FieldError::Encoding)?;
            values.append_value(text);
            return Ok(());
        }
        let bytes = trimmed(field.bytes);
        if field.bytes.is_empty() || is_null_word(bytes) {
            self.push_null();
            return Ok(());
        }
        self.push_value(bytes).ok_or(FieldError::Type)
    }

    fn push_null(&mut self) {
        match self {
            Self::Nulls(count) => *count += 1,
            Self::Booleans(values) => values.append_null(),
            Self::Signed(values) | Self::Moments { values, .. } => values.append_null(),
            Self::Unsigned(values) => values.append_null(),
            Self::Reals(values) => values.append_null(),
            Self::Dates(values) => values.append_null(),
            Self::Times(values) => values.append_null(),
            Self::Strings(values) => values.append_null(),
        }
    }

    fn push_value(&mut self, bytes: &[u8]) -> Option<()> {
        match self {
            Self::Booleans(values) => values.append_value(boolean(bytes)?),
            Self::Signed(values) => match whole(bytes)? {
                Integer::Signed(value) => values.append_value(value),
                _ => return None,
            },
            Self::Unsigned(values) => match whole(bytes)? {
                Integer::Signed(value) => values.append_value(u64::try_from(value).ok()?),
                Integer::Unsigned(value) => values.append_value(value),
                Integer::Huge => return None,
            },
            Self::Reals(values) => values.append_value(real(bytes)?),
            Self::Dates(values) => values.append_value(date(bytes)?),
            Self::Times(values) => values.append_value(time(bytes)?),
            Self::Moments { unit, zone, values } => {
                let midnight = |days: i32| Moment {
                    seconds: i64::from(days) * 86_400,
                    nanoseconds: 0,
                    digits: 0,
                    zoned: false,
                };
                let found = moment(bytes).or_else(|| date(bytes).map(midnight))?;
                if found.zoned != zone.is_some() {
                    return None;
                }
                values.append_value(found.in_units(per_second(*unit))?);
            }
            Self::Nulls(_) | Self::Strings(_) => return None,
        }
        Some(())
    }

    /// The added values as an array; the column is empty then.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Nulls(count) => Arc::new(NullArray::new(std::mem::take(count))),
            Self::Booleans(values) => Arc::new(values.finish()),
            Self::Signed(values) => Arc::new(values.finish()),
            Self::Unsigned(values) => Arc::new(values.finish()),
            Self::Reals(values) => Arc::new(values.finish()),
            Self::Dates(values) => Arc::new(values.finish()),
            Self::Times(values) => Arc::new(values.finish()),
            Self::Strings(values) => Arc::new(values.finish()),
            Self::Moments { unit, zone, values } => {
                let (values, zone) = (values.finish(), zone.clone());
                match unit {
                    TimeUnit::Second => stamps::<TimestampSecondType>(&values, zone),
                    TimeUnit::Millisecond => stamps::<TimestampMillisecondType>(&values, zone),
                    TimeUnit::Microsecond => stamps::<TimestampMicrosecondType>(&values, zone),
                    TimeUnit::Nanosecond => stamps::<TimestampNanosecondType>(&values, zone),
                }
            }
        }
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn stamps<T>(values: &Int64Array, zone: Option<Arc<str>>) -> ArrayRef
where
    T: arrow_array::types::ArrowTimestampType + ArrowPrimitiveType<Native = i64>,
{
    let values: PrimitiveArray<T> = values.reinterpret_cast();
    Arc::new(values.with_timezone_opt(zone))
}
