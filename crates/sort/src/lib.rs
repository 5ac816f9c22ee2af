//! Sorting of Arrow tables into memory that the caller provides.
//!
//! [`sort`] takes record batches and gives partitions: Arrow IPC streams whose rows are in order,
//! and each of which holds greater keys than the one before. It is a sample sort: a sample of the
//! keys gives the bounds of some hundred buckets that hold about as many rows each, rows are
//! scattered into their buckets, and every bucket is sorted on its own, in the caches of one core.
//!
//! ```text
//!        input, where it lies                 output, in the caller's memory
//!   ┌────────┬────────┬────────┐  scatter   ┌────┬────┬────┬────┬────┬────┐  sort each
//!   │ batch  │ batch  │ batch  │ ─────────► │    │    │ buckets │    │    │ ───────────►
//!   └────────┴────────┴────────┘            └────┴────┴────┴────┴────┴────┘
//! ```
//!
//! The order: numbers, times, booleans and decimals by value; floats likewise, with -0.0 equal
//! to 0.0 and NaN equal to itself and greater than any number; strings and bytes by their bytes;
//! dictionaries, lists and structures as `arrow_row` has them, with the
//! floats in them ordered like any others. Missing values come last unless a
//! key says otherwise, also in descending order. Rows with equal keys stay in their order, always.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Float64Array, RecordBatch};
//! use plasmon_sort::{Heap, Job, Progress, SortKey, Table, sort};
//!
//! let prices: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 1.0, 2.0]));
//! let batch = RecordBatch::try_from_iter([("price", prices)])?;
//! let table = Table::new(batch.schema(), vec![batch])?;
//! let (order, progress) = ([SortKey::descending("price")], Progress::default());
//! let job = Job {
//!     table: &table,
//!     order: &order,
//!     partitions: None,
//!     only: None,
//!     threads: None,
//!     progress: &progress,
//! };
//! let sorted = sort(&job, &mut |bytes| Ok(Heap::new(bytes)))?;
//! let stream = arrow_ipc::reader::StreamReader::try_new(&sorted[0].memory[..], None)?;
//! let batch = stream.last().expect("a batch")?;
//! let prices: &Float64Array = batch["price"].as_any().downcast_ref().expect("floats");
//! assert_eq!(prices.values()[..], [3.0, 2.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is larger than memory goes through a scratch file without a name: see [`External`].
//!
//! Deliberately absent: the files of tables, stores and processes. `plasmon-sort-store` has the
//! policy of a sort into a store.

#![forbid(unsafe_code)]

mod bucket_ids;
mod bucket_sort;
mod column;
mod dictionary;
mod error;
mod external;
mod heap;
mod interleave;
mod ipc;
mod job;
mod kernel;
mod key;
mod nested;
mod offsets;
mod order;
mod rows;
mod scatter;
mod sorter;
mod splitters;
mod table;
mod varlen;
mod workers;

pub use error::{Error, Result};
pub use external::{External, MEMORY_PER_PARTITION_BYTE, Means, Merge, batch_bytes};
pub use heap::Heap;
pub use job::{Create, Job, PARTITIONS_MAX, Partition, THREADS_MAX};
pub use kernel::kernel_name;
pub use order::SortKey;
pub use sorter::sort;
pub use table::{ROWS_MAX, Table};
pub use workers::Progress;
