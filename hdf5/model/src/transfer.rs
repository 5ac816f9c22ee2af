//! The way of elements between a file's columns and a program's memory.
//!
//! A selection comes as runs: elements from one place in the file to another in memory, once
//! or again and again at equal steps. Runs are worked off in blocks that stay in the cache: for
//! each block all columns in turn, so that the records in memory are visited once (`moving`).
//! Much that needs no conversion is divided between threads.
//!
//! Reading and writing of files go through system calls, never through a mapping: a file that
//! another program cuts off, or a disk that is full, must be an error, not the end of the process.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::bytes::Columns;
use crate::conversion::{Convert, NoConversion};
use crate::error::TransferError;
use crate::layout::Extents;
use crate::memory::{Member, Memory, Records};
use crate::run::Run;
use crate::run_copy::Job;
use crate::table::Table;

/// From this many bytes on a thread has enough to do.
const THREAD_BYTES: u64 = 4 << 20;
/// From this many bytes of records on they are written past the cache.
const STREAM_BYTES: u64 = 2 << 20;
/// How many threads work at most: more of them wait for the memory.
const THREADS_MAX: u64 = 4;

/// Moves runs of elements between a dataset and memory.
///
/// # Errors
///
/// The system or the conversion refuses; the elements may have been moved in part.
pub fn transfer(
    (data, table): (Columns<'_>, &Table),
    members: &[Member],
    runs: &[Run],
    memory: Memory<'_>,
    records: Records,
    convert: &mut dyn Convert,
) -> Result<(), TransferError> {
    let extents = data.extents(table);
    let work = Work { data, table, members, extents };
    if let [run] = runs
        && let Some(threads) = work.threads(*run)
    {
        return work.divide(*run, threads, memory, records);
    }
    work.run(runs, memory, records, convert)
}

/// A run with its memory, whose first record has this number.
type Piece<'a> = (Run, Memory<'a>, Records);

/// Divides a run of one block into `count` pieces.
fn pieces(
    run: Run,
    count: u64,
    memory: Memory<'_>,
    records: Records,
) -> Result<Vec<Piece<'_>>, TransferError> {
    let share = run.elements.div_ceil(count);
    let (mut rest, mut left, mut first) = (Some(run), Some(memory), records.first);
    let mut pieces = Vec::new();
    while let (Some(run), Some(memory)) = (rest, left.take()) {
        let (own, others) = run.split_elements(share);
        let records = Records { first, ..records };
        let memory = if let Some(next) = others {
            let records_before = usize::try_from(next.memory - first).unwrap_or(usize::MAX);
            let end = records_before.checked_mul(records.stride);
            let (own, rest) =
                end.and_then(|end| memory.split(end)).ok_or(TransferError::Outside)?;
            (left, first) = (Some(rest), next.memory);
            own
        } else {
            memory
        };
        rest = others;
        pieces.push((own, memory, records));
    }
    Ok(pieces)
}

/// A transfer.
struct Work<'a> {
    data: Columns<'a>,
    table: &'a Table,
    members: &'a [Member],
    extents: Extents,
}

impl Work<'_> {
    /// How many threads a run is worth, if more than one.
    fn threads(&self, run: Run) -> Option<u64> {
        if run.blocks > 1 || self.members.iter().any(|member| member.converts) {
            return None;
        }
        let bytes: usize = self.members.iter().map(|member| member.file_bytes).sum();
        let worth = run.elements.saturating_mul(bytes as u64) / THREAD_BYTES;
        if worth < 2 {
            return None;
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let threads = worth.min(processors).min(THREADS_MAX);
        (threads > 1).then_some(threads)
    }

    /// Divides a run between threads. A system that has none left leaves all of it to this one.
    fn divide(
        &self,
        run: Run,
        threads: u64,
        memory: Memory<'_>,
        records: Records,
    ) -> Result<(), TransferError> {
        let pieces = Mutex::new(pieces(run, threads, memory, records)?);
        let take = || pieces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || {
            while let Some((run, memory, records)) = take() {
                self.run(&[run], memory, records, &mut NoConversion)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let working: Vec<_> = (1..threads).map_while(spawn).collect();
            let own = work();
            let stopped = || {
                Err(TransferError::System(io::Error::other("a thread of the transfer panicked")))
            };
            let joined = working.into_iter();
            let mut joined = joined.map(|one| one.join().unwrap_or_else(|_| stopped()));
            joined.try_for_each(|one| one).and(own)
        })
    }

    /// Moves runs, extent by extent.
    fn run(
        &self,
        runs: &[Run],
        mut memory: Memory<'_>,
        records: Records,
        convert: &mut dyn Convert,
    ) -> Result<(), TransferError> {
        let total: u64 = runs.iter().map(Run::total).sum();
        let streams = total.saturating_mul(records.stride as u64) >= STREAM_BYTES;
        let mut job = Job::new(self.data.bytes, self.members, records, streams);
        if self.extents.len() == 1 {
            job.enter(&self.extents.first().columns(self.table), 0);
            return job.work(runs, memory, convert);
        }
        let mut at = u64::MAX;
        let mut pending: Vec<Run> = Vec::new();
        for (extent, run) in runs.iter().flat_map(|run| self.split(*run)) {
            if extent != at {
                job.work(&pending, memory.again(), convert)?;
                pending.clear();
                at = extent;
                let found = self.extents.get(at);
                job.enter(&found.columns(self.table), found.first * self.table.row_elements());
            }
            pending.push(run);
        }
        job.work(&pending, memory, convert)
    }

    /// Divides a run at the ends of extents.
    fn split(&self, run: Run) -> Vec<(u64, Run)> {
        let (mut pieces, mut left) = (Vec::new(), vec![run]);
        while let Some(run) = left.pop() {
            let row = run.file / self.table.row_elements().max(1);
            let extent = self.extents.holding(row);
            let found = self.extents.get(extent);
            let end = (found.first + found.capacity) * self.table.row_elements();
            let room = end.saturating_sub(run.file);
            let (own, rest) = if run.file_end() <= end || room == 0 {
                (run, None)
            } else if run.blocks > 1 && run.elements <= room {
                run.split_blocks((room - run.elements) / run.file_step + 1)
            } else {
                let (first, others) = run.split_blocks(1);
                left.extend(others);
                first.split_elements(room)
            };
            left.extend(rest);
            pieces.push((extent, own));
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
