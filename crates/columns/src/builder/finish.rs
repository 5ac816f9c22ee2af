//! From the tree of a column to an object, or to arrays of this process.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use plasmon_client::{Client, GrowingObject, ObjectId, PutOptions, tag};
use plasmon_proto::composite::CompositeWriter;
use plasmon_proto::limits::{MEMBERS_MAX, OBJECT_ALIGN};

use super::node::Node;
use super::stream::{self, Sink, Slot};
use crate::checks::Checks;
use crate::composite;
use crate::error::{Error, Result};
use crate::ipc_decode::decode;
use crate::memory::Bytes;
use crate::parts::Stream;

/// The kind of value in the object: [`plasmon_proto::value::table_kind`].
pub(crate) type Kind = u8;

/// A pool commits, records and moves each member as an object of its own. If they are shorter than
/// that on average, a copy takes less.
const POOLED_MEMBER_BYTES: u64 = 256 << 10;

/// The columns of one batch.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Node>,
}

/// Columns that become an object.
pub(crate) struct ColumnSet<'a> {
    pub(crate) store: &'a Client,
    pub(crate) schema: &'a SchemaRef,
    pub(crate) kind: Kind,
}

impl ColumnSet<'_> {
    /// Seals the memory of the columns, and makes the composite object of it.
    pub(crate) fn seal(&self, batches: Vec<Batch>, options: &PutOptions) -> Result<ObjectId> {
        let mut sink = InParts::default();
        stream::write(self.schema, &borrowed(&batches), &mut sink)?;
        let is_pooled = composite::is_pooled(options);
        if sink.is_lost || is_pooled && !sink.is_worth_members() {
            return self.copy(&batches, options);
        }
        let memories = memories(batches);
        let grown: Vec<ObjectId> = memories.iter().map(|(memory, _)| memory.id()).collect();
        let mut members = Vec::with_capacity(grown.len());
        let sealed = if is_pooled {
            GrowingObject::seal_all_pooled(memories, options, &mut members)
        } else {
            members.clone_from(&grown);
            GrowingObject::seal_all(memories).map(drop)
        };
        let composed = sealed.map_err(Error::from).and_then(|()| {
            let members = sink.ordered(&grown, &members);
            composite::put(self.store, &sink.writer, &members, (self.kind, ""), options)
        });
        composed.inspect_err(|_| composite::forget(self.store, &members))
    }

    /// Copies what was built into an ordinary object: the daemon that gave the memory is gone, or
    /// members are not worth it in a pool. It is written where it will lie.
    fn copy(&self, batches: &[Batch], options: &PutOptions) -> Result<ObjectId> {
        let batches = borrowed(batches);
        let mut length = Length::default();
        stream::write(self.schema, &batches, &mut length)?;
        let metadata = composite::described((self.kind, ""), options)?;
        let options = PutOptions { tag: tag::ARROW_STREAM, metadata, ..options.clone() };
        let mut object = self.store.create(length.0, &options)?;
        let mut sink = InPlace { left: &mut object, written: 0 };
        stream::write(self.schema, &batches, &mut sink)?;
        assert_eq!(sink.written, length.0, "a stream is as long each time that it is written");
        Ok(object.seal()?)
    }
}

fn borrowed(batches: &[Batch]) -> Vec<(usize, Vec<&Node>)> {
    batches.iter().map(|batch| (batch.rows, batch.columns.iter().collect())).collect()
}

/// A copy of what was built so far, as batches of this process alone.
pub(crate) fn snapshot(
    schema: &SchemaRef,
    batches: &[(usize, Vec<&Node>)],
) -> Result<Vec<RecordBatch>> {
    let mut sink = Contiguous::default();
    stream::write(schema, batches, &mut sink)?;
    let (_, batches) = decode(&Stream::whole(sink.0.into()), &mut Checks::all())?;
    Ok(batches)
}

fn memories(batches: Vec<Batch>) -> Vec<(GrowingObject, usize)> {
    let mut buffers = Vec::new();
    let mut nodes: Vec<Node> = batches.into_iter().flat_map(|batch| batch.columns).collect();
    while !nodes.is_empty() {
        let mut dictionaries = Vec::new();
        nodes.into_iter().for_each(|it| stream::into_buffers(it, &mut buffers, &mut dictionaries));
        nodes = dictionaries;
    }
    buffers.into_iter().filter_map(Bytes::into_memory).collect()
}

/// The stream with its buffers as members, which are numbered as they come.
#[derive(Default)]
struct InParts {
    writer: CompositeWriter,
    numbers: HashMap<ObjectId, u32>,
    member_bytes: u64,
    is_lost: bool,
}

impl InParts {
    /// The members by the numbers of the memory that they are made of.
    fn ordered(&self, grown: &[ObjectId], members: &[ObjectId]) -> Vec<ObjectId> {
        let number = |id: &ObjectId| self.numbers.get(id).copied().unwrap_or(u32::MAX);
        let mut ordered: Vec<_> = grown.iter().map(number).zip(members.iter().copied()).collect();
        ordered.sort_by_key(|(number, _)| *number);
        ordered.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether members cost a pool less than a copy does.
    fn is_worth_members(&self) -> bool {
        let count = self.numbers.len();
        count <= MEMBERS_MAX && self.member_bytes >= count as u64 * POOLED_MEMBER_BYTES
    }
}

impl Sink for InParts {
    fn bytes(&mut self, bytes: &[u8]) {
        self.writer.push(bytes);
    }

    fn pad(&mut self) {
        self.writer.pad();
    }

    fn buffer(&mut self, slot: Slot<'_>) {
        match slot {
            Slot::Empty => {}
            Slot::Zeroes(bytes) => self.writer.zeroes(bytes as u64),
            Slot::Bytes(bytes) => {
                if let Some(memory) = bytes.memory() {
                    let next = self.numbers.len() as u32;
                    let number = *self.numbers.entry(memory.id()).or_insert(next);
                    self.member_bytes += bytes.len() as u64;
                    self.is_lost |= memory.is_lost();
                    self.writer.push_member(number, 0, bytes.len() as u64);
                }
            }
        }
    }

    fn stream_bytes(&self) -> u64 {
        self.writer.stream_bytes()
    }
}

/// How long the stream is.
#[derive(Default)]
struct Length(u64);

impl Sink for Length {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }

    fn pad(&mut self) {
        self.0 = self.0.next_multiple_of(OBJECT_ALIGN);
    }

    fn buffer(&mut self, slot: Slot<'_>) {
        self.0 += match slot {
            Slot::Empty => 0,
            Slot::Zeroes(bytes) => bytes as u64,
            Slot::Bytes(bytes) => bytes.as_slice().len() as u64,
        };
    }

    fn stream_bytes(&self) -> u64 {
        self.0
    }
}

/// The stream as the bytes of an object, which has just as many.
struct InPlace<'a> {
    left: &'a mut [u8],
    written: u64,
}

impl InPlace<'_> {
    /// The next bytes to be written.
    fn take(&mut self, bytes: usize) -> &mut [u8] {
        let (next, left) = std::mem::take(&mut self.left).split_at_mut(bytes);
        self.left = left;
        self.written += bytes as u64;
        next
    }
}

impl Sink for InPlace<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.take(bytes.len()).copy_from_slice(bytes);
    }

    fn pad(&mut self) {
        let end = self.written.next_multiple_of(OBJECT_ALIGN);
        self.take((end - self.written) as usize).fill(0);
    }

    fn buffer(&mut self, slot: Slot<'_>) {
        match slot {
            Slot::Empty => {}
            Slot::Zeroes(bytes) => self.take(bytes).fill(0),
            Slot::Bytes(bytes) => self.bytes(bytes.as_slice()),
        }
    }

    fn stream_bytes(&self) -> u64 {
        self.written
    }
}

/// The stream as bytes.
#[derive(Default)]
struct Contiguous(Vec<u8>);

impl Sink for Contiguous {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(OBJECT_ALIGN as usize), 0);
    }

    fn buffer(&mut self, slot: Slot<'_>) {
        match slot {
            Slot::Empty => {}
            Slot::Zeroes(bytes) => self.0.resize(self.0.len() + bytes, 0),
            Slot::Bytes(bytes) => self.0.extend_from_slice(bytes.as_slice()),
        }
    }

    fn stream_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}
