//! The bytes of a spill file; the table is in `docs/formats/spill.md`.
//!
//! Everything read here may be damaged or another program's: lengths are checked before they are
//! used, and no field is believed before the checksum over it was right.

use std::io::{self, Read, Write};

use crate::FileMeta;

/// The first bytes of a spill file.
pub const MAGIC: [u8; 8] = *b"PLSMSPL1";
/// The version of the format.
pub const VERSION: u32 = 2;
/// Bytes before the description.
pub const FIXED_BYTES: usize = 32;
/// Bytes after the payload.
pub const TRAILER_BYTES: usize = 8;
/// The longest description: attributes with all their members, and room for the rest.
pub const DESCRIPTION_BYTES_MAX: usize = 64 * 1024;

const TRAILER_MAGIC: [u8; 4] = *b"PLSE";

/// Why bytes are not a spill file's.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// The bytes themselves are wrong.
    #[error("{0}")]
    Damaged(&'static str),
    /// It belongs to another store.
    #[error("the file belongs to another store")]
    Stranger,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads exactly `buffer`; an early end is damage and not a failure of the system.
fn fill(file: &mut dyn Read, buffer: &mut [u8]) -> Result<(), BadFile> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(BadFile::Damaged("the file is cut short"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The bytes before the payload.
pub fn encode_header(store: u64, object: &FileMeta) -> Result<Vec<u8>, BadFile> {
    let mut description =
        postcard::to_allocvec(object).map_err(|_| BadFile::Damaged("not describable"))?;
    // Not in the attributes' own encoding, which most objects share with earlier versions.
    description.extend(object.attributes.encode_trailer());
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(BadFile::Damaged("the description is too long"));
    }
    let mut header = Vec::with_capacity(FIXED_BYTES + description.len());
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&(description.len() as u32).to_le_bytes());
    header.extend_from_slice(&store.to_le_bytes());
    header.extend_from_slice(&crc32c::crc32c(&description).to_le_bytes());
    let checksum = crc32c::crc32c(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header.extend_from_slice(&description);
    Ok(header)
}

/// Reads what [`encode_header`] made and leaves the reader at the payload.
pub fn read_header(store: u64, file: &mut dyn Read) -> Result<FileMeta, BadFile> {
    let mut fixed = [0; FIXED_BYTES];
    fill(file, &mut fixed)?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| fixed[at + byte]));
    if fixed[..8] != MAGIC {
        return Err(BadFile::Damaged("not a spill file"));
    }
    if word(8) != VERSION {
        return Err(BadFile::Damaged("another version of the format"));
    }
    if word(28) != crc32c::crc32c(&fixed[..28]) {
        return Err(BadFile::Damaged("the header does not match its checksum"));
    }
    if fixed[16..24] != store.to_le_bytes() {
        return Err(BadFile::Stranger);
    }
    let bytes = word(12) as usize;
    if bytes > DESCRIPTION_BYTES_MAX {
        return Err(BadFile::Damaged("the description is too long"));
    }
    let mut description = vec![0; bytes];
    fill(file, &mut description)?;
    if word(24) != crc32c::crc32c(&description) {
        return Err(BadFile::Damaged("the description does not match its checksum"));
    }
    let unreadable = || BadFile::Damaged("the description cannot be read");
    let (mut object, trailer): (FileMeta, _) =
        postcard::take_from_bytes(&description).map_err(|_| unreadable())?;
    object.attributes.take_trailer(trailer).map_err(|_| unreadable())?;
    let sane = object.sizes.total().is_some() && object.attributes.check().is_ok();
    if sane { Ok(object) } else { Err(BadFile::Damaged("the description exceeds its limits")) }
}

/// Writes the bytes after the payload.
pub fn write_trailer(payload_crc: u32, file: &mut dyn Write) -> io::Result<()> {
    file.write_all(&payload_crc.to_le_bytes())?;
    file.write_all(&TRAILER_MAGIC)
}

/// Reads the bytes after the payload and compares its checksum.
pub fn check_trailer(payload_crc: u32, file: &mut dyn Read) -> Result<(), BadFile> {
    let mut trailer = [0; TRAILER_BYTES];
    fill(file, &mut trailer)?;
    if trailer[4..] != TRAILER_MAGIC {
        return Err(BadFile::Damaged("the trailer is damaged"));
    }
    if trailer[..4] != payload_crc.to_le_bytes() {
        return Err(BadFile::Damaged("the payload does not match its checksum"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::object::{Durability, ObjectMeta, PoolAttributes};
    use plasmon_proto::{Attributes, ObjectId};

    #[test]
    fn only_an_object_in_a_pool_has_more_in_its_description() {
        let (class, origin) = (Durability::Memory, None);
        let pool = PoolAttributes {
            copies: 2,
            copies_min: 1,
            class,
            origin,
            serial: 9,
            ..PoolAttributes::ONE
        };
        let local = Attributes { ttl_ms: Some(5), ..Attributes::default() };
        let pooled = Attributes { pool: Some(pool), ..local.clone() };
        let id = ObjectId::new([1; 20]);
        let bytes = |attributes: &Attributes| {
            let object = FileMeta::new(id, 3, ObjectMeta::default(), attributes.clone());
            let header = encode_header(7, &object).unwrap();
            assert_eq!(read_header(7, &mut &header[..]).unwrap(), object);
            header.len()
        };
        let without = bytes(&local);
        assert_eq!(bytes(&pooled), without + pool.encode_trailer().len());
        assert_eq!(without, FIXED_BYTES + 33, "as before there were pools");
    }
}
