//! Vectors of eight numbers: AVX-512.
//!
//! Entered through `pulp`, which checks that the processor has the instructions; there is no
//! unsafe code here.

use core::arch::x86_64::__m512i;

use pulp::NullaryFnOnce;
use pulp::x86::V4;

use super::quicksort::{self, Vectors};

const LANES: usize = 8;

/// Sorts numbers.
pub(super) fn sort(features: V4, numbers: &mut [u64]) {
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

/// For each outcome of eight comparisons, the lanes that were false and then those that were true,
/// a byte each.
const SPLITS: [u64; 256] = splits();

const fn splits() -> [u64; 256] {
    let mut table = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut order, mut filled, mut wanted) = (0, 0, 0);
        while wanted < 2 {
            let mut lane = 0;
            while lane < LANES {
                if (mask >> lane) & 1 == wanted {
                    order |= (lane as u64) << (8 * filled);
                    filled += 1;
                }
                lane += 1;
            }
            wanted += 1;
        }
        table[mask] = order;
        mask += 1;
    }
    table
}

/// Eight numbers at a time.
#[derive(Clone, Copy)]
struct Lanes(V4);

impl Lanes {
    /// Compares each lane with a partner; those in `upper` keep the greater number.
    #[inline(always)]
    fn exchange(self, v: __m512i, partners: [u64; 8], upper: u8) -> __m512i {
        let other = self.0.avx512f._mm512_permutexvar_epi64(cast(partners), v);
        let (least, greatest) = self.order(v, other);
        self.0.avx512f._mm512_mask_blend_epi64(upper, least, greatest)
    }

    #[inline(always)]
    fn splat(self, number: u64) -> __m512i {
        self.0.avx512f._mm512_set1_epi64(number as i64)
    }
}

impl Vectors for Lanes {
    type V = __m512i;
    const LANES: usize = LANES;

    #[inline(always)]
    fn load(self, numbers: &[u64]) -> __m512i {
        let lanes: &[u64; LANES] = numbers.first_chunk().expect("a whole vector");
        cast(*lanes)
    }

    #[inline(always)]
    fn store(self, numbers: &mut [u64], v: __m512i) {
        let lanes: [u64; LANES] = bytemuck::cast(v);
        numbers[..LANES].copy_from_slice(&lanes);
    }

    #[inline(always)]
    fn pivots(self, pivot: u64) -> __m512i {
        self.splat(pivot)
    }

    #[inline(always)]
    fn split(self, v: __m512i, pivots: __m512i) -> (__m512i, usize) {
        let avx512 = self.0.avx512f;
        let mask = avx512._mm512_cmpge_epu64_mask(v, pivots);
        let order = self.0.sse2._mm_set_epi64x(0, SPLITS[usize::from(mask)] as i64);
        let order = avx512._mm512_cvtepu8_epi64(order);
        (avx512._mm512_permutexvar_epi64(order, v), mask.count_ones() as usize)
    }

    #[inline(always)]
    fn enter(self, v: __m512i) -> __m512i {
        v
    }

    #[inline(always)]
    fn leave(self, v: __m512i) -> __m512i {
        v
    }

    #[inline(always)]
    fn top(self) -> __m512i {
        self.splat(u64::MAX)
    }

    #[inline(always)]
    fn cover(self, v: __m512i, count: usize) -> __m512i {
        let mask = ((1u32 << count) - 1) as u8;
        self.0.avx512f._mm512_mask_mov_epi64(v, mask, self.top())
    }

    #[inline(always)]
    fn join(self, one: __m512i, other: __m512i, from: usize) -> __m512i {
        let avx512 = self.0.avx512f;
        let lanes =
            avx512._mm512_add_epi64(self.splat(from as u64), cast([0, 1, 2, 3, 4, 5, 6, 7]));
        avx512._mm512_permutex2var_epi64(one, lanes, other)
    }

    #[inline(always)]
    fn order(self, one: __m512i, other: __m512i) -> (__m512i, __m512i) {
        let avx512 = self.0.avx512f;
        (avx512._mm512_min_epu64(one, other), avx512._mm512_max_epu64(one, other))
    }

    #[inline(always)]
    fn reverse(self, v: __m512i) -> __m512i {
        self.0.avx512f._mm512_permutexvar_epi64(cast([7, 6, 5, 4, 3, 2, 1, 0]), v)
    }

    #[inline(always)]
    fn sort_vector(self, v: __m512i) -> __m512i {
        let v = self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA);
        let v = self.exchange(v, [3, 2, 1, 0, 7, 6, 5, 4], 0xCC);
        let v = self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA);
        let v = self.exchange(v, [7, 6, 5, 4, 3, 2, 1, 0], 0xF0);
        let v = self.exchange(v, [2, 3, 0, 1, 6, 7, 4, 5], 0xCC);
        self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA)
    }

    #[inline(always)]
    fn merge_vector(self, v: __m512i) -> __m512i {
        let v = self.exchange(v, [4, 5, 6, 7, 0, 1, 2, 3], 0xF0);
        let v = self.exchange(v, [2, 3, 0, 1, 6, 7, 4, 5], 0xCC);
        self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA)
    }

    #[inline(always)]
    fn transpose(self, v: &mut [__m512i]) -> usize {
        let avx512 = self.0.avx512f;
        let mut pairs = [v[0]; 8];
        for at in (0..8).step_by(2) {
            pairs[at] = avx512._mm512_unpacklo_epi64(v[at], v[at + 1]);
            pairs[at + 1] = avx512._mm512_unpackhi_epi64(v[at], v[at + 1]);
        }
        let (even, odd) = (cast([0, 1, 8, 9, 4, 5, 12, 13]), cast([2, 3, 10, 11, 6, 7, 14, 15]));
        let mut fours = [v[0]; 8];
        for half in [0, 4] {
            for at in half..half + 2 {
                fours[at] = avx512._mm512_permutex2var_epi64(pairs[at], even, pairs[at + 2]);
                fours[at + 2] = avx512._mm512_permutex2var_epi64(pairs[at], odd, pairs[at + 2]);
            }
        }
        for at in 0..4 {
            v[at] = avx512._mm512_shuffle_i64x2::<0b01_00_01_00>(fours[at], fours[at + 4]);
            v[at + 4] = avx512._mm512_shuffle_i64x2::<0b11_10_11_10>(fours[at], fours[at + 4]);
        }
        1
    }
}

#[inline(always)]
fn cast(lanes: [u64; LANES]) -> __m512i {
    bytemuck::cast(lanes)
}
