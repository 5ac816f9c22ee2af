//! A connection of two nodes that is encrypted or not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::certified::Certified;
use super::credentials::Credentials;
use super::fault::Fault;
use super::session::Session;
use crate::stream::{FileRange, Stream};

/// The first byte of a connection that begins with TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// How much is read of a peer that is refused before it is closed: what was not read of it would
/// take the answer with it.
const DRAINED_BYTES: usize = 16 << 10;

/// A connection that is encrypted or not.
#[derive(Debug)]
pub struct SecureStream<S> {
    transport: S,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Accepted, and nothing was read: it is encrypted if it begins like that.
    Accepted(Option<Arc<Credentials>>),
    /// It is not encrypted.
    Plain,
    /// It is.
    Encrypted(Box<Session>),
}

impl<S: Stream> SecureStream<S> {
    /// A connection that is not encrypted.
    pub fn plain(transport: S) -> Self {
        Self { transport, state: State::Plain }
    }

    /// The connecting side of an encrypted connection.
    pub fn connect(transport: S, credentials: &Arc<Credentials>) -> Result<Self, Fault> {
        let session = Session::connect(credentials)?;
        Ok(Self { transport, state: State::Encrypted(Box::new(session)) })
    }

    /// An accepted connection, which the peer has encrypted or not. Without credentials it must
    /// not be. Whether it must be is decided in the handshake.
    pub fn accept(transport: S, credentials: Option<Arc<Credentials>>) -> Self {
        Self { transport, state: State::Accepted(credentials) }
    }

    /// What carries it.
    pub fn transport(&self) -> &S {
        &self.transport
    }

    /// Goes on until it is known what the connection is and both sides have checked each other's
    /// certificates; the error's kind is `WouldBlock` until then. Sending and receiving do the same
    /// by themselves.
    pub fn establish(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Accepted(_) => match self.begin()? {
                Some(_) => Err(Fault::NotTls.into()),
                None => self.establish(),
            },
            State::Plain => Ok(()),
            State::Encrypted(session) => session.establish(&mut self.transport),
        }
    }

    /// Reads the first byte of an accepted connection; it, where it is content, and the connection
    /// not encrypted.
    fn begin(&mut self) -> io::Result<Option<u8>> {
        let State::Accepted(credentials) = &self.state else { return Ok(None) };
        let mut first = [0];
        if self.transport.recv(&mut first)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [first] = first;
        match credentials {
            _ if first != TLS_HANDSHAKE => {
                self.state = State::Plain;
                Ok(Some(first))
            }
            Some(credentials) => {
                let session = Session::accept(credentials, first)?;
                self.state = State::Encrypted(Box::new(session));
                Ok(None)
            }
            None => {
                // The answer is not encrypted.
                self.state = State::Plain;
                // It ends when nothing more is here, whatever that is.
                let _ = self.transport.recv(&mut [0; DRAINED_BYTES]);
                Err(Fault::NotConfigured.into())
            }
        }
    }
}

impl<S: Stream> Stream for SecureStream<S> {
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if matches!(self.state, State::Accepted(_)) {
            let begun = self.begin();
            let is_end = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
            match begun {
                Ok(Some(first)) => {
                    into[0] = first;
                    return Ok(1);
                }
                Ok(None) => {}
                Err(error) if is_end(&error) => return Ok(0),
                Err(error) => return Err(error),
            }
        }
        match &mut self.state {
            State::Encrypted(session) => session.recv(&mut self.transport, into),
            State::Accepted(_) | State::Plain => self.transport.recv(into),
        }
    }

    fn send(&mut self, bytes: &[u8], more: bool) -> io::Result<usize> {
        match &mut self.state {
            State::Encrypted(session) => session.send(&mut self.transport, bytes, more),
            State::Accepted(_) | State::Plain => self.transport.send(bytes, more),
        }
    }

    fn send_file(&mut self, range: FileRange<'_>) -> io::Result<usize> {
        match &mut self.state {
            State::Encrypted(session) => session.send_file(&mut self.transport, range),
            State::Accepted(_) | State::Plain => self.transport.send_file(range),
        }
    }

    fn close(&mut self) {
        if let State::Encrypted(session) = &mut self.state {
            session.close(&mut self.transport);
        }
        self.transport.close();
    }

    fn certified(&self) -> Option<&Certified> {
        match &self.state {
            State::Encrypted(session) => session.certified(),
            State::Accepted(_) | State::Plain => None,
        }
    }

    fn wants_write(&self, unsent: bool) -> bool {
        match &self.state {
            State::Encrypted(session) => session.wants_write(unsent),
            State::Accepted(_) | State::Plain => self.transport.wants_write(unsent),
        }
    }

    fn has_buffered(&self) -> bool {
        match &self.state {
            State::Encrypted(session) => session.has_buffered(),
            State::Accepted(_) | State::Plain => self.transport.has_buffered(),
        }
    }
}

impl<S: AsFd> AsFd for SecureStream<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
