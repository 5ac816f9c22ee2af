//! The tree of a column as an Arrow IPC stream whose buffers stay where they are.
//!
//! An IPC stream is a sequence of messages, each a header and a body of buffers. Here the headers
//! are made, and the buffers are named in the order of the format: a node, its
//! validity, its values, its children. Dictionaries go before the batch that uses them.

use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Field, Schema};

use super::node::{Node, Values};
use crate::error::Result;
use crate::memory::Bytes;
use crate::message::{self, Body, dictionary_number};

/// One buffer of a message's body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot<'a> {
    /// Absent, as the validity of an array without nulls.
    Empty,
    /// A number of zeroes: the offsets of an array without values.
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

/// The receiver of a stream: headers and padding as bytes, buffers by name.
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

/// Writes batches of columns as a stream of this schema.
pub(crate) fn write(
    schema: &Schema,
    batches: &[(usize, Vec<&Node>)],
    sink: &mut dyn Sink,
) -> Result<()> {
    let (header, fields) = message::schema(schema)?;
    write_header(&header, sink);
    for (rows, columns) in batches {
        let mut batch = Batch { rows: *rows, ..Batch::default() };
        for (field, column) in fields.iter().zip(columns) {
            batch.take(column, field);
        }
        for (number, values) in std::mem::take(&mut batch.dictionaries) {
            let mut dictionary = Batch { rows: values.length, ..Batch::default() };
            dictionary.take(values, &Field::new("", values.data_type.clone(), true));
            dictionary.write(Some(number), sink);
        }
        batch.write(None, sink);
    }
    sink.bytes(&message::END);
    Ok(())
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
            (Values::Dictionary { keys, values }, _) => {
                self.slots.push(Slot::Bytes(&keys.bytes));
                let number = dictionary_number(field).unwrap_or_default();
                self.dictionaries.push((number, values));
            }
            (values, found) => unreachable!("{values:?} was made for another type than {found}"),
        }
    }

    fn write(self, dictionary: Option<i64>, sink: &mut dyn Sink) {
        let lengths = self.slots.iter().map(Slot::len).collect();
        let body = Body { rows: self.rows, nodes: self.nodes, lengths, variadic: Vec::new() };
        write_header(&body.header(dictionary), sink);
        for slot in self.slots {
            sink.buffer(slot);
            sink.pad();
        }
    }
}

/// Writes a message's header so that its body starts at a multiple of the alignment.
fn write_header(header: &[u8], sink: &mut dyn Sink) {
    let framed = message::framed(header, sink.stream_bytes());
    sink.bytes(&framed);
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
        Values::Dictionary { keys, values } => {
            out.push(keys.bytes);
            dictionaries.push(*values);
        }
    }
}
