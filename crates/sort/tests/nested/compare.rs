//! The order of two values, by what the guide says and nothing else.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::*;
use plasmon_sort::SortKey;

/// A value: an array and a row of it.
type Place<'a> = (&'a ArrayRef, usize);

fn floats(one: f64, other: f64) -> Ordering {
    // NaN is greater than any number and equal to itself; -0.0 equals 0.0.
    one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

/// The elements of a list or a map: arrays, and the rows of them.
fn elements((array, row): Place<'_>) -> Vec<(Vec<ArrayRef>, usize)> {
    let (arrays, length) = match array.data_type() {
        DataType::List(_) => (vec![array.as_list::<i32>().value(row)], None),
        DataType::LargeList(_) => (vec![array.as_list::<i64>().value(row)], None),
        DataType::ListView(_) => (vec![array.as_list_view::<i32>().value(row)], None),
        DataType::LargeListView(_) => (vec![array.as_list_view::<i64>().value(row)], None),
        DataType::FixedSizeList(..) => (vec![array.as_fixed_size_list().value(row)], None),
        _ => {
            let entries = array.as_map().value(row);
            (entries.columns().to_vec(), Some(entries.len()))
        }
    };
    let length = length.unwrap_or_else(|| arrays[0].len());
    (0..length).map(|at| (arrays.clone(), at)).collect()
}

/// Through dictionaries and runs to the value itself.
fn plain((array, row): Place<'_>) -> Option<(ArrayRef, usize)> {
    match array.data_type() {
        _ if array.is_null(row) => None,
        DataType::Dictionary(..) => {
            let array = array.as_any_dictionary();
            plain((array.values(), array.normalized_keys()[row]))
        }
        DataType::RunEndEncoded(..) => {
            let array = array.as_run::<Int32Type>();
            plain((array.values(), array.get_physical_index(row)))
        }
        _ => Some((array.clone(), row)),
    }
}

pub(crate) fn compare(one: Place<'_>, other: Place<'_>, key: &SortKey) -> Ordering {
    let turned = |order: Ordering| if key.descending { order.reverse() } else { order };
    let missing = |first: bool| if first { Ordering::Less } else { Ordering::Greater };
    let (one, other) = match (plain(one), plain(other)) {
        (Some(one), Some(other)) => (one, other),
        (None, None) => return Ordering::Equal,
        (None, Some(_)) => return missing(key.nulls_first),
        (Some(_), None) => return missing(!key.nulls_first),
    };
    let ((one, at), (other, to)) = ((&one.0, one.1), (&other.0, other.1));
    macro_rules! by {
        ($type:ty, $compare:expr) => {{
            let value = |array: &ArrayRef, row: usize| array.as_primitive::<$type>().value(row);
            turned($compare(value(one, at), value(other, to)))
        }};
    }
    match one.data_type() {
        DataType::Int32 => by!(Int32Type, |a: i32, b: i32| a.cmp(&b)),
        DataType::Float16 => by!(Float16Type, |a, b| floats(f64::from(a), f64::from(b))),
        DataType::Float32 => by!(Float32Type, |a, b| floats(f64::from(a), f64::from(b))),
        DataType::Float64 => by!(Float64Type, floats),
        DataType::Utf8 => {
            turned(one.as_string::<i32>().value(at).cmp(other.as_string::<i32>().value(to)))
        }
        DataType::Struct(_) => {
            let (one, other) = (one.as_struct(), other.as_struct());
            let columns = one.columns().iter().zip(other.columns());
            columns.fold(Ordering::Equal, |order, (one, other)| {
                order.then_with(|| compare((one, at), (other, to), key))
            })
        }
        _ => {
            let (one, other) = (elements((one, at)), elements((other, to)));
            for ((ones, at), (others, to)) in one.iter().zip(&other) {
                for (one, other) in ones.iter().zip(others) {
                    let order = compare((one, *at), (other, *to), key);
                    if order.is_ne() {
                        return order;
                    }
                }
            }
            turned(one.len().cmp(&other.len()))
        }
    }
}
