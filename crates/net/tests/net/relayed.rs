//! Sockets with a relay between them: what a network does to a link, and what the link says.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::conformance::local;
use crate::relay::Relay;
use plasmon_net::frame::Class;
use plasmon_net::handshake::{Lane, Peer, Purpose};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_net::{BEAT_EVERY, Error, FramedControl, Greeting, HANDSHAKE_TIMEOUT, Link, LinkEvent};
use plasmon_testkit::TEST_TIMEOUT;
use rustix::event::{PollFd, PollFlags, Timespec};

type TcpLink = Link<FramedControl<TcpStream>>;

/// The time that links and handshakes are told: it passes when a test says so.
const START: Duration = Duration::ZERO;

/// Waits until one of the sockets is ready, or for a moment: a relay has threads of its own.
fn wait(started: Instant, sockets: &[&TcpStream]) {
    assert!(started.elapsed() < TEST_TIMEOUT, "nothing happens any more");
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN))
        .collect();
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    rustix::event::poll(&mut polled, Some(&moment)).unwrap();
}

struct Pair {
    relay: Relay,
    one: Greeting<TcpStream>,
    two: Greeting<TcpStream>,
}

/// Two sides that are connected through a relay, before their handshake.
fn connect() -> Pair {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let relay = Relay::start(listener.address().unwrap());
    let purpose = Purpose { lane: Lane::Control, node: Some([2; 16]) };
    let stream = TcpStream::connect(relay.address).unwrap();
    let one = Greeting::connect(stream, local(1, |_| ()), purpose, [1; 32], START);
    let started = Instant::now();
    let stream = loop {
        match listener.accept().unwrap() {
            Some((stream, _)) => break stream,
            None => wait(started, &[]),
        }
    };
    Pair { relay, one, two: Greeting::accept(stream, local(2, |_| ()), [2; 32], START) }
}

fn peer_of(greeting: &mut Greeting<TcpStream>, found: &mut Option<Peer>) {
    if found.is_none() {
        *found = greeting.drive(START).unwrap();
    }
}

/// Two links through a relay.
fn linked() -> (Relay, TcpLink, TcpLink) {
    let Pair { relay, mut one, mut two } = connect();
    let (mut at_one, mut at_two) = (None, None);
    let started = Instant::now();
    while at_one.is_none() || at_two.is_none() {
        peer_of(&mut one, &mut at_one);
        peer_of(&mut two, &mut at_two);
        if at_one.is_none() || at_two.is_none() {
            wait(started, &[one.stream(), two.stream()]);
        }
    }
    let link = |greeting: Greeting<TcpStream>, peer: Option<Peer>| {
        let (stream, peer) = (greeting.into_stream(), peer.unwrap());
        stream.tune(peer.lane).unwrap();
        let mut link = Link::new(FramedControl::new(stream), peer, START);
        assert!(matches!(link.next_event(START), Some(LinkEvent::Up)));
        assert!(matches!(link.next_event(START), Some(LinkEvent::BeatDue)));
        link
    };
    (relay, link(one, at_one), link(two, at_two))
}

/// The next event of a link at this time.
fn event_of(link: &mut TcpLink, now: Duration) -> LinkEvent {
    let started = Instant::now();
    loop {
        match link.next_event(now) {
            Some(event) => return event,
            None => wait(started, &[link.lane().stream()]),
        }
    }
}

#[test]
fn a_reset_takes_both_sides_down() {
    let (relay, mut one, mut two) = linked();
    one.send(Class::Normal, b"before").unwrap();
    assert!(one.next_event(START).is_none());
    let event = event_of(&mut two, START);
    assert!(matches!(event, LinkEvent::Message(Class::Normal, _)), "{event:?}");
    relay.reset();
    for link in [&mut one, &mut two] {
        let event = event_of(link, START);
        let LinkEvent::Down(error) = event else { panic!("{event:?}") };
        assert!(matches!(error, Error::Io(_) | Error::Closed { .. }), "{error}");
        assert!(link.next_event(START).is_none());
    }
}

/// The connections of a machine that hangs stay: only the beats that are missing tell.
#[test]
fn a_half_open_connection_is_slow_and_goes_on_where_it_stopped() {
    let (relay, mut one, mut two) = linked();
    relay.hold();
    one.send(Class::Background, &vec![7; 100_000]).unwrap();
    assert!(one.next_event(START).is_none());
    let later = BEAT_EVERY * 3;
    assert!(matches!(two.next_event(later), Some(LinkEvent::BeatDue)));
    assert!(matches!(two.next_event(later), Some(LinkEvent::Slow)));
    relay.release();
    let mut is_up = false;
    let message = loop {
        match event_of(&mut two, later) {
            LinkEvent::Up => is_up = true,
            LinkEvent::Message(_, message) => break message,
            other => panic!("{other:?}"),
        }
    };
    assert!(message == vec![7; 100_000]);
    assert!(is_up || matches!(event_of(&mut two, later), LinkEvent::Up));
}

#[test]
fn a_handshake_that_hangs_ends_at_its_deadline() {
    let Pair { relay, mut one, mut two } = connect();
    relay.hold();
    let before = HANDSHAKE_TIMEOUT - Duration::from_nanos(1);
    assert!(matches!(one.drive(before), Ok(None)));
    assert!(matches!(two.drive(before), Ok(None)));
    for side in [&mut one, &mut two] {
        assert!(matches!(side.drive(HANDSHAKE_TIMEOUT), Err(Error::HandshakeTimeout)));
    }
}

#[test]
fn an_address_where_no_node_listens_refuses() {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address().unwrap();
    drop(listener);
    let purpose = Purpose { lane: Lane::Control, node: None };
    let started = Instant::now();
    let error = match TcpStream::connect(address) {
        Err(error) => error,
        Ok(stream) => {
            let mut side = Greeting::connect(stream, local(1, |_| ()), purpose, [1; 32], START);
            loop {
                match side.drive(START) {
                    Ok(_) => wait(started, &[side.stream()]),
                    Err(Error::Io(error)) => break error,
                    Err(other) => panic!("{other}"),
                }
            }
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
