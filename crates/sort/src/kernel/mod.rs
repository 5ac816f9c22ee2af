//! The innermost sort: numbers of 64 bits, in place.
//!
//! Where the processor has AVX-512 it is a quicksort whose partition moves eight numbers at a time
//! and whose leaves are sorting networks; elsewhere a radix sort of the upper bits. Both were
//! measured against the sort of the standard library, which takes about twice as long.

mod radix;
#[cfg(target_arch = "x86_64")]
mod vector;

/// Which code runs on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    Portable,
}

impl Kernel {
    /// The best that this processor runs.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(features) = pulp::x86::V4::try_new() {
            return Self::Avx512(features);
        }
        Self::Portable
    }

    /// Sorts numbers of which only the lower `bits` are used. `spare` is scratch space.
    pub(crate) fn sort(self, numbers: &mut [u64], spare: &mut Vec<u64>, bits: u32) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(features) => {
                let _ = (spare, bits);
                vector::sort(features, numbers);
            }
            Self::Portable => radix::sort(numbers, spare, bits),
        }
    }
}

/// Whether this processor's sort is as fast on buckets that leave the nearer caches: a radix sort
/// goes through all of a bucket for each digit, a quicksort does so once or twice.
pub(crate) fn kernel_takes_large_buckets() -> bool {
    !matches!(Kernel::best(), Kernel::Portable)
}

/// What this processor's sort is called, for reports.
pub fn kernel_name() -> &'static str {
    match Kernel::best() {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512(_) => "avx512",
        Kernel::Portable => "portable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, from a seed.
    fn numbers(seed: u64, count: usize, mask: u64) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD) & mask
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_kernel_sorts_as_the_standard_library_does() {
        let kernels = [Kernel::best(), Kernel::Portable];
        let counts = (0..300).chain([1000, 4095, 40_000]);
        for count in counts {
            for bits in [1u32, 3, 20, 40, 63, 64] {
                let mask = u64::MAX >> (64 - bits);
                let given = numbers(count as u64 + u64::from(bits), count, mask);
                let mut wanted = given.clone();
                wanted.sort_unstable();
                for kernel in kernels {
                    let mut found = given.clone();
                    kernel.sort(&mut found, &mut Vec::new(), bits);
                    assert_eq!(found, wanted, "{kernel:?}, {count} numbers of {bits} bits");
                }
            }
        }
    }

    #[test]
    fn what_is_sorted_reversed_or_lopsided_is_sorted_too() {
        let count = 20_000u64;
        let shapes: [Vec<u64>; 5] = [
            (0..count).collect(),
            (0..count).rev().collect(),
            vec![u64::MAX; count as usize],
            (0..count).map(|at| if at % 100 == 0 { at } else { 7 }).collect(),
            (0..count).map(|at| 1u64.checked_shl((at % 64) as u32).unwrap_or(0) + at % 3).collect(),
        ];
        for given in shapes {
            let mut wanted = given.clone();
            wanted.sort_unstable();
            for kernel in [Kernel::best(), Kernel::Portable] {
                let mut found = given.clone();
                kernel.sort(&mut found, &mut Vec::new(), 64);
                assert_eq!(found, wanted, "{kernel:?}");
            }
        }
    }
}
