//! The data of an object in pieces, some of them ahead of their reader.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use plasmon_proto::limits::SEGMENT_BYTES;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::{Code, ObjectId};

use super::door::READING;
use super::layout::spans_of;
use super::reader::{Brought, PartsReader, Piece};
use crate::client::Client;
use crate::error::{Error, Result};

/// Bytes of a piece, but for the last.
pub const STREAM_PIECE_BYTES: u64 = 4 * SEGMENT_BYTES;

/// Pieces that may be on their way at a time.
pub const STREAM_WINDOW_MAX: usize = 32;

/// An object's data in order. It holds the memory of the pieces that are under way, besides those
/// that its reader keeps.
#[derive(Debug)]
pub struct PartsStream {
    reader: PartsReader,
    window: usize,
    /// The pieces that are under way.
    asked: VecDeque<Range<u64>>,
    /// Where the next one begins.
    next: u64,
    is_over: bool,
}

impl Client {
    /// The data of an object in pieces of [`STREAM_PIECE_BYTES`], of which `window` are brought
    /// here at a time, 1 to [`STREAM_WINDOW_MAX`]. An object that is here is read in place. For the
    /// timeout see [`PartsReader::new`].
    pub fn pool_stream(
        &self,
        id: &ObjectId,
        window: usize,
        timeout: Option<Duration>,
    ) -> Result<PartsStream> {
        if !(1..=STREAM_WINDOW_MAX).contains(&window) {
            return Err(Error::new(Code::BadRequest, READING)
                .with_id(*id)
                .with_amounts(window as u64, STREAM_WINDOW_MAX as u64)
                .with_detail("so many pieces cannot be under way"));
        }
        let reader = PartsReader::new(self, *id, timeout);
        Ok(PartsStream { reader, window, asked: VecDeque::new(), next: 0, is_over: false })
    }
}

impl PartsStream {
    /// The object.
    pub fn id(&self) -> ObjectId {
        self.reader.id()
    }

    /// How many bytes there are in all, once the first piece is here.
    pub fn data_bytes(&self) -> Option<u64> {
        self.reader.info().map(|info| info.data_bytes)
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
        let is_first = self.next == 0 && self.asked.is_empty();
        if is_first && !self.reader.look_here()? {
            // How long the object is comes with the first piece.
            let (piece, _) = self.reader.begin(STREAM_PIECE_BYTES)?;
            return Ok(self.went_on(piece));
        }
        if self.reader.here.is_some() && self.asked.is_empty() {
            return self.piece_here();
        }
        self.ask_ahead()?;
        let Some(range) = self.asked.pop_front() else { return Ok(None) };
        let (Request::Read(request), Reply::Read(reply)) = self.reader.door.receive()? else {
            return Err(Error::unexpected(READING));
        };
        let piece = match self.reader.brought(&request, reply)? {
            Brought::Parts(Some(buffer), _) => {
                let length = range.end - range.start;
                Piece::new(&buffer, 0..length).ok_or_else(|| Error::unexpected(READING))?
            }
            Brought::Parts(None, _) => return Err(Error::unexpected(READING)),
            // It was kept waiting for so long that its memory went, or the object is here now.
            Brought::Gone | Brought::Here => self.read_again(range)?,
        };
        Ok(Some(piece))
    }

    fn went_on(&mut self, piece: Piece) -> Option<Piece> {
        self.next += piece.len() as u64;
        Some(piece).filter(|piece| !piece.is_empty())
    }

    /// The next piece of an object that is in this store.
    fn piece_here(&mut self) -> Result<Option<Piece>> {
        let range = self.range();
        if range.is_empty() {
            return Ok(None);
        }
        let piece = self.reader.pieces_here(std::slice::from_ref(&range))?.pop();
        Ok(piece.and_then(|piece| self.went_on(piece)))
    }

    /// What the next piece is.
    fn range(&self) -> Range<u64> {
        let end = self.data_bytes().unwrap_or(0);
        self.next.min(end)..self.next.saturating_add(STREAM_PIECE_BYTES).min(end)
    }

    /// Asks for as many pieces as may be under way.
    fn ask_ahead(&mut self) -> Result<()> {
        while self.reader.here.is_none() && self.reader.door.pending() < self.window {
            let range = self.range();
            if range.is_empty() {
                return Ok(());
            }
            let spans = spans_of(std::slice::from_ref(&range));
            let request = self.reader.request(&spans, range.end, false);
            self.reader.door.begin(Request::Read(request))?;
            self.next = range.end;
            self.asked.push_back(range);
        }
        Ok(())
    }

    /// One piece by itself, over a connection of its own: others are under way on this one.
    fn read_again(&mut self, range: Range<u64>) -> Result<Piece> {
        let id = self.reader.id();
        let mut other = PartsReader::new(self.reader.store(), id, Some(Duration::ZERO));
        other.found = self.reader.found;
        let piece = other.read(std::slice::from_ref(&range))?.pop();
        piece.ok_or_else(|| Error::unexpected(READING))
    }
}

impl Iterator for PartsStream {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let piece = self.next_piece().transpose();
        self.is_over = !matches!(piece, Some(Ok(_)));
        piece
    }
}
