//! Streaming stores of whole lines, for processors of the x86-64 family.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_stream_si128, _mm256_loadu_si256,
    _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512,
};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// # Safety
///
/// As [`super::store_lines`], on a processor with AVX-512F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store_512(source: &[u8], to: *mut u8) {
    for (at, line) in source.chunks_exact(LINE_BYTES).enumerate() {
        let from = line.as_ptr().cast::<__m512i>();
        // SAFETY: one whole line on both sides; the target's alignment is the caller's promise.
        unsafe {
            let to = to.add(at * LINE_BYTES).cast::<__m512i>();
            _mm512_stream_si512(to, _mm512_loadu_si512(from));
        }
    }
}

/// # Safety
///
/// As [`super::store_lines`], on a processor with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_256(source: &[u8], to: *mut u8) {
    for (at, line) in source.chunks_exact(LINE_BYTES).enumerate() {
        let from = line.as_ptr().cast::<__m256i>();
        // SAFETY: as above, by halves.
        unsafe {
            let to = to.add(at * LINE_BYTES).cast::<__m256i>();
            let halves = [0, 1].map(|half| _mm256_loadu_si256(from.add(half)));
            _mm256_stream_si256(to, halves[0]);
            _mm256_stream_si256(to.add(1), halves[1]);
        }
    }
}

/// # Safety
///
/// As [`super::store_lines`].
pub(super) unsafe fn store_128(source: &[u8], to: *mut u8) {
    for (at, line) in source.chunks_exact(LINE_BYTES).enumerate() {
        let from = line.as_ptr().cast::<__m128i>();
        // SAFETY: as above, by quarters; SSE2 is part of the x86-64 baseline.
        unsafe {
            let to = to.add(at * LINE_BYTES).cast::<__m128i>();
            let quarters = [0, 1, 2, 3].map(|quarter| _mm_loadu_si128(from.add(quarter)));
            _mm_stream_si128(to, quarters[0]);
            _mm_stream_si128(to.add(1), quarters[1]);
            _mm_stream_si128(to.add(2), quarters[2]);
            _mm_stream_si128(to.add(3), quarters[3]);
        }
    }
}
