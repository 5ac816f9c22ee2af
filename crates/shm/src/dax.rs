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

use crate::checksum;

#[cfg(target_arch = "x86_64")]
mod x86;

/// What is written is made of these: offsets and lengths are multiples of it.
pub const LINE_BYTES: usize = 64;

/// What is summed up and then stored while it is in the first cache, by processors that do not do
/// both at once.
const CACHED_BYTES: usize = 8 << 10;

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

    /// Stores bytes at an offset, that of a line, and zeros up to the end of the last line. Returns
    /// the CRC-32C of the bytes, which is made in the same pass.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write), of the lines that the bytes begin.
    pub fn write_checked(&mut self, offset: u64, source: &[u8]) -> u32 {
        let to = self.lines(offset, source.len().next_multiple_of(LINE_BYTES));
        let (lines, rest) = source.split_at(source.len() - source.len() % LINE_BYTES);
        // SAFETY: as in `write`, for the whole lines.
        let crc = unsafe { store_checked(lines, to) };
        if rest.is_empty() {
            return crc;
        }
        let mut line = [0; LINE_BYTES];
        line[..rest.len()].copy_from_slice(rest);
        // SAFETY: as in `write`: `lines` has checked that one more line lies within the mapping.
        unsafe { store_lines(&line, to.wrapping_add(lines.len())) };
        checksum::crc32c_append(crc, rest)
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
    if checksum::x86::is_available() {
        // SAFETY: the processor has what the kernel needs; the lines are borrowed, and the target
        // is the caller's promise.
        return unsafe { checksum::x86::fold_lines::<true>(0, source.as_ptr(), source.len(), to) };
    }
    // SAFETY: the caller's promise.
    unsafe { store_summed(source, to) }
}

/// The same in two passes, the second of which has the bytes in a cache.
///
/// # Safety
///
/// As [`store_lines`].
unsafe fn store_summed(source: &[u8], to: *mut u8) -> u32 {
    let mut crc = 0;
    for (index, part) in source.chunks(CACHED_BYTES).enumerate() {
        crc = checksum::crc32c_append(crc, part);
        // SAFETY: the caller's promise, for these lines of it.
        unsafe { store_lines(part, to.wrapping_add(index * CACHED_BYTES)) };
    }
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
        let lines = [0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 1000].map(|lines| lines * LINE_BYTES);
        for bytes in lines.into_iter().flat_map(|bytes| [bytes, bytes + 1, bytes + 63]) {
            let (file, mut map) = mapped(80 << 10);
            // What was there before, in the rest of the last line, too.
            let before = vec![0xee; 80 << 10];
            rustix::io::pwrite(&file, &before, 0).unwrap();
            let source = pattern(bytes + 3);
            let crc = map.write_checked(64, &source[3..]);
            fence();
            assert_eq!(crc, crc32c::crc32c(&source[3..]), "{bytes} bytes");
            let mut wanted = before;
            wanted[64..64 + bytes.next_multiple_of(LINE_BYTES)].fill(0);
            wanted[64..64 + bytes].copy_from_slice(&source[3..]);
            assert!(content(&file, 80 << 10) == wanted, "{bytes} bytes");
        }
    }

    #[test]
    fn lines_that_are_summed_up_first_are_the_same() {
        for bytes in [0, 64, CACHED_BYTES - 64, CACHED_BYTES, 3 * CACHED_BYTES + 128] {
            let (file, map) = mapped(64 << 10);
            let source = pattern(bytes);
            // SAFETY: whole lines within the mapping.
            let crc = unsafe { store_summed(&source, map.base.as_ptr()) };
            fence();
            assert_eq!(crc, crc32c::crc32c(&source), "{bytes} bytes");
            assert!(content(&file, bytes) == source, "{bytes} bytes");
        }
    }

    #[test]
    #[should_panic(expected = "are not within a mapping")]
    fn a_checked_write_beyond_the_end_is_refused() {
        mapped(4096).1.write_checked(4032, &[1; 65]);
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
