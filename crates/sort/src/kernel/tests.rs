use proptest::prelude::*;

use super::*;

/// All that this processor runs: every test forces each of them.
fn kernels() -> Vec<Kernel> {
    let mut kernels = vec![Kernel::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        kernels.extend(pulp::x86::V3::try_new().map(Kernel::Avx2));
        kernels.extend(pulp::x86::V4::try_new().map(Kernel::Avx512));
    }
    kernels
}

/// Sorts with each kernel what the standard library sorts: as the kernel likes, and by comparisons.
fn check(given: &[u64], bounds: (u64, u64)) {
    let mut wanted = given.to_vec();
    wanted.sort_unstable();
    for kernel in kernels() {
        let mut found = given.to_vec();
        kernel.sort(&mut found, &mut Vec::new(), bounds);
        assert!(found == wanted, "{}: {} numbers in {bounds:?}", kernel.name(), given.len());
        let mut found = given.to_vec();
        kernel.compare(&mut found);
        assert!(found == wanted, "{}: {} numbers by comparisons", kernel.name(), given.len());
    }
}

/// Any numbers.
const ANY: (u64, u64) = (0, u64::MAX);

/// Numbers that look random, from a seed.
fn numbers(seed: u64, count: usize, mask: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD) & mask
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn every_kernel_sorts_as_the_standard_library_does() {
    for count in (0..150).chain([1000, 1024, 4095, 4096, 20_000]) {
        let bits: &[u32] =
            if count < 1000 { &[3, 64] } else { &[0, 1, 10, 20, 22, 23, 40, 63, 64] };
        for bits in bits.iter().copied() {
            let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            let given = numbers(count as u64 + u64::from(bits), count, mask);
            check(&given, (0, mask));
            let least = u64::MAX - mask;
            let far: Vec<u64> = given.iter().map(|number| least + number).collect();
            check(&far, (least, u64::MAX));
            check(&far, ANY);
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
        check(&given, ANY);
    }
}

proptest! {
    /// Few values and many, near the ends of the numbers and around the top bit, where a signed
    /// comparison would go wrong.
    #[test]
    fn any_numbers_are_sorted(
        given in prop::collection::vec(
            prop_oneof![
                any::<u64>(),
                0u64..4,
                (u64::MAX - 3)..=u64::MAX,
                ((1u64 << 63) - 2)..(1 << 63) + 2,
                Just(u64::MAX),
            ],
            0..700,
        ),
    ) {
        check(&given, ANY);
    }
}

#[test]
fn a_radix_sort_leaves_what_is_uneven_to_others() {
    let spare = &mut Vec::new();
    let even = numbers(1, 40_000, u64::MAX);
    assert!(radix::sort(&mut even.clone(), spare, 0, 64));
    // All but a few in one cell of the upper digit, and then of both digits.
    for spread in [1u64 << 40, 1 << 20] {
        let mut uneven: Vec<u64> = even.iter().map(|number| number % spread).collect();
        uneven[0] = u64::MAX;
        assert!(!radix::sort(&mut uneven, spare, 0, 64), "{spread}");
    }
    assert!(!radix::sort(&mut even[..100].to_vec(), spare, 0, 64), "few");
}

#[test]
fn the_best_kernel_is_one_of_those_that_run_here() {
    let names: Vec<_> = kernels().iter().map(|kernel| kernel.name()).collect();
    assert_eq!(names.last(), Some(&kernel_name()));
}
