//! Appending to the tree of a column: Arrow arrays, nulls, single values.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, GenericByteArray, GenericListArray, OffsetSizeTrait};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Field};

use super::node::{Node, Values};
use crate::error::{Error, Result};

impl Node {
    /// Appends an array of this node's type; `ordered` means that its dictionary is. After an error
    /// the caller rewinds.
    pub(crate) fn append(&mut self, array: &dyn Array, ordered: bool) -> Result<()> {
        if !same(&self.data_type, array.data_type()) {
            return Err(Error::mismatch(&self.data_type, array.data_type()));
        }
        if array.is_empty() {
            return Ok(());
        }
        match &mut self.values {
            Values::Null => {}
            Values::Fixed { width, values } => {
                let (data, width) = (array.to_data(), *width);
                let start = data.offset() * width;
                values.push(&data.buffers()[0][start..start + data.len() * width])?;
            }
            Values::Bool(bits) => {
                let found = array.as_boolean().values();
                bits.push_bits(found.values(), found.offset(), found.len())?;
            }
            Values::Bytes { .. } => match array.data_type() {
                DataType::Utf8 => self.append_bytes(array.as_string::<i32>())?,
                DataType::LargeUtf8 => self.append_bytes(array.as_string::<i64>())?,
                DataType::Binary => self.append_bytes(array.as_binary::<i32>())?,
                _ => self.append_bytes(array.as_binary::<i64>())?,
            },
            Values::List { .. } => match array.data_type() {
                DataType::LargeList(_) => self.append_lists(array.as_list::<i64>())?,
                DataType::List(_) => self.append_lists(array.as_list::<i32>())?,
                _ => {
                    let map = array.as_map();
                    self.append_elements(map.offsets().as_ref(), map.entries(), false)?;
                }
            },
            Values::FixedList { child, .. } => {
                child.append(array.as_fixed_size_list().values(), of_elements(array))?;
            }
            Values::Struct(children) => {
                let array = array.as_struct();
                let columns = array.columns().iter().zip(array.fields());
                for (child, (column, field)) in children.iter_mut().zip(columns) {
                    child.append(column, is_ordered(field))?;
                }
            }
            Values::Dictionary { keys, values } => {
                keys.append(array, ordered, |value| values.append(value, false))?;
            }
        }
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.note_nulls(nulls),
            None => self.note(true, array.len()),
        }
    }

    fn append_bytes<T: ByteArrayType>(&mut self, array: &GenericByteArray<T>) -> Result<()> {
        let ends = array.value_offsets();
        let (first, last) = (ends[0].as_usize(), ends[array.len()].as_usize());
        let Values::Bytes { offsets, data } = &mut self.values else { return Ok(()) };
        if !offsets.holds((last - first) as u64) {
            let instead = if matches!(self.data_type, DataType::Utf8) {
                "large_utf8"
            } else {
                "large_binary"
            };
            let data_type = self.data_type.clone();
            return Err(Error::Overflow { what: "the bytes", data_type, instead });
        }
        data.push(&array.value_data()[first..last])?;
        offsets.push(ends[1..].iter().map(|end| (end.as_usize() - first) as u64))
    }

    fn append_lists<O: OffsetSizeTrait>(&mut self, array: &GenericListArray<O>) -> Result<()> {
        self.append_elements(array.value_offsets(), array.values(), of_elements(array))
    }

    /// Appends lists that end at the offsets; the first one is where they begin.
    fn append_elements<O: OffsetSizeTrait>(
        &mut self,
        ends: &[O],
        elements: &dyn Array,
        ordered: bool,
    ) -> Result<()> {
        let (first, last) = (ends[0].as_usize(), ends[ends.len() - 1].as_usize());
        let Values::List { offsets, child } = &mut self.values else { return Ok(()) };
        if !offsets.holds((last - first) as u64) {
            let data_type = self.data_type.clone();
            return Err(Error::Overflow { what: "the elements", data_type, instead: "large_list" });
        }
        child.append(&*elements.slice(first, last - first), ordered)?;
        offsets.push(ends[1..].iter().map(|end| (end.as_usize() - first) as u64))
    }

    /// Appends nulls.
    pub(crate) fn append_nulls(&mut self, count: usize) -> Result<()> {
        match &mut self.values {
            Values::Null => {}
            Values::Fixed { width, values } => {
                values.extend(*width * count, |into| into.fill(0))?;
            }
            Values::Bool(bits) => bits.push_many(false, count)?,
            Values::Bytes { offsets, .. } | Values::List { offsets, .. } => {
                offsets.push(std::iter::repeat_n(0, count))?;
            }
            Values::FixedList { size, child } => child.append_nulls(*size * count)?,
            Values::Struct(children) => {
                children.iter_mut().try_for_each(|child| child.append_nulls(count))?;
            }
            Values::Dictionary { keys, .. } => keys.append_nulls(count)?,
        }
        self.note(false, count)
    }

    /// Appends values of fixed width as their bytes.
    #[inline]
    pub(crate) fn append_fixed(&mut self, bytes: &[u8]) -> Result<()> {
        let Values::Fixed { width, values } = &mut self.values else {
            return Err(Error::mismatch(&self.data_type, "values of fixed width"));
        };
        let width = (*width).max(1);
        if !bytes.len().is_multiple_of(width) {
            return Err(Error::mismatch(&self.data_type, format!("{} bytes", bytes.len())));
        }
        values.push(bytes)?;
        self.note(true, bytes.len() / width)
    }

    /// Appends one value of bytes or text.
    #[inline]
    pub(crate) fn append_value(&mut self, value: &[u8]) -> Result<()> {
        let Values::Bytes { offsets, data } = &mut self.values else {
            return Err(Error::mismatch(&self.data_type, "bytes"));
        };
        if !offsets.holds(value.len() as u64) {
            let data_type = self.data_type.clone();
            let instead = if data_type == DataType::Utf8 { "large_utf8" } else { "large_binary" };
            return Err(Error::Overflow { what: "the bytes", data_type, instead });
        }
        data.push(value)?;
        offsets.push(std::iter::once(value.len() as u64))?;
        self.note(true, 1)
    }

    /// Appends one boolean.
    #[inline]
    pub(crate) fn append_bool(&mut self, value: bool) -> Result<()> {
        let Values::Bool(bits) = &mut self.values else {
            return Err(Error::mismatch(&self.data_type, "a boolean"));
        };
        bits.push_many(value, 1)?;
        self.note(true, 1)
    }
}

/// Whether the values of a field's dictionary are ordered.
fn is_ordered(field: &Field) -> bool {
    field.dict_is_ordered() == Some(true)
}

/// [`is_ordered`] of the elements of an array of lists.
fn of_elements(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_ordered(field)
        }
        _ => false,
    }
}

/// Whether arrays of the one type are arrays of the other: names and nullability of nested fields
/// do not change what lies in memory, but fields are distinguished by their names.
pub(crate) fn same(one: &DataType, other: &DataType) -> bool {
    let fields = |one: &Field, other: &Field| same(one.data_type(), other.data_type());
    match (one, other) {
        (DataType::List(a), DataType::List(b))
        | (DataType::LargeList(a), DataType::LargeList(b)) => fields(a, b),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (a.data_type(), b.data_type()) {
            // The names of key and value differ between producers.
            (DataType::Struct(a), DataType::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fields(a, b))
            }
            _ => false,
        },
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => n == m && fields(a, b),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && fields(a, b))
        }
        (DataType::Dictionary(k, v), DataType::Dictionary(l, w)) => k == l && same(v, w),
        _ => one == other,
    }
}
