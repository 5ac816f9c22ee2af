use std::time::Instant;

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

/// Sorts with each kernel what the standard library sorts.
fn check(given: &[u64], bits: u32) {
    let mut wanted = given.to_vec();
    wanted.sort_unstable();
    for kernel in kernels() {
        let mut found = given.to_vec();
        kernel.sort(&mut found, &mut Vec::new(), bits);
        assert!(found == wanted, "{}: {} numbers of {bits} bits", kernel.name(), given.len());
    }
}

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
    for count in (0..300).chain([1000, 4095, 40_000]) {
        for bits in [1u32, 3, 20, 40, 63, 64] {
            let mask = u64::MAX >> (64 - bits);
            check(&numbers(count as u64 + u64::from(bits), count, mask), bits);
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
        check(&given, 64);
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
        check(&given, 64);
    }
}

#[test]
fn the_best_kernel_is_one_of_those_that_run_here() {
    let names: Vec<_> = kernels().iter().map(|kernel| kernel.name()).collect();
    assert_eq!(names.last(), Some(&kernel_name()));
}

/// `cargo test --release -p plasmon-sort kernels_in_turns -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn kernels_in_turns() {
    const TOTAL: usize = 1 << 22;
    for count in [1 << 8, 1 << 12, 1 << 15, 1 << 17, 1 << 19] {
        let given = numbers(7, TOTAL, u64::MAX);
        let mut least = vec![u128::MAX; kernels().len() + 1];
        for _ in 0..5 {
            for (at, least) in least.iter_mut().enumerate() {
                let (mut found, mut spare) = (given.clone(), Vec::new());
                let begin = Instant::now();
                for part in found.chunks_mut(count) {
                    match kernels().get(at) {
                        Some(kernel) => kernel.sort(part, &mut spare, 64),
                        None => part.sort_unstable(),
                    }
                }
                *least = (*least).min(begin.elapsed().as_nanos());
            }
        }
        let names = kernels().into_iter().map(Kernel::name).chain(["standard library"]);
        let shown: Vec<_> = names
            .zip(least)
            .map(|(name, ns)| format!("{name} {:.2}", ns as f64 / TOTAL as f64))
            .collect();
        println!("{count} numbers, ns for each: {}", shown.join(", "));
    }
}
