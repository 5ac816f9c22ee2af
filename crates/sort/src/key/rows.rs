//! Keys as rows of bytes whose order is that of the values (`arrow_row`).

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions};
use half::f16;

use crate::error::{Error, Result};
use crate::order::SortKey;

/// Makes rows of bytes of key columns.
#[derive(Debug)]
pub(crate) struct RowKeys(RowConverter);

impl RowKeys {
    /// For columns of these types; an error names one that has no order.
    pub(crate) fn new(keys: &[(&SortKey, &DataType)]) -> Result<Self> {
        let field = |(key, data_type): &(&SortKey, &DataType)| {
            let SortKey { descending, nulls_first, .. } = **key;
            let options = SortOptions { descending, nulls_first };
            SortField::new_with_options((*data_type).clone(), options)
        };
        for (key, data_type) in keys {
            if !RowConverter::supports_fields(&[field(&(key, data_type))]) {
                let (column, data_type) = (key.column.clone(), (*data_type).clone());
                return Err(Error::NoOrder { column, data_type });
            }
        }
        Ok(Self(RowConverter::new(keys.iter().map(field).collect())?))
    }

    /// The rows of these columns.
    pub(crate) fn convert(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns: Vec<ArrayRef> = columns.iter().map(ordered).collect();
        Ok(self.0.convert_columns(&columns)?)
    }
}

/// The same column, but floats so that the order of their bits is the order that is promised:
/// one zero, and one NaN that is greater than any number.
fn ordered(array: &ArrayRef) -> ArrayRef {
    macro_rules! floats {
        ($type:ty, $zero:expr, $nan:expr) => {{
            let array = array.as_primitive::<$type>();
            Arc::new(array.unary::<_, $type>(|value| match value {
                value if value.is_nan() => $nan,
                value if value == $zero => $zero,
                value => value,
            }))
        }};
    }
    match array.data_type() {
        DataType::Float16 => floats!(Float16Type, f16::ZERO, f16::NAN),
        DataType::Float32 => floats!(Float32Type, 0.0, f32::NAN),
        DataType::Float64 => floats!(Float64Type, 0.0, f64::NAN),
        _ => array.clone(),
    }
}
