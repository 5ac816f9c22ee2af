//! Columns of Arrow data that others wrote, as HDF5 reads them: bytes, one value after the other.
//!
//! ```text
//! file:/data/part.parquet   ─► reading ─► record batches ─┐
//! object:ns:name in a store ─► reading ─► record batches ─┼─► flat ─► Column (pieces of bytes)
//!                                      └► an array's bytes ┘
//! ```
//!
//! What lies in a store is read where it is. A file is read when its column is asked for, and kept
//! as long as the column is open. Nothing can be written.

mod column;
mod error;
mod flat;
mod reader;

pub use column::Column;
pub use error::Error;
pub use reader::open;
