//! Arrow data in the store, read in place.
//!
//! A composite is an Arrow IPC stream in parts ([`plasmon_proto::composite`]), and a stream that
//! lies in one object is a stream of one part. The arrays that come out of here point to where the
//! parts lie, and each holds the pins that it needs, so they live as long as anybody wants.
//!
//! What an object holds is another process's word: everything is checked, as far as the caller
//! wants, before it is an array.

use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, SchemaRef};
use plasmon_client::{Level, Store, tag};
use plasmon_proto::composite::{Composite, Part, Place};

use crate::decoding::decode;
use crate::error::{Error, Result};
use crate::parts::Stream;

/// How long bringing members back from a file may take.
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes an array of its parts, checking as much as is due.
pub type Builder<'a> =
    dyn FnMut(ArrayDataBuilder) -> std::result::Result<ArrayData, ArrowError> + 'a;

/// A table as its schema and batches.
pub type Batches = (SchemaRef, Vec<RecordBatch>);

/// What is checked before bytes of others are arrays.
pub struct Checks<'a> {
    /// Makes the arrays: [`ArrayDataBuilder::build`], or less where the writer can be trusted.
    pub build: Box<Builder<'a>>,
    /// Whether the bytes can still be changed by a writer that is not trusted: then what is checked
    /// is copied before, so that what was checked is what is used.
    pub copy: bool,
}

impl Checks<'_> {
    /// Everything is checked, in place: the bytes cannot change any more, or only by processes
    /// that are trusted.
    pub fn all() -> Checks<'static> {
        Checks { build: Box::new(ArrayDataBuilder::build), copy: false }
    }

    /// Everything is checked, as the level of the store needs it: at [`Level::Leased`] another
    /// user's process may still write into what it sealed.
    pub fn at(level: Level) -> Checks<'static> {
        Checks { copy: level == Level::Leased, ..Checks::all() }
    }
}

impl std::fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks").field("copy", &self.copy).finish_non_exhaustive()
    }
}

/// The Arrow data of an object, in place as far as its store's level allows, checked.
pub fn read(object: &plasmon_client::Buffer) -> Result<Batches> {
    read_with(object, whole(object), &mut Checks::at(object.store().level()))
}

/// The Arrow data of an object. `data` is the object's data as a buffer that keeps what it needs.
pub fn read_with(
    object: &plasmon_client::Buffer,
    data: Buffer,
    checks: &mut Checks<'_>,
) -> Result<Batches> {
    let broken = |detail: String| Error::Corrupt { id: object.id(), detail };
    let stream = match object.tag() {
        tag::ARROW_STREAM => Stream::whole(data),
        tag::COMPOSITE => {
            let found = Composite::decode(&data).map_err(|bad| broken(bad.to_string()))?;
            composed(object.store(), &found, &data, &broken)?
        }
        other => return Err(broken(format!("it holds a value of kind {other}"))),
    };
    decode(&stream, checks).map_err(|error| broken(format!("its Arrow stream is broken: {error}")))
}

/// The Arrow data of an IPC stream in memory, checked. The memory must be this process's own: it
/// does not change.
pub fn read_stream(bytes: Buffer) -> Result<Batches> {
    Ok(decode(&Stream::whole(bytes), &mut Checks::all())?)
}

/// The same for a stream in parts, each with its place, in order and without overlap; between them
/// the stream has zeroes.
pub fn read_parts(
    parts: Vec<(u64, Buffer)>,
    stream_bytes: u64,
    checks: &mut Checks<'_>,
) -> Result<Batches> {
    Ok(decode(&Stream::new(parts, stream_bytes), checks)?)
}

/// Batches for a consumer that believes their schema: a batch of another one is refused.
pub fn into_reader(
    (schema, batches): Batches,
) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
    for batch in &batches {
        let found = batch.schema_ref();
        if !std::sync::Arc::ptr_eq(found, &schema) && *found != schema {
            let text = format!("a batch of a table of {schema} is of {found}");
            return Err(ArrowError::SchemaError(text).into());
        }
    }
    Ok(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
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

/// The stream of a composite.
fn composed(
    store: &Store,
    found: &Composite,
    data: &Buffer,
    broken: &dyn Fn(String) -> Error,
) -> Result<Stream> {
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
    Ok(Stream::new(parts, found.stream_bytes))
}
