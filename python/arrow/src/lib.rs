//! Arrow data of any producer, through the Arrow C interface: it shares the producer's memory. What
//! becomes of it is decided by `plasmon_columns::put`.

mod nulls;
mod tables;

pub use tables::Tables;

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

/// Arrow data that a Python object offered, not looked at yet.
#[derive(Debug)]
pub enum Source {
    /// Any number of arrays of one type.
    Stream(FFI_ArrowArrayStream),
    /// One array and its type.
    Array(FFI_ArrowArray, FFI_ArrowSchema),
}

impl Source {
    /// What `value` offers through `__arrow_c_stream__` or `__arrow_c_array__`.
    pub fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        validate(value)?;
        if let Some(method) = value.getattr_opt("__arrow_c_stream__")? {
            let capsule = method.call0()?.cast_into::<PyCapsule>()?;
            let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
            // SAFETY: the Arrow PyCapsule interface: under this name lies a valid stream that the
            // consumer may move out, which marks the capsule's own as released.
            let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) };
            return Ok(Self::Stream(stream));
        }
        if let Some(method) = value.getattr_opt("__arrow_c_array__")? {
            let pair = method.call0()?.cast_into::<PyTuple>()?;
            let schema = pair.get_item(0)?.cast_into::<PyCapsule>()?;
            let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
            let array = pair.get_item(1)?.cast_into::<PyCapsule>()?;
            let array = array.pointer_checked(Some(c"arrow_array"))?;
            // SAFETY: as above, for the two structures of one array.
            let (array, schema) = unsafe {
                let array = FFI_ArrowArray::from_raw(array.cast().as_ptr());
                (array, FFI_ArrowSchema::from_raw(schema.cast().as_ptr()))
            };
            return Ok(Self::Array(array, schema));
        }
        Err(PyTypeError::new_err("the object offers no Arrow data"))
    }

    /// The arrays with their type.
    pub fn arrays(self) -> Result<(Field, Vec<ArrayRef>), ArrowError> {
        match self {
            Self::Stream(stream) => import_stream(stream),
            Self::Array(array, schema) => {
                let field = Field::try_from(&schema)?;
                let array = import_array(array, &field)?;
                Ok((field, vec![array]))
            }
        }
    }

    /// The data as record batches with their schema. With `column` each array becomes the only
    /// column of a batch; without, the arrays must be structures, and each becomes a batch.
    pub fn batches(self, column: bool) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
        let (field, arrays) = self.arrays()?;
        let schema = schema_of(field, column)?;
        let batches = arrays.into_iter().map(|array| batch_of(array, &schema, column));
        Ok((schema.clone(), batches.collect::<Result<_, _>>()?))
    }

    /// The pieces of an IPC stream with this data, see [`Self::batches`].
    pub fn encode(self, column: bool) -> Result<Vec<Buffer>, ArrowError> {
        let (schema, batches) = self.batches(column)?;
        plasmon_columns::pieces(&schema, &batches)
    }
}

/// Lets pyarrow look at its own data, which costs next to nothing: it knows how long buffers are,
/// which the C interface does not tell. Offsets that lead behind a buffer would be read, and
/// published, with whatever lies there.
fn validate(value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.get_type().module()?.to_cow()?.starts_with("pyarrow")
        && let Some(validate) = value.getattr_opt("validate")?
    {
        validate.call0()?;
    }
    Ok(())
}

fn import_array(mut array: FFI_ArrowArray, field: &Field) -> Result<ArrayRef, ArrowError> {
    // SAFETY: the structure is the C data interface's, and of this type by the producer's promise.
    unsafe { nulls::hide_buffers((&raw mut array).cast(), field.data_type()) };
    let import = || {
        // SAFETY: the producer promises by the C data interface that the array is of the type
        // beside it, and keeps its memory until the array is released, which its last reference
        // does.
        unsafe { from_ffi_and_data_type(array, field.data_type().clone()) }
    };
    // The import panics where an array has not the children of its type.
    let imported = catch_unwind(AssertUnwindSafe(import));
    let broken = |_| ArrowError::CDataInterface("the array is not of its type".to_owned());
    let data = imported.map_err(broken)??;
    plasmon_columns::check_foreign(&data)?;
    Ok(make_array(data))
}

fn import_stream(mut stream: FFI_ArrowArrayStream) -> Result<(Field, Vec<ArrayRef>), ArrowError> {
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
        arrays.push(import_array(array, &field)?);
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

/// The type that `value` offers through `__arrow_c_schema__`, with its name and metadata.
pub fn field_of(value: &Bound<'_, PyAny>) -> PyResult<Field> {
    let capsule = value.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
    let schema = capsule.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: the Arrow PyCapsule interface: under this name lies a valid schema, which is moved
    // out of the capsule.
    let schema = unsafe { FFI_ArrowSchema::from_raw(schema.cast().as_ptr()) };
    Field::try_from(&schema).map_err(|error| PyTypeError::new_err(error.to_string()))
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
        other => {
            Err(ArrowError::SchemaError(format!("a table is made of structures, not {other}")))
        }
    }
}

fn batch_of(array: ArrayRef, schema: &SchemaRef, column: bool) -> Result<RecordBatch, ArrowError> {
    let rows = array.len();
    let columns = if column {
        vec![array]
    } else {
        let structure = array.as_any().downcast_ref::<StructArray>();
        let structure =
            structure.ok_or_else(|| ArrowError::SchemaError("no structure".to_owned()))?;
        if structure.null_count() != 0 {
            let text = "a table cannot have rows that are missing as a whole";
            return Err(ArrowError::SchemaError(text.to_owned()));
        }
        structure.columns().to_vec()
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
