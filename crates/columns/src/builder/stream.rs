//! The tree of a column as an Arrow IPC stream whose buffers stay where they are.
//!
//! An IPC stream is a sequence of messages, each a header and a body of buffers. Here the headers
//! are made, and the buffers are named in the order in which the format wants them: a node, its
//! validity, its values, its children. Dictionaries go before the batch that uses them.

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{
    Buffer, DictionaryBatchBuilder, FieldNode, MessageBuilder, MessageHeader, MetadataVersion,
    RecordBatchBuilder, root_as_message,
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use flatbuffers::FlatBufferBuilder;
use plasmon_proto::limits::OBJECT_ALIGN;

use super::node::{Node, Values};
use crate::error::Result;
use crate::memory::Bytes;

/// One buffer of a message's body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot<'a> {
    /// Absent, as the validity of an array without nulls.
    Empty,
    /// So many zeroes: the offsets of an array without values.
    Zeroes(usize),
    /// Memory.
    Bytes(&'a Bytes),
}

impl Slot<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Zeroes(bytes) => *bytes,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// What takes the stream: headers and padding as bytes, buffers by name.
pub(crate) trait Sink {
    /// Takes bytes.
    fn bytes(&mut self, bytes: &[u8]);
    /// Takes zeroes up to the next multiple of the alignment.
    fn pad(&mut self);
    /// Takes a buffer.
    fn buffer(&mut self, slot: Slot<'_>);
    /// How long the stream is so far.
    fn stream_bytes(&self) -> u64;
}

/// One message with a body.
#[derive(Default)]
struct Batch<'a> {
    rows: usize,
    nodes: Vec<FieldNode>,
    slots: Vec<Slot<'a>>,
    /// The dictionaries that it uses, with their numbers.
    dictionaries: Vec<(i64, &'a Node)>,
}

/// Writes the columns as one batch of a stream of this schema.
pub(crate) fn write(
    schema: &Schema,
    columns: &[&Node],
    rows: usize,
    sink: &mut dyn Sink,
) -> Result<()> {
    let fields = write_schema(schema, sink)?;
    let mut batch = Batch { rows, ..Batch::default() };
    for (field, column) in fields.iter().zip(columns) {
        batch.take(column, field);
    }
    for (number, values) in std::mem::take(&mut batch.dictionaries) {
        let mut dictionary = Batch { rows: values.length, ..Batch::default() };
        dictionary.take(values, &Field::new("", values.data_type.clone(), true));
        dictionary.write(Some(number), sink);
    }
    batch.write(None, sink);
    sink.bytes(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    Ok(())
}

/// Writes the schema; the fields as a reader finds them, with the numbers of their dictionaries.
fn write_schema(schema: &Schema, sink: &mut dyn Sink) -> Result<Fields> {
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
    write_header(&encoded.ipc_message, sink);
    Ok(fields)
}

impl<'a> Batch<'a> {
    fn take(&mut self, node: &'a Node, field: &Field) {
        self.nodes.push(FieldNode::new(node.length as i64, node.null_count as i64));
        if !matches!(node.values, Values::Null) {
            let nulls = node.validity().filter(|_| node.null_count > 0);
            self.slots.push(nulls.map_or(Slot::Empty, Slot::Bytes));
        }
        let offsets = |offsets: &'a super::node::Offsets| match offsets.bytes.len() {
            0 => Slot::Zeroes(offsets.width()),
            _ => Slot::Bytes(&offsets.bytes),
        };
        match (&node.values, field.data_type()) {
            (Values::Null, _) => {}
            (Values::Fixed { values, .. }, _) => self.slots.push(Slot::Bytes(values)),
            (Values::Bool(bits), _) => self.slots.push(Slot::Bytes(bits.bytes())),
            (Values::Bytes { offsets: ends, data }, _) => {
                self.slots.extend([offsets(ends), Slot::Bytes(data)]);
            }
            (
                Values::List { offsets: ends, child },
                DataType::List(inner) | DataType::LargeList(inner) | DataType::Map(inner, _),
            ) => {
                self.slots.push(offsets(ends));
                self.take(child, inner);
            }
            (Values::FixedList { child, .. }, DataType::FixedSizeList(inner, _)) => {
                self.take(child, inner);
            }
            (Values::Struct(children), DataType::Struct(fields)) => {
                children.iter().zip(fields).for_each(|(child, inner)| self.take(child, inner));
            }
            (Values::Dictionary(dictionary), _) => {
                self.slots.push(Slot::Bytes(&dictionary.keys));
                self.dictionaries.push((number(field), &dictionary.values));
            }
            (values, found) => unreachable!("{values:?} was made for another type than {found}"),
        }
    }

    fn write(&self, dictionary: Option<i64>, sink: &mut dyn Sink) {
        let mut at = 0_u64;
        let mut buffers = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let bytes = slot.len() as u64;
            buffers.push(Buffer::new(at as i64, bytes as i64));
            at += bytes.next_multiple_of(OBJECT_ALIGN);
        }
        write_header(&self.header(&buffers, at as i64, dictionary), sink);
        for slot in &self.slots {
            sink.buffer(*slot);
            sink.pad();
        }
    }

    fn header(&self, buffers: &[Buffer], body_bytes: i64, dictionary: Option<i64>) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let nodes = builder.create_vector(&self.nodes);
        let buffers = builder.create_vector(buffers);
        let mut batch = RecordBatchBuilder::new(&mut builder);
        batch.add_length(self.rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
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
        message.add_bodyLength(body_bytes);
        message.add_header(header);
        let root = message.finish();
        builder.finish(root, None);
        builder.finished_data().to_vec()
    }
}

/// The number of a field's dictionary.
fn number(field: &Field) -> i64 {
    #[expect(deprecated, reason = "fields that were read from a stream have it nowhere else")]
    field.dict_id().unwrap_or_default()
}

/// Writes a message's header so that its body starts at a multiple of the alignment.
fn write_header(header: &[u8], sink: &mut dyn Sink) {
    let start = sink.stream_bytes() + 8;
    let end = (start + header.len() as u64).next_multiple_of(OBJECT_ALIGN);
    sink.bytes(&[0xff; 4]);
    sink.bytes(&((end - start) as u32).to_le_bytes());
    sink.bytes(header);
    sink.pad();
}

/// Takes the memory of a node and its children out, in the order of the slots, the dictionaries'
/// at last.
pub(crate) fn into_buffers(node: Node, out: &mut Vec<Bytes>, dictionaries: &mut Vec<Node>) {
    let (validity, values) = node.into_parts();
    out.extend(validity);
    match values {
        Values::Null => {}
        Values::Fixed { values, .. } => out.push(values),
        Values::Bool(bits) => out.push(bits.into_bytes()),
        Values::Bytes { offsets, data } => out.extend([offsets.bytes, data]),
        Values::List { offsets, child } => {
            out.push(offsets.bytes);
            into_buffers(*child, out, dictionaries);
        }
        Values::FixedList { child, .. } => into_buffers(*child, out, dictionaries),
        Values::Struct(children) => {
            children.into_iter().for_each(|child| into_buffers(child, out, dictionaries));
        }
        Values::Dictionary(dictionary) => {
            out.push(dictionary.keys);
            dictionaries.push(dictionary.values);
        }
    }
}
