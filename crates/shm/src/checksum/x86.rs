//! CRC-32C by multiplication without carries, for processors of the x86-64 family.
//!
//! A register of 128 bits holds a polynomial in reflected order: its first bit is the coefficient
//! of x^127. The product of two halves is therefore one power of x too high, and a constant in the
//! lower half of 64 bits stands for itself times x^32. So to move a register by `d` bits, its first
//! half is multiplied by x^(d + 64 - 33) and its second by x^(d - 33), both modulo the polynomial
//! of the checksum.

use std::arch::x86_64::{
    __m128i, __m512i, _MM_HINT_T0, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi128_si64,
    _mm_extract_epi64, _mm_prefetch, _mm_set_epi64x, _mm_xor_si128, _mm512_broadcast_i32x4,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

/// Bytes of a cache line, and of a register.
pub(crate) const LINE_BYTES: usize = 64;

/// Registers that are multiplied side by side.
const REGISTERS: usize = 4;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// How far ahead the source is asked for, and the page of the target. Stores past the caches wait
/// for the translation of their page, and loads behind them for their lines: while other processors
/// use the memory, a mebibyte takes 55 us without these, and 28 with both.
const SOURCE_AHEAD: usize = 1 << 10;
const TARGET_AHEAD: usize = 2 * PAGE_BYTES;

/// The polynomial of CRC-32C without x^32, in reflected order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^`power` modulo the polynomial, in reflected order.
const fn power_of_x(power: u32) -> u32 {
    let mut remainder: u32 = 1 << 31;
    let mut left = power;
    while left > 0 {
        let carry = if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
        remainder = (remainder >> 1) ^ carry;
        left -= 1;
    }
    remainder
}

/// What moves a register of 128 bits over so many bits: for its first half and for its second.
const fn mover(bits: u32) -> [u32; 2] {
    [power_of_x(bits + 31), power_of_x(bits - 33)]
}

/// Over all registers that are side by side.
const OVER_REGISTERS: [u32; 2] = mover(8 * (REGISTERS * LINE_BYTES) as u32);
/// Over one of 512 bits.
const OVER_LINE: [u32; 2] = mover(8 * LINE_BYTES as u32);
/// Over one of 128 bits.
const OVER_LANE: [u32; 2] = mover(128);

/// Whether the processor has what [`fold_lines`] needs.
#[inline]
pub(crate) fn is_available() -> bool {
    // Detection is cached by the standard library: a load for each here.
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.2")
}

/// The CRC-32C of what has the checksum `crc` and of `bytes` bytes after it, whole lines, which are
/// stored past the caches in the same pass if `STORE`.
///
/// # Safety
///
/// The processor has what [`is_available`] asks for. `from` is readable for `bytes` bytes, a
/// multiple of [`LINE_BYTES`]. If `STORE`, `to` is aligned to a line and writable for as many, no
/// other thread reads or writes there, and the source does not overlap it.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
pub(crate) unsafe fn fold_lines<const STORE: bool>(
    crc: u32,
    from: *const u8,
    bytes: usize,
    to: *mut u8,
) -> u32 {
    const STRIDE: usize = REGISTERS * LINE_BYTES;
    // SAFETY: the lines that are asked for below lie within what the caller vouches for.
    let take = |at| unsafe { take_line::<STORE>(from.wrapping_add(at), to.wrapping_add(at)) };
    let folded = bytes - bytes % STRIDE;
    let mut state = u64::from(!crc);
    if folded > 0 {
        // No `map`, nor any function of the library that calls a closure: it has none of these
        // instructions, so the closure would not be compiled into it.
        let mut sums = [take(0), take(LINE_BYTES), take(2 * LINE_BYTES), take(3 * LINE_BYTES)];
        let begin = _mm512_zextsi128_si512(_mm_set_epi64x(0, state as i64));
        sums[0] = _mm512_xor_si512(sums[0], begin);
        let over = wide(OVER_REGISTERS);
        let mut at = STRIDE;
        while at < folded {
            if STORE {
                ask_ahead(from.wrapping_add(at), to.wrapping_add(at));
            }
            for (register, sum) in sums.iter_mut().enumerate() {
                *sum = moved_512(*sum, over, take(at + register * LINE_BYTES));
            }
            at += STRIDE;
        }
        state = reduced(sums);
    }
    let mut at = folded;
    while at < bytes {
        let mut words = [0_u64; LINE_BYTES / 8];
        // SAFETY: the words are as long as a register.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), take(at)) };
        for word in words {
            state = _mm_crc32_u64(state, word);
        }
        at += LINE_BYTES;
    }
    !(state as u32)
}

/// Has the processor fetch what the lines after these need.
#[inline]
#[target_feature(enable = "sse")]
fn ask_ahead(from: *const u8, to: *const u8) {
    for line in 0..REGISTERS {
        let ahead = from.wrapping_add(line * LINE_BYTES + SOURCE_AHEAD);
        // A hint, of any address: what cannot be read is not fetched.
        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
    }
    if to.addr() % PAGE_BYTES < REGISTERS * LINE_BYTES {
        // It fetches a line; what counts is that the page is known then.
        _mm_prefetch::<_MM_HINT_T0>(to.wrapping_add(TARGET_AHEAD).cast());
    }
}

/// Reads a line, and stores it if `STORE`.
///
/// # Safety
///
/// As [`fold_lines`], for one line.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn take_line<const STORE: bool>(from: *const u8, to: *mut u8) -> __m512i {
    // SAFETY: the line is readable.
    let line = unsafe { _mm512_loadu_si512(from.cast()) };
    if STORE {
        // SAFETY: the caller vouches for the place and its alignment.
        unsafe { _mm512_stream_si512(to.cast(), line) };
    }
    line
}

/// Both constants in each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn wide(mover: [u32; 2]) -> __m512i {
    _mm512_broadcast_i32x4(narrow(mover))
}

#[inline]
#[target_feature(enable = "sse2")]
fn narrow([first, second]: [u32; 2]) -> __m128i {
    _mm_set_epi64x(i64::from(second), i64::from(first))
}

/// Four lanes moved, and others added.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn moved_512(lanes: __m512i, mover: __m512i, added: __m512i) -> __m512i {
    let first = _mm512_clmulepi64_epi128::<0x00>(lanes, mover);
    let second = _mm512_clmulepi64_epi128::<0x11>(lanes, mover);
    // The exclusive or of three.
    _mm512_ternarylogic_epi64::<0x96>(first, second, added)
}

/// The same with one lane.
#[inline]
#[target_feature(enable = "pclmulqdq,sse2")]
fn moved_128(lane: __m128i, mover: __m128i, added: __m128i) -> __m128i {
    let first = _mm_clmulepi64_si128::<0x00>(lane, mover);
    let second = _mm_clmulepi64_si128::<0x11>(lane, mover);
    _mm_xor_si128(_mm_xor_si128(first, second), added)
}

/// The state of the checksum after all that the registers stand for.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn reduced([first, rest @ ..]: [__m512i; REGISTERS]) -> u64 {
    let over_line = wide(OVER_LINE);
    let mut line = first;
    for next in rest {
        line = moved_512(line, over_line, next);
    }
    let over_lane = narrow(OVER_LANE);
    let mut lane = _mm512_extracti32x4_epi32::<0>(line);
    lane = moved_128(lane, over_lane, _mm512_extracti32x4_epi32::<1>(line));
    lane = moved_128(lane, over_lane, _mm512_extracti32x4_epi32::<2>(line));
    lane = moved_128(lane, over_lane, _mm512_extracti32x4_epi32::<3>(line));
    let state = _mm_crc32_u64(0, _mm_cvtsi128_si64(lane) as u64);
    _mm_crc32_u64(state, _mm_extract_epi64::<1>(lane) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants that Intel's paper and the kernel of Linux have for this polynomial.
    #[test]
    fn the_constants_are_those_of_the_polynomial() {
        assert_eq!(power_of_x(0), 1 << 31);
        assert_eq!(power_of_x(31), 1);
        assert_eq!(power_of_x(32), POLYNOMIAL);
        assert_eq!(OVER_LANE, [0xf20c_0dfe, 0x493c_7d27]);
    }
}
