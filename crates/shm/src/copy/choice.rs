//! Which way of copying is the fastest on this machine, told by the copies themselves.
//!
//! Processors and hosts differ: four pages side by side are the best on one, lines one after the
//! other are a fifth faster on another, and an ordinary copy wins where the last cache is large. So
//! pieces of copies are timed. The first pieces of a process try every way in turn; afterwards the
//! fastest is taken, and one piece in [`TRY_EVERY`] tries a way again, because other programs
//! share the memory and their load changes.
//!
//! The figures are hints without order among them: threads that race lose a measurement at worst.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A way to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Ordinary stores, through the caches.
    Ordinary,
    /// Streaming stores, one line after the other.
    Lines,
    /// Streaming stores to some pages side by side.
    Pages,
}

const WAYS: [Way; 3] = [Way::Lines, Way::Pages, Way::Ordinary];

/// How often each way is tried before the fastest is taken.
const FIRST_TRIES: u64 = 2;

/// One piece out of this many tries a way that may have become the fastest.
const TRY_EVERY: u64 = 64;

/// What is known about the ways for copies of one size class.
#[derive(Debug)]
pub(super) struct Choice {
    /// Picoseconds for each KiB, 0 while not measured.
    costs: [AtomicU64; WAYS.len()],
    pieces: AtomicU64,
}

impl Choice {
    /// Nothing is known yet.
    pub(super) const fn new() -> Self {
        Self { costs: [const { AtomicU64::new(0) }; WAYS.len()], pieces: AtomicU64::new(0) }
    }

    /// The way for the next piece.
    pub(super) fn pick(&self) -> Way {
        let ways = WAYS.len() as u64;
        let piece = self.pieces.fetch_add(1, Ordering::Relaxed);
        if piece < ways * FIRST_TRIES {
            return WAYS[(piece % ways) as usize];
        }
        if piece.is_multiple_of(TRY_EVERY) {
            return WAYS[(piece / TRY_EVERY % ways) as usize];
        }
        let cost = |at: &usize| self.costs[*at].load(Ordering::Relaxed);
        (0..WAYS.len()).min_by_key(cost).map_or(Way::Ordinary, |at| WAYS[at])
    }

    /// A piece was copied in this way. A single measurement moves the figure by a quarter at most,
    /// so that a thread that was put aside in the middle of a copy does not decide.
    pub(super) fn record(&self, way: Way, bytes: usize, took: Duration) {
        let picoseconds = took.as_nanos().saturating_mul(1000 * 1024);
        let found = u64::try_from(picoseconds / bytes.max(1) as u128).unwrap_or(u64::MAX).max(1);
        let cost = &self.costs[WAYS.iter().position(|known| *known == way).unwrap_or(0)];
        let known = cost.load(Ordering::Relaxed);
        let estimate = match known {
            0 => found,
            _ => known - known / 4 + found.clamp(known / 2, known.saturating_mul(2)) / 4,
        };
        cost.store(estimate.max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies pieces on a machine with these costs; how often each way was taken.
    fn run(choice: &Choice, pieces: usize, nanoseconds: impl Fn(Way) -> u64) -> [usize; 3] {
        let mut taken = [0; 3];
        for _ in 0..pieces {
            let way = choice.pick();
            choice.record(way, 1 << 20, Duration::from_nanos(nanoseconds(way)));
            taken[WAYS.iter().position(|known| *known == way).unwrap()] += 1;
        }
        taken
    }

    #[test]
    fn the_fastest_way_is_taken_but_for_the_tries() {
        for fastest in WAYS {
            let choice = Choice::new();
            let cost = |way| if way == fastest { 60_000 } else { 80_000 };
            run(&choice, 6, cost);
            let taken = run(&choice, 640, cost);
            let at = WAYS.iter().position(|way| *way == fastest).unwrap();
            assert!(taken[at] >= 630, "{fastest:?}: {taken:?}");
        }
    }

    #[test]
    fn one_slow_piece_does_not_decide_and_a_changed_machine_does() {
        let choice = Choice::new();
        let cost = |way| if way == Way::Lines { 60_000 } else { 80_000 };
        run(&choice, 6, cost);
        choice.record(Way::Lines, 1 << 20, Duration::from_secs(1));
        let taken = run(&choice, 200, cost);
        assert!(taken[0] >= 190, "a thread was put aside once: {taken:?}");
        let changed = |way| if way == Way::Ordinary { 50_000 } else { 90_000 };
        run(&choice, 2_000, changed);
        let taken = run(&choice, 640, changed);
        assert!(taken[2] >= 630, "the ordinary way has become the fastest: {taken:?}");
    }

    #[test]
    fn any_duration_and_size_is_taken() {
        let choice = Choice::new();
        for took in [Duration::ZERO, Duration::MAX] {
            for bytes in [0, 1, usize::MAX] {
                WAYS.iter().for_each(|way| choice.record(*way, bytes, took));
            }
        }
        assert!(choice.costs.iter().all(|cost| cost.load(Ordering::Relaxed) > 0));
    }
}
