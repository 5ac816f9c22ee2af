//! The fake network keeps the promises of a transport, however small its pieces and buffers are,
//! and its links show life and death of a peer.

use std::time::Duration;

use crate::conformance::{Fixture, conformance};
use plasmon_net::fake::{FakeNet, FakeNode, FakeOptions, FakeStream, Path};

/// After so many waits in which nothing was under way, nothing will happen any more.
const IDLE_MAX: u32 = 100_000;

pub(crate) struct FakeFixture {
    net: FakeNet,
    idle: u32,
}

const ONE: FakeNode = FakeNode(1);
const TWO: FakeNode = FakeNode(2);

impl FakeFixture {
    pub(crate) fn new(options: FakeOptions, path: Path) -> Self {
        let net = FakeNet::new(options);
        net.listen(TWO);
        net.set_path(ONE, TWO, path);
        net.set_path(TWO, ONE, path);
        Self { net, idle: 0 }
    }
}

impl Fixture for FakeFixture {
    type Stream = FakeStream;

    fn streams(&mut self) -> (FakeStream, FakeStream) {
        let one = self.net.connect(ONE, TWO).unwrap();
        (one, self.net.accept(TWO).unwrap().0)
    }

    fn wait(&mut self) {
        match self.net.next_event() {
            Some(time) => {
                self.net.advance_to(time);
                self.idle = 0;
            }
            None => self.idle += 1,
        }
        assert!(self.idle < IDLE_MAX, "nothing happens any more");
    }
}

conformance!(at_once, FakeFixture::new(FakeOptions::default(), Path::default()));

conformance!(
    in_small_pieces,
    FakeFixture::new(
        FakeOptions { seed: 1, piece_bytes_max: 97, buffer_bytes: 1000 },
        Path::default()
    )
);

conformance!(
    over_a_slow_line,
    FakeFixture::new(
        FakeOptions::default(),
        Path {
            delay: Duration::from_millis(30),
            bytes_per_second: Some(10 << 20),
            ..Path::default()
        },
    )
);
