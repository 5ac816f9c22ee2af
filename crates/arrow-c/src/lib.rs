//! Arrow data of other libraries in this process, through the Arrow C interface. The arrays share
//! the producer's memory; what becomes of them is decided by `plasmon_columns::put`.
//!
//! ```text
//! ArrowArray ── structure: is it of its type at all? ──► arrow-rs ── check_foreign ──► ArrayRef
//! ```
//!
//! The interface does not give the lengths of buffers: the producer promises that the memory is
//! there.
//! Everything else is checked, the structures before arrow-rs computes with them.

mod empty;
mod nulls;
mod raw;
mod structure;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// An array of this type.
///
/// # Safety
///
/// `array` is a structure of the Arrow C data interface: what its pointers lead to is there, and as
/// long as the numbers beside them say, until it is released.
pub unsafe fn import_array(
    mut array: FFI_ArrowArray,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    // SAFETY: by this function's contract.
    unsafe { structure::check((&raw const array).cast(), data_type) }?;
    // SAFETY: as above, and it has the children of its type.
    unsafe { nulls::hide_buffers((&raw mut array).cast(), data_type) };
    let import = || {
        // SAFETY: by this function's contract the memory is there; it is kept until the array is
        // released, which its last reference does.
        unsafe { from_ffi_and_data_type(array, data_type.clone()) }
    };
    // Structures that pass the check and that arrow-rs does not expect make it panic.
    let imported = catch_unwind(AssertUnwindSafe(import));
    let broken = |_| ArrowError::CDataInterface("the array is not of its type".to_owned());
    let data = empty::without_offsets(imported.map_err(broken)??);
    plasmon_columns::check_foreign(&data)?;
    Ok(make_array(data))
}

/// All arrays of a stream, with their type.
///
/// # Safety
///
/// `stream` is a structure of the Arrow C stream interface, and its arrays are as for
/// [`import_array`].
pub unsafe fn import_stream(
    mut stream: FFI_ArrowArrayStream,
) -> Result<(Field, Vec<ArrayRef>), ArrowError> {
    let released = || ArrowError::CDataInterface("the stream was consumed already".to_owned());
    let get_schema = stream.get_schema().ok_or_else(released)?;
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the callback is the stream's own and gets the stream and room for its answer.
    let status = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    checked(&mut stream, status)?;
    let field = Field::try_from(&schema)?;
    let get_next = stream.get_next().ok_or_else(released)?;
    let mut arrays = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as for the schema; an empty array is valid to overwrite.
        let status = unsafe { get_next(&raw mut stream, &raw mut array) };
        checked(&mut stream, status)?;
        if array.is_released() {
            return Ok((field, arrays));
        }
        // SAFETY: by this function's contract.
        arrays.push(unsafe { import_array(array, field.data_type()) }?);
    }
}

/// The error that a stream's callback ended with, in the producer's words.
fn checked(stream: &mut FFI_ArrowArrayStream, status: i32) -> Result<(), ArrowError> {
    if status == 0 {
        return Ok(());
    }
    let mut words = format!("the producer of the stream failed with error {status}");
    if let Some(last_error) = stream.get_last_error() {
        // SAFETY: the callback is the stream's own; the text is valid until the next call on it.
        let text = unsafe { last_error(std::ptr::from_mut(stream)) };
        if !text.is_null() {
            // SAFETY: the C stream interface gives a text that ends with a zero byte.
            let text = unsafe { CStr::from_ptr(text) };
            words = format!("{words}: {}", text.to_string_lossy());
        }
    }
    Err(ArrowError::CDataInterface(words))
}

/// The schema of tables whose batches are of this type; with `column`, of this one column.
pub fn schema_of(field: Field, column: bool) -> Result<SchemaRef, ArrowError> {
    if column {
        // Some producers leave the flag off for a lone array that has nulls.
        return Ok(Arc::new(Schema::new(vec![field.with_nullable(true)])));
    }
    match field.data_type() {
        DataType::Struct(fields) => {
            let metadata = field.metadata().clone();
            Ok(Arc::new(Schema::new_with_metadata(fields.clone(), metadata)))
        }
        other => Err(ArrowError::SchemaError(format!("a table is made of structs, not {other}"))),
    }
}

/// An array as a batch of a table with this schema.
pub fn batch_of(
    array: ArrayRef,
    schema: &SchemaRef,
    column: bool,
) -> Result<RecordBatch, ArrowError> {
    let rows = array.len();
    let columns = if column {
        vec![array]
    } else {
        let structure = array.as_any().downcast_ref::<StructArray>();
        let structure =
            structure.ok_or_else(|| ArrowError::SchemaError("not a struct array".to_owned()))?;
        if structure.null_count() != 0 {
            let text = "a table cannot have null rows";
            return Err(ArrowError::SchemaError(text.to_owned()));
        }
        structure.columns().to_vec()
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
