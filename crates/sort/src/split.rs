//! Buckets: ranges of prefixes that hold about as many rows each.
//!
//! The bounds between them come from a sample. A prefix that fills a bucket alone gets one of its
//! own, from itself to the next number; its rows need no sorting when the prefix is the whole key.

use std::ops::Range;

/// Rows of the sample for each bucket.
const SAMPLE_PER_BUCKET: usize = 64;
/// Cells of the table that says where to look for a prefix's bucket.
const CELLS: usize = 1 << 12;
/// Bounds within one cell after which a search by halves is faster than looking at each.
const STEPS_MAX: usize = 4;

/// How many rows a sample for so many buckets has.
pub(crate) fn sample_rows(buckets: usize) -> usize {
    buckets * SAMPLE_PER_BUCKET
}

/// The buckets of a sort.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// Where buckets begin, but for the first; strictly rising.
    bounds: Vec<u64>,
    /// For each cell, how many bounds lie before it.
    cells: Vec<u16>,
    low: u64,
    shift: u32,
    /// How many bounds the fullest cell has.
    steps: usize,
}

impl Buckets {
    /// About `wanted` buckets for rows of which `sample` are the prefixes of some.
    pub(crate) fn new(mut sample: Vec<u64>, wanted: usize) -> Self {
        sample.sort_unstable();
        let mut bounds: Vec<u64> = Vec::with_capacity(wanted);
        let quantile = |at: usize| sample[at * sample.len() / wanted];
        for at in 1..if sample.is_empty() { 0 } else { wanted } {
            let bound = quantile(at);
            // More than a bucket's worth of one prefix: the next bound is right behind it.
            let again = at > 1 && quantile(at - 1) == bound;
            bounds.extend(if again { bound.checked_add(1) } else { Some(bound) });
        }
        bounds.sort_unstable();
        bounds.dedup();
        // Nothing comes before the least number.
        bounds.retain(|bound| *bound != 0);
        Self::of_bounds(bounds)
    }

    fn of_bounds(bounds: Vec<u64>) -> Self {
        let low = bounds.first().copied().unwrap_or(0);
        let span = bounds.last().copied().unwrap_or(0) - low;
        let shift = (64 - span.leading_zeros()).saturating_sub(CELLS.trailing_zeros());
        let start = |cell: usize| u64::try_from(u128::from(low) + ((cell as u128) << shift));
        let before = |cell: usize| match (cell, start(cell)) {
            // Prefixes below all bounds are in the first cell too.
            (0, _) | (_, Err(_)) => 0,
            (_, Ok(start)) => bounds.partition_point(|bound| *bound < start),
        };
        let mut cells: Vec<u16> = (0..CELLS).map(|cell| before(cell) as u16).collect();
        // A cell that starts past the last number has the bounds of its neighbour before it.
        for cell in 1..CELLS {
            cells[cell] = cells[cell].max(cells[cell - 1]);
        }
        let ends = cells.iter().skip(1).copied().chain([bounds.len() as u16]);
        let steps = cells.iter().zip(ends).map(|(from, to)| usize::from(to - from)).max();
        Self { bounds, cells, low, shift, steps: steps.unwrap_or(0) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The prefixes of a bucket, both ends included.
    pub(crate) fn range(&self, bucket: usize) -> (u64, u64) {
        let first = if bucket == 0 { 0 } else { self.bounds[bucket - 1] };
        let last = self.bounds.get(bucket).map_or(u64::MAX, |next| next - 1);
        (first, last)
    }

    /// Calls `with` for each prefix's bucket, in order.
    #[inline(always)]
    pub(crate) fn place(&self, prefixes: &[u64], mut with: impl FnMut(usize)) {
        if self.steps > STEPS_MAX {
            for prefix in prefixes {
                with(self.bounds.partition_point(|bound| bound <= prefix));
            }
            return;
        }
        // One more bound than there are, so that each look finds one.
        for prefix in prefixes {
            let cell = (prefix.saturating_sub(self.low) >> self.shift).min(CELLS as u64 - 1);
            let mut bucket = usize::from(self.cells[cell as usize]);
            for _ in 0..self.steps {
                let passed = self.bounds.get(bucket).is_some_and(|bound| bound <= prefix);
                bucket += usize::from(passed);
            }
            with(bucket);
        }
    }

    /// Ranges of buckets with about as many rows each, given each bucket's rows; some may be
    /// empty when a few buckets have most rows.
    pub(crate) fn partitions(rows: &[u64], count: usize) -> Vec<Range<usize>> {
        let total: u64 = rows.iter().sum();
        let mut ranges = Vec::with_capacity(count);
        let (mut bucket, mut before) = (0, 0u64);
        for at in 1..=count {
            let from = bucket;
            let goal = (u128::from(total) * at as u128 / count as u128) as u64;
            // A bucket goes where the larger half of it belongs.
            while bucket < rows.len() && (at == count || before + rows[bucket] / 2 < goal) {
                before += rows[bucket];
                bucket += 1;
            }
            ranges.push(from..bucket);
        }
        ranges
    }
}
