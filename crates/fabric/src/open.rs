//! Opening what a node is to have, with a test of each provider before it is used.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use plasmon_proto::fabric::{Choice, Provider};

use crate::endpoint::{Endpoint, Peer, Place};
use crate::error::Error;
use crate::library::installed;
use crate::queue::Completion;
use crate::shared::Sink;
use crate::window::Grant;

/// How long opening and testing a provider may take.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// How long one write of the test may take.
const WRITE_WITHIN: Duration = Duration::from_secs(4);

/// How long a write into a window that is closed may take to fail, or to show that it does not.
const REFUSED_WITHIN: Duration = Duration::from_millis(250);

/// Bytes of the window of the test: no whole number of pages.
const TEST_BYTES: usize = 4 * 4096 + 1234;

/// What is written in it, by where it begins and its length: a byte, across pages, and up to the
/// end. Between them is what must stay as it is.
const TEST_WRITES: [(usize, usize); 3] = [(0, 1), (4000, 9000), (TEST_BYTES - 77, 77)];

/// What the window has before.
const UNTOUCHED: u8 = 0xa5;

/// What was opened.
#[derive(Debug, Default)]
pub struct Opened {
    /// The endpoints: one at most that reaches other machines, and one at most within this one.
    pub endpoints: Vec<Endpoint>,
    /// The providers that were tried and cannot be used, and why.
    pub refused: Vec<(Provider, Error)>,
}

/// Opens the best provider of a choice that works and reaches other machines, and the one within
/// this machine if it is chosen and works, at an address of this machine. What is opened has passed
/// a test: bytes were written into memory of this process, and were right.
///
/// A provider that does not answer is given up after ten seconds, with its thread.
pub fn open(choice: &Choice, address: Option<IpAddr>, sink: &Sink) -> Opened {
    let mut opened = Opened::default();
    for provider in choice.providers().iter().copied() {
        let is_same =
            |other: &Endpoint| other.provider().reaches_machines() == provider.reaches_machines();
        if opened.endpoints.iter().any(is_same) {
            continue;
        }
        match installed().and_then(|_| open_one(provider, address, sink.clone())) {
            Ok(endpoint) => opened.endpoints.push(endpoint),
            Err(error) => opened.refused.push((provider, error)),
        }
    }
    opened
}

/// Opens and tests a provider, in a thread that is left alone when it does not end in time.
pub(crate) fn open_one(
    provider: Provider,
    address: Option<IpAddr>,
    sink: Sink,
) -> Result<Endpoint, Error> {
    let failed = |reason: String| Error::SelfTest { provider: provider.to_string(), reason };
    let (sender, receiver) = channel();
    let run = move || {
        let opened = Endpoint::open(provider, address, sink);
        let tested = opened.and_then(|endpoint| test(endpoint, address));
        // After its time nothing waits for it any more.
        let _ = sender.send(tested);
    };
    let name = format!("pool-test-{provider}");
    let started = std::thread::Builder::new().name(name).spawn(run);
    started.map_err(|error| failed(error.to_string()))?;
    let in_time = receiver.recv_timeout(OPEN_WITHIN);
    in_time.unwrap_or_else(|_| Err(failed(format!("it does not answer within {OPEN_WITHIN:?}"))))
}

/// Writes into windows of this endpoint from another one, and looks at the bytes.
fn test(endpoint: Endpoint, address: Option<IpAddr>) -> Result<Endpoint, Error> {
    let (sender, done) = channel();
    let writer = Endpoint::open(
        endpoint.provider(),
        address,
        Arc::new(move |completion| _ = sender.send(completion)),
    )?;
    let peer = writer.peer(endpoint.name())?;
    let test = Test { endpoint, writer, done, peer };
    let (test, grant, memory) = test.open_window()?;
    test.closed_window(grant, memory)
}

/// The endpoint that is tested, and one that writes to it.
struct Test {
    endpoint: Endpoint,
    writer: Endpoint,
    done: Receiver<Completion>,
    peer: Peer,
}

impl Test {
    fn failed(&self, reason: String) -> Error {
        Error::SelfTest { provider: self.endpoint.provider_name().to_owned(), reason }
    }

    /// What is written into an open window is there, and nothing else is. The memory of the window,
    /// which is closed, and what it was written with.
    fn open_window(self) -> Result<(Self, Grant, Vec<u8>), Error> {
        let memory = Box::new(vec![UNTOUCHED; TEST_BYTES]);
        let opened = self.endpoint.open_window(memory, Vec::as_mut_slice);
        let window = opened.map_err(|(_, error)| error)?;
        let grant = window.grant();
        let source: Arc<Vec<u8>> = Arc::new((0..TEST_BYTES).map(|at| at as u8 ^ 0x5a).collect());
        for (token, (start, bytes)) in TEST_WRITES.into_iter().enumerate() {
            let to = Place { peer: self.peer, window: grant, offset: start as u64 };
            let part = start..start + bytes;
            self.writer.write(to, source.clone(), |source| &source[part], token as u64)?;
        }
        if let Err(reason) = await_writes(&self.done) {
            let error = self.failed(reason);
            // What is under way has an end only with both of them, and within one process shared
            // memory does not outlive the first one: they stay, and do nothing any more.
            std::mem::forget((self, window));
            return Err(error);
        }
        let memory = *window.close()?;
        for (at, (found, sent)) in memory.iter().zip(source.iter()).enumerate() {
            let is_in = |(start, bytes): &(usize, usize)| (*start..start + bytes).contains(&at);
            let expected = if TEST_WRITES.iter().any(is_in) { *sent } else { UNTOUCHED };
            if *found != expected {
                let reason = format!("byte {at} is {found:#04x} instead of {expected:#04x}");
                return Err(self.failed(reason));
            }
        }
        Ok((self, grant, memory))
    }

    /// A window that is closed is not written, though its key is known.
    fn closed_window(self, grant: Grant, memory: Vec<u8>) -> Result<Endpoint, Error> {
        let before = memory.clone();
        let to = Place { peer: self.peer, window: grant, offset: 0 };
        // Another window, so that the endpoint looks at what arrives.
        let other = Box::new(vec![UNTOUCHED; 1]);
        let opened = self.endpoint.open_window(other, Vec::as_mut_slice);
        let other = opened.map_err(|(_, error)| error)?;
        let source: Arc<Vec<u8>> = Arc::new(before.iter().map(|byte| !byte).collect());
        self.writer.write(to, source, |source| source.as_slice(), 0)?;
        // It fails, or the provider says nothing until the end of the endpoint.
        let ended = self.done.recv_timeout(REFUSED_WITHIN);
        let is_done = ended.is_ok_and(|completion| completion.result.is_ok());
        self.writer.close()?;
        drop(other.close()?);
        if is_done || *std::hint::black_box(&memory) != before {
            let error = self.failed(String::from("a window that is closed is written"));
            if self.endpoint.close().is_err() {
                std::mem::forget(memory);
            }
            return Err(error);
        }
        Ok(self.endpoint)
    }
}

fn await_writes(done: &Receiver<Completion>) -> Result<(), String> {
    for _ in TEST_WRITES {
        match done.recv_timeout(WRITE_WITHIN) {
            Ok(Completion { result: Ok(()), .. }) => {}
            Ok(Completion { result: Err(error), .. }) => return Err(error.to_string()),
            Err(_) => return Err(format!("a write does not end within {WRITE_WITHIN:?}")),
        }
    }
    Ok(())
}
