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
use std::time::Instant;

use self::choice::{Choice, Way};

/// From here on copies stream past the cache.
pub const STREAM_BYTES_MIN: usize = 256 << 10;

/// The least that is worth a thread of its own: starting one costs some ten microseconds, copying
/// this much about a millisecond.
pub const THREAD_BYTES_MIN: usize = 8 << 20;

/// Copies are timed in pieces of this: far longer than reading the clock takes, and short enough
/// for many of them in one large object.
const TIMED_BYTES: usize = 4 << 20;

/// Pieces that parallel copies are cut into end at multiples of this.
const PIECE_ALIGN: usize = 4096;

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
/// `destination` is writable for `source.len()` bytes, and nobody else reads or writes these
/// meanwhile.
pub unsafe fn copy(source: &[u8], destination: *mut u8) {
    if source.len() < STREAM_BYTES_MIN {
        // SAFETY: the caller vouches for the destination; a source that is borrowed shared cannot
        // overlap memory that nobody else reads.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len()) };
        return;
    }
    // SAFETY: as above.
    unsafe { copy_timed(source, destination) };
}

/// What is known about copies that are one piece, and about the pieces of longer ones: a short copy
/// may stay in a cache that a long one would only sweep out.
static SHORT: Choice = Choice::new();
static LONG: Choice = Choice::new();

/// # Safety
///
/// As [`copy`].
unsafe fn copy_timed(source: &[u8], destination: *mut u8) {
    let choice = if source.len() < TIMED_BYTES { &SHORT } else { &LONG };
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
// threads; each thread writes a part of its own.
unsafe impl Send for Target {}

/// Cuts `parts` into as many shares as `threads`, each about equally long, and gives each to one
/// call of `work`, on threads of their own but for the last.
fn share<T: Copy + Send>(
    parts: &[(&[u8], T)],
    threads: usize,
    advance: impl Fn(T, usize) -> T,
    work: impl Fn(&[(&[u8], T)]) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let total: usize = parts.iter().map(|(bytes, _)| bytes.len()).sum();
    let threads = threads.min(total / THREAD_BYTES_MIN).max(1);
    if threads == 1 {
        return work(parts);
    }
    let share_bytes = total.div_ceil(threads).next_multiple_of(PIECE_ALIGN);
    let mut shares = vec![Vec::new()];
    let mut room = share_bytes;
    for &(mut bytes, mut to) in parts {
        while !bytes.is_empty() {
            if room == 0 {
                shares.push(Vec::new());
                room = share_bytes;
            }
            let (now, later) = bytes.split_at(bytes.len().min(room));
            if let Some(last) = shares.last_mut() {
                last.push((now, to));
            }
            room -= now.len();
            to = advance(to, now.len());
            bytes = later;
        }
    }
    let own = shares.pop().unwrap_or_default();
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let spawned = std::thread::Builder::new().spawn_scoped(scope, {
                    let share = share.clone();
                    move || work(&share)
                });
                (spawned, share)
            })
            .collect();
        let mut outcome = work(&own);
        for (spawned, share) in others {
            let result = match spawned {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // No thread to be had: the work is still to be done.
                Err(_) => work(&share),
            };
            outcome = outcome.and(result);
        }
        outcome
    })
}

/// Copies every part to its destination with up to `threads` threads, this one among them.
///
/// # Safety
///
/// As [`copy`], for each part; the destinations do not overlap.
pub unsafe fn copy_parallel(parts: &[(&[u8], *mut u8)], threads: usize) {
    let targets: Vec<_> = parts.iter().map(|(bytes, to)| (*bytes, Target(*to))).collect();
    let advance = |to: Target, bytes: usize| Target(to.0.wrapping_add(bytes));
    let done = share(&targets, threads, advance, |share| {
        for (bytes, to) in share {
            // SAFETY: the caller vouches for the whole destinations, and shares do not overlap.
            unsafe { copy(bytes, to.0) };
        }
        Ok(())
    });
    debug_assert!(done.is_ok(), "copying within memory has no errors");
}

/// Writes every part at its offset in a file with up to `threads` threads, this one among them.
/// Into memory that nobody has touched yet this is faster than copying through a mapping, because
/// the kernel need not map the pages first.
pub fn write_parallel(
    fd: BorrowedFd<'_>,
    parts: &[(&[u8], u64)],
    threads: usize,
) -> io::Result<()> {
    let advance = |offset: u64, bytes: usize| offset + bytes as u64;
    share(parts, threads, advance, |share| {
        share.iter().try_for_each(|(bytes, offset)| write_all_at(fd, bytes, *offset))
    })
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
            // SAFETY: the parts lie one behind the other in the vector.
            unsafe { copy_parallel(&pointers, threads) };
            assert!(target == source, "{threads} threads");

            let memfd = Memfd::create("plasmon-test", source.len() as u64).unwrap();
            let offsets: Vec<_> = parts.iter().map(|(bytes, at)| (*bytes, *at as u64)).collect();
            write_parallel(memfd.as_fd(), &offsets, threads).unwrap();
            let mut read = vec![0u8; source.len()];
            rustix::io::pread(&memfd, &mut read, 0).unwrap();
            assert!(read == source, "{threads} threads");
        }
    }

    #[test]
    fn a_write_beyond_a_memfd_is_an_error() {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        assert!(write_parallel(memfd.as_fd(), &[(&[1; 100], 4050)], 1).is_err());
    }
}
