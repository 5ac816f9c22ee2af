//! The bytes that are put, and the shared mappings that limits are measured in.

use std::fs::File;
use std::ptr::{NonNull, null_mut};

use anyhow::{Context, Result, ensure};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Whose pages are present before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The kernel makes each at its first touch.
    Absent,
    /// All are made when the mapping is.
    Present,
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping belongs to this value alone, which unmaps it when it is dropped, and is plain
// memory without ties to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; writing takes `&mut self` or goes through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of a file.
    pub(crate) fn new(file: impl AsFd, bytes: usize, writable: bool, pages: Pages) -> Result<Self> {
        let mut flags = MapFlags::SHARED;
        if pages == Pages::Present {
            flags |= MapFlags::POPULATE;
        }
        let mut protection = ProtFlags::READ;
        if writable {
            protection |= ProtFlags::WRITE;
        }
        // SAFETY: the kernel chooses an address that is not in use.
        let base = unsafe { mmap(null_mut(), bytes, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).context("a mapping at address zero")?;
        Ok(Self { base, bytes, writable })
    }

    /// A new memfd, mapped for writing.
    pub(crate) fn anonymous(bytes: usize, pages: Pages) -> Result<(Self, OwnedFd)> {
        let file = memfd_create("plasmon-bench", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, bytes as u64)?;
        Ok((Self::new(&file, bytes, true, pages)?, file))
    }

    /// The mapped bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is readable over its whole length until `self` is dropped. Files that
        // are read this way are not written meanwhile: the harness fills a source before it
        // names it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }

    /// The mapped bytes, for writing.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.writable, "a mapping made for reading is written");
        // SAFETY: as above, writable as just checked, and not borrowed elsewhere.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    /// A word of the mapping that another process uses as well.
    pub(crate) fn atomic<T: Atomic>(&self, offset: usize) -> &T {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "a word lies inside");
        // SAFETY: in bounds and aligned as just checked; both processes only use it as an atomic.
        unsafe { self.base.add(offset).cast::<T>().as_ref() }
    }
}

/// Types that may be laid over shared memory.
pub(crate) trait Atomic {}
impl Atomic for std::sync::atomic::AtomicU32 {}
impl Atomic for std::sync::atomic::AtomicU64 {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and ends here, with its borrows.
        let outcome = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "a mapping of our own is unmapped");
    }
}

/// What is put: bytes of our own, or a file of the harness that every side maps, so that all copy
/// from the same memory.
#[derive(Debug)]
pub(crate) enum Payload {
    Own(Vec<u8>),
    Source(Mapping),
}

impl Payload {
    /// `bytes` bytes, from the file when there is one.
    pub(crate) fn new(bytes: usize, source: Option<&str>) -> Result<Self> {
        let Some(path) = source else {
            // Not all equal, so that nothing can compress or deduplicate it; not random, so that
            // runs are alike.
            return Ok(Self::Own((0..bytes).map(|i| (i % 251) as u8).collect()));
        };
        let file = File::open(path).with_context(|| format!("opening the source {path}"))?;
        ensure!(file.metadata()?.len() >= bytes as u64, "the source {path} is too short");
        Ok(Self::Source(Mapping::new(&file, bytes, false, Pages::Present)?))
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Source(mapping) => mapping.as_slice(),
        }
    }
}
