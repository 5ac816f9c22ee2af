//! Arrays that came through the Arrow C interface, checked before they are published.
//!
//! The interface does not give the lengths of buffers: the producer promises that they are there,
//! which cannot be checked. The rest is checked here once, and cheaply: that lengths are
//! plausible, that offsets rise, and that all references are in range. Readers of the same user
//! trust the data in the store. UTF-8 is not checked: text is copied as bytes, and nothing here
//! makes a `str` of it.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

type Result = std::result::Result<(), ArrowError>;

/// Checks the columns of a batch as [`check_foreign`] does.
pub fn check_foreign_batch(batch: &RecordBatch) -> Result {
    batch.columns().iter().try_for_each(|column| check_foreign(&column.to_data()))
}

/// Checks an array that another library made: everything but what is in text.
pub fn check_foreign(data: &ArrayData) -> Result {
    data.validate()?;
    check_contents(data)
}

fn check_contents(data: &ArrayData) -> Result {
    data.validate_nulls()?;
    match data.data_type() {
        DataType::Utf8 | DataType::Binary => offsets::<i32>(data, data.buffers()[1].len())?,
        DataType::LargeUtf8 | DataType::LargeBinary => {
            offsets::<i64>(data, data.buffers()[1].len())?;
        }
        DataType::List(_) | DataType::Map(..) => offsets::<i32>(data, data.child_data()[0].len())?,
        DataType::LargeList(_) => offsets::<i64>(data, data.child_data()[0].len())?,
        DataType::Utf8View | DataType::BinaryView => views(data)?,
        DataType::Dictionary(keys, _) => check_keys(data, keys)?,
        DataType::Union(..) | DataType::RunEndEncoded(..) => data.validate_values()?,
        _ => {}
    }
    data.child_data().iter().try_for_each(check_contents)
}

/// Offsets rise, up to `end`.
fn offsets<T: ArrowNativeType>(data: &ArrayData, end: usize) -> Result {
    let all = data.buffers()[0].typed_data::<T>();
    if data.is_empty() && all.is_empty() {
        return Ok(());
    }
    let used = all.get(data.offset()..=data.offset() + data.len());
    let used = used.ok_or_else(|| broken(data, "has too few offsets"))?;
    let rise = used.windows(2).fold(true, |rise, pair| rise & (pair[0] <= pair[1]));
    let first = used[0].to_usize().is_some();
    let last = used[used.len() - 1].to_usize().is_some_and(|last| last <= end);
    if rise && first && last { Ok(()) } else { Err(broken(data, "has offsets that fall")) }
}

/// Views are short, or lie in their buffers and begin with their prefix, even of missing values:
/// readers check them all, and would refuse what was published.
fn views(data: &ArrayData) -> Result {
    const INLINE_BYTES_MAX: u32 = 12;
    let (views, buffers) = (data.buffers()[0].typed_data::<u128>(), &data.buffers()[1..]);
    let used = views.get(data.offset()..data.offset() + data.len());
    let fits = |view: u128| {
        let (length, buffer, offset) = (view as u32, (view >> 64) as u32, (view >> 96) as u32);
        if length <= INLINE_BYTES_MAX {
            // The bytes after a short string are zero.
            return view.checked_shr(32 + 8 * length).unwrap_or(0) == 0;
        }
        let held = buffers.get(buffer as usize).map(|buffer| buffer.as_slice());
        let (start, length) = (offset as usize, length as usize);
        let text = held.and_then(|held| held.get(start..start.checked_add(length)?));
        text.is_some_and(|text| text.starts_with(&((view >> 32) as u32).to_le_bytes()))
    };
    if used.is_some_and(|used| used.iter().all(|view| fits(*view))) {
        return Ok(());
    }
    Err(broken(data, "has views outside of its buffers"))
}

fn check_keys(data: &ArrayData, keys: &DataType) -> Result {
    match keys {
        DataType::Int8 => keys_of::<i8>(data),
        DataType::Int16 => keys_of::<i16>(data),
        DataType::Int32 => keys_of::<i32>(data),
        DataType::Int64 => keys_of::<i64>(data),
        DataType::UInt8 => keys_of::<u8>(data),
        DataType::UInt16 => keys_of::<u16>(data),
        DataType::UInt32 => keys_of::<u32>(data),
        DataType::UInt64 => keys_of::<u64>(data),
        other => Err(broken(data, &format!("has keys of type {other}"))),
    }
}

/// Keys of values that are valid; the keys of missing values are not read.
fn keys_of<T: ArrowNativeType>(data: &ArrayData) -> Result {
    let keys = &data.buffers()[0].typed_data::<T>()[data.offset()..data.offset() + data.len()];
    let count = data.child_data()[0].len();
    let inside = |key: &T| key.to_usize().is_some_and(|key| key < count);
    let all = match data.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => keys.iter().fold(true, |all, key| all & inside(key)),
        Some(nulls) => keys
            .iter()
            .zip(nulls.iter())
            .fold(true, |all, (key, valid)| all & (!valid | inside(key))),
    };
    if all { Ok(()) } else { Err(broken(data, "has keys without a value")) }
}

fn broken(data: &ArrayData, what: &str) -> ArrowError {
    let text = format!("an array of type {} {what}: its producer is at fault", data.data_type());
    ArrowError::InvalidArgumentError(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{
        BinaryViewArray, DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray,
    };

    // Wrong ones cannot be made without `unsafe`: the tests of the C library hand them over.

    #[test]
    fn good_arrays_pass_also_in_slices() {
        let words = StringArray::from(vec![Some("one"), None, Some("two"), Some("")]);
        let views = StringViewArray::from(vec![Some("short"), None, Some("a longer text by far")]);
        let lists = ListArray::from_iter_primitive::<Int8Type, _, _>([
            Some(vec![Some(1)]),
            None,
            Some(vec![]),
        ]);
        let keyed: DictionaryArray<Int8Type> = [Some("a"), None, Some("b")].into_iter().collect();
        let arrays: [&dyn Array; 5] =
            [&words, &views, &lists, &keyed, &Int64Array::from(vec![Some(1), None])];
        for array in arrays {
            for start in 0..array.len() {
                check_foreign(&array.slice(start, array.len() - start).to_data()).unwrap();
            }
            check_foreign(&array.slice(0, 0).to_data()).unwrap();
        }
        check_foreign(&BinaryViewArray::from_iter_values([&b"x"[..]]).to_data()).unwrap();
    }
}
