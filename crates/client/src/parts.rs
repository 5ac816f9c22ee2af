//! Parts of objects of a pool, without the rest of them.
//!
//! ```text
//!   here in the store ──────────────────────────► pinned, and read in place
//!   elsewhere ──► pool daemon ──► a local object with the parts ──► pinned, and deleted
//! ```
//!
//! The local object has all ranges of a request, and lives as long as the pieces of it do. Ranges
//! that lie close together are read as one; what is aligned in the object is aligned in a piece.
//! Parts of many objects come with few requests (`gather.rs`).

mod door;
mod gather;
mod layout;
mod reader;
mod stream;

pub use self::gather::{PartsGather, PartsOf};
pub use self::reader::{PartsInfo, PartsReader, Piece};
pub use self::stream::{PartsStream, STREAM_PIECE_BYTES, STREAM_WINDOW_MAX};
