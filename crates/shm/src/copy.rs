//! Moving payload: the one place that copies objects.
//!
//! A copy into memory that is not in the cache is limited by what the stores cost. An ordinary
//! store first reads the line that it is about to overwrite; a streaming store does not, and
//! reaches up to twice the speed. Below [`STREAM_BYTES_MIN`] the copy may still be in the cache
//! when its first reader comes, and an ordinary copy is better. Above, it depends on the machine
//! which kind of stores is the fastest, so copies are timed and [`choice`] learns from them; the
//! widest streaming stores that the processor has are used.

mod choice;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use self::choice::{Choice, Way};

/// From here on copies stream past the cache.
pub const STREAM_BYTES_MIN: usize = 256 << 10;

/// The least that is worth a separate thread: starting one costs some ten microseconds, copying
/// this much about a millisecond.
pub const THREAD_BYTES_MIN: usize = 8 << 20;

/// Copies are timed, and shared among threads, in pieces of this: far longer than reading the clock
/// takes, and short enough for many of them in one large object.
const TIMED_BYTES: usize = 4 << 20;

/// The most that is worth fetching ahead: as much as the processor fetches side by side.
const PREFETCH_BYTES_MAX: usize = 1024;

/// Starts to bring the lines from `start` on into the cache, to be written. Only a hint: nothing is
/// read, and the address may be any.
#[inline]
pub(crate) fn prefetch_for_writing(start: *const u8, bytes: usize) {
    for at in (0..bytes.min(PREFETCH_BYTES_MAX)).step_by(64) {
        let line = start.wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect but on the cache and faults nowhere; processors that do
        // not know this one take it for a `nop`.
        unsafe {
            std::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) line,
                options(nostack, preserves_flags, readonly),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Copies `source` to `destination`.
///
/// # Safety
///
/// `destination` is writable for `source.len()` bytes, and no other thread reads or writes these
/// meanwhile.
pub unsafe fn copy(source: &[u8], destination: *mut u8) {
    // SAFETY: the caller vouches for it.
    unsafe { copy_piece(source, destination, source.len()) };
}

/// Copies one piece of a copy of `total` bytes.
///
/// # Safety
///
/// As [`copy`].
unsafe fn copy_piece(source: &[u8], destination: *mut u8, total: usize) {
    if source.len() < STREAM_BYTES_MIN {
        // SAFETY: the caller vouches for the destination; a source that is borrowed shared cannot
        // overlap memory that no other thread reads.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len()) };
        return;
    }
    // SAFETY: as above.
    unsafe { copy_timed(source, destination, if total < TIMED_BYTES { &SHORT } else { &LONG }) };
}

/// What is known about copies that are one piece, and about the pieces of longer ones: a short copy
/// may stay in a cache that a long one would only sweep out.
static SHORT: Choice = Choice::new();
static LONG: Choice = Choice::new();

/// # Safety
///
/// As [`copy`].
unsafe fn copy_timed(source: &[u8], destination: *mut u8, choice: &Choice) {
    let mut to = destination;
    for piece in source.chunks(TIMED_BYTES) {
        let way = choice.pick();
        let started = Instant::now();
        // SAFETY: the pieces lie within the destination that the caller of `copy` vouches for.
        unsafe { copy_by(way, piece, to) };
        if piece.len() >= STREAM_BYTES_MIN {
            choice.record(way, piece.len(), started.elapsed());
        }
        to = to.wrapping_add(piece.len());
    }
}

/// # Safety
///
/// As [`copy`].
unsafe fn copy_by(way: Way, source: &[u8], destination: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        // Detection is cached by the standard library: one load here.
        let (wide, narrow) =
            (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2"));
        // SAFETY: the processor has what each kernel needs, and the caller of `copy` vouches for
        // the destination.
        unsafe {
            match way {
                Way::Lines if wide => return x86::stream_512::<1>(source, destination),
                Way::Pages if wide => return x86::stream_512::<4>(source, destination),
                Way::Lines if narrow => return x86::stream_256::<1>(source, destination),
                Way::Pages if narrow => return x86::stream_256::<4>(source, destination),
                _ => {}
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = way;
    // SAFETY: the caller of `copy` vouches for the destination.
    unsafe { ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len()) };
}

/// A destination that may cross to another thread.
#[derive(Clone, Copy)]
struct Target(*mut u8);

// SAFETY: the address of memory that the caller of `copy_parallel` vouches for on behalf of all
// threads; each piece is written by one of them.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Copies every part to its destination with up to `threads` threads, this one among them.
///
/// They take one piece after the other: with a share for each, all would wait for the one whose
/// processor had something else to do.
///
/// # Safety
///
/// As [`copy`], for each part; the destinations do not overlap.
pub unsafe fn copy_parallel(parts: &[(&[u8], *mut u8)], threads: usize) {
    let total: usize = parts.iter().map(|(bytes, _)| bytes.len()).sum();
    let threads = threads.min(total / THREAD_BYTES_MIN).max(1);
    let mut pieces = Vec::with_capacity(parts.len() + total / TIMED_BYTES);
    for (bytes, to) in parts {
        for (number, piece) in bytes.chunks(TIMED_BYTES).enumerate() {
            pieces.push((piece, Target(to.wrapping_add(number * TIMED_BYTES))));
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((piece, to)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: the caller vouches for the whole destinations; each piece is taken once.
            unsafe { copy_piece(piece, to.0, total) };
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without a thread to be had the others do it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// Writes every part at its offset in a file. Into memory that was never touched this is
/// faster than copying through a mapping, because the kernel need not map the pages first. It lets
/// one thread at a time write to a file, and two take longer than one.
pub fn write_parts(fd: BorrowedFd<'_>, parts: &[(&[u8], u64)]) -> io::Result<()> {
    parts.iter().try_for_each(|(bytes, offset)| write_all_at(fd, bytes, *offset))
}

fn write_all_at(fd: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(fd, bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::Memfd;
    use std::os::fd::AsFd;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    #[test]
    fn every_alignment_and_length_is_copied_and_nothing_else() {
        let source = pattern(STREAM_BYTES_MIN + 4096);
        let sizes =
            [0, 1, 63, 64, 65, STREAM_BYTES_MIN - 1, STREAM_BYTES_MIN, STREAM_BYTES_MIN + 777];
        for bytes in sizes {
            for shift in [0, 1, 17, 63] {
                let part = &source[shift * 3..shift * 3 + bytes];
                let mut target = vec![0xee; bytes + 256];
                // SAFETY: `bytes` bytes from `64 + shift` on lie within the vector.
                unsafe { copy(part, target.as_mut_ptr().add(64 + shift)) };
                assert!(target[..64 + shift].iter().all(|byte| *byte == 0xee));
                assert!(target[64 + shift..][..bytes] == *part, "{bytes} bytes at {shift}");
                assert!(target[64 + shift + bytes..].iter().all(|byte| *byte == 0xee));
            }
        }
    }

    #[test]
    fn every_way_copies_the_same() {
        let source = pattern(50_007);
        for way in [Way::Ordinary, Way::Lines, Way::Pages] {
            let mut target = vec![0; source.len() + 1];
            // SAFETY: the vector is one byte longer than the source.
            unsafe { copy_by(way, &source, target.as_mut_ptr().add(1)) };
            assert!(target[1..] == source, "{way:?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_narrow_streaming_copies_are_right_too() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        let source = pattern(50_007);
        for copy in [x86::stream_256::<1>, x86::stream_256::<4>] {
            let mut target = vec![0; source.len() + 1];
            // SAFETY: the vector is one byte longer than the source, and the processor has AVX2.
            unsafe { copy(&source, target.as_mut_ptr().add(1)) };
            assert!(target[1..] == source);
        }
    }

    #[test]
    fn parallel_copies_and_writes_equal_plain_ones() {
        let source = pattern(3 * THREAD_BYTES_MIN + 12_345);
        let cuts = [0, 5, 100_000, THREAD_BYTES_MIN + 1, source.len()];
        let parts: Vec<_> = cuts.windows(2).map(|cut| (&source[cut[0]..cut[1]], cut[0])).collect();
        for threads in [0, 1, 2, 3, 9] {
            let mut target = vec![0u8; source.len()];
            let base = target.as_mut_ptr();
            let pointers: Vec<_> =
                parts.iter().map(|(bytes, at)| (*bytes, base.wrapping_add(*at))).collect();
            // SAFETY: the parts follow each other in the vector.
            unsafe { copy_parallel(&pointers, threads) };
            assert!(target == source, "{threads} threads");

            let memfd = Memfd::create("plasmon-test", source.len() as u64).unwrap();
            let offsets: Vec<_> = parts.iter().map(|(bytes, at)| (*bytes, *at as u64)).collect();
            write_parts(memfd.as_fd(), &offsets).unwrap();
            let mut read = vec![0u8; source.len()];
            rustix::io::pread(&memfd, &mut read, 0).unwrap();
            assert!(read == source, "{threads} threads");
        }
    }

    #[test]
    fn a_write_beyond_a_memfd_is_an_error() {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        assert!(write_parts(memfd.as_fd(), &[(&[1; 100], 4050)]).is_err());
    }
}
