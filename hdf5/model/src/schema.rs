//! The schema of a file of data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use plasmon_arrow_ipc::PREFIX_BYTES;

use crate::image::{MAGIC, VERSION_KEY};
use crate::table::CHUNK_KEY;

/// The prefix of the names of mirrored attributes in the schema's metadata.
pub const ATTRIBUTE: &str = "hdf5.attribute.";

/// The longest message or foot that is read.
const BYTES_MAX: u32 = 16 << 20;

/// The facts in the schema besides the types of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaFacts {
    /// The name of the first column.
    pub(crate) first: String,
    /// The metadata, but for what every file has.
    pub(crate) metadata: Vec<(String, String)>,
}

impl SchemaFacts {
    /// The dimensions of the program's chunks; empty when it has none.
    pub(crate) fn chunk(&self) -> Vec<u64> {
        let entry = self.metadata.iter().find(|(key, _)| key == CHUNK_KEY);
        let dimensions = entry.map(|(_, text)| text.split(',').map(str::parse).collect());
        dimensions.and_then(Result::ok).unwrap_or_default()
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file has no Arrow schema")
}

/// Reads the schema from the head.
pub(crate) fn read(file: &File) -> io::Result<SchemaFacts> {
    let (message, _) = head(file)?;
    let message = arrow_ipc::root_as_message(&message).map_err(|_| invalid())?;
    let schema = message.header_as_schema().ok_or_else(invalid)?;
    let name = schema.fields().and_then(|fields| fields.iter().next()?.name());
    let entries = schema.custom_metadata().into_iter().flatten();
    let metadata = entries
        .filter_map(|entry| Some((entry.key()?.to_owned(), entry.value()?.to_owned())))
        .filter(|(key, _)| key != VERSION_KEY)
        .collect();
    Ok(SchemaFacts { first: name.unwrap_or_default().to_owned(), metadata })
}

/// Where the text of an entry of the metadata is in the file's head, and the text.
pub(crate) fn entry(file: &File, key: &str) -> io::Result<Option<(u64, String)>> {
    let (message, at) = head(file)?;
    let parsed = arrow_ipc::root_as_message(&message).map_err(|_| invalid())?;
    let schema = parsed.header_as_schema().ok_or_else(invalid)?;
    let mut entries = schema.custom_metadata().into_iter().flatten();
    let text = entries.find(|entry| entry.key() == Some(key)).and_then(|entry| entry.value());
    Ok(text.map(|text| {
        let within = text.as_ptr().addr() - message.as_ptr().addr();
        (at + within as u64, text.to_owned())
    }))
}

/// The schema's message, and where it begins.
fn head(file: &File) -> io::Result<(Vec<u8>, u64)> {
    let mut start = [0; 16];
    file.read_exact_at(&mut start, 0)?;
    let length = u32::from_le_bytes([start[12], start[13], start[14], start[15]]);
    if &start[..6] != MAGIC || length > BYTES_MAX {
        return Err(invalid());
    }
    let mut message = vec![0; length as usize];
    file.read_exact_at(&mut message, start.len() as u64)?;
    Ok((message, start.len() as u64))
}

/// The number of rows in a record batch's message, and the length of its body.
pub(crate) fn batch_rows(message: &[u8]) -> Option<(u64, u64)> {
    let message = arrow_ipc::root_as_message(message.get(PREFIX_BYTES..)?).ok()?;
    let rows = message.header_as_record_batch()?.length();
    Some((u64::try_from(rows).ok()?, u64::try_from(message.bodyLength()).ok()?))
}

/// Where the foot of a file begins; `None` when it does not end like an Arrow file.
pub(crate) fn foot_at(file: &File, bytes: u64) -> io::Result<Option<u64>> {
    let mut end = [0; 10];
    let Some(end_at) = bytes.checked_sub(end.len() as u64) else { return Ok(None) };
    file.read_exact_at(&mut end, end_at)?;
    let length = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    if &end[4..] != MAGIC || length > BYTES_MAX {
        return Ok(None);
    }
    // Before the footer stand 8 bytes that end the stream.
    Ok(end_at.checked_sub(u64::from(length) + PREFIX_BYTES as u64))
}
