//! A bulk lane over a stream: segments that can be gone on with after every byte, and notes between
//! them.

use crate::error::Error;
use crate::note::{self, BadNote, Note, NoteHeader};
use crate::segment::{BadSegment, HEADER_BYTES, Segment};
use crate::stream::{FileRange, Stream, unless_blocked};
use crate::transport::{BulkLane, Destination, Destinations, Received, Sent, Source};

/// How much is received at once: what was received is still in the caches when its checksum is
/// computed.
const RECEIVE_BYTES: usize = 256 << 10;

/// How much is passed over at once.
const DISCARD_BYTES: usize = 16 << 10;

/// Bytes of notes that may wait on one lane: some for each transfer that it has.
pub const NOTES_BYTES_MAX: usize = 1 << 20;

/// A bulk lane over a stream whose handshake is over.
#[derive(Debug)]
pub struct FramedBulk<S> {
    stream: S,
    sending: Option<Sending>,
    /// Notes to be sent between segments, of which so many bytes are.
    notes: Vec<u8>,
    notes_sent: usize,
    receiving: Receiving,
    received_bytes: u64,
}

/// A segment of which a part is sent.
#[derive(Debug)]
struct Sending {
    segment: Segment,
    header: [u8; HEADER_BYTES],
    header_sent: usize,
    content_sent: usize,
}

/// What has arrived of the next segment.
#[derive(Debug)]
enum Receiving {
    Header { raw: [u8; HEADER_BYTES], filled: usize },
    Content(Content),
    Note { header: NoteHeader, payload: Vec<u8>, filled: usize },
}

/// What comes next.
enum Next {
    Content(Content),
    Note(Note),
}

#[derive(Clone, Copy, Debug)]
struct Content {
    segment: Segment,
    received: usize,
    checksum: u32,
    /// Whether a part of it was passed over.
    discarded: bool,
}

impl Receiving {
    const START: Self = Self::Header { raw: [0; HEADER_BYTES], filled: 0 };

    /// What follows a header.
    fn after(raw: &[u8; HEADER_BYTES]) -> Result<Self, Error> {
        if raw.starts_with(&note::MAGIC) {
            let header = NoteHeader::decode(raw)?;
            let payload = vec![0; header.payload_bytes()];
            return Ok(Self::Note { header, payload, filled: 0 });
        }
        let segment = Segment::decode(raw)?;
        Ok(Self::Content(Content { segment, received: 0, checksum: 0, discarded: false }))
    }
}

impl<S: Stream> FramedBulk<S> {
    /// The lane over this stream, both of whose sides have just ended their handshake.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            sending: None,
            notes: Vec::new(),
            notes_sent: 0,
            receiving: Receiving::START,
            received_bytes: 0,
        }
    }

    /// The stream, to wait for its events.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether there is something to receive though the stream shows no event.
    pub fn has_buffered(&self) -> bool {
        self.stream.has_buffered()
    }

    /// The bytes of content that were received so far, also of segments that are not whole.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Puts a note into the queue, to be sent before the next segment.
    pub fn queue_note(&mut self, note: &Note) -> Result<(), Error> {
        let queued_bytes = self.notes.len() - self.notes_sent;
        if queued_bytes > NOTES_BYTES_MAX {
            return Err(BadNote::Full { queued_bytes }.into());
        }
        if self.notes_sent > NOTES_BYTES_MAX / 16 {
            self.notes.drain(..self.notes_sent);
            self.notes_sent = 0;
        }
        self.notes.extend(note.encode());
        Ok(())
    }

    /// Whether notes wait to be sent.
    pub fn has_notes(&self) -> bool {
        self.notes_sent < self.notes.len()
    }

    /// Sends the notes that wait, unless a segment is sent in part; whether none waits any more.
    pub fn send_notes(&mut self) -> Result<bool, Error> {
        while self.has_notes() {
            if self.sending.is_some() {
                return Ok(false);
            }
            match unless_blocked(self.stream.send(&self.notes[self.notes_sent..], false))? {
                Some(count) => self.notes_sent += count,
                None => return Ok(false),
            }
        }
        self.notes.clear();
        self.notes_sent = 0;
        Ok(true)
    }

    /// What comes next: a segment with its content, or a note; `None` when it is not whole.
    fn receive_next(&mut self) -> Result<Option<Next>, Error> {
        loop {
            match &mut self.receiving {
                Receiving::Content(content) => return Ok(Some(Next::Content(*content))),
                Receiving::Header { raw, filled } => {
                    match unless_blocked(self.stream.recv(&mut raw[*filled..]))? {
                        Some(0) => return Err(Error::Closed { midway: *filled > 0 }),
                        Some(count) => *filled += count,
                        None => return Ok(None),
                    }
                    if *filled == HEADER_BYTES {
                        self.receiving = Receiving::after(raw)?;
                    }
                }
                Receiving::Note { header, payload, filled } => {
                    if *filled == payload.len() {
                        let note = header.note(payload)?;
                        self.receiving = Receiving::START;
                        return Ok(Some(Next::Note(note)));
                    }
                    match unless_blocked(self.stream.recv(&mut payload[*filled..]))? {
                        Some(0) => return Err(Error::Closed { midway: true }),
                        Some(count) => *filled += count,
                        None => return Ok(None),
                    }
                }
            }
        }
    }
}

impl Content {
    /// Receives a part of the content; how many bytes, `None` when there are none.
    fn receive(
        &mut self,
        stream: &mut impl Stream,
        destination: Destination<'_>,
    ) -> Result<Option<usize>, Error> {
        let Segment { transfer, bytes, .. } = self.segment;
        let left = bytes as usize - self.received;
        let received = match destination {
            Destination::Memory(memory) => {
                let part = self.segment.part_of(memory)?;
                let into = &mut part[self.received..][..left.min(RECEIVE_BYTES)];
                let received = unless_blocked(stream.recv(into))?;
                let arrived = &into[..received.unwrap_or(0)];
                self.checksum = crc32c::crc32c_append(self.checksum, arrived);
                received
            }
            Destination::Discard => {
                self.discarded = true;
                let mut scratch = [0; DISCARD_BYTES];
                unless_blocked(stream.recv(&mut scratch[..left.min(DISCARD_BYTES)]))?
            }
            Destination::Unknown => return Err(BadSegment::Transfer { transfer }.into()),
            Destination::Later => None,
        };
        if received == Some(0) {
            return Err(Error::Closed { midway: true });
        }
        self.received += received.unwrap_or(0);
        Ok(received)
    }

    /// What it ended as; `None` when it is not whole.
    fn outcome(&self) -> Option<Received> {
        let segment = self.segment;
        if self.received < segment.bytes as usize {
            None
        } else if self.discarded {
            Some(Received::Discarded(segment))
        } else if self.checksum == segment.checksum {
            Some(Received::Segment(segment))
        } else {
            Some(Received::Corrupt(segment))
        }
    }
}

impl<S: Stream> BulkLane for FramedBulk<S> {
    fn send(&mut self, segment: &Segment, source: Source<'_>) -> Result<Sent, Error> {
        segment.check()?;
        if self.sending.is_none() && !self.send_notes()? {
            return Ok(Sent::Blocked);
        }
        let header = segment.encode();
        let sending = self.sending.get_or_insert(Sending {
            segment: *segment,
            header,
            header_sent: 0,
            content_sent: 0,
        });
        assert_eq!(sending.segment, *segment, "a segment is sent whole before the next one");
        while sending.header_sent < HEADER_BYTES {
            match unless_blocked(self.stream.send(&sending.header[sending.header_sent..], true))? {
                Some(count) => sending.header_sent += count,
                None => return Ok(Sent::Blocked),
            }
        }
        while sending.content_sent < segment.bytes as usize {
            let from = sending.content_sent;
            let bytes = segment.bytes as usize - from;
            let sent = match source {
                Source::Memory(memory) => {
                    assert_eq!(memory.len(), segment.bytes as usize, "the content is all of it");
                    self.stream.send(&memory[from..], false)
                }
                Source::File { file, offset } => {
                    let range = FileRange { file, offset: offset + from as u64, bytes };
                    match self.stream.send_file(range) {
                        Ok(0) => return Err(Error::SourceShort),
                        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                            return Ok(Sent::NeedsMemory);
                        }
                        other => other,
                    }
                }
            };
            match unless_blocked(sent)? {
                Some(count) => sending.content_sent += count,
                None => return Ok(Sent::Blocked),
            }
        }
        self.sending = None;
        Ok(Sent::Whole)
    }

    fn receive(&mut self, destinations: &mut dyn Destinations) -> Result<Received, Error> {
        let mut content = match self.receive_next()? {
            Some(Next::Content(content)) => content,
            Some(Next::Note(note)) => return Ok(Received::Note(note)),
            None => return Ok(Received::Blocked),
        };
        loop {
            let destination = destinations.find(&content.segment);
            let is_ready = !matches!(destination, Destination::Later);
            let received = content.receive(&mut self.stream, destination)?;
            self.received_bytes += received.unwrap_or(0) as u64;
            if let Some(outcome) = content.outcome() {
                self.receiving = Receiving::START;
                return Ok(outcome);
            }
            self.receiving = Receiving::Content(content);
            if received.is_none() {
                let waiting = Received::Waiting(content.segment);
                return Ok(if is_ready { Received::Blocked } else { waiting });
            }
        }
    }

    fn close(&mut self) {
        self.stream.close();
    }
}
