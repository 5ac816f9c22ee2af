//! Files on persistent memory, written in place.
//!
//! ```text
//!   write ── streaming stores past the caches ──> write-combining buffers ── fence ──> medium
//! ```
//!
//! A file of a DAX file system (`mount -o dax=always`) is mapped with `MAP_SYNC`: the kernel then
//! promises that whatever the file system has to know of the mapped blocks is durable before the
//! first store to them. So stores that have left the processor are durable, without a system call.
//! Only whole lines are written, with streaming stores, which leave nothing in a cache that would
//! have to be flushed. A line may be torn by a loss of power all the same: processors promise no
//! more than eight bytes. What is written here must be checked by a checksum when it is read.
//!
//! Reading goes through the file (`pread`) and not through the mapping: of a place that the medium
//! has lost the kernel then tells an error, where a load would end the process by a signal.
//!
//! Deliberately absent: other processors than x86-64, whose cache flushes are untested here, so
//! real persistent memory is refused there; and files that shrink: a store beyond the end of a file
//! ends the process, so a mapped file belongs to its user alone, under a lock, and has its blocks.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

#[cfg(target_arch = "x86_64")]
mod x86;

/// What is written is made of these: offsets and lengths are multiples of it.
pub const LINE_BYTES: usize = 64;

/// What a mapped file lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Persistent memory with a DAX file system; any other file is refused.
    Persistent,
    /// Any file, whose pages stand for persistent memory. Nothing survives a loss of power: for
    /// tests and measurements on machines that have none.
    Forced,
}

/// A file that is written in place.
#[derive(Debug)]
pub struct DaxMap {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread; it is only written through
// `&mut self`.
unsafe impl Send for DaxMap {}

impl DaxMap {
    /// Maps the first `bytes` bytes of a file that has its blocks.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the file is not on a DAX file system, or the processor is not known.
    pub fn new(file: impl AsFd, bytes: u64, medium: Medium) -> io::Result<Self> {
        let found = rustix::fs::fstat(&file)?.st_size;
        if bytes == 0 || u64::try_from(found).is_ok_and(|found| found < bytes) {
            let text = format!("a file of {found} bytes cannot back a mapping of {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = match medium {
            Medium::Persistent if cfg!(not(target_arch = "x86_64")) => {
                return Err(unsupported("persistent memory is written on x86-64 only"));
            }
            Medium::Persistent => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Medium::Forced => MapFlags::SHARED,
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address that is not in use.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), length, protection, flags, file, 0) };
        let base = base.map_err(|error| match error {
            rustix::io::Errno::OPNOTSUPP => unsupported(
                "the file system does not map files with MAP_SYNC: it is not on persistent memory, \
                 or not mounted with -o dax=always",
            ),
            other => other.into(),
        })?;
        let base = NonNull::new(base.cast()).expect("the kernel never maps at address 0 unasked");
        let map = Self { base, bytes: length };
        map.populate()?;
        Ok(map)
    }

    /// How many bytes are mapped.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Stores bytes at an offset, both whole lines. They are durable after a [`fence`] by the same
    /// thread.
    ///
    /// # Panics
    ///
    /// When they are not whole lines within the mapping, which a caller knows beforehand.
    pub fn write(&mut self, offset: u64, source: &[u8]) {
        let to = self.lines(offset, source.len());
        // SAFETY: the lines lie within the mapping, which is writable and this value's alone.
        // `source` cannot overlap them: no slice of the mapping is ever made.
        unsafe { store_lines(source, to) };
    }

    /// Where so many bytes from an offset on are: whole lines within the mapping, aligned because
    /// it starts at a page.
    fn lines(&mut self, offset: u64, bytes: usize) -> *mut u8 {
        let at = usize::try_from(offset).expect("an offset within a mapping is an address");
        assert!(at.is_multiple_of(LINE_BYTES), "the offset {at} is not that of a line");
        assert!(bytes.is_multiple_of(LINE_BYTES), "{bytes} bytes are no lines");
        assert!(
            at <= self.bytes && bytes <= self.bytes - at,
            "{bytes} bytes at {at} are not within a mapping of {}",
            self.bytes
        );
        self.base.as_ptr().wrapping_add(at)
    }

    /// As [`write`](Self::write), and the CRC-32C of the bytes, in one pass over them: stores past
    /// the caches leave the processor half of its time.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write).
    pub fn write_checked(&mut self, offset: u64, source: &[u8]) -> u32 {
        let to = self.lines(offset, source.len());
        // SAFETY: as in `write`.
        unsafe { store_checked(source, to) }
    }

    /// Has every page mapped for writing, so that no store has to wait for that, and what the file
    /// system or the medium refuses is an error here and not a signal later.
    fn populate(&self) -> io::Result<()> {
        let advice = rustix::mm::Advice::LinuxPopulateWrite;
        // SAFETY: the range is this mapping, and no page of it changes its content.
        match unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, advice) } {
            // Linux before 5.14 maps each page at the first store to it.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns when everything that this thread has written to such files before is durable.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the x86-64 baseline.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

impl Drop for DaxMap {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and no reference into it exists.
        let outcome = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "a mapping of our own is unmapped");
    }
}

fn unsupported(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Stores whole lines with the widest stores that the processor has.
///
/// # Safety
///
/// `source` is whole lines; `to` is aligned to a line, writable for as many bytes, and no other
/// thread reads or writes there.
unsafe fn store_lines(source: &[u8], to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has what each kernel needs; the rest is the caller's promise.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            x86::store_512(source, to);
        } else if is_x86_feature_detected!("avx2") {
            x86::store_256(source, to);
        } else {
            x86::store_128(source, to);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        ptr::copy_nonoverlapping(source.as_ptr(), to, source.len());
    }
}

/// Stores whole lines; their CRC-32C.
///
/// # Safety
///
/// As [`store_lines`].
unsafe fn store_checked(source: &[u8], to: *mut u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("sse4.2") {
        let lane = source.len() / LINE_BYTES / x86::LANES * LINE_BYTES;
        let (lanes, rest) = source.split_at(x86::LANES * lane);
        // SAFETY: the processor has what the kernel needs; the lanes and the rest are whole lines
        // of the source, and their places the same lines of the target.
        let crcs = unsafe {
            store_lines(rest, to.add(lanes.len()));
            x86::store_checked_256(lanes, to)
        };
        let checked = crcs.into_iter().reduce(|crc, next| crc32c::crc32c_combine(crc, next, lane));
        return crc32c::crc32c_append(checked.unwrap_or(0), rest);
    }
    let crc = crc32c::crc32c(source);
    // SAFETY: the caller's promise.
    unsafe { store_lines(source, to) };
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::Memfd;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    fn mapped(bytes: u64) -> (Memfd, DaxMap) {
        let file = Memfd::create("plasmon-test", bytes).unwrap();
        let map = DaxMap::new(&file, bytes, Medium::Forced).unwrap();
        (file, map)
    }

    fn content(file: &Memfd, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        rustix::io::pread(file, &mut read, 0).unwrap();
        read
    }

    #[test]
    fn lines_are_stored_where_they_belong_and_nowhere_else() {
        for (offset, length) in [(0, 64), (64, 128), (4096, 8192), (16320, 64), (8192, 0)] {
            let (file, mut map) = mapped(16384);
            let source = pattern(length + 7);
            // A source need not be aligned.
            map.write(offset as u64, &source[7..]);
            fence();
            let mut wanted = vec![0; 16384];
            wanted[offset..offset + length].copy_from_slice(&source[7..]);
            assert!(content(&file, 16384) == wanted, "{length} bytes at {offset}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_kernel_stores_the_same() {
        let source = pattern(64 * 37);
        type Kernel = unsafe fn(&[u8], *mut u8);
        let kernels: [(bool, Kernel); 3] = [
            (true, x86::store_128),
            (is_x86_feature_detected!("avx2"), x86::store_256),
            (is_x86_feature_detected!("avx512f"), x86::store_512),
        ];
        for (at, (present, store)) in kernels.into_iter().enumerate() {
            if !present {
                continue;
            }
            let (file, map) = mapped(4096);
            // SAFETY: whole lines within the mapping, by a kernel that the processor has.
            unsafe { store(&source, map.base.as_ptr()) };
            fence();
            assert!(content(&file, source.len()) == source, "kernel {at}");
        }
    }

    #[test]
    fn a_checked_write_stores_the_same_and_tells_its_checksum() {
        for lines in [0, 1, 2, 3, 4, 5, 63, 64, 1000] {
            let (file, mut map) = mapped(64 << 10);
            let source = pattern(lines * LINE_BYTES + 3);
            let crc = map.write_checked(64, &source[3..]);
            fence();
            assert_eq!(crc, crc32c::crc32c(&source[3..]), "{lines} lines");
            let mut wanted = vec![0; 64 << 10];
            wanted[64..64 + lines * LINE_BYTES].copy_from_slice(&source[3..]);
            assert!(content(&file, 64 << 10) == wanted, "{lines} lines");
        }
    }

    #[test]
    #[should_panic(expected = "are no lines")]
    fn a_part_of_a_line_is_refused() {
        mapped(4096).1.write(0, &[1; 65]);
    }

    #[test]
    #[should_panic(expected = "is not that of a line")]
    fn an_offset_within_a_line_is_refused() {
        mapped(4096).1.write(8, &[1; 64]);
    }

    #[test]
    #[should_panic(expected = "are not within a mapping")]
    fn lines_beyond_the_end_are_refused() {
        mapped(4096).1.write(4032, &[1; 128]);
    }

    #[test]
    #[should_panic(expected = "are not within a mapping")]
    fn an_offset_beyond_every_address_is_refused() {
        mapped(4096).1.write(u64::MAX - 63, &[1; 128]);
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let file = Memfd::create("plasmon-test", 4096).unwrap();
        for (bytes, medium) in [(8192, Medium::Forced), (0, Medium::Forced)] {
            let error = DaxMap::new(&file, bytes, medium).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// A log that took ordinary memory for persistent memory would lose what it acknowledged.
    #[test]
    fn ordinary_memory_is_not_taken_for_persistent_memory() {
        let file = Memfd::create("plasmon-test", 4096).unwrap();
        let error = DaxMap::new(&file, 4096, Medium::Persistent).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
    }
}
