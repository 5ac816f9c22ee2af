//! Movers of two nodes that write into each other's memory, and what happens when one of them, or
//! the provider, does not go on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use plasmon_fabric::{Choice, Endpoint};
use plasmon_net::note::{Endpoints, Note, TransferWindow};
use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};
use plasmon_net::tcp::TcpListener;
use plasmon_net::transport::{Destination, Destinations, Received};
use plasmon_net::{BulkLane, FramedBulk};
use plasmon_testkit::{TEST_TIMEOUT, pattern, until};

use super::tests::{
    Bytes, Damaged, End, Memory, accept, accept_into, all, connect, connection, refuse, serve,
};
use super::windows::WINDOW_BYTES_MIN;
use super::*;
use crate::memory::SharedSource;

/// The providers that need no card; `make test-rdma` sets another one, and its address.
fn providers() -> Vec<String> {
    let set = std::env::var("PLASMON_TEST_FABRIC");
    set.unwrap_or_else(|_| "net;shm".to_owned()).split(';').map(str::to_owned).collect()
}

fn address() -> std::net::IpAddr {
    let set = std::env::var("PLASMON_TEST_FABRIC_ADDRESS");
    set.unwrap_or_else(|_| "127.0.0.1".to_owned()).parse().unwrap()
}

/// A node with an endpoint of a provider.
struct Node {
    fabric: Arc<Fabric>,
    end: End,
    /// Bytes that arrived and are not right.
    wrong: Cell<usize>,
}

impl Node {
    fn new(provider: &str, movers: usize) -> Self {
        let choice: Choice = provider.parse().unwrap();
        let fabric = Fabric::open(&choice, Some(address()), false).unwrap();
        assert!(!fabric.endpoints().endpoints.is_empty(), "{}", fabric.status());
        let end = End::with(movers, Some(&fabric));
        Self { fabric, end, wrong: Cell::default() }
    }

    /// Takes the content of a transfer from a peer; whether it is right.
    fn has_got(&self, peer: Slot, transfer: TransferNo, content: &[u8]) -> bool {
        let count = all(content.len())[0].count as usize;
        let arrived = self.end.arrived(transfer, count);
        let memory = &mut refuse(&self.end, peer, transfer);
        let pairs = memory.bytes().iter().zip(content);
        let wrong = pairs.filter(|(found, sent)| found != sent).count();
        self.wrong.set(self.wrong.get() + wrong);
        arrived.iter().all(|(_, intact)| *intact) && memory.bytes() == content
    }
}

impl Drop for Node {
    /// `make test-rdma` adds these lines up.
    fn drop(&mut self) {
        let (bytes, over) = (self.fabric.written_bytes(), self.fabric.status());
        let wrong = self.wrong.get();
        eprintln!("moved {bytes} bytes into windows of another node over {over}, {wrong} wrong");
    }
}

/// A node that encrypts content has no endpoint, and says why; nor has one that wants none.
#[test]
fn content_that_is_encrypted_is_not_written() {
    let fabric = Fabric::open(&"net;shm".parse().unwrap(), Some(address()), true).unwrap();
    assert!(fabric.endpoints().endpoints.is_empty());
    let report = fabric.report();
    assert_eq!((report.providers.as_str(), report.closed), ("", 0));
    assert!(report.refused.contains("pool_encrypt_data"), "{report:?}");
    assert!(Fabric::open(&Choice::Off, Some(address()), false).is_none());
}

/// Runs a test with each provider, where libfabric is installed.
fn with_each(test: impl Fn(&str)) {
    if let Err(error) = plasmon_fabric::installed() {
        eprintln!("skipped: {error}");
        return;
    }
    for provider in providers() {
        eprintln!("with {provider}");
        test(&provider);
    }
}

/// The same with those that can be closed while another endpoint of the process uses them.
fn with_each_that_closes(test: impl Fn(&str)) {
    with_each(|provider| {
        if provider != "shm" {
            test(provider);
        }
    });
}

fn pair(provider: &str, movers: usize) -> (Node, Node) {
    let (zero, one) = (Node::new(provider, movers), Node::new(provider, movers));
    connect(&zero.end, &one.end, 1);
    (zero, one)
}

/// Moves content from one node to the other.
fn move_to(from: (&Node, Slot), to: (&Node, Slot), transfer: TransferNo, content: &[u8]) {
    accept(&to.0.end, from.1, transfer, content.len());
    let source = Arc::new(Bytes(content.to_vec()));
    serve(&from.0.end, to.1, transfer, source, all(content.len()));
    assert!(to.0.has_got(from.1, transfer, content), "{transfer:?}");
}

/// Moves content until it is written on all lanes of both nodes, which then know each other's
/// endpoints. The number of the next transfer.
fn acquaint(zero: &Node, one: &Node, mut next: u64) -> u64 {
    let content = pattern(1, 100_000);
    for (from, to) in [((zero, Slot(0)), (one, Slot(1))), ((one, Slot(1)), (zero, Slot(0)))] {
        let mut lanes = 0;
        until("content is written", || {
            let before = from.0.fabric.written_bytes();
            for _ in 0..BULK_LANES {
                next += 1;
                move_to(from, to, TransferNo(next), &content);
            }
            lanes = u64::from(BULK_LANES) * content.len() as u64;
            from.0.fabric.written_bytes() == before + lanes
        });
    }
    next + 1
}

#[test]
fn large_content_is_written_into_its_place() {
    with_each(|provider| {
        for movers in [1, 3] {
            let (zero, one) = pair(provider, movers);
            let mut next = acquaint(&zero, &one, 0);
            let limit = WINDOW_BYTES_MIN as usize;
            let segment = SEGMENT_BYTES_MAX as usize;
            let sizes = [1, limit - 1, limit, segment, 20 * segment + 17];
            for bytes in sizes {
                let expected = if bytes >= limit { bytes as u64 } else { 0 };
                // A window that does not come in time is not waited for.
                until("content goes its way", || {
                    let before = zero.fabric.written_bytes();
                    let content = pattern(next, bytes);
                    move_to((&zero, Slot(0)), (&one, Slot(1)), TransferNo(next), &content);
                    next += 1;
                    zero.fabric.written_bytes() - before == expected
                });
            }
            let endpoint = zero.fabric.common(&one.fabric.endpoints()).unwrap();
            assert_eq!(endpoint.source_counts().registered > 0, provider == "verbs");
            until("sources are let go", || endpoint.source_counts().open == 0);
        }
    });
}

/// The node asks for content while the store makes memory for it, so that is how a get begins. It
/// used to have its content sent: its window was refused as soon as it was accepted.
#[test]
fn content_is_written_into_memory_that_comes_after_it_was_asked_for() {
    with_each(|provider| {
        let (zero, one) = pair(provider, 1);
        let mut next = acquaint(&zero, &one, 0);
        let content = pattern(3, 300_000);
        let source: SharedSource = Arc::new(Bytes(content.clone()));
        until("content is written into memory that comes later", || {
            let (transfer, before) = (TransferNo(next), zero.fabric.written_bytes());
            next += 1;
            one.end.movers.expect((Slot(0), lane_of(transfer)), transfer);
            serve(&zero.end, Slot(1), transfer, source.clone(), all(content.len()));
            accept(&one.end, Slot(0), transfer, content.len());
            assert!(one.has_got(Slot(0), transfer, &content), "{provider}");
            zero.fabric.written_bytes() - before == content.len() as u64
        });
        // Memory that comes late is not waited for.
        let (transfer, before) = (TransferNo(next), zero.fabric.written_bytes());
        one.end.movers.expect((Slot(0), lane_of(transfer)), transfer);
        serve(&zero.end, Slot(1), transfer, source, all(content.len()));
        let end = Instant::now() + Duration::from_millis(200);
        let left = || end.saturating_duration_since(Instant::now());
        // What came before may be told of now: that does not make this memory come early.
        while let Ok(done) = one.end.done.recv_timeout(left()) {
            assert!(matches!(done, Done::Moving(_)), "{provider}");
        }
        accept(&one.end, Slot(0), transfer, content.len());
        assert!(one.has_got(Slot(0), transfer, &content), "{provider}");
        assert_eq!(zero.fabric.written_bytes(), before, "{provider}");
    });
}

#[test]
fn damage_is_seen_by_the_receiving_side() {
    with_each(|provider| {
        let (zero, one) = pair(provider, 1);
        let transfer = TransferNo(acquaint(&zero, &one, 0));
        let bytes = 100_000;
        accept(&one.end, Slot(0), transfer, bytes);
        let shown = [pattern(1, bytes), pattern(2, bytes)];
        let source = Arc::new(Damaged(shown, AtomicUsize::new(0)));
        serve(&zero.end, Slot(1), transfer, source, all(bytes));
        assert_eq!(one.end.arrived(transfer, 1), [(0, false)]);
        // The receiving node asks another one; nothing is written into the memory any more.
        refuse(&one.end, Slot(0), transfer);
    });
}

/// What was refused in the middle comes back when nothing is being written into it, and stays as it
/// is then.
#[test]
fn memory_that_comes_back_is_not_written_any_more() {
    with_each_that_closes(|provider| {
        let (zero, one) = pair(provider, 2);
        let mut next = acquaint(&zero, &one, 0);
        let bytes = 24 << 20;
        let content: SharedSource = Arc::new(Bytes(pattern(9, bytes)));
        let mut kept = Vec::new();
        for _ in 0..6 {
            let transfer = TransferNo(next);
            accept(&one.end, Slot(0), transfer, bytes);
            serve(&zero.end, Slot(1), transfer, content.clone(), all(bytes));
            one.end.arrived(transfer, 2);
            let mut memory = refuse(&one.end, Slot(0), transfer);
            zero.end.movers.end_serve(Slot(1), transfer);
            memory.bytes().fill(0x77);
            kept.push(memory);
            next += 1;
        }
        // The endpoint goes on.
        let next = acquaint(&zero, &one, next);
        for memory in &mut kept {
            assert!(memory.bytes().iter().all(|byte| *byte == 0x77), "{provider}");
        }
        let content = pattern(next, 3 << 20);
        move_to((&zero, Slot(0)), (&one, Slot(1)), TransferNo(next), &content);
    });
}

/// A peer that is lost may be in the middle of a write: the endpoint is closed before the memory
/// comes back, and another one is opened.
#[test]
fn the_end_of_a_connection_gives_memory_back_and_windows_come_again() {
    with_each_that_closes(|provider| {
        let (zero, one) = pair(provider, 2);
        let next = acquaint(&zero, &one, 0);
        let bytes = 48 << 20;
        let transfer = TransferNo(next);
        accept(&one.end, Slot(0), transfer, bytes);
        let source = Arc::new(Bytes(pattern(9, bytes)));
        serve(&zero.end, Slot(1), transfer, source, all(bytes));
        one.end.arrived(transfer, 2);
        one.end.movers.end_peer(Slot(0));
        let mut memory = refuse(&one.end, Slot(0), transfer);
        memory.bytes().fill(0x66);
        for _ in 0..BULK_LANES {
            while !matches!(zero.end.next(), Done::LaneEnded { .. }) {}
        }
        zero.end.movers.end_peer(Slot(1));
        connect(&zero.end, &one.end, 2);
        acquaint(&zero, &one, next + 1);
        assert!(memory.bytes().iter().all(|byte| *byte == 0x66), "{provider}");
    });
}

/// The other side of a lane, which a test speaks for.
struct Hostile {
    lane: FramedBulk<LaneStream>,
}

struct Nowhere;

impl Destinations for Nowhere {
    fn find(&mut self, _: &Segment) -> Destination<'_> {
        Destination::Discard
    }
}

impl Hostile {
    /// Is node 0 for a node, on the lane of this transfer.
    fn new(node: &Node, transfer: TransferNo, endpoints: Endpoints) -> Self {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let (near, far) = connection(&listener);
        node.end.movers.add((Slot(0), lane_of(transfer)), 1, far);
        let mut hostile = Self { lane: FramedBulk::new(near) };
        hostile.say(&Note::Endpoints(endpoints));
        hostile
    }

    fn say(&mut self, note: &Note) {
        self.lane.queue_note(note).unwrap();
        until("a note is sent", || self.lane.send_notes().unwrap());
    }

    fn next(&mut self) -> Note {
        let mut found = None;
        until("a note comes", || match self.lane.receive(&mut Nowhere).unwrap() {
            Received::Note(note) => {
                found = Some(note);
                true
            }
            _ => false,
        });
        found.unwrap()
    }

    /// The window of a transfer, which the node opens once it has heard of the endpoints.
    fn window(&mut self, node: &Node, transfer: TransferNo, bytes: usize) -> TransferWindow {
        let memory = Box::new(Memory(vec![0x55; bytes], BTreeSet::new()));
        accept_into(&node.end, Slot(0), transfer, memory);
        loop {
            match self.next() {
                Note::Window { transfer: of, window } if of == transfer.0 => return window,
                Note::Endpoints(_) | Note::Stop { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A node that a test speaks for, with the window of its first transfer. The transfer is accepted
/// once the node knows the endpoints of the test, which it shows by answering after them.
fn spoken_for(provider: &str, bytes: usize) -> (Node, Hostile, TransferNo, TransferWindow) {
    let node = Node::new(provider, 1);
    let transfer = TransferNo(10);
    let mut hostile = Hostile::new(&node, transfer, node.fabric.endpoints());
    hostile.say(&Note::Stop { transfer: 3 });
    let answered = |note: &Note| *note == Note::Ended { transfer: 3 };
    while !answered(&hostile.next()) {}
    let window = hostile.window(&node, transfer, bytes);
    (node, hostile, transfer, window)
}

/// A peer that is told to stop, and says nothing, does not keep the memory.
#[test]
fn a_peer_that_does_not_answer_does_not_keep_memory() {
    with_each(|provider| {
        let (node, mut hostile, transfer, window) = spoken_for(provider, 200_000);
        assert_eq!(window.bytes, 200_000);
        let before = node.fabric.endpoints();
        let mut memory = refuse(&node.end, Slot(0), transfer);
        assert!(memory.bytes().iter().all(|byte| *byte == 0x55));
        assert_eq!(hostile.next(), Note::Stop { transfer: transfer.0 });
        // The node tells the peer that the endpoint is gone, and of the next one.
        until("another endpoint is there", || {
            let now = node.fabric.endpoints();
            !now.endpoints.is_empty() && now != before
        });
    });
}

/// A peer that knows a key has no use of it after its transfer has ended, in either way: what it
/// writes fails, or goes nowhere, and others go on.
#[test]
fn a_key_is_worth_nothing_after_its_transfer() {
    with_each(|provider| {
        for is_complete in [true, false] {
            let bytes = 200_000;
            let (node, mut hostile, transfer, window) = spoken_for(provider, bytes);
            let (sender, done) = channel();
            let sink: plasmon_fabric::Sink = Arc::new(move |done| _ = sender.send(done));
            let provider = provider.parse::<Choice>().unwrap().providers()[0];
            let writer = Endpoint::open(provider, Some(address()), sink).unwrap();
            let peer = writer.peer(&node.fabric.endpoints().endpoints[0].name).unwrap();
            let TransferWindow { base, key, bytes: window_bytes, .. } = window;
            let grant = plasmon_fabric::Grant { base, key, bytes: window_bytes };
            let to = plasmon_fabric::Place { peer, window: grant, offset: 0 };
            let content = Arc::new(vec![0x21; bytes]);
            writer.write(to, content.clone(), |content| content.as_slice(), 1).unwrap();
            assert_eq!(done.recv_timeout(TEST_TIMEOUT).unwrap().result, Ok(()));

            let checksum = crc32c::crc32c(&content) ^ u32::from(!is_complete);
            let (transfer_no, number, bytes) = (transfer.0, 0, bytes as u32);
            hostile.say(&Note::Written(Segment {
                transfer: transfer_no,
                number,
                bytes,
                offset: 0,
                checksum,
            }));
            assert_eq!(node.end.arrived(transfer, 1), [(0, is_complete)]);
            if !is_complete {
                hostile.say(&Note::Ended { transfer: transfer.0 });
            }
            let mut memory = refuse(&node.end, Slot(0), transfer);
            memory.bytes().fill(0x77);
            let late = writer.write(to, content, |content| content.as_slice(), 2);
            // Another window is open, so the node looks at what arrives.
            let other = TransferNo(transfer.0 + 2);
            hostile.window(&node, other, 100_000);
            if late.is_ok() {
                let ended = done.recv_timeout(Duration::from_millis(500));
                assert!(ended.is_err() || ended.unwrap().result.is_err(), "it was written");
            }
            writer.close().unwrap();
            assert!(memory.bytes().iter().all(|byte| *byte == 0x77), "{provider}");
        }
    });
}

/// Nothing of what a peer says about windows is believed.
#[test]
fn what_a_peer_says_about_windows_is_checked() {
    with_each(|provider| {
        let bytes = 2 * SEGMENT_BYTES_MAX as usize + 100;
        let (node, mut hostile, transfer, _) = spoken_for(provider, bytes);
        let content = vec![0x55; SEGMENT_BYTES_MAX as usize];
        let good = Segment {
            transfer: transfer.0,
            number: 1,
            bytes: SEGMENT_BYTES_MAX,
            offset: SEGMENT_BYTES_MAX.into(),
            checksum: crc32c::crc32c(&content),
        };
        for bad in [
            Segment { transfer: 11, ..good },
            Segment { number: 0, ..good },
            Segment { offset: u64::MAX, number: u32::MAX, ..good },
            Segment { number: 2, offset: 2 * u64::from(SEGMENT_BYTES_MAX), ..good },
            Segment { number: 9, offset: 9 * u64::from(SEGMENT_BYTES_MAX), ..good },
        ] {
            hostile.say(&Note::Written(bad));
        }
        // It says that it wrote what it did not write.
        hostile.say(&Note::Written(Segment { checksum: good.checksum ^ 1, ..good }));
        assert_eq!(node.end.arrived(transfer, 1), [(1, false)]);
        hostile.say(&Note::Written(good));
        assert_eq!(node.end.arrived(transfer, 1), [(1, true)]);
        // The same again is none, and what it sends after that takes the place of the window.
        hostile.say(&Note::Written(good));
        hostile.say(&Note::Ended { transfer: transfer.0 });
        let part = vec![0x22; 100];
        let offset = 2 * u64::from(SEGMENT_BYTES_MAX);
        let (number, bytes, checksum) = (2, 100, crc32c::crc32c(&part));
        let segment = Segment { number, bytes, offset, checksum, ..good };
        let source = plasmon_net::transport::Source::Memory(&part);
        until("a segment is sent", || {
            hostile.lane.send(&segment, source).unwrap() == plasmon_net::transport::Sent::Whole
        });
        assert_eq!(node.end.arrived(transfer, 1), [(2, true)]);
        let mut memory = refuse(&node.end, Slot(0), transfer);
        assert_eq!(memory.bytes()[offset as usize..], part[..]);
        assert_eq!(*memory.arrived(), BTreeSet::from([1, 2]));
    });
}
