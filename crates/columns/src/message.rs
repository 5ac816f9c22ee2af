//! Headers of Arrow IPC messages, and how they are framed.

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Buffer, FieldNode, root_as_message};
use arrow_schema::{ArrowError, Field, Fields, Schema};
pub(crate) use plasmon_arrow_ipc::END;
use plasmon_arrow_ipc::{ALIGN, Batch, PREFIX_BYTES, prefix};
use plasmon_proto::limits::OBJECT_ALIGN;

const _: () = assert!(ALIGN as u64 == OBJECT_ALIGN, "objects are aligned as messages are");

/// The description of a batch's body in its header.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) rows: usize,
    pub(crate) nodes: Vec<FieldNode>,
    /// The lengths of the buffers, each of which starts at a multiple of the alignment.
    pub(crate) lengths: Vec<usize>,
    /// How many buffers each array of views has after its views.
    pub(crate) variadic: Vec<i64>,
}

impl Body {
    /// The header of a record batch, or of the dictionary with this number.
    pub(crate) fn header(&self, dictionary: Option<i64>) -> Vec<u8> {
        let mut at = 0_u64;
        let mut buffers = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let bytes = *length as u64;
            buffers.push(Buffer::new(at as i64, bytes as i64));
            at += bytes.next_multiple_of(OBJECT_ALIGN);
        }
        let batch = Batch {
            rows: self.rows as i64,
            nodes: &self.nodes,
            buffers: &buffers,
            variadic: &self.variadic,
            body_bytes: at as i64,
        };
        batch.message(dictionary)
    }
}

/// The header of a schema, and the fields as a reader finds them, with the numbers of their
/// dictionaries.
pub(crate) fn schema(schema: &Schema) -> Result<(Vec<u8>, Fields), ArrowError> {
    let header = plasmon_arrow_ipc::schema_message(schema);
    let broken = |error: &dyn std::fmt::Display| ArrowError::IpcError(error.to_string());
    let message = root_as_message(&header).map_err(|error| broken(&error))?;
    let read = message.header_as_schema().ok_or_else(|| broken(&"no schema"))?;
    let fields = try_fb_to_schema(read)?.fields;
    Ok((header, fields))
}

/// A header with what goes before it, so that the body starts at a multiple of the alignment: what
/// follows must be padded.
pub(crate) fn framed(header: &[u8], stream_bytes: u64) -> Vec<u8> {
    let start = stream_bytes + PREFIX_BYTES as u64;
    let end = (start + header.len() as u64).next_multiple_of(OBJECT_ALIGN);
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + header.len());
    bytes.extend_from_slice(&prefix((end - start) as u32));
    bytes.extend_from_slice(header);
    bytes
}

/// The number of a field's dictionary.
pub(crate) fn dictionary_number(field: &Field) -> Option<i64> {
    #[expect(deprecated, reason = "fields that were read from a stream have it nowhere else")]
    field.dict_id()
}
