//! Links over the fake network: when a peer is up, slow and down, second by second.

use std::time::Duration;

use crate::conformance::local;
use plasmon_net::fake::{FakeNet, FakeNode, FakeOptions, FakeStream, Path};
use plasmon_net::frame::Class;
use plasmon_net::handshake::{Lane, Peer};
use plasmon_net::{Error, FramedControl, Link, LinkEvent, Stream};

const ONE: FakeNode = FakeNode(1);
const TWO: FakeNode = FakeNode(2);

type FakeLink = Link<FramedControl<FakeStream>>;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn streams(net: &FakeNet) -> (FakeStream, FakeStream) {
    net.listen(TWO);
    let one = net.connect(ONE, TWO).unwrap();
    (one, net.accept(TWO).unwrap().0)
}

fn link(stream: FakeStream, peer: u8, now: Duration) -> FakeLink {
    let node = local(peer, |_| ()).node;
    let peer = Peer { node, lane: Lane::Control, protocol: 1 };
    Link::new(FramedControl::new(stream), peer, now)
}

/// What happens on a link now, in words. Beats that are due are sent.
fn events(link: &mut FakeLink, now: Duration) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = link.next_event(now) {
        match event {
            LinkEvent::BeatDue => link.send_beat(b"alive").unwrap(),
            LinkEvent::Beat(payload) => assert_eq!(payload, b"alive"),
            LinkEvent::Message(class, payload) => {
                events.push(format!("{class:?} {}", String::from_utf8_lossy(&payload)));
            }
            LinkEvent::Up => events.push("up".to_owned()),
            LinkEvent::Slow => events.push("slow".to_owned()),
            LinkEvent::Down(_) => events.push("down".to_owned()),
        }
    }
    events
}

/// Lets time pass until then, with all that happens on the way at both ends.
fn run(net: &FakeNet, links: &mut [FakeLink; 2], until: Duration) -> [Vec<String>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    loop {
        let now = net.now();
        for (link, found) in links.iter_mut().zip(&mut found) {
            found.extend(events(link, now).into_iter().map(|what| format!("{what} at {now:?}")));
        }
        let deadlines = links.iter().filter_map(Link::next_deadline);
        match deadlines.chain(net.next_event()).filter(|at| *at > now).min() {
            Some(next) if next <= until => net.advance_to(next),
            _ => return found,
        }
    }
}

fn linked(path: Path) -> (FakeNet, [FakeLink; 2]) {
    let net = FakeNet::new(FakeOptions::default());
    net.set_path(ONE, TWO, path);
    net.set_path(TWO, ONE, path);
    let (one, two) = streams(&net);
    let mut links = [link(one, 2, net.now()), link(two, 1, net.now())];
    assert_eq!(run(&net, &mut links, Duration::ZERO), [["up at 0ns"], ["up at 0ns"]]);
    assert_eq!(links[0].peer().node.uuid, [2; 16]);
    (net, links)
}

#[test]
fn links_stay_up_as_long_as_beats_arrive() {
    let delay = Path { delay: Duration::from_millis(900), ..Path::default() };
    let (net, mut links) = linked(delay);
    assert_eq!(run(&net, &mut links, seconds(100)), [Vec::<String>::new(), Vec::new()]);
    links[0].send(Class::Normal, b"hello").unwrap();
    assert_eq!(run(&net, &mut links, seconds(101))[1], ["Normal hello at 100.9s"]);
}

/// The way from the first node to the second is cut, and not the way back.
#[test]
fn a_one_way_cut_makes_one_side_slow_until_it_is_mended() {
    let (net, mut links) = linked(Path::default());
    run(&net, &mut links, seconds(10));
    net.set_path(ONE, TWO, Path { is_cut: true, ..Path::default() });
    links[0].send(Class::Normal, b"first").unwrap();
    links[0].send(Class::Urgent, b"second").unwrap();
    let found = run(&net, &mut links, seconds(20));
    assert_eq!(found, [vec![], vec!["slow at 13s".to_owned()]], "3 beats after the last one");
    net.set_path(ONE, TWO, Path::default());
    let [one, two] = run(&net, &mut links, seconds(30));
    assert!(one.is_empty());
    assert_eq!(two, ["Urgent second at 20s", "Normal first at 20s", "up at 20s"]);
}

#[test]
fn a_reset_takes_both_sides_down_once() {
    let (net, mut links) = linked(Path::default());
    net.reset_between(ONE, TWO);
    let down = ["down at 0ns".to_owned()];
    assert_eq!(run(&net, &mut links, seconds(5)), [down.clone(), down]);
    assert_eq!(links[0].next_deadline(), None);
    links[0].send(Class::Normal, b"dropped").unwrap();
    assert!(!links[0].wants_write());
    assert!(links[0].next_event(seconds(9)).is_none());
}

#[test]
fn a_peer_that_closes_takes_the_link_down_after_its_last_message() {
    let (net, [mut one, mut two]) = linked(Path::default());
    one.send(Class::Normal, b"last").unwrap();
    events(&mut one, net.now());
    one.close();
    assert!(one.next_event(net.now()).is_none());
    assert_eq!(events(&mut two, net.now()), ["Normal last", "down"]);
}

#[test]
fn a_peer_that_breaks_the_rules_takes_its_own_link_down() {
    let (net, mut links) = linked(Path::default());
    let (mut hostile, victim) = streams(&net);
    let mut victim = link(victim, 1, net.now());
    while !matches!(victim.next_event(net.now()), None | Some(LinkEvent::Down(_))) {}
    let mut unsent = &[0xff; 64][..];
    while !unsent.is_empty() {
        let count = hostile.send(unsent, false).unwrap();
        unsent = &unsent[count..];
    }
    let event = victim.next_event(net.now());
    assert!(matches!(event, Some(LinkEvent::Down(Error::Frame(_)))), "{event:?}");
    assert_eq!(run(&net, &mut links, seconds(10)), [Vec::<String>::new(), Vec::new()]);
}

/// A message of 1 MiB takes ten seconds, in which no beat arrives.
#[test]
fn a_large_message_on_a_slow_line_does_not_make_a_peer_slow() {
    let (net, mut links) = linked(Path::default());
    let path = Path { bytes_per_second: Some(100 << 10), ..Path::default() };
    net.set_path(ONE, TWO, path);
    links[0].send(Class::Normal, &vec![b'x'; 1 << 20]).unwrap();
    let found = run(&net, &mut links, seconds(30));
    assert!(found[0].is_empty());
    assert_eq!(found[1].len(), 1, "the message, and nothing about slowness");
    assert!(found[1][0].starts_with("Normal x"));
}

/// A process that was stopped for a while finds what arrived meanwhile before it judges.
#[test]
fn a_pause_of_this_process_does_not_make_the_peer_slow() {
    let (net, [mut one, mut two]) = linked(Path::default());
    events(&mut one, seconds(59));
    net.advance_to(seconds(60));
    assert_eq!(events(&mut two, seconds(60)), Vec::<String>::new());
}

/// A peer that sends without end: each call delivers one message, and sends what is queued.
#[test]
fn a_peer_that_sends_without_end_does_not_stop_what_is_sent_to_it() {
    let (net, [mut one, mut two]) = linked(Path::default());
    let now = seconds(1);
    net.advance_to(now);
    for _ in 0..10 {
        two.send(Class::Normal, b"more").unwrap();
    }
    events(&mut two, now);
    one.send(Class::Normal, b"answer").unwrap();
    assert!(matches!(one.next_event(now), Some(LinkEvent::BeatDue)), "beats are not stopped");
    while !matches!(one.next_event(now), Some(LinkEvent::Message(..))) {}
    assert_eq!(events(&mut two, now), ["Normal answer"]);
}
