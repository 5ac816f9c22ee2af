//! Streaming copies into a mapped file, each to the next place: what storing bytes in persistent
//! memory costs without a log around it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate};
use serde::Deserialize;

use super::copy::streaming;
use crate::protocol::Samples;
use crate::source::{Mapping, Pages, Payload};
use crate::timing::Series;

/// As long as the objects of several rounds: the places are no longer in a cache when it is full.
const FILE_BYTES_MIN: usize = 512 << 20;

#[derive(Debug, Deserialize)]
pub(crate) struct StreamSeries {
    object_bytes: usize,
    count: u64,
    /// The folder of the file, which is removed afterwards.
    folder: PathBuf,
}

impl StreamSeries {
    pub(crate) fn run(self) -> Result<Samples> {
        let path = self.folder.join("streamed");
        let outcome = self.measure(&path);
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        outcome
    }

    fn measure(&self, path: &Path) -> Result<Samples> {
        ensure!(self.object_bytes > 0, "a copy of at least one byte");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let place_bytes = self.object_bytes.next_multiple_of(4096);
        let bytes = FILE_BYTES_MIN.max(2 * place_bytes) / place_bytes * place_bytes;
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        let mut target = Mapping::new(&file, bytes, true, Pages::Present)?;
        let payload = Payload::new(self.object_bytes, None)?;
        let mut at = 0;
        let copy = || {
            streaming(payload.as_slice(), &mut target.as_mut_slice()[at..at + self.object_bytes])?;
            at = (at + place_bytes) % bytes;
            Ok(())
        };
        Series { count: self.count, batch: 1 }.take(copy, || Ok(()))
    }
}
