//! Places of a log, and the checksums of what lies there.

/// The payload of an object has a checksum for every piece of so many bytes.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Payloads begin at multiples of this in their frame.
pub const PAYLOAD_ALIGN: u64 = 64;

/// The identity of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogId(pub [u8; 16]);

/// A place in a log, as checksums begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// The log.
    pub log: LogId,
    /// The segment.
    pub segment: u64,
    /// The offset in it.
    pub offset: u64,
}

impl FramePlace {
    /// The checksum of bytes at this place.
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        let Self { log, segment, offset } = self;
        let seed = crc32c::crc32c(&log.0);
        let seed = crc32c::crc32c_append(seed, &segment.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &offset.to_le_bytes());
        crc32c::crc32c_append(seed, bytes)
    }
}
