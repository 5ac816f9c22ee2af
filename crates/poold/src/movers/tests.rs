//! Movers of two nodes over real sockets.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_pool::message::SegmentRange;
use plasmon_testkit::{TEST_TIMEOUT, pattern};

use super::*;
use crate::certificates::Certificates;
use crate::clock::now_ms;
use crate::memory::{BoxedLanding, Landing, SharedSource, Source};

pub(super) struct Bytes(pub(super) Vec<u8>);

impl Source for Bytes {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        &self.0[offset as usize..][..bytes]
    }
}

pub(super) struct Memory(pub(super) Vec<u8>, pub(super) BTreeSet<u32>);

impl Landing for Memory {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn arrived(&mut self) -> &mut BTreeSet<u32> {
        &mut self.1
    }
}

/// Shows other bytes the second time, as damaged memory does.
pub(super) struct Damaged(pub(super) [Vec<u8>; 2], pub(super) AtomicUsize);

impl Source for Damaged {
    fn bytes(&self) -> u64 {
        self.0[0].len() as u64
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        let shown = &self.0[self.1.fetch_add(1, Ordering::Relaxed).min(1)];
        &shown[offset as usize..][..bytes]
    }

    /// Each look is another one.
    fn memory(&self) -> &[u8] {
        &[]
    }
}

pub(super) struct End {
    pub(super) movers: Movers,
    pub(super) done: Receiver<Done>,
    /// Memory that came back with its last segment.
    whole: RefCell<BTreeMap<TransferNo, BoxedLanding>>,
}

impl End {
    pub(super) fn new(count: usize) -> Self {
        Self::with(count, None)
    }

    pub(super) fn with(count: usize, fabric: Option<&Arc<Fabric>>) -> Self {
        let (sender, done) = channel();
        let sink: DoneSink = Arc::new(move |done| _ = sender.send(done));
        let movers = Movers::start(count, &sink, fabric).unwrap();
        Self { movers, done, whole: RefCell::default() }
    }

    /// What is done next, other than that content arrives.
    pub(super) fn next(&self) -> Done {
        loop {
            let mut done = self.done.recv_timeout(TEST_TIMEOUT).expect("something is done in time");
            match &mut done {
                Done::Moving(_) => continue,
                Done::Arrived { transfer, memory, .. } => {
                    if let Some(memory) = memory.take() {
                        self.whole.borrow_mut().insert(*transfer, memory);
                    }
                }
                _ => {}
            }
            return done;
        }
    }

    /// Waits until content arrives from a node, before anything else is done.
    fn is_moving(&self, from: Slot) {
        match self.done.recv_timeout(TEST_TIMEOUT) {
            Ok(Done::Moving(slot)) => assert_eq!(slot, from),
            _ => panic!("something else is done first"),
        }
    }

    /// The segments of a transfer that arrived, up to so many.
    pub(super) fn arrived(&self, transfer: TransferNo, count: usize) -> Vec<(u32, bool)> {
        let mut found = Vec::new();
        while found.len() < count {
            match self.next() {
                Done::Arrived { transfer: of, segment, intact, .. } if of == transfer => {
                    found.push((segment, intact));
                }
                Done::Arrived { .. } | Done::Moving(_) => {}
                Done::Returned(of, _) => panic!("{of:?} came back"),
                Done::LaneEnded { id, .. } => panic!("lane {id:?} ended"),
                Done::Failed(error) => panic!("{error}"),
            }
        }
        found
    }
}

/// Both sides of a connection.
pub(super) fn connection(listener: &TcpListener) -> (LaneStream, LaneStream) {
    let (near, far) = sockets(listener);
    (LaneStream::plain(near), LaneStream::plain(far))
}

pub(super) fn sockets(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(listener.address().unwrap()).unwrap();
    let far = loop {
        if let Some((stream, _)) = listener.accept().unwrap() {
            break stream;
        }
    };
    (near, far)
}

/// Two nodes, 0 and 1, with all bulk lanes between them.
fn pair(count: usize) -> (End, End) {
    let (zero, one) = (End::new(count), End::new(count));
    connect(&zero, &one, 1);
    (zero, one)
}

/// Connects all bulk lanes of two nodes.
pub(super) fn connect(zero: &End, one: &End, connection_number: u64) {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    for lane in 0..BULK_LANES {
        let (near, far) = connection(&listener);
        zero.movers.add((Slot(1), lane), connection_number, near);
        one.movers.add((Slot(0), lane), connection_number, far);
    }
}

pub(super) fn all(bytes: usize) -> Vec<SegmentRange> {
    let count = bytes.div_ceil(SEGMENT_BYTES_MAX as usize).max(1) as u32;
    vec![SegmentRange { first: 0, count }]
}

pub(super) fn serve(
    end: &End,
    peer: Slot,
    transfer: TransferNo,
    source: SharedSource,
    ranges: Vec<SegmentRange>,
) {
    end.movers.serve(Serve { peer, transfer, source, ranges });
}

pub(super) fn accept(end: &End, peer: Slot, transfer: TransferNo, bytes: usize) {
    accept_into(end, peer, transfer, Box::new(Memory(vec![0; bytes], BTreeSet::new())));
}

pub(super) fn accept_into(end: &End, peer: Slot, transfer: TransferNo, mut memory: BoxedLanding) {
    let segments = all(memory.bytes().len())[0].count;
    let lane = (peer, lane_of(transfer));
    end.movers.accept(Receive { lane, transfer, segments, memory });
}

/// The memory of a transfer, which is refused if it did not come back with the last segment. That
/// may come at the same time.
pub(super) fn refuse(end: &End, peer: Slot, transfer: TransferNo) -> BoxedLanding {
    let is_refused = !end.whole.borrow().contains_key(&transfer);
    if is_refused {
        end.movers.refuse((peer, lane_of(transfer)), transfer);
    }
    loop {
        if let Some(memory) = end.whole.borrow_mut().remove(&transfer) {
            return memory;
        }
        match end.next() {
            Done::Returned(returned, memory) => {
                assert_eq!(returned, transfer);
                return memory;
            }
            Done::Arrived { .. } | Done::Moving(_) => {}
            Done::LaneEnded { id, .. } => panic!("lane {id:?} ended"),
            Done::Failed(error) => panic!("{error}"),
        }
    }
}

#[test]
fn content_arrives_whole_in_both_directions_at_once() {
    for movers in [1, 3] {
        let (zero, one) = pair(movers);
        let sizes = [1, 1000, SEGMENT_BYTES_MAX as usize, 5 * SEGMENT_BYTES_MAX as usize + 17];
        for (number, bytes) in sizes.into_iter().enumerate() {
            let transfer = TransferNo(number as u64 + 1);
            let (down, up) = (pattern(1, bytes), pattern(2, bytes));
            accept(&one, Slot(0), transfer, bytes);
            accept(&zero, Slot(1), transfer, bytes);
            serve(&zero, Slot(1), transfer, Arc::new(Bytes(down.clone())), all(bytes));
            serve(&one, Slot(0), transfer, Arc::new(Bytes(up.clone())), all(bytes));
            let count = all(bytes)[0].count as usize;
            for (end, peer, expected) in [(&one, Slot(0), down), (&zero, Slot(1), up)] {
                let mut arrived = end.arrived(transfer, count);
                arrived.sort_unstable();
                let segments: Vec<_> = (0..count as u32).map(|segment| (segment, true)).collect();
                assert_eq!(arrived, segments);
                assert!(refuse(end, peer, transfer).bytes() == expected.as_slice());
            }
        }
    }
}

/// Content of an encrypted lane may be here already when its socket shows no event any more.
#[test]
fn content_of_encrypted_lanes_arrives_whole() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let files = crate::certificates::tests::files(folder.path(), "prod", name, 86_400);
        Certificates::read(files, "prod", name, true).unwrap().0.current()
    };
    let (zero, one) = (End::new(1), End::new(1));
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    for lane in 0..BULK_LANES {
        let (near, far) = sockets(&listener);
        let near = LaneStream::connect(near, &read("a")).unwrap();
        zero.movers.add((Slot(1), lane), 1, near);
        one.movers.add((Slot(0), lane), 1, LaneStream::accept(far, Some(read("b"))));
    }
    let large = 40 * SEGMENT_BYTES_MAX as usize + 17;
    let small = 200;
    for number in 0..small {
        accept(&one, Slot(0), TransferNo(number), 1000);
    }
    accept(&one, Slot(0), TransferNo(small), large);
    let content = pattern(1, large);
    serve(&zero, Slot(1), TransferNo(small), Arc::new(Bytes(content.clone())), all(large));
    for number in 0..small {
        let source = Arc::new(Bytes(pattern(number, 1000)));
        serve(&zero, Slot(1), TransferNo(number), source, all(1000));
    }
    let count = small as usize + all(large)[0].count as usize;
    let mut whole = 0;
    while whole < count {
        match one.next() {
            Done::Arrived { intact, .. } => {
                assert!(intact);
                whole += 1;
            }
            Done::LaneEnded { id, .. } => panic!("lane {id:?} ended"),
            _ => {}
        }
    }
    for number in 0..small {
        let mut memory = refuse(&one, Slot(0), TransferNo(number));
        assert!(memory.bytes() == pattern(number, 1000));
    }
    assert!(refuse(&one, Slot(0), TransferNo(small)).bytes() == content.as_slice());
}

#[test]
fn missing_segments_are_sent_alone_and_an_empty_object_is_complete_at_once() {
    let (zero, one) = pair(1);
    let bytes = 4 * SEGMENT_BYTES_MAX as usize;
    let source = Arc::new(Bytes(pattern(3, bytes)));
    let transfer = TransferNo(8);
    accept(&one, Slot(0), transfer, bytes);
    // What lies beyond the end is not there to be sent.
    let range = |first, count| SegmentRange { first, count };
    let ranges = vec![range(1, 1), range(3, 1), range(4, u32::MAX), range(u32::MAX, 2)];
    serve(&zero, Slot(1), transfer, source.clone(), ranges);
    assert_eq!(one.arrived(transfer, 2), [(1, true), (3, true)]);
    let mut memory = refuse(&one, Slot(0), transfer);
    let segment = SEGMENT_BYTES_MAX as usize;
    assert!(memory.bytes()[..segment].iter().all(|byte| *byte == 0));
    assert!(memory.bytes()[segment..2 * segment] == source.0[segment..2 * segment]);

    accept(&one, Slot(0), TransferNo(9), 0);
    assert_eq!(one.arrived(TransferNo(9), 1), [(0, true)]);
}

#[test]
fn damaged_content_is_seen_and_the_lane_goes_on() {
    let (zero, one) = pair(1);
    let transfer = TransferNo(2);
    accept(&one, Slot(0), transfer, 3);
    let damaged = Damaged([vec![1, 2, 3], vec![1, 2, 4]], AtomicUsize::new(0));
    serve(&zero, Slot(1), transfer, Arc::new(damaged), all(3));
    assert_eq!(one.arrived(transfer, 1), [(0, false)]);
    serve(&zero, Slot(1), transfer, Arc::new(Bytes(vec![1, 2, 3])), all(3));
    assert_eq!(one.arrived(transfer, 1), [(0, true)]);
    assert_eq!(refuse(&one, Slot(0), transfer).bytes(), [1, 2, 3]);
}

/// A segment that came a second time was written over the first one. A node that knows the secret
/// could so have damaged a copy whose every segment had been checked.
#[test]
fn a_segment_that_is_here_is_not_written_again() {
    let (zero, one) = pair(1);
    let (first, second) = (TransferNo(2), TransferNo(4));
    let (segment, bytes) = (SEGMENT_BYTES_MAX as usize, SEGMENT_BYTES_MAX as usize + 3);
    let begin = || vec![SegmentRange { first: 0, count: 1 }];
    accept(&one, Slot(0), first, bytes);
    serve(&zero, Slot(1), first, Arc::new(Bytes(pattern(1, bytes))), begin());
    assert_eq!(one.arrived(first, 1), [(0, true)]);
    // Another content, with the right checksum of that.
    serve(&zero, Slot(1), first, Arc::new(Bytes(pattern(2, bytes))), begin());
    assert_eq!(one.arrived(first, 1), [(0, true)]);
    let memory = refuse(&one, Slot(0), first);
    // Nor by another transfer that goes on with the memory; it is told that the segment is here.
    accept_into(&one, Slot(0), second, memory);
    let damaged = Damaged([pattern(3, bytes), pattern(4, bytes)], AtomicUsize::new(0));
    serve(&zero, Slot(1), second, Arc::new(damaged), begin());
    assert_eq!(one.arrived(second, 1), [(0, true)]);
    assert!(refuse(&one, Slot(0), second).bytes()[..segment] == pattern(1, bytes)[..segment]);
}

#[test]
fn a_transfer_waits_for_its_memory_and_one_that_was_refused_is_passed_over() {
    let (zero, one) = pair(1);
    let segment = SEGMENT_BYTES_MAX as usize;
    let (first, second) = (TransferNo(2), TransferNo(4));
    accept(&one, Slot(0), first, segment);
    let memory = refuse(&one, Slot(0), first);
    serve(&zero, Slot(1), first, Arc::new(Bytes(pattern(4, segment))), all(segment));
    // The next one has no memory yet: its lane stands still, and nothing is lost.
    one.movers.expect((Slot(0), lane_of(second)), second);
    serve(&zero, Slot(1), second, Arc::new(Bytes(pattern(5, segment))), all(segment));
    let mut done = std::iter::from_fn(|| one.done.recv_timeout(Duration::from_millis(50)).ok());
    assert!(done.all(|done| matches!(done, Done::Moving(_))), "neither transfer has memory");
    accept_into(&one, Slot(0), second, memory);
    assert_eq!(one.arrived(second, 1), [(0, true)]);
    assert!(refuse(&one, Slot(0), second).bytes() == pattern(5, segment));
}

#[test]
fn a_transfer_that_is_not_known_ends_its_lane() {
    let (zero, one) = pair(1);
    serve(&zero, Slot(1), TransferNo(6), Arc::new(Bytes(vec![1])), all(1));
    assert!(matches!(one.next(), Done::LaneEnded { id: (Slot(0), 0), connection: 1 }));
    assert!(
        matches!(zero.next(), Done::LaneEnded { id: (Slot(1), 0), connection: 1 }),
        "the other side sees it"
    );
}

#[test]
fn a_transfer_that_is_ended_while_it_is_sent_leaves_the_lane_whole() {
    let (zero, one) = pair(1);
    let bytes = 64 * SEGMENT_BYTES_MAX as usize;
    let (ended, next) = (TransferNo(2), TransferNo(4));
    accept(&one, Slot(0), ended, bytes);
    serve(&zero, Slot(1), ended, Arc::new(Bytes(vec![7; bytes])), all(bytes));
    one.arrived(ended, 1);
    zero.movers.end_serve(Slot(1), ended);
    accept(&one, Slot(0), next, 3);
    serve(&zero, Slot(1), next, Arc::new(Bytes(vec![1, 2, 3])), all(3));
    assert_eq!(one.arrived(next, 1), [(0, true)]);
}

#[test]
fn lanes_end_with_their_peer() {
    let (zero, one) = pair(2);
    zero.movers.end_peer(Slot(1));
    let mut ended: Vec<LaneId> = (0..BULK_LANES)
        .map(|_| match one.next() {
            Done::LaneEnded { id, .. } => id,
            _ => panic!("nothing was sent"),
        })
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, [(Slot(0), 0), (Slot(0), 1)]);
}

/// A fault of an earlier state: what a node was asked for before its bulk lane was there, or after
/// the lane had ended, was forgotten, and the asking node noticed that by its timeout.
#[test]
fn what_is_served_without_a_lane_is_sent_when_the_lane_is_there() {
    let (zero, one) = (End::new(1), End::new(1));
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let (ended, first, second) = (TransferNo(2), TransferNo(4), TransferNo(6));
    let source = || Arc::new(Bytes(vec![1, 2, 3]));
    for transfer in [ended, first] {
        accept(&one, Slot(0), transfer, 3);
        serve(&zero, Slot(1), transfer, source(), all(3));
    }
    zero.movers.end_serve(Slot(1), ended);
    let (near, far) = connection(&listener);
    zero.movers.add((Slot(1), 0), 1, near);
    one.movers.add((Slot(0), 0), 1, far);
    assert_eq!(one.arrived(first, 1), [(0, true)]);

    // The connection is replaced: what is served begins again over the next one.
    let bytes = 64 * SEGMENT_BYTES_MAX as usize;
    accept(&one, Slot(0), second, bytes);
    serve(&zero, Slot(1), second, Arc::new(Bytes(pattern(6, bytes))), all(bytes));
    let (near, far) = connection(&listener);
    zero.movers.add((Slot(1), 0), 2, near);
    one.movers.add((Slot(0), 0), 2, far);
    let mut missing = BTreeSet::from_iter(0..64);
    while !missing.is_empty() {
        match one.next() {
            Done::Arrived { transfer, segment, intact, .. } => {
                assert!(transfer == second && intact);
                missing.remove(&segment);
                // What comes twice is not counted twice.
                assert_eq!(one.whole.borrow().contains_key(&second), missing.is_empty());
            }
            // Its end may be seen before the next one comes.
            Done::LaneEnded { connection: 1, .. } => {}
            _ => panic!("the second connection lasts"),
        }
    }
    assert!(refuse(&one, Slot(0), second).bytes() == pattern(6, bytes));
}

#[test]
fn a_peer_cannot_write_into_what_another_one_was_asked_for() {
    let (zero, one) = (End::new(1), End::new(1));
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let (near, far) = connection(&listener);
    zero.movers.add((Slot(1), 0), 1, near);
    one.movers.add((Slot(0), 0), 1, far);
    accept(&one, Slot(2), TransferNo(2), 3);
    serve(&zero, Slot(1), TransferNo(2), Arc::new(Bytes(vec![1, 2, 3])), all(3));
    assert!(matches!(one.next(), Done::LaneEnded { id: (Slot(0), 0), connection: 1 }));
    assert_eq!(refuse(&one, Slot(2), TransferNo(2)).bytes(), [0, 0, 0]);
}

/// A segment that takes long is told of while it arrives, so that its transfer does not count as
/// one that stands still.
#[test]
fn the_parts_of_a_segment_are_told_of_before_it_is_whole() {
    let one = End::new(1);
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let (near, far) = connection(&listener);
    one.movers.add((Slot(0), 0), 1, far);
    let content = pattern(7, 3000);
    accept(&one, Slot(0), TransferNo(2), content.len());
    let segment = Segment {
        transfer: 2,
        number: 0,
        bytes: 3000,
        offset: 0,
        checksum: crc32c::crc32c(&content),
    };
    let bytes = [&segment.encode()[..], &content].concat();
    let mut near = std::net::TcpStream::from(near.as_fd().try_clone_to_owned().unwrap());
    let (parts, last) = bytes.split_at(2048);
    // Each part is told of once the last time is long enough ago.
    for part in parts.chunks(1024) {
        near.write_all(part).unwrap();
        one.is_moving(Slot(0));
        let told = now_ms();
        while now_ms() < told + lane::MOVING_MS {
            std::thread::yield_now();
        }
    }
    near.write_all(last).unwrap();
    assert_eq!(one.arrived(TransferNo(2), 1), [(0, true)]);
}
