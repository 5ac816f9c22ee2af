//! Columns that grow in the store, measured through the builder and the allocator.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use plasmon_client::{Client, PutOptions};
use plasmon_columns::{BuilderOptions, ColumnBuilder, SharedAllocator};
use serde::{Deserialize, Serialize};

use crate::timing::nanoseconds;

/// How a builder is used.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// Given up: its memory is warm for the next builder.
    Abort,
    /// Sealed as an object, which is deleted after the sample.
    Finish,
}

/// Growing a column value by value.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Append {
    total_bytes: usize,
    chunk_bytes: usize,
    ending: Ending,
    count: usize,
    warmups: usize,
}

/// Doubling a buffer.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Double {
    from_bytes: usize,
    to_bytes: usize,
    touched: bool,
    count: usize,
    warmups: usize,
}

/// The times and counts of a series, in the form that `bench/ours/columns_worker.py` reports.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Series {
    samples: Vec<f64>,
    batch: u64,
    build_ns: Vec<f64>,
    resident_bytes: u64,
    resident_after_bytes: u64,
    growths: u64,
    moves: u64,
    moved_bytes: u64,
}

impl Series {
    /// Takes a sample; `built` is the part of it until everything was written.
    fn take(&mut self, turn: usize, warmups: usize, total: f64, built: f64) -> Result<()> {
        self.resident_after_bytes = resident_bytes()?;
        self.batch = 1;
        if turn >= warmups {
            self.samples.push(total);
            self.build_ns.push(built);
        }
        Ok(())
    }

    /// Counts a growth, and whether the buffer moved by it: its address before and after.
    fn grew(&mut self, before: usize, after: usize, bytes: usize) {
        self.growths += 1;
        if before != after {
            self.moves += 1;
            self.moved_bytes += bytes as u64;
        }
    }
}

/// Appends int64 until the buffer has `total_bytes`.
pub(crate) fn append(store: &Client, request: Append) -> Result<Series> {
    let chunk = vec![42_i64; request.chunk_bytes / size_of::<i64>()];
    let mut series = Series::default();
    for turn in 0..request.warmups + request.count {
        let begin = Instant::now();
        let mut builder = ColumnBuilder::new(store, &DataType::Int64, &BuilderOptions::default())?;
        let mut place = None;
        for done in (0..request.total_bytes).step_by(request.chunk_bytes) {
            builder.append_values::<Int64Type>(&chunk)?;
            let now = builder.addresses().first().copied();
            if let (Some(before), Some(after)) = (place, now) {
                series.grew(before, after, done);
            }
            place = now;
        }
        let built = nanoseconds(begin.elapsed());
        ensure!(builder.len() * size_of::<i64>() == request.total_bytes, "values were lost");
        series.resident_bytes = resident_bytes()?;
        let again = Instant::now();
        let made = match request.ending {
            Ending::Abort => {
                builder.abort();
                None
            }
            Ending::Finish => Some(builder.finish(&PutOptions::default())?),
        };
        let total = built + nanoseconds(again.elapsed());
        if let Some(id) = made {
            store.delete(&[id])?;
        }
        series.take(turn, request.warmups, total, built)?;
    }
    Ok(series)
}

/// Doubles a buffer until it is large.
pub(crate) fn double(store: &Client, request: Double) -> Result<Series> {
    let allocator = SharedAllocator::new(store);
    let mut series = Series::default();
    for turn in 0..request.warmups + request.count {
        let begin = Instant::now();
        let mut buffer = allocator.buffer(request.from_bytes)?;
        buffer.resize(request.from_bytes)?;
        let (mut bytes, mut written) = (request.from_bytes, 0);
        loop {
            if request.touched {
                buffer[written..bytes].fill(7);
                written = bytes;
            }
            if bytes >= request.to_bytes {
                break;
            }
            let before = buffer.as_ptr() as usize;
            buffer.resize(bytes * 2)?;
            series.grew(before, buffer.as_ptr() as usize, bytes);
            bytes *= 2;
        }
        let built = nanoseconds(begin.elapsed());
        let kept = !request.touched || (buffer[0] == 7 && buffer[bytes - 1] == 7);
        ensure!(kept, "growing lost what was written");
        series.resident_bytes = resident_bytes()?;
        let again = Instant::now();
        drop(buffer);
        series.take(turn, request.warmups, built + nanoseconds(again.elapsed()), built)?;
    }
    Ok(series)
}

/// The memory that this process has in sight.
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("statm has a second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
