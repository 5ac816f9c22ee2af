//! Handshakes over connections.

use std::time::Duration;

use plasmon_net::frame::Class;
use plasmon_net::handshake::{Lane, Local, Peer, ProtocolRange, Purpose, Refusal, Token};
use plasmon_net::transport::Outgoing;
use plasmon_net::{
    Admission, ControlLane, Error, FramedControl, Greeting, HANDSHAKE_TIMEOUT, UNAUTHENTICATED_MAX,
};

use super::{Fixture, local};

const NOW: Duration = Duration::ZERO;

fn purpose(lane: Lane) -> Purpose {
    Purpose { lane, node: Some([2; 16]) }
}

/// Drives both sides until each has ended.
fn greet<F: Fixture>(
    fixture: &mut F,
    one: &mut Greeting<F::Stream>,
    two: &mut Greeting<F::Stream>,
) -> (Result<Peer, Error>, Result<Peer, Error>) {
    let (mut at_one, mut at_two) = (None, None);
    while at_one.is_none() || at_two.is_none() {
        at_one = at_one.or_else(|| one.drive(NOW).transpose());
        at_two = at_two.or_else(|| two.drive(NOW).transpose());
        fixture.wait();
    }
    (at_one.unwrap(), at_two.unwrap())
}

pub(crate) fn both_sides_learn_each_other(fixture: &mut impl Fixture) {
    for lane in [Lane::Control, Lane::Bulk(3)] {
        let (one, two) = fixture.streams();
        let mut one = Greeting::connect(one, local(1, |_| ()), purpose(lane), [1; 32], NOW);
        let mut two = Greeting::accept(two, local(2, |_| ()), [2; 32], NOW);
        let (at_one, at_two) = greet(fixture, &mut one, &mut two);
        let (at_one, at_two) = (at_one.unwrap(), at_two.unwrap());
        assert_eq!((at_one.node.uuid, at_one.lane), ([2; 16], lane));
        assert_eq!((at_two.node.uuid, at_two.lane), ([1; 16], lane));
        let mut lanes =
            (FramedControl::new(one.into_stream()), FramedControl::new(two.into_stream()));
        lanes.0.queue(Outgoing::message(Class::Normal, b"hello")).unwrap();
        lanes.1.queue(Outgoing::message(Class::Normal, b"welcome")).unwrap();
        for (from, to) in [(&mut lanes.0, b"hello" as &[u8]), (&mut lanes.1, b"welcome")] {
            assert!(from.flush().unwrap(), "{to:?}");
        }
        for (lane, expected) in [(&mut lanes.1, b"hello" as &[u8]), (&mut lanes.0, b"welcome")] {
            let found = loop {
                match lane.receive().unwrap() {
                    Some(found) => break found,
                    None => fixture.wait(),
                }
            };
            assert_eq!(found.payload, expected, "the lanes continue where the handshake ended");
        }
    }
}

pub(crate) fn refusals_reach_the_peer(fixture: &mut impl Fixture) {
    let range = ProtocolRange::new(1, 3).unwrap();
    let token = |local: &mut Local| local.token = Token::new(&[0; 32]).unwrap();
    let newer = |local: &mut Local| local.protocols = ProtocolRange::new(4, 4).unwrap();
    for (client, refusal) in
        [(local(1, token), Refusal::Token), (local(1, newer), Refusal::Protocol(range))]
    {
        let (one, two) = fixture.streams();
        let mut one = Greeting::connect(one, client, purpose(Lane::Control), [1; 32], NOW);
        let mut two = Greeting::accept(two, local(2, |_| ()), [2; 32], NOW);
        let (at_one, at_two) = greet(fixture, &mut one, &mut two);
        let (at_one, at_two) = (at_one.unwrap_err(), at_two.unwrap_err());
        assert!(matches!(at_one, Error::RefusedByPeer(found) if found == refusal), "{at_one}");
        assert!(matches!(at_two, Error::Refused(found) if found == refusal), "{at_two}");
    }
    let (one, two) = fixture.streams();
    let mut one = Greeting::connect(one, local(1, |_| ()), purpose(Lane::Control), [1; 32], NOW);
    let mut two = Greeting::accept(two, local(3, |_| ()), [2; 32], NOW);
    let (at_one, at_two) = greet(fixture, &mut one, &mut two);
    assert!(matches!(at_one, Err(Error::Refused(Refusal::Node))), "{at_one:?}");
    assert!(matches!(at_two, Err(Error::RefusedByPeer(Refusal::Node))), "{at_two:?}");
}

pub(crate) fn a_handshake_has_a_deadline(fixture: &mut impl Fixture) {
    let (one, two) = fixture.streams();
    let mut one = Greeting::connect(one, local(1, |_| ()), purpose(Lane::Control), [1; 32], NOW);
    let mut two = Greeting::accept(two, local(2, |_| ()), [2; 32], NOW);
    let end = one.deadline();
    assert_eq!(end, HANDSHAKE_TIMEOUT);
    let before = end - Duration::from_nanos(1);
    assert!(matches!(two.drive(before), Ok(None)), "nothing was sent yet");
    assert!(matches!(two.drive(end), Err(Error::HandshakeTimeout)));
    assert!(matches!(one.drive(before), Ok(None)));
    assert!(matches!(one.drive(end), Err(Error::HandshakeTimeout)), "no answer came");
}

pub(crate) fn connections_without_a_proof_are_limited(fixture: &mut impl Fixture) {
    let mut admission = Admission::new(local(2, |_| ()));
    let mut silent = Vec::new();
    for number in 0..UNAUTHENTICATED_MAX as u64 {
        let (one, two) = fixture.streams();
        assert_eq!(admission.accept(two, [2; 32], NOW).unwrap(), number);
        assert!(admission.drive(number, NOW).is_none(), "it says nothing");
        silent.push(one);
    }
    let (one, two) = fixture.streams();
    let refused = admission.accept(two, [2; 32], NOW);
    assert!(matches!(refused, Err(Error::Refused(Refusal::Busy))), "{refused:?}");
    let mut told = Greeting::accept(one, local(1, |_| ()), [1; 32], NOW);
    let told = loop {
        match told.drive(NOW) {
            Ok(_) => fixture.wait(),
            Err(error) => break error,
        }
    };
    assert!(matches!(told, Error::RefusedByPeer(Refusal::Busy)), "{told}");

    // Their time is over: there is room for one that has a proof.
    assert!(admission.overdue(NOW).is_empty());
    let later = admission.next_deadline().unwrap();
    let overdue = admission.overdue(later);
    assert_eq!(overdue.len(), UNAUTHENTICATED_MAX);
    for number in overdue {
        let ended = admission.drive(number, later);
        assert!(matches!(ended, Some(Err(Error::HandshakeTimeout))), "{ended:?}");
        assert!(admission.drive(number, later).is_none(), "it is over");
    }
    let (one, two) = fixture.streams();
    let number = admission.accept(two, [3; 32], later).unwrap();
    let (lane, node) = (Lane::Bulk(0), local(1, |_| ()));
    let mut one = Greeting::connect(one, node, purpose(lane), [4; 32], later);
    let admitted = loop {
        one.drive(later).unwrap();
        match admission.drive(number, later) {
            Some(admitted) => break admitted.unwrap(),
            None => fixture.wait(),
        }
    };
    assert_eq!((admitted.peer.node.uuid, admitted.peer.lane), ([1; 16], lane));
    assert_eq!(admission.next_deadline(), None);
    assert!(admission.get(number).is_none());
}
