//! The policy of a sort whose result goes into the store, for the command and Python alike.
//!
//! `plasmon-sort` knows no store. This crate decides how it is used with one:
//!
//! ```text
//!   memory   what this process can have: the machine's, and that of its control groups
//!   room     pure: in memory, through a scratch file, or refused, and with how much memory
//!   names    the names of partitions
//!   output   makes and seals the partitions: all of them or none
//!   guard    another process, which deletes them when the sort is killed before the last seal
//!   clear    deletes them after an error, and says which ones stay
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

mod clear;
mod error;
mod guard;
mod memory;
mod names;
mod output;
mod room;

pub use clear::delete_made;
pub use error::{Error, Left, Result};
pub use guard::{Guard, GuardCommand, serve};
pub use memory::{available_bytes, available_bytes_under};
pub use names::partition_name;
pub use output::{Output, Sealed};
pub use room::{NoRoom, Plan, Resources, Short, Sizes, Spill, StoreRoom, plan, scratch_folder};
