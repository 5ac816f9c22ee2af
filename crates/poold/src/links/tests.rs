//! Nodes in one thread, over real sockets of 127.0.0.1.

use std::time::Instant;

use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
use plasmon_cluster::{Epoch, GroupNo, Member, NodeUuid, Reach};
use plasmon_net::Stream;
use plasmon_net::handshake::{Cluster, Encryption, KnownPeers, NodeIdentity, ProtocolRange, Token};
use plasmon_pool::Message;
use plasmon_pool::limits::INVENTORY_ENTRIES_MAX;
use plasmon_testkit::TEST_TIMEOUT;

use super::*;
use crate::certificates::{self, Certificates, Watch};

/// A start of a node: its connections, their poll, and what happened so far.
struct End {
    slot: Slot,
    incarnation: u64,
    poll: Poll,
    links: Links,
    events: Vec<Event>,
    begun: Instant,
}

impl End {
    fn new(slot: u16, listener: TcpListener) -> Self {
        Self::start(slot, 1, listener, b"what all of them share")
    }

    fn start(slot: u16, incarnation: u64, listener: TcpListener, token: &[u8]) -> Self {
        Self::start_with(slot, incarnation, listener, token, None)
    }

    fn start_with(
        slot: u16,
        incarnation: u64,
        listener: TcpListener,
        token: &[u8],
        certificates: Option<Certificates>,
    ) -> Self {
        let encryption =
            certificates.as_ref().map_or(Encryption::Nothing, Certificates::encryption);
        let local = Arc::new(Local {
            cluster: Cluster::new("test", [1; 16]).unwrap(),
            node: NodeIdentity { uuid: [slot as u8; 16], slot, boot: 1, incarnation },
            protocols: ProtocolRange::new(1, 1).unwrap(),
            token: Token::new(token).unwrap(),
            encryption,
            peers: KnownPeers::default(),
        });
        let (slot, poll) = (Slot(slot), Poll::new().unwrap());
        let links = Links::new(slot, local, listener, 1, certificates, &poll).unwrap();
        Self { slot, incarnation, poll, links, events: Vec::new(), begun: Instant::now() }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn turn(&mut self) {
        let now = self.now();
        for ready in self.poll.wait(Some(Duration::ZERO)).unwrap() {
            self.links.ready(ready.number, now, &self.poll);
        }
        let events = self.links.drive(now, &self.poll);
        self.events.extend(events);
    }

    fn set_map(&mut self, map: &Map) {
        let now = self.now();
        self.links.set_map(map, &BTreeSet::new(), now);
    }

    /// Ends the connections to a peer as a broken rule does.
    fn disconnect(&mut self, peer: u16) {
        let now = self.now();
        self.links.end(Slot(peer), now);
    }

    /// An envelope of this node, with a number.
    fn envelope(&self, number: u64, messages: Vec<Message>) -> Envelope {
        let (from, incarnation) = (self.slot, self.incarnation);
        Envelope { epoch: Epoch(number), from, incarnation, messages }
    }

    fn send(&mut self, to: u16, envelope: Envelope) {
        let now = self.now();
        self.links.send(Slot(to), envelope, now);
    }

    fn ups(&self, peer: u16) -> usize {
        let is_it = |event: &&Event| matches!(event, Event::Up(of) if of.0 == peer);
        self.events.iter().filter(is_it).count()
    }

    fn downs(&self, peer: u16) -> usize {
        let is_it = |event: &&Event| matches!(event, Event::Down(of) if of.0 == peer);
        self.events.iter().filter(is_it).count()
    }

    fn bulk_lanes(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Bulk { .. })).count()
    }

    fn envelopes(&self) -> impl Iterator<Item = &Envelope> {
        self.events.iter().filter_map(|event| match event {
            Event::Message(envelope) => Some(envelope),
            _ => None,
        })
    }

    fn numbers(&self) -> Vec<u64> {
        self.envelopes().map(|envelope| envelope.epoch.0).collect()
    }
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address().unwrap().to_string();
    (listener, address)
}

/// A map with the nodes 0, 1, .. at these addresses, each in this incarnation.
fn map_of(nodes: &[(&str, u64)]) -> Map {
    let member = |(number, (address, incarnation)): (usize, &(&str, u64))| Member {
        uuid: NodeUuid([number as u8; 16]),
        name: format!("n{number}"),
        incarnation: *incarnation,
        boot: 1,
        addresses: vec![(*address).to_owned()],
        zone: String::new(),
        weight: 1,
        log: plasmon_cluster::NodeLog::Absent,
        protocol: plasmon_cluster::ProtocolRange { min: 1, max: 1 },
    };
    let members: Vec<Member> = nodes.iter().enumerate().map(member).collect();
    let (map, activations, drained) = (Map::default(), &[], &[]);
    let (commands, reach) = (&[], Reach::default());
    let seen = Observation { map: &map, members: &members, activations, drained, commands, reach };
    Leader::new(OUT_AFTER_MS).step(0, &seen).proposal.unwrap()
}

/// So many nodes that are connected with each other.
fn connected(count: u16) -> (Vec<End>, Vec<String>) {
    let (listeners, addresses): (Vec<_>, Vec<_>) = (0..count).map(|_| listener()).unzip();
    let nodes: Vec<_> = addresses.iter().map(|address| (address.as_str(), 1)).collect();
    let map = map_of(&nodes);
    let ends = listeners.into_iter().zip(0..).map(|(listener, slot)| End::new(slot, listener));
    let mut ends: Vec<End> = ends.collect();
    ends.iter_mut().for_each(|end| end.set_map(&map));
    let lanes = usize::from(count - 1) * usize::from(BULK_LANES);
    until("all are up", &mut ends, |ends| ends.iter().all(|end| end.bulk_lanes() == lanes));
    (ends, addresses)
}

fn until(what: &str, ends: &mut [End], holds: impl Fn(&[End]) -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds(ends) {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        ends.iter_mut().for_each(End::turn);
    }
}

/// What a node with very many copies says to a new primary.
fn inventory() -> Message {
    let group = (GroupNo::new(0).unwrap(), Epoch(1));
    Message::Inventory { groups: vec![group; INVENTORY_ENTRIES_MAX], copies: vec![], more: false }
}

#[test]
fn the_lower_slot_connects_and_connects_again() {
    let (mut ends, addresses) = connected(2);
    for number in 0..200 {
        for (at, to) in [(0, 1), (1, 0)] {
            let envelope = ends[at].envelope(number, vec![]);
            ends[at].send(to, envelope);
        }
    }
    until("messages have arrived", &mut ends, |ends| {
        ends.iter().all(|end| end.envelopes().count() == 200)
    });
    for end in &ends {
        assert_eq!(end.numbers(), Vec::from_iter(0..200), "in order");
    }
    // The accepting side ends the connection: both see that, and it is made again.
    ends[1].disconnect(0);
    let are_up = |ends: &[End], ups, downs| {
        (ends[0].ups(1), ends[0].downs(1)) == (ups, downs)
            && (ends[1].ups(0), ends[1].downs(0)) == (ups, downs)
    };
    until("both are up again", &mut ends, |ends| are_up(ends, 2, 1));
    // The connecting side does.
    ends[0].disconnect(1);
    until("both are up once more", &mut ends, |ends| are_up(ends, 3, 2));
    // The process ends, and another one listens for the node.
    drop(ends.pop());
    until("the end is seen", &mut ends, |ends| ends[0].downs(1) == 3);
    let again = TcpListener::bind(addresses[1].parse().unwrap()).unwrap();
    ends.push(End::new(1, again));
    let map = map_of(&[(&addresses[0], 1), (&addresses[1], 1)]);
    ends[1].set_map(&map);
    until("the restarted node is up", &mut ends, |ends| {
        (ends[0].ups(1), ends[1].ups(0)) == (4, 1) && ends[1].bulk_lanes() == 2
    });
    until("nothing is left but the control lane", &mut ends, |ends| {
        ends.iter().all(|end| end.links.conns.len() == 1)
    });
}

/// A fault of an earlier state: an answer of more than 1 MiB was left out, and one of more than
/// 4 MiB ended the connection, after which it was asked for again.
#[test]
fn an_envelope_that_is_too_long_is_divided_and_waits_for_its_turn() {
    let (mut ends, _) = connected(2);
    let count = 4000;
    let long = ends[0].envelope(7, vec![inventory(); count]);
    let last = ends[0].envelope(8, vec![]);
    ends[0].send(1, long);
    ends[0].send(1, last);
    until("all has arrived", &mut ends, |ends| ends[1].numbers().last() == Some(&8));
    let arrived: usize = ends[1].envelopes().map(|envelope| envelope.messages.len()).sum();
    assert!(arrived == count && ends[1].envelopes().count() > 2);
    assert_eq!((ends[0].downs(1), ends[1].downs(0)), (0, 0));
}

#[test]
fn a_peer_that_takes_nothing_loses_its_connection() {
    let (mut ends, _) = connected(3);
    let long = ends[1].envelope(1, vec![inventory(); 200]);
    // The first node does not have its turn: the queue fills.
    let mut sent = 0;
    while ends[1].links.peers[&Slot(0)].control.is_some() {
        ends[1].send(0, long.clone());
        sent += long.encode().unwrap().len();
        assert!(sent < 2 * control::QUEUE_BYTES_MAX, "the queue has an end");
    }
    // It is told at once, though the poll has nothing to say.
    let now = ends[1].now();
    assert_eq!(ends[1].links.next_deadline(now), Some(now));
    ends[1].turn();
    assert_eq!((ends[1].downs(0), ends[1].downs(2)), (1, 0));
    // What is sent without a connection is thrown away, and the next one is like the first.
    ends[1].send(0, long);
    until("it is up again", &mut ends, |ends| (ends[0].ups(1), ends[1].ups(0)) == (2, 2));
    let next = ends[1].envelope(9, vec![]);
    ends[1].send(0, next);
    until("a message has arrived", &mut ends, |ends| ends[0].numbers().contains(&9));
    let up = |event: &Event| matches!(event, Event::Up(peer) if peer.0 == 1);
    let at = ends[0].events.iter().rposition(up).unwrap();
    let late = ends[0].events[at..].iter().filter(|event| matches!(event, Event::Message(_)));
    assert_eq!(late.count(), 1, "no message of the earlier connection");
}

#[test]
fn what_a_peer_may_not_send_ends_its_link_alone() {
    let (mut ends, _) = connected(3);
    let other_slot = Envelope { from: Slot(2), ..ends[0].envelope(1, vec![]) };
    let other_start = Envelope { incarnation: 2, ..ends[0].envelope(1, vec![]) };
    let right = ends[0].envelope(5, vec![]);
    let mut of_later_version = right.encode().unwrap();
    of_later_version[0] = 9;
    let too_many = vec![inventory(); 1025];
    let many = postcard_of(&ends[0].envelope(1, too_many));
    let bad = [
        other_slot.encode().unwrap(),
        other_start.encode().unwrap(),
        b"what is this".to_vec(),
        Vec::new(),
        of_later_version,
        many,
    ];
    for (number, bytes) in bad.into_iter().enumerate() {
        let control = ends[0].links.peers.get_mut(&Slot(1)).unwrap().control.as_mut().unwrap();
        control.queue(bytes).unwrap();
        ends[0].send(1, right.clone());
        until("the peer has ended the link", &mut ends, |ends| ends[1].downs(0) == number + 1);
        until("it is up again", &mut ends, |ends| {
            ends[0].ups(1) == number + 2 && ends[1].ups(0) == number + 2
        });
    }
    assert!(ends[1].numbers().is_empty(), "nothing after what may not be sent is taken");
    assert_eq!((ends[0].downs(2), ends[1].downs(2)), (0, 0), "other links go on");
}

/// The bytes of an envelope that breaks a limit.
fn postcard_of(envelope: &Envelope) -> Vec<u8> {
    let short = Envelope { messages: Vec::new(), ..envelope.clone() };
    let mut bytes = short.encode().unwrap();
    // The count of the messages is last; each of these has one byte that means nothing.
    bytes.pop();
    let mut count = envelope.messages.len();
    while count >= 0x80 {
        bytes.push(count as u8 | 0x80);
        count >>= 7;
    }
    bytes.push(count as u8);
    bytes
}

#[test]
fn a_new_start_of_a_peer_takes_the_place_of_the_earlier_one() {
    let (mut ends, addresses) = connected(3);
    // Another process for the node in slot 1, at another address, while the first still runs.
    let (second, address) = listener();
    let map = map_of(&[(&addresses[0], 1), (&address, 2), (&addresses[2], 1)]);
    ends.push(End::start(1, 2, second, b"what all of them share"));
    ends[3].set_map(&map);
    // The other nodes do not know of it yet, and do not take its messages. It accepts the lower
    // slot, which has not come, and is closed by the higher one.
    until("the new start was refused", &mut ends, |ends| ends[3].downs(2) > 0);
    assert_eq!((ends[0].downs(1), ends[2].downs(1)), (0, 0));
    for at in [0, 2] {
        ends[at].set_map(&map);
    }
    until("the new start is up", &mut ends, |ends| {
        [0, 2].iter().all(|at| (ends[*at].ups(1), ends[*at].downs(1)) == (2, 1))
            && ends[3].ups(0) == 1
            && ends[3].ups(2) == ends[3].downs(2) + 1
    });
    assert!(ends[1].downs(0) > 0 && ends[1].downs(2) > 0, "the earlier one is disconnected");
    let envelope = ends[3].envelope(3, vec![]);
    ends[3].send(0, envelope);
    until("a message of it has arrived", &mut ends, |ends| ends[0].numbers() == [3]);
}

#[test]
fn another_address_of_a_peer_is_tried_at_once() {
    let (zero, a) = listener();
    let (one, b) = listener();
    let mut ends = vec![End::new(0, zero), End::new(1, one)];
    // Nothing listens there, and the pauses grow.
    let (nothing, wrong) = listener();
    drop(nothing);
    ends[0].set_map(&map_of(&[(&a, 1), (&wrong, 1)]));
    let is_late = |end: &End| end.links.next_deadline(end.now()).unwrap() > end.now();
    until("the pause is long", &mut ends, |ends| is_late(&ends[0]));
    let map = map_of(&[(&a, 1), (&b, 1)]);
    ends.iter_mut().for_each(|end| end.set_map(&map));
    assert!(!is_late(&ends[0]));
    until("both are up", &mut ends, |ends| ends[0].ups(1) == 1 && ends[1].ups(0) == 1);
}

#[test]
fn a_bulk_lane_that_ended_is_connected_again_while_its_control_lane_lives() {
    let (mut ends, _) = connected(2);
    let bulk = |end: &mut End, wanted: u8| {
        let at = end
            .events
            .iter()
            .rposition(|event| matches!(event, Event::Bulk { lane, .. } if *lane == wanted));
        match end.events.remove(at.unwrap()) {
            Event::Bulk { connection, stream, .. } => (connection, stream),
            other => panic!("{other:?}"),
        }
    };
    let ended = |end: &End| {
        end.events.iter().filter(|event| matches!(event, Event::BulkEnded(_, 1))).count()
    };
    let (connection, mut stream) = bulk(&mut ends[0], 1);
    stream.close();
    // What is said of another connection than the present one is late.
    let now = ends[0].now();
    ends[0].links.bulk_ended(Slot(1), 1, connection + 1000, now);
    ends[0].turn();
    assert_eq!(ended(&ends[0]), 0);
    ends[0].links.bulk_ended(Slot(1), 1, connection, now);
    ends[0].links.bulk_ended(Slot(1), 1, connection, now);
    until("the lane is there again", &mut ends, |ends| {
        ends[0].bulk_lanes() == 2 && ends[1].bulk_lanes() == 3
    });
    // The other side did not notice: it is told when the lane is replaced.
    assert_eq!((ended(&ends[0]), ended(&ends[1])), (1, 1));
    // It is not the side that connects, and says so late.
    let now = ends[1].now();
    let (first, second) = (bulk(&mut ends[1], 1).0, bulk(&mut ends[1], 1).0);
    ends[1].links.bulk_ended(Slot(0), 1, first.min(second), now);
    ends[1].turn();
    assert_eq!(ended(&ends[1]), 1);
    assert_eq!((ends[0].downs(1), ends[1].downs(0)), (0, 0));
}

#[test]
fn a_node_with_another_token_and_one_that_is_not_in_the_map_are_refused() {
    let ((first, a), (second, b), (third, c)) = (listener(), listener(), listener());
    let map = map_of(&[(&a, 1), (&b, 1), (&c, 1)]);
    let other = End::start(1, 1, second, b"something that is not shared");
    let mut ends = vec![End::new(0, first), other, End::new(2, third)];
    ends[0].set_map(&map);
    ends[1].set_map(&map);
    // It knows of no node yet, and does not take what it cannot check.
    ends[2].set_map(&Map::default());
    until("the third node was connected", &mut ends, |ends| ends[0].downs(2) > 0);
    assert_eq!((ends[1].ups(0), ends[2].ups(0)), (0, 0));
    ends[2].set_map(&map);
    until("the third node is up", &mut ends, |ends| ends[2].ups(0) == 1);
    assert_eq!((ends[1].ups(0), ends[0].ups(1)), (0, 0));
}

/// Certificates in a folder, and what looks at them.
struct Pki {
    folder: tempfile::TempDir,
    watches: Vec<Watch>,
}

impl Pki {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), watches: Vec::new() }
    }

    fn node(&mut self, name: &str, encrypts_data: bool) -> Certificates {
        let files = certificates::tests::files(self.folder.path(), "test", name, 86_400);
        let (certificates, watch) = Certificates::read(files, "test", name, encrypts_data).unwrap();
        self.watches.push(watch);
        certificates
    }
}

/// Nodes 0, 1, .. with certificates for `n0`, `n1`, .., or without.
fn encrypting(pki: &mut Pki, nodes: &[Option<bool>]) -> (Vec<End>, Map) {
    let (listeners, addresses): (Vec<_>, Vec<_>) = nodes.iter().map(|_| listener()).unzip();
    let known: Vec<_> = addresses.iter().map(|address| (address.as_str(), 1)).collect();
    let map = map_of(&known);
    let ends = listeners.into_iter().zip(nodes).zip(0..).map(|((listener, node), slot)| {
        let certificates = node.map(|data| pki.node(&format!("n{slot}"), data));
        End::start_with(slot, 1, listener, b"what all of them share", certificates)
    });
    let mut ends: Vec<End> = ends.collect();
    ends.iter_mut().for_each(|end| end.set_map(&map));
    (ends, map)
}

/// Whether the bulk lanes of a node are encrypted, in the order in which they came.
fn bulk_encryption(end: &End) -> Vec<bool> {
    let stream = |event: &Event| match event {
        Event::Bulk { stream, .. } => Some(stream.certified().is_some()),
        _ => None,
    };
    end.events.iter().filter_map(stream).collect()
}

#[test]
fn lanes_are_encrypted_as_one_of_the_two_sides_wants() {
    for (zero, one, is_bulk_encrypted) in
        [(false, false, false), (true, true, true), (true, false, true), (false, true, true)]
    {
        let mut pki = Pki::new();
        let (mut ends, _) = encrypting(&mut pki, &[Some(zero), Some(one)]);
        until("all lanes are up", &mut ends, |ends| ends.iter().all(|end| end.bulk_lanes() == 2));
        for end in &ends {
            assert_eq!(bulk_encryption(end), [is_bulk_encrypted; 2], "{zero}, {one}");
        }
        let envelope = ends[0].envelope(7, vec![]);
        ends[0].send(1, envelope);
        until("a message has arrived", &mut ends, |ends| ends[1].numbers() == [7]);
        let certified = |end: &End, peer: u16| {
            let control = end.links.peers[&Slot(peer)].control.as_ref().unwrap();
            control.certified().unwrap().to_string()
        };
        assert_eq!(certified(&ends[0], 1), "node n1 of pool test");
        assert_eq!(certified(&ends[1], 0), "node n0 of pool test");
        // A control lane that is made again agrees on something else, and so do its bulk lanes.
        ends[1].disconnect(0);
        until("all lanes are up again", &mut ends, |ends| {
            ends.iter().all(|end| end.bulk_lanes() == 4)
        });
    }
}

#[test]
fn a_node_without_a_certificate_and_one_with_that_of_another_are_not_connected() {
    let mut pki = Pki::new();
    let (mut ends, map) = encrypting(&mut pki, &[Some(false), None, Some(false)]);
    until("those with certificates are connected", &mut ends, |ends| ends[0].ups(2) == 1);
    assert_eq!((ends[0].ups(1), ends[1].ups(0), ends[1].ups(2), ends[2].ups(1)), (0, 0, 0, 0));
    until("what is wrong was said", &mut ends, |ends| {
        ends[0].links.told.was_told("n1").is_some() && ends[1].links.told.was_told("n2").is_some()
    });
    // It comes with the certificate of another node, and then with its own.
    for (name, is_up) in [("n2", false), ("n1", true)] {
        let (again, address) = listener();
        let mut nodes: Vec<(String, u64)> = map
            .nodes()
            .map(|(_, node)| (node.member.addresses[0].clone(), node.member.incarnation))
            .collect();
        nodes[1].0 = address;
        let nodes: Vec<(&str, u64)> =
            nodes.iter().map(|(address, incarnation)| (address.as_str(), *incarnation)).collect();
        let map = map_of(&nodes);
        let certificates = Some(pki.node(name, false));
        ends[1] = End::start_with(1, 1, again, b"what all of them share", certificates);
        ends.iter_mut().for_each(|end| end.set_map(&map));
        if is_up {
            until("it is connected with both", &mut ends, |ends| {
                ends[1].ups(0) == 1 && ends[1].ups(2) == 1 && ends[0].ups(1) == 1
            });
        } else {
            let said = "to the peer, its certificate is for another node";
            until("it is refused", &mut ends, |ends| {
                ends[1].links.told.was_told("n2").is_some_and(|told| told.contains(said))
            });
            assert_eq!((ends[0].ups(1), ends[1].ups(0), ends[1].ups(2)), (0, 0, 0));
        }
    }
}

#[test]
fn a_certificate_that_is_revoked_ends_the_lanes_of_its_node_alone() {
    let mut pki = Pki::new();
    let (mut ends, _) = encrypting(&mut pki, &[Some(true), Some(true), Some(true)]);
    until("all are connected", &mut ends, |ends| ends.iter().all(|end| end.bulk_lanes() == 4));
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut authority = plasmon_certs::Folder::open(pki.folder.path(), "test", now).unwrap();
    authority.revoke("n1", now).unwrap();
    authority.write_list(now).unwrap();
    until("the others have ended its lanes", &mut ends, |ends| {
        ends[0].downs(1) == 1 && ends[2].downs(1) == 1
    });
    let said = "is revoked";
    until("it is refused", &mut ends, |ends| {
        ends[1].links.told.was_told("n2").is_some_and(|told| told.contains(said))
    });
    assert_eq!((ends[0].downs(2), ends[2].downs(0)), (0, 0), "the others go on");
    assert_eq!((ends[0].ups(1), ends[2].ups(1)), (1, 1), "it is not taken again");
}
