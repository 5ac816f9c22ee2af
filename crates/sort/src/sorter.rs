//! The sort as a whole: which memory is whose, and what happens when.
//!
//! ```text
//!  keys ─► sample ─► buckets ─► classify ─► partitions' layouts ─► memory ─► scatter ─► leaves
//!          (split)              (scatter)   (ipc)                            (scatter)  (leaf)
//! ```
//!
//! Rows are scattered into the memory of the result itself, and each bucket is put in order there,
//! so that beside input and output only a byte or two for each row are needed. Rows' numbers (4
//! bytes) are added when there are bits or missing values to collect, their prefixes (8) when the
//! keys cannot be read off the scattered columns.

mod memory;

use std::ops::{DerefMut, Range};

use arrow_buffer::bit_mask::set_bits;

use self::memory::{BucketMemory, Carries, Division};
use crate::bucket_ids::classify;
use crate::bucket_sort::{self, Bits, Bucket, Context, Scratch};
use crate::column::{Column, ColumnLayout};
use crate::error::{Error, Result};
use crate::interleave::{self, Numbers};
use crate::ipc::Layout;
use crate::job::{Create, Job, PARTITIONS_MAX, Partition, THREADS_MAX};
use crate::key::{Keys, spread};
use crate::scatter::Scatter;
use crate::splitters::{Buckets, sample_rows};
use crate::table::Table;
use crate::workers::{each, each_with};

/// Rows of a bucket that is sorted without leaving the nearer caches.
const BUCKET_ROWS: usize = 32 << 10;
const BUCKETS_MAX: usize = 1024;
/// So many buckets that their numbers fit a byte, with room for those of frequent prefixes.
const FEW_BUCKETS: usize = 192;
/// Rows that are sorted as one bucket.
const ONE_BUCKET_ROWS: usize = 16 << 10;
/// Rows from which on the scattered values leave the caches before a leaf reads them, so that they
/// are better written past them. With fewer it makes no difference.
const STREAM_ROWS_MIN: usize = 1 << 20;
/// Pieces for each thread, so that one that is held up does not hold up the others.
const PIECES_PER_THREAD: usize = 2;
/// Text of one partition when the caller did not choose their number: what 32 bits address, less
/// some room for partitions that are not all of one size.
const TEXT_BYTES: u64 = (i32::MAX as u64) / 4 * 3;

/// Sorts a table into memory that `create` gives, partition by partition. Rows with equal keys
/// stay in their order.
pub fn sort<M>(job: &Job<'_>, create: &mut Create<'_, M>) -> Result<Vec<Partition<M>>>
where
    M: DerefMut<Target = [u8]> + Send,
{
    let Job { table, progress, .. } = *job;
    if let Some(wanted) = job.partitions.filter(|wanted| !(1..=PARTITIONS_MAX).contains(wanted)) {
        return Err(Error::Partitions { wanted, limit: PARTITIONS_MAX });
    }
    let threads = job.threads.unwrap_or_else(cores).clamp(1, THREADS_MAX);
    progress.expect(4 * table.rows() as u64);
    let keys = Keys::new(table, job.order, threads, progress)?;
    let columns = (0..table.schema().fields().len()).map(|at| Column::of(table, at));
    let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
        let sorted = Sort::new(job, threads, &keys, &[])?.numbers()?;
        return interleave::partitions(job, threads, sorted, create);
    };
    Sort::new(job, threads, &keys, &columns)?.run(create)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A sort whose rows' buckets are known.
struct Sort<'a> {
    job: &'a Job<'a>,
    threads: usize,
    keys: &'a Keys,
    buckets: Buckets,
    /// The number of the first bucket that is made; all that follows counts from it.
    first: usize,
    division: Division<'a>,
    lone: Option<usize>,
}

impl<'a> Sort<'a> {
    fn new(
        job: &'a Job<'a>,
        threads: usize,
        keys: &'a Keys,
        columns: &'a [Column],
    ) -> Result<Self> {
        let table = job.table;
        let lone = match keys.in_place() {
            Some((fields, key)) if columns.len() == 1 && fields.lone_value() => Some(key[0].at),
            _ => None,
        };
        let few = lone.is_some();
        let count = bucket_count(table.rows(), few).max(job.partitions.unwrap_or(1));
        let (buckets, sample_rows) = sampled(table, keys, count);
        let (partitions, made) = planned(job, &sample_rows)?;
        let within = job.only.as_ref().map(|_| &made);
        let pieces = if table.rows() <= ONE_BUCKET_ROWS { 1 } else { PIECES_PER_THREAD * threads };
        let pieces = each(threads, table.pieces(pieces), |piece| {
            let classified = classify(&piece, keys, (&buckets, within), columns, job.progress)?;
            Ok((piece, classified))
        })?;
        let rows = (0..made.len())
            .map(|at| pieces.iter().map(|(_, piece)| u64::from(piece.rows[at])).sum());
        let rows: Vec<u64> = rows.collect();
        // What others sort needs no more steps here.
        job.progress.advance(table.rows() as u64 - rows.iter().sum::<u64>())?;
        let in_bucket = keys.in_place().is_some() || keys.as_strings().is_some();
        let prefixes = !in_bucket || columns.is_empty();
        let moves_alone = |column: &Column| column.layout != ColumnLayout::Bits && !column.nullable;
        let numbers = prefixes || !columns.iter().all(moves_alone);
        let mut division = Division {
            columns,
            pieces,
            rows,
            partitions: partitions.unwrap_or_default(),
            carries: Carries { prefixes, numbers },
        };
        if division.partitions.is_empty() {
            let needed = partitions_needed(&division);
            division.partitions = Buckets::partitions(&division.rows, needed);
        }
        Ok(Self { job, threads, keys, buckets, first: made.start, division, lone })
    }

    fn layouts(&self) -> Result<Vec<Layout>> {
        let (schema, division) = (self.job.table.sorted_schema(), &self.division);
        let layout = |buckets: &Range<usize>| {
            let rows = division.rows[buckets.clone()].iter().sum::<u64>() as usize;
            let mut text_bytes = Vec::with_capacity(division.columns.len());
            for (at, column) in division.columns.iter().enumerate() {
                let found = division.text_bytes(at, buckets.clone());
                if column.layout == (ColumnLayout::Varlen { large: false })
                    && found > i32::MAX as u64
                {
                    let field = schema.field(at);
                    let (column, data_type) = (field.name().clone(), field.data_type().clone());
                    return Err(Error::Bytes { column, data_type, found });
                }
                text_bytes.push(found);
            }
            Ok(Layout::new(&schema, division.columns, rows, &text_bytes))
        };
        division.partitions.iter().map(layout).collect()
    }

    /// Moves everything.
    fn run<M>(&self, create: &mut Create<'_, M>) -> Result<Vec<Partition<M>>>
    where
        M: DerefMut<Target = [u8]> + Send,
    {
        let layouts = self.layouts()?;
        let mut memories = Vec::with_capacity(layouts.len());
        for layout in &layouts {
            let bytes = layout.bytes as u64;
            let memory = create(bytes).map_err(|source| Error::Memory { bytes, source })?;
            assert!(memory.len() >= layout.bytes, "the memory holds what was asked for");
            memories.push(memory);
        }
        let mut carried = self.division.carried();
        {
            let mut memory = self.division.memory(&layouts, &mut memories, &mut carried);
            self.scatter(&mut memory)?;
            let bits = self.leaves(memory)?;
            self.finish(&layouts, &mut memories, &bits);
        }
        let partitions = memories.into_iter().zip(&layouts);
        Ok(partitions.map(|(memory, layout)| Partition { memory, rows: layout.rows }).collect())
    }

    /// Only the order of the rows.
    fn numbers(&self) -> Result<Numbers> {
        let mut carried = self.division.carried();
        let mut memory = self.division.memory::<Vec<u8>>(&[], &mut [], &mut carried);
        self.scatter(&mut memory)?;
        self.leaves(memory)?;
        let rows = |buckets: Range<usize>| self.division.rows[buckets].iter().sum::<u64>() as usize;
        let places = |buckets: &Range<usize>| rows(0..buckets.start)..rows(0..buckets.end);
        let partitions = self.division.partitions.iter().map(places).collect();
        Ok(Numbers { rows: carried.0, partitions })
    }

    fn scatter(&self, memory: &mut [BucketMemory<'_>]) -> Result<()> {
        let Job { table, progress, .. } = *self.job;
        let (keys, division) = (self.keys, &self.division);
        let streams = table.rows() >= STREAM_ROWS_MIN;
        let scatter = Scatter { table, keys, columns: division.columns, progress, streams };
        let tasks: Vec<_> = division.pieces.iter().zip(division.targets(memory)).collect();
        each(self.threads, tasks, |((piece, classified), targets)| {
            scatter.run(piece, classified, targets)
        })?;
        Ok(())
    }

    fn leaves(&self, memory: Vec<BucketMemory<'_>>) -> Result<Vec<Bits>> {
        let Job { table, progress, .. } = *self.job;
        let (keys, columns) = (self.keys, self.division.columns);
        let context = Context { table, keys, columns, lone: self.lone };
        let tasks: Vec<_> = memory.into_iter().enumerate().collect();
        each_with(self.threads, tasks, Scratch::new, |scratch, (at, memory)| {
            let BucketMemory { rows, values, ends, numbers, prefixes } = memory;
            let range = self.buckets.range(self.first + at);
            let bucket = Bucket { rows, range, values, ends, numbers, prefixes };
            let bits = bucket_sort::sort(&context, scratch, bucket)?;
            progress.advance(rows as u64)?;
            Ok(bits)
        })
    }

    /// Puts the buckets' bits side by side, and writes what is around the columns.
    fn finish<M>(&self, layouts: &[Layout], memories: &mut [M], bits: &[Bits])
    where
        M: DerefMut<Target = [u8]>,
    {
        let Division { columns, partitions, .. } = &self.division;
        for ((range, layout), memory) in partitions.iter().zip(layouts).zip(memories) {
            let mut null_counts = vec![0; columns.len()];
            for (at, (column, places)) in columns.iter().zip(&layout.columns).enumerate() {
                let truths = column.layout == ColumnLayout::Bits;
                if truths {
                    memory[places.values.clone()].fill(0);
                }
                memory[places.validity.clone()].fill(0);
                let mut row = 0;
                for bucket in range.clone() {
                    let rows = self.division.rows[bucket] as usize;
                    let Some((values, valid)) = bits[bucket].get(at) else { continue };
                    if truths {
                        set_bits(&mut memory[places.values.clone()], values, row, 0, rows);
                    }
                    if column.nullable {
                        let validity = &mut memory[places.validity.clone()];
                        null_counts[at] += set_bits(validity, valid, row, 0, rows);
                    }
                    row += rows;
                }
            }
            layout.finish(memory, &null_counts);
        }
    }
}

fn bucket_count(rows: usize, few: bool) -> usize {
    if rows <= ONE_BUCKET_ROWS {
        return 1;
    }
    // Numbers alone are sorted so fast that a second byte for each row would not pay.
    (rows / BUCKET_ROWS).clamp(2, if few { FEW_BUCKETS } else { BUCKETS_MAX })
}

/// As few partitions as the offsets of their strings allow.
fn partitions_needed(division: &Division<'_>) -> usize {
    let small = |at: &usize| division.columns[*at].layout == ColumnLayout::Varlen { large: false };
    let bytes = |at: usize| {
        let pieces = division.pieces.iter().map(|(_, piece)| &piece.text_bytes[at]);
        pieces.flatten().sum::<u64>()
    };
    let most = (0..division.columns.len()).filter(small).map(bytes).max().unwrap_or(0);
    most.div_ceil(TEXT_BYTES).clamp(1, PARTITIONS_MAX as u64) as usize
}

/// The buckets, and how many rows of the sample are in each.
fn sampled(table: &Table, keys: &Keys, count: usize) -> (Buckets, Vec<u64>) {
    if count <= 1 {
        return (Buckets::new(Vec::new(), 1), vec![table.rows() as u64]);
    }
    let prefix = |(batch, row): &(usize, usize)| {
        let mut prefix = [0];
        keys.prefixes(*batch, *row..row + 1, &mut prefix);
        prefix[0]
    };
    let sample = spread(table, sample_rows(count).min(table.rows()));
    let sample: Vec<u64> = sample.iter().map(prefix).collect();
    let buckets = Buckets::new(sample.clone(), count);
    let rows = buckets.rows_of(&sample);
    (buckets, rows)
}

/// The buckets of each partition, when their number was chosen, counted from the first that is
/// made; and the buckets that are made.
type Plan = (Option<Vec<Range<usize>>>, Range<usize>);

/// The partitions are told by the sample, so that who makes some of them need not look for the
/// bucket of every row.
fn planned(job: &Job<'_>, sample_rows: &[u64]) -> Result<Plan> {
    let all = 0..sample_rows.len();
    let Some(count) = job.partitions.or(job.only.as_ref().map(|_| 1)) else {
        return Ok((None, all));
    };
    let partitions = Buckets::partitions(sample_rows, count);
    let Some(only) = &job.only else { return Ok((Some(partitions), all)) };
    let Some(partitions) = partitions.get(only.clone()) else {
        return Err(Error::Partitions { wanted: only.end, limit: count });
    };
    let first = partitions.first().map_or(0, |buckets| buckets.start);
    let end = partitions.last().map_or(first, |buckets| buckets.end);
    let shifted = partitions.iter().map(|range| range.start - first..range.end - first);
    Ok((Some(shifted.collect()), first..end))
}
