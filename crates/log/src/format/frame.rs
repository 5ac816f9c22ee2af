//! The two heads of a frame: one before its records and payloads, one at its end.

use super::fields::Fields;
use super::{FramePlace, PAYLOAD_ALIGN};
use crate::device::BLOCK_BYTES;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 64;

const FRONT: [u8; 8] = *b"PLSMLOGF";
const BACK: [u8; 8] = *b"PLSMLOGB";

/// Which of the two copies of head and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCopy {
    /// The one at the front of the frame.
    Front,
    /// The one at its end.
    Back,
}

impl FrameCopy {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Front => FRONT,
            Self::Back => BACK,
        }
    }
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The batch that it belongs to; all frames of a batch are made durable by one sync.
    pub batch: u64,
    /// The number of frames of the batch before it in the segment.
    pub index: u32,
    /// Records in it.
    pub records: u32,
    /// Bytes from the first head to the end of the last.
    pub frame_bytes: u64,
    /// Bytes of the records.
    pub records_bytes: u32,
    /// The checksum of the records.
    pub records_crc: u32,
}

impl FrameHead {
    /// Writes a head.
    pub fn encode(&self, copy: FrameCopy, place: FramePlace) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&copy.magic());
        bytes[8..16].copy_from_slice(&self.batch.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.index.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.records.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.frame_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.records_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.records_crc.to_le_bytes());
        let checksum = place.checksum(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a head of the frame at `place`; `None` where there is none.
    pub fn decode(bytes: &[u8], copy: FrameCopy, place: FramePlace) -> Option<Self> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        // Most blocks that are looked at are no heads: their checksum is not computed.
        if bytes[..8] != copy.magic() {
            return None;
        }
        let mut fields = Fields(&bytes[8..]);
        let head = Self {
            batch: fields.u64()?,
            index: fields.u32()?,
            records: fields.u32()?,
            frame_bytes: fields.u64()?,
            records_bytes: fields.u32()?,
            records_crc: fields.u32()?,
        };
        let checksum = Fields(&bytes[60..]).u32()?;
        let sane = head.frame_bytes.is_multiple_of(BLOCK_BYTES)
            && head.frame_bytes >= 2 * (HEAD_BYTES as u64 + u64::from(head.records_bytes));
        (sane && checksum == place.checksum(&bytes[..60])).then_some(head)
    }

    /// The bytes of the frame whose last head this seems to be. Not checked; it says where to look.
    pub fn claimed_bytes(bytes: &[u8]) -> Option<u64> {
        let is_back = bytes.get(..8)? == BACK;
        Fields(bytes.get(24..32)?).u64().filter(|_| is_back)
    }
}

/// The bytes of a frame whose payloads begin at `payload_start` and have so many bytes, each
/// rounded up to [`PAYLOAD_ALIGN`].
pub fn frame_bytes(payload_start: u64, payload_bytes: u64, records_bytes: u64) -> u64 {
    let payload_end = payload_start + payload_bytes.next_multiple_of(PAYLOAD_ALIGN);
    (payload_end + records_bytes + HEAD_BYTES as u64).next_multiple_of(BLOCK_BYTES)
}
