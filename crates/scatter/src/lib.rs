//! Scatter: values to many targets, through software write-combining buffers.
//!
//! Writing values to some hundred targets touches that many cache lines in turn, and each of them
//! leaves the cache before it is full. So each target has a buffer of one line, and the buffers lie
//! side by side; a full one is written to its target. Such a line can *stream*: an ordinary store
//! reads what it is about to overwrite, a non-temporal one does not, which saves a third of the
//! traffic. Streamed data is not in the cache afterwards, so this is for more than a cache holds.
//!
//! ```
//! let (mut even, mut odd) = ([0u64; 3], [0u64; 2]);
//! plasmon_scatter::scatter::<u64, 8, _>(vec![&mut even, &mut odd], false, |lines| {
//!     for value in 0..5 {
//!         lines.put(value as usize % 2, value);
//!     }
//! });
//! assert_eq!((even, odd), ([0, 2, 4], [1, 3]));
//! ```
//!
//! This is a crate because of its few unsafe operations, which the crate that sorts does without.

mod transpose;

use std::marker::PhantomData;

use bytemuck::Pod;

pub use transpose::{transpose_2x2, transpose_4x4};

/// Bytes of a line of the cache.
pub const LINE_BYTES: usize = 64;

/// Lets `work` deal values out to targets, each of which is filled from front to back. `N` values
/// make a line. Values that are put beyond the end of a target panic; places that got none keep
/// what they hold.
#[inline(always)]
pub fn scatter<T: Pod, const N: usize, R>(
    targets: Vec<&mut [T]>,
    streams: bool,
    work: impl FnOnce(&mut Lines<'_, T, N>) -> R,
) -> R {
    const { assert!(N * size_of::<T>() == LINE_BYTES, "a line is 64 bytes") }
    // Owned here and dropped here, on the thread that wrote, whatever `work` does: its drop is what
    // makes streamed lines visible before the targets can be looked at.
    let mut lines = Lines::new(targets, streams);
    let result = work(&mut lines);
    lines.finish();
    result
}

/// The next places of all targets.
#[derive(Debug)]
pub struct Lines<'a, T, const N: usize> {
    lines: Vec<Line<T, N>>,
    /// Values in each line, counted on and on.
    filled: Vec<u32>,
    /// Places at the start of a line that are not the target's.
    skipped: Vec<u32>,
    targets: Vec<&'a mut [T]>,
    streams: bool,
    /// A fence orders the stores of its own thread only.
    own_thread: PhantomData<*const ()>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line<T, const N: usize>([T; N]);

impl<'a, T: Pod, const N: usize> Lines<'a, T, N> {
    fn new(targets: Vec<&'a mut [T]>, streams: bool) -> Self {
        // Memory at a distance from a line that is not a multiple of a value has no whole line.
        let skip = |target: &&mut [T]| match target.as_ptr().align_offset(LINE_BYTES) {
            usize::MAX => None,
            offset => Some((N - offset % N) % N),
        };
        let streams = streams && targets.iter().all(|target| skip(target).is_some());
        let skipped: Vec<u32> =
            targets.iter().map(|target| skip(target).unwrap_or(0) as u32).collect();
        let lines = vec![Line([T::zeroed(); N]); targets.len()];
        let (filled, own_thread) = (skipped.clone(), PhantomData);
        Self { lines, filled, skipped, targets, streams, own_thread }
    }

    /// Puts a value to the next place of a target.
    #[inline(always)]
    pub fn put(&mut self, target: usize, value: T) {
        let filled = &mut self.filled[target];
        self.lines[target].0[*filled as usize % N] = value;
        *filled = filled.wrapping_add(1);
        if (*filled as usize).is_multiple_of(N) {
            self.write(target, N);
        }
    }

    /// Writes the first values of a target's line.
    #[inline(always)]
    fn write(&mut self, at: usize, filled: usize) {
        let skipped = std::mem::take(&mut self.skipped[at]) as usize;
        let target = std::mem::take(&mut self.targets[at]);
        let (place, rest) = target.split_at_mut(filled - skipped);
        if skipped == 0 && filled == N {
            if self.streams {
                stream(&self.lines[at], place);
            } else {
                place.copy_from_slice(&self.lines[at].0);
            }
        } else {
            place.copy_from_slice(&self.lines[at].0[skipped..filled]);
        }
        self.targets[at] = rest;
    }

    fn finish(&mut self) {
        for target in 0..self.lines.len() {
            let filled = self.filled[target] as usize % N;
            if filled > self.skipped[target] as usize {
                self.write(target, filled);
            }
        }
    }
}

impl<T, const N: usize> Drop for Lines<'_, T, N> {
    fn drop(&mut self) {
        if self.streams {
            fence();
        }
    }
}

/// Writes a line past the cache. The place has the size of a line, and starts where one does.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stream<T: Pod, const N: usize>(line: &Line<T, N>, place: &mut [T]) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
    let from = std::ptr::from_ref(line).cast::<__m128i>();
    let to = place.as_mut_ptr().cast::<__m128i>();
    assert!(size_of_val(place) == LINE_BYTES && to.addr().is_multiple_of(LINE_BYTES), "a line");
    for at in 0..LINE_BYTES / size_of::<__m128i>() {
        // SAFETY: both are a whole line at the start of one, as was just checked (and `Line` is
        // aligned); `place` is borrowed alone. `Lines` owns the targets until its drop has fenced.
        unsafe { _mm_stream_si128(to.add(at), _mm_load_si128(from.add(at))) };
    }
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Elsewhere an ordinary copy.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn stream<T: Pod, const N: usize>(line: &Line<T, N>, place: &mut [T]) {
    place.copy_from_slice(&line.0);
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

/// Memory that is written with non-temporal stores at any of its places, sixteen bytes at a time:
/// for results larger than a cache, whose pieces have known places.
#[derive(Debug)]
pub struct NonTemporalMemory<'a> {
    memory: &'a mut [u8],
    /// A fence orders the stores of its own thread only.
    own_thread: PhantomData<*const ()>,
}

/// Bytes that are written with one non-temporal store.
pub const PIECE_BYTES: usize = 16;

impl<'a> NonTemporalMemory<'a> {
    /// Memory that begins at a multiple of 16; `None` for other memory.
    pub fn of(memory: &'a mut [u8]) -> Option<Self> {
        let aligned = memory.as_ptr().addr().is_multiple_of(PIECE_BYTES);
        aligned.then_some(Self { memory, own_thread: PhantomData })
    }

    /// Writes a piece at a place, which must be a multiple of 16 within the memory. Panics
    /// otherwise.
    #[inline(always)]
    pub fn put(&mut self, at: usize, piece: [u8; PIECE_BYTES]) {
        assert!(at.is_multiple_of(PIECE_BYTES), "a piece goes to a multiple of its size");
        stream_piece(&mut self.memory[at..at + PIECE_BYTES], piece);
    }
}

impl Drop for NonTemporalMemory<'_> {
    fn drop(&mut self) {
        fence();
    }
}

/// Writes a piece with a non-temporal store. The place begins at a multiple of its size.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stream_piece(place: &mut [u8], piece: [u8; PIECE_BYTES]) {
    use std::arch::x86_64::{__m128i, _mm_stream_si128};
    assert_eq!(place.len(), PIECE_BYTES, "a place has the size of a piece");
    let to = place.as_mut_ptr().cast::<__m128i>();
    // SAFETY: `place` has the size of the piece and is borrowed alone; it begins at a multiple of
    // 16, for `NonTemporalMemory` checks the start of its memory and every place. Its drop fences.
    unsafe { _mm_stream_si128(to, bytemuck::cast(piece)) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn stream_piece(place: &mut [u8], piece: [u8; PIECE_BYTES]) {
    place.copy_from_slice(&piece);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deals `count` numbers out to targets that start anywhere in a line.
    fn deal<T: Pod + PartialEq + std::fmt::Debug, const N: usize>(
        streams: bool,
        make: impl Fn(usize) -> T,
    ) {
        const TARGETS: usize = 5;
        for count in [0, 1, 7, 64, 1000] {
            for offset in 0..N {
                let of = |target: usize| (target..count).step_by(TARGETS);
                let mut memory = vec![make(9999); count + offset];
                let mut targets = Vec::new();
                let (_, mut left) = memory.split_at_mut(offset);
                for target in 0..TARGETS {
                    let (own, rest) = left.split_at_mut(of(target).count());
                    targets.push(own);
                    left = rest;
                }
                scatter::<T, N, _>(targets, streams, |lines| {
                    (0..count).for_each(|at| lines.put(at % TARGETS, make(at)));
                });
                let wanted = (0..TARGETS).flat_map(of).map(&make);
                let wanted: Vec<T> =
                    std::iter::repeat_n(make(9999), offset).chain(wanted).collect();
                assert_eq!(memory, wanted, "{count} from {offset}, streaming: {streams}");
            }
        }
    }

    #[test]
    fn every_value_reaches_its_place() {
        for streams in [false, true] {
            deal::<u8, 64>(streams, |at| at as u8);
            deal::<u16, 32>(streams, |at| at as u16);
            deal::<u32, 16>(streams, |at| at as u32);
            deal::<u64, 8>(streams, |at| at as u64);
            deal::<[u64; 2], 4>(streams, |at| [at as u64, 1]);
            deal::<[u64; 4], 2>(streams, |at| [at as u64, 1, 2, 3]);
        }
    }

    #[test]
    #[should_panic(expected = "mid > len")]
    fn more_than_a_target_takes_is_refused() {
        let mut target = [0u64; 8];
        scatter::<u64, 8, _>(vec![&mut target], true, |lines| {
            (0..100).for_each(|value| lines.put(0, value));
        });
    }

    #[test]
    fn pieces_are_streamed_to_any_place() {
        let mut memory = [0_u128; 5];
        let bytes = bytemuck::cast_slice_mut(&mut memory);
        assert!(NonTemporalMemory::of(&mut bytes[1..]).is_none());
        let mut target = NonTemporalMemory::of(bytes).expect("it begins at a multiple of 16");
        for at in [3, 0, 4] {
            target.put(16 * at, [at as u8; 16]);
        }
        drop(target);
        let filled = memory.map(|piece| piece.to_ne_bytes()[7]);
        assert_eq!(filled, [0, 0, 0, 3, 4]);
    }

    #[test]
    #[should_panic(expected = "multiple of its size")]
    fn a_piece_between_two_places_is_refused() {
        let mut memory = [0_u128; 2];
        let mut target =
            NonTemporalMemory::of(bytemuck::cast_slice_mut(&mut memory)).expect("aligned");
        target.put(8, [0; 16]);
    }
}
