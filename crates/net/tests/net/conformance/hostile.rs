//! What a peer sends that breaks the rules ends its lane and nothing else.

use std::time::Duration;

use plasmon_net::frame::{self, Class, FIRST_SEQUENCE, FrameInfo, Kind};
use plasmon_net::segment::{BadSegment, Segment};
use plasmon_net::transport::{Outgoing, Received};
use plasmon_net::{
    BulkLane, ControlLane, Error, FramedBulk, FramedControl, Greeting, HANDSHAKE_TIMEOUT, Stream,
};
use plasmon_testkit::{Random, pattern};

use super::bulk::Memory;
use super::{Fixture, local, random};

/// How many peers break the rules in one test.
const PEERS: usize = 20;

/// Sends bytes that are no part of any protocol, or begin like it.
pub(crate) fn send_all<F: Fixture>(fixture: &mut F, stream: &mut F::Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.send(bytes, false) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => fixture.wait(),
        }
    }
}

fn garbage(random: &mut Random, beginning: &[u8]) -> Vec<u8> {
    let kept = random.size_below(beginning.len() + 1);
    let bytes = 64 + random.size_below(400);
    [&beginning[..kept], &pattern(random.word(), bytes)].concat()
}

fn message(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = FrameInfo { kind: Kind::Message, class: Class::Normal, sequence };
    frame::encode(info, payload, &mut bytes);
    bytes
}

/// What a lane ends with.
pub(crate) fn end_of<F: Fixture>(
    fixture: &mut F,
    mut receive: impl FnMut() -> Result<bool, Error>,
) -> Error {
    loop {
        match receive() {
            Ok(true) => {}
            Ok(false) => fixture.wait(),
            Err(error) => return error,
        }
    }
}

pub(crate) fn garbage_ends_a_control_lane_and_no_other(fixture: &mut impl Fixture) {
    let mut random = random();
    let (mut one, mut two) = fixture.control();
    for _ in 0..PEERS {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = FramedControl::new(victim);
        let bytes = garbage(&mut random, &message(FIRST_SEQUENCE, b"abc"));
        send_all(fixture, &mut hostile, &bytes);
        hostile.close();
        let error = end_of(fixture, || Ok(victim.receive()?.is_some()));
        assert!(matches!(error, Error::Frame(_) | Error::Closed { .. }), "{error}");
        assert!(victim.receive().is_err(), "it stays ended");
    }
    one.queue(Outgoing::message(Class::Normal, b"still here")).unwrap();
    while !one.flush().unwrap() {
        fixture.wait();
    }
    let found = loop {
        match two.receive().unwrap() {
            Some(found) => break found,
            None => fixture.wait(),
        }
    };
    assert_eq!(found.payload, b"still here");
}

pub(crate) fn garbage_ends_a_bulk_lane_and_no_other(fixture: &mut impl Fixture) {
    let mut random = random();
    let segment = Segment { transfer: 1, number: 0, bytes: 50, offset: 0, checksum: 0 };
    let mut memory = Memory::of(50);
    for _ in 0..PEERS {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = FramedBulk::new(victim);
        send_all(fixture, &mut hostile, &garbage(&mut random, &segment.encode()));
        hostile.close();
        let error = end_of(fixture, || Ok(victim.receive(&mut memory)? != Received::Blocked));
        assert!(matches!(error, Error::Segment(_) | Error::Closed { .. }), "{error}");
    }
    super::bulk::segments_land_in_their_memory(fixture);
}

pub(crate) fn segments_that_fit_nowhere_end_the_lane(fixture: &mut impl Fixture) {
    let good = Segment { transfer: 1, number: 0, bytes: 10, offset: 0, checksum: 0 };
    let unknown = Segment { transfer: 7, ..good };
    let beyond = Segment { offset: 1, ..good };
    let far = Segment { offset: u64::MAX, ..good };
    let bounds = |offset| BadSegment::Bounds { offset, bytes: 10, memory_bytes: 10 };
    for (segment, expected) in [
        (unknown, BadSegment::Transfer { transfer: 7 }),
        (beyond, bounds(1)),
        (far, bounds(u64::MAX)),
    ] {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = FramedBulk::new(victim);
        let mut memory = Memory::of(10);
        send_all(fixture, &mut hostile, &[&segment.encode()[..], &[0xff; 10]].concat());
        let error = end_of(fixture, || Ok(victim.receive(&mut memory)? != Received::Blocked));
        let Error::Segment(bad) = error else { panic!("{error}") };
        assert_eq!(bad, expected);
        assert_eq!(memory.transfers[&1], [0; 10], "nothing was written");
    }
}

pub(crate) fn garbage_ends_a_handshake(fixture: &mut impl Fixture) {
    let mut random = random();
    for _ in 0..PEERS {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = Greeting::accept(victim, local(2, |_| ()), [2; 32], Duration::ZERO);
        let mut hello = Vec::new();
        let info = FrameInfo { kind: Kind::Hello, class: Class::Urgent, sequence: 0 };
        frame::encode(info, &pattern(random.word(), random.clone().size_below(200)), &mut hello);
        let bytes = garbage(&mut random, &hello);
        send_all(fixture, &mut hostile, &bytes);
        hostile.close();
        let error = end_of(fixture, || Ok(victim.drive(HANDSHAKE_TIMEOUT / 2)?.is_some()));
        let is_expected =
            matches!(error, Error::Frame(_) | Error::NotAHandshake | Error::Closed { .. });
        assert!(is_expected, "{error}");
    }
}

pub(crate) fn a_frame_that_is_damaged_on_the_way_ends_the_lane(fixture: &mut impl Fixture) {
    let mut random = random();
    let good = message(FIRST_SEQUENCE, b"good");
    for _ in 0..PEERS {
        let (mut hostile, victim) = fixture.streams();
        let mut victim = FramedControl::new(victim);
        let mut damaged = message(FIRST_SEQUENCE + 1, &pattern(1, 300));
        let at = random.size_below(damaged.len());
        damaged[at] ^= 1 << random.below(8);
        send_all(fixture, &mut hostile, &[&good[..], &damaged].concat());
        let mut found = Vec::new();
        let error = end_of(fixture, || {
            let incoming = victim.receive()?;
            let is_some = incoming.is_some();
            found.extend(incoming.map(|incoming| incoming.payload));
            Ok(is_some)
        });
        assert!(matches!(error, Error::Frame(_)), "byte {at}: {error}");
        assert_eq!(found, [b"good"], "what came before is delivered");
    }
}
