//! Some columns of a table in an object, wherever in the pool it is.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use plasmon_client::{Client, ObjectId, PartsReader, Piece, tag};
use plasmon_proto::composite::{Composite, Part, Place};
use plasmon_proto::limits::READ_RANGES_MAX;

use crate::checks::{Batches, Checks};
use crate::error::{Error, Result};
use crate::partial::{PartialTable, StreamSource};
use crate::parts::Stream;
use crate::read::whole;

/// What is read before anything is known: the schema and the first header of most tables. With the
/// metadata it still comes in a message.
const FIRST_BYTES: u64 = 48 << 10;

/// A table in an object of which some columns are read. What is not in this store is read from
/// other nodes of the pool, and nothing else of the object comes here.
#[derive(Debug)]
pub struct ObjectTable {
    id: ObjectId,
    table: PartialTable<ObjectSource>,
    metadata: Vec<u8>,
}

impl ObjectTable {
    /// Opens an object and reads the schema. `timeout` is how long an object that does not exist
    /// is waited for: without a limit for `None`, not at all for zero.
    pub fn open(store: &Client, id: ObjectId, timeout: Option<Duration>) -> Result<Self> {
        let broken = |detail: String| Error::Corrupt { id, detail };
        let mut reader = PartsReader::new(store, id, timeout);
        let (first, metadata) = reader.begin(FIRST_BYTES)?;
        let info = reader.info().ok_or_else(|| broken("nothing of it is there".to_owned()))?;
        let metadata = reader.here().map_or(&*metadata, plasmon_client::Buffer::metadata).to_vec();
        let (source, first) = match info.tag {
            tag::ARROW_STREAM => (ObjectSource::Stream(reader, info.data_bytes), buffer_of(first)),
            tag::COMPOSITE => {
                let all = 0..info.data_bytes;
                let data = reader
                    .read(std::slice::from_ref(&all))?
                    .pop()
                    .map_or_else(Buffer::default, buffer_of);
                let found = Composite::decode(&data).map_err(|bad| broken(bad.to_string()))?;
                let (store, members) = (store.clone(), HashMap::new());
                let source = ObjectSource::Composite { id, store, found, data, members };
                (source, Buffer::default())
            }
            other => return Err(Error::NoTable { id, found: tag::in_words(other) }),
        };
        let table = PartialTable::open(source, first).map_err(|error| about(id, error))?;
        Ok(Self { id, table, metadata })
    }

    /// The object.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The schema of the whole table.
    pub fn schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    /// These columns: [`PartialTable::read`].
    pub fn read(
        &mut self,
        columns: &[usize],
        rows: Option<Range<u64>>,
        checks: &mut Checks<'_>,
    ) -> Result<Batches> {
        self.table.read(columns, rows, checks).map_err(|error| about(self.id, error))
    }
}

fn about(id: ObjectId, error: Error) -> Error {
    match error {
        Error::Arrow(error) => {
            Error::Corrupt { id, detail: format!("its Arrow stream is broken: {error}") }
        }
        other => other,
    }
}

/// Where a table's stream lies.
#[derive(Debug)]
enum ObjectSource {
    /// It is the data of an object.
    Stream(PartsReader, u64),
    /// It is in parts, in several objects, of which those are pinned that were needed.
    Composite {
        id: ObjectId,
        store: Client,
        found: Composite,
        data: Buffer,
        members: HashMap<u32, Buffer>,
    },
}

impl StreamSource for ObjectSource {
    fn bytes(&self) -> u64 {
        match self {
            Self::Stream(_, bytes) => *bytes,
            Self::Composite { found, .. } => found.stream_bytes,
        }
    }

    fn is_near(&self) -> bool {
        match self {
            Self::Stream(reader, _) => reader.here().is_some(),
            Self::Composite { .. } => true,
        }
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        match self {
            Self::Stream(reader, _) => {
                let mut buffers = Vec::with_capacity(ranges.len());
                for ranges in ranges.chunks(READ_RANGES_MAX) {
                    buffers.extend(reader.read(ranges)?.into_iter().map(buffer_of));
                }
                Ok(buffers)
            }
            Self::Composite { id, store, found, data, members } => {
                let needed = parts_in(&found.parts, ranges);
                pin_members((store, *id), found, &needed, members)?;
                let parts = needed.into_iter().map(|part| {
                    let source = match part.place {
                        Place::Here(_) => Some(&*data),
                        Place::Member(member, _) => members.get(&member),
                    };
                    let cut = |source: &Buffer| {
                        let range = part.lies_in(source.len() as u64)?;
                        Some((part.at, source.slice_with_length(range.start, range.len())))
                    };
                    let past = || crate::parts::cut_short();
                    source.and_then(cut).ok_or_else(past)
                });
                let parts = parts.collect::<std::result::Result<Vec<_>, _>>()?;
                let stream = Stream::new(parts, found.stream_bytes);
                let slices = ranges.iter().map(|it| stream.slice(it.start, it.end - it.start));
                Ok(slices.collect::<std::result::Result<_, _>>()?)
            }
        }
    }
}

/// The parts that have bytes of some ranges, in order.
fn parts_in<'a>(parts: &'a [Part], ranges: &[Range<u64>]) -> Vec<&'a Part> {
    let mut needed = std::collections::BTreeSet::new();
    for range in ranges {
        let first = parts.partition_point(|part| part.at.saturating_add(part.bytes) <= range.start);
        let inside = parts[first..].iter().take_while(|part| part.at < range.end).count();
        needed.extend(first..first + inside);
    }
    needed.into_iter().map(|at| &parts[at]).collect()
}

/// Pins the members that these parts lie in.
fn pin_members(
    (store, composite): (&Client, ObjectId),
    found: &Composite,
    parts: &[&Part],
    members: &mut HashMap<u32, Buffer>,
) -> Result<()> {
    let member = |part: &&Part| match part.place {
        Place::Member(member, _) => Some(member),
        Place::Here(_) => None,
    };
    let mut missing: Vec<u32> =
        parts.iter().filter_map(member).filter(|it| !members.contains_key(it)).collect();
    missing.sort_unstable();
    missing.dedup();
    let id = |member: &u32| found.members.get(*member as usize).copied();
    let ids: Option<Vec<ObjectId>> = missing.iter().map(id).collect();
    let ids = ids.ok_or_else(crate::parts::cut_short)?;
    let buffers = crate::read::members(store, composite, &ids)?;
    for (member, buffer) in missing.into_iter().zip(&buffers) {
        members.insert(member, whole(buffer));
    }
    Ok(())
}

/// Bytes that keep the object pinned in which they lie.
fn buffer_of(piece: Piece) -> Buffer {
    Buffer::from(bytes::Bytes::from_owner(piece))
}
