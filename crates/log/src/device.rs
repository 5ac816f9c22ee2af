//! What the log asks of a disk.
//!
//! A device has segments, which are known by number, and two superblocks. Segments are written at
//! multiples of [`BLOCK_BYTES`]; what was written is durable when the segment was synced, and until
//! then any part of it may be there after a loss of power, and any part not.

use std::fmt::Debug;
use std::io;

/// The unit in which segments are written and read.
pub const BLOCK_BYTES: u64 = 4096;

/// The unit in which a device is written that is written in place.
pub const LINE_BYTES: u64 = 64;

/// The superblocks.
pub const SUPERBLOCKS: usize = 2;

/// What is known of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bytes that are written whole or not at all when the power goes; a multiple of it is torn.
    pub torn_bytes: u64,
    /// Whether a write is durable without a sync.
    pub syncs_itself: bool,
    /// Whether reading may give what is in a cache and, after a sync that failed, nowhere else.
    pub reads_cache: bool,
    /// Whether it is written from any memory, and at multiples of [`LINE_BYTES`] already.
    pub in_place: bool,
    /// Whether a sync costs more after the first write to a block of a segment than after others.
    pub notes_first_writes: bool,
}

/// A segment that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// A device. All offsets and lengths are multiples of [`BLOCK_BYTES`], and so are the addresses of
/// the memory where they come from an [`AlignedBuffer`](crate::AlignedBuffer); a device that is
/// written in place is written at multiples of [`LINE_BYTES`], too.
pub trait Device: Send + Debug {
    /// What it is, in a word or two.
    fn kind(&self) -> String;
    /// What is known of it.
    fn capabilities(&self) -> Capabilities;
    /// The segments that are there.
    fn segments(&mut self) -> io::Result<Vec<Segment>>;
    /// Makes a segment with room for so many bytes. When it returns, the segment itself is durable;
    /// its bytes are zero. A refusal for lack of room has the kind [`io::ErrorKind::StorageFull`]
    /// or [`io::ErrorKind::QuotaExceeded`], and leaves nothing behind.
    fn create(&mut self, number: u64, bytes: u64) -> io::Result<()>;
    /// Makes a segment of another one, which is there no more then: it has the first so many of its
    /// bytes, with whatever they are. When it returns, all of that is durable; after a loss of
    /// power before, there is either.
    fn recycle(&mut self, from: u64, number: u64, bytes: u64) -> io::Result<()>;
    /// Writes.
    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes at a multiple of [`LINE_BYTES`], and zeros up to the next one. Returns the CRC-32C of
    /// the bytes. Only for a device that is written in place.
    fn write_checked(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<u32> {
        let _ = (number, offset, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes durable what was written to a segment.
    fn sync(&mut self, number: u64) -> io::Result<()>;
    /// Reads. Past the end of the segment it fails with [`io::ErrorKind::UnexpectedEof`].
    fn read(&mut self, number: u64, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Gives back the room after so many bytes.
    fn shrink(&mut self, number: u64, bytes: u64) -> io::Result<()>;
    /// Removes a segment. After a loss of power it may be there again.
    fn remove(&mut self, number: u64) -> io::Result<()>;
    /// A superblock, 0 or 1; nothing where it was never written.
    fn read_superblock(&mut self, slot: usize) -> io::Result<Vec<u8>>;
    /// Writes a superblock; it is durable when this returns.
    fn write_superblock(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()>;
    /// What a person calls a segment.
    fn segment_name(&self, number: u64) -> String;
    /// What a person calls a superblock.
    fn superblock_name(&self, slot: usize) -> String;
}
