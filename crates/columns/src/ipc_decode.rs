//! An Arrow IPC stream as arrays on its own memory.
//!
//! A stream is untrusted: each buffer lies in its message, each length in its
//! buffer, and there is one schema, which all batches have. What is checked in another process's
//! memory could be changed before it is used: with [`Checks::copy`] everything whose content is
//! checked (headers, validity, offsets, views, keys, text) is copied first, and what has no wrong
//! content (numbers, bytes) stays where it lies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_empty_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder, BufferSpec, layout};
use arrow_ipc::{CompressionType, Message, MessageHeader, MetadataVersion};
use arrow_schema::{ArrowError, DataType, Field, Fields, SchemaRef};

use crate::checks::{Batches, Builder, Checks};
use crate::compressed::decompress;
use crate::cursor::Cursor;
use crate::message::dictionary_number;
use crate::parts::{Stream, cut_short};
use crate::types;

type Result<T> = std::result::Result<T, ArrowError>;

/// Values without a byte of their own (nulls, empty lists) that an array may have at most, where
/// the stream is short: memory is allocated by such lengths, too.
const EMPTY_VALUES_MAX: u64 = 1 << 31;

/// Decodes a stream.
pub(crate) fn decode(stream: &Stream, checks: &mut Checks<'_>) -> Result<Batches> {
    let copy = checks.copy;
    let mut decoder = Decoder::new(stream, checks);
    let mut batches = Vec::new();
    let mut at = 0;
    while let Some((header, body_at)) = stream.header(at)? {
        let header = if copy { stream.own(&header)? } else { header };
        let message = types::message(&header)?;
        let body_bytes = u64::try_from(message.bodyLength()).map_err(|_| cut_short())?;
        at = body_at.checked_add(body_bytes).ok_or_else(cut_short)?;
        if at > stream.bytes() {
            return Err(cut_short());
        }
        batches.extend(decoder.take(message, (body_at, body_bytes))?);
    }
    let schema = decoder.schema.ok_or_else(no_schema)?;
    Ok((schema, batches))
}

/// Some columns of a table, without the others.
#[derive(Debug)]
pub(crate) struct Projection {
    /// Which of the columns.
    pub(crate) columns: Vec<bool>,
    /// The numbers of the dictionaries that they need.
    pub(crate) dictionaries: HashSet<i64>,
    /// The schema of what is left.
    pub(crate) schema: SchemaRef,
}

/// A stream being decoded.
pub(crate) struct Decoder<'a, 'b> {
    stream: &'a Stream,
    schema: Option<SchemaRef>,
    /// What is decoded of each batch; `None`: all of it.
    projection: Option<Arc<Projection>>,
    dictionaries: HashMap<i64, ArrayRef>,
    build: &'a mut Builder<'b>,
    copy: bool,
}

impl<'a, 'b> Decoder<'a, 'b> {
    fn new(stream: &'a Stream, checks: &'a mut Checks<'b>) -> Self {
        let (build, copy, dictionaries) = (&mut *checks.build, checks.copy, HashMap::new());
        Self { stream, schema: None, projection: None, dictionaries, build, copy }
    }

    /// Decodes some columns of a table with this schema.
    pub(crate) fn of_columns(
        stream: &'a Stream,
        schema: &SchemaRef,
        projection: Arc<Projection>,
        checks: &'a mut Checks<'b>,
    ) -> Self {
        let (schema, projection) = (Some(Arc::clone(schema)), Some(projection));
        Self { schema, projection, ..Self::new(stream, checks) }
    }

    /// Takes the next message. A dictionary that is not needed is passed over.
    pub(crate) fn take(
        &mut self,
        message: Message<'_>,
        body: (u64, u64),
    ) -> Result<Option<RecordBatch>> {
        match message.header_type() {
            MessageHeader::Schema => {
                // The batches before it would not be of the stream's type.
                if self.schema.is_some() {
                    return Err(ArrowError::IpcError("the stream has two schemas".to_owned()));
                }
                let schema = message.header_as_schema().ok_or_else(no_schema)?;
                self.schema = Some(Arc::new(types::schema(schema)?));
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(cut_short)?;
                let projection = self.projection.as_ref();
                if projection.is_some_and(|it| !it.dictionaries.contains(&batch.id())) {
                    return Ok(None);
                }
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let values = values_type(schema.fields(), batch.id()).ok_or_else(cut_short)?;
                let field = Field::new("", values, true);
                let data = batch.data().ok_or_else(cut_short)?;
                let values = self.body(data, body, message.version())?.array(&field, false)?;
                self.insert(batch.id(), values, batch.isDelta())?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let rows = usize::try_from(batch.length()).map_err(|_| cut_short())?;
                let projection = self.projection.clone();
                let is_kept = |at| projection.as_ref().is_none_or(|it| it.columns[at]);
                let mut body = self.body(batch, body, message.version())?;
                let mut columns = Vec::new();
                for (at, field) in schema.fields().iter().enumerate() {
                    if is_kept(at) {
                        columns.push(make_array(body.array(field, false)?));
                    } else {
                        body.cursor.pass(field, &mut |_| {})?;
                    }
                }
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                let schema = projection.map_or(schema, |it| Arc::clone(&it.schema));
                RecordBatch::try_new_with_options(schema, columns, &options).map(Some)
            }
            other => {
                let text = format!("the stream has a message of the kind {other:?}");
                Err(ArrowError::NotYetImplemented(text))
            }
        }
    }

    /// Keeps the values of a dictionary, after the earlier ones when they are a delta.
    fn insert(&mut self, number: i64, values: ArrayData, instalment: bool) -> Result<()> {
        let mut values = make_array(values);
        if instalment {
            let before = self.dictionaries.get(&number).ok_or_else(cut_short)?;
            let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size();
            self.stream.count_own(bytes(before)?.saturating_add(bytes(&values)?))?;
            values = arrow_select::concat::concat(&[before, &values])?;
        }
        self.dictionaries.insert(number, values);
        Ok(())
    }

    fn body<'c>(
        &'c mut self,
        batch: arrow_ipc::RecordBatch<'c>,
        (at, bytes): (u64, u64),
        version: MetadataVersion,
    ) -> Result<Body<'c>> {
        Ok(Body {
            stream: self.stream,
            at,
            bytes,
            compression: batch.compression().map(|found| found.codec()),
            cursor: Cursor::new(batch, version)?,
            dictionaries: &self.dictionaries,
            build: &mut *self.build,
            copy: self.copy,
        })
    }
}

/// The body of one message, taken apart from the front.
struct Body<'a> {
    stream: &'a Stream,
    at: u64,
    bytes: u64,
    compression: Option<CompressionType>,
    cursor: Cursor,
    dictionaries: &'a HashMap<i64, ArrayRef>,
    build: &'a mut (dyn FnMut(ArrayDataBuilder) -> Result<ArrayData> + 'a),
    copy: bool,
}

impl Body<'_> {
    /// The next buffer. One whose content is checked is this process's own, where that is due.
    fn buffer(&mut self, alignment: usize, is_checked: bool) -> Result<Buffer> {
        let (offset, bytes) = self.cursor.buffer()?;
        if bytes == 0 {
            // Aligned, where an empty vector of bytes is not.
            return Ok(MutableBuffer::new(0).into());
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(cut_short());
        }
        let at = self.at.checked_add(offset).ok_or_else(cut_short)?;
        let mut buffer = self.stream.slice(at, bytes)?;
        if self.copy && (is_checked || self.compression.is_some()) {
            buffer = self.stream.own(&buffer)?;
        }
        if let Some(codec) = self.compression {
            buffer = decompress(self.stream, codec, &buffer)?;
        }
        if buffer.as_ptr().align_offset(alignment) != 0 {
            buffer = self.stream.own(&buffer)?;
        }
        Ok(buffer)
    }

    /// The next array, which is of the field's type. The numbers of some are checked as offsets
    /// are: where runs end.
    fn array(&mut self, field: &Field, is_checked: bool) -> Result<ArrayData> {
        let node = self.cursor.node()?;
        let data_type = field.data_type();
        let length = self.length(node.length(), data_type)?;
        let null_count = usize::try_from(node.null_count()).map_err(|_| cut_short())?;
        let shape = layout(data_type);
        let mut parts = ArrayData::builder(data_type.clone()).len(length);
        if self.cursor.has_void_validity(data_type) {
            self.buffer(1, false)?;
        }
        if shape.can_contain_null_mask {
            let validity = self.buffer(1, true)?;
            if null_count > 0 {
                parts = parts.null_bit_buffer(Some(validity)).null_count(null_count);
            }
        }
        for (at, spec) in shape.buffers.iter().enumerate() {
            let (alignment, width) = match spec {
                BufferSpec::FixedWidth { alignment, byte_width } => (*alignment, *byte_width),
                _ => (1, 1),
            };
            let buffer = self.buffer(alignment, is_checked || checked(data_type, at))?;
            // Arrow takes a buffer as values of this width, and panics over half a value.
            let whole = buffer.len() - buffer.len() % width.max(1);
            parts = parts.add_buffer(buffer.slice_with_length(0, whole));
        }
        if shape.variadic {
            for _ in 0..self.cursor.variadic()? {
                parts = parts.add_buffer(self.buffer(1, checked(data_type, 1))?);
            }
        }
        for child in self.children(field)? {
            parts = parts.add_child_data(child);
        }
        (self.build)(parts)
    }

    /// The length of an array: one that bytes can hold, or a modest one of values without any.
    fn length(&self, length: i64, data_type: &DataType) -> Result<usize> {
        let bits_max = self.stream.own_bytes_max().saturating_mul(8);
        let length = usize::try_from(length).map_err(|_| cut_short())?;
        let values = match data_type {
            DataType::FixedSizeList(_, size) => length.checked_mul((*size).max(1) as usize),
            _ => Some(length),
        };
        match values {
            Some(values) if values as u64 <= bits_max.max(EMPTY_VALUES_MAX) => Ok(length),
            _ => Err(cut_short()),
        }
    }

    fn children(&mut self, field: &Field) -> Result<Vec<ArrayData>> {
        match field.data_type() {
            DataType::List(inner)
            | DataType::LargeList(inner)
            | DataType::ListView(inner)
            | DataType::LargeListView(inner)
            | DataType::FixedSizeList(inner, _)
            | DataType::Map(inner, _) => Ok(vec![self.array(inner, false)?]),
            DataType::Struct(fields) => {
                fields.iter().map(|inner| self.array(inner, false)).collect()
            }
            DataType::Union(fields, _) => {
                fields.iter().map(|(_, inner)| self.array(inner, false)).collect()
            }
            DataType::RunEndEncoded(ends, values) => {
                Ok(vec![self.array(ends, true)?, self.array(values, false)?])
            }
            DataType::Dictionary(_, values) => {
                let known =
                    dictionary_number(field).and_then(|number| self.dictionaries.get(&number));
                // A dictionary that nothing refers to may be left out.
                let values = known.map_or_else(|| new_empty_array(values), Arc::clone);
                Ok(vec![values.to_data()])
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether the content of a type's buffer can be wrong, so that it is checked.
fn checked(data_type: &DataType, buffer: usize) -> bool {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => buffer == 0,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Map(..)
        | DataType::Union(..)
        | DataType::Dictionary(..) => true,
        _ => false,
    }
}

/// The type of the values of the dictionary with this number.
fn values_type(fields: &Fields, wanted: i64) -> Option<DataType> {
    fields.iter().find_map(|field| match field.data_type() {
        DataType::Dictionary(_, values) if dictionary_number(field) == Some(wanted) => {
            Some(values.as_ref().clone())
        }
        DataType::Dictionary(_, values) => inner_type(values, wanted),
        other => inner_type(other, wanted),
    })
}

fn inner_type(data_type: &DataType, wanted: i64) -> Option<DataType> {
    match data_type {
        DataType::Struct(inner) => values_type(inner, wanted),
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::RunEndEncoded(_, inner)
        | DataType::Map(inner, _) => values_type(&Fields::from(vec![Arc::clone(inner)]), wanted),
        DataType::Union(inner, _) => {
            let inner: Vec<_> = inner.iter().map(|(_, field)| Arc::clone(field)).collect();
            values_type(&Fields::from(inner), wanted)
        }
        _ => None,
    }
}

fn no_schema() -> ArrowError {
    ArrowError::IpcError("the stream has no schema".to_owned())
}
