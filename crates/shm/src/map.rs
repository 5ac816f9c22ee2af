//! Mappings of shared memory.
//!
//! [`ReadMap`] and [`WriteMap`] own their address range and unmap it when dropped. Whatever lies in
//! them may be changed by another process at any time, so no `&[u8]` of it is ever made here:
//! protocol words are atomics, hostile bytes are copied out, and payload goes out as a raw pointer
//! whose user knows (by a pin or a lease) that no other thread or process writes.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::inherited::{self, HiddenRange};
use crate::mapped_extent::Place;
use crate::slot::Slot;

/// `MADV_COLLAPSE`, which the libraries do not name yet.
const MADV_COLLAPSE: libc::c_int = 25;

/// What a mapping must be aligned to for huge pages.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Whether to map the pages at once instead of at first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// At first touch.
    No,
    /// At once.
    Yes,
}

/// Types that may lie in shared memory: made of atomics of one size only.
///
/// # Safety
///
/// Every bit pattern is a value, and every access through a shared reference is atomic.
pub(crate) unsafe trait Shared {}

// SAFETY: atomics accept every bit pattern; this is the trait's condition, kept by the type itself.
unsafe impl Shared for AtomicU32 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: eight AtomicU64 in a `repr(C)` struct and nothing else.
unsafe impl Shared for Slot {}
// SAFETY: three AtomicU64 and a word that is never read, in a `repr(C)` struct.
unsafe impl Shared for Place {}

/// An address range that is unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// What keeps it from children, if anything does.
    hidden: Option<HiddenRange>,
}

// SAFETY: a mapping is an address range of the process and belongs to no thread; what lies in it is
// only accessed as `Shared` atomics or through raw pointers, whose users answer for their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: impl AsFd, bytes: u64, prot: ProtFlags, populate: Populate) -> io::Result<Self> {
        let found = rustix::fs::fstat(&fd)?.st_size;
        if u64::try_from(found).is_ok_and(|found| found < bytes) {
            let text = format!("a file of {found} bytes cannot back a mapping of {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = match populate {
            Populate::No => MapFlags::SHARED,
            Populate::Yes => MapFlags::SHARED | MapFlags::POPULATE,
        };
        Self::of_file(bytes, prot, flags, fd)
    }

    /// Maps a file. A long mapping starts where a huge page can, without which the kernel would
    /// never map one, unless another thread takes that place first.
    fn of_file(bytes: usize, prot: ProtFlags, flags: MapFlags, fd: impl AsFd) -> io::Result<Self> {
        // Only a hint: a file that was put in the place of a reservation would leave a hole there
        // when the kernel refused it, and another thread's memory in the hole would be unmapped.
        let hint = match bytes < HUGE_PAGE_BYTES as usize {
            true => ptr::null_mut(),
            false => Self::anonymous(bytes, ProtFlags::empty())?.base.as_ptr().cast(),
        };
        // SAFETY: without `FIXED` the kernel replaces nothing that exists.
        let base = unsafe { rustix::mm::mmap(hint, bytes, prot, flags, fd, 0) }?;
        let base = NonNull::new(base.cast()).expect("the kernel never maps at address 0 unasked");
        Ok(Self { base, bytes, hidden: None })
    }

    /// A range that reads as zeroes, as far as `prot` allows reading. A long one starts where
    /// a huge page can.
    fn anonymous(bytes: usize, prot: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let align = HUGE_PAGE_BYTES as usize;
        let slack = if bytes < align { 0 } else { align };
        let length = bytes.checked_add(slack).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses an unused range, so nothing that exists is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, prot, flags) }?;
        let base = base.cast::<u8>();
        let head = if slack == 0 { 0 } else { base.align_offset(align) };
        let start = base.wrapping_add(head);
        let rest = (head + bytes).next_multiple_of(rustix::param::page_size());
        for (from, until) in [(0, head), (rest, length)] {
            if from < until {
                // SAFETY: the slack before and after, which nothing else refers to yet.
                unsafe { rustix::mm::munmap(base.wrapping_add(from).cast(), until - from) }?;
            }
        }
        let base = NonNull::new(start).expect("the kernel never maps at address 0 unasked");
        Ok(Self { base, bytes, hidden: None })
    }

    /// Keeps it from children that are forked from now on.
    fn hide_from_children(&mut self) {
        self.hidden = Some(inherited::hide(self.base.as_ptr(), self.bytes));
    }

    /// Puts the first `bytes` bytes of a file in the place of what the range maps now. For other
    /// threads it happens in one step: they see what was there before or the file.
    ///
    /// What the kernel refuses it may refuse after it unmapped the range, and other threads read
    /// there. So it is tried elsewhere first.
    fn replace(
        &mut self,
        bytes: usize,
        prot: ProtFlags,
        flags: MapFlags,
        fd: impl AsFd,
    ) -> io::Result<()> {
        let base = self.range(0, bytes as u64)?;
        let trial = flags.difference(MapFlags::POPULATE);
        drop(Self::of_file(bytes, prot, trial, &fd)?);
        // SAFETY: the replaced range belongs to this mapping. A thread that reads there meanwhile
        // reads atomics that may change at any time, and memfds cannot shrink, so it stays
        // readable.
        unsafe { rustix::mm::mmap(base.cast(), bytes, prot, flags | MapFlags::FIXED, fd, 0) }?;
        Ok(())
    }

    /// `count` values at `offset`. Always inlined, so that constant arguments cost no check.
    #[inline(always)]
    fn shared<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(bytes.is_some_and(|end| end <= self.bytes), "the words lie within the mapping");
        assert!(offset.is_multiple_of(align_of::<T>()), "the words are aligned");
        // SAFETY: in bounds and aligned (checked above; a mapping starts at a page), alive as long
        // as `self`, and `Shared` types may be changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    fn advise(&self, offset: u64, bytes: u64, advice: Advice) -> io::Result<()> {
        let base = self.range(offset, bytes)?;
        // SAFETY: the range lies within this mapping, and the advices used here (populating, and
        // which pages to do that with) change no content.
        Ok(unsafe { rustix::mm::madvise(base.cast(), bytes as usize, advice) }?)
    }

    fn collapse(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let base = self.range(offset, bytes)?;
        // SAFETY: the range lies within this mapping; collapsing moves pages but changes no
        // content.
        let failed = unsafe { libc::madvise(base.cast(), bytes as usize, MADV_COLLAPSE) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn range(&self, offset: u64, bytes: u64) -> io::Result<*mut u8> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes as u64);
        if end.is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "range beyond the mapping"));
        }
        Ok(self.base.as_ptr().wrapping_add(offset as usize))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First, or a child would close addresses that are another mapping's by then.
        drop(self.hidden.take());
        // SAFETY: this struct owns the range; references into it borrow from it, and users of raw
        // pointers keep it alive.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a range that was mapped can be unmapped");
    }
}

/// Memory that this process can only read. Writing to it is a segmentation fault.
#[derive(Debug)]
pub struct ReadMap(Mapping);

impl ReadMap {
    /// Maps the first `bytes` bytes of a file.
    pub fn new(fd: impl AsFd, bytes: u64, populate: Populate) -> io::Result<Self> {
        Ok(Self(Mapping::new(fd, bytes, ProtFlags::READ, populate)?))
    }

    /// The first byte.
    pub fn base(&self) -> *const u8 {
        self.0.base.as_ptr()
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// Maps the pages of a range. Where the file has none it gets some: only for what is there.
    pub fn populate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.advise(offset, bytes, Advice::LinuxPopulateRead)
    }

    /// Copies bytes out that another process may be changing; `false` when they are not all within
    /// the mapping. What arrives may be a mixture of old and new.
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) -> bool {
        let Ok(base) = self.0.range(offset, into.len() as u64) else {
            return false;
        };
        // SAFETY: the range was checked, stays mapped while `self` is borrowed.
        unsafe { copy_shared(base, into) };
        true
    }

    /// Asks the kernel to back a range with huge pages now; see [`WriteMap::collapse`].
    pub fn collapse(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.collapse(offset, bytes)
    }

    /// Words in memory that another process writes. Callers only load.
    ///
    /// Loads of at most 8 bytes with any ordering are plain loads on the two architectures that
    /// this crate compiles for, so they are sound on pages mapped read-only.
    #[inline(always)]
    pub(crate) fn shared<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        self.0.shared(offset, count)
    }

    /// Keeps it from children that are forked from now on; see [`crate::fork`].
    pub fn hide_from_children(&mut self) {
        self.0.hide_from_children();
    }
}

/// Has the kernel make a huge page and free it again: the next one that it makes is most likely the
/// same. In a virtual machine the host may first have to find memory for it, which takes some
/// milliseconds; better here than where others wait.
pub(crate) fn warm_huge_page() -> io::Result<()> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let page = Mapping::anonymous(HUGE_PAGE_BYTES as usize, prot)?;
    page.advise(0, HUGE_PAGE_BYTES, Advice::LinuxHugepage)?;
    page.advise(0, HUGE_PAGE_BYTES, Advice::LinuxPopulateWrite)
}

/// Copies `into.len()` bytes from memory that others may write.
///
/// # Safety
///
/// `source` is readable for `into.len()` bytes.
unsafe fn copy_shared(source: *const u8, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let from = source.wrapping_add(at);
        let whole = from.addr().is_multiple_of(8) && into.len() - at >= 8;
        if whole {
            // SAFETY: eight aligned bytes within the range that the caller vouches for.
            let word = unsafe { &*from.cast::<AtomicU64>() }.load(Ordering::Relaxed);
            into[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            at += 8;
        } else {
            // SAFETY: one byte within the range that the caller vouches for.
            into[at] = unsafe { &*from.cast::<AtomicU8>() }.load(Ordering::Relaxed);
            at += 1;
        }
    }
}

/// Memory that this process can write.
#[derive(Debug)]
pub struct WriteMap(Mapping);

impl WriteMap {
    /// Maps the first `bytes` bytes of a file.
    pub fn new(fd: impl AsFd, bytes: u64, populate: Populate) -> io::Result<Self> {
        Ok(Self(Mapping::new(fd, bytes, ProtFlags::READ | ProtFlags::WRITE, populate)?))
    }

    /// Zeroed memory of this process alone, of which only touched pages exist.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        Ok(Self(Mapping::anonymous(bytes, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    /// Asks the kernel for huge pages, where it has not made others yet.
    pub(crate) fn prefer_huge_pages(&self) -> io::Result<()> {
        self.0.advise(0, self.bytes(), Advice::LinuxHugepage)
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.0.base.as_ptr()
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// Faults the pages of a range in, writable. An error when the kernel has no memory for them.
    pub fn populate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.advise(offset, bytes, Advice::LinuxPopulateWrite)
    }

    /// Keeps it from children that are forked from now on; see [`crate::fork`].
    pub fn hide_from_children(&mut self) {
        self.0.hide_from_children();
    }

    /// Asks the kernel to back a range with huge pages now. Slow (up to seconds for a GiB), and
    /// refused on kernels that do not know it.
    pub fn collapse(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.collapse(offset, bytes)
    }

    /// Copies bytes out that another process may be changing; see [`ReadMap::copy_out`].
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) -> bool {
        let Ok(base) = self.0.range(offset, into.len() as u64) else {
            return false;
        };
        // SAFETY: the range was checked, stays mapped while `self` is borrowed.
        unsafe { copy_shared(base, into) };
        true
    }

    /// Words that other processes read and may write.
    #[inline(always)]
    pub(crate) fn shared<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        self.0.shared(offset, count)
    }
}

/// Addresses for more of a file than there is. A thread that touches what is not there is killed by
/// a signal.
#[derive(Debug)]
pub(crate) struct WindowMap(Mapping);

impl WindowMap {
    /// Reserves addresses for the first `bytes` bytes that the file will ever have.
    pub(crate) fn new(fd: impl AsFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let mut mapping = Mapping::of_file(bytes, ProtFlags::READ | ProtFlags::WRITE, flags, fd)?;
        // What is written here is this process's alone.
        mapping.hide_from_children();
        Ok(Self(mapping))
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.0.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// Maps the pages of a range, writable.
    pub(crate) fn populate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.advise(offset, bytes, Advice::LinuxPopulateWrite)
    }
}

/// A range of addresses into which files are mapped read-only one after the other.
#[derive(Debug)]
pub(crate) struct Region(Mapping);

impl Region {
    /// Reserves addresses; they read as zeroes and cost no memory.
    pub(crate) fn reserve(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Self(Mapping::anonymous(bytes, ProtFlags::READ)?))
    }

    pub(crate) fn base(&self) -> *const u8 {
        self.0.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes as u64
    }

    /// Replaces the first `bytes` bytes by those of a file, with their pages present; see
    /// [`Mapping::replace`].
    pub(crate) fn map_over(&mut self, fd: impl AsFd, bytes: u64) -> io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        self.0.replace(bytes as usize, ProtFlags::READ, flags, fd)
    }

    /// Replaces everything by zeroes and so gives the memory back.
    pub(crate) fn empty(&mut self) -> io::Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let base = self.0.base.as_ptr().cast();
        // SAFETY: as in `Mapping::replace`.
        unsafe { rustix::mm::mmap_anonymous(base, self.0.bytes, ProtFlags::READ, flags) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::Memfd;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let memfd = Memfd::create("plasmon-test", 8192).unwrap();
        let writer = WriteMap::new(&memfd, 8192, Populate::Yes).unwrap();
        let reader = ReadMap::new(&memfd, 8192, Populate::No).unwrap();
        writer.shared::<AtomicU64>(4096, 2)[1].store(0x0807_0605_0403_0201, Ordering::Relaxed);
        let mut bytes = [0; 13];
        for start in 0..8 {
            assert!(reader.copy_out(4101 + start, &mut bytes));
            let expected: Vec<u8> = (4101 + start..4114 + start)
                .map(|at| if (4104..4112).contains(&at) { (at - 4103) as u8 } else { 0 })
                .collect();
            assert_eq!(bytes[..], expected, "start {start}");
        }
    }

    #[test]
    fn ranges_beyond_the_mapping_are_refused() {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        let map = WriteMap::new(&memfd, 4096, Populate::No).unwrap();
        let mut bytes = [0; 8];
        assert!(map.copy_out(4088, &mut bytes));
        assert!(!map.copy_out(4089, &mut bytes));
        assert!(!map.copy_out(u64::MAX, &mut bytes));
        assert!(map.populate(0, 4096).is_ok());
        assert!(map.populate(0, 4097).is_err());
        assert!(WriteMap::new(&memfd, 4097, Populate::No).is_err());
        assert!(ReadMap::new(&memfd, 0, Populate::No).is_err());
    }

    #[test]
    fn long_mappings_start_where_huge_pages_can() {
        for bytes in [HUGE_PAGE_BYTES, (5 << 20) + 1] {
            let memfd = Memfd::create("plasmon-test", bytes).unwrap();
            let map = WriteMap::new(&memfd, bytes, Populate::No).unwrap();
            assert!(map.base().addr().is_multiple_of(HUGE_PAGE_BYTES as usize));
            assert_eq!(map.bytes(), bytes);
            assert!(map.copy_out(bytes - 8, &mut [0; 8]));
        }
    }

    /// A file that the kernel refuses was put over a range that was in use, which was then neither.
    #[test]
    fn a_refused_file_leaves_a_range_as_it_was() {
        let memfd = Memfd::create_sealable("plasmon-test", 8192).unwrap();
        let mut region = Region::reserve(8192).unwrap();
        region.map_over(&memfd, 8192).unwrap();
        let pipe = rustix::pipe::pipe().unwrap().0;
        assert!(region.map_over(&pipe, 4096).is_err());
        let words: &[AtomicU64] = region.0.shared(0, 1024);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "still readable");
        memfd.seal_future_write().unwrap();
        assert!(WriteMap::new(&memfd, 8192, Populate::No).is_err());
    }

    #[test]
    fn collapsing_keeps_the_content() {
        let bytes = 4 << 20;
        let memfd = Memfd::create("plasmon-test", bytes).unwrap();
        let map = WriteMap::new(&memfd, bytes, Populate::Yes).unwrap();
        map.shared::<AtomicU64>(1 << 21, 1)[0].store(77, Ordering::Relaxed);
        // Whether huge pages are to be had depends on the machine; the content must not.
        let _collapsed = map.collapse(0, bytes);
        assert_eq!(map.shared::<AtomicU64>(1 << 21, 1)[0].load(Ordering::Relaxed), 77);
    }
}
