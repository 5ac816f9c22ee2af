//! What movers promise of the content that they move, as tests that run over each transport of this
//! machine: TCP, TLS, and windows of each provider of libfabric, where that is installed.
//!
//! `crates/net` has the tests of lanes alone, over its transports whose connections are streams.
//! Over a fabric there are no such: content is written into memory, and notes of a lane tell of it.
//! So its tests begin one step higher.

use std::sync::atomic::AtomicUsize;

use plasmon_net::segment::SEGMENT_BYTES_MAX;
use plasmon_net::tcp::TcpListener;
use plasmon_pool::message::SegmentRange;
use plasmon_testkit::{pattern, until};

use super::tests::{
    Bytes, Damaged, End, accept, accept_into, all, connect, refuse, serve, sockets,
};
use super::*;
use crate::certificates::Certificates;
use crate::memory::{BoxedLanding, SharedSource};

const SEGMENT: usize = SEGMENT_BYTES_MAX as usize;

/// By what content is moved.
#[derive(Clone, Copy)]
enum Transport {
    Tcp,
    Tls,
    /// A provider of libfabric, as the setting calls it.
    Fabric(&'static str),
    /// The provider that is set, where there is a card.
    Card,
}

/// Two nodes, 0 and 1, with all lanes between them.
struct Pair {
    nodes: [End; 2],
    fabrics: Option<[Arc<Fabric>; 2]>,
    next: u64,
}

impl Pair {
    /// The nodes; `None`, which is said, where this machine does not have the transport.
    fn over(transport: Transport) -> Option<Self> {
        match transport {
            Transport::Tcp => {
                let nodes = [End::new(2), End::new(2)];
                connect(&nodes[0], &nodes[1], 1);
                Some(Self { nodes, fabrics: None, next: 1 })
            }
            Transport::Tls => Some(Self::encrypted()),
            Transport::Fabric(provider) => match plasmon_fabric::installed() {
                Ok(_) => Some(Self::with(provider)),
                Err(error) => {
                    eprintln!("skipped: {error}");
                    None
                }
            },
            Transport::Card => match std::env::var("PLASMON_TEST_FABRIC") {
                Ok(provider) => Some(Self::with(&provider)),
                Err(_) => {
                    eprintln!("skipped: no card is set in PLASMON_TEST_FABRIC");
                    None
                }
            },
        }
    }

    fn encrypted() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| {
            let files = crate::certificates::tests::files(folder.path(), "prod", name, 86_400);
            Certificates::read(files, "prod", name, true).unwrap().0.current()
        };
        let nodes = [End::new(2), End::new(2)];
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        for lane in 0..BULK_LANES {
            let (near, far) = sockets(&listener);
            let near = LaneStream::connect(near, &read("a")).unwrap();
            nodes[0].movers.add((Slot(1), lane), 1, near);
            nodes[1].movers.add((Slot(0), lane), 1, LaneStream::accept(far, Some(read("b"))));
        }
        Self { nodes, fabrics: None, next: 1 }
    }

    fn with(provider: &str) -> Self {
        let choice = provider.parse().unwrap();
        let address = std::env::var("PLASMON_TEST_FABRIC_ADDRESS");
        let address = address.map_or([127, 0, 0, 1].into(), |address| address.parse().unwrap());
        let open = || Fabric::open(&choice, Some(address), false).unwrap();
        let fabrics = [open(), open()];
        let nodes = [0, 1].map(|side: usize| End::with(2, Some(&fabrics[side])));
        connect(&nodes[0], &nodes[1], 1);
        let mut pair = Self { nodes, fabrics: Some(fabrics), next: 1 };
        pair.acquaint();
        pair
    }

    /// Moves content until all lanes of both nodes write it: they know each other's endpoints then.
    fn acquaint(&mut self) {
        let bytes = 100_000;
        for from in [0, 1] {
            until("content is written", || {
                let before = self.written(from);
                for _ in 0..BULK_LANES {
                    let transfer = self.transfer();
                    self.move_from(from, transfer, &pattern(1, bytes));
                }
                self.written(from) == before + u64::from(BULK_LANES) * bytes as u64
            });
        }
    }

    fn written(&self, side: usize) -> u64 {
        self.fabrics.as_ref().map_or(0, |fabrics| fabrics[side].written_bytes())
    }

    fn transfer(&mut self) -> TransferNo {
        self.next += 1;
        TransferNo(self.next)
    }

    fn serve(&self, from: usize, transfer: TransferNo, source: SharedSource, bytes: usize) {
        serve(&self.nodes[from], Slot(1 - from as u16), transfer, source, all(bytes));
    }

    fn accept(&self, at: usize, transfer: TransferNo, bytes: usize) {
        accept(&self.nodes[at], Slot(1 - at as u16), transfer, bytes);
    }

    /// The memory of a transfer, once nothing is put there any more.
    fn refuse(&self, at: usize, transfer: TransferNo) -> BoxedLanding {
        refuse(&self.nodes[at], Slot(1 - at as u16), transfer)
    }

    fn move_from(&self, from: usize, transfer: TransferNo, content: &[u8]) {
        self.accept(1 - from, transfer, content.len());
        self.serve(from, transfer, Arc::new(Bytes(content.to_vec())), content.len());
        self.has_arrived(1 - from, transfer, content);
    }

    /// Waits for all segments, and compares.
    fn has_arrived(&self, at: usize, transfer: TransferNo, content: &[u8]) {
        let count = all(content.len())[0].count;
        let mut arrived = self.nodes[at].arrived(transfer, count as usize);
        arrived.sort_unstable();
        let expected: Vec<_> = (0..count).map(|segment| (segment, true)).collect();
        assert_eq!(arrived, expected);
        assert!(self.refuse(at, transfer).bytes() == content);
    }
}

fn content_arrives_whole_in_both_directions_at_once(pair: &mut Pair) {
    for bytes in [1, 70_000, SEGMENT, 9 * SEGMENT + 17] {
        let transfer = pair.transfer();
        let contents = [0, 1].map(|from| pattern(bytes as u64 + from, bytes));
        for at in [0, 1] {
            pair.accept(at, transfer, bytes);
        }
        for from in [0, 1] {
            let source = Arc::new(Bytes(contents[from].clone()));
            pair.serve(from, transfer, source, bytes);
        }
        for at in [0, 1] {
            pair.has_arrived(at, transfer, &contents[1 - at]);
        }
    }
}

fn segments_that_are_missing_come_alone(pair: &mut Pair) {
    let (transfer, bytes) = (pair.transfer(), 4 * SEGMENT);
    let source = Arc::new(Bytes(pattern(3, bytes)));
    pair.accept(1, transfer, bytes);
    let range = |first, count| SegmentRange { first, count };
    let ranges = vec![range(1, 1), range(3, 1), range(4, u32::MAX)];
    serve(&pair.nodes[0], Slot(1), transfer, source.clone(), ranges);
    let mut arrived = pair.nodes[1].arrived(transfer, 2);
    arrived.sort_unstable();
    assert_eq!(arrived, [(1, true), (3, true)]);
    let mut memory = pair.refuse(1, transfer);
    let found = memory.bytes();
    assert!(found[..SEGMENT].iter().all(|byte| *byte == 0));
    assert!(found[SEGMENT..2 * SEGMENT] == source.0[SEGMENT..2 * SEGMENT]);

    // What is here stays as it is when another transfer goes on with the memory, whatever its peer
    // has there; it brings the rest.
    let next = pair.transfer();
    let other = Arc::new(Bytes(pattern(4, bytes)));
    accept_into(&pair.nodes[1], Slot(0), next, memory);
    serve(&pair.nodes[0], Slot(1), next, other.clone(), all(bytes));
    assert_eq!(pair.nodes[1].arrived(next, 4).len(), 4);
    let mut memory = pair.refuse(1, next);
    for (segment, expected) in [(0, &other), (1, &source), (2, &other), (3, &source)] {
        let part = segment * SEGMENT..(segment + 1) * SEGMENT;
        assert!(memory.bytes()[part.clone()] == expected.0[part], "segment {segment}");
    }
}

fn damaged_content_is_seen_and_the_lane_goes_on(pair: &mut Pair) {
    let (transfer, bytes) = (pair.transfer(), 90_000);
    pair.accept(1, transfer, bytes);
    let damaged = Damaged([pattern(1, bytes), pattern(2, bytes)], AtomicUsize::new(0));
    pair.serve(0, transfer, Arc::new(damaged), bytes);
    assert_eq!(pair.nodes[1].arrived(transfer, 1), [(0, false)]);
    pair.refuse(1, transfer);
    let next = pair.transfer();
    pair.move_from(0, next, &pattern(5, bytes));
}

fn memory_that_is_not_here_is_waited_for(pair: &mut Pair) {
    let (transfer, bytes) = (pair.transfer(), 3 * SEGMENT);
    let content = pattern(6, bytes);
    pair.nodes[1].movers.expect((Slot(0), lane_of(transfer)), transfer);
    pair.serve(0, transfer, Arc::new(Bytes(content.clone())), bytes);
    pair.accept(1, transfer, bytes);
    pair.has_arrived(1, transfer, &content);
}

fn memory_that_came_back_stays_as_it_is(pair: &mut Pair) {
    let bytes = 12 * SEGMENT;
    let source: SharedSource = Arc::new(Bytes(pattern(7, bytes)));
    let mut kept = Vec::new();
    for _ in 0..4 {
        let transfer = pair.transfer();
        pair.accept(1, transfer, bytes);
        pair.serve(0, transfer, source.clone(), bytes);
        pair.nodes[1].arrived(transfer, 1);
        let mut memory = pair.refuse(1, transfer);
        pair.nodes[0].movers.end_serve(Slot(1), transfer);
        memory.bytes().fill(0x77);
        kept.push(memory);
    }
    let next = pair.transfer();
    pair.move_from(0, next, &pattern(8, 2 * SEGMENT));
    for memory in &mut kept {
        assert!(memory.bytes().iter().all(|byte| *byte == 0x77));
    }
}

fn the_end_of_a_peer_gives_memory_back(pair: &mut Pair) {
    let (transfer, bytes) = (pair.transfer(), 24 * SEGMENT);
    pair.accept(1, transfer, bytes);
    pair.serve(0, transfer, Arc::new(Bytes(pattern(9, bytes))), bytes);
    pair.nodes[1].arrived(transfer, 1);
    pair.nodes[1].movers.end_peer(Slot(0));
    let mut memory = pair.refuse(1, transfer);
    memory.bytes().fill(0x66);
    for _ in 0..BULK_LANES {
        while !matches!(pair.nodes[0].next(), Done::LaneEnded { .. }) {}
    }
    pair.nodes[0].movers.end_peer(Slot(1));
    connect(&pair.nodes[0], &pair.nodes[1], 2);
    let next = pair.transfer();
    pair.move_from(0, next, &pattern(10, 2 * SEGMENT));
    assert!(memory.bytes().iter().all(|byte| *byte == 0x66));
}

/// Runs tests over a transport, where this machine has it.
macro_rules! over {
    ($name:ident, $transport:expr, $($test:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    if let Some(mut pair) = Pair::over($transport) {
                        super::$test(&mut pair);
                    }
                }
            )*
        }
    };
    ($name:ident, $transport:expr) => {
        over!($name, $transport,
            content_arrives_whole_in_both_directions_at_once segments_that_are_missing_come_alone
            damaged_content_is_seen_and_the_lane_goes_on memory_that_is_not_here_is_waited_for
            memory_that_came_back_stays_as_it_is the_end_of_a_peer_gives_memory_back);
    };
}

over!(tcp, Transport::Tcp);
over!(tls, Transport::Tls);
over!(net, Transport::Fabric("net"));
over!(card, Transport::Card);
// Within one process shared memory does not outlive the first of two endpoints. Of two processes
// `crates/fabric` tests what becomes of memory.
over!(shm, Transport::Fabric("shm"),
    content_arrives_whole_in_both_directions_at_once segments_that_are_missing_come_alone
    damaged_content_is_seen_and_the_lane_goes_on memory_that_is_not_here_is_waited_for);
