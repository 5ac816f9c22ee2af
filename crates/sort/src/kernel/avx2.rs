//! Vectors of four numbers: AVX2.
//!
//! It compares signed numbers only, so comparisons see numbers with their top bit turned round.
//! Entered through `pulp`, which checks that the processor has the instructions; there is no
//! unsafe code here.

use core::arch::x86_64::__m256i;

use pulp::NullaryFnOnce;
use pulp::x86::V3;

use super::quicksort::{self, Vectors};

const LANES: usize = 4;
const SIGN: u64 = 1 << 63;

/// Sorts numbers.
pub(super) fn sort(features: V3, numbers: &mut [u64]) {
    features.vectorize(Sort(Lanes(features), numbers));
}

struct Sort<'a>(Lanes, &'a mut [u64]);

impl NullaryFnOnce for Sort<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        quicksort::sort(self.0, self.1);
    }
}

/// For each outcome of four comparisons, the lanes that were true and then those that were false,
/// each as the places of its two halves.
const SPLITS: [[u32; 8]; 16] = splits();

const fn splits() -> [[u32; 8]; 16] {
    let mut table = [[0; 8]; 16];
    let mut mask = 0;
    while mask < 16 {
        let (mut filled, mut wanted) = (0, 2);
        while wanted > 0 {
            wanted -= 1;
            let mut lane = 0;
            while lane < LANES {
                if (mask >> lane) & 1 == wanted {
                    table[mask][filled] = 2 * lane as u32;
                    table[mask][filled + 1] = 2 * lane as u32 + 1;
                    filled += 2;
                }
                lane += 1;
            }
        }
        mask += 1;
    }
    table
}

/// Four numbers at a time.
#[derive(Clone, Copy)]
struct Lanes(V3);

impl Lanes {
    #[inline(always)]
    fn flip(self, v: __m256i) -> __m256i {
        self.0.avx2._mm256_xor_si256(v, cast([SIGN; LANES]))
    }

    /// In pairs of lanes, compares the one with the other.
    #[inline(always)]
    fn exchange_next(self, v: __m256i) -> __m256i {
        let other = self.0.avx2._mm256_shuffle_epi32::<0b01_00_11_10>(v);
        let (least, greatest) = self.order(v, other);
        self.0.avx2._mm256_blend_epi32::<0b1100_1100>(least, greatest)
    }
}

impl Vectors for Lanes {
    type V = __m256i;
    const LANES: usize = LANES;

    #[inline(always)]
    fn load(self, numbers: &[u64]) -> __m256i {
        let lanes: &[u64; LANES] = numbers.first_chunk().expect("a whole vector");
        cast(*lanes)
    }

    #[inline(always)]
    fn store(self, numbers: &mut [u64], v: __m256i) {
        let lanes: [u64; LANES] = bytemuck::cast(v);
        numbers[..LANES].copy_from_slice(&lanes);
    }

    #[inline(always)]
    fn pivots(self, pivot: u64) -> __m256i {
        cast([pivot ^ SIGN; LANES])
    }

    #[inline(always)]
    fn split(self, v: __m256i, pivots: __m256i) -> (__m256i, usize) {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let below = avx2._mm256_cmpgt_epi64(pivots, self.flip(v));
        let below = avx._mm256_movemask_pd(avx._mm256_castsi256_pd(below)) as usize;
        let order: __m256i = bytemuck::cast(SPLITS[below % SPLITS.len()]);
        (avx2._mm256_permutevar8x32_epi32(v, order), LANES - below.count_ones() as usize)
    }

    #[inline(always)]
    fn enter(self, v: __m256i) -> __m256i {
        self.flip(v)
    }

    #[inline(always)]
    fn leave(self, v: __m256i) -> __m256i {
        self.flip(v)
    }

    #[inline(always)]
    fn top(self) -> __m256i {
        cast([u64::MAX ^ SIGN; LANES])
    }

    #[inline(always)]
    fn cover(self, v: __m256i, count: usize) -> __m256i {
        let count = cast([count as u64; LANES]);
        let covered = self.0.avx2._mm256_cmpgt_epi64(count, cast([0, 1, 2, 3]));
        self.0.avx2._mm256_blendv_epi8(v, self.top(), covered)
    }

    #[inline(always)]
    fn join(self, one: __m256i, other: __m256i, from: usize) -> __m256i {
        // There is no permutation of two vectors.
        let both: [u64; 2 * LANES] = bytemuck::cast([one, other]);
        self.load(&both[from..])
    }

    #[inline(always)]
    fn order(self, one: __m256i, other: __m256i) -> (__m256i, __m256i) {
        let avx2 = self.0.avx2;
        let greater = avx2._mm256_cmpgt_epi64(one, other);
        let least = avx2._mm256_blendv_epi8(one, other, greater);
        (least, avx2._mm256_blendv_epi8(other, one, greater))
    }

    #[inline(always)]
    fn reverse(self, v: __m256i) -> __m256i {
        self.0.avx2._mm256_permute4x64_epi64::<0b00_01_10_11>(v)
    }

    #[inline(always)]
    fn sort_vector(self, v: __m256i) -> __m256i {
        let v = self.exchange_next(v);
        let (least, greatest) = self.order(v, self.reverse(v));
        self.exchange_next(self.0.avx2._mm256_blend_epi32::<0b1111_0000>(least, greatest))
    }

    #[inline(always)]
    fn merge_vector(self, v: __m256i) -> __m256i {
        let other = self.0.avx2._mm256_permute4x64_epi64::<0b01_00_11_10>(v);
        let (least, greatest) = self.order(v, other);
        self.exchange_next(self.0.avx2._mm256_blend_epi32::<0b1111_0000>(least, greatest))
    }

    #[inline(always)]
    fn transpose(self, v: &mut [__m256i]) -> usize {
        let avx2 = self.0.avx2;
        let mut rows = [v[0]; 8];
        for half in 0..2 {
            let v = &v[4 * half..4 * half + 4];
            let (low, high) = (
                [avx2._mm256_unpacklo_epi64(v[0], v[1]), avx2._mm256_unpacklo_epi64(v[2], v[3])],
                [avx2._mm256_unpackhi_epi64(v[0], v[1]), avx2._mm256_unpackhi_epi64(v[2], v[3])],
            );
            // A column of eight numbers is two vectors, one of each half.
            rows[half] = avx2._mm256_permute2x128_si256::<0x20>(low[0], low[1]);
            rows[half + 2] = avx2._mm256_permute2x128_si256::<0x20>(high[0], high[1]);
            rows[half + 4] = avx2._mm256_permute2x128_si256::<0x31>(low[0], low[1]);
            rows[half + 6] = avx2._mm256_permute2x128_si256::<0x31>(high[0], high[1]);
        }
        v.copy_from_slice(&rows);
        2
    }
}

#[inline(always)]
fn cast(lanes: [u64; LANES]) -> __m256i {
    bytemuck::cast(lanes)
}
