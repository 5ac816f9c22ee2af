//! Tables of every type that look random, and the sort that is right by construction: rows of
//! bytes of all keys (`arrow_row`), sorted by the standard library.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, i256};
use arrow_row::{RowConverter, SortField};
use arrow_schema::*;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use half::f16;
use plasmon_sort::SortKey;
use plasmon_testkit::Random;

/// How many tables a property is tried on, unless `PROPTEST_CASES` says more or fewer.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Every type that is tested, by a name.
pub(crate) fn types() -> Vec<DataType> {
    use DataType::*;
    let tz = || Some(Arc::from("Europe/Berlin"));
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Nanosecond, tz()),
        Duration(TimeUnit::Second),
        Interval(IntervalUnit::MonthDayNano),
        Decimal128(38, 4),
        Decimal256(76, 10),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        FixedSizeBinary(3),
        FixedSizeBinary(16),
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        List(Arc::new(Field::new_list_field(Int32, true))),
        Struct(Fields::from(vec![Field::new("x", Int32, true), Field::new("y", Utf8, true)])),
    ]
}

/// How the values of a column repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Any,
    FewValues,
    OneValue,
    Rising,
    Falling,
    /// 99 of 100 rows have the same value.
    Lopsided,
}

pub(crate) const SHAPES: [Shape; 6] =
    [Shape::Any, Shape::FewValues, Shape::OneValue, Shape::Rising, Shape::Falling, Shape::Lopsided];

fn raw(random: &mut Random, shape: Shape, at: usize, rows: usize) -> u64 {
    match shape {
        // Of every magnitude, so that all widths of keys are met.
        Shape::Any => {
            let shift = random.below(64);
            random.word() >> shift
        }
        Shape::FewValues => random.below(5).wrapping_mul(0x0123_4567_89AB_CDEF),
        Shape::OneValue => 0x1234_5678_9ABC_DEF0,
        Shape::Rising => at as u64,
        Shape::Falling => (rows - at) as u64,
        Shape::Lopsided => {
            if random.below(100) == 0 {
                random.word()
            } else {
                77
            }
        }
    }
}

fn text(raw: u64) -> String {
    // Common beginnings of several lengths, strings that are prefixes of others, and bytes of zero.
    match raw % 7 {
        0 => String::new(),
        1 => "/a/long/".to_owned() + &raw.to_string(),
        2 => "/a/long/common/path/of/many/".repeat((raw % 3) as usize) + &(raw >> 60).to_string(),
        3 => "a".repeat((raw >> 3) as usize % 20),
        4 => "a\0".repeat((raw >> 3) as usize % 8),
        5 => format!("{raw:x}"),
        _ => format!("äöü{}", raw % 1000),
    }
}

/// A column of a type.
pub(crate) fn column(
    data_type: &DataType,
    rows: usize,
    shape: Shape,
    nulls: bool,
    random: &mut Random,
) -> ArrayRef {
    let raws: Vec<u64> = (0..rows).map(|at| raw(random, shape, at, rows)).collect();
    let valid: Vec<bool> = (0..rows).map(|_| !nulls || random.below(4) != 0).collect();
    let validity = nulls.then(|| NullBuffer::from(valid.clone()));
    macro_rules! primitive {
        ($type:ty, $from:expr) => {{
            let values =
                raws.iter().map($from).collect::<Vec<<$type as ArrowPrimitiveType>::Native>>();
            let array = PrimitiveArray::<$type>::new(values.into(), validity.clone());
            Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
        }};
    }
    let float = |raw: &u64| match raw % 11 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => 0.0,
        3 => -0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        6 => f64::from_bits(*raw),
        7 => -(*raw as f64),
        _ => *raw as f64 / 3.0,
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(
            raws.iter().map(|raw| raw & 1 == 1).collect::<Vec<_>>().into(),
            validity,
        )),
        DataType::Int8 => primitive!(Int8Type, |raw| *raw as i8),
        DataType::Int16 => primitive!(Int16Type, |raw| *raw as i16),
        DataType::Int32 => primitive!(Int32Type, |raw| *raw as i32),
        DataType::Int64 => primitive!(Int64Type, |raw| *raw as i64),
        DataType::UInt8 => primitive!(UInt8Type, |raw| *raw as u8),
        DataType::UInt16 => primitive!(UInt16Type, |raw| *raw as u16),
        DataType::UInt32 => primitive!(UInt32Type, |raw| *raw as u32),
        DataType::UInt64 => primitive!(UInt64Type, |raw| *raw),
        DataType::Float16 => primitive!(Float16Type, |raw| f16::from_f64(float(raw))),
        DataType::Float32 => primitive!(Float32Type, |raw| float(raw) as f32),
        DataType::Float64 => primitive!(Float64Type, float),
        DataType::Date32 => primitive!(Date32Type, |raw| *raw as i32),
        DataType::Date64 => primitive!(Date64Type, |raw| *raw as i64),
        DataType::Time32(_) => primitive!(Time32MillisecondType, |raw| (*raw % 86_400_000) as i32),
        DataType::Time64(_) => {
            primitive!(Time64NanosecondType, |raw| (*raw % 86_400_000_000_000) as i64)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive!(TimestampMicrosecondType, |raw| *raw as i64)
        }
        DataType::Timestamp(..) => primitive!(TimestampNanosecondType, |raw| *raw as i64),
        DataType::Duration(_) => primitive!(DurationSecondType, |raw| *raw as i64),
        DataType::Interval(_) => primitive!(IntervalMonthDayNanoType, |raw| {
            IntervalMonthDayNano::new((*raw % 12) as i32, (*raw % 30) as i32, *raw as i64)
        }),
        DataType::Decimal128(..) => {
            primitive!(Decimal128Type, |raw| (*raw as i128 - (1 << 62))
                .wrapping_mul((*raw % 3) as i128 * (1 << 40)))
        }
        DataType::Decimal256(..) => primitive!(Decimal256Type, |raw| {
            i256::from_i128(*raw as i128 - (1 << 62)).wrapping_mul(i256::from_i128(1 << 90))
        }),
        _ => strings(data_type, &raws, &valid, validity.clone())
            .unwrap_or_else(|| nested(data_type, &raws, &valid, validity, random)),
    }
}

/// A column of strings or bytes.
fn strings(
    data_type: &DataType,
    raws: &[u64],
    valid: &[bool],
    validity: Option<NullBuffer>,
) -> Option<ArrayRef> {
    let strings = || raws.iter().zip(valid).map(|(raw, valid)| valid.then(|| text(*raw)));
    Some(match data_type {
        DataType::Utf8 => Arc::new(strings().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(strings().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(strings().collect::<StringViewArray>()),
        DataType::Binary => Arc::new(strings().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(strings().collect::<LargeBinaryArray>()),
        DataType::FixedSizeBinary(size) => {
            let bytes = raws
                .iter()
                .flat_map(|raw| (0..*size as usize).map(move |at| raw.to_be_bytes()[at % 8]));
            let bytes = bytes.collect::<Vec<u8>>().into();
            Arc::new(FixedSizeBinaryArray::new(*size, bytes, validity))
        }
        _ => return None,
    })
}

/// A column of values made of others.
fn nested(
    data_type: &DataType,
    raws: &[u64],
    valid: &[bool],
    validity: Option<NullBuffer>,
    random: &mut Random,
) -> ArrayRef {
    match data_type {
        DataType::Dictionary(..) => Arc::new(
            raws.iter()
                .zip(valid)
                .map(|(raw, valid)| valid.then(|| text(raw % 50)))
                .collect::<Vec<_>>()
                .iter()
                .map(Option::as_deref)
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        DataType::List(_) => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            raws.iter().zip(valid).map(|(raw, valid)| {
                valid.then(|| {
                    (0..raw % 4)
                        .map(|at| (at != 2).then_some((raw >> at) as i32))
                        .collect::<Vec<_>>()
                })
            }),
        )),
        DataType::Struct(fields) => {
            let x = column(&DataType::Int32, raws.len(), Shape::Any, true, random);
            let y = column(&DataType::Utf8, raws.len(), Shape::Any, true, random);
            Arc::new(StructArray::new(fields.clone(), vec![x, y], validity))
        }
        other => panic!("no column of {other} is made"),
    }
}

/// Floats whose order by their bits is the one that is promised.
fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float16 => {
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(|v| {
                if v.is_nan() {
                    f16::NAN
                } else if v == f16::ZERO {
                    f16::ZERO
                } else {
                    v
                }
            }))
        }
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(
            |v| {
                if v.is_nan() { f32::NAN } else { v + 0.0 }
            },
        )),
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(
            |v| {
                if v.is_nan() { f64::NAN } else { v + 0.0 }
            },
        )),
        _ => array.clone(),
    }
}

/// The batches as one, with its rows in order; of equal rows the first comes first.
pub(crate) fn reference(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    order: &[SortKey],
) -> RecordBatch {
    let whole = concat_batches(schema, batches).unwrap();
    let columns: Vec<ArrayRef> =
        order.iter().map(|key| canonical(whole.column_by_name(&key.column).unwrap())).collect();
    let fields = order.iter().zip(&columns).map(|(key, column)| {
        let options =
            arrow_schema::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        SortField::new_with_options(column.data_type().clone(), options)
    });
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = converter.convert_columns(&columns).unwrap();
    let mut numbers: Vec<u32> = (0..whole.num_rows() as u32).collect();
    numbers.sort_by(|one, other| rows.row(*one as usize).cmp(&rows.row(*other as usize)));
    take_record_batch(&whole, &UInt32Array::from(numbers)).unwrap()
}
