//! Arrow data of any producer, through the Arrow C interface: it shares the producer's memory. What
//! becomes of it is decided by `plasmon_columns::put`.

mod tables;

pub use tables::Tables;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, Field, SchemaRef};
pub use plasmon_arrow_c::schema_of;
use plasmon_arrow_c::{batch_of, import_array, import_stream};
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
            // SAFETY: the producer promises it by the interface, see [`Source::of`].
            Self::Stream(stream) => unsafe { import_stream(stream) },
            Self::Array(array, schema) => {
                let field = Field::try_from(&schema)?;
                // SAFETY: as above.
                let array = unsafe { import_array(array, field.data_type()) }?;
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

/// Lets pyarrow look at its own data, which costs next to nothing: it has the lengths of
/// buffers, which the C interface has not. Offsets that lead past a buffer would be read, and
/// published, with whatever lies there.
fn validate(value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.get_type().module()?.to_cow()?.starts_with("pyarrow")
        && let Some(validate) = value.getattr_opt("validate")?
    {
        validate.call0()?;
    }
    Ok(())
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
