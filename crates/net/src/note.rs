//! Notes of a bulk lane (`docs/formats/pool-frames.md`): what the two sides of a transfer say to
//! each other where its content does not come over the lane, but is written into the memory of the
//! receiving side.
//!
//! ```text
//!   receiving side                       sending side
//!        │ ◄──── Endpoints ────► │           what each of them can be written by, once a lane
//!        │ ── Window ──────────► │           this memory may be written
//!        │ ◄═══════════════════  │           (not over the lane)
//!        │ ◄── Written ───────── │           this segment is there: compare its checksum
//!        │ ── Stop ────────────► │           no more
//!        │ ◄── Ended ─────────── │           nothing is being written, nor will be; what is
//!        │ ◄══ segments ═══════  │           missing comes over the lane
//! ```
//!
//! A receiving side that has no window says that ([`Note::NoWindow`]), so that the other one does
//! not wait for it. What an endpoint and a key are is not known here.

use crate::segment::{HEADER_BYTES, SEGMENT_BYTES_MAX, Segment};

/// The first bytes of every note.
pub const MAGIC: [u8; 4] = *b"PLNT";

/// Bytes of the header that its checksum covers.
const CHECKED_BYTES: usize = 36;

/// Bytes after the header at most.
pub const NOTE_BYTES_MAX: u32 = 2048;

/// Endpoints of one node.
pub const ENDPOINTS_MAX: usize = 4;

/// Bytes of the name of an endpoint.
pub const ENDPOINT_NAME_BYTES_MAX: usize = 256;

/// Bytes of what tells machines apart.
pub const MACHINE_BYTES_MAX: usize = 160;

/// Bytes of an encoded window.
const WINDOW_BYTES: usize = 25;

const _: () = assert!(
    4 + MACHINE_BYTES_MAX + ENDPOINTS_MAX * (3 + ENDPOINT_NAME_BYTES_MAX)
        <= NOTE_BYTES_MAX as usize
);

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What the memory of this side can be written by, from now on.
    Endpoints(Endpoints),
    /// Receiving side: the content of this transfer may be written here.
    Window {
        /// The transfer.
        transfer: u64,
        /// Its memory.
        window: TransferWindow,
    },
    /// Receiving side: it has no window for this transfer.
    NoWindow {
        /// The transfer.
        transfer: u64,
    },
    /// Receiving side: nothing more of this transfer is to be written.
    Stop {
        /// The transfer.
        transfer: u64,
    },
    /// Sending side: nothing of this transfer is being written, and nothing will be.
    Ended {
        /// The transfer.
        transfer: u64,
    },
    /// Sending side: this segment is in its place.
    Written(Segment),
}

/// The endpoints of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// The same for two processes that can use each other's shared memory; empty if that cannot be
    /// known.
    pub machine: String,
    /// The endpoints, the best first.
    pub endpoints: Vec<NamedEndpoint>,
}

/// An endpoint, as others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEndpoint {
    /// The number of its provider.
    pub provider: u8,
    /// Its name, which the provider gave.
    pub name: Vec<u8>,
}

/// Memory that may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferWindow {
    /// The provider of the endpoint that has it.
    pub provider: u8,
    /// The address of its first byte.
    pub base: u64,
    /// Its key.
    pub key: u64,
    /// Its bytes, which are all of the transfer.
    pub bytes: u64,
}

/// Why bytes are not a note that can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNote {
    /// The header is damaged.
    #[error("the header of a note is damaged")]
    HeaderChecksum,
    /// What follows the header is damaged.
    #[error("a note is damaged")]
    Checksum,
    /// A kind that this version does not know.
    #[error("a note of the unknown kind {found}")]
    Kind {
        /// The kind found.
        found: u32,
    },
    /// Its length is not that of its kind, or exceeds the limit.
    #[error("a note of {found} bytes, which does not fit its kind")]
    Length {
        /// The bytes found.
        found: u32,
    },
    /// What it says cannot be read.
    #[error("a note whose content is not that of its kind")]
    Content,
    /// The segment that it names is none.
    #[error("a note about a segment of {found} bytes instead of 1 to {SEGMENT_BYTES_MAX}")]
    Segment {
        /// The bytes found.
        found: u32,
    },
    /// Notes are made faster than the peer reads them.
    #[error("{queued_bytes} bytes of notes wait already")]
    Full {
        /// The bytes that wait.
        queued_bytes: usize,
    },
}

/// The kinds, as they are numbered.
const ENDPOINTS: u32 = 1;
const WINDOW: u32 = 2;
const NO_WINDOW: u32 = 3;
const STOP: u32 = 4;
const ENDED: u32 = 5;
const WRITTEN: u32 = 6;

/// The header of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoteHeader {
    kind: u32,
    transfer: u64,
    number: u32,
    bytes: u32,
    offset: u64,
    checksum: u32,
}

impl NoteHeader {
    /// Reads a header that begins with [`MAGIC`].
    pub(crate) fn decode(raw: &[u8; HEADER_BYTES]) -> Result<Self, BadNote> {
        let words: [u32; HEADER_BYTES / 4] = std::array::from_fn(|at| {
            u32::from_le_bytes(std::array::from_fn(|byte| raw[at * 4 + byte]))
        });
        let [_, kind, t0, t1, number, bytes, o0, o1, checksum, header_checksum] = words;
        if crc32c::crc32c(&raw[..CHECKED_BYTES]) != header_checksum {
            return Err(BadNote::HeaderChecksum);
        }
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (transfer, offset) = (long(t0, t1), long(o0, o1));
        let header = Self { kind, transfer, number, bytes, offset, checksum };
        let is_whole = number == 0 && offset == 0;
        match kind {
            ENDPOINTS if transfer == 0 && is_whole && (1..=NOTE_BYTES_MAX).contains(&bytes) => {}
            WINDOW if is_whole && bytes as usize == WINDOW_BYTES => {}
            NO_WINDOW | STOP | ENDED if is_whole && bytes == 0 => {}
            WRITTEN if (1..=SEGMENT_BYTES_MAX).contains(&bytes) => {}
            WRITTEN => return Err(BadNote::Segment { found: bytes }),
            ENDPOINTS..=ENDED => return Err(BadNote::Length { found: bytes }),
            found => return Err(BadNote::Kind { found }),
        }
        Ok(header)
    }

    /// How many bytes follow.
    pub(crate) fn payload_bytes(&self) -> usize {
        if matches!(self.kind, ENDPOINTS | WINDOW) { self.bytes as usize } else { 0 }
    }

    /// The note, with what followed its header.
    pub(crate) fn note(&self, payload: &[u8]) -> Result<Note, BadNote> {
        let Self { kind, transfer, number, bytes, offset, checksum } = *self;
        if kind != WRITTEN && crc32c::crc32c(payload) != checksum {
            return Err(BadNote::Checksum);
        }
        Ok(match kind {
            ENDPOINTS => Note::Endpoints(Endpoints::decode(payload).ok_or(BadNote::Content)?),
            WINDOW => {
                let window = TransferWindow::decode(payload).ok_or(BadNote::Content)?;
                Note::Window { transfer, window }
            }
            NO_WINDOW => Note::NoWindow { transfer },
            STOP => Note::Stop { transfer },
            ENDED => Note::Ended { transfer },
            WRITTEN => Note::Written(Segment { transfer, number, bytes, offset, checksum }),
            found => return Err(BadNote::Kind { found }),
        })
    }
}

impl Note {
    /// The bytes of the note, header and all.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, transfer) = match self {
            Self::Endpoints(_) => (ENDPOINTS, 0),
            Self::Window { transfer, .. } => (WINDOW, *transfer),
            Self::NoWindow { transfer } => (NO_WINDOW, *transfer),
            Self::Stop { transfer } => (STOP, *transfer),
            Self::Ended { transfer } => (ENDED, *transfer),
            Self::Written(segment) => (WRITTEN, segment.transfer),
        };
        let payload = match self {
            Self::Endpoints(endpoints) => endpoints.encode(),
            Self::Window { window, .. } => window.encode(),
            _ => Vec::new(),
        };
        let (number, bytes, offset, checksum) = match self {
            Self::Written(of) => (of.number, of.bytes, of.offset, of.checksum),
            _ => (0, payload.len() as u32, 0, crc32c::crc32c(&payload)),
        };
        let mut raw = Vec::with_capacity(HEADER_BYTES + payload.len());
        raw.extend_from_slice(&MAGIC);
        raw.extend_from_slice(&kind.to_le_bytes());
        raw.extend_from_slice(&transfer.to_le_bytes());
        raw.extend_from_slice(&number.to_le_bytes());
        raw.extend_from_slice(&bytes.to_le_bytes());
        raw.extend_from_slice(&offset.to_le_bytes());
        raw.extend_from_slice(&checksum.to_le_bytes());
        raw.extend_from_slice(&crc32c::crc32c(&raw).to_le_bytes());
        raw.extend_from_slice(&payload);
        raw
    }

    /// Reads a note that is all of these bytes.
    pub fn decode(raw: &[u8]) -> Result<Self, BadNote> {
        let (header, payload) = raw.split_first_chunk::<HEADER_BYTES>().ok_or(BadNote::Content)?;
        if header[..MAGIC.len()] != MAGIC {
            return Err(BadNote::Content);
        }
        let header = NoteHeader::decode(header)?;
        if payload.len() != header.payload_bytes() {
            return Err(BadNote::Length { found: payload.len() as u32 });
        }
        header.note(payload)
    }
}

impl Endpoints {
    /// What is longer than its limit is left out: the peer could not read it.
    fn encode(&self) -> Vec<u8> {
        let machine = if self.machine.len() <= MACHINE_BYTES_MAX { &*self.machine } else { "" };
        let is_kept = |one: &&NamedEndpoint| one.name.len() <= ENDPOINT_NAME_BYTES_MAX;
        let kept: Vec<_> = self.endpoints.iter().filter(is_kept).take(ENDPOINTS_MAX).collect();
        let mut raw = vec![machine.len() as u8];
        raw.extend_from_slice(machine.as_bytes());
        raw.push(kept.len() as u8);
        for endpoint in kept {
            raw.push(endpoint.provider);
            raw.extend_from_slice(&(endpoint.name.len() as u16).to_le_bytes());
            raw.extend_from_slice(&endpoint.name);
        }
        raw
    }

    fn decode(raw: &[u8]) -> Option<Self> {
        let (machine_bytes, raw) = raw.split_first()?;
        let (machine, raw) = raw.split_at_checked(usize::from(*machine_bytes))?;
        let machine = std::str::from_utf8(machine).ok()?.to_owned();
        let (count, mut raw) = raw.split_first()?;
        if usize::from(*count) > ENDPOINTS_MAX || machine.len() > MACHINE_BYTES_MAX {
            return None;
        }
        let mut endpoints = Vec::new();
        for _ in 0..*count {
            let (provider, rest) = raw.split_first()?;
            let (bytes, rest) = rest.split_first_chunk()?;
            let bytes = usize::from(u16::from_le_bytes(*bytes));
            let (name, rest) = rest.split_at_checked(bytes)?;
            if bytes > ENDPOINT_NAME_BYTES_MAX {
                return None;
            }
            endpoints.push(NamedEndpoint { provider: *provider, name: name.to_vec() });
            raw = rest;
        }
        raw.is_empty().then_some(Self { machine, endpoints })
    }
}

impl TransferWindow {
    fn encode(&self) -> Vec<u8> {
        let mut raw = vec![self.provider];
        for word in [self.base, self.key, self.bytes] {
            raw.extend_from_slice(&word.to_le_bytes());
        }
        raw
    }

    fn decode(raw: &[u8]) -> Option<Self> {
        let (provider, raw) = raw.split_first()?;
        let (base, raw) = raw.split_first_chunk()?;
        let (key, raw) = raw.split_first_chunk()?;
        let (bytes, raw) = raw.split_first_chunk()?;
        let window = Self {
            provider: *provider,
            base: u64::from_le_bytes(*base),
            key: u64::from_le_bytes(*key),
            bytes: u64::from_le_bytes(*bytes),
        };
        raw.is_empty().then_some(window)
    }
}

#[cfg(test)]
mod tests;
