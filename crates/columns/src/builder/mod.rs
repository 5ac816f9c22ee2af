//! Columns and tables that are built in the store.
//!
//! ```text
//! ColumnBuilder::new ─► append_array, append_values, append_str, append_null ─► finish ─► object
//!                            │ store full, wrong type, too long                   nothing copied
//!                            └─► error: the earlier values are unchanged
//! ```
//!
//! A column is a tree of buffers ([`node`]), as an Arrow array is. Each buffer is a growing object
//! of its own, so it never moves; the tree knows how much of each counts, and an append that fails
//! halfway is taken back by counting less. Finished, the buffers are members of one composite
//! object, whose data is an Arrow IPC stream ([`stream`]) with the buffers where they are.

mod append;
mod column;
mod dictionary;
mod finish;
mod node;
mod options;
mod stream;
mod table;

pub use self::column::ColumnBuilder;
pub use self::options::BuilderOptions;
pub use self::table::TableBuilder;
