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

use std::error::Error as StdError;
use std::ops::{DerefMut, Range};

use arrow_buffer::bit_mask::set_bits;

use self::memory::BucketMemory;
use crate::classify::{Classified, classify};
use crate::column::{Column, Motion};
use crate::error::{Error, Result};
use crate::interleave;
use crate::ipc::Layout;
use crate::key::{Keys, spread};
use crate::leaf::{self, Bits, Bucket, Context, Scratch};
use crate::order::SortKey;
use crate::scatter::Scatter;
use crate::split::{Buckets, sample_rows};
use crate::table::{Piece, Table};
use crate::workers::{Progress, each, each_with};

/// Partitions that one sort makes.
pub const PARTITIONS_MAX: usize = 4096;

/// The most threads that a sort starts, however many it may: each has memory of its own.
pub const THREADS_MAX: usize = 256;
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
/// Text of one partition when nobody chose their number: what 32 bits address, less some room for
/// partitions that are not all of one size.
const TEXT_BYTES: u64 = (i32::MAX as u64) / 4 * 3;

/// What to sort and how.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The rows.
    pub table: &'a Table,
    /// By what, the most significant first.
    pub order: &'a [SortKey],
    /// Into how many partitions; `None`: as few as can be.
    pub partitions: Option<usize>,
    /// Which of the partitions to make; `None`: all. Processes that are given the same table, order
    /// and number of partitions agree on what is in each.
    pub only: Option<Range<usize>>,
    /// With how many threads, [`THREADS_MAX`] at most; `None`: as many as there are processors.
    pub threads: Option<usize>,
    /// How far it is, and the way to stop it.
    pub progress: &'a Progress,
}

/// One sorted partition, an Arrow IPC stream.
#[derive(Debug)]
pub struct Partition<M> {
    /// The memory that was given for it, filled.
    pub memory: M,
    /// How many rows it has.
    pub rows: usize,
}

/// Gives memory for a partition of so many bytes, at an address that is a multiple of 64.
pub type Create<'a, M> =
    dyn FnMut(u64) -> std::result::Result<M, Box<dyn StdError + Send + Sync>> + 'a;

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

/// The row numbers of a sorted table, and where its partitions begin and end.
pub(crate) struct Numbers {
    pub(crate) rows: Vec<u32>,
    pub(crate) partitions: Vec<Range<usize>>,
}

/// A sort whose rows' buckets are known.
struct Sort<'a> {
    job: &'a Job<'a>,
    threads: usize,
    keys: &'a Keys,
    columns: &'a [Column],
    buckets: Buckets,
    pieces: Vec<(Piece, Classified)>,
    /// The number of the first bucket that is made; all that follows counts from it.
    first: usize,
    /// Rows in each bucket.
    rows: Vec<u64>,
    /// The buckets of each partition.
    partitions: Vec<Range<usize>>,
    lone: Option<usize>,
    /// Whether prefixes are scattered, and whether numbers are.
    carries: (bool, bool),
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
        let in_bucket = keys.in_place().is_some() || keys.in_texts().is_some();
        let prefixes = !in_bucket || columns.is_empty();
        let moves_alone = |column: &Column| column.motion != Motion::Bits && !column.nullable;
        let numbers = prefixes || !columns.iter().all(moves_alone);
        let mut sort = Self {
            job,
            threads,
            keys,
            columns,
            partitions: partitions.unwrap_or_default(),
            buckets,
            first: made.start,
            pieces,
            rows,
            lone,
            carries: (prefixes, numbers),
        };
        if sort.partitions.is_empty() {
            sort.partitions = Buckets::partitions(&sort.rows, sort.partitions_needed());
        }
        Ok(sort)
    }

    /// As few partitions as the offsets of their texts allow.
    fn partitions_needed(&self) -> usize {
        let small = |at: &usize| self.columns[*at].motion == Motion::Text { large: false };
        let bytes = |at: usize| {
            let pieces = self.pieces.iter().map(|(_, piece)| &piece.text_bytes[at]);
            pieces.flatten().sum::<u64>()
        };
        let most = (0..self.columns.len()).filter(small).map(bytes).max().unwrap_or(0);
        most.div_ceil(TEXT_BYTES).clamp(1, PARTITIONS_MAX as u64) as usize
    }

    /// Bytes of a column's texts in some buckets.
    fn text_bytes(&self, column: usize, buckets: Range<usize>) -> u64 {
        let piece = |(_, piece): &(Piece, Classified)| -> u64 {
            piece.text_bytes[column].get(buckets.clone()).unwrap_or_default().iter().sum()
        };
        self.pieces.iter().map(piece).sum()
    }

    fn layouts(&self) -> Result<Vec<Layout>> {
        let schema = self.job.table.sorted_schema();
        let layout = |buckets: &Range<usize>| {
            let rows = self.rows[buckets.clone()].iter().sum::<u64>() as usize;
            let mut text_bytes = Vec::with_capacity(self.columns.len());
            for (at, column) in self.columns.iter().enumerate() {
                let found = self.text_bytes(at, buckets.clone());
                if column.motion == (Motion::Text { large: false }) && found > i32::MAX as u64 {
                    let field = schema.field(at);
                    let (column, data_type) = (field.name().clone(), field.data_type().clone());
                    return Err(Error::Bytes { column, data_type, found });
                }
                text_bytes.push(found);
            }
            Layout::new(&schema, self.columns, rows, &text_bytes)
        };
        self.partitions.iter().map(layout).collect()
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
        let mut carried = self.carried();
        {
            let mut memory = self.memory(&layouts, &mut memories, &mut carried);
            self.scatter(&mut memory)?;
            let bits = self.leaves(memory)?;
            self.finish(&layouts, &mut memories, &bits);
        }
        let partitions = memories.into_iter().zip(&layouts);
        Ok(partitions.map(|(memory, layout)| Partition { memory, rows: layout.rows }).collect())
    }

    /// Only the order of the rows.
    fn numbers(&self) -> Result<Numbers> {
        let mut carried = self.carried();
        let mut memory = self.memory::<Vec<u8>>(&[], &mut [], &mut carried);
        self.scatter(&mut memory)?;
        self.leaves(memory)?;
        let rows = |buckets: Range<usize>| self.rows[buckets].iter().sum::<u64>() as usize;
        let places = |buckets: &Range<usize>| rows(0..buckets.start)..rows(0..buckets.end);
        let partitions = self.partitions.iter().map(places).collect();
        Ok(Numbers { rows: carried.0, partitions })
    }

    fn carried(&self) -> (Vec<u32>, Vec<u64>) {
        let rows = self.rows.iter().sum::<u64>() as usize;
        let (prefixes, numbers) = self.carries;
        (vec![0; if numbers { rows } else { 0 }], vec![0; if prefixes { rows } else { 0 }])
    }

    fn scatter(&self, memory: &mut [BucketMemory<'_>]) -> Result<()> {
        let Job { table, progress, .. } = *self.job;
        let streams = table.rows() >= STREAM_ROWS_MIN;
        let scatter = Scatter { table, keys: self.keys, columns: self.columns, progress, streams };
        let tasks: Vec<_> = self.pieces.iter().zip(self.targets(memory)).collect();
        each(self.threads, tasks, |((piece, classified), targets)| {
            scatter.run(piece, classified, targets)
        })?;
        Ok(())
    }

    fn leaves(&self, memory: Vec<BucketMemory<'_>>) -> Result<Vec<Bits>> {
        let Job { table, progress, .. } = *self.job;
        let context = Context { table, keys: self.keys, columns: self.columns, lone: self.lone };
        let tasks: Vec<_> = memory.into_iter().enumerate().collect();
        each_with(self.threads, tasks, Scratch::new, |scratch, (at, memory)| {
            let BucketMemory { rows, values, ends, numbers, prefixes } = memory;
            let range = self.buckets.range(self.first + at);
            let bucket = Bucket { rows, range, values, ends, numbers, prefixes };
            let bits = leaf::sort(&context, scratch, bucket)?;
            progress.advance(rows as u64)?;
            Ok(bits)
        })
    }

    /// Puts the buckets' bits side by side, and writes what is around the columns.
    fn finish<M>(&self, layouts: &[Layout], memories: &mut [M], bits: &[Bits])
    where
        M: DerefMut<Target = [u8]>,
    {
        for ((range, layout), memory) in self.partitions.iter().zip(layouts).zip(memories) {
            let mut null_counts = vec![0; self.columns.len()];
            for (at, (column, places)) in self.columns.iter().zip(&layout.columns).enumerate() {
                let truths = column.motion == Motion::Bits;
                if truths {
                    memory[places.values.clone()].fill(0);
                }
                memory[places.validity.clone()].fill(0);
                let mut row = 0;
                for bucket in range.clone() {
                    let rows = self.rows[bucket] as usize;
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
