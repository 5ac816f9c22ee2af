//! What every transport does: lanes for control and lanes for bulk.
//!
//! [`FramedControl`](crate::FramedControl) and [`FramedBulk`](crate::FramedBulk) do it over any
//! [`Stream`](crate::Stream), which TCP and the fake network are; a transport that writes into the
//! memory of another machine implements the lanes directly. The tests in `tests/conformance` are
//! what they all promise.
//!
//! Nothing here waits. A call does what can be done now; the caller calls again when the connection
//! is ready, so that one thread drives many lanes.

use std::os::fd::BorrowedFd;

use crate::error::Error;
use crate::frame::{Class, MESSAGE_BYTES_MAX};
use crate::note::Note;
use crate::segment::Segment;

/// Bytes of messages of one class, with their headers, that may wait on one lane.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// A lane for messages: short, in order within their class, never after bulk.
pub trait ControlLane {
    /// Puts a message or a beat into the queue of its class. Nothing is sent before
    /// [`flush`](Self::flush).
    fn queue(&mut self, outgoing: Outgoing<'_>) -> Result<(), NotQueued>;

    /// Sends what the transport takes now; whether all was sent.
    fn flush(&mut self) -> Result<bool, Error>;

    /// The next message or beat; `None` when none has arrived whole. What is not asked for stays
    /// with the transport, and in the end with the sender. A lane may have read several at once:
    /// an event of the transport means to ask until there is `None`.
    fn receive(&mut self) -> Result<Option<Incoming>, Error>;

    /// How many bytes have arrived, also of what is not whole: what a peer's life is seen by.
    fn received_bytes(&self) -> u64;

    /// Ends the lane. What was flushed still arrives.
    fn close(&mut self);
}

/// What is to be sent on a control lane.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// How urgent it is.
    pub class: Class,
    /// Whether it is a beat.
    pub is_beat: bool,
    /// Its content.
    pub payload: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// A message.
    pub fn message(class: Class, payload: &'a [u8]) -> Self {
        Self { class, is_beat: false, payload }
    }

    /// A beat, which is always urgent.
    pub fn beat(payload: &'a [u8]) -> Self {
        Self { class: Class::Urgent, is_beat: true, payload }
    }
}

/// What arrived on a control lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// How urgent its sender found it.
    pub class: Class,
    /// Whether it is a beat.
    pub is_beat: bool,
    /// Its content.
    pub payload: Vec<u8>,
}

/// Why a message was not put into the queue. The lane goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotQueued {
    /// The message is too long: divide it.
    #[error("a message of {found} bytes exceeds the limit of {MESSAGE_BYTES_MAX}")]
    Long {
        /// Its bytes.
        found: usize,
    },
    /// The peer does not read as fast as messages are made: try again after something was sent.
    #[error("{queued_bytes} bytes of messages wait already for this peer")]
    Full {
        /// The bytes of the messages of this class.
        queued_bytes: usize,
    },
}

/// A lane for the content of objects, in segments.
pub trait BulkLane {
    /// Sends a segment, or goes on with it. Until this says [`Sent::Whole`] it is called again with
    /// the same segment and source, and with no other segment. After that memory is not read any
    /// more. A file may be: it is pinned until the receiving side has confirmed the transfer.
    fn send(&mut self, segment: &Segment, source: Source<'_>) -> Result<Sent, Error>;

    /// Receives into the memory that `destinations` gives, with no copy in between, until a segment
    /// ends or nothing more has arrived.
    fn receive(&mut self, destinations: &mut dyn Destinations) -> Result<Received, Error>;

    /// Ends the lane. What was sent still arrives.
    fn close(&mut self);
}

/// Where the content of a segment is taken from: from memory where it is mapped, which is twice as
/// fast over the loopback (`docs/adr/0089`), and from a file where it is not.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// From a file that holds it from this place on; the kernel sends its pages.
    File {
        /// The file.
        file: BorrowedFd<'a>,
        /// Where the content of the segment starts in it.
        offset: u64,
    },
    /// From memory of exactly the segment's length.
    Memory(&'a [u8]),
}

/// What was sent of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it.
    Whole,
    /// A part; the transport takes no more now.
    Blocked,
    /// The transport cannot send this file: call again with the content in memory.
    NeedsMemory,
}

/// Finds the memory of transfers.
pub trait Destinations {
    /// Where the content of this segment goes. It is asked for every part that arrives.
    fn find(&mut self, segment: &Segment) -> Destination<'_>;
}

/// Where the content of a segment goes.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Into the memory of its transfer, of which this is all.
    Memory(&'a mut [u8]),
    /// Nowhere, because its transfer was stopped: what was under way is passed over.
    Discard,
    /// The memory is not ready. The lane stands still, and so does its sender.
    Later,
    /// There never was such a transfer: the lane ends.
    Unknown,
}

/// What arrived on a bulk lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A segment, whole and undamaged, is in its place.
    Segment(Segment),
    /// A segment whose content is not what its checksum says; what is in its place is worthless.
    Corrupt(Segment),
    /// A segment of a transfer that was stopped was passed over.
    Discarded(Segment),
    /// The memory of this segment is not ready.
    Waiting(Segment),
    /// A note.
    Note(Note),
    /// Nothing more has arrived.
    Blocked,
}
