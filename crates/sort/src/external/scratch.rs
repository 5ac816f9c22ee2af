//! The scratch file: Arrow IPC streams of sorted rows, one after the other. It is written once
//! and never named.
//!
//! It never takes the last of a file system: before each stream is written, what is free there is
//! looked at, and so is the caller's own limit.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

use crate::error::{Error, Result};

/// Where a stream lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLocation {
    pub(super) at: u64,
    pub(super) bytes: usize,
}

/// What a scratch file leaves free: a share of the file system, and no more than some bytes.
const FREE_SHARE: u64 = 64;
const FREE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    folder: PathBuf,
    end: u64,
    bytes_max: u64,
}

impl Scratch {
    /// A file in this folder that takes up to this many bytes.
    pub(super) fn new(folder: &Path, bytes_max: Option<u64>) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|error| failed(folder, error))?;
        Ok(Self {
            file,
            folder: folder.to_owned(),
            end: 0,
            bytes_max: bytes_max.unwrap_or(u64::MAX),
        })
    }

    /// How many bytes it has.
    pub(super) fn bytes(&self) -> u64 {
        self.end
    }

    pub(super) fn append(&mut self, stream: &[u8]) -> Result<StreamLocation> {
        let (at, wanted) = (self.end, self.end + stream.len() as u64);
        self.check(stream.len() as u64)?;
        self.file.write_all_at(stream, at).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                self.full(wanted, 0)
            }
            _ => failed(&self.folder, error),
        })?;
        self.end = wanted;
        Ok(StreamLocation { at, bytes: stream.len() })
    }

    /// Whether this many more bytes can be written.
    pub(super) fn check(&self, bytes: u64) -> Result<()> {
        let wanted = self.end.saturating_add(bytes);
        if wanted > self.bytes_max {
            let (folder, limit) = (self.folder.display().to_string(), self.bytes_max);
            return Err(Error::ScratchLimit { folder, wanted, limit });
        }
        let free = free_bytes(&self.file).map_err(|error| failed(&self.folder, error))?;
        if bytes > free { Err(self.full(wanted, free)) } else { Ok(()) }
    }

    fn full(&self, wanted: u64, free: u64) -> Error {
        let folder = self.folder.display().to_string();
        Error::ScratchFull { folder, wanted, found: self.end + free }
    }

    /// The rows of a stream, which is one that was appended.
    pub(super) fn read(&self, stored: StreamLocation) -> Result<Vec<RecordBatch>> {
        let mut bytes = MutableBuffer::from_len_zeroed(stored.bytes);
        let read = self.file.read_exact_at(bytes.as_slice_mut(), stored.at);
        read.map_err(|error| failed(&self.folder, error))?;
        decode_in_place(bytes.into())
    }
}

/// What may be written to the file system of a file.
fn free_bytes(file: &File) -> std::io::Result<u64> {
    let found = rustix::fs::fstatvfs(file)?;
    let left = (found.f_blocks.saturating_mul(found.f_frsize) / FREE_SHARE).min(FREE_BYTES_MAX);
    Ok(found.f_bavail.saturating_mul(found.f_frsize).saturating_sub(left))
}

fn failed(folder: &Path, source: std::io::Error) -> Error {
    Error::Scratch { folder: folder.display().to_string(), source }
}

/// The batches of a stream, on a copy of its bytes.
pub(super) fn decode(stream: &[u8]) -> Result<Vec<RecordBatch>> {
    let mut bytes = MutableBuffer::with_capacity(stream.len());
    bytes.extend_from_slice(stream);
    decode_in_place(bytes.into())
}

fn decode_in_place(mut bytes: Buffer) -> Result<Vec<RecordBatch>> {
    let (mut decoder, mut batches) = (StreamDecoder::new(), Vec::new());
    while !bytes.is_empty() {
        batches.extend(decoder.decode(&mut bytes)?);
    }
    Ok(batches)
}

/// A stream of these rows, and of no others that their arrays refer to.
pub(super) fn encode(batch: &RecordBatch) -> Result<Vec<u8>> {
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options)?;
    writer.write(batch)?;
    Ok(writer.into_inner()?)
}
