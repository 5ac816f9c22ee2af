//! Headers of Arrow IPC messages, and how they are framed.

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{
    Buffer, DictionaryBatchBuilder, FieldNode, MessageBuilder, MessageHeader, MetadataVersion,
    RecordBatchBuilder, root_as_message,
};
use arrow_schema::{ArrowError, Field, Fields, Schema};
use flatbuffers::FlatBufferBuilder;
use plasmon_proto::limits::OBJECT_ALIGN;

/// What ends a stream.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// What the header of a batch tells about its body.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) rows: usize,
    pub(crate) nodes: Vec<FieldNode>,
    /// The lengths of the buffers, each of which starts at a multiple of the alignment.
    pub(crate) lengths: Vec<usize>,
    /// How many buffers each array of views has behind its views.
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
        let mut builder = FlatBufferBuilder::new();
        let nodes = builder.create_vector(&self.nodes);
        let buffers = builder.create_vector(&buffers);
        let counts = match self.variadic.is_empty() {
            true => None,
            false => Some(builder.create_vector(&self.variadic)),
        };
        let mut batch = RecordBatchBuilder::new(&mut builder);
        batch.add_length(self.rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        if let Some(counts) = counts {
            batch.add_variadicBufferCounts(counts);
        }
        let batch = batch.finish();
        let (kind, header) = match dictionary {
            None => (MessageHeader::RecordBatch, batch.as_union_value()),
            Some(number) => {
                let mut dictionary = DictionaryBatchBuilder::new(&mut builder);
                dictionary.add_id(number);
                dictionary.add_data(batch);
                (MessageHeader::DictionaryBatch, dictionary.finish().as_union_value())
            }
        };
        let mut message = MessageBuilder::new(&mut builder);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(kind);
        message.add_bodyLength(at as i64);
        message.add_header(header);
        let root = message.finish();
        builder.finish(root, None);
        builder.finished_data().to_vec()
    }
}

/// The header of a schema, and the fields as a reader finds them, with the numbers of their
/// dictionaries.
pub(crate) fn schema(schema: &Schema) -> Result<(Vec<u8>, Fields), ArrowError> {
    let options = IpcWriteOptions::try_new(OBJECT_ALIGN as usize, false, MetadataVersion::V5)?;
    let mut tracker = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut tracker,
        &options,
    );
    let broken = |error: &dyn std::fmt::Display| ArrowError::IpcError(error.to_string());
    let message = root_as_message(&encoded.ipc_message).map_err(|error| broken(&error))?;
    let read = message.header_as_schema().ok_or_else(|| broken(&"no schema"))?;
    let fields = try_fb_to_schema(read)?.fields;
    Ok((encoded.ipc_message, fields))
}

/// A header with what goes before it, so that the body starts at a multiple of the alignment: what
/// follows must be padded.
pub(crate) fn framed(header: &[u8], stream_bytes: u64) -> Vec<u8> {
    let start = stream_bytes + 8;
    let end = (start + header.len() as u64).next_multiple_of(OBJECT_ALIGN);
    let mut bytes = Vec::with_capacity(8 + header.len());
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.extend_from_slice(&((end - start) as u32).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes
}

/// The number of a field's dictionary.
pub(crate) fn dictionary_number(field: &Field) -> Option<i64> {
    #[expect(deprecated, reason = "fields that were read from a stream have it nowhere else")]
    field.dict_id()
}
