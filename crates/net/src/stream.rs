//! What a lane needs of a connection: bytes in order, without waiting.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::tls::Certified;

/// A connection of two nodes that carries bytes in order and never waits: where it would have to,
/// the error's kind is [`io::ErrorKind::WouldBlock`].
pub trait Stream {
    /// Receives bytes directly into `into`, which is not empty; 0 is the end of the connection.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends the beginning of `bytes`; how many. With `more` set, other bytes follow at once, and
    /// the transport may wait for them. After a call that would have had to wait, the next one has
    /// the same bytes: they may be encrypted already.
    fn send(&mut self, bytes: &[u8], more: bool) -> io::Result<usize>;

    /// Sends the beginning of what these parts have together; how many bytes.
    fn send_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let first = parts.iter().find(|part| !part.is_empty());
        first.map_or(Ok(0), |part| self.send(part, parts.len() > 1))
    }

    /// Sends the beginning of a range of a file without a copy in this process; how many bytes. 0
    /// means that the file ends before the range does.
    fn send_file(&mut self, range: FileRange<'_>) -> io::Result<usize>;

    /// Ends the connection in both directions. What was sent before still arrives.
    fn close(&mut self);

    /// What the certificate of the other side is for; `None` on a connection that is not encrypted,
    /// and before the certificate was checked.
    fn certified(&self) -> Option<&Certified> {
        None
    }

    /// Whether it waits for the transport to take bytes. `unsent` says whether the caller has bytes
    /// that were not taken.
    fn wants_write(&self, unsent: bool) -> bool {
        unsent
    }

    /// Whether [`recv`](Self::recv) has something to give though the transport shows no event.
    fn has_buffered(&self) -> bool {
        false
    }
}

/// A range of an open file, such as a part of an extent.
#[derive(Clone, Copy, Debug)]
pub struct FileRange<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Where the range starts.
    pub offset: u64,
    /// How long it is.
    pub bytes: usize,
}

/// What a call that never waits did; `None` when it would have had to.
pub(crate) fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
