//! A radix sort of the upper bits, least significant digit first, and a pass that puts what is
//! still out of place right.
//!
//! The upper 24 bits tell nearly all numbers of a bucket apart, because a bucket's numbers begin
//! where the bucket does. When they don't, the last pass notices by how much it has to move, and
//! leaves the rest to the standard library.

const DIGIT_BITS: u32 = 8;
const DIGITS: u32 = 3;
const VALUES: usize = 1 << DIGIT_BITS;
/// Below this many numbers the standard library is faster.
const COUNT_MIN: usize = 256;
/// How far the last pass may move each number on average.
const MOVES_MEAN_MAX: usize = 8;

/// Sorts numbers of which only the lower `bits` are used.
pub(super) fn sort(numbers: &mut [u64], spare: &mut Vec<u64>, bits: u32) {
    if numbers.len() < COUNT_MIN {
        numbers.sort_unstable();
        return;
    }
    spare.resize(numbers.len(), 0);
    let lowest = bits.saturating_sub(DIGIT_BITS * DIGITS);
    let digits = (bits - lowest).div_ceil(DIGIT_BITS);
    let (mut from, mut to) = (&mut *numbers, spare.as_mut_slice());
    for digit in 0..digits {
        pass(from, to, lowest + digit * DIGIT_BITS);
        std::mem::swap(&mut from, &mut to);
    }
    if digits % 2 == 1 {
        to.copy_from_slice(from);
    }
    if !settle(numbers) {
        numbers.sort_unstable();
    }
}

fn pass(from: &[u64], to: &mut [u64], shift: u32) {
    let digit = |number: u64| (number >> shift) as usize % VALUES;
    let mut places = [0usize; VALUES];
    from.iter().for_each(|number| places[digit(*number)] += 1);
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for number in from {
        let place = &mut places[digit(*number)];
        to[*place] = *number;
        *place += 1;
    }
}

/// Insertion sort; `false` when it gave up because too much is out of place.
fn settle(numbers: &mut [u64]) -> bool {
    let mut moves_left = numbers.len() * MOVES_MEAN_MAX;
    for at in 1..numbers.len() {
        let number = numbers[at];
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
