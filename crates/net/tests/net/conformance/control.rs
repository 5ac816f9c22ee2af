//! Control lanes: order, urgency, limits, ends.

use plasmon_net::frame::{Class, HEADER_BYTES, MESSAGE_BYTES_MAX};
use plasmon_net::transport::{Incoming, NotQueued, Outgoing, QUEUE_BYTES_MAX};
use plasmon_net::{ControlLane, Error};
use plasmon_testkit::pattern;

use super::{Fixture, random};

/// Sends what is queued and receives until there are so many messages.
fn exchange(
    fixture: &mut impl Fixture,
    from: &mut impl ControlLane,
    to: &mut impl ControlLane,
    count: usize,
) -> Vec<Incoming> {
    let mut found = Vec::new();
    while found.len() < count {
        from.flush().unwrap();
        match to.receive().unwrap() {
            Some(incoming) => found.push(incoming),
            None => fixture.wait(),
        }
    }
    found
}

fn message(class: Class, payload: &[u8]) -> Incoming {
    Incoming { class, is_beat: false, payload: payload.to_vec() }
}

pub(crate) fn messages_arrive_in_order_of_their_class(fixture: &mut impl Fixture) {
    let mut random = random();
    let (mut one, mut two) = fixture.control();
    let messages: Vec<Incoming> = (0..200)
        .map(|_| {
            let bytes = random.size_below(3000);
            let class = random.pick(&Class::ALL);
            let payload = pattern(random.word(), bytes);
            Incoming { class, is_beat: class == Class::Urgent && random.percent(50), payload }
        })
        .collect();
    for Incoming { class, is_beat, payload } in &messages {
        one.queue(Outgoing { class: *class, is_beat: *is_beat, payload }).unwrap();
        if random.percent(10) {
            one.flush().unwrap();
        }
    }
    let found = exchange(fixture, &mut one, &mut two, messages.len());
    for class in Class::ALL {
        let of_class = |all: &[Incoming]| -> Vec<Incoming> {
            all.iter().filter(|incoming| incoming.class == class).cloned().collect()
        };
        assert_eq!(of_class(&found), of_class(&messages), "{class:?}");
    }
    assert!(two.received_bytes() > 0);
}

pub(crate) fn messages_keep_their_limit(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    let longest = pattern(1, MESSAGE_BYTES_MAX);
    for payload in [&longest[..], &[], &longest[..1], &longest[..]] {
        one.queue(Outgoing::message(Class::Normal, payload)).unwrap();
        let found = exchange(fixture, &mut one, &mut two, 1);
        assert!(found == [message(Class::Normal, payload)], "{} bytes", payload.len());
    }
    let longer = [&longest[..], &[0]].concat();
    let refused = one.queue(Outgoing::message(Class::Normal, &longer));
    assert_eq!(refused, Err(NotQueued::Long { found: MESSAGE_BYTES_MAX + 1 }));
    one.queue(Outgoing::beat(b"alive")).unwrap();
    let found = exchange(fixture, &mut one, &mut two, 1);
    assert!(found[0].is_beat, "the lane goes on");
}

pub(crate) fn queues_keep_their_limit(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    let quarter = vec![7; QUEUE_BYTES_MAX / 4 - HEADER_BYTES];
    for _ in 0..4 {
        one.queue(Outgoing::message(Class::Normal, &quarter)).unwrap();
    }
    let refused = one.queue(Outgoing::message(Class::Normal, &[]));
    assert_eq!(refused, Err(NotQueued::Full { queued_bytes: QUEUE_BYTES_MAX }));
    one.queue(Outgoing::message(Class::Urgent, b"urgent")).unwrap();
    let found = exchange(fixture, &mut one, &mut two, 5);
    assert_eq!(found[0], message(Class::Urgent, b"urgent"), "each class has room of its own");
    one.queue(Outgoing::message(Class::Normal, &[])).unwrap();
    exchange(fixture, &mut one, &mut two, 1);
}

pub(crate) fn urgent_messages_overtake(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    let large = vec![1; 100_000];
    for class in [Class::Background, Class::Normal, Class::Background, Class::Urgent] {
        one.queue(Outgoing::message(class, &large)).unwrap();
    }
    let found = exchange(fixture, &mut one, &mut two, 4);
    let classes: Vec<Class> = found.iter().map(|incoming| incoming.class).collect();
    let expected = [Class::Urgent, Class::Normal, Class::Background, Class::Background];
    assert_eq!(classes, expected);
}

pub(crate) fn a_peer_that_does_not_read_blocks_its_sender(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    let payload = pattern(3, 100_000);
    let mut queued = 0;
    let refused = loop {
        match one.queue(Outgoing::message(Class::Normal, &payload)) {
            Ok(()) => queued += 1,
            Err(refused) if !one.flush().unwrap() => break refused,
            Err(_) => {}
        }
    };
    assert!(matches!(refused, NotQueued::Full { .. }));
    let found = exchange(fixture, &mut one, &mut two, queued);
    assert!(found.iter().all(|incoming| incoming.payload == payload));
    assert!(one.flush().unwrap(), "everything is sent");
    assert_eq!(two.receive().unwrap(), None);
}

pub(crate) fn both_directions_at_once(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    let payloads: Vec<Vec<u8>> = (0..30).map(|seed| pattern(seed, 40_000)).collect();
    for payload in &payloads {
        one.queue(Outgoing::message(Class::Normal, payload)).unwrap();
        two.queue(Outgoing::message(Class::Normal, payload)).unwrap();
    }
    let (mut at_one, mut at_two) = (Vec::new(), Vec::new());
    while at_one.len() < payloads.len() || at_two.len() < payloads.len() {
        one.flush().unwrap();
        two.flush().unwrap();
        let arrived = (one.receive().unwrap(), two.receive().unwrap());
        if arrived == (None, None) {
            fixture.wait();
        }
        at_one.extend(arrived.0.map(|incoming| incoming.payload));
        at_two.extend(arrived.1.map(|incoming| incoming.payload));
    }
    assert!(at_one == payloads && at_two == payloads);
}

pub(crate) fn what_was_sent_before_a_close_arrives(fixture: &mut impl Fixture) {
    let (mut one, mut two) = fixture.control();
    one.queue(Outgoing::message(Class::Normal, b"last words")).unwrap();
    while !one.flush().unwrap() {
        fixture.wait();
    }
    one.close();
    let error = loop {
        match two.receive() {
            Ok(Some(found)) => assert_eq!(found, message(Class::Normal, b"last words")),
            Ok(None) => fixture.wait(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Closed { midway: false }), "{error}");
}

pub(crate) fn many_lanes_at_once(fixture: &mut impl Fixture) {
    const LANES: usize = 64;
    let mut random = random();
    let mut lanes: Vec<_> = (0..LANES).map(|_| fixture.control()).collect();
    let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); LANES];
    let mut found = expected.clone();
    for _ in 0..500 {
        let lane = random.size_below(LANES);
        let bytes = random.size_below(5000);
        let payload = pattern(random.word(), bytes);
        lanes[lane].0.queue(Outgoing::message(Class::Normal, &payload)).unwrap();
        expected[lane].push(payload);
    }
    while found != expected {
        let mut arrived = 0;
        for ((one, two), found) in lanes.iter_mut().zip(&mut found) {
            one.flush().unwrap();
            while let Some(incoming) = two.receive().unwrap() {
                found.push(incoming.payload);
                arrived += 1;
            }
        }
        if arrived == 0 {
            fixture.wait();
        }
    }
}
