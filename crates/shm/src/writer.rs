//! Memory that is leased to this process for writing.
//!
//! The daemon leases ranges of an extent; [`WriteExtent::lease`] turns one into a [`Span`], which
//! is owned like a `Box<[u8]>`: it can be split, filled and sent to another thread. When an object
//! in it is announced, the span is given up, and with it the last way to change those bytes.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, OwnedFd};
use std::slice;
use std::sync::Arc;

use crate::copy;
use crate::inherited::{self, HiddenRange};
use crate::map::{Populate, WriteMap};
use crate::memfd::Memfd;

/// An extent that this process writes to.
#[derive(Debug)]
pub struct WriteExtent {
    /// Before the descriptor, so that it is shown again before that is closed.
    hidden: HiddenRange,
    memfd: Memfd,
    map: WriteMap,
}

impl WriteExtent {
    /// Maps an extent that the daemon passed for writing.
    pub fn new(fd: OwnedFd, populate: Populate) -> io::Result<Self> {
        let memfd = Memfd::adopt(fd)?;
        let mut map = WriteMap::new(&memfd, memfd.bytes(), populate)?;
        // A child has no lease.
        map.hide_from_children();
        Ok(Self { hidden: inherited::hide_fd(memfd.as_fd()), memfd, map })
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.map.bytes()
    }

    /// The memfd, for writing to it without the mapping and for sealing.
    pub fn memfd(&self) -> &Memfd {
        &self.memfd
    }

    /// The mapping, for faulting pages in.
    pub fn map(&self) -> &WriteMap {
        &self.map
    }

    /// Gives the mapping up and keeps the descriptor: what sealing against every write needs.
    pub fn into_memfd(self) -> Memfd {
        drop(self.hidden);
        self.memfd
    }

    /// A range that the daemon leased to this process; `None` when it is not within the extent.
    ///
    /// Call it once for each lease that the daemon grants: the daemon leases no byte twice before
    /// it was returned or the object in it is gone, and a span is as exclusive as its lease.
    pub fn lease(self: &Arc<Self>, offset: u64, bytes: u64) -> Option<Span> {
        let end = offset.checked_add(bytes)?;
        let fits = end <= self.bytes();
        fits.then(|| Span { extent: self.clone(), offset: offset as usize, bytes: bytes as usize })
    }
}

/// A range of an extent that no other thread writes or reads.
#[derive(Debug)]
pub struct Span {
    extent: Arc<WriteExtent>,
    offset: usize,
    bytes: usize,
}

impl Span {
    /// Where the span starts in its extent.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// The extent.
    pub fn extent(&self) -> &Arc<WriteExtent> {
        &self.extent
    }

    /// Takes the first `bytes` bytes off; `None` when the span is shorter.
    pub fn take(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.bytes {
            return None;
        }
        let taken = Span { extent: self.extent.clone(), offset: self.offset, bytes };
        self.offset += bytes;
        self.bytes -= bytes;
        Some(taken)
    }

    /// Gives the first `bytes` bytes up; `false`, and nothing happens, when the span is shorter.
    /// Like [`Span::take`], without the handle.
    #[inline]
    pub fn skip(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes;
        if fits {
            self.offset += bytes;
            self.bytes -= bytes;
        }
        fits
    }

    /// Has the processor fetch the first `bytes` bytes, or a little less, for writing: filling one
    /// small span after the other then does not wait for memory at each.
    #[inline]
    pub fn prefetch(&self, bytes: usize) {
        copy::prefetch_for_writing(self.start(), bytes.min(self.bytes));
    }

    /// The first byte; valid as long as the span.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start()
    }

    /// Fills the span from `at` on with `parts`, one after the other, with up to `threads`
    /// threads.
    ///
    /// # Panics
    ///
    /// If the parts do not fit.
    pub fn fill(&mut self, at: usize, parts: &[&[u8]], threads: usize) {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let fits = at.checked_add(total).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{total} bytes at {at} fit a span of {}", self.bytes);
        let mut to = self.start().wrapping_add(at);
        if let [part] = parts
            && (threads <= 1 || part.len() < 2 * copy::THREAD_BYTES_MIN)
        {
            // SAFETY: the range was checked, and the span is ours alone.
            unsafe { copy::copy(part, to) };
            return;
        }
        let mut targets = Vec::with_capacity(parts.len());
        for part in parts {
            targets.push((*part, to));
            to = to.wrapping_add(part.len());
        }
        // SAFETY: the parts follow each other in a range that was checked and is ours alone.
        unsafe { copy::copy_parallel(&targets, threads) };
    }

    /// Like [`Span::fill`], through the file instead of the mapping: faster where the memory was
    /// never touched.
    pub fn write(&mut self, at: usize, parts: &[&[u8]]) -> io::Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if at.checked_add(total).is_none_or(|end| end > self.bytes) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the parts do not fit the span",
            ));
        }
        let mut offset = (self.offset + at) as u64;
        let mut targets = Vec::with_capacity(parts.len());
        for part in parts {
            targets.push((*part, offset));
            offset += part.len() as u64;
        }
        use std::os::fd::AsFd;
        copy::write_parts(self.extent.memfd.as_fd(), &targets)
    }

    fn start(&self) -> *mut u8 {
        self.extent.map.base().wrapping_add(self.offset)
    }
}

impl Deref for Span {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the span lies within the mapping, which it keeps, and is ours alone by the lease.
        unsafe { slice::from_raw_parts(self.start(), self.bytes) }
    }
}

impl DerefMut for Span {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` keeps it the only reference.
        unsafe { slice::from_raw_parts_mut(self.start(), self.bytes) }
    }
}
