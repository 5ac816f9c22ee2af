//! Arrays of text, bytes and lists without a value, as others slice them.
//!
//! An empty slice keeps the offsets of the array that it is of, and the only one that it has may be
//! any number. The interface has no lengths of buffers, and arrow-rs takes the bytes of an empty
//! array for none; items may be none, too. So the first offset leads past them, and the array is
//! refused. Such arrays are made again, at any depth; they are empty.

use arrow_data::ArrayData;
use arrow_schema::DataType;

/// The array with empty text, bytes and lists in it as they are without any offsets.
pub(crate) fn without_offsets(data: ArrayData) -> ArrayData {
    if is_empty(&data) {
        return ArrayData::new_empty(data.data_type());
    }
    if !has_empty(&data) {
        return data;
    }
    let children = data.child_data().iter().cloned().map(without_offsets).collect();
    // SAFETY: the array is checked by the caller as it was, and its children are of the same types
    // and lengths as before.
    unsafe { data.into_builder().child_data(children).build_unchecked() }
}

fn has_empty(data: &ArrayData) -> bool {
    data.child_data().iter().any(|child| is_empty(child) || has_empty(child))
}

/// Whether there is no value, but an offset that leads somewhere.
fn is_empty(data: &ArrayData) -> bool {
    if !data.is_empty() {
        return false;
    }
    match data.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => true,
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => {
            data.child_data().iter().all(ArrayData::is_empty)
        }
        _ => false,
    }
}
