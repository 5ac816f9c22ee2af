//! Connections of the HTTP client that are encrypted.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use super::fault::Fault;
use super::settings::Tls;

/// Encrypts connections to `https://` endpoints. Others pass as they are.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    /// What connections are encrypted with; `None` where no endpoint is `https://`.
    tls: Option<Arc<Tls>>,
}

impl TlsConnector {
    pub(crate) fn new(tls: Option<Arc<Tls>>) -> Self {
        Self { tls }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport<In>>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        let Some(tls) = self.tls.clone().filter(|_| details.needs_tls()) else {
            return Ok(Some(Either::A(transport)));
        };
        let config = Arc::new(tls.config().map_err(refused)?);
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone())
            .map_err(|error| refused(Fault::Protocol { why: format!("{host}: {error}") }))?;
        let connection = ClientConnection::new(config, name)
            .map_err(|error| refused(Fault::of(&error, &tls, &host)))?;
        let mut socket = TransportAdapter::new(transport, details.current_time.clone());
        socket.set_timeout(left(details));
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        let buffers = LazyBuffers::new(input, output);
        let mut transport = TlsTransport { connection, socket, buffers, tls, host };
        transport.shake_hands()?;
        Ok(Some(Either::B(transport)))
    }
}

/// What connecting has left of its time.
fn left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (Duration::Exact(limit), Instant::Exact(start), Instant::Exact(now)) =
        (timeout.after, details.now, (details.current_time)())
    {
        timeout.after = Duration::Exact(limit.saturating_sub(now.saturating_duration_since(start)));
    }
    timeout
}

fn refused(fault: Fault) -> ureq::Error {
    ureq::Error::Other(Box::new(fault))
}

/// A connection that is encrypted.
///
/// What was decrypted and not asked for stays in `connection`: a read is answered from there before
/// it waits for the socket. What is left of a call that ran out of time is sent by the next one.
pub(crate) struct TlsTransport<In: Transport> {
    connection: ClientConnection,
    socket: TransportAdapter<In>,
    buffers: LazyBuffers,
    tls: Arc<Tls>,
    host: String,
}

impl<In: Transport> TlsTransport<In> {
    fn shake_hands(&mut self) -> Result<(), ureq::Error> {
        while self.connection.is_handshaking() {
            let moved = self.send().and_then(|()| self.receive());
            match moved {
                Ok(0) => return Err(refused(Fault::Ended)),
                Ok(_) => {}
                Err(ureq::Error::Io(error)) if is_ended(&error) => {
                    return Err(refused(Fault::Ended));
                }
                Err(error) => return Err(error),
            }
        }
        self.send()
    }

    /// Sends what is encrypted.
    fn send(&mut self) -> Result<(), ureq::Error> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Receives something and decrypts it; 0: the other side has ended the connection.
    fn receive(&mut self) -> Result<usize, ureq::Error> {
        let count = self.connection.read_tls(&mut self.socket)?;
        if let Err(error) = self.connection.process_new_packets() {
            // What is wrong is told to the other side, if it still listens.
            let _ = self.send();
            return Err(refused(Fault::of(&error, &self.tls, &self.host)));
        }
        Ok(count)
    }
}

/// Whether an error is the end of the connection.
fn is_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl<In: Transport> Transport for TlsTransport<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.socket.set_timeout(timeout);
        let mut sent = 0;
        while sent < amount {
            let output = &self.buffers.output()[sent..amount];
            sent += self.connection.writer().write(output)?;
            match self.send() {
                Err(ureq::Error::Io(error)) if is_ended(&error) => {
                    // An etcd that refuses the certificate of this client has said so before.
                    while self.receive()? > 0 {}
                    return Err(error.into());
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.socket.set_timeout(timeout);
        loop {
            let input = self.buffers.input_append_buf();
            match self.connection.reader().read(input) {
                Ok(count) => {
                    self.buffers.input_appended(count);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            self.send()?;
            self.receive()?;
        }
    }

    fn is_open(&mut self) -> bool {
        self.socket.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl<In: Transport> fmt::Debug for TlsTransport<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").field("inner", self.socket.inner()).finish_non_exhaustive()
    }
}
