//! Making composite objects: of members that are sealed, of Arrow data whose buffers lie in them.

use arrow_buffer::Buffer;
use arrow_ipc::root_as_message;
use arrow_schema::ArrowError;
use plasmon_client::{ObjectId, PutOptions, Store, tag};
use plasmon_proto::composite::CompositeWriter;
use plasmon_proto::limits::MEMBERS_MAX;
use plasmon_proto::value::ValueHeader;
use plasmon_proto::{Code, ObjectState};

use crate::error::{Error, Result};

const PUTTING: &str = "putting a composite object";

/// Puts the composite of sealed members. They are owned by it: they go when it goes.
pub(crate) fn put(
    store: &Store,
    writer: &CompositeWriter,
    members: &[ObjectId],
    kind: u8,
    options: &PutOptions,
) -> Result<ObjectId> {
    let header = ValueHeader { kind, ..ValueHeader::default() };
    let metadata = header.encode(&options.metadata).unwrap_or_default();
    // With an id of its own the put returns with the verdict.
    let chosen = options.id.is_some() || options.name.is_some();
    let id = if chosen { options.id } else { Some(store.new_id()) };
    let mut options = PutOptions { id, metadata, tag: tag::COMPOSITE, ..options.clone() };
    let mut groups = Vec::new();
    options.members = grouped(store, members.to_vec(), &mut groups)?;
    let put = store.put(&writer.encode(members), &options).map_err(Error::from);
    put.inspect_err(|_| forget(store, &groups))
}

/// At most so many objects as one composite may hold, which hold all members: groups of groups.
fn grouped(
    store: &Store,
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

/// Deletes members of which no composite was made. What cannot be deleted now goes with this
/// client.
pub(crate) fn forget(store: &Store, members: &[ObjectId]) {
    let _ = store.delete(members);
}

/// An error if the object that the options name exists already: better told before anything is
/// sealed.
pub(crate) fn check_free(store: &Store, options: &PutOptions) -> Result<()> {
    let named = options.name.as_ref().map(plasmon_client::Name::id);
    let Some(id) = options.id.or(named) else { return Ok(()) };
    match store.states(&[id])?.first() {
        Some(ObjectState::Creating | ObjectState::Sealed | ObjectState::Spilled) => {
            Err(plasmon_client::Error::new(Code::Exists, PUTTING).with_id(id).into())
        }
        _ => Ok(()),
    }
}

/// What became of a stream whose buffers were looked for in memory that is shared already.
#[derive(Debug, Default)]
pub(crate) struct Scattering {
    pub(crate) writer: CompositeWriter,
    /// Bytes of buffers that lay elsewhere and were copied.
    pub(crate) copied_bytes: u64,
    /// Bytes of buffers that are where they were.
    pub(crate) shared_bytes: u64,
}

/// The pieces of an IPC stream as a composite: those that `locate` knows as members.
pub(crate) fn scatter(
    pieces: &[Buffer],
    mut locate: impl FnMut(&Buffer) -> Option<(u32, u64)>,
) -> Result<Scattering> {
    let mut made = Scattering::default();
    let mut bodies = Bodies::default();
    for piece in pieces {
        if !bodies.is_body(piece)? {
            made.writer.push(piece);
        } else if let Some((member, offset)) = locate(piece) {
            made.writer.push_member(member, offset, piece.len() as u64);
            made.shared_bytes += piece.len() as u64;
        } else if is_padding(piece) {
            made.writer.zeroes(piece.len() as u64);
        } else {
            made.writer.push(piece);
            made.copied_bytes += piece.len() as u64;
        }
    }
    Ok(made)
}

/// The pieces that are buffers of an IPC stream, not headers or padding.
pub(crate) fn buffers(pieces: &[Buffer]) -> Result<Vec<&Buffer>> {
    let mut bodies = Bodies::default();
    let mut found = Vec::new();
    for piece in pieces {
        if bodies.is_body(piece)? && !piece.is_empty() && !is_padding(piece) {
            found.push(piece);
        }
    }
    Ok(found)
}

/// Whether it is as good as absent: gaps of a composite are zeroes.
fn is_padding(piece: &Buffer) -> bool {
    piece.len() < plasmon_proto::limits::OBJECT_ALIGN as usize
        && piece.iter().all(|byte| *byte == 0)
}

/// Tells bodies from headers in a stream that comes in pieces.
#[derive(Debug, Default)]
struct Bodies {
    header: Vec<u8>,
    body_left: u64,
}

impl Bodies {
    fn is_body(&mut self, piece: &[u8]) -> Result<bool> {
        if self.body_left > 0 {
            self.body_left = self.body_left.saturating_sub(piece.len() as u64);
            return Ok(true);
        }
        self.header.extend_from_slice(piece);
        let Some(length) = self.header.get(4..8) else { return Ok(false) };
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if self.header.len() < 8 + length {
            return Ok(false);
        }
        if length > 0 {
            let message = root_as_message(&self.header[8..])
                .map_err(|error| ArrowError::IpcError(error.to_string()))?;
            self.body_left = u64::try_from(message.bodyLength()).unwrap_or_default();
        }
        self.header.clear();
        Ok(false)
    }
}
