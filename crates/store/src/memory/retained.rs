//! Memory of extents that were dropped and that the machine has not taken back.
//!
//! The kernel keeps the pages of a sealed extent for as long as any process has it mapped or open.
//! So what is dropped stays charged until the daemon knows that it is gone:
//!
//! ```text
//!  drop ──► leaving ──(all clients have unmapped it)─────► released
//!              └──(a client does not unmap it)───► held ──────┘
//! ```
//!
//! Requests wait for what is leaving, which is never for long. For what is held they do not wait:
//! the client that has it may be stopped for any time.

use std::collections::BTreeMap;

use plasmon_proto::extent::ExtentId;

/// One extent that was dropped.
#[derive(Clone, Copy, Debug)]
struct Remains {
    bytes: u64,
    is_held: bool,
}

/// All memory that was dropped and is still there.
#[derive(Debug, Default)]
pub(crate) struct RetainedMemory {
    by_extent: BTreeMap<ExtentId, Remains>,
    leaving_bytes: u64,
    held_bytes: u64,
}

impl RetainedMemory {
    /// Bytes that are still there.
    pub(crate) fn bytes(&self) -> u64 {
        self.leaving_bytes.saturating_add(self.held_bytes)
    }

    /// Bytes of them that will be gone, or held, in a moment.
    pub(crate) fn leaving_bytes(&self) -> u64 {
        self.leaving_bytes
    }

    /// Bytes of them that a process does not let go.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// How many bytes of this extent are still there.
    #[cfg(test)]
    pub(crate) fn bytes_of(&self, extent: ExtentId) -> Option<u64> {
        self.by_extent.get(&extent).map(|remains| remains.bytes)
    }

    /// An extent was dropped.
    pub(super) fn leave(&mut self, extent: ExtentId, bytes: u64) {
        self.put(extent, Some(Remains { bytes, is_held: false }));
    }

    /// A process does not let go of this many bytes.
    pub(super) fn hold(&mut self, extent: ExtentId, bytes: u64) {
        self.put(extent, Some(Remains { bytes, is_held: true }));
    }

    /// The memory is gone.
    pub(super) fn release(&mut self, extent: ExtentId) {
        self.put(extent, None);
    }

    fn put(&mut self, extent: ExtentId, remains: Option<Remains>) {
        let before = match remains {
            Some(remains) => self.by_extent.insert(extent, remains),
            None => self.by_extent.remove(&extent),
        };
        for (change, grows) in [(before, false), (remains, true)] {
            let Some(Remains { bytes, is_held }) = change else { continue };
            let sum = if is_held { &mut self.held_bytes } else { &mut self.leaving_bytes };
            *sum = if grows { sum.saturating_add(bytes) } else { sum.saturating_sub(bytes) };
        }
    }
}
