//! Keys as rows of bytes whose order is that of the values (`arrow_row`).
//!
//! Rows order floats by their bits, which is not what is promised: NaN with a sign before all
//! numbers, -0.0 before 0.0. So every float of a key, at whatever depth, is first made the number
//! that stands for it in keys of fixed width ([`super::number`]). Of dictionaries only the values
//! that the rows use are made into bytes, where those are fewer.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::new_empty_array;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef, DictionaryArray, UInt32Array};
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;

use super::number::{of_f16, of_f32, of_f64};
use crate::error::{Error, Result};
use crate::nested::{Leaves, rebuild};
use crate::order::SortKey;

/// Makes rows of bytes of key columns.
#[derive(Debug)]
pub(crate) struct RowKeys(RowConverter);

impl RowKeys {
    /// For columns of these types; an error names one that has no order.
    pub(crate) fn new(keys: &[(&SortKey, &DataType)]) -> Result<Self> {
        let mut fields = Vec::with_capacity(keys.len());
        for (key, data_type) in keys {
            let SortKey { descending, nulls_first, .. } = **key;
            let options = SortOptions { descending, nulls_first };
            let field =
                |data_type: &DataType| SortField::new_with_options(data_type.clone(), options);
            if !RowConverter::supports_fields(&[field(data_type)]) {
                let (column, data_type) = (key.column.clone(), (*data_type).clone());
                return Err(Error::NoOrder { column, data_type });
            }
            fields.push(field(ordered(&new_empty_array(data_type))?.data_type()));
        }
        Ok(Self(RowConverter::new(fields)?))
    }

    /// The rows of these columns.
    pub(crate) fn convert(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().map(ordered).collect::<Result<Vec<_>>>()?;
        Ok(self.0.convert_columns(&columns)?)
    }
}

/// The same column, with numbers in place of floats, whose order is the one that is promised: one
/// zero, and one NaN that is greater than any number.
fn ordered(array: &ArrayRef) -> Result<ArrayRef> {
    rebuild(array, array.data_type(), &mut KeyNormalizer)
}

struct KeyNormalizer;

impl Leaves for KeyNormalizer {
    fn takes(&self, shape: &DataType) -> bool {
        use DataType::{Dictionary, Float16, Float32, Float64};
        matches!(shape, Float16 | Float32 | Float64 | Dictionary(..))
    }

    fn replace(&mut self, array: &ArrayRef, shape: &DataType) -> Result<ArrayRef> {
        Ok(match shape {
            DataType::Float16 => {
                let array = array.as_primitive::<Float16Type>();
                Arc::new(array.unary::<_, UInt16Type>(|value| of_f16(value) as u16))
            }
            DataType::Float32 => {
                let array = array.as_primitive::<Float32Type>();
                Arc::new(array.unary::<_, UInt32Type>(|value| of_f32(value) as u32))
            }
            DataType::Float64 => {
                let array = array.as_primitive::<Float64Type>();
                Arc::new(array.unary::<_, UInt64Type>(of_f64))
            }
            _ => dictionary(array.as_any_dictionary())?,
        })
    }
}

/// The same dictionary with codes of one width, whatever its own.
fn dictionary(array: &dyn AnyDictionaryArray) -> Result<ArrayRef> {
    let keys = array.keys().slice(0, array.len());
    let (keys, values) = if array.values().len() <= keys.len() {
        (cast(&keys, &DataType::UInt32)?, array.values().clone())
    } else {
        let places = (0..keys.len() as u32).collect();
        let places: ArrayRef = Arc::new(UInt32Array::new(places, keys.nulls().cloned()));
        (places, take(array.values(), &keys, None)?)
    };
    let keys = keys.as_primitive::<UInt32Type>().clone();
    Ok(Arc::new(DictionaryArray::try_new(keys, ordered(&values)?)?))
}
