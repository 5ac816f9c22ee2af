//! What rows take of offsets of 32 bits: a batch of Arrow addresses no more than they count, in the
//! text of a column as in the elements of a list. And how many rows the ends of runs count.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, GenericListViewArray, OffsetSizeTrait};
use arrow_schema::DataType;

/// Bytes of text and elements of lists that consecutive rows have under offsets of 32 bits, at all
/// depths together: no single one is greater.
pub(crate) fn extent(array: &ArrayRef, rows: Range<usize>) -> u64 {
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            (offsets[rows.end] - offsets[rows.start]) as u64
        }
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            (offsets[rows.end] - offsets[rows.start]) as u64
        }
        DataType::List(_) => {
            let (array, within) = (array.as_list::<i32>(), rows);
            let offsets = array.value_offsets();
            let own = offsets[within.start] as usize..offsets[within.end] as usize;
            own.len() as u64 + extent(array.values(), own)
        }
        DataType::LargeList(_) => {
            let array = array.as_list::<i64>();
            let offsets = array.value_offsets();
            extent(array.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::Map(..) => {
            let array = array.as_map();
            let offsets = array.value_offsets();
            let own = offsets[rows.start] as usize..offsets[rows.end] as usize;
            let columns = array.entries().columns().iter();
            own.len() as u64 + columns.map(|column| extent(column, own.clone())).sum::<u64>()
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            extent(array.as_fixed_size_list().values(), rows.start * size..rows.end * size)
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| extent(column, rows.clone())).sum()
        }
        DataType::ListView(_) => views(array.as_list_view::<i32>(), rows),
        DataType::LargeListView(_) => views(array.as_list_view::<i64>(), rows),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array, rows),
            DataType::Int32 => runs::<Int32Type>(array, rows),
            _ => runs::<Int64Type>(array, rows),
        },
        DataType::Union(fields, _) => {
            let array = array.as_union();
            let child = |row: usize| (array.child(array.type_id(row)), array.value_offset(row));
            let each = |row: usize| {
                let (child, at) = child(row);
                extent(child, at..at + 1)
            };
            if fields.is_empty() { 0 } else { rows.map(each).sum() }
        }
        _ => 0,
    }
}

fn views<O: OffsetSizeTrait>(array: &GenericListViewArray<O>, rows: Range<usize>) -> u64 {
    let each = |row: usize| {
        let (offset, size) = (array.value_offset(row).as_usize(), array.value_size(row).as_usize());
        size as u64 + extent(array.values(), offset..offset + size)
    };
    rows.map(each).sum()
}

fn runs<R: RunEndIndexType>(array: &ArrayRef, rows: Range<usize>) -> u64 {
    if rows.is_empty() {
        return 0;
    }
    let array = array.as_run::<R>();
    let first = array.get_physical_index(rows.start);
    extent(array.values(), first..array.get_physical_index(rows.end - 1) + 1)
}

/// How many rows of a column of this type a batch can have.
pub(crate) fn rows_max(data_type: &DataType) -> usize {
    match data_type {
        DataType::RunEndEncoded(ends, _) if *ends.data_type() == DataType::Int16 => {
            i16::MAX as usize
        }
        DataType::Struct(fields) => {
            let each = fields.iter().map(|field| rows_max(field.data_type()));
            each.min().unwrap_or(usize::MAX)
        }
        DataType::FixedSizeList(field, size) => {
            (rows_max(field.data_type()) / (*size).max(1) as usize).max(1)
        }
        _ => usize::MAX,
    }
}

/// Consecutive rows of at most `rows_max`, of which each lot has an extent of at most `limit`, or
/// is a single row.
pub(crate) fn lots(
    count: usize,
    rows_max: usize,
    limit: u64,
    extent: impl Fn(usize) -> u64,
) -> Vec<Range<usize>> {
    let (mut lots, mut from, mut sum) = (Vec::new(), 0, 0);
    for row in 0..count {
        let own = extent(row);
        if row - from == rows_max || (row > from && sum + own > limit) {
            lots.push(from..row);
            (from, sum) = (row, 0);
        }
        sum += own;
    }
    if from < count {
        lots.push(from..count);
    }
    lots
}
