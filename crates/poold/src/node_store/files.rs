//! A copy that is read in the file that it was spilled to: the store keeps it there.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use plasmon_pool::Birth;
use plasmon_proto::Attributes;
use plasmon_proto::limits::ATTRIBUTES_BYTES_MAX;
use plasmon_proto::message::SpillFile;

use super::connection::OpenRequest;
use crate::memory::Source;

/// A spilled copy. Its file does not change, and is readable until this value ends.
#[derive(Debug)]
pub(super) struct SpilledCopy {
    file: File,
    about: SpillFile,
    open: OpenRequest,
    /// Whether it is the incarnation that is wanted, once that was looked up in the file.
    is_wanted: OnceLock<bool>,
}

impl SpilledCopy {
    pub(super) fn new(file: OwnedFd, about: SpillFile, open: OpenRequest) -> Self {
        Self { file: file.into(), about, open, is_wanted: OnceLock::new() }
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let end = offset.checked_add(into.len() as u64)?;
        if end > self.bytes() {
            return None;
        }
        let at = self.about.offset.checked_add(offset)?;
        let read = self.file.read_exact_at(into, at);
        let failed = |error: &_| {
            let object = self.open.id;
            tracing::warn!(%object, %error, "a spilled copy cannot be read");
        };
        read.inspect_err(failed).ok()
    }

    /// The incarnation that the attributes in the file are of.
    fn birth(&self) -> Option<Birth> {
        let sizes = self.about.sizes;
        let length = usize::try_from(sizes.attributes).ok()?;
        if length > ATTRIBUTES_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; length];
        self.read(sizes.data.checked_add(sizes.metadata)?, &mut bytes)?;
        let OpenRequest { here, .. } = self.open;
        Some(Attributes::decode(&bytes).ok()?.pool?.birth(here))
    }
}

impl Source for SpilledCopy {
    fn bytes(&self) -> u64 {
        self.about.sizes.total().unwrap_or(0)
    }

    /// Nothing of it is in memory.
    fn part(&self, _: u64, _: usize) -> &[u8] {
        &[]
    }

    fn gather(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) -> bool {
        let is_wanted = *self.is_wanted.get_or_init(|| self.birth() == Some(self.open.birth));
        into.clear();
        into.resize(bytes, 0);
        is_wanted && self.read(offset, into).is_some()
    }

    fn is_in_memory(&self) -> bool {
        false
    }
}
