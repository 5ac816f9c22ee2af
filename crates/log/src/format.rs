//! The bytes of the log; the tables are in `docs/formats/log.md`.
//!
//! Everything read here may be damaged or another program's: lengths are checked before they are
//! used, and no field is believed before the checksum over it was right. The checksums of what has
//! a place in a segment begin with that place, so that bytes of another log, another segment or
//! another place never match, whatever they are.

mod fields;
mod frame;
mod place;
mod record;
mod summary;
mod superblock;

pub use frame::{FrameCopy, FrameHead, HEAD_BYTES, frame_bytes};
pub use place::{CHUNK_BYTES, FramePlace, LogId, PAYLOAD_ALIGN};
pub use record::{DeadRecord, PutRecord, Record, chunk_count, decode_object, describe};
pub use summary::{SummaryRow, decode_summary, encode_row, seal_summary, summary_bytes};
pub use superblock::{BadSuperblock, SegmentRow, Superblock, VERSION};

#[cfg(test)]
mod tests;
