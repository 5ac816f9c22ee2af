//! One side of an encrypted connection, over a stream that it is given with each call.
//!
//! ```text
//! send ─► records, encrypted ─► what the transport does not take waits, and so does the caller
//! recv ◄─ content ◄─ records ◄─ raw ◄─ transport
//! ```
//!
//! A call that sends says that bytes are sent only once the transport has taken all that they
//! became: until then it is repeated with the same bytes ([`Stream::send`]). So nothing has to be
//! sent after the last call, but what belongs to TLS alone. What has arrived and was not asked for
//! is one read of the transport at most.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::{Connection, Error as TlsError};

use super::certified::Certified;
use super::credentials::Credentials;
use super::fault::Fault;
use super::verifier::{self, Verdict};
use crate::frame::{Decoder, Kind, MAGIC, Phase};
use crate::handshake::Refusal;
use crate::stream::{FileRange, Stream};

/// How much is encrypted at once: it is still in the caches when the transport copies it.
const SEND_BYTES: usize = 64 << 10;

/// How much is read of the transport at once, at first and when it is always filled.
const RAW_BYTES_MIN: usize = 4 << 10;
const RAW_BYTES_MAX: usize = 64 << 10;

/// One side of an encrypted connection.
pub(super) struct Session {
    tls: Connection,
    verdict: Arc<Verdict>,
    certified: Option<Certified>,
    raw: Raw,
    /// Bytes of content that `tls` has decrypted, and that were not read.
    plain_bytes: usize,
    /// Bytes that are encrypted, and of which the caller was not told that they are sent.
    taken_bytes: usize,
    /// The answer of a peer that does not speak TLS; only the first bytes of a connecting side can
    /// be one.
    clear: Clear,
    /// Whether the peer has announced the end.
    has_ended: bool,
    fault: Option<Fault>,
    /// What was read of a file, to be encrypted.
    file_bytes: Vec<u8>,
}

/// Whether the peer answers in TLS.
enum Clear {
    /// Nothing has arrived yet.
    Unknown,
    /// It does.
    No,
    /// It answers with a frame.
    Frame(Box<Decoder>),
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { certified, fault, .. } = self;
        let mut shown = f.debug_struct("Session");
        shown.field("certified", certified).field("fault", fault).finish_non_exhaustive()
    }
}

impl Session {
    /// The connecting side.
    pub(super) fn connect(credentials: &Arc<Credentials>) -> Result<Self, Fault> {
        Self::new(credentials, Clear::Unknown, verifier::connecting)
    }

    /// The accepting side, of which this first byte was read.
    pub(super) fn accept(credentials: &Arc<Credentials>, first: u8) -> Result<Self, Fault> {
        let mut session = Self::new(credentials, Clear::No, verifier::accepting)?;
        session.raw.put(first);
        Ok(session)
    }

    fn new(
        credentials: &Arc<Credentials>,
        clear: Clear,
        side: impl FnOnce(&Arc<Credentials>, &Arc<Verdict>) -> Result<Connection, TlsError>,
    ) -> Result<Self, Fault> {
        let verdict = Arc::new(Verdict::default());
        let mut tls = side(credentials, &verdict).map_err(|error| Fault::of(&error))?;
        // What is encrypted at once has a limit here.
        tls.set_buffer_limit(None);
        Ok(Self {
            tls,
            verdict,
            certified: None,
            raw: Raw::default(),
            plain_bytes: 0,
            taken_bytes: 0,
            clear,
            has_ended: false,
            fault: None,
            file_bytes: Vec::new(),
        })
    }

    /// What the peer's certificate is for, once it was checked.
    pub(super) fn certified(&self) -> Option<&Certified> {
        self.certified.as_ref()
    }

    /// Whether it waits for the transport to take bytes. Before the peer has answered what the
    /// caller has to send waits for the peer.
    pub(super) fn wants_write(&self, unsent: bool) -> bool {
        self.tls.wants_write() || (unsent && !self.tls.is_handshaking())
    }

    /// Whether [`recv`](Self::recv) has something to give though the transport shows no event.
    pub(super) fn has_buffered(&self) -> bool {
        self.plain_bytes > 0 || !self.raw.is_empty() || self.fault.is_some()
    }

    /// Goes on until both sides have checked each other. The error's kind is `WouldBlock` where
    /// that has to wait.
    pub(super) fn establish(&mut self, transport: &mut impl Stream) -> io::Result<()> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        while self.tls.is_handshaking() {
            let is_flushed = self.flush(transport)?;
            if self.tls.wants_read() {
                if !self.read_more(transport)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            } else if !is_flushed {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        if self.certified.is_none() {
            match verifier::take(&self.verdict) {
                Some(Ok(certified)) => self.certified = Some(certified),
                Some(Err(fault)) => return Err(self.end(fault)),
                None => return Err(self.end(Fault::NoCertificate)),
            }
        }
        // What belongs to TLS alone is sent by whatever call comes next. What fails of it shows in
        // the next call that sends; what the peer has said is received before that.
        if self.taken_bytes == 0 {
            let _ = self.flush(transport);
        }
        Ok(())
    }

    /// Receives content directly into `into`; 0 is the end that the peer has announced.
    pub(super) fn recv(
        &mut self,
        transport: &mut impl Stream,
        into: &mut [u8],
    ) -> io::Result<usize> {
        self.establish(transport)?;
        let mut filled = 0;
        loop {
            while self.plain_bytes > 0 && filled < into.len() {
                let count = self.tls.reader().read(&mut into[filled..])?;
                self.plain_bytes = self.plain_bytes.saturating_sub(count.max(1));
                filled += count;
            }
            // What is here already is given before the transport is asked once more.
            if filled == into.len() || (filled > 0 && self.raw.is_empty()) || self.has_ended {
                return Ok(filled);
            }
            match self.read_more(transport) {
                Ok(true) => {}
                // Told by the next call.
                Ok(false) | Err(_) if filled > 0 => return Ok(filled),
                Ok(false) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Encrypts and sends the beginning of `bytes`; how many.
    pub(super) fn send(
        &mut self,
        transport: &mut impl Stream,
        bytes: &[u8],
        more: bool,
    ) -> io::Result<usize> {
        self.establish(transport)?;
        if self.taken_bytes == 0 {
            let part = &bytes[..bytes.len().min(SEND_BYTES)];
            self.tls.writer().write_all(part)?;
            self.taken_bytes = part.len();
        }
        self.sent(transport, more)
    }

    /// Encrypts and sends the beginning of a range of a file, which is read for that.
    pub(super) fn send_file(
        &mut self,
        transport: &mut impl Stream,
        range: FileRange<'_>,
    ) -> io::Result<usize> {
        self.establish(transport)?;
        if self.taken_bytes == 0 {
            let FileRange { file, offset, bytes } = range;
            self.file_bytes.resize(SEND_BYTES, 0);
            let into = &mut self.file_bytes[..bytes.min(SEND_BYTES)];
            let read = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *into, offset));
            let count = match read {
                Err(rustix::io::Errno::SPIPE) => return Err(io::ErrorKind::Unsupported.into()),
                other => other?,
            };
            self.tls.writer().write_all(&self.file_bytes[..count])?;
            self.taken_bytes = count;
        }
        self.sent(transport, false)
    }

    /// How much of what was encrypted the transport has taken: all of it, or the call is repeated.
    fn sent(&mut self, transport: &mut impl Stream, more: bool) -> io::Result<usize> {
        // What follows at once goes with it.
        if !more && !self.flush(transport)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(std::mem::take(&mut self.taken_bytes))
    }

    /// Announces the end, as far as the transport takes it.
    pub(super) fn close(&mut self, transport: &mut impl Stream) {
        if self.fault.is_none() {
            self.tls.send_close_notify();
        }
        // A peer that is not told sees that the connection broke.
        let _ = self.flush(transport);
    }

    /// Gives the transport what is encrypted; whether it took all of it.
    fn flush(&mut self, transport: &mut impl Stream) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Outlet(&mut *transport)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(self.explained(transport, error)),
            }
        }
        Ok(true)
    }

    /// Why sending failed: a peer that refuses says so before it closes the connection, and that
    /// may be here.
    fn explained(&mut self, transport: &mut impl Stream, error: io::Error) -> io::Error {
        while self.plain_bytes == 0 && matches!(self.read_more(transport), Ok(true)) {}
        self.fault.clone().map_or(error, io::Error::from)
    }

    /// Reads what has arrived, and decrypts a part of it; whether the connection goes on.
    fn read_more(&mut self, transport: &mut impl Stream) -> io::Result<bool> {
        if self.raw.is_empty() {
            let count = transport.recv(self.raw.space())?;
            if count == 0 {
                return Ok(false);
            }
            self.raw.filled(count);
        }
        self.look_for_frame()?;
        let count = self.tls.read_tls(&mut self.raw.bytes())?;
        self.raw.consume(count);
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.plain_bytes = state.plaintext_bytes_to_read();
                if state.peer_has_closed() {
                    self.has_ended = true;
                    self.raw.clear();
                }
                Ok(true)
            }
            Err(error) => {
                // The peer is told; that it may be gone says nothing new.
                while self.tls.wants_write()
                    && matches!(self.tls.write_tls(&mut Outlet(&mut *transport)), Ok(1..))
                {
                }
                let found = verifier::take(&self.verdict).and_then(Result::err);
                let fault = found.unwrap_or_else(|| Fault::of(&error));
                Err(self.end(fault))
            }
        }
    }

    /// A peer without a certificate answers with a frame that says why it refuses.
    fn look_for_frame(&mut self) -> io::Result<()> {
        if matches!(self.clear, Clear::Unknown) {
            self.clear = if self.raw.bytes().first() == MAGIC.first() {
                Clear::Frame(Box::new(Decoder::new(Phase::Handshake, 0)))
            } else {
                Clear::No
            };
        }
        let Clear::Frame(decoder) = &mut self.clear else { return Ok(()) };
        while !self.raw.is_empty() {
            let (space, bytes) = (decoder.space(), self.raw.bytes());
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            decoder.filled(count);
            self.raw.consume(count);
            match decoder.next_frame() {
                Ok(None) => {}
                Ok(Some(frame)) => {
                    let refusal = (frame.info.kind == Kind::Refused)
                        .then(|| Refusal::decode(&frame.payload))
                        .flatten();
                    return Err(self.end(refusal.map_or(Fault::NotTls, Fault::RefusedInClear)));
                }
                Err(_) => return Err(self.end(Fault::NotTls)),
            }
        }
        // The rest of the frame is on its way.
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// The session is over.
    fn end(&mut self, fault: Fault) -> io::Error {
        self.raw.clear();
        self.fault.get_or_insert(fault).clone().into()
    }
}

/// Writes to a stream.
struct Outlet<'a, S>(&'a mut S);

impl<S: Stream> Write for Outlet<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes, false)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_parts(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What has arrived and is not decrypted.
#[derive(Default)]
struct Raw {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Raw {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Memory to receive into, once nothing is left: more of it, when the last time has filled it.
    fn space(&mut self) -> &mut [u8] {
        let was_filled = self.end == self.memory.len();
        if was_filled && self.memory.len() < RAW_BYTES_MAX {
            let more = (2 * self.memory.len()).clamp(RAW_BYTES_MIN, RAW_BYTES_MAX);
            self.memory.resize(more, 0);
        }
        (self.start, self.end) = (0, 0);
        &mut self.memory
    }

    fn filled(&mut self, count: usize) {
        self.end = count;
    }

    fn put(&mut self, byte: u8) {
        self.space()[0] = byte;
        self.end = 1;
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }

    fn clear(&mut self) {
        self.start = self.end;
    }
}
