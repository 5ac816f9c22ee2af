//! Whether the structures of an array are those of its type, before anything is computed with them:
//! negative lengths, missing children, buffers that are nowhere. arrow-rs trusts them, and a
//! negative number of rows is a slice of half the address space there.

use arrow_schema::{ArrowError, DataType, UnionMode};

use crate::raw::RawArray;

type Result = std::result::Result<(), ArrowError>;

/// No element of a fixed width, and no offset or view, is longer.
const WIDTH_MAX: i64 = 32;

/// No process has more bytes of memory.
const MEMORY_BYTES_MAX: i64 = 1 << 56;

/// Checks an array and all that is in it.
///
/// # Safety
///
/// `array` points to a structure of the Arrow C data interface, whose pointers are null or valid.
pub(crate) unsafe fn check(array: *const RawArray, data_type: &DataType) -> Result {
    // SAFETY: by this function's contract.
    let Some(raw) = (unsafe { array.as_ref() }) else {
        return Err(broken(data_type, "is missing"));
    };
    if raw.release.is_none() {
        return Err(broken(data_type, "was released already"));
    }
    check_numbers(raw, data_type)?;
    // SAFETY: by this function's contract.
    unsafe { check_buffers(raw, data_type) }?;
    let children = children(data_type);
    if usize::try_from(raw.n_children) != Ok(children.len())
        || (!children.is_empty() && raw.children.is_null())
    {
        return Err(broken(data_type, "does not have the children of its type"));
    }
    for (at, child) in children.into_iter().enumerate() {
        // SAFETY: there are as many children as the structure says, by this function's contract.
        unsafe { check(*raw.children.add(at), child) }?;
    }
    match data_type {
        // SAFETY: as for the children.
        DataType::Dictionary(_, values) => unsafe { check(raw.dictionary, values) },
        _ if raw.dictionary.is_null() => Ok(()),
        _ => Err(broken(data_type, "has a dictionary")),
    }
}

fn check_numbers(raw: &RawArray, data_type: &DataType) -> Result {
    let width = match data_type {
        DataType::FixedSizeBinary(bytes) => i64::from(*bytes).max(1),
        // A fixed number of elements of the child for each row.
        DataType::FixedSizeList(_, count) => i64::from(*count).max(1) * WIDTH_MAX,
        _ => WIDTH_MAX,
    };
    let rows = raw.length.checked_add(raw.offset).and_then(|rows| rows.checked_add(1));
    let bytes = rows.and_then(|rows| rows.checked_mul(width));
    let fits = bytes.is_some_and(|bytes| bytes <= MEMORY_BYTES_MAX);
    if raw.length < 0 || raw.offset < 0 || !fits {
        return Err(broken(data_type, "has an impossible length"));
    }
    // -1: the producer has not counted them.
    if !(-1..=raw.length).contains(&raw.null_count) {
        return Err(broken(data_type, "has more missing values than values"));
    }
    Ok(())
}

/// # Safety
///
/// As for [`check`].
unsafe fn check_buffers(raw: &RawArray, data_type: &DataType) -> Result {
    let fewest = match data_type {
        DataType::Null | DataType::RunEndEncoded(..) => 0,
        DataType::Struct(_) | DataType::FixedSizeList(..) => 1,
        DataType::Union(_, UnionMode::Sparse) => 1,
        DataType::Union(_, UnionMode::Dense) => 2,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        DataType::ListView(_) | DataType::LargeListView(_) => 3,
        // Validity, views and the lengths of the buffers between.
        DataType::Utf8View | DataType::BinaryView => 3,
        _ => 2,
    };
    if raw.n_buffers < fewest || raw.n_buffers > i64::from(i32::MAX) {
        return Err(broken(data_type, "does not have the buffers of its type"));
    }
    if raw.n_buffers > 0 && raw.buffers.is_null() {
        return Err(broken(data_type, "has no buffers"));
    }
    if !matches!(data_type, DataType::Utf8View | DataType::BinaryView) || raw.n_buffers == 3 {
        return Ok(());
    }
    let count = raw.n_buffers as usize - 3;
    // SAFETY: there are as many buffers as the structure says, by the caller's contract.
    let lengths = unsafe { *raw.buffers.add(raw.n_buffers as usize - 1) }.cast::<i64>();
    if lengths.is_null() || !lengths.is_aligned() {
        return Err(broken(data_type, "does not give the lengths of its buffers"));
    }
    // SAFETY: the last buffer of views has a length for each buffer between, by the interface.
    let lengths = unsafe { std::slice::from_raw_parts(lengths, count) };
    if lengths.iter().any(|length| *length < 0) {
        return Err(broken(data_type, "has a buffer of a negative length"));
    }
    Ok(())
}

/// The types of an array's children.
pub(crate) fn children(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => vec![inner.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

fn broken(data_type: &DataType, what: &str) -> ArrowError {
    let text = format!("an array of type {data_type} {what}: its producer is at fault");
    ArrowError::CDataInterface(text)
}
