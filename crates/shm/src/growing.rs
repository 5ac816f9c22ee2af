//! Memory for one object whose size is not known yet.
//!
//! The daemon owns a [`GrowingMemfd`] and makes it longer, page by page allocated, as its budget
//! allows. The writer maps many more addresses than there is memory, once, in a [`GrowingMap`]; so
//! what it wrote never moves while the file grows underneath. It writes only what it was granted,
//! which is there: growing can fail, writing cannot.
//!
//! ```text
//! addresses  |<------------------ window: reserved once, costs nothing ----------------->|
//! file       |<-- granted: allocated by the daemon -->|
//! ```
//!
//! Sealed, the file is cut to the object's pages and can change its size no more: from then on it
//! is a [`Memfd`] like any other, before any other process is told of it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;

use plasmon_proto::object::Level;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::copy;
use crate::edge::{self, Attempt};
use crate::map::{HUGE_PAGE_BYTES, WindowMap};
use crate::memfd::{Memfd, open_again};

/// A memfd that the daemon makes longer.
#[derive(Debug)]
pub struct GrowingMemfd(OwnedFd);

impl GrowingMemfd {
    /// A new memfd without any memory.
    pub fn create(name: &str) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            other => other?,
        };
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        #[cfg(feature = "sim")]
        edge::simulated::within(|world| world.has_memfd(name, fd.as_fd()));
        Ok(Self(open_again(&fd, OFlags::RDWR)?))
    }

    /// Allocates a range, at the end or not; the file is then at least so long.
    pub fn extend(&self, offset: u64, bytes: u64) -> io::Result<()> {
        edge::attempt(Attempt::Reserve)?;
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), offset, bytes)?)
    }

    /// Gives the pages of a range back, even if processes have them mapped.
    pub fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, flags, offset, bytes)?)
    }

    /// A descriptor for the writer, which does not share our open file.
    pub fn writable(&self) -> io::Result<OwnedFd> {
        open_again(&self.0, OFlags::RDWR)
    }

    /// Cuts off what follows the first `bytes` bytes, which the writer may have allocated by
    /// itself.
    pub fn trim(&self, bytes: u64) -> io::Result<()> {
        let found = rustix::fs::fstat(&self.0)?.st_size;
        if u64::try_from(found).is_ok_and(|found| found <= bytes) {
            return Ok(());
        }
        Ok(rustix::fs::ftruncate(&self.0, bytes)?)
    }

    /// Bytes that are physically there, in memory or swap.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let blocks = rustix::fs::fstat(&self.0)?.st_blocks;
        Ok(u64::try_from(blocks).unwrap_or(0) * 512)
    }

    /// Cuts the file to `bytes` and fixes its size for good, and who may write as `level` and
    /// `strict` say. An error when the writer changes the size at the same time, is still able to
    /// write a strict one, or has sealed the file itself.
    pub fn settle(&self, bytes: u64, level: Level, strict: bool) -> io::Result<Memfd> {
        rustix::fs::ftruncate(&self.0, bytes)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        match level {
            // Only the kernel's own checks stand between a strict one and its writer.
            _ if strict => {}
            Level::Shared => seals |= SealFlags::SEAL,
            Level::Leased | Level::Strict => seals |= SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        }
        rustix::fs::fcntl_add_seals(&self.0, seals)?;
        let memfd = Memfd::adopt(self.0.try_clone()?)?;
        if memfd.bytes() != bytes {
            let text = "the memory was resized by its writer while it was sealed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if strict {
            memfd.seal_write()?;
        }
        Ok(memfd)
    }
}

impl AsFd for GrowingMemfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The writer's view of a growing memfd: reads and writes as what is granted, at an address that
/// never changes.
#[derive(Debug)]
pub struct GrowingMap {
    map: WindowMap,
    granted: usize,
    /// Up to where pages are known to be mapped here.
    populated: usize,
}

impl GrowingMap {
    /// Reserves addresses for `window` bytes of the file, none of which may be touched yet.
    pub fn new(fd: impl AsFd, window: u64) -> io::Result<Self> {
        Ok(Self { map: WindowMap::new(fd, window)?, granted: 0, populated: 0 })
    }

    /// The daemon says that the first `bytes` bytes are there and may be used. An error beyond the
    /// window.
    pub fn grant(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.map.bytes() {
            let text = format!("{bytes} bytes in a window of {}", self.map.bytes());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.granted = bytes as usize;
        Ok(())
    }

    /// How many bytes may be used.
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// How far it can ever grow.
    pub fn window(&self) -> u64 {
        self.map.bytes()
    }

    /// Copies bytes to `at`, past the caches when they are many.
    ///
    /// # Panics
    ///
    /// If they are not within what is granted.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.granted);
        assert!(fits, "{} bytes at {at} lie within {} that are granted", bytes.len(), self.granted);
        // SAFETY: the range was checked; granted memory is there and ours alone.
        unsafe { copy::copy(bytes, self.map.base().wrapping_add(at)) };
    }

    /// The first byte, for a caller that lends the memory to foreign code. Bytes up to
    /// [`Self::granted`] may be read and written through it for as long as this map exists.
    pub fn base(&self) -> *mut u8 {
        self.map.base()
    }

    /// Maps the pages of the next bytes that will be written, up to `until`, ahead of their use:
    /// much cheaper than one fault for each. What fails here is left to the faults.
    pub fn populate(&mut self, until: usize) {
        let until = until.next_multiple_of(HUGE_PAGE_BYTES as usize).min(self.granted);
        if until > self.populated {
            let (offset, bytes) = (self.populated as u64, (until - self.populated) as u64);
            let _harmless = self.map.populate(offset, bytes);
            self.populated = until;
        }
    }
}

impl Deref for GrowingMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: granted memory is within the window, backed by pages (the daemon allocated them
        // before it granted them), and no other client's until it is sealed, which ends this map.
        unsafe { slice::from_raw_parts(self.map.base(), self.granted) }
    }
}

impl DerefMut for GrowingMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` keeps it the only reference.
        unsafe { slice::from_raw_parts_mut(self.map.base(), self.granted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Populate, ReadMap, WriteMap};

    const WINDOW: u64 = 1 << 36;

    #[test]
    fn growth_moves_nothing_and_keeps_what_was_written() {
        let memfd = GrowingMemfd::create("plasmon-test").unwrap();
        let mut map = GrowingMap::new(&memfd, WINDOW).unwrap();
        let base = map.base();
        assert!(map.is_empty() && map.window() == WINDOW);
        let mut bytes = 4096;
        for step in 1..12 {
            memfd.extend(map.granted() as u64, bytes - map.granted() as u64).unwrap();
            map.grant(bytes).unwrap();
            map.populate(bytes as usize / 2);
            let last = map.len() - 1;
            map[last] = step;
            assert_eq!(map.base(), base);
            bytes *= 2;
        }
        assert_eq!((map[4095], map[8191]), (1, 2));
        assert!(map.grant(WINDOW + 1).is_err());
    }

    #[test]
    fn settled_it_is_as_long_as_its_pages_and_stays_so() {
        let memfd = GrowingMemfd::create("plasmon-test").unwrap();
        memfd.extend(0, 1 << 20).unwrap();
        let mut map = GrowingMap::new(&memfd, WINDOW).unwrap();
        map.grant(1 << 20).unwrap();
        map[5000] = 77;
        let sealed = memfd.settle(8192, Level::Shared, false).unwrap();
        assert_eq!((sealed.bytes(), sealed.resident_bytes().unwrap()), (8192, 8192));
        assert!(memfd.extend(8192, 4096).is_err(), "its size is fixed");
        let reader = ReadMap::new(&sealed, 8192, Populate::No).unwrap();
        let mut byte = [0];
        assert!(reader.copy_out(5000, &mut byte));
        assert_eq!(byte, [77]);
    }

    #[test]
    fn a_strict_one_is_sealed_only_without_writers() {
        let memfd = GrowingMemfd::create("plasmon-test").unwrap();
        memfd.extend(0, 4096).unwrap();
        let map = GrowingMap::new(&memfd, WINDOW).unwrap();
        let error = memfd.settle(4096, Level::Strict, true).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
        drop(map);
        let sealed = memfd.settle(4096, Level::Strict, true).unwrap();
        assert!(sealed.is_write_sealed().unwrap());
        assert!(WriteMap::new(&sealed, 4096, Populate::No).is_err());
    }

    /// The writer of a growing object can make its file arbitrarily long, and left the memory
    /// behind in the store.
    #[test]
    fn what_the_writer_adds_is_cut_off() {
        let memfd = GrowingMemfd::create("plasmon-test").unwrap();
        memfd.extend(0, 8192).unwrap();
        let theirs = memfd.writable().unwrap();
        rustix::fs::fallocate(&theirs, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        memfd.trim(8192).unwrap();
        assert_eq!(rustix::fs::fstat(&memfd).unwrap().st_blocks * 512, 8192);
        memfd.trim(1 << 20).unwrap();
        assert_eq!(rustix::fs::fstat(&memfd).unwrap().st_size, 8192, "it is made no longer");
        // Only the daemon may seal it once it is settled; before, its seals are an error.
        let sealed = memfd.settle(4096, Level::Leased, false).unwrap();
        assert!(WriteMap::new(&sealed, 4096, Populate::No).is_err());
        let other = GrowingMemfd::create("plasmon-test").unwrap();
        other.extend(0, 4096).unwrap();
        rustix::fs::fcntl_add_seals(&other, SealFlags::SEAL).unwrap();
        assert!(other.settle(4096, Level::Leased, false).is_err());
    }

    #[test]
    fn punched_pages_are_gone_although_they_are_mapped() {
        let memfd = GrowingMemfd::create("plasmon-test").unwrap();
        memfd.extend(0, 1 << 20).unwrap();
        let mut map = GrowingMap::new(&memfd, WINDOW).unwrap();
        map.grant(1 << 20).unwrap();
        map.fill(1);
        memfd.punch(0, 1 << 20).unwrap();
        let blocks = rustix::fs::fstat(&memfd).unwrap().st_blocks;
        assert_eq!(blocks, 0);
    }
}
