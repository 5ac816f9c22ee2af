//! Quicksort of numbers of 64 bits with vectors, whatever their width.
//!
//! * **Partition.** Vectors are read from whichever end has less room, and every vector is written
//!   twice, at both ends: its small numbers first, its large ones last, by one permutation that is
//!   looked up by the outcome of the comparison. What the one end gets too much of, the next write
//!   covers. Eight vectors of each end are held back at the start, so that there is always room.
//! * **Leaves.** Up to sixteen vectors of numbers are sorted in registers: the columns of eight
//!   vectors by a network, a transposition, and bitonic merges.
//!
//! Everything is inlined into the function that a processor's [`Vectors`] are entered by.

/// Vectors that are partitioned between two looks at which end has less room.
const BLOCK: usize = 8;
/// Vectors that are sorted in registers.
const LEAF: usize = 16;
const PIVOT_SAMPLE: usize = 16;

/// What a processor does with a vector of numbers.
pub(super) trait Vectors: Copy {
    type V: Copy;
    /// Numbers in a vector, a power of two from 4 to 8.
    const LANES: usize;

    fn load(self, numbers: &[u64]) -> Self::V;

    fn store(self, numbers: &mut [u64], vector: Self::V);

    /// A pivot in the form that [`Self::split`] compares with.
    fn pivots(self, pivot: u64) -> Self::V;

    /// The numbers below the pivot, followed by the others; how many of them are below.
    fn split(self, vector: Self::V, pivots: Self::V) -> (Self::V, usize);

    /// A vector as it was loaded, in the form that the networks compare.
    fn enter(self, vector: Self::V) -> Self::V;

    /// Undoes [`Self::enter`].
    fn leave(self, vector: Self::V) -> Self::V;

    /// The greatest number in every lane, entered.
    fn top(self) -> Self::V;

    /// An entered vector whose first `count` lanes are the greatest number.
    fn cover(self, vector: Self::V, count: usize) -> Self::V;

    /// The last lanes of the one and then the first ones of the other, `from` lanes on.
    fn join(self, one: Self::V, other: Self::V, from: usize) -> Self::V;

    /// The smaller numbers and the greater ones, lane by lane.
    fn order(self, one: Self::V, other: Self::V) -> (Self::V, Self::V);

    fn reverse(self, vector: Self::V) -> Self::V;

    fn sort_vector(self, vector: Self::V) -> Self::V;

    /// Sorts a vector that rises and then falls, or the other way round.
    fn merge_vector(self, vector: Self::V) -> Self::V;

    /// Makes rows of the columns of eight vectors: each column becomes consecutive vectors. How
    /// many vectors a column fills.
    fn transpose(self, eight: &mut [Self::V]) -> usize;
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

/// Sorts numbers.
#[inline(always)]
pub(super) fn sort<S: Vectors>(with: S, numbers: &mut [u64]) {
    let depth_max = 2 * (usize::BITS - numbers.len().leading_zeros());
    let mut ranges = vec![(0, numbers.len(), depth_max)];
    while let Some((from, to, depth)) = ranges.pop() {
        let part = &mut numbers[from..to];
        if part.len() <= LEAF * S::LANES {
            leaf(with, part);
            continue;
        }
        if depth == 0 {
            // These numbers were chosen with knowledge of how the pivot is chosen.
            part.sort_unstable();
            continue;
        }
        let pivot = pivot(with, part);
        let below = partition(with, part, pivot);
        if below != 0 {
            ranges.push((from + below, to, depth - 1));
            ranges.push((from, from + below, depth - 1));
        } else if let Some(above) = pivot.checked_add(1) {
            // Nothing is less than the pivot: those equal to it are in place once they are in
            // front.
            let equal = partition(with, part, above);
            ranges.push((from + equal, to, depth - 1));
        }
    }
}

/// The median of a sample.
#[inline(always)]
fn pivot<S: Vectors>(with: S, numbers: &[u64]) -> u64 {
    let step = numbers.len() / PIVOT_SAMPLE;
    let mut sample = [0; PIVOT_SAMPLE];
    for (at, number) in sample.iter_mut().enumerate() {
        *number = numbers[at * step + step / 2];
    }
    leaf(with, &mut sample);
    sample[PIVOT_SAMPLE / 2]
}

/// Unread numbers lie in `left..right`, room to write in `low..left` and `right..high`.
struct Room {
    low: usize,
    left: usize,
    right: usize,
    high: usize,
}

impl Room {
    /// Where the next `count` numbers are read: at the end that has less room.
    #[inline(always)]
    fn next(&mut self, count: usize) -> usize {
        if self.left - self.low <= self.high - self.right {
            self.left += count;
            self.left - count
        } else {
            self.right -= count;
            self.right
        }
    }
}

/// Moves the numbers below the pivot to the front; how many those are. There must be at least two
/// blocks of numbers.
#[inline(always)]
fn partition<S: Vectors>(with: S, numbers: &mut [u64], pivot: u64) -> usize {
    let block_numbers = BLOCK * S::LANES;
    let whole = numbers.len() - numbers.len() % S::LANES;
    let pivots = with.pivots(pivot);
    let (mut first, mut last) = ([pivots; BLOCK], [pivots; BLOCK]);
    for at in 0..BLOCK {
        first[at] = with.load(&numbers[S::LANES * at..]);
        last[at] = with.load(&numbers[whole - block_numbers + S::LANES * at..]);
    }
    let (left, right) = (block_numbers, whole - block_numbers);
    let mut room = Room { low: 0, left, right, high: whole };
    while room.right - room.left >= block_numbers {
        let from = room.next(block_numbers);
        let mut block = [pivots; BLOCK];
        for (at, vector) in block.iter_mut().enumerate() {
            *vector = with.load(&numbers[from + S::LANES * at..]);
        }
        for vector in block {
            split(with, numbers, vector, pivots, &mut room);
        }
    }
    while room.left < room.right {
        let from = room.next(S::LANES);
        let vector = with.load(&numbers[from..]);
        split(with, numbers, vector, pivots, &mut room);
    }
    for vector in first {
        split(with, numbers, vector, pivots, &mut room);
    }
    for vector in last {
        split(with, numbers, vector, pivots, &mut room);
    }
    let mut below = room.low;
    for at in whole..numbers.len() {
        numbers.swap(at, below);
        below += usize::from(numbers[below] < pivot);
    }
    below
}

/// Writes a vector at both ends of the room.
#[inline(always)]
fn split<S: Vectors>(with: S, numbers: &mut [u64], vector: S::V, pivots: S::V, room: &mut Room) {
    let (vector, above) = with.split(vector, pivots);
    with.store(&mut numbers[room.low..], vector);
    with.store(&mut numbers[room.high - S::LANES..], vector);
    room.low += S::LANES - above;
    room.high -= above;
}

/// Sorts at most as many numbers as [`LEAF`] vectors have.
#[inline(always)]
fn leaf<S: Vectors>(with: S, numbers: &mut [u64]) {
    match numbers.len() {
        0 | 1 => {}
        count if count < S::LANES => {
            for at in 1..count {
                let number = numbers[at];
                let mut hole = at;
                while hole > 0 && numbers[hole - 1] > number {
                    numbers[hole] = numbers[hole - 1];
                    hole -= 1;
                }
                numbers[hole] = number;
            }
        }
        count if count <= 2 * S::LANES => network::<S, 2>(with, numbers),
        count if count <= 4 * S::LANES => network::<S, 4>(with, numbers),
        count if count <= 8 * S::LANES => network::<S, 8>(with, numbers),
        _ => network::<S, LEAF>(with, numbers),
    }
}

/// Sorts as many numbers as one to `N` vectors have, in `N` vectors, the last ones filled up with
/// the greatest number. The last vector in part is read and written so that it ends where the
/// numbers end.
#[inline(always)]
fn network<S: Vectors, const N: usize>(with: S, numbers: &mut [u64]) {
    let count = numbers.len();
    let mut v = [with.top(); N];
    for (at, vector) in v.iter_mut().enumerate() {
        if S::LANES * (at + 1) <= count {
            *vector = with.enter(with.load(&numbers[S::LANES * at..]));
        } else if S::LANES * at < count {
            let last = with.enter(with.load(&numbers[count - S::LANES..]));
            *vector = with.cover(last, S::LANES * (at + 1) - count);
        }
    }
    sort_vectors::<S, N>(with, &mut v);
    for at in 0..N {
        if S::LANES * (at + 1) <= count {
            with.store(&mut numbers[S::LANES * at..], with.leave(v[at]));
        } else if at > 0 && S::LANES * at < count {
            let end = with.join(v[at - 1], v[at], count - S::LANES * at);
            with.store(&mut numbers[count - S::LANES..], with.leave(end));
        }
    }
}

#[inline(always)]
fn sort_vectors<S: Vectors, const N: usize>(with: S, v: &mut [S::V; N]) {
    let mut merged = 8;
    if N >= 8 {
        for at in (0..N).step_by(8) {
            sort_eight(with, &mut v[at..at + 8]);
        }
    } else {
        for vector in v.iter_mut() {
            *vector = with.sort_vector(*vector);
        }
        merged = 1;
    }
    while merged < N {
        for at in (0..N).step_by(2 * merged) {
            merge(with, &mut v[at..at + 2 * merged], merged);
        }
        merged *= 2;
    }
}

/// Sorts eight vectors as one row of numbers.
#[inline(always)]
fn sort_eight<S: Vectors>(with: S, v: &mut [S::V]) {
    for (one, other) in NETWORK {
        (v[one], v[other]) = with.order(v[one], v[other]);
    }
    if with.transpose(v) == 1 {
        for at in (0..8).step_by(2) {
            merge(with, &mut v[at..at + 2], 1);
        }
    }
    merge(with, &mut v[0..4], 2);
    merge(with, &mut v[4..8], 2);
    merge(with, v, 4);
}

/// Merges two sorted rows of `half` vectors each.
#[inline(always)]
fn merge<S: Vectors>(with: S, v: &mut [S::V], half: usize) {
    let last = 2 * half - 1;
    for at in 0..half {
        let (least, greatest) = with.order(v[at], with.reverse(v[last - at]));
        v[at] = least;
        v[last - at] = with.reverse(greatest);
    }
    let mut distance = half / 2;
    while distance >= 1 {
        for from in (0..2 * half).step_by(2 * distance) {
            for at in from..from + distance {
                (v[at], v[at + distance]) = with.order(v[at], v[at + distance]);
            }
        }
        distance /= 2;
    }
    for vector in v.iter_mut() {
        *vector = with.merge_vector(*vector);
    }
}
