//! Types and arrays that look random: few values, so that many are equal, and every float that is
//! special among them.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::*;
use half::f16;
use plasmon_testkit::Random;

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn map_of(keys: DataType, values: DataType) -> DataType {
    let fields = vec![Field::new("keys", keys, false), Field::new("values", values, true)];
    let entries = Field::new("entries", DataType::Struct(fields.into()), false);
    DataType::Map(Arc::new(entries), false)
}

fn nested(which: usize, inner: DataType) -> DataType {
    match which {
        0 => DataType::List(field("item", inner)),
        1 => DataType::LargeList(field("item", inner)),
        2 => DataType::ListView(field("item", inner)),
        3 => DataType::LargeListView(field("item", inner)),
        4 => DataType::FixedSizeList(field("item", inner), 2),
        5 => DataType::Struct(vec![field("x", inner), field("y", DataType::Float32)].into()),
        6 => map_of(DataType::Utf8, inner),
        7 => DataType::Dictionary(Box::new(DataType::Int8), Box::new(inner)),
        _ => DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            field("values", inner),
        ),
    }
}
const NESTED: usize = 9;

/// A float of every size in everything that can hold one, and in a list of that.
pub(crate) fn float_types() -> Vec<DataType> {
    let floats = [DataType::Float16, DataType::Float32, DataType::Float64];
    let once = floats.iter().flat_map(|float| (0..NESTED).map(|at| nested(at, float.clone())));
    let twice = (0..NESTED).filter(|at| *at != 7);
    once.chain(twice.map(|at| nested(0, nested(at, DataType::Float64)))).collect()
}

/// Any type of at most this depth.
pub(crate) fn any_type(depth: usize, random: &mut Random) -> DataType {
    use DataType::{Float16, Float32, Float64, Int32, Utf8};
    let leaf = |random: &mut Random| {
        [Float64, Float32, Float16, Int32, Utf8][random.size_below(5)].clone()
    };
    if depth == 0 || random.size_below(4) == 0 {
        return leaf(random);
    }
    match random.size_below(NESTED) {
        7 => nested(7, leaf(random)),
        which => nested(which, any_type(depth - 1, random)),
    }
}

fn float(random: &mut Random) -> f64 {
    let sign = if random.size_below(2) == 0 { 1.0 } else { -1.0 };
    sign * [f64::NAN, 0.0, f64::INFINITY, 1.0, 2.5][random.size_below(5)]
}

fn lengths(rows: usize, random: &mut Random) -> (Vec<i64>, usize) {
    let mut ends = vec![0];
    for _ in 0..rows {
        ends.push(ends[ends.len() - 1] + random.size_below(4) as i64);
    }
    let last = ends[rows] as usize;
    (ends, last)
}

fn small(ends: &[i64]) -> Vec<i32> {
    ends.iter().map(|end| *end as i32).collect()
}

/// An array with missing values, and with something under them.
pub(crate) fn array(data_type: &DataType, rows: usize, random: &mut Random) -> ArrayRef {
    let valid: Vec<bool> = (0..rows).map(|_| random.size_below(5) != 0).collect();
    let nulls = Some(NullBuffer::from(valid));
    match data_type {
        DataType::Int32 => {
            let values = (0..rows).map(|_| random.size_below(4) as i32 - 2).collect();
            Arc::new(Int32Array::new(values, nulls))
        }
        DataType::Float16 => {
            let values = (0..rows).map(|_| f16::from_f64(float(random))).collect();
            Arc::new(Float16Array::new(values, nulls))
        }
        DataType::Float32 => {
            let values = (0..rows).map(|_| float(random) as f32).collect();
            Arc::new(Float32Array::new(values, nulls))
        }
        DataType::Float64 => {
            Arc::new(Float64Array::new((0..rows).map(|_| float(random)).collect(), nulls))
        }
        DataType::Utf8 => {
            let text = |_| (random.size_below(5) != 0).then(|| "ab".repeat(random.size_below(3)));
            Arc::new((0..rows).map(text).collect::<StringArray>())
        }
        DataType::List(_) | DataType::LargeList(_) => list(data_type, rows, nulls, random),
        DataType::Struct(fields) => {
            let column = |field: &FieldRef| array(field.data_type(), rows, random);
            Arc::new(StructArray::new(fields.clone(), fields.iter().map(column).collect(), nulls))
        }
        DataType::ListView(_) | DataType::LargeListView(_) => views(data_type, rows, nulls, random),
        DataType::FixedSizeList(field, size) => {
            let values = array(field.data_type(), rows * *size as usize, random);
            Arc::new(FixedSizeListArray::new(field.clone(), *size, values, nulls))
        }
        DataType::Map(field, ordered) => {
            let (ends, last) = lengths(rows, random);
            let DataType::Struct(fields) = field.data_type() else { panic!("a map has entries") };
            let keys: ArrayRef = Arc::new(StringArray::from_iter_values(
                (0..last).map(|_| ["k", "l", "m"][random.size_below(3)]),
            ));
            let values = array(fields[1].data_type(), last, random);
            let entries = StructArray::new(fields.clone(), vec![keys, values], None);
            let offsets = OffsetBuffer::new(small(&ends).into());
            Arc::new(MapArray::new(field.clone(), offsets, entries, nulls, *ordered))
        }
        DataType::Dictionary(_, values) => {
            let count = 1 + random.size_below(8);
            let values = array(values, count, random);
            let keys = (0..rows).map(|_| random.size_below(count) as i8).collect();
            Arc::new(DictionaryArray::new(Int8Array::new(keys, nulls), values))
        }
        DataType::RunEndEncoded(_, field) => {
            let mut ends = Vec::new();
            while ends.last().is_none_or(|end| (*end as usize) < rows) {
                let last = ends.last().copied().unwrap_or(0);
                ends.push(last + 1 + random.size_below(3) as i32);
            }
            let values = array(field.data_type(), ends.len(), random);
            let runs = RunArray::try_new(&Int32Array::from(ends), &values).unwrap();
            Arc::new(runs.slice(0, rows))
        }
        other => panic!("no array of {other} is made"),
    }
}

fn list(
    data_type: &DataType,
    rows: usize,
    nulls: Option<NullBuffer>,
    random: &mut Random,
) -> ArrayRef {
    let (ends, last) = lengths(rows, random);
    match data_type {
        DataType::List(field) => {
            let values = array(field.data_type(), last + 1, random);
            let offsets = OffsetBuffer::new(small(&ends).into());
            Arc::new(ListArray::new(field.clone(), offsets, values, nulls))
        }
        DataType::LargeList(field) => {
            let values = array(field.data_type(), last + 1, random);
            let offsets = OffsetBuffer::new(ends.into());
            Arc::new(LargeListArray::new(field.clone(), offsets, values, nulls))
        }
        other => panic!("{other} is no list"),
    }
}

/// Lists that overlap and do not follow each other.
fn views(
    data_type: &DataType,
    rows: usize,
    nulls: Option<NullBuffer>,
    random: &mut Random,
) -> ArrayRef {
    let shown: Vec<(i64, i64)> =
        (0..rows).map(|_| (random.size_below(9) as i64, random.size_below(4) as i64)).collect();
    match data_type {
        DataType::ListView(field) => {
            let values = array(field.data_type(), 12, random);
            let offsets: ScalarBuffer<i32> = shown.iter().map(|(at, _)| *at as i32).collect();
            let sizes = shown.iter().map(|(_, size)| *size as i32).collect();
            Arc::new(ListViewArray::new(field.clone(), offsets, sizes, values, nulls))
        }
        DataType::LargeListView(field) => {
            let values = array(field.data_type(), 12, random);
            let offsets: ScalarBuffer<i64> = shown.iter().map(|(at, _)| *at).collect();
            let sizes = shown.iter().map(|(_, size)| *size).collect();
            Arc::new(LargeListViewArray::new(field.clone(), offsets, sizes, values, nulls))
        }
        other => panic!("{other} is no list view"),
    }
}
