//! Endpoints of the providers that this machine has, in one process and between two.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests, although much of it is no #[test]"
)]

mod child;
mod processes;
mod sources;
mod windows;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use plasmon_fabric::{Choice, Completion, Endpoint, Error, Provider, Window, installed};

/// Longer than anything here takes.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// The providers that need no card.
const SOFTWARE: &str = "net;shm";

/// What is set to others, where there is a card.
const PROVIDERS: &str = "PLASMON_TEST_FABRIC";

/// The address of that card.
const ADDRESS: &str = "PLASMON_TEST_FABRIC_ADDRESS";

/// Where endpoints are opened.
pub(crate) fn address() -> IpAddr {
    let address = std::env::var(ADDRESS).unwrap_or_else(|_| "127.0.0.1".to_owned());
    address.parse().unwrap()
}

/// An endpoint, and what becomes of its writes.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    done: Receiver<Completion>,
}

impl Side {
    pub(crate) fn open(provider: Provider) -> Result<Self, Error> {
        let (sender, done) = channel();
        let address = Some(address());
        let sink = Arc::new(move |completion| _ = sender.send(completion));
        Ok(Self { endpoint: Endpoint::open(provider, address, sink)?, done })
    }

    /// The next write that ended.
    pub(crate) fn next(&self) -> Completion {
        self.done.recv_timeout(WITHIN).expect("a write ends")
    }

    /// The next write that ended within this time.
    pub(crate) fn next_within(&self, time: Duration) -> Option<Completion> {
        self.done.recv_timeout(time).ok()
    }

    pub(crate) fn window(&self, memory: Vec<u8>) -> Window<Vec<u8>> {
        let opened = self.endpoint.open_window(Box::new(memory), Vec::as_mut_slice);
        opened.map_err(|(_, error)| error).expect("memory is opened")
    }
}

/// Runs a test with each provider, where libfabric is installed.
pub(crate) fn with_each(test: impl Fn(Provider)) {
    if let Err(error) = installed() {
        eprintln!("skipped: {error}");
        return;
    }
    let choice = std::env::var(PROVIDERS).unwrap_or_else(|_| SOFTWARE.to_owned());
    for provider in choice.parse::<Choice>().unwrap().providers() {
        eprintln!("with {provider}");
        test(*provider);
    }
}
