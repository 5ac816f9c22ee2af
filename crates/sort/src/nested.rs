//! Arrays of nested types, rebuilt with other leaves: by recursion over the type, so that what is
//! said of a leaf holds at any depth.
//!
//! Lists and maps are cut to what they show: rows of a slice do not drag along the values of the
//! whole array.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, StructArray, UnionArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, UnionFields};

use crate::error::Result;

/// Leaves of a type, and what they become.
pub(crate) trait Leaves {
    /// Whether arrays of this type are replaced.
    fn takes(&self, shape: &DataType) -> bool;
    /// What stands in the place of an array that is replaced.
    fn replace(&mut self, array: &ArrayRef, shape: &DataType) -> Result<ArrayRef>;
}

/// Whether a type has such a leaf, at any depth.
pub(crate) fn has(shape: &DataType, leaves: &impl Leaves) -> bool {
    leaves.takes(shape)
        || match shape {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _)
            | DataType::RunEndEncoded(_, field) => has(field.data_type(), leaves),
            DataType::Struct(fields) => fields.iter().any(|field| has(field.data_type(), leaves)),
            DataType::Union(fields, _) => {
                fields.iter().any(|(_, field)| has(field.data_type(), leaves))
            }
            DataType::Dictionary(_, values) => has(values, leaves),
            _ => false,
        }
}

/// The array with its leaves replaced. `shape` is the type that says where they are: that of the
/// array, or the one that it had before its leaves were replaced by others.
pub(crate) fn rebuild(
    array: &ArrayRef,
    shape: &DataType,
    leaves: &mut impl Leaves,
) -> Result<ArrayRef> {
    if leaves.takes(shape) {
        return leaves.replace(array, shape);
    }
    if !has(shape, leaves) {
        return Ok(array.clone());
    }
    Ok(match shape {
        DataType::List(field) => list(array.as_list::<i32>(), field, leaves)?,
        DataType::LargeList(field) => list(array.as_list::<i64>(), field, leaves)?,
        DataType::ListView(field) => list_view(array.as_list_view::<i32>(), field, leaves)?,
        DataType::LargeListView(field) => list_view(array.as_list_view::<i64>(), field, leaves)?,
        DataType::FixedSizeList(field, size) => {
            let array = array.as_fixed_size_list();
            let values = rebuild(array.values(), field.data_type(), leaves)?;
            let (field, nulls) = (child(field, &values, true), array.nulls().cloned());
            let length = array.len();
            Arc::new(FixedSizeListArray::try_new_with_length(field, *size, values, nulls, length)?)
        }
        DataType::Struct(fields) => Arc::new(structure(array.as_struct(), fields, true, leaves)?),
        DataType::Map(field, ordered) => map(array.as_map(), field, *ordered, leaves)?,
        DataType::Union(fields, _) => union(array.as_union(), fields, leaves)?,
        DataType::Dictionary(_, shape) => {
            let array = array.as_any_dictionary();
            array.with_values(rebuild(array.values(), shape, leaves)?)
        }
        DataType::RunEndEncoded(ends, field) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array, field, leaves)?,
            DataType::Int32 => runs::<Int32Type>(array, field, leaves)?,
            _ => runs::<Int64Type>(array, field, leaves)?,
        },
        _ => array.clone(),
    })
}

/// The field of a child that was rebuilt. One that is still of the type that the shape says is as
/// it was; other values may be missing where the parent is.
fn child(field: &FieldRef, values: &ArrayRef, loose: bool) -> FieldRef {
    if field.data_type() == values.data_type() {
        return field.clone();
    }
    let nullable = loose || field.is_nullable();
    let field = Field::clone(field).with_data_type(values.data_type().clone());
    Arc::new(field.with_nullable(nullable))
}

/// Offsets that begin with 0, and what they were counted from and to.
fn cut<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let offsets = if first == O::zero() {
        offsets.clone()
    } else {
        OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect())
    };
    (offsets, first.as_usize(), last.as_usize())
}

fn list<O: OffsetSizeTrait>(
    array: &GenericListArray<O>,
    field: &FieldRef,
    leaves: &mut impl Leaves,
) -> Result<ArrayRef> {
    let (offsets, first, last) = cut(array.offsets());
    let values = array.values().slice(first, last - first);
    let values = rebuild(&values, field.data_type(), leaves)?;
    let (field, nulls) = (child(field, &values, true), array.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(field, offsets, values, nulls)?))
}

fn list_view<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    field: &FieldRef,
    leaves: &mut impl Leaves,
) -> Result<ArrayRef> {
    let shown = || array.offsets().iter().zip(array.sizes()).filter(|(_, size)| **size > O::zero());
    let first = shown().map(|(offset, _)| *offset).min().unwrap_or_default();
    let last = shown().map(|(offset, size)| *offset + *size).max().unwrap_or_default();
    let values = array.values().slice(first.as_usize(), (last - first).as_usize());
    let values = rebuild(&values, field.data_type(), leaves)?;
    // The offset of an empty list says nothing.
    let place = |(offset, size): (&O, &O)| {
        if *size > O::zero() { *offset - first } else { O::zero() }
    };
    let offsets: ScalarBuffer<O> = array.offsets().iter().zip(array.sizes()).map(place).collect();
    let (field, nulls) = (child(field, &values, true), array.nulls().cloned());
    let sizes = array.sizes().clone();
    Ok(Arc::new(GenericListViewArray::try_new(field, offsets, sizes, values, nulls)?))
}

fn structure(
    array: &StructArray,
    fields: &Fields,
    loose: bool,
    leaves: &mut impl Leaves,
) -> Result<StructArray> {
    let (mut rebuilt, mut arrays) = (Vec::new(), Vec::new());
    for (at, (field, values)) in fields.iter().zip(array.columns()).enumerate() {
        let values = rebuild(values, field.data_type(), leaves)?;
        rebuilt.push(child(field, &values, loose || at > 0));
        arrays.push(values);
    }
    let (fields, nulls) = (Fields::from(rebuilt), array.nulls().cloned());
    Ok(StructArray::try_new_with_length(fields, arrays, nulls, array.len())?)
}

fn map(
    array: &MapArray,
    field: &FieldRef,
    ordered: bool,
    leaves: &mut impl Leaves,
) -> Result<ArrayRef> {
    let (offsets, first, last) = cut(array.offsets());
    let entries = array.entries().slice(first, last - first);
    // The keys of a map are never missing, and Arrow wants their field to say so.
    let entries = match field.data_type() {
        DataType::Struct(fields) => structure(&entries, fields, false, leaves)?,
        _ => entries,
    };
    let nulls = array.nulls().cloned();
    let field = Field::clone(field).with_data_type(entries.data_type().clone());
    Ok(Arc::new(MapArray::try_new(Arc::new(field), offsets, entries, nulls, ordered)?))
}

fn union(array: &UnionArray, fields: &UnionFields, leaves: &mut impl Leaves) -> Result<ArrayRef> {
    let (mut rebuilt, mut arrays) = (Vec::new(), Vec::new());
    for (id, field) in fields.iter() {
        let values = rebuild(array.child(id), field.data_type(), leaves)?;
        rebuilt.push((id, child(field, &values, true)));
        arrays.push(values);
    }
    let (ids, offsets) = (array.type_ids().clone(), array.offsets().cloned());
    let fields = UnionFields::from_iter(rebuilt);
    Ok(Arc::new(UnionArray::try_new(fields, ids, offsets, arrays)?))
}

fn runs<R: RunEndIndexType>(
    array: &ArrayRef,
    field: &FieldRef,
    leaves: &mut impl Leaves,
) -> Result<ArrayRef> {
    let array = array.as_run::<R>();
    Ok(Arc::new(array.with_values(rebuild(array.values(), field.data_type(), leaves)?)))
}
