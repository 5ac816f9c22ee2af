//! Anonymous files that processes share by passing descriptors.
//!
//! A memfd here never changes its size: it carries the SHRINK and GROW seals from its birth, so
//! that no process can make another one fault by truncating what that one has mapped. Where no
//! later seal is needed it carries the SEAL seal as well, so that no process can add one that keeps
//! others from writing or mapping it.
//!
//! A descriptor that is passed to another process is opened again ([`Memfd::writable`],
//! [`Memfd::read_only`]), so that it does not share its open file with ours. What a process does to
//! the open file (its flags, `O_APPEND` among them, or a lease) then stays its own business. A
//! memfd is itself opened once more when it is made: only a descriptor that was opened counts as a
//! writer for the kernel, and while there is another writer no process can take a lease, which
//! would make every later open wait until the lease is broken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::edge::{self, Attempt};
use crate::map::{self, HUGE_PAGE_BYTES, Populate, ReadMap};

/// A memfd of fixed size.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    bytes: u64,
}

impl Memfd {
    /// A new, zeroed memfd of `bytes` bytes, whose seals are what they are for good. Nothing is
    /// allocated yet; see [`Memfd::reserve`].
    pub fn create(name: &str, bytes: u64) -> io::Result<Self> {
        let memfd = Self::create_sealable(name, bytes)?;
        rustix::fs::fcntl_add_seals(&memfd.fd, SealFlags::SEAL)?;
        Ok(memfd)
    }

    /// The same, to be sealed against writers later. Any process that holds a writable descriptor
    /// can do that.
    pub fn create_sealable(name: &str, bytes: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            other => other?,
        };
        // The kernel's default lets every user reopen a descriptor that was given for reading only.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(&fd, bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        #[cfg(feature = "sim")]
        edge::simulated::within(|world| world.has_memfd(name, fd.as_fd()));
        Ok(Self { fd: open_again(&fd, OFlags::RDWR)?, bytes })
    }

    /// Takes a descriptor that another process passed. It must be a memfd that cannot be resized.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let wanted = SealFlags::SHRINK | SealFlags::GROW;
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(wanted) {
            let text = "the descriptor is not a memfd sealed against shrinking and growing";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let bytes = rustix::fs::fstat(&fd)?.st_size;
        let bytes = u64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { fd, bytes })
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Allocates the pages of a range now: a full machine is an error here and not a signal at the
    /// first write.
    pub fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        edge::attempt(Attempt::Reserve)?;
        Ok(rustix::fs::fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }

    /// Gives the pages of a range back; they read as zeroes afterwards.
    pub fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if crate::edge::is_broken(crate::edge::Mutation::DropWithoutPunch) {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.fd, flags, offset, bytes)?)
    }

    /// Asks the kernel to back the whole memfd with huge pages: larger ones are then read with
    /// fewer misses of the address cache, by every process that has them mapped. Slow (up to
    /// seconds for a GiB): for a background thread. Nothing is done for a memfd shorter than one
    /// huge page.
    pub fn collapse(&self) -> io::Result<()> {
        let mut collapsing = self.collapsing()?;
        while collapsing.step()? {}
        Ok(())
    }

    /// The same, a huge page at a time. While one is made, everything that touches its memory
    /// waits.
    pub fn collapsing(&self) -> io::Result<HugePageCollapse> {
        let end = self.bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let map = (end > 0).then(|| ReadMap::new(self, end, Populate::No)).transpose()?;
        Ok(HugePageCollapse { map, next: 0, end })
    }

    /// Bytes that are physically there, in memory or swap.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let blocks = rustix::fs::fstat(&self.fd)?.st_blocks;
        Ok(u64::try_from(blocks).unwrap_or(0) * 512)
    }

    /// A descriptor for another process, that allows neither writes nor writable mappings.
    pub fn read_only(&self) -> io::Result<OwnedFd> {
        open_again(&self.fd, OFlags::RDONLY)
    }

    /// A descriptor for another process that may write.
    pub fn writable(&self) -> io::Result<OwnedFd> {
        open_again(&self.fd, OFlags::RDWR)
    }

    /// A second descriptor of the same open file, for this process or one that is as trusted.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Refuses new writers from now on: neither `write` nor a new writable mapping works.
    /// Mappings that exist stay writable.
    pub fn seal_future_write(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE)?)
    }

    /// Whether the kernel refuses new writers. Unlike setting a seal, looking never blocks.
    pub fn is_future_write_sealed(&self) -> io::Result<bool> {
        let seals = rustix::fs::fcntl_get_seals(&self.fd)?;
        Ok(seals.intersects(SealFlags::FUTURE_WRITE | SealFlags::WRITE))
    }

    /// Refuses all writes from now on. `ResourceBusy` while any process has it mapped writable.
    pub fn seal_write(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::WRITE)?)
    }

    /// Whether the daemon can take pages of it away, now and later, even while it is mapped: no
    /// seal forbids that, and none can be added.
    pub fn is_punchable(&self) -> io::Result<bool> {
        let seals = rustix::fs::fcntl_get_seals(&self.fd)?;
        let forbidding = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
        Ok(seals.contains(SealFlags::SEAL) && !seals.intersects(forbidding))
    }

    /// Whether the kernel refuses every write for good.
    pub fn is_write_sealed(&self) -> io::Result<bool> {
        Ok(rustix::fs::fcntl_get_seals(&self.fd)?.contains(SealFlags::WRITE))
    }

    /// Gives the descriptor away.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// Opens the file behind a descriptor once more. Never waits: an open that would have to wait for
/// another process's lease fails with `WouldBlock`.
pub(crate) fn open_again(fd: &OwnedFd, access: OFlags) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;

    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let opened = rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
    Ok(opened?)
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A memfd on its way to huge pages.
#[derive(Debug)]
pub struct HugePageCollapse {
    map: Option<ReadMap>,
    next: u64,
    end: u64,
}

impl HugePageCollapse {
    /// Makes the next huge page; whether there was one left to make.
    pub fn step(&mut self) -> io::Result<bool> {
        let Some(map) = self.map.as_ref().filter(|_| self.next < self.end) else {
            return Ok(false);
        };
        let at = self.next;
        self.next += HUGE_PAGE_BYTES;
        map.populate(at, HUGE_PAGE_BYTES)?;
        // Without it the page below takes longer, that is all.
        let _ = map::warm_huge_page();
        map.collapse(at, HUGE_PAGE_BYTES)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::WriteMap;

    fn memfd() -> Memfd {
        Memfd::create("plasmon-test", 8192).unwrap()
    }

    /// A client that sealed shared memory against future writers kept every new client out.
    #[test]
    fn seals_are_what_they_are_unless_more_are_needed() {
        let memfd = memfd();
        let theirs = memfd.duplicate().unwrap();
        for seal in [SealFlags::FUTURE_WRITE, SealFlags::WRITE] {
            assert_eq!(rustix::fs::fcntl_add_seals(&theirs, seal), Err(Errno::PERM));
        }
        assert!(WriteMap::new(&memfd, 8192, Populate::No).is_ok());
        let sealable = Memfd::create_sealable("plasmon-test", 8192).unwrap();
        assert!(!sealable.is_future_write_sealed().unwrap());
        sealable.seal_future_write().unwrap();
        assert!(sealable.is_future_write_sealed().unwrap());
    }

    #[test]
    fn its_size_is_fixed_and_its_mode_private() {
        let memfd = memfd();
        assert_eq!(memfd.bytes(), 8192);
        for bytes in [0, 4096, 16384] {
            assert_eq!(rustix::fs::ftruncate(&memfd, bytes), Err(Errno::PERM));
        }
        assert_eq!(rustix::fs::fstat(&memfd).unwrap().st_mode & 0o777, 0o600);
        let flags = rustix::io::fcntl_getfd(&memfd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn only_a_sealed_memfd_is_adopted() {
        assert_eq!(Memfd::adopt(memfd().duplicate().unwrap()).unwrap().bytes(), 8192);
        assert_eq!(Memfd::adopt(memfd().read_only().unwrap()).unwrap().bytes(), 8192);
        let plain = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        assert!(Memfd::adopt(plain).is_err());
        let file = tempfile_like();
        assert!(Memfd::adopt(file).is_err());
    }

    fn tempfile_like() -> OwnedFd {
        rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn a_read_only_descriptor_cannot_write() {
        let memfd = memfd();
        let fd = memfd.read_only().unwrap();
        assert!(rustix::io::write(&fd, b"x").is_err());
        assert!(WriteMap::new(&fd, 4096, Populate::No).is_err());
        assert!(ReadMap::new(&fd, 4096, Populate::No).is_ok());
    }

    #[test]
    fn a_passed_descriptor_shares_neither_flags_nor_leases_with_ours() {
        // A client that took a lease on the one read-only descriptor of an extent made the daemon
        // wait for 45 seconds when the next client asked for one, and O_APPEND of a writer turned
        // the daemon's own writes away.
        use std::os::fd::AsRawFd;

        let memfd = memfd();
        let writable = memfd.writable().unwrap();
        rustix::fs::fcntl_setfl(&writable, OFlags::APPEND).unwrap();
        assert_eq!(rustix::io::pwrite(&memfd, b"ours", 0), Ok(4));
        let take_lease = |fd: &OwnedFd, kind: libc::c_int| {
            // SAFETY: a system call on an open descriptor with a number.
            let taken = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, kind) };
            if taken == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error()) }
        };
        assert_eq!(take_lease(&writable, libc::F_WRLCK), Err(Some(libc::EAGAIN)));
        drop(writable);
        let read_only = memfd.read_only().unwrap();
        for kind in [libc::F_WRLCK, libc::F_RDLCK] {
            assert_eq!(take_lease(&read_only, kind), Err(Some(libc::EAGAIN)));
        }
        assert!(memfd.read_only().is_ok());
    }

    #[test]
    fn reserved_pages_are_there_and_punched_ones_gone() {
        let memfd = memfd();
        assert_eq!(memfd.resident_bytes().unwrap(), 0);
        memfd.reserve(0, 8192).unwrap();
        assert_eq!(memfd.resident_bytes().unwrap(), 8192);
        memfd.punch(4096, 4096).unwrap();
        assert_eq!(memfd.resident_bytes().unwrap(), 4096);
        assert!(memfd.reserve(0, 1 << 20).is_err(), "GROW is sealed");
    }

    #[test]
    fn sealing_against_future_writers_leaves_the_present_one() {
        let memfd = Memfd::create_sealable("plasmon-test", 8192).unwrap();
        let map = WriteMap::new(&memfd, 8192, Populate::No).unwrap();
        memfd.seal_future_write().unwrap();
        assert!(WriteMap::new(&memfd, 8192, Populate::No).is_err());
        assert_eq!(rustix::io::write(&memfd, b"x"), Err(Errno::PERM));
        assert_eq!(memfd.seal_write().unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(!memfd.is_write_sealed().unwrap());
        drop(map);
        memfd.seal_write().unwrap();
        assert!(memfd.is_write_sealed().unwrap());
        assert!(ReadMap::new(&memfd, 8192, Populate::Yes).is_ok());
    }
}
