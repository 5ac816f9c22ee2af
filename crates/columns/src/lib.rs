//! Arrow data in the store without a copy: built there, or shared from where it lies.
//!
//! * [`ColumnBuilder`] and [`TableBuilder`] grow columns in shared memory and seal them in place.
//! * [`Pool`] allocates buffers in shared memory for other libraries, and turns tables on them into
//!   objects in place.
//! * [`SharedAllocator`] does the same for buffers of arrow-rs.
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
mod checks;
mod composing;
mod compressed;
mod decoding;
mod encoding;
mod error;
mod foreign;
mod memory;
mod message;
mod parts;
mod pool;
mod putting;
mod reading;
mod shared;
mod types;

pub use builder::{BuilderOptions, ColumnBuilder, TableBuilder};
pub use checks::{Batches, Builder, Checks};
pub use error::{Error, Result};
pub use foreign::{check_foreign, check_foreign_batch};
pub use pool::{Pool, PoolStats, Shared};
pub use putting::{Table, pieces, put};
pub use reading::{into_reader, read, read_parts, read_stream, read_with};
pub use shared::{SharedAllocator, SharedBuffer};
