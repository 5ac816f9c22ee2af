//! Objects as Arrow data for other libraries, in place.
//!
//! The arrays that are handed out point into the object's memory and hold an [`Export`], so the
//! object stays pinned until the last of them is dropped, on whatever thread that happens.
//!
//! A stream that only processes of the same user can have written is taken as it is. When the store
//! admits other users ([`Buffer::is_trusted`] is false), every offset and every text is checked
//! first: then no object can make this process read where it should not.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, UInt8Array};
use arrow_buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use arrow_data::{ArrayDataBuilder, UnsafeFlag};
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary_impl};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use plasmon_client::{Code, Error, tag};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::buffer::{Buffer, Export, id_of};
use crate::error::raised;

const CONTINUATION: u32 = u32::MAX;

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

/// The Arrow stream in `owner` as record batches on its memory.
pub(crate) fn stream_capsule<'py>(owner: &Bound<'py, Buffer>) -> PyResult<Bound<'py, PyCapsule>> {
    let (py, trusted) = (owner.py(), owner.get().is_trusted());
    let (schema, batches) = if owner.get().with(|buffer| buffer.tag())? == tag::COMPOSITE {
        in_parts(owner, trusted)?
    } else {
        let bytes = in_place(owner)?;
        let decoded = py.detach(|| Decoder::new(trusted).run(&bytes));
        decoded.map_err(|error| in_python(owner, &error))?
    };
    let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// The arrays of a composite object, each with the pins that it needs.
fn in_parts(owner: &Bound<'_, Buffer>, trusted: bool) -> PyResult<plasmon_columns::Batches> {
    let object = owner.get().with(Clone::clone)?;
    let py = owner.py();
    let read = py.detach(|| {
        if trusted {
            // SAFETY: as for `Decoder::new`: whoever wrote it could as well write into this
            // process.
            let mut unchecked =
                |parts: ArrayDataBuilder| unsafe { parts.skip_validation(true) }.build();
            plasmon_columns::read_with(&object, &mut unchecked)
        } else {
            plasmon_columns::read(&object)
        }
    });
    read.map_err(|error| crate::error::raised_by_columns(py, "reading an object", error))
}

fn in_python(owner: &Bound<'_, Buffer>, error: &ArrowError) -> PyErr {
    let Some(id) = id_of(owner) else { return PyValueError::new_err(error.to_string()) };
    let detail = format!("its Arrow stream is broken: {error}");
    let error = Error::new(Code::Corrupt, "reading object").with_id(id).with_detail(detail);
    raised(owner.py(), &error)
}

/// Decodes an IPC stream that lies in memory as a whole.
struct Decoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, Arc<dyn Array>>,
    batches: Vec<RecordBatch>,
    skip_validation: UnsafeFlag,
}

impl Decoder {
    fn new(trusted: bool) -> Self {
        let mut skip_validation = UnsafeFlag::new();
        if trusted {
            // SAFETY: the store's level is `shared`: only processes of this user wrote into it, and
            // they wrote with an Arrow writer or could as well write into this process.
            unsafe { skip_validation.set(true) };
        }
        let (dictionaries, batches) = (HashMap::new(), Vec::new());
        Self { schema: None, dictionaries, batches, skip_validation }
    }

    fn run(mut self, bytes: &ArrowBuffer) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
        let mut at = 0;
        while let Some((header, body_at)) = next_header(bytes, at)? {
            let message = root_as_message(header)
                .map_err(|error| ArrowError::IpcError(format!("a bad message: {error}")))?;
            let body_bytes = usize::try_from(message.bodyLength()).map_err(|_| cut_short())?;
            at = body_at.checked_add(body_bytes).ok_or_else(cut_short)?;
            if at > bytes.len() {
                return Err(cut_short());
            }
            self.take(message, &bytes.slice_with_length(body_at, body_bytes))?;
        }
        Ok((self.schema.ok_or_else(no_schema)?, self.batches))
    }

    fn take(&mut self, message: Message<'_>, body: &ArrowBuffer) -> Result<(), ArrowError> {
        let version = message.version();
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(no_schema)?;
                self.schema = Some(Arc::new(arrow_ipc::convert::try_fb_to_schema(schema)?));
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(cut_short)?;
                let schema = self.schema.as_deref().ok_or_else(no_schema)?;
                let (known, skip) = (&mut self.dictionaries, self.skip_validation.clone());
                read_dictionary_impl(body, batch, schema, known, &version, false, skip)?;
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let known = &self.dictionaries;
                let decoder = RecordBatchDecoder::try_new(body, batch, schema, known, &version)?
                    .with_skip_validation(self.skip_validation.clone());
                self.batches.push(decoder.read_record_batch()?);
            }
            other => {
                let text = format!("a message of a kind that streams do not have: {other:?}");
                return Err(ArrowError::IpcError(text));
            }
        }
        Ok(())
    }
}

fn cut_short() -> ArrowError {
    ArrowError::IpcError("the stream is cut short".to_owned())
}

fn no_schema() -> ArrowError {
    ArrowError::IpcError("the stream has no schema".to_owned())
}

/// The header of the message at `at` and where its body starts; `None` at the end of the stream.
fn next_header(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ArrowError> {
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    if at == bytes.len() {
        return Ok(None);
    }
    let first = word(at).ok_or_else(cut_short)?;
    // Writers before Arrow 0.15 left the continuation mark out.
    let (length, start) = match first {
        CONTINUATION => (word(at + 4).ok_or_else(cut_short)?, at + 8),
        length => (length, at + 4),
    };
    if length == 0 {
        return Ok(None);
    }
    let end = start.checked_add(length as usize).ok_or_else(cut_short)?;
    let header = bytes.get(start..end).ok_or_else(cut_short)?;
    Ok(Some((header, end)))
}
