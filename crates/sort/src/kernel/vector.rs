//! Quicksort with AVX-512, for numbers of 64 bits.
//!
//! * **Partition.** Vectors are read from whichever end has less room, and every vector is written
//!   twice, at both ends: its small numbers first, its large ones last, by one permutation that is
//!   looked up by the outcome of the comparison. What the one end gets too much of, the next write
//!   covers. Eight vectors of each end are held back at the start, so that there is always room.
//! * **Leaves.** Up to 128 numbers are sorted in registers: the columns of eight vectors by a
//!   network, a transposition, and bitonic merges.
//!
//! Everything is inlined into one function that is entered through `pulp`, which checks that the
//! processor has the instructions; there is no unsafe code here.

use core::arch::x86_64::__m512i;

use pulp::NullaryFnOnce;
use pulp::x86::V4;

const LANES: usize = 8;
/// Vectors that are partitioned between two looks at which end has less room.
const BLOCK: usize = 8;
const BLOCK_NUMBERS: usize = LANES * BLOCK;
/// Numbers that are sorted in registers.
const LEAF_NUMBERS: usize = 128;
const PIVOT_SAMPLE: usize = 16;

/// Sorts numbers.
pub(super) fn sort(features: V4, numbers: &mut [u64]) {
    features.vectorize(Sort(Lanes(features), numbers));
}

struct Sort<'a>(Lanes, &'a mut [u64]);

impl NullaryFnOnce for Sort<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.sort(self.1);
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

/// A network of 19 comparisons for eight numbers.
const NETWORK: [(usize, usize); 19] = [
    (0, 2),
    (1, 3),
    (4, 6),
    (5, 7),
    (0, 4),
    (1, 5),
    (2, 6),
    (3, 7),
    (0, 1),
    (2, 3),
    (4, 5),
    (6, 7),
    (2, 4),
    (3, 5),
    (1, 4),
    (3, 6),
    (1, 2),
    (3, 4),
    (5, 6),
];

/// Eight numbers at a time.
#[derive(Clone, Copy)]
struct Lanes(V4);

impl Lanes {
    #[inline(always)]
    fn sort(self, numbers: &mut [u64]) {
        let depth_max = 2 * (usize::BITS - numbers.len().leading_zeros());
        let mut ranges = vec![(0, numbers.len(), depth_max)];
        while let Some((from, to, depth)) = ranges.pop() {
            let part = &mut numbers[from..to];
            if part.len() <= LEAF_NUMBERS {
                self.leaf(part);
                continue;
            }
            if depth == 0 {
                // Whoever chose these numbers knows how the pivot is chosen.
                part.sort_unstable();
                continue;
            }
            let pivot = self.pivot(part);
            let below = self.partition(part, pivot);
            if below != 0 {
                ranges.push((from + below, to, depth - 1));
                ranges.push((from, from + below, depth - 1));
            } else if let Some(above) = pivot.checked_add(1) {
                // Nothing is less than the pivot: those equal to it are in place once they are
                // in front.
                let equal = self.partition(part, above);
                ranges.push((from + equal, to, depth - 1));
            }
        }
    }

    /// The median of a sample.
    #[inline(always)]
    fn pivot(self, numbers: &[u64]) -> u64 {
        let step = numbers.len() / PIVOT_SAMPLE;
        let mut sample = [0; PIVOT_SAMPLE];
        for (at, number) in sample.iter_mut().enumerate() {
            *number = numbers[at * step + step / 2];
        }
        self.network::<2>(&mut sample);
        sample[PIVOT_SAMPLE / 2]
    }

    /// Moves the numbers below the pivot to the front; how many those are. There must be at least
    /// two blocks of numbers.
    #[inline(always)]
    fn partition(self, numbers: &mut [u64], pivot: u64) -> usize {
        let whole = numbers.len() - numbers.len() % LANES;
        let pivots = self.splat(pivot);
        let (mut first, mut last) = ([pivots; BLOCK], [pivots; BLOCK]);
        for at in 0..BLOCK {
            first[at] = self.load(numbers, LANES * at);
            last[at] = self.load(numbers, whole - BLOCK_NUMBERS + LANES * at);
        }
        // Unread numbers lie in left..right, room to write in written.0..left, right..written.1.
        let (mut left, mut right) = (BLOCK_NUMBERS, whole - BLOCK_NUMBERS);
        let mut written = (0, whole);
        while right - left >= BLOCK_NUMBERS {
            let from = if left - written.0 <= written.1 - right {
                left += BLOCK_NUMBERS;
                left - BLOCK_NUMBERS
            } else {
                right -= BLOCK_NUMBERS;
                right
            };
            let mut block = [pivots; BLOCK];
            for (at, vector) in block.iter_mut().enumerate() {
                *vector = self.load(numbers, from + LANES * at);
            }
            for vector in block {
                self.split(numbers, vector, pivots, &mut written);
            }
        }
        while left < right {
            let from = if left - written.0 <= written.1 - right {
                left += LANES;
                left - LANES
            } else {
                right -= LANES;
                right
            };
            let vector = self.load(numbers, from);
            self.split(numbers, vector, pivots, &mut written);
        }
        for vector in first {
            self.split(numbers, vector, pivots, &mut written);
        }
        for vector in last {
            self.split(numbers, vector, pivots, &mut written);
        }
        let mut below = written.0;
        for at in whole..numbers.len() {
            numbers.swap(at, below);
            below += usize::from(numbers[below] < pivot);
        }
        below
    }

    /// Writes a vector at both ends of the room.
    #[inline(always)]
    fn split(self, numbers: &mut [u64], vector: V, pivots: V, written: &mut (usize, usize)) {
        let avx512 = self.0.avx512f;
        let mask = avx512._mm512_cmpge_epu64_mask(vector, pivots);
        let order = self.0.sse2._mm_set_epi64x(0, SPLITS[usize::from(mask)] as i64);
        let order = avx512._mm512_cvtepu8_epi64(order);
        let vector = avx512._mm512_permutexvar_epi64(order, vector);
        self.store(numbers, written.0, vector);
        self.store(numbers, written.1 - LANES, vector);
        let above = mask.count_ones() as usize;
        written.0 += LANES - above;
        written.1 -= above;
    }

    /// Sorts at most [`LEAF_NUMBERS`].
    #[inline(always)]
    fn leaf(self, numbers: &mut [u64]) {
        match numbers.len() {
            0 | 1 => {}
            2..LANES => {
                for at in 1..numbers.len() {
                    let number = numbers[at];
                    let mut hole = at;
                    while hole > 0 && numbers[hole - 1] > number {
                        numbers[hole] = numbers[hole - 1];
                        hole -= 1;
                    }
                    numbers[hole] = number;
                }
            }
            LANES..=16 => self.network::<2>(numbers),
            17..=32 => self.network::<4>(numbers),
            33..=64 => self.network::<8>(numbers),
            _ => self.network::<16>(numbers),
        }
    }

    /// Sorts from 8 to `8 * N` numbers in `N` vectors, the last ones filled up with the greatest
    /// number. The last vector in part is read and written so that it ends where the numbers end.
    #[inline(always)]
    fn network<const N: usize>(self, numbers: &mut [u64]) {
        let avx512 = self.0.avx512f;
        let count = numbers.len();
        let top = self.splat(u64::MAX);
        let mut v = [top; N];
        for (at, vector) in v.iter_mut().enumerate() {
            if LANES * (at + 1) <= count {
                *vector = self.load(numbers, LANES * at);
            } else if LANES * at < count {
                let seen = LANES * (at + 1) - count;
                let mask = ((1u32 << seen) - 1) as u8;
                *vector =
                    avx512._mm512_mask_mov_epi64(self.load(numbers, count - LANES), mask, top);
            }
        }
        self.sort_vectors::<N>(&mut v);
        for at in 0..N {
            if LANES * (at + 1) <= count {
                self.store(numbers, LANES * at, v[at]);
            } else if at > 0 && LANES * at < count {
                let new = self.splat((count - LANES * at) as u64);
                let lanes = avx512._mm512_add_epi64(new, cast([0, 1, 2, 3, 4, 5, 6, 7]));
                let end = avx512._mm512_permutex2var_epi64(v[at - 1], lanes, v[at]);
                self.store(numbers, count - LANES, end);
            }
        }
    }

    #[inline(always)]
    fn sort_vectors<const N: usize>(self, v: &mut [V; N]) {
        let mut merged = 8;
        if N >= 8 {
            for at in (0..N).step_by(8) {
                self.sort_64(&mut v[at..at + 8]);
            }
        } else {
            for vector in v.iter_mut() {
                *vector = self.sort_vector(*vector);
            }
            merged = 1;
        }
        while merged < N {
            for at in (0..N).step_by(2 * merged) {
                self.merge(&mut v[at..at + 2 * merged], merged);
            }
            merged *= 2;
        }
    }

    /// Sorts eight vectors as one row of 64 numbers.
    #[inline(always)]
    fn sort_64(self, v: &mut [V]) {
        for (one, other) in NETWORK {
            self.order(v, one, other);
        }
        self.transpose(v);
        for at in (0..8).step_by(2) {
            self.merge(&mut v[at..at + 2], 1);
        }
        self.merge(&mut v[0..4], 2);
        self.merge(&mut v[4..8], 2);
        self.merge(v, 4);
    }

    /// Merges two sorted rows of `half` vectors each.
    #[inline(always)]
    fn merge(self, v: &mut [V], half: usize) {
        let last = 2 * half - 1;
        for at in 0..half {
            let (one, other) = (v[at], self.reverse(v[last - at]));
            v[at] = self.least(one, other);
            v[last - at] = self.reverse(self.greatest(one, other));
        }
        let mut distance = half / 2;
        while distance >= 1 {
            for from in (0..2 * half).step_by(2 * distance) {
                for at in from..from + distance {
                    self.order(v, at, at + distance);
                }
            }
            distance /= 2;
        }
        for vector in v.iter_mut() {
            *vector = self.merge_vector(*vector);
        }
    }

    /// Sorts a vector that rises and then falls, or the other way round.
    #[inline(always)]
    fn merge_vector(self, v: V) -> V {
        let v = self.exchange(v, [4, 5, 6, 7, 0, 1, 2, 3], 0xF0);
        let v = self.exchange(v, [2, 3, 0, 1, 6, 7, 4, 5], 0xCC);
        self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA)
    }

    #[inline(always)]
    fn sort_vector(self, v: V) -> V {
        let v = self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA);
        let v = self.exchange(v, [3, 2, 1, 0, 7, 6, 5, 4], 0xCC);
        let v = self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA);
        let v = self.exchange(v, [7, 6, 5, 4, 3, 2, 1, 0], 0xF0);
        let v = self.exchange(v, [2, 3, 0, 1, 6, 7, 4, 5], 0xCC);
        self.exchange(v, [1, 0, 3, 2, 5, 4, 7, 6], 0xAA)
    }

    /// Compares each lane with a partner; those in `upper` keep the greater number.
    #[inline(always)]
    fn exchange(self, v: V, partners: [u64; 8], upper: u8) -> V {
        let other = self.0.avx512f._mm512_permutexvar_epi64(cast(partners), v);
        let (least, greatest) = (self.least(v, other), self.greatest(v, other));
        self.0.avx512f._mm512_mask_blend_epi64(upper, least, greatest)
    }

    #[inline(always)]
    fn order(self, v: &mut [V], one: usize, other: usize) {
        (v[one], v[other]) = (self.least(v[one], v[other]), self.greatest(v[one], v[other]));
    }

    /// Makes rows of columns.
    #[inline(always)]
    fn transpose(self, v: &mut [V]) {
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
    }

    #[inline(always)]
    fn least(self, one: V, other: V) -> V {
        self.0.avx512f._mm512_min_epu64(one, other)
    }

    #[inline(always)]
    fn greatest(self, one: V, other: V) -> V {
        self.0.avx512f._mm512_max_epu64(one, other)
    }

    #[inline(always)]
    fn reverse(self, v: V) -> V {
        self.0.avx512f._mm512_permutexvar_epi64(cast([7, 6, 5, 4, 3, 2, 1, 0]), v)
    }

    #[inline(always)]
    fn splat(self, number: u64) -> V {
        self.0.avx512f._mm512_set1_epi64(number as i64)
    }

    #[inline(always)]
    fn load(self, numbers: &[u64], at: usize) -> V {
        let lanes: &[u64; LANES] = numbers[at..].first_chunk().expect("a whole vector");
        cast(*lanes)
    }

    #[inline(always)]
    fn store(self, numbers: &mut [u64], at: usize, v: V) {
        let lanes: [u64; LANES] = bytemuck::cast(v);
        numbers[at..at + LANES].copy_from_slice(&lanes);
    }
}

type V = __m512i;

#[inline(always)]
fn cast(lanes: [u64; LANES]) -> V {
    bytemuck::cast(lanes)
}
