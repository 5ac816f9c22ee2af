//! Small square blocks of values, transposed in registers.

use crate::PIECE_BYTES;

/// Transposes four rows of four values of 4 bytes.
#[inline(always)]
pub fn transpose_4x4(lines: [[u8; PIECE_BYTES]; 4]) -> [[u8; PIECE_BYTES]; 4] {
    let [a, b, c, d] = lines;
    let (ab, ab_high) = (unpack_low::<4>(a, b), unpack_high::<4>(a, b));
    let (cd, cd_high) = (unpack_low::<4>(c, d), unpack_high::<4>(c, d));
    [
        unpack_low::<8>(ab, cd),
        unpack_high::<8>(ab, cd),
        unpack_low::<8>(ab_high, cd_high),
        unpack_high::<8>(ab_high, cd_high),
    ]
}

/// Transposes two rows of two values of 8 bytes.
#[inline(always)]
pub fn transpose_2x2([a, b]: [[u8; PIECE_BYTES]; 2]) -> [[u8; PIECE_BYTES]; 2] {
    [unpack_low::<8>(a, b), unpack_high::<8>(a, b)]
}

/// The first halves of two lines, value by value in turn.
#[inline(always)]
fn unpack_low<const BYTES: usize>(a: [u8; PIECE_BYTES], b: [u8; PIECE_BYTES]) -> [u8; PIECE_BYTES] {
    interleave::<BYTES, 0>(a, b)
}

/// The second halves of two lines, value by value in turn.
#[inline(always)]
fn unpack_high<const BYTES: usize>(
    a: [u8; PIECE_BYTES],
    b: [u8; PIECE_BYTES],
) -> [u8; PIECE_BYTES] {
    interleave::<BYTES, 1>(a, b)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn interleave<const BYTES: usize, const HALF: usize>(
    a: [u8; PIECE_BYTES],
    b: [u8; PIECE_BYTES],
) -> [u8; PIECE_BYTES] {
    use std::arch::x86_64::{
        _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    const { assert!(BYTES == 4 || BYTES == 8, "values of 4 or 8 bytes") };
    let (a, b) = (bytemuck::cast(a), bytemuck::cast(b));
    // SAFETY: every x86-64 processor has these instructions, which only look at their arguments.
    let transposed = unsafe {
        match (BYTES, HALF) {
            (4, 0) => _mm_unpacklo_epi32(a, b),
            (4, _) => _mm_unpackhi_epi32(a, b),
            (_, 0) => _mm_unpacklo_epi64(a, b),
            _ => _mm_unpackhi_epi64(a, b),
        }
    };
    bytemuck::cast(transposed)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn interleave<const BYTES: usize, const HALF: usize>(
    a: [u8; PIECE_BYTES],
    b: [u8; PIECE_BYTES],
) -> [u8; PIECE_BYTES] {
    let mut transposed = [0; PIECE_BYTES];
    let half = HALF * PIECE_BYTES / 2;
    for (at, pair) in transposed.chunks_exact_mut(2 * BYTES).enumerate() {
        let from = half + at * BYTES;
        pair[..BYTES].copy_from_slice(&a[from..from + BYTES]);
        pair[BYTES..].copy_from_slice(&b[from..from + BYTES]);
    }
    transposed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_columns() {
        let four: [[u32; 4]; 4] =
            std::array::from_fn(|line| std::array::from_fn(|at| (line * 10 + at) as u32));
        let transposed: [[u32; 4]; 4] = bytemuck::cast(transpose_4x4(bytemuck::cast(four)));
        let two: [[u64; 2]; 2] = [[1, 2], [3, 4]];
        for line in 0..4 {
            for at in 0..4 {
                assert_eq!(transposed[line][at], four[at][line]);
            }
        }
        let transposed: [[u64; 2]; 2] = bytemuck::cast(transpose_2x2(bytemuck::cast(two)));
        assert_eq!(transposed, [[1, 3], [2, 4]]);
    }
}
