//! Taking samples.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::protocol::{Samples, Stamps};

/// How a series is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    pub(crate) count: u64,
    pub(crate) batch: u64,
}

impl Series {
    /// Times batches of `operation`, each followed by `after`, which is not timed. One batch before
    /// the series warms up.
    pub(crate) fn take(
        self,
        mut operation: impl FnMut() -> Result<()>,
        mut after: impl FnMut() -> Result<()>,
    ) -> Result<Samples> {
        let mut samples = Vec::with_capacity(usize::try_from(self.count)?);
        for turn in 0..=self.count {
            let begin = Instant::now();
            for _ in 0..self.batch {
                operation()?;
            }
            let taken = begin.elapsed();
            after()?;
            if turn > 0 {
                samples.push(nanoseconds(taken) / self.batch as f64);
            }
        }
        Ok(Samples { samples, batch: self.batch })
    }
}

/// A duration as samples have it.
pub(crate) fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// The time that processors have spent on all threads of these processes, in nanoseconds.
pub(crate) fn cpu_ns(processes: &[u32]) -> u64 {
    let threads = processes.iter().flat_map(|pid| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
        entries.into_iter().flatten().flatten()
    });
    let spent = threads.filter_map(|thread| {
        // A thread that has just ended has no file.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    spent.sum()
}

/// The clock that all processes share.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// How many operations per second one thread does for a while.
pub(crate) fn rate(seconds: f64, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    const BATCH: u64 = 256;
    let begin = Instant::now();
    let mut done = 0;
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..BATCH {
            operation()?;
        }
        done += BATCH;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

/// Does something repeatedly, asleep in between; returns when each turn began.
pub(crate) fn spaced(
    count: usize,
    gap: Duration,
    mut operation: impl FnMut(usize) -> Result<()>,
) -> Result<Stamps> {
    let mut stamps = Vec::with_capacity(count);
    for turn in 0..count {
        std::thread::sleep(gap);
        stamps.push(now_ns());
        operation(turn)?;
    }
    Ok(Stamps { stamps })
}

/// Waits for one thing after the other; returns when each had come.
pub(crate) fn awaited(
    count: usize,
    mut operation: impl FnMut(usize) -> Result<()>,
) -> Result<Stamps> {
    let mut stamps = Vec::with_capacity(count);
    for turn in 0..count {
        operation(turn)?;
        stamps.push(now_ns());
    }
    Ok(Stamps { stamps })
}

/// Moves the calling thread to a processor; a negative number leaves it where the kernel wants it.
pub(crate) fn pin(cpu: i64) -> Result<()> {
    if let Ok(cpu) = usize::try_from(cpu) {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}
