//! TCP: what every network has.
//!
//! A connection that is being established is a stream already: it takes no bytes before it is
//! there, and its first error says why it never was. The deadline of the handshake covers both.
//!
//! The process must ignore SIGPIPE, as programs in Rust do unless they choose otherwise: `sendfile`
//! cannot be told to do without the signal.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
    ipproto, sockopt,
};

use crate::handshake::Lane;
use crate::stream::{FileRange, Stream};

/// After so long without traffic the kernel asks a peer whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);

/// How often it asks.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);

/// After so many questions without an answer the connection is broken.
const KEEPALIVE_COUNT: u32 = 3;

/// How long bytes of a control lane may stay unacknowledged, or a peer may take none, before the
/// connection is broken. Beats say much sooner that the peer is slow.
const CONTROL_TIMEOUT_MS: u32 = 10_000;

/// The same for a bulk lane, which may stand still while the receiving side makes memory.
const BULK_TIMEOUT_MS: u32 = 60_000;

/// The kernel's buffer for what a control lane sends: an urgent message waits for what is in it.
/// Buffers of bulk lanes are left to the kernel, which fits them to the line.
const CONTROL_BUFFER_BYTES: usize = 256 << 10;

/// A listening socket.
#[derive(Debug)]
pub struct TcpListener(StdListener);

impl TcpListener {
    /// Listens on this address; with port 0 on any that is free.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection, `None` when there is none. An error says that the process or the system
    /// is out of something: pause, and try again.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        loop {
            match self.0.accept() {
                Ok((socket, from)) => {
                    socket.set_nonblocking(true)?;
                    return Ok(Some((TcpStream::of(socket.into())?, from)));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    // It ended before it was accepted.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection.
#[derive(Debug)]
pub struct TcpStream(OwnedFd);

impl TcpStream {
    /// Begins to connect. Where the connection cannot be established, receiving says why.
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::STREAM;
        let socket = rustix::net::socket_with(family, kind, flags, Some(ipproto::TCP))?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Self::of(socket),
            Err(error) => Err(error.into()),
        }
    }

    fn of(socket: OwnedFd) -> io::Result<Self> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_EVERY)?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_COUNT)?;
        sockopt::set_tcp_user_timeout(&socket, CONTROL_TIMEOUT_MS)?;
        Ok(Self(socket))
    }

    /// Sets what is right for this lane, once the handshake is over.
    pub fn tune(&self, lane: Lane) -> io::Result<()> {
        match lane {
            Lane::Control => sockopt::set_socket_send_buffer_size(&self.0, CONTROL_BUFFER_BYTES)?,
            Lane::Bulk(_) => sockopt::set_tcp_user_timeout(&self.0, BULK_TIMEOUT_MS)?,
        }
        Ok(())
    }
}

impl Stream for TcpStream {
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let receive = || rustix::net::recv(&self.0, &mut *into, RecvFlags::DONTWAIT);
        Ok(rustix::io::retry_on_intr(receive)?.0)
    }

    fn send(&mut self, bytes: &[u8], more: bool) -> io::Result<usize> {
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.0, bytes, flags))?)
    }

    fn send_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let send = || {
            let mut nothing = SendAncillaryBuffer::default();
            rustix::net::sendmsg(&self.0, parts, &mut nothing, flags)
        };
        Ok(rustix::io::retry_on_intr(send)?)
    }

    fn send_file(&mut self, range: FileRange<'_>) -> io::Result<usize> {
        let FileRange { file, offset, bytes } = range;
        let send = || rustix::fs::sendfile(&self.0, file, Some(&mut { offset }), bytes);
        match rustix::io::retry_on_intr(send) {
            // The file system, or the kind of file, has no pages to give.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::SPIPE) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            other => Ok(other?),
        }
    }

    fn close(&mut self) {
        // It fails only where there is no connection any more, which is what is wanted.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_the_options_that_are_right_for_them() {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let stream = TcpStream::connect(listener.address().unwrap()).unwrap();
        assert!(sockopt::tcp_nodelay(&stream).unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), CONTROL_TIMEOUT_MS);
        stream.tune(Lane::Control).unwrap();
        // The kernel doubles what it is asked for.
        assert_eq!(sockopt::socket_send_buffer_size(&stream).unwrap(), 2 * CONTROL_BUFFER_BYTES);
        stream.tune(Lane::Bulk(0)).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), BULK_TIMEOUT_MS);
    }
}
