//! The records of a frame.

use plasmon_proto::ObjectId;
use plasmon_proto::object::PoolAttributes;
use plasmon_spill::FileMeta;

use super::CHUNK_BYTES;
use super::fields::Fields;
use crate::Lsn;

const PUT: u8 = 1;
const DEAD: u8 = 2;

/// The longest description: attributes with all their members, and room for the rest.
const DESCRIPTION_BYTES_MAX: usize = 64 * 1024;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutRecord {
    /// The record's number; a copy that garbage collection makes keeps it.
    pub lsn: Lsn,
    /// The object's id.
    pub id: ObjectId,
    /// Where its payload begins in the frame.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// The checksum of the payload, or of the table `chunks` where there is one.
    pub crc: u32,
    /// The checksum of each chunk, where there are several. A summary leaves them out.
    pub chunks: Vec<u32>,
    /// The object, encoded ([`describe`]).
    pub description: Vec<u8>,
}

/// The end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadRecord {
    /// The record's number.
    pub lsn: Lsn,
    /// The last record of the id that is dead; all before it are dead, too.
    pub of: Lsn,
    /// The object's id.
    pub id: ObjectId,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An object.
    Put(PutRecord),
    /// The end of one.
    Dead(DeadRecord),
}

/// The number of checksums of a payload of so many bytes.
pub fn chunk_count(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK_BYTES)
}

impl PutRecord {
    /// Bytes before description and table.
    pub const FIXED_BYTES: usize = 60;

    /// The bytes of a record with such a description and payload.
    pub fn encoded_bytes(description_bytes: usize, payload_bytes: u64) -> u64 {
        let chunks = chunk_count(payload_bytes);
        let table = if chunks > 1 { 4 * chunks } else { 0 };
        (Self::FIXED_BYTES + description_bytes) as u64 + table
    }

    /// The checksum of a table of chunks.
    pub fn table_crc(chunks: &[u32]) -> u32 {
        chunks.iter().fold(0, |crc, chunk| crc32c::crc32c_append(crc, &chunk.to_le_bytes()))
    }

    /// Keeps the checksums of the chunks as the format has them.
    pub fn set_chunks(&mut self, chunks: Vec<u32>) {
        if chunks.len() > 1 {
            self.crc = Self::table_crc(&chunks);
            self.chunks = chunks;
        } else {
            self.crc = chunks.first().copied().unwrap_or(0);
            self.chunks = Vec::new();
        }
    }

    /// Whether the table of chunks is there, if there has to be one, and is the right one.
    pub fn has_chunks(&self) -> bool {
        let count = chunk_count(self.bytes);
        if count <= 1 {
            return self.chunks.is_empty();
        }
        self.chunks.len() as u64 == count && Self::table_crc(&self.chunks) == self.crc
    }

    /// The checksum of one chunk.
    pub fn chunk_crc(&self, index: u64) -> Option<u32> {
        if self.chunks.is_empty() {
            return (index == 0).then_some(self.crc);
        }
        self.chunks.get(usize::try_from(index).ok()?).copied()
    }
}

impl DeadRecord {
    /// The bytes of such a record.
    pub const ENCODED_BYTES: usize = 44;
}

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Put(put) => {
                out.extend_from_slice(&[PUT, 0, 0, 0]);
                out.extend_from_slice(&(put.description.len() as u32).to_le_bytes());
                out.extend_from_slice(&put.lsn.to_le_bytes());
                out.extend_from_slice(&put.offset.to_le_bytes());
                out.extend_from_slice(&put.bytes.to_le_bytes());
                out.extend_from_slice(&put.crc.to_le_bytes());
                out.extend_from_slice(&(put.chunks.len() as u32).to_le_bytes());
                out.extend_from_slice(put.id.as_bytes());
                out.extend_from_slice(&put.description);
                put.chunks.iter().for_each(|chunk| out.extend_from_slice(&chunk.to_le_bytes()));
            }
            Self::Dead(dead) => {
                out.extend_from_slice(&[DEAD, 0, 0, 0, 0, 0, 0, 0]);
                out.extend_from_slice(&dead.lsn.to_le_bytes());
                out.extend_from_slice(&dead.of.to_le_bytes());
                out.extend_from_slice(dead.id.as_bytes());
            }
        }
    }

    /// Takes a record off the front of `fields`.
    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.byte()?;
        fields.bytes(3)?;
        let description_bytes = fields.u32()? as usize;
        let lsn = fields.u64()?;
        match kind {
            PUT => {
                let (offset, bytes) = (fields.u64()?, fields.u64()?);
                let (crc, chunks) = (fields.u32()?, fields.u32()? as usize);
                let id = ObjectId::new(fields.array()?);
                let description = fields.bytes(description_bytes)?.to_vec();
                let table = fields.bytes(chunks.checked_mul(4)?)?;
                let chunks = table.chunks_exact(4).filter_map(|word| Fields(word).u32()).collect();
                Some(Self::Put(PutRecord { lsn, id, offset, bytes, crc, chunks, description }))
            }
            DEAD => {
                let of = fields.u64()?;
                let id = ObjectId::new(fields.array()?);
                Some(Self::Dead(DeadRecord { lsn, of, id }))
            }
            _ => None,
        }
    }

    /// Reads so many records, which are all there is.
    pub fn decode_all(bytes: &[u8], count: u32) -> Option<Vec<Self>> {
        let mut fields = Fields(bytes);
        let records: Option<Vec<_>> = (0..count).map(|_| Self::take(&mut fields)).collect();
        records.filter(|_| fields.0.is_empty())
    }
}

/// Encodes what a record says of an object besides its payload.
pub fn describe(object: &FileMeta) -> Option<Vec<u8>> {
    let mut description = postcard::to_allocvec(object).ok()?;
    // Not in the attributes' own encoding, which objects in no pool share with earlier versions.
    if let Some(pool) = &object.attributes.pool {
        description.extend(pool.encode_trailer());
    }
    (description.len() <= DESCRIPTION_BYTES_MAX).then_some(description)
}

/// Reads what [`describe`] made; `None` where it is not the description of `record`.
pub fn decode_object(record: &PutRecord) -> Option<FileMeta> {
    let (mut object, trailer): (FileMeta, _) =
        postcard::take_from_bytes(&record.description).ok()?;
    object.attributes.pool = PoolAttributes::decode_trailer(trailer).ok()?;
    let same = object.id == record.id && object.sizes.total() == Some(record.bytes);
    (same && object.attributes.check().is_ok()).then_some(object)
}
