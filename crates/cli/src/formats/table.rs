//! A table in this process's memory, and the IPC stream that it becomes in the store.

use std::io::Write;

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use plasmon_columns::Batches;

/// Every buffer begins at a multiple of this.
const ALIGNMENT: usize = 64;

/// The options with which Arrow data is written, in objects and in files.
pub(super) fn ipc_options() -> Result<IpcWriteOptions> {
    Ok(IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?)
}

/// A table in this process's memory, on its way into the store.
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Table {
    /// Writes the table as an IPC stream.
    pub(super) fn encode(&self, into: impl Write) -> Result<()> {
        let mut writer = StreamWriter::try_new_with_options(into, &self.schema, ipc_options()?)?;
        for batch in &self.batches {
            writer.write(batch)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// How many bytes [`Self::encode`] writes, found by encoding without storing.
    pub(super) fn encoded_bytes(&self) -> Result<u64> {
        let mut count = 0;
        self.encode(Count(&mut count))?;
        Ok(count)
    }
}

struct Count<'a>(&'a mut u64);

impl Write for Count<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The batches of a stored IPC stream.
pub(crate) fn read_stream(stream: &[u8]) -> Result<Batches> {
    let reader = StreamReader::try_new(stream, None)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<_, _>>()?))
}
