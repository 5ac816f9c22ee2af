//! Frames of a control lane (`docs/formats/pool-frames.md`).
//!
//! A frame is a header of [`HEADER_BYTES`] and a payload. The header has a checksum of its own, so
//! that a damaged length is found before memory is made for it. Frames are numbered from 0 in each
//! direction of a lane; a number out of order means that frames were lost, repeated or made by
//! another program, and ends the lane. The first frames are those of the handshake: they are small,
//! and a decoder in this phase takes no others.

use std::fmt;

/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = *b"PLNF";

/// The version of the framing.
pub const VERSION: u8 = 1;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 28;

/// Bytes of the header that its checksum covers.
const CHECKED_BYTES: usize = 24;

/// Bytes of the payload of a message: a batch of records with what travels inline.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Bytes of the payload of a frame of the handshake: nothing is known of the peer yet.
pub const HANDSHAKE_BYTES_MAX: usize = 256;

/// The number of the first frame after the handshake, in both directions.
pub const FIRST_SEQUENCE: u64 = 2;

/// How much is read at once when nothing is known of the next frame.
const READ_BYTES: usize = 16 << 10;

/// How much is read at once of a large frame, and by how much the memory for it grows: a header
/// that promises much does not reserve much.
const READ_LARGE_BYTES: usize = 256 << 10;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The connecting side says what it is.
    Hello = 1,
    /// The accepting side says what it is.
    Challenge = 2,
    /// The connecting side proves that it has the token.
    Proof = 3,
    /// The accepting side proves it, too: the lane is open.
    Welcome = 4,
    /// The lane is refused, and why.
    Refused = 5,
    /// A message; its bytes mean nothing here.
    Message = 16,
    /// A sign of life; its bytes mean nothing here.
    Beat = 17,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Hello,
        Self::Challenge,
        Self::Proof,
        Self::Welcome,
        Self::Refused,
        Self::Message,
        Self::Beat,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The phase of a lane in which this is sent.
    pub fn phase(self) -> Phase {
        match self {
            Self::Hello | Self::Challenge | Self::Proof | Self::Welcome | Self::Refused => {
                Phase::Handshake
            }
            Self::Message | Self::Beat => Phase::Open,
        }
    }
}

/// How urgent a frame is: a frame is sent after all frames of a smaller class that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// What leases, maps and the liveness of nodes depend on.
    Urgent = 0,
    /// What a client waits for.
    Normal = 1,
    /// What can wait: replication, repair, inventories.
    Background = 2,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Urgent, Self::Normal, Self::Background];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The phase of a lane: it says which kinds and lengths of frames are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The peer is not known yet.
    Handshake,
    /// The peer has proved that it belongs to the pool.
    Open,
}

impl Phase {
    /// Bytes of the payload of a frame.
    pub fn payload_bytes_max(self) -> usize {
        match self {
            Self::Handshake => HANDSHAKE_BYTES_MAX,
            Self::Open => MESSAGE_BYTES_MAX,
        }
    }
}

/// Why bytes are not the next frame of a lane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Not this protocol.
    #[error("not a frame of a Plasmon pool")]
    Magic,
    /// The header is damaged.
    #[error("the header of a frame is damaged")]
    HeaderChecksum,
    /// Another version of the framing.
    #[error("framing version {found} instead of {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// An unknown kind, or one that does not belong to the phase of the lane.
    #[error("unexpected kind of frame {found}")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// An unknown class.
    #[error("unknown class of frame {found}")]
    Class {
        /// The class found.
        found: u8,
    },
    /// Flags that this version does not know.
    #[error("unknown flags {found:#x} in a frame")]
    Flags {
        /// The flags found.
        found: u8,
    },
    /// More bytes than a frame may have.
    #[error("a frame with {found} bytes of payload, of which {limit} are allowed")]
    Long {
        /// The bytes found.
        found: usize,
        /// The bytes allowed.
        limit: usize,
    },
    /// A frame is missing, or was sent twice.
    #[error("frame number {found} instead of {wanted}")]
    Sequence {
        /// The number of the next frame.
        wanted: u64,
        /// The number found.
        found: u64,
    },
    /// The payload is damaged.
    #[error("the payload of frame number {sequence} is damaged")]
    PayloadChecksum {
        /// The frame.
        sequence: u64,
    },
}

/// What the header of a frame says besides its length and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// What it is.
    pub kind: Kind,
    /// How urgent it is.
    pub class: Class,
    /// Its number.
    pub sequence: u64,
}

/// A frame that arrived whole and undamaged.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What its header says.
    pub info: FrameInfo,
    /// Its content.
    pub payload: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.payload.len();
        f.debug_struct("Frame").field("info", &self.info).field("bytes", &bytes).finish()
    }
}

/// Appends a frame. The payload must keep the limit of the frame's phase.
pub fn encode(info: FrameInfo, payload: &[u8], into: &mut Vec<u8>) {
    assert!(payload.len() <= info.kind.phase().payload_bytes_max(), "the sender checks the length");
    let start = into.len();
    into.extend_from_slice(&MAGIC);
    into.extend_from_slice(&[VERSION, info.kind as u8, info.class as u8, 0]);
    into.extend_from_slice(&info.sequence.to_le_bytes());
    into.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    into.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let checksum = crc32c::crc32c(&into[start..]);
    into.extend_from_slice(&checksum.to_le_bytes());
    into.extend_from_slice(payload);
}

/// A header whose fields are known to be well-formed.
#[derive(Clone, Copy)]
struct Header {
    info: FrameInfo,
    payload_bytes: usize,
    payload_checksum: u32,
}

impl Header {
    fn decode(raw: &[u8; HEADER_BYTES]) -> Result<Self, BadFrame> {
        let [m0, m1, m2, m3, version, kind, class, flags, rest @ ..] = *raw;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(BadFrame::Magic);
        }
        let [s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3, p0, p1, p2, p3, h0, h1, h2, h3] = rest;
        if crc32c::crc32c(&raw[..CHECKED_BYTES]) != u32::from_le_bytes([h0, h1, h2, h3]) {
            return Err(BadFrame::HeaderChecksum);
        }
        if version != VERSION {
            return Err(BadFrame::Version { found: version });
        }
        if flags != 0 {
            return Err(BadFrame::Flags { found: flags });
        }
        let kind = Kind::from_byte(kind).ok_or(BadFrame::Kind { found: kind })?;
        let class = Class::from_byte(class).ok_or(BadFrame::Class { found: class })?;
        let sequence = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        Ok(Self {
            info: FrameInfo { kind, class, sequence },
            payload_bytes: u32::from_le_bytes([l0, l1, l2, l3]) as usize,
            payload_checksum: u32::from_le_bytes([p0, p1, p2, p3]),
        })
    }
}

/// Takes frames out of a stream of bytes that may be anything. After an error it stays at that
/// error.
///
/// ```
/// use plasmon_net::frame::{self, Class, Decoder, FrameInfo, Kind, Phase};
///
/// let info = FrameInfo { kind: Kind::Message, class: Class::Normal, sequence: 2 };
/// let mut bytes = Vec::new();
/// frame::encode(info, b"hello", &mut bytes);
///
/// let mut decoder = Decoder::new(Phase::Open, frame::FIRST_SEQUENCE);
/// decoder.space()[..bytes.len()].copy_from_slice(&bytes);
/// decoder.filled(bytes.len());
/// assert_eq!(decoder.next_frame()?.unwrap().payload, b"hello");
/// # Ok::<(), frame::BadFrame>(())
/// ```
pub struct Decoder {
    phase: Phase,
    sequence: u64,
    /// What was read lies from `start` to `end`; the rest is room.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    failed: Option<BadFrame>,
}

impl Decoder {
    /// A decoder for a lane in this phase, whose next frame has this number.
    pub fn new(phase: Phase, sequence: u64) -> Self {
        Self { phase, sequence, buffer: Vec::new(), start: 0, end: 0, failed: None }
    }

    /// Where the next bytes are to be put. It is empty only if frames were not taken.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > READ_LARGE_BYTES {
                self.buffer = Vec::new();
            }
        }
        let room = self.wanted().clamp(READ_BYTES, READ_LARGE_BYTES);
        if self.start > 0 && self.buffer.len() - self.end < room {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let bytes_max = HEADER_BYTES + self.phase.payload_bytes_max() + READ_BYTES;
        let length = (self.end + room).min(bytes_max);
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        &mut self.buffer[self.end..length.max(self.end)]
    }

    /// So many bytes were put at the beginning of the space.
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more bytes than there was space for");
        self.end += bytes;
    }

    /// How many bytes are missing until the header, or after it the frame, is whole.
    pub fn wanted(&self) -> usize {
        let bytes = &self.buffer[self.start..self.end];
        let header = bytes.first_chunk().and_then(|raw| Header::decode(raw).ok());
        let whole = header.map_or(HEADER_BYTES, |header| HEADER_BYTES + header.payload_bytes);
        whole.saturating_sub(bytes.len())
    }

    /// Whether there are bytes of a frame that is not whole.
    pub fn has_part(&self) -> bool {
        self.start < self.end
    }

    /// The next frame, `None` when it is not whole yet.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, BadFrame> {
        if let Some(bad) = &self.failed {
            return Err(bad.clone());
        }
        let taken = self.take();
        if let Err(bad) = &taken {
            self.failed = Some(bad.clone());
            self.buffer = Vec::new();
            (self.start, self.end) = (0, 0);
        }
        taken
    }

    fn take(&mut self) -> Result<Option<Frame>, BadFrame> {
        let bytes = &self.buffer[self.start..self.end];
        let Some((raw, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header::decode(raw)?;
        self.check(&header)?;
        let Some(payload) = rest.get(..header.payload_bytes) else { return Ok(None) };
        if crc32c::crc32c(payload) != header.payload_checksum {
            return Err(BadFrame::PayloadChecksum { sequence: header.info.sequence });
        }
        let frame = Frame { info: header.info, payload: payload.to_vec() };
        self.start += HEADER_BYTES + header.payload_bytes;
        self.sequence += 1;
        Ok(Some(frame))
    }

    fn check(&self, header: &Header) -> Result<(), BadFrame> {
        let FrameInfo { kind, sequence, .. } = header.info;
        if kind.phase() != self.phase {
            return Err(BadFrame::Kind { found: kind as u8 });
        }
        let limit = self.phase.payload_bytes_max();
        if header.payload_bytes > limit {
            return Err(BadFrame::Long { found: header.payload_bytes, limit });
        }
        if sequence != self.sequence {
            return Err(BadFrame::Sequence { wanted: self.sequence, found: sequence });
        }
        Ok(())
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("phase", &self.phase)
            .field("sequence", &self.sequence)
            .field("bytes", &(self.end - self.start))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
