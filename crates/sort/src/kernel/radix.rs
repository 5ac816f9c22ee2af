//! A radix sort of the upper bits in two digits, least significant first, and a pass that puts
//! what is still out of place right.
//!
//! A bucket's numbers lie between two bounds, and mostly so evenly that their upper 22 bits tell
//! nearly all of them apart. Two digits of eleven bits take half the time of a vectorized quicksort
//! then. The counts of the upper digit show when they don't, before anything was moved, and the
//! last pass notices by how much it has to move; such numbers are another sort's.

const DIGIT_BITS: u32 = 11;
/// For fewer numbers, whose digits' counts would take longer than themselves.
const FEW_DIGIT_BITS: u32 = 8;
const FEW: usize = 1 << 12;
/// Below this many numbers a quicksort is faster.
const COUNT_MIN: usize = 1 << 10;
/// How many numbers may have the same two digits on average, as far as the upper one tells.
const MATES_MAX: u64 = 4;
/// How far the last pass may move each number on average.
const MOVES_MEAN_MAX: usize = 4;

/// Sorts numbers that are not less than `least`, and of whose distance from it only the lower
/// `bits` are used. `false` when these numbers are not for this sort; they are in any order then.
pub(super) fn sort(numbers: &mut [u64], spare: &mut Vec<u64>, least: u64, bits: u32) -> bool {
    if numbers.len() < COUNT_MIN {
        return false;
    }
    if spare.len() < numbers.len() {
        spare.resize(numbers.len(), 0);
    }
    let spare = &mut spare[..numbers.len()];
    if numbers.len() < FEW {
        two_digits::<FEW_DIGIT_BITS, { 1 << FEW_DIGIT_BITS }>(numbers, spare, least, bits)
    } else {
        two_digits::<DIGIT_BITS, { 1 << DIGIT_BITS }>(numbers, spare, least, bits)
    }
}

#[inline(always)]
fn two_digits<const BITS: u32, const VALUES: usize>(
    numbers: &mut [u64],
    spare: &mut [u64],
    least: u64,
    bits: u32,
) -> bool {
    let lowest = bits.saturating_sub(2 * BITS);
    let lower = |number: u64| (number.wrapping_sub(least) >> lowest) as usize % VALUES;
    let upper = |number: u64| (number.wrapping_sub(least) >> lowest >> BITS) as usize % VALUES;
    let (mut lowers, mut uppers) = ([0u32; VALUES], [0u32; VALUES]);
    for number in &*numbers {
        lowers[lower(*number)] += 1;
        uppers[upper(*number)] += 1;
    }
    let mates: u64 = uppers.iter().map(|count| u64::from(*count) * u64::from(*count)).sum();
    if mates / VALUES as u64 > MATES_MAX * numbers.len() as u64 {
        return false;
    }
    deal(numbers, spare, &mut lowers, lower);
    deal(spare, numbers, &mut uppers, upper);
    settle(numbers)
}

/// Moves numbers to where those with their digit go; `counts` says how many have each.
#[inline(always)]
fn deal<const VALUES: usize>(
    from: &[u64],
    to: &mut [u64],
    counts: &mut [u32; VALUES],
    digit: impl Fn(u64) -> usize,
) {
    let mut next = 0;
    for place in counts.iter_mut() {
        next += std::mem::replace(place, next);
    }
    for number in from {
        let place = &mut counts[digit(*number)];
        to[*place as usize] = *number;
        *place += 1;
    }
}

/// Insertion sort; `false` when it gave up because too much is out of place.
fn settle(numbers: &mut [u64]) -> bool {
    let mut moves_left = numbers.len() * MOVES_MEAN_MAX;
    let mut last = 0;
    for at in 0..numbers.len() {
        let number = numbers[at];
        if last <= number {
            last = number;
            continue;
        }
        let mut hole = at;
        while hole > 0 && numbers[hole - 1] > number {
            numbers[hole] = numbers[hole - 1];
            hole -= 1;
        }
        numbers[hole] = number;
        if at - hole > moves_left {
            return false;
        }
        moves_left -= at - hole;
    }
    true
}
