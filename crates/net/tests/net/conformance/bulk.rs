//! Bulk lanes: content, limits, stalls, damage, ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use plasmon_net::segment::{BadSegment, SEGMENT_BYTES_MAX, Segment};
use plasmon_net::transport::{Destination, Destinations, Received, Sent, Source};
use plasmon_net::{BulkLane, Error};
use plasmon_testkit::pattern;

use super::{Fixture, random};

/// The memory of the transfers of a test.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) transfers: BTreeMap<u64, Vec<u8>>,
    pub(crate) stopped: BTreeSet<u64>,
    pub(crate) not_ready: BTreeSet<u64>,
}

impl Memory {
    /// One transfer, number 1, with so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { transfers: [(1, vec![0; bytes])].into(), ..Self::default() }
    }
}

impl Destinations for Memory {
    fn find(&mut self, segment: &Segment) -> Destination<'_> {
        if self.stopped.contains(&segment.transfer) {
            return Destination::Discard;
        }
        if self.not_ready.contains(&segment.transfer) {
            return Destination::Later;
        }
        let memory = self.transfers.get_mut(&segment.transfer);
        memory.map_or(Destination::Unknown, |memory| Destination::Memory(memory))
    }
}

/// The segments of a transfer, number 1, of this content.
pub(crate) fn segments(content: &[u8], bytes: usize) -> Vec<Segment> {
    let parts = content.chunks(bytes).enumerate();
    parts
        .map(|(number, part)| Segment {
            transfer: 1,
            number: number as u32,
            bytes: part.len() as u32,
            offset: (number * bytes) as u64,
            checksum: crc32c::crc32c(part),
        })
        .collect()
}

/// The part of the content that a segment has.
fn part<'a>(content: &'a [u8], segment: &Segment) -> &'a [u8] {
    &content[segment.offset as usize..][..segment.bytes as usize]
}

fn memfd(content: &[u8]) -> File {
    let file: OwnedFd =
        rustix::fs::memfd_create("content", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&file, content, 0).unwrap();
    file.into()
}

/// Sends these segments of the content and receives as many.
fn exchange<F: Fixture>(
    fixture: &mut F,
    lanes: &mut (impl BulkLane, impl BulkLane),
    content: &[u8],
    segments: &[Segment],
    memory: &mut Memory,
) -> Result<Vec<Received>, Error> {
    let (mut outcomes, mut next) = (Vec::new(), 0);
    while outcomes.len() < segments.len() {
        if let Some(segment) = segments.get(next) {
            let sent = lanes.0.send(segment, Source::Memory(part(content, segment)))?;
            next += usize::from(sent == Sent::Whole);
        }
        match lanes.1.receive(memory)? {
            Received::Blocked | Received::Waiting(_) => fixture.wait(),
            outcome => outcomes.push(outcome),
        }
    }
    Ok(outcomes)
}

pub(crate) fn segments_land_in_their_memory(fixture: &mut impl Fixture) {
    let mut random = random();
    let mut lanes = fixture.bulk();
    let content = pattern(random.word(), 50_000);
    let mut memory = Memory::of(content.len());
    let mut parts = segments(&content, 1 + random.size_below(5000));
    // In any order, for a retry names the segments that are missing.
    parts.reverse();
    let outcomes = exchange(fixture, &mut lanes, &content, &parts, &mut memory).unwrap();
    let expected: Vec<Received> = parts.into_iter().map(Received::Segment).collect();
    assert_eq!(outcomes, expected);
    assert!(memory.transfers[&1] == content);
}

pub(crate) fn segments_keep_their_limit(fixture: &mut impl Fixture) {
    let mut lanes = fixture.bulk();
    let content = pattern(5, SEGMENT_BYTES_MAX as usize);
    let mut memory = Memory::of(content.len());
    for bytes in [1, content.len()] {
        let parts = segments(&content[..bytes], bytes);
        exchange(fixture, &mut lanes, &content, &parts, &mut memory).unwrap();
        assert!(memory.transfers[&1][..bytes] == content[..bytes], "{bytes} bytes");
    }
    for bytes in [0, SEGMENT_BYTES_MAX + 1] {
        let segment = Segment { transfer: 1, number: 0, bytes, offset: 0, checksum: 0 };
        let refused = lanes.0.send(&segment, Source::Memory(&vec![0; bytes as usize]));
        let Err(Error::Segment(bad)) = refused else { panic!("{refused:?}") };
        assert_eq!(bad, BadSegment::Length { found: bytes });
    }
    let parts = segments(&content[..9], 9);
    exchange(fixture, &mut lanes, &content, &parts, &mut memory).expect("the lane goes on");
}

/// From a file, in segments of the usual size and one that is shorter.
pub(crate) fn a_large_transfer_is_the_same_on_both_sides(fixture: &mut impl Fixture) {
    let mut random = random();
    let (mut one, mut two) = fixture.bulk();
    let content = pattern(random.word(), 3 * SEGMENT_BYTES_MAX as usize + 12_345);
    let start = random.size_below(9000);
    let file = memfd(&[&vec![0xee; start], &content[..]].concat());
    let mut memory = Memory::of(content.len());
    let mut unsent = segments(&content, SEGMENT_BYTES_MAX as usize);
    let mut landed = 0;
    unsent.reverse();
    while landed < content.len() {
        if let Some(segment) = unsent.last() {
            let offset = start as u64 + segment.offset;
            let source = Source::File { file: file.as_fd(), offset };
            if one.send(segment, source).unwrap() == Sent::Whole {
                unsent.pop();
            }
        }
        match two.receive(&mut memory).unwrap() {
            Received::Segment(segment) => landed += segment.bytes as usize,
            Received::Blocked => fixture.wait(),
            other => panic!("{other:?}"),
        }
    }
    assert!(memory.transfers[&1] == content);
}

pub(crate) fn transfers_of_both_directions_do_not_mix(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.bulk();
    let contents = [pattern(1, 300_000), pattern(2, 300_000)];
    let mut memories = [Memory::of(300_000), Memory::of(300_000)];
    let parts = contents.each_ref().map(|content| segments(content, 70_000));
    let (mut sent, mut landed) = ([0; 2], [0; 2]);
    while landed != [parts[0].len(), parts[1].len()] {
        let mut is_moving = false;
        for (side, lane) in [&mut one, &mut two].into_iter().enumerate() {
            if let Some(segment) = parts[side].get(sent[side]) {
                let source = Source::Memory(part(&contents[side], segment));
                sent[side] += usize::from(lane.send(segment, source).unwrap() == Sent::Whole);
            }
            let arrived = lane.receive(&mut memories[side]).unwrap();
            if matches!(arrived, Received::Segment(_)) {
                landed[1 - side] += 1;
                is_moving = true;
            }
        }
        if !is_moving {
            fixture.wait();
        }
    }
    assert!(memories[0].transfers[&1] == contents[1]);
    assert!(memories[1].transfers[&1] == contents[0]);
}

pub(crate) fn memory_that_is_not_ready_stops_the_lane(fixture: &mut impl Fixture) {
    let mut lanes = fixture.bulk();
    let content = pattern(8, 20_000);
    let parts = segments(&content, 20_000);
    let mut memory = Memory::of(content.len());
    memory.not_ready.insert(1);
    let mut is_sent = false;
    for _ in 0..3 {
        loop {
            let source = Source::Memory(&content);
            is_sent = is_sent || lanes.0.send(&parts[0], source).unwrap() == Sent::Whole;
            match lanes.1.receive(&mut memory).unwrap() {
                Received::Waiting(segment) => break assert_eq!(segment, parts[0]),
                Received::Blocked => fixture.wait(),
                other => panic!("{other:?}"),
            }
        }
    }
    memory.not_ready.clear();
    let outcome = loop {
        let source = Source::Memory(&content);
        is_sent = is_sent || lanes.0.send(&parts[0], source).unwrap() == Sent::Whole;
        match lanes.1.receive(&mut memory).unwrap() {
            Received::Blocked => fixture.wait(),
            outcome => break outcome,
        }
    };
    assert_eq!(outcome, Received::Segment(parts[0]));
    assert!(memory.transfers[&1] == content);
}

pub(crate) fn segments_of_stopped_transfers_are_passed_over(fixture: &mut impl Fixture) {
    let mut lanes = fixture.bulk();
    let content = pattern(9, 100_000);
    let parts = segments(&content, 50_000);
    let late = Segment { transfer: 2, ..parts[0] };
    let mut memory = Memory::of(content.len());
    memory.stopped.insert(2);
    let all = [parts[0], late, parts[1]];
    let outcomes = exchange(fixture, &mut lanes, &content, &all, &mut memory).unwrap();
    let expected =
        [Received::Segment(parts[0]), Received::Discarded(late), Received::Segment(parts[1])];
    assert_eq!(outcomes, expected);
    assert!(memory.transfers[&1] == content);
}

pub(crate) fn damaged_content_is_reported(fixture: &mut impl Fixture) {
    let mut lanes = fixture.bulk();
    let content = pattern(10, 60_000);
    let parts = segments(&content, 30_000);
    let damaged = Segment { checksum: parts[0].checksum ^ 1, ..parts[0] };
    let mut memory = Memory::of(content.len());
    let all = [damaged, parts[1]];
    let outcomes = exchange(fixture, &mut lanes, &content, &all, &mut memory).unwrap();
    assert_eq!(outcomes, [Received::Corrupt(damaged), Received::Segment(parts[1])]);
}

pub(crate) fn a_close_midway_is_seen(fixture: &mut impl Fixture) {
    let content = pattern(11, SEGMENT_BYTES_MAX as usize);
    let parts = segments(&content, content.len());
    for _ in 0..3 {
        let (mut one, mut two) = fixture.bulk();
        let mut memory = Memory::of(content.len());
        while one.send(&parts[0], Source::Memory(&content)).unwrap() != Sent::Blocked {
            // What the transport takes at once is more than a segment: another one.
        }
        one.close();
        let error = loop {
            match two.receive(&mut memory) {
                Ok(Received::Blocked) => fixture.wait(),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Closed { midway: true }), "{error}");
    }
}

pub(crate) fn a_file_that_is_too_short_ends_the_lane(fixture: &mut impl Fixture) {
    let (mut one, _two) = fixture.bulk();
    let content = pattern(12, 500);
    let file = memfd(&content[..499]);
    let parts = segments(&content, 500);
    let error = loop {
        match one.send(&parts[0], Source::File { file: file.as_fd(), offset: 0 }) {
            Ok(Sent::Blocked) => fixture.wait(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::SourceShort), "{error}");
}

pub(crate) fn a_file_without_pages_is_sent_from_memory(fixture: &mut impl Fixture) {
    let mut lanes = fixture.bulk();
    let content = pattern(13, 1000);
    let parts = segments(&content, 1000);
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let source = Source::File { file: reader.as_fd(), offset: 0 };
    while lanes.0.send(&parts[0], source).unwrap() != Sent::NeedsMemory {
        fixture.wait();
    }
    let mut memory = Memory::of(content.len());
    let outcomes = exchange(fixture, &mut lanes, &content, &parts, &mut memory);
    assert_eq!(outcomes.unwrap(), [Received::Segment(parts[0])]);
    assert!(memory.transfers[&1] == content);
}
