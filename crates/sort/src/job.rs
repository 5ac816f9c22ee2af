//! The request for a sort, and its result.

use std::error::Error as StdError;
use std::ops::Range;

use crate::order::SortKey;
use crate::table::Table;
use crate::workers::Progress;

/// Partitions that one sort makes.
pub const PARTITIONS_MAX: usize = 4096;

/// The most threads that a sort starts, however many it may: each has its own memory.
pub const THREADS_MAX: usize = 256;

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

/// Gives memory for a partition of this many bytes, at an address that is a multiple of 64.
pub type Create<'a, M> =
    dyn FnMut(u64) -> std::result::Result<M, Box<dyn StdError + Send + Sync>> + 'a;
