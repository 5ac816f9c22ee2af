//! The object index: a table in a memfd that the daemon writes and clients probe without asking.
//!
//! [`IndexReader`] is a client's read-only view, [`IndexWriter`] the daemon's. A table has a
//! number; the control page says which number is current. When the daemon grows the table it fills
//! a new memfd and changes that number; the old table is never changed again, and a reader that
//! still looks at it finds out when it checks the number after its pin.

pub use crate::table::Counts;

#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
mod mapped;
#[cfg(not(loom))]
pub mod resize;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use {mapped::IndexReader, writer::IndexWriter};

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
