//! Arrays as an Arrow IPC stream whose buffers are the arrays' own.
//!
//! The usual writers rewrite the offsets of slices, so that a stream holds nothing but the slice.
//! Here nothing is rewritten without need: offsets may start anywhere, and the values stay whole.
//! Only bits that do not start at a byte are copied.

use std::collections::HashMap;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::{ArrayData, layout};
use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Field, SchemaRef};

use crate::error::Result;
use crate::message::{self, Body, dictionary_number};

/// A piece of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Headers.
    Header(Vec<u8>),
    /// A buffer of an array.
    Buffer(Buffer),
    /// Zeroes up to the next multiple of the alignment.
    Pad,
}

/// A table as the pieces of an IPC stream.
#[derive(Debug)]
pub(crate) struct StreamPieces {
    pub(crate) pieces: Vec<Piece>,
    stream_bytes: u64,
}

/// Whether arrays of this type can be encoded here; the rarer ones are left to arrow-rs.
fn is_known(data_type: &DataType) -> bool {
    let field = |field: &Field| is_known(field.data_type());
    match data_type {
        DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => false,
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => field(inner),
        DataType::Struct(fields) => fields.iter().all(|inner| field(inner)),
        // A dictionary in a dictionary has no number of its own in a stream.
        DataType::Dictionary(_, values) => {
            is_known(values) && !values.is_nested() && !matches!(**values, DataType::Dictionary(..))
        }
        _ => true,
    }
}

impl StreamPieces {
    /// The stream of these batches; `None` when one of their types is too rare for that.
    pub(crate) fn of(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Option<Self>> {
        if !schema.fields().iter().all(|field| is_known(field.data_type())) {
            return Ok(None);
        }
        let mut made = Self { pieces: Vec::new(), stream_bytes: 0 };
        let (header, fields) = message::schema(schema)?;
        made.header(&header);
        let mut sent: HashMap<i64, ArrayData> = HashMap::new();
        for batch in batches {
            let mut body = Arrays {
                body: Body { rows: batch.num_rows(), ..Body::default() },
                ..Arrays::default()
            };
            for (field, column) in fields.iter().zip(batch.columns()) {
                body.take(&column.to_data(), field);
            }
            for (number, values) in std::mem::take(&mut body.dictionaries) {
                if sent.get(&number).is_some_and(|known| known.ptr_eq(&values)) {
                    continue;
                }
                let mut dictionary = Arrays {
                    body: Body { rows: values.len(), ..Body::default() },
                    ..Arrays::default()
                };
                let field = Field::new("", values.data_type().clone(), true);
                dictionary.take(&values, &field);
                made.message(dictionary, Some(number));
                sent.insert(number, values);
            }
            made.message(body, None);
        }
        made.pieces.push(Piece::Header(message::END.to_vec()));
        Ok(Some(made))
    }

    fn header(&mut self, header: &[u8]) {
        let framed = message::framed(header, self.stream_bytes);
        self.grow(framed.len());
        self.pieces.push(Piece::Header(framed));
        self.pad();
    }

    fn message(&mut self, arrays: Arrays, dictionary: Option<i64>) {
        self.header(&arrays.body.header(dictionary));
        for buffer in arrays.buffers {
            self.grow(buffer.len());
            self.pieces.push(Piece::Buffer(buffer));
            self.pad();
        }
    }

    fn grow(&mut self, bytes: usize) {
        self.stream_bytes += bytes as u64;
    }

    fn pad(&mut self) {
        self.stream_bytes = self.stream_bytes.next_multiple_of(plasmon_proto::limits::OBJECT_ALIGN);
        self.pieces.push(Piece::Pad);
    }

    /// The buffers that hold anything.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Buffer(buffer) if !buffer.is_empty() => Some(buffer),
            _ => None,
        })
    }
}

/// The arrays of one message.
#[derive(Default)]
struct Arrays {
    body: Body,
    buffers: Vec<Buffer>,
    dictionaries: Vec<(i64, ArrayData)>,
}

impl Arrays {
    fn push(&mut self, buffer: Buffer) {
        self.body.lengths.push(buffer.len());
        self.buffers.push(buffer);
    }

    /// Part of a buffer of values of `width` bytes.
    fn push_part(&mut self, buffer: &Buffer, from: usize, count: usize, width: usize) {
        // An array without values may have empty offsets.
        let end = ((from + count) * width).min(buffer.len());
        let start = (from * width).min(end);
        self.push(buffer.slice_with_length(start, end - start));
    }

    fn take(&mut self, data: &ArrayData, field: &Field) {
        let (length, offset) = (data.len(), data.offset());
        let is_null = matches!(data.data_type(), DataType::Null);
        let null_count = if is_null { length } else { data.null_count() };
        self.body.nodes.push(FieldNode::new(length as i64, null_count as i64));
        if layout(data.data_type()).can_contain_null_mask {
            let nulls = data.nulls().filter(|_| null_count > 0);
            self.push(nulls.map_or_else(|| Buffer::from_vec(Vec::<u8>::new()), bits_of));
        }
        match (data.data_type(), field.data_type()) {
            (DataType::Boolean, _) => {
                let bits = data.buffers()[0].bit_slice(offset, length);
                self.push(bits);
            }
            (DataType::Utf8 | DataType::Binary, _) => {
                self.push_part(&data.buffers()[0], offset, length + 1, 4);
                self.push(data.buffers()[1].clone());
            }
            (DataType::LargeUtf8 | DataType::LargeBinary, _) => {
                self.push_part(&data.buffers()[0], offset, length + 1, 8);
                self.push(data.buffers()[1].clone());
            }
            (DataType::Utf8View | DataType::BinaryView, _) => {
                self.push_part(&data.buffers()[0], offset, length, 16);
                self.body.variadic.push(data.buffers().len() as i64 - 1);
                data.buffers()[1..].iter().for_each(|buffer| self.push(buffer.clone()));
            }
            (
                DataType::List(_) | DataType::Map(..),
                DataType::List(inner) | DataType::Map(inner, _),
            ) => {
                self.push_part(&data.buffers()[0], offset, length + 1, 4);
                self.take(&data.child_data()[0], inner);
            }
            (DataType::LargeList(_), DataType::LargeList(inner)) => {
                self.push_part(&data.buffers()[0], offset, length + 1, 8);
                self.take(&data.child_data()[0], inner);
            }
            (DataType::FixedSizeList(_, size), DataType::FixedSizeList(inner, _)) => {
                let size = usize::try_from(*size).unwrap_or_default();
                self.take(&data.child_data()[0].slice(offset * size, length * size), inner);
            }
            (DataType::Struct(_), DataType::Struct(fields)) => {
                for (child, inner) in data.child_data().iter().zip(fields) {
                    self.take(&child.slice(offset, length), inner);
                }
            }
            (DataType::Dictionary(keys, _), _) => {
                let width = keys.primitive_width().unwrap_or_default();
                self.push_part(&data.buffers()[0], offset, length, width);
                let number = dictionary_number(field).unwrap_or_default();
                self.dictionaries.push((number, data.child_data()[0].clone()));
            }
            (DataType::FixedSizeBinary(width), _) => {
                let width = usize::try_from(*width).unwrap_or_default();
                self.push_part(&data.buffers()[0], offset, length, width);
            }
            (other, _) => {
                if let Some(width) = other.primitive_width() {
                    self.push_part(&data.buffers()[0], offset, length, width);
                }
            }
        }
    }
}

/// A validity bitmap from its first bit on: in place where that is the first of a byte.
fn bits_of(nulls: &NullBuffer) -> Buffer {
    nulls.buffer().bit_slice(nulls.offset(), nulls.len())
}
