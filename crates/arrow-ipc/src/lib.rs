//! Messages of Arrow IPC, for writers that lay out the bodies themselves.
//!
//! A stream is a sequence of messages, the first of which is the schema. A message tells what is in
//! the body after it and where each buffer lies there, so it can be written before, or without, the
//! values themselves.
//!
//! ```text
//!   ff ff ff ff │ u32: bytes to the body │ message, padded │ body: buffers, each padded
//!   each message and each buffer ends at a multiple of 64 bytes
//!   ff ff ff ff │ 0: the end of the stream
//! ```
//!
//! What the buffers hold, and the footer of a file, is up to the writer.
//!
//! ```
//! use arrow_ipc::{Buffer, FieldNode};
//! use arrow_schema::{DataType, Field, Schema};
//! use plasmon_arrow_ipc::{Batch, END, push_framed, schema_message};
//!
//! let schema = Schema::new(vec![Field::new("a", DataType::UInt8, false)]);
//! let batch = Batch {
//!     rows: 3,
//!     nodes: &[FieldNode::new(3, 0)],
//!     buffers: &[Buffer::new(0, 0), Buffer::new(0, 3)],
//!     variadic: &[],
//!     body_bytes: 64,
//! };
//! let mut stream = Vec::new();
//! push_framed(&mut stream, &schema_message(&schema), 0);
//! push_framed(&mut stream, &batch.message(None), 0);
//! stream.extend_from_slice(&[7, 8, 9]);
//! stream.resize(stream.len().next_multiple_of(64), 0);
//! stream.extend_from_slice(&END);
//!
//! let read: Vec<_> = arrow_ipc::reader::StreamReader::try_new(&stream[..], None)?.collect();
//! assert_eq!(read.len(), 1);
//! assert_eq!(read[0].as_ref().unwrap().num_rows(), 3);
//! # Ok::<(), arrow_schema::ArrowError>(())
//! ```

#![forbid(unsafe_code)]

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{
    Buffer, DictionaryBatch, DictionaryBatchArgs, FieldNode, Message, MessageArgs, MessageHeader,
    MetadataVersion, RecordBatch, RecordBatchArgs,
};
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// Where messages and buffers start: at multiples of this many bytes.
pub const ALIGN: usize = 64;

/// The prefix of each message: a marker of four bytes, and its length.
pub const PREFIX_BYTES: usize = 8;

/// The end of a stream: a message of length 0.
pub const END: [u8; PREFIX_BYTES] = prefix(0);

/// A record batch, or a dictionary, as its message describes it.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// How many rows it has.
    pub rows: i64,
    /// The arrays, each before its children.
    pub nodes: &'a [FieldNode],
    /// Where the buffers of each array lie, from the start of the body.
    pub buffers: &'a [Buffer],
    /// How many buffers each array of views has after its views.
    pub variadic: &'a [i64],
    /// The length of the body.
    pub body_bytes: i64,
}

impl Batch<'_> {
    /// The message of a record batch, or of the dictionary with this number.
    #[must_use]
    pub fn message(&self, dictionary: Option<i64>) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let nodes = builder.create_vector(self.nodes);
        let buffers = builder.create_vector(self.buffers);
        let variadic = (!self.variadic.is_empty()).then(|| builder.create_vector(self.variadic));
        let arguments = RecordBatchArgs {
            length: self.rows,
            nodes: Some(nodes),
            buffers: Some(buffers),
            compression: None,
            variadicBufferCounts: variadic,
        };
        let batch = RecordBatch::create(&mut builder, &arguments);
        let Some(id) = dictionary else {
            let header = batch.as_union_value();
            return finish(builder, MessageHeader::RecordBatch, header, self.body_bytes);
        };
        let arguments = DictionaryBatchArgs { id, data: Some(batch), isDelta: false };
        let header = DictionaryBatch::create(&mut builder, &arguments).as_union_value();
        finish(builder, MessageHeader::DictionaryBatch, header, self.body_bytes)
    }
}

/// The message of a schema.
#[must_use]
pub fn schema_message(schema: &Schema) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut tracker = DictionaryTracker::new(true);
    let header = IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut tracker)
        .schema_to_fb_offset(&mut builder, schema)
        .as_union_value();
    finish(builder, MessageHeader::Schema, header, 0)
}

fn finish(
    mut builder: FlatBufferBuilder<'_>,
    kind: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body_bytes: i64,
) -> Vec<u8> {
    let arguments = MessageArgs {
        version: MetadataVersion::V5,
        header_type: kind,
        header: Some(header),
        bodyLength: body_bytes,
        custom_metadata: None,
    };
    let message = Message::create(&mut builder, &arguments);
    builder.finish(message, None);
    builder.finished_data().to_vec()
}

/// The prefix of a message of `padded_bytes` bytes with its padding.
#[must_use]
pub const fn prefix(padded_bytes: u32) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = padded_bytes.to_le_bytes();
    [0xff, 0xff, 0xff, 0xff, a, b, c, d]
}

/// Appends a message with its prefix, padded so that the body starts at a multiple of [`ALIGN`],
/// and at `body_at` or after it.
pub fn push_framed(stream: &mut Vec<u8>, message: &[u8], body_at: usize) {
    let start = stream.len() + PREFIX_BYTES;
    let end = (start + message.len()).max(body_at).next_multiple_of(ALIGN);
    stream.extend_from_slice(&prefix(u32::try_from(end - start).unwrap_or(u32::MAX)));
    stream.extend_from_slice(message);
    stream.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use arrow_ipc::{MessageHeader, root_as_message};

    use super::*;

    const BATCH: Batch<'static> =
        Batch { rows: 5, nodes: &[], buffers: &[], variadic: &[2, 0], body_bytes: 1 << 40 };

    #[test]
    fn a_batch_tells_what_it_was_given() {
        let (nodes, buffers) = ([FieldNode::new(5, 2)], [Buffer::new(64, 3), Buffer::new(128, 40)]);
        let batch = Batch { nodes: &nodes, buffers: &buffers, ..BATCH };
        let bytes = batch.message(None);
        let message = root_as_message(&bytes).unwrap();
        assert_eq!(message.bodyLength(), 1 << 40);
        let read = message.header_as_record_batch().unwrap();
        assert_eq!(read.length(), 5);
        assert_eq!(read.nodes().unwrap().iter().copied().collect::<Vec<_>>(), nodes);
        assert_eq!(read.buffers().unwrap().iter().copied().collect::<Vec<_>>(), buffers);
        assert_eq!(read.variadicBufferCounts().unwrap().iter().collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn a_dictionary_is_a_batch_with_a_number() {
        let bytes = Batch { variadic: &[], ..BATCH }.message(Some(7));
        let message = root_as_message(&bytes).unwrap();
        assert_eq!(message.header_type(), MessageHeader::DictionaryBatch);
        let read = message.header_as_dictionary_batch().unwrap();
        assert_eq!((read.id(), read.isDelta()), (7, false));
        assert_eq!(read.data().unwrap().length(), 5);
        assert!(read.data().unwrap().variadicBufferCounts().is_none());
    }

    #[test]
    fn bodies_start_where_they_are_aligned_and_wanted() {
        for (bytes_before, message_bytes, body_at, expected) in [
            (0, 0, 0, 64),
            (0, 56, 0, 64),
            (0, 57, 0, 128),
            (8, 1, 0, 64),
            (64, 56, 128, 128),
            (64, 57, 128, 192),
            (64, 1, 129, 192),
        ] {
            let mut stream = vec![1; bytes_before];
            push_framed(&mut stream, &vec![2; message_bytes], body_at);
            assert_eq!(stream.len(), expected);
            let start = bytes_before + PREFIX_BYTES;
            assert_eq!(stream[bytes_before..start], prefix((expected - start) as u32));
            assert!(stream[start + message_bytes..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_stream_ends_with_a_message_of_no_length() {
        assert_eq!(END, [255, 255, 255, 255, 0, 0, 0, 0]);
    }
}
