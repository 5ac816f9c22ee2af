//! Arrow data in the store, read in place.
//!
//! A composite is an Arrow IPC stream in parts ([`plasmon_proto::composite`]), and a stream that
//! lies in one object is a stream of one part. The arrays that come out of here point to where the
//! parts lie, and each holds the pins that it needs, so they live as long as anybody wants.
//!
//! What an object holds is another process's word: everything is checked, as far as the caller
//! wants, before it is an array.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_empty_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder, UnsafeFlag, layout};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{FieldNode, Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Fields, SchemaRef};
use plasmon_client::{Store, tag};
use plasmon_proto::composite::{Composite, Part, Place};

use crate::contiguous;
use crate::error::{Error, Result};
use crate::message::dictionary_number;

const CONTINUATION: u32 = u32::MAX;

/// How long bringing members back from a file may take.
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes an array of its parts, checking as much as is due.
pub type Builder<'a> =
    dyn FnMut(ArrayDataBuilder) -> std::result::Result<ArrayData, ArrowError> + 'a;

/// A table as its schema and batches.
pub type Batches = (SchemaRef, Vec<RecordBatch>);

/// Checks everything: the way to make arrays of anybody's bytes.
pub fn checked(parts: ArrayDataBuilder) -> std::result::Result<ArrayData, ArrowError> {
    parts.build()
}

/// What is checked before bytes of others are arrays.
pub struct Checks<'a> {
    /// Makes the arrays of a composite: [`checked`], or less where the writer can be trusted.
    pub build: Box<Builder<'a>>,
    /// The same for a stream in one object.
    pub skip_validation: UnsafeFlag,
}

impl Checks<'_> {
    /// Everything is checked.
    pub fn all() -> Checks<'static> {
        Checks { build: Box::new(checked), skip_validation: UnsafeFlag::new() }
    }
}

impl std::fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

/// The Arrow data of an object, in place, checked.
pub fn read(object: &plasmon_client::Buffer) -> Result<Batches> {
    read_with(object, whole(object), &mut Checks::all())
}

/// The Arrow data of an object, in place. `data` is the object's data as a buffer that keeps what
/// it needs.
pub fn read_with(
    object: &plasmon_client::Buffer,
    data: Buffer,
    checks: &mut Checks<'_>,
) -> Result<Batches> {
    let broken = |detail: String| Error::Corrupt { id: object.id(), detail };
    let stream = match object.tag() {
        tag::ARROW_STREAM => {
            let decoded = contiguous::Decoder::new(checks.skip_validation.clone()).run(&data);
            return decoded.map_err(|error| broken(format!("its Arrow stream is broken: {error}")));
        }
        tag::COMPOSITE => {
            let found = Composite::decode(&data).map_err(|bad| broken(bad.to_string()))?;
            Scattered::of(object.store(), &found, &data, &broken)?
        }
        other => return Err(broken(format!("it holds a value of kind {other}"))),
    };
    stream.decode(&mut *checks.build).map_err(|error| match error {
        Error::Arrow(error) => broken(error.to_string()),
        other => other,
    })
}

/// An object's data that keeps it pinned.
fn whole(object: &plasmon_client::Buffer) -> Buffer {
    struct Pinned(plasmon_client::Buffer);
    impl AsRef<[u8]> for Pinned {
        fn as_ref(&self) -> &[u8] {
            self.0.data()
        }
    }
    Buffer::from(bytes::Bytes::from_owner(Pinned(object.clone())))
}

/// A stream whose parts lie anywhere; between them it has zeroes.
#[derive(Debug)]
pub(crate) struct Scattered {
    parts: Vec<(u64, Buffer)>,
    stream_bytes: u64,
}

impl Scattered {
    /// A stream in one part.
    pub(crate) fn whole(bytes: Buffer) -> Self {
        Self { stream_bytes: bytes.len() as u64, parts: vec![(0, bytes)] }
    }

    fn of(
        store: &Store,
        found: &Composite,
        data: &Buffer,
        broken: &dyn Fn(String) -> Error,
    ) -> Result<Self> {
        let members = store.get_many(&found.members, Some(MEMBERS_TIMEOUT))?;
        let members = members.into_iter().map(|member| Ok(whole(&member?)));
        let members: Vec<Buffer> = members.collect::<Result<_>>()?;
        let part = |part: &Part| -> Result<(u64, Buffer)> {
            let source = match part.place {
                Place::Here(_) => data,
                Place::Member(member, _) => &members[member as usize],
            };
            let range = part.lies_in(source.len() as u64);
            let range = range.ok_or_else(|| broken("a part lies behind its member".to_owned()))?;
            Ok((part.at, source.slice_with_length(range.start, range.len())))
        };
        let parts = found.parts.iter().map(part).collect::<Result<_>>()?;
        Ok(Self { parts, stream_bytes: found.stream_bytes })
    }

    /// Bytes of the stream: in place when they lie in one part, gathered when they do not.
    fn slice(&self, at: u64, bytes: u64) -> std::result::Result<Buffer, ArrowError> {
        let end = at.checked_add(bytes).filter(|end| *end <= self.stream_bytes);
        let end = end.ok_or_else(cut_short)?;
        let first = self.parts.partition_point(|(start, part)| start + part.len() as u64 <= at);
        let length = usize::try_from(bytes).map_err(|_| cut_short())?;
        if let Some((start, part)) = self.parts.get(first)
            && *start <= at
            && end <= start + part.len() as u64
        {
            return Ok(part.slice_with_length((at - start) as usize, length));
        }
        let rest = &self.parts[first..];
        let inside = rest.iter().take_while(|(start, _)| *start < end);
        let held: u64 = inside.clone().map(|(_, part)| part.len() as u64).sum();
        if held == 0 && length > GAP_BYTES_MAX {
            // Nobody leaves out so much; a hostile stream could ask for any amount of zeroes.
            return Err(cut_short());
        }
        let mut gathered = MutableBuffer::from_len_zeroed(length);
        for (start, part) in inside {
            let (from, until) = (at.max(*start), end.min(start + part.len() as u64));
            let (into, out) = (from - at, from - start);
            let count = (until - from) as usize;
            gathered[into as usize..][..count].copy_from_slice(&part[out as usize..][..count]);
        }
        Ok(gathered.into())
    }

    /// Decodes the stream.
    pub(crate) fn decode(&self, build: &mut Builder<'_>) -> Result<Batches> {
        let mut decoder =
            Decoder { stream: self, schema: None, dictionaries: HashMap::new(), build };
        let mut batches = Vec::new();
        let mut at = 0;
        while let Some((header, body_at)) = self.header(at)? {
            let message = root_as_message(&header)
                .map_err(|error| ArrowError::IpcError(format!("a bad message: {error}")))?;
            let body_bytes = u64::try_from(message.bodyLength()).map_err(|_| cut_short())?;
            at = body_at.checked_add(body_bytes).ok_or_else(cut_short)?;
            if at > self.stream_bytes {
                return Err(cut_short().into());
            }
            batches.extend(decoder.take(message, body_at)?);
        }
        let schema = decoder.schema.ok_or_else(no_schema)?;
        Ok((schema, batches))
    }

    /// The header of the message at `at` and where its body starts; `None` at the end.
    fn header(&self, at: u64) -> std::result::Result<Option<(Buffer, u64)>, ArrowError> {
        if at == self.stream_bytes {
            return Ok(None);
        }
        let word = |at: u64| -> std::result::Result<u32, ArrowError> {
            let bytes = self.slice(at, 4)?;
            Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let (length, start) = match word(at)? {
            CONTINUATION => (word(at + 4)?, at + 8),
            // Writers before Arrow 0.15 left the continuation mark out.
            length => (length, at + 4),
        };
        if length == 0 {
            return Ok(None);
        }
        Ok(Some((self.slice(start, u64::from(length))?, start + u64::from(length))))
    }
}

/// Zeroes that a composite leaves out at most in one piece: padding, and the offsets of nothing.
const GAP_BYTES_MAX: usize = 4096;

/// A stream being decoded.
struct Decoder<'a, 'b> {
    stream: &'a Scattered,
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    build: &'a mut Builder<'b>,
}

impl Decoder<'_, '_> {
    fn take(
        &mut self,
        message: Message<'_>,
        body_at: u64,
    ) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(no_schema)?;
                self.schema = Some(Arc::new(try_fb_to_schema(schema)?));
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(cut_short)?;
                if batch.isDelta() {
                    return Err(unsupported("a dictionary in instalments"));
                }
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let values = values_type(schema.fields(), batch.id()).ok_or_else(cut_short)?;
                let field = Field::new("", values, true);
                let data = batch.data().ok_or_else(cut_short)?;
                let values = self.body(data, body_at)?.array(&field)?;
                self.dictionaries.insert(batch.id(), make_array(values));
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(cut_short)?;
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let rows = usize::try_from(batch.length()).map_err(|_| cut_short())?;
                let mut body = self.body(batch, body_at)?;
                let columns = schema.fields().iter().map(|field| body.array(field).map(make_array));
                let columns = columns.collect::<std::result::Result<_, _>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(schema, columns, &options).map(Some)
            }
            other => Err(unsupported(&format!("a message of the kind {other:?}"))),
        }
    }

    fn body<'c>(
        &'c mut self,
        batch: arrow_ipc::RecordBatch<'c>,
        at: u64,
    ) -> std::result::Result<Body<'c>, ArrowError> {
        if batch.compression().is_some() {
            return Err(unsupported("compressed buffers, which cannot be read in place"));
        }
        let nodes = batch.nodes().ok_or_else(cut_short)?;
        let buffers = batch.buffers().ok_or_else(cut_short)?;
        let counts = batch.variadicBufferCounts();
        Ok(Body {
            stream: self.stream,
            at,
            nodes: nodes.iter().copied().collect(),
            buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())).collect(),
            variadic: counts.into_iter().flatten().collect(),
            dictionaries: &self.dictionaries,
            build: &mut *self.build,
        })
    }
}

/// The body of one message, taken apart from the front.
struct Body<'a> {
    stream: &'a Scattered,
    at: u64,
    nodes: VecDeque<FieldNode>,
    buffers: VecDeque<(i64, i64)>,
    variadic: VecDeque<i64>,
    dictionaries: &'a HashMap<i64, ArrayRef>,
    build: &'a mut (dyn FnMut(ArrayDataBuilder) -> std::result::Result<ArrayData, ArrowError> + 'a),
}

impl Body<'_> {
    fn buffer(&mut self) -> std::result::Result<Buffer, ArrowError> {
        let (offset, bytes) = self.buffers.pop_front().ok_or_else(cut_short)?;
        let offset = u64::try_from(offset).map_err(|_| cut_short())?;
        let bytes = u64::try_from(bytes).map_err(|_| cut_short())?;
        if bytes == 0 {
            // Aligned, where an empty vector of bytes is not.
            return Ok(MutableBuffer::new(0).into());
        }
        self.stream.slice(self.at.checked_add(offset).ok_or_else(cut_short)?, bytes)
    }

    /// The next array, which is of the field's type.
    fn array(&mut self, field: &Field) -> std::result::Result<ArrayData, ArrowError> {
        let node = self.nodes.pop_front().ok_or_else(cut_short)?;
        let data_type = field.data_type();
        let length = usize::try_from(node.length()).map_err(|_| cut_short())?;
        let null_count = usize::try_from(node.null_count()).map_err(|_| cut_short())?;
        let shape = layout(data_type);
        let mut parts = ArrayData::builder(data_type.clone()).len(length);
        if shape.can_contain_null_mask {
            let validity = self.buffer()?;
            if null_count > 0 {
                parts = parts.null_bit_buffer(Some(validity)).null_count(null_count);
            }
        }
        for _ in &shape.buffers {
            parts = parts.add_buffer(self.buffer()?);
        }
        if shape.variadic {
            for _ in 0..self.variadic.pop_front().ok_or_else(cut_short)? {
                parts = parts.add_buffer(self.buffer()?);
            }
        }
        for child in self.children(field)? {
            parts = parts.add_child_data(child);
        }
        (self.build)(parts)
    }

    fn children(&mut self, field: &Field) -> std::result::Result<Vec<ArrayData>, ArrowError> {
        match field.data_type() {
            DataType::List(inner)
            | DataType::LargeList(inner)
            | DataType::ListView(inner)
            | DataType::LargeListView(inner)
            | DataType::FixedSizeList(inner, _)
            | DataType::Map(inner, _) => Ok(vec![self.array(inner)?]),
            DataType::Struct(fields) => fields.iter().map(|inner| self.array(inner)).collect(),
            DataType::Union(fields, _) => {
                fields.iter().map(|(_, inner)| self.array(inner)).collect()
            }
            DataType::RunEndEncoded(ends, values) => {
                Ok(vec![self.array(ends)?, self.array(values)?])
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

/// The type of the values of the dictionary with this number.
fn values_type(fields: &Fields, wanted: i64) -> Option<DataType> {
    fields.iter().find_map(|field| match field.data_type() {
        DataType::Dictionary(_, values) if dictionary_number(field) == Some(wanted) => {
            Some(values.as_ref().clone())
        }
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
    })
}

fn cut_short() -> ArrowError {
    ArrowError::IpcError("the stream is cut short".to_owned())
}

fn no_schema() -> ArrowError {
    ArrowError::IpcError("the stream has no schema".to_owned())
}

fn unsupported(what: &str) -> ArrowError {
    ArrowError::NotYetImplemented(format!("the stream has {what}"))
}
