//! Arrow data in the store without a copy: built there, or shared from where it lies.
//!
//! * [`ColumnBuilder`] and [`TableBuilder`] grow columns in shared memory and seal them in place.
//! * [`Pool`] allocates buffers in shared memory for other libraries, and turns tables on them into
//!   objects in place.
//! * [`SharedAllocator`] does the same for buffers of arrow-rs.
//! * [`ObjectTable`] reads some columns of a table, wherever in the pool it is.
//! * [`read`] gives the Arrow data of an object as arrays on its memory.
//!
//! ```text
//! builder ──► growing objects, one for each buffer ──seal──► members ─┐
//! pool    ──► regions and growing objects ─────────share──► members ─┼─► composite object
//!             headers of an Arrow IPC stream ────────────────────────┘
//! ```
//!
//! A composite object is an Arrow IPC stream in parts: it differs from other streams only in where
//! its buffers lie. Deliberately absent: any knowledge of how memory is shared, which is the
//! client's.

#![forbid(unsafe_code)]

mod builder;
mod c_arrays;
mod checks;
mod composite;
mod compressed;
mod cursor;
mod error;
mod ipc_decode;
mod ipc_encode;
mod memory;
mod message;
mod object_table;
mod partial;
mod parts;
mod pool;
mod put;
mod read;
mod runs;
mod shared;
mod types;

pub use builder::{BuilderOptions, ColumnBuilder, TableBuilder};
pub use c_arrays::{check_foreign, check_foreign_batch};
pub use checks::{Batches, Builder, Checks};
pub use error::{Error, Result};
pub use object_table::ObjectTable;
pub use partial::{PartialTable, StreamSource};
pub use pool::{Pool, PoolStats, ShareOutcome};
pub use put::{Table, pieces, put};
pub use read::{into_reader, read, read_parts, read_stream, read_with};
pub use shared::{SharedAllocator, SharedBuffer};
