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

/// The number of a bucket, in as few bytes as it needs.
pub(crate) trait BucketId: Copy + Default + Into<usize> {
    fn of(bucket: usize) -> Self;
}

impl BucketId for u8 {
    #[inline(always)]
    fn of(bucket: usize) -> Self {
        bucket as u8
    }
}

impl BucketId for u16 {
    #[inline(always)]
    fn of(bucket: usize) -> Self {
        bucket as u16
    }
}

/// How many rows a sample for this many buckets has.
pub(crate) fn sample_rows(buckets: usize) -> usize {
    buckets * SAMPLE_PER_BUCKET
}

/// The buckets of a sort.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// Where buckets begin, except for the first; strictly rising. They are followed by as many of
    /// the greatest number as there are steps, so that each step finds one.
    bounds: Vec<u64>,
    count: usize,
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
            // More than a bucket's worth of one prefix: the next bound is right after it.
            let again = at > 1 && quantile(at - 1) == bound;
            bounds.extend(if again { bound.checked_add(1) } else { Some(bound) });
        }
        bounds.sort_unstable();
        bounds.dedup();
        // Nothing comes before the least number.
        bounds.retain(|bound| *bound != 0);
        Self::of_bounds(bounds)
    }

    fn of_bounds(mut bounds: Vec<u64>) -> Self {
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
        let count = bounds.len() + 1;
        bounds.extend([u64::MAX; STEPS_MAX]);
        Self { bounds, count, cells, low, shift, steps: steps.unwrap_or(0) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many of these prefixes are in each bucket.
    pub(crate) fn rows_of(&self, prefixes: &[u64]) -> Vec<u64> {
        let mut rows = vec![0; self.count()];
        let bounds = &self.bounds[..self.count() - 1];
        for prefix in prefixes {
            rows[bounds.partition_point(|bound| bound <= prefix)] += 1;
        }
        rows
    }

    /// The prefixes of a bucket, both ends included.
    pub(crate) fn range(&self, bucket: usize) -> (u64, u64) {
        let first = if bucket == 0 { 0 } else { self.bounds[bucket - 1] };
        let last = if bucket + 1 == self.count { u64::MAX } else { self.bounds[bucket] - 1 };
        (first, last)
    }

    /// Each prefix's bucket.
    #[inline(always)]
    pub(crate) fn place<I: BucketId>(&self, prefixes: &[u64], out: &mut [I]) {
        match self.steps {
            0 | 1 => self.place_near::<1, I>(prefixes, out),
            2 => self.place_near::<2, I>(prefixes, out),
            3..=STEPS_MAX => self.place_near::<STEPS_MAX, I>(prefixes, out),
            _ => {
                let bounds = &self.bounds[..self.count() - 1];
                for (out, prefix) in out.iter_mut().zip(prefixes) {
                    *out = I::of(bounds.partition_point(|bound| bound <= prefix));
                }
            }
        }
    }

    #[inline(always)]
    fn place_near<const STEPS: usize, I: BucketId>(&self, prefixes: &[u64], out: &mut [I]) {
        let cells: &[u16; CELLS] = self.cells.as_slice().try_into().expect("all cells");
        let last = self.count() - 1;
        for (out, prefix) in out.iter_mut().zip(prefixes) {
            let cell = (prefix.saturating_sub(self.low) >> self.shift).min(CELLS as u64 - 1);
            let mut bucket = usize::from(cells[cell as usize]);
            for _ in 0..STEPS {
                bucket += usize::from(self.bounds[bucket] <= *prefix);
            }
            *out = I::of(bucket.min(last));
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
