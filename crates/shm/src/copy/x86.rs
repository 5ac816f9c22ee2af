//! Copies with streaming stores, for processors of the x86-64 family.

use std::arch::x86_64::{
    __m256i, __m512i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512,
    _mm512_stream_si512,
};
use std::ptr;

/// Bytes of a cache line, which streaming stores must start at.
const LINE: usize = 64;

/// Bytes of a lane: what is copied side by side.
const LANE_BYTES: usize = 4096;

/// Splits a copy into an ordinary head up to the first whole line, blocks of `LANES` lanes side by
/// side, and an ordinary tail; `pair` streams two lines.
///
/// # Safety
///
/// As [`super::copy`]; `pair` may be called for any two lines within source and destination.
#[inline(always)]
unsafe fn split<const LANES: usize>(
    source: &[u8],
    destination: *mut u8,
    pair: impl Fn(*const u8, *mut u8),
) {
    let head = destination.align_offset(LINE).min(source.len());
    let block_bytes = LANES * LANE_BYTES;
    let tail = head + (source.len() - head) / block_bytes * block_bytes;
    // SAFETY: `head` is at most the length; the caller vouches for the destination.
    unsafe { ptr::copy_nonoverlapping(source.as_ptr(), destination, head) };
    for block in (head..tail).step_by(block_bytes) {
        for at in (block..block + LANE_BYTES).step_by(2 * LINE) {
            for lane in 0..LANES {
                let at = at + lane * LANE_BYTES;
                pair(source.as_ptr().wrapping_add(at), destination.wrapping_add(at));
            }
        }
    }
    let rest = &source[tail..];
    // SAFETY: the last `rest.len()` bytes of the destination; the caller vouches for them.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), destination.add(tail), rest.len()) };
    // Streaming stores are not ordered with the stores that publish the object.
    // SAFETY: SSE is part of the x86-64 baseline.
    unsafe { _mm_sfence() };
}

/// # Safety
///
/// As [`super::copy`], on a processor with AVX-512F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn stream_512<const LANES: usize>(source: &[u8], destination: *mut u8) {
    let pair = |from: *const u8, to: *mut u8| {
        let (from, to) = (from.cast::<__m512i>(), to.cast::<__m512i>());
        // SAFETY: `split` passes two whole lines, those of the destination aligned.
        unsafe {
            let lines = [_mm512_loadu_si512(from), _mm512_loadu_si512(from.add(1))];
            _mm512_stream_si512(to, lines[0]);
            _mm512_stream_si512(to.add(1), lines[1]);
        }
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { split::<LANES>(source, destination, pair) };
}

/// # Safety
///
/// As [`super::copy`], on a processor with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_256<const LANES: usize>(source: &[u8], destination: *mut u8) {
    let pair = |from: *const u8, to: *mut u8| {
        let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
        // SAFETY: `split` passes two whole lines, which are four halves, those of the
        // destination aligned.
        unsafe {
            let halves = [0, 1, 2, 3].map(|half| _mm256_loadu_si256(from.add(half)));
            _mm256_stream_si256(to, halves[0]);
            _mm256_stream_si256(to.add(1), halves[1]);
            _mm256_stream_si256(to.add(2), halves[2]);
            _mm256_stream_si256(to.add(3), halves[3]);
        }
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { split::<LANES>(source, destination, pair) };
}
