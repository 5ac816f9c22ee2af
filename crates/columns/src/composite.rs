//! Making composite objects: of members that are sealed, of Arrow data whose buffers lie in them.

use arrow_buffer::Buffer;
use plasmon_client::{Client, ObjectId, PutOptions, tag};
use plasmon_proto::composite::CompositeWriter;
use plasmon_proto::limits::MEMBERS_MAX;
use plasmon_proto::value::ValueHeader;
use plasmon_proto::{Code, ObjectState};

use crate::error::{Error, Result};
use crate::ipc_encode::{Piece, StreamPieces};

const PUTTING: &str = "putting a composite object";

/// Puts the composite of sealed members. It owns them: they are deleted with it.
pub(crate) fn put(
    store: &Client,
    writer: &CompositeWriter,
    members: &[ObjectId],
    (kind, text): (u8, &str),
    options: &PutOptions,
) -> Result<ObjectId> {
    if options.durable {
        let detail = "a table that is built in place cannot be durable: put the table itself";
        let error = plasmon_client::Error::new(Code::Unsupported, "making a table");
        return Err(error.with_detail(detail).into());
    }
    let metadata = described((kind, text), options)?;
    // With an id of its own the put returns with the verdict. What replaces nothing is refused.
    let chosen = options.id.is_some() || options.name.is_some() || options.replace || options.pool;
    let id = if chosen { options.id } else { Some(store.new_id()) };
    let owns_members = is_pooled(options);
    let tag = tag::COMPOSITE;
    let mut options = PutOptions { id, metadata, tag, owns_members, ..options.clone() };
    let mut groups = Vec::new();
    options.members = grouped(store, members.to_vec(), &mut groups)?;
    let put = store.put(&writer.encode(members), &options).map_err(Error::from);
    put.inspect_err(|_| forget(store, &groups))
}

/// The metadata of a table: what it was, then the caller's own.
pub(crate) fn described((kind, text): (u8, &str), options: &PutOptions) -> Result<Vec<u8>> {
    let header = ValueHeader { kind, text, ..ValueHeader::default() };
    let encoded = header.encode(&options.metadata);
    encoded.ok_or_else(|| Error::Shape("the table's description is too long".to_owned()))
}

/// At most as many objects as one composite may hold, which hold all members: groups of groups.
fn grouped(
    store: &Client,
    mut members: Vec<ObjectId>,
    groups: &mut Vec<ObjectId>,
) -> Result<Vec<ObjectId>> {
    while members.len() > MEMBERS_MAX {
        let mut next = Vec::with_capacity(members.len().div_ceil(MEMBERS_MAX));
        for part in members.chunks(MEMBERS_MAX) {
            let options =
                PutOptions { members: part.to_vec(), owned: true, ..PutOptions::default() };
            next.push(store.put(&[], &options)?);
        }
        groups.extend(&next);
        members = next;
    }
    Ok(members)
}

/// Deletes members of which no composite was made. Those that cannot be deleted now are deleted
/// with this client.
pub(crate) fn forget(store: &Client, members: &[ObjectId]) {
    let _ = store.delete(members);
}

/// Whether the options name an object of a pool.
pub(crate) fn is_pooled(options: &PutOptions) -> bool {
    let named = options.name.as_ref().map(plasmon_client::Name::id);
    options.pool || options.id.or(named).is_some_and(|id| id.is_pooled())
}

/// An error if the object that the options name exists already and is not to be replaced: better
/// reported before anything is sealed.
pub(crate) fn check_free(store: &Client, options: &PutOptions) -> Result<()> {
    let named = options.name.as_ref().map(plasmon_client::Name::id);
    let Some(id) = options.id.or(named) else { return Ok(()) };
    match store.states(&[id])?.first() {
        Some(ObjectState::Sealed | ObjectState::Spilled) if options.replace => Ok(()),
        Some(ObjectState::Creating | ObjectState::Sealed | ObjectState::Spilled) => {
            Err(plasmon_client::Error::new(Code::Exists, PUTTING).with_id(id).into())
        }
        _ => Ok(()),
    }
}

/// The outcome for a stream whose buffers were looked up in memory that is shared already.
#[derive(Debug, Default)]
pub(crate) struct ScatterOutcome {
    pub(crate) writer: CompositeWriter,
    /// Bytes of buffers that lay elsewhere and were copied.
    pub(crate) copied_bytes: u64,
    /// Bytes of buffers that are where they were.
    pub(crate) shared_bytes: u64,
}

/// A stream as a composite: buffers that `locate` knows are members, the others are copied.
pub(crate) fn scatter(
    stream: &StreamPieces,
    mut locate: impl FnMut(&Buffer) -> Option<(u32, u64)>,
) -> ScatterOutcome {
    let mut made = ScatterOutcome::default();
    for piece in &stream.pieces {
        match piece {
            Piece::Header(bytes) => made.writer.push(bytes),
            Piece::Pad => made.writer.pad(),
            Piece::Buffer(buffer) if buffer.is_empty() => {}
            Piece::Buffer(buffer) => {
                let bytes = buffer.len() as u64;
                if let Some((member, offset)) = locate(buffer) {
                    made.writer.push_member(member, offset, bytes);
                    made.shared_bytes += bytes;
                } else {
                    made.writer.push(buffer);
                    made.copied_bytes += bytes;
                }
            }
        }
    }
    made
}
