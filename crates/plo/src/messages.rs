//! The constant bytes of the stream form: the messages that it starts with, and its end.

/// The schema message: the first bytes of every object in stream form.
pub const SCHEMA_MESSAGE: &[u8] = include_bytes!("../../../spec/objects/schema.bin");

/// The batch message with zeros where the numbers go.
pub const BATCH_MESSAGE: &[u8] = include_bytes!("../../../spec/objects/batch.bin");

/// Where the batch message has the length of the body. `tests/layout.rs` finds these three.
pub const BODY_LENGTH_AT: usize = 32;

/// Where its field nodes start, each a length and a count of nulls.
pub const NODES_AT: usize = 88;

/// Where its buffers start, each an offset in the body and a length.
pub const BUFFERS_AT: usize = 1136;

/// How a stream ends.
pub const END_MARKER: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Where the body of the stream form starts.
pub const BODY_AT: u64 = (SCHEMA_MESSAGE.len() + BATCH_MESSAGE.len()) as u64;
