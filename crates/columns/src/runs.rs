//! Runs of views that a slice leaves without values.
//!
//! The encoder of arrow-rs writes an empty slice of runs as runs of no values, which have no
//! buffers of views, and counts those that the values of the whole array have. The batch cannot be
//! read then. So runs that will be empty slices, at any depth, are made empty arrays before.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RunArray, make_array};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, UnionMode};

/// The array, whose empty slices of runs of views have become empty arrays.
pub(crate) fn without_empty_runs(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has(array.data_type(), is_run_of_views) {
        return Ok(Arc::clone(array));
    }
    Ok(make_array(settled(&array.to_data())?))
}

/// Whether a type is one of these, or consists of one.
fn has(data_type: &DataType, is_one: fn(&DataType) -> bool) -> bool {
    is_one(data_type)
        || match data_type {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::RunEndEncoded(_, field)
            | DataType::Map(field, _) => has(field.data_type(), is_one),
            DataType::Struct(fields) => fields.iter().any(|it| has(it.data_type(), is_one)),
            DataType::Union(fields, _) => fields.iter().any(|(_, it)| has(it.data_type(), is_one)),
            _ => false,
        }
}

fn is_run_of_views(data_type: &DataType) -> bool {
    let is_view = |it: &DataType| matches!(it, DataType::Utf8View | DataType::BinaryView);
    matches!(data_type, DataType::RunEndEncoded(_, values) if has(values.data_type(), is_view))
}

/// As `without_empty_runs`. What the encoder slices is sliced here, to see what it leaves.
fn settled(data: &ArrayData) -> Result<ArrayData, ArrowError> {
    if !has(data.data_type(), is_run_of_views) {
        return Ok(data.clone());
    }
    let length = data.len();
    if length == 0 {
        return Ok(ArrayData::new_empty(data.data_type()));
    }
    let child = |from: usize, count: usize| settled(&data.child_data()[0].slice(from, count));
    match data.data_type() {
        DataType::List(_) | DataType::Map(..) => {
            let (offsets, from, count) = from_zero(data.buffer::<i32>(0), length);
            made(data, vec![offsets], vec![child(from, count)?])
        }
        DataType::LargeList(_) => {
            let (offsets, from, count) = from_zero(data.buffer::<i64>(0), length);
            made(data, vec![offsets], vec![child(from, count)?])
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or_default();
            made(data, Vec::new(), vec![child(data.offset() * size, length * size)?])
        }
        DataType::Union(_, UnionMode::Sparse) => {
            let types = data.buffers()[0].slice_with_length(data.offset(), length);
            let part = |it: &ArrayData| settled(&it.slice(data.offset(), length));
            let children = data.child_data().iter().map(part).collect::<Result<_, _>>()?;
            made(data, vec![types], children)
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(data),
            DataType::Int32 => runs::<Int32Type>(data),
            _ => runs::<Int64Type>(data),
        },
        // The children of others are written whole.
        _ => {
            let children = data.child_data().iter().map(settled).collect::<Result<_, _>>()?;
            data.clone().into_builder().child_data(children).build()
        }
    }
}

/// An array that begins with its buffers.
fn made(
    data: &ArrayData,
    buffers: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> Result<ArrayData, ArrowError> {
    let builder = data.clone().into_builder().offset(0).nulls(data.nulls().cloned());
    builder.buffers(buffers).child_data(children).build()
}

/// Offsets of lists from 0 on, with the part of the values that they refer to.
fn from_zero<O: ArrowNativeType>(offsets: &[O], length: usize) -> (Buffer, usize, usize) {
    let offsets: Vec<usize> = offsets[..=length].iter().map(|it| it.as_usize()).collect();
    let (first, last) = (offsets[0], offsets[length]);
    let moved: Vec<O> = offsets.iter().map(|it| O::usize_as(it - first)).collect();
    (Buffer::from_vec(moved), first, last - first)
}

/// Runs with the values that the slice refers to.
fn runs<R: RunEndIndexType>(data: &ArrayData) -> Result<ArrayData, ArrowError> {
    let array = RunArray::<R>::from(data.clone());
    let ends = array.run_ends();
    let (first, last) = (ends.get_start_physical_index(), ends.get_end_physical_index());
    let values = array.values().slice(first, last + 1 - first).into_data();
    let ends = PrimitiveArray::<R>::from_iter_values(ends.sliced_values());
    let values = make_array(settled(&values)?);
    let made = RunArray::<R>::try_new(&ends, values.as_ref())?.into_data();
    // Of the same fields as before.
    made.into_builder().data_type(data.data_type().clone()).build()
}
