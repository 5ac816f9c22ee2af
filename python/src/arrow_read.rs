//! Objects as Arrow data for other libraries, in place.
//!
//! The arrays that are handed out point into the object's memory and hold an [`Export`], so the
//! object stays pinned until the last of them is dropped, on whatever thread that happens.
//!
//! A stream that only processes of the same user can have written is taken as it is. When the store
//! admits other users ([`Buffer::is_trusted`] is false), every offset and every string is checked
//! first, and at level `leased`, where the writer may still write, a copy of them is checked and
//! used: then no object can make this process read where it should not.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatchReader, UInt8Array};
use arrow_buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::ArrowError;
use plasmon_client::{Code, Error};
use plasmon_columns::Checks;
use plasmon_cpython::buffer::Flat;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::buffer::{Buffer, Export, id_of};
use crate::error::{raised, raised_by_columns};
use crate::interrupt::call;

/// The data of `owner` as an Arrow buffer that keeps it pinned.
fn in_place(owner: &Bound<'_, Buffer>) -> PyResult<ArrowBuffer> {
    let export = Export::of(owner)?;
    let bytes = export.bytes();
    let Some(address) = NonNull::new(export.address()).filter(|_| bytes != 0) else {
        return Ok(ArrowBuffer::from_vec(Vec::<u8>::new()));
    };
    // SAFETY: the export keeps the object pinned, so the bytes stay where they are and do not
    // change until the buffer's last clone drops it.
    Ok(unsafe {
        ArrowBuffer::from_custom_allocation(address, bytes, Arc::new(AssertUnwindSafe(export)))
    })
}

/// The data as an Arrow array of uint8: its schema and itself.
pub(crate) fn array_capsules<'py>(
    owner: &Bound<'py, Buffer>,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let py = owner.py();
    let values = ScalarBuffer::<u8>::from(in_place(owner)?);
    let array = UInt8Array::new(values, None).into_data();
    let (array, schema) = to_ffi(&array).map_err(|error| in_python(owner, &error))?;
    let schema: FFI_ArrowSchema = schema;
    Ok((
        PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
        PyCapsule::new_with_value(py, array, c"arrow_array")?,
    ))
}

/// The Arrow data in `owner` as record batches on its memory.
pub(crate) fn stream_capsule<'py>(owner: &Bound<'py, Buffer>) -> PyResult<Bound<'py, PyCapsule>> {
    let (py, trusted) = (owner.py(), owner.get().is_trusted());
    let (object, data) = (owner.get().with(Clone::clone)?, in_place(owner)?);
    let read = call(py, || {
        if !trusted {
            let level = object.store().level();
            return plasmon_columns::read_with(&object, data, &mut Checks::at(level));
        }
        // SAFETY: the store's level is `shared`: only processes of this user wrote into it, and
        // they wrote with an Arrow writer or could as well write into this process.
        let build = |parts: ArrayDataBuilder| unsafe { parts.skip_validation(true) }.build();
        plasmon_columns::read_with(
            &object,
            data,
            &mut Checks { build: Box::new(build), copy: false },
        )
    });
    let read = read?.and_then(plasmon_columns::into_reader).and_then(stream_of);
    let stream = read.map_err(|error| raised_by_columns(py, "reading object", error))?;
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Batches for other libraries. What the interface has no place for (a zero byte in a name) is
/// refused here: libraries crash when a stream cannot say what its type is.
pub(crate) fn stream_of(
    batches: Box<dyn RecordBatchReader + Send>,
) -> plasmon_columns::Result<FFI_ArrowArrayStream> {
    FFI_ArrowSchema::try_from(batches.schema().as_ref())?;
    Ok(FFI_ArrowArrayStream::new(batches))
}

/// The Arrow data of an IPC stream in memory that others may still write to, as record batches on
/// it: the checks are made on a copy.
#[pyfunction]
pub(crate) fn read_arrow<'py>(memory: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let py = memory.py();
    let lent = Flat::with_flags(memory, ffi::PyBUF_C_CONTIGUOUS)?;
    let (start, bytes) = lent.memory();
    let data = match NonNull::new(start).filter(|_| bytes != 0) {
        None => ArrowBuffer::from_vec(Vec::<u8>::new()),
        // SAFETY: the view keeps that many bytes where they are until the buffer's last clone drops
        // it. The reader takes their values for changing ones.
        Some(start) => unsafe {
            ArrowBuffer::from_custom_allocation(start, bytes, Arc::new(AssertUnwindSafe(lent)))
        },
    };
    let read = call(py, || {
        let mut checks = Checks { copy: true, ..Checks::all() };
        plasmon_columns::read_parts(vec![(0, data)], bytes as u64, &mut checks)
    });
    let read = read?.and_then(plasmon_columns::into_reader).and_then(stream_of);
    let stream = read.map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn in_python(owner: &Bound<'_, Buffer>, error: &ArrowError) -> PyErr {
    let Some(id) = id_of(owner) else { return PyValueError::new_err(error.to_string()) };
    let detail = format!("its Arrow stream is broken: {error}");
    let error = Error::new(Code::Corrupt, "reading object").with_id(id).with_detail(detail);
    raised(owner.py(), &error)
}
