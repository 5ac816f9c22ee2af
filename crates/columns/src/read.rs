//! Arrow data in the store, read in place.
//!
//! A composite is an Arrow IPC stream in parts ([`plasmon_proto::composite`]), and a stream that
//! lies in one object is a stream of one part. The arrays that come out of here point to where the
//! parts lie, and each holds the pins that it needs, so they can be kept for any time.
//!
//! The bytes of an object come from another process: everything is checked, as far as the caller
//! wants, before it is an array.

use std::time::Duration;

use arrow_array::{RecordBatchIterator, RecordBatchReader};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use plasmon_client::{Client, ObjectId, tag};
use plasmon_proto::composite::{Composite, Part, Place};

use crate::checks::{Batches, Checks};
use crate::error::{Error, Result};
use crate::ipc_decode::decode;
use crate::parts::Stream;

/// How long bringing members back from a file may take.
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(60);

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
            composed(object, &found, &data, &broken)?
        }
        other => return Err(Error::NoTable { id: object.id(), found: tag::in_words(other) }),
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
            let text = format!("a batch has the schema {found}, and the table has {schema}");
            return Err(ArrowError::SchemaError(text).into());
        }
    }
    Ok(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
}

/// An object's data that keeps it pinned.
pub(crate) fn whole(object: &plasmon_client::Buffer) -> Buffer {
    struct PinnedData(plasmon_client::Buffer);
    impl AsRef<[u8]> for PinnedData {
        fn as_ref(&self) -> &[u8] {
            self.0.data()
        }
    }
    Buffer::from(bytes::Bytes::from_owner(PinnedData(object.clone())))
}

/// Pins members of a composite. Those of a pool are brought here, and are not waited for: they were
/// there before it.
pub(crate) fn members(
    store: &Client,
    composite: ObjectId,
    ids: &[ObjectId],
) -> Result<Vec<plasmon_client::Buffer>> {
    let is_pooled = ids.iter().any(ObjectId::is_pooled);
    let timeout = if is_pooled { Duration::ZERO } else { MEMBERS_TIMEOUT };
    let found = store.get_many(ids, Some(timeout))?;
    found.into_iter().map(|member| member.map_err(|error| of_member(composite, error))).collect()
}

/// Why a composite cannot be read.
fn of_member(composite: ObjectId, error: plasmon_client::Error) -> Error {
    let before = error.detail().to_owned();
    let separator = if before.is_empty() { "" } else { "; " };
    let detail = format!(
        "{before}{separator}it is a member of the object {composite}, which cannot be read \
         without it"
    );
    error.with_detail(detail).into()
}

/// The stream of a composite.
fn composed(
    object: &plasmon_client::Buffer,
    found: &Composite,
    data: &Buffer,
    broken: &dyn Fn(String) -> Error,
) -> Result<Stream> {
    let members = members(object.store(), object.id(), &found.members)?;
    let members: Vec<Buffer> = members.iter().map(whole).collect();
    let part = |part: &Part| -> Result<(u64, Buffer)> {
        let source = match part.place {
            Place::Here(_) => data,
            Place::Member(member, _) => &members[member as usize],
        };
        let range = part.lies_in(source.len() as u64);
        let range =
            range.ok_or_else(|| broken("a part lies past the end of its member".to_owned()))?;
        Ok((part.at, source.slice_with_length(range.start, range.len())))
    };
    let parts = found.parts.iter().map(part).collect::<Result<_>>()?;
    Ok(Stream::new(parts, found.stream_bytes))
}
