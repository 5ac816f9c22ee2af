//! The scratch file: Arrow IPC streams of sorted rows, one behind the other. It is written once
//! and never named.

use std::fs::File;
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
pub(super) struct Stored {
    pub(super) at: u64,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    folder: PathBuf,
    end: u64,
}

impl Scratch {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|error| failed(folder, error))?;
        Ok(Self { file, folder: folder.to_owned(), end: 0 })
    }

    pub(super) fn append(&mut self, stream: &[u8]) -> Result<Stored> {
        let at = self.end;
        self.file.write_all_at(stream, at).map_err(|error| failed(&self.folder, error))?;
        self.end += stream.len() as u64;
        Ok(Stored { at, bytes: stream.len() })
    }

    /// The rows of a stream, which is one that was appended.
    pub(super) fn read(&self, stored: Stored) -> Result<Vec<RecordBatch>> {
        let mut bytes = MutableBuffer::from_len_zeroed(stored.bytes);
        let read = self.file.read_exact_at(bytes.as_slice_mut(), stored.at);
        read.map_err(|error| failed(&self.folder, error))?;
        decode_in_place(bytes.into())
    }
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
