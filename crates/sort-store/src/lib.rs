//! The policy of a sort whose result goes into the store, for the command and Python alike.
//!
//! `plasmon-sort` knows no store. This crate decides how it is used with one:
//!
//! ```text
//!   memory   what this process can have: the machine's, and that of its control groups
//!   room     pure: in memory, through a scratch file, or refused, and with how much memory
//!   names    the names of partitions
//!   output   makes and seals the partitions: all of them or none, in a scope of the store
//! ```
//!
//! ```
//! use plasmon_sort_store::{Plan, Resources, Sizes, Spill, StoreRoom, plan};
//!
//! let store = StoreRoom { capacity_bytes: 8 << 30, spills: true, ..StoreRoom::default() };
//! let resources =
//!     Resources { available_bytes: 4 << 30, memory_bytes: None, store: Some(store) };
//! let sizes = Sizes { rows_bytes: 6 << 30, file_bytes: 0 };
//! let found = plan(sizes, &resources, Spill::Auto)?;
//! assert!(matches!(found, Plan::Spill { memory_bytes } if memory_bytes <= 2 << 30));
//! # Ok::<(), plasmon_sort_store::NoRoom>(())
//! ```
//!
//! Deliberately absent: how inputs are read, and the words of a binding (flags, arguments): an
//! error carries the facts, and the binding adds its advice.

#![forbid(unsafe_code)]

mod error;
mod memory;
mod names;
mod output;
mod room;

pub use error::{Error, Result};
pub use memory::{available_bytes, available_bytes_under};
pub use names::partition_name;
pub use output::{Output, SealedPartition, UnpublishedPartitions};
pub use room::{NoRoom, Plan, Resources, Shortage, Sizes, Spill, StoreRoom, plan, scratch_folder};
