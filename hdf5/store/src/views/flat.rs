//! Arrays whose values lie one after the other, as HDF5's numbers do.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;

/// The values of an array as bytes: those in memory where they can be, without a copy. Missing
/// numbers with a point are NaN; other missing values cannot be told in HDF5.
pub(crate) fn flat(array: &ArrayRef) -> Result<Buffer, String> {
    match array.data_type() {
        DataType::Float16 => return with_nan::<Float16Type>(array, half_nan()),
        DataType::Float32 => return with_nan::<Float32Type>(array, f32::NAN),
        DataType::Float64 => return with_nan::<Float64Type>(array, f64::NAN),
        _ => {}
    }
    if array.null_count() > 0 {
        return Err("it has missing values, which HDF5 cannot tell from others".to_owned());
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            Ok(values.iter().map(u8::from).collect::<Vec<u8>>().into())
        }
        DataType::FixedSizeList(_, width) => {
            let list = array.as_fixed_size_list();
            let width = usize::try_from(*width).unwrap_or(0);
            flat(&list.values().slice(list.value_offset_at(0), list.len() * width))
        }
        other => {
            let width = other.primitive_width();
            // 256-bit decimals and intervals are wider than HDF5's numbers.
            let width = width.filter(|width| *width <= 8 && !is_compound(other));
            let width = width.ok_or_else(|| format!("HDF5 has no number type like {other}"))?;
            let data = array.to_data();
            let start = data.offset() * width;
            Ok(data.buffers()[0].slice_with_length(start, data.len() * width))
        }
    }
}

/// Types of a fixed width that are more than a number.
fn is_compound(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Interval(_)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

fn half_nan() -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::NAN
}

fn with_nan<T: ArrowPrimitiveType>(array: &ArrayRef, nan: T::Native) -> Result<Buffer, String> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    if array.null_count() == 0 {
        return Ok(array.values().inner().clone());
    }
    Ok(array.iter().map(|value| value.unwrap_or(nan)).collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{
        BooleanArray, FixedSizeListArray, Float32Array, Int64Array, StringArray,
        TimestampNanosecondArray,
    };

    use super::*;

    fn bytes(array: impl Array + 'static) -> Result<Vec<u8>, String> {
        flat(&(Arc::new(array) as ArrayRef)).map(|found| found.to_vec())
    }

    #[test]
    fn numbers_are_their_own_bytes_also_in_slices() {
        let array = Int64Array::from(vec![1, 2, 3, 4]).slice(1, 2);
        let expected: Vec<u8> = [2_i64, 3].iter().flat_map(|one| one.to_le_bytes()).collect();
        assert_eq!(bytes(array), Ok(expected));
        let times = TimestampNanosecondArray::from(vec![7]);
        assert_eq!(bytes(times), Ok(7_i64.to_le_bytes().to_vec()));
        assert_eq!(bytes(BooleanArray::from(vec![true, false, true]).slice(1, 2)), Ok(vec![0, 1]));
    }

    #[test]
    fn rows_of_numbers_follow_each_other() {
        let rows = [[1, 2], [3, 4], [5, 6]].map(|row| Some(row.map(Some)));
        let list = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2);
        let expected: Vec<u8> = [3, 4, 5, 6_i32].iter().flat_map(|one| one.to_le_bytes()).collect();
        assert_eq!(bytes(list.slice(1, 2)), Ok(expected));
    }

    #[test]
    fn missing_values_are_nan_or_refused() {
        let found = bytes(Float32Array::from(vec![Some(1.0), None])).expect("NaN");
        assert!(f32::from_le_bytes(found[4..].try_into().expect("four")).is_nan());
        assert!(bytes(Int64Array::from(vec![Some(1), None])).is_err());
        assert!(bytes(StringArray::from(vec!["a"])).is_err_and(|error| error.contains("Utf8")));
    }
}
