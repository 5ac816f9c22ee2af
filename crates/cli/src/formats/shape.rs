//! The shape of a table or an array, from its headers alone: none of its data is read.

use anyhow::{Context, Result, bail};
use arrow_ipc::{MessageHeader, convert::try_fb_to_schema, root_as_message};
use arrow_schema::Schema;
use plasmon_client::{Buffer, tag};
use plasmon_proto::composite::{Composite, Place};
use plasmon_proto::value::ValueHeader;
use serde_json::{Value, json};

/// Before each message of a stream.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// The longest header of a message that is read.
const HEADER_BYTES_MAX: usize = 64 << 20;

/// Messages begin and end at multiples of this.
const ALIGNMENT: u64 = 8;

/// The shape of an object.
pub(crate) enum Shape {
    /// A table.
    Table { schema: Schema, rows: u64 },
    /// An array: the type of its items, and how many there are in each dimension.
    Array { items: String, dimensions: Vec<u64> },
    /// Something else.
    Other,
}

impl Shape {
    /// That of an object.
    pub(crate) fn of(object: &Buffer) -> Result<Self> {
        match object.tag() {
            tag::ARROW_STREAM => {
                let data = object.data();
                walk(data.len() as u64, &|at, bytes| {
                    let start = usize::try_from(at).ok()?;
                    Some(data.get(start..start.checked_add(bytes)?)?.to_vec())
                })
            }
            tag::COMPOSITE => composite(object.data()),
            tag::NDARRAY => {
                let header = ValueHeader::of_object(tag::NDARRAY, object.metadata());
                let (header, _) = header.context("the array's description cannot be read")?;
                Ok(Self::Array { items: header.text.to_owned(), dimensions: header.shape })
            }
            _ => Ok(Self::Other),
        }
    }

    /// For a program.
    pub(crate) fn document(&self) -> Value {
        match self {
            Self::Table { schema, rows } => {
                let fields = schema.fields().iter().map(|field| {
                    json!({
                        "name": field.name(), "type": field.data_type().to_string(),
                        "nullable": field.is_nullable(),
                    })
                });
                json!({
                    "rows": rows, "columns": schema.fields().len(),
                    "schema": fields.collect::<Vec<_>>(),
                })
            }
            Self::Array { items, dimensions } => json!({ "dtype": items, "shape": dimensions }),
            Self::Other => json!({}),
        }
    }
}

/// A table in parts: its headers lie in the object itself, with zeroes between, and buffers in
/// other objects.
fn composite(data: &[u8]) -> Result<Shape> {
    let found = Composite::decode(data)?;
    walk(found.stream_bytes, &|at, bytes| {
        let end = at.checked_add(bytes as u64)?;
        let mut whole = vec![0; bytes];
        let first = found.parts.partition_point(|part| part.at.saturating_add(part.bytes) <= at);
        for part in found.parts[first..].iter().take_while(|part| part.at < end) {
            let Place::Here(_) = part.place else { return None };
            let own = data.get(part.lies_in(data.len() as u64)?)?;
            let (from, to) = (part.at.max(at), part.at.saturating_add(part.bytes).min(end));
            let range = |base: u64| Some(usize::try_from(from - base).ok()?..(to - base) as usize);
            whole.get_mut(range(at)?)?.copy_from_slice(own.get(range(part.at)?)?);
        }
        Some(whole)
    })
}

/// Reads the headers of a stream's messages; `read` gives bytes of the stream by their place.
///
/// It gives copies: other processes may write there, and what is checked must be what is used.
fn walk(stream_bytes: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Result<Shape> {
    let (mut at, mut rows, mut schema) = (0, 0, None);
    while let Some(start) = (stream_bytes.saturating_sub(at) >= 8).then(|| read(at, 8)).flatten() {
        let (mark, length) = start.split_at(4);
        let length = u32::from_le_bytes(length.try_into()?) as usize;
        if mark != CONTINUATION || length == 0 {
            break;
        }
        if length > HEADER_BYTES_MAX {
            bail!("a header of {length} bytes");
        }
        let header = read(at + 8, length).context("the stream ends in a header")?;
        let message = root_as_message(&header).map_err(|bad| anyhow::anyhow!("{bad}"))?;
        match message.header_type() {
            MessageHeader::Schema => {
                let found = message.header_as_schema().context("no schema")?;
                schema = Some(try_fb_to_schema(found)?);
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().context("no batch")?;
                rows += u64::try_from(batch.length())
                    .context("a batch with a negative number of rows")?;
            }
            _ => {}
        }
        let body = u64::try_from(message.bodyLength()).context("a body of negative length")?;
        let end = (at + 8 + length as u64).checked_add(body).context("a body without an end")?;
        at = end.checked_next_multiple_of(ALIGNMENT).context("a body without an end")?;
    }
    let schema = schema.context("the stream has no schema")?;
    Ok(Shape::Table { schema, rows })
}
