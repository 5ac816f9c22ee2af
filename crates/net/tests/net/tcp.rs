//! TCP keeps the promises of a transport, over sockets of this machine.

use std::net::SocketAddr;
use std::time::Instant;

use crate::conformance::{Fixture, conformance};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_testkit::TEST_TIMEOUT;

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

pub(crate) struct TcpFixture {
    listener: TcpListener,
    started: Instant,
    send_buffer_bytes: Option<usize>,
}

impl TcpFixture {
    /// Connections whose send buffers are of this size, if one is given. Receive buffers below the
    /// segment size of the loopback would stall for TCP's reasons, and not for ours.
    pub(crate) fn new(send_buffer_bytes: Option<usize>) -> Self {
        let listener = TcpListener::bind(any_port()).unwrap();
        Self { listener, started: Instant::now(), send_buffer_bytes }
    }
}

impl Fixture for TcpFixture {
    type Stream = TcpStream;

    fn streams(&mut self) -> (TcpStream, TcpStream) {
        let one = TcpStream::connect(self.listener.address().unwrap()).unwrap();
        let two = loop {
            match self.listener.accept().unwrap() {
                Some((stream, _)) => break stream,
                None => self.wait(),
            }
        };
        for stream in [&one, &two] {
            if let Some(bytes) = self.send_buffer_bytes {
                rustix::net::sockopt::set_socket_send_buffer_size(stream, bytes).unwrap();
            }
        }
        (one, two)
    }

    fn wait(&mut self) {
        assert!(self.started.elapsed() < TEST_TIMEOUT, "nothing happens any more");
        std::thread::yield_now();
    }
}

conformance!(with_the_buffers_of_the_kernel, TcpFixture::new(None));

conformance!(with_small_send_buffers, TcpFixture::new(Some(4096)));
