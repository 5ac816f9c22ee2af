//! Parts of objects at the socket for programs: right bytes, whatever is asked for, and requests
//! that are none.

use std::time::Duration;

use plasmon_poold::door::Door;
use plasmon_proto::ObjectId;
use plasmon_proto::frame::encode_admin_request;
use plasmon_proto::limits::{PARTS_SPANS_MAX, REQUEST_IDS_MAX};
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply, ReadRequest, Span};
use plasmon_proto::pool_admin::{Reply, Request, socket_of};
use plasmon_shm::socket::Connection;
use plasmon_testkit::{Random, pattern};

use crate::door::{is_ended, reply};
use crate::double::eventually;
use crate::{World, id};

fn request(object: ObjectId, spans: &[(u64, u64)]) -> ReadRequest {
    let spans: Vec<Span> = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
    let end = spans.last().map_or(0, Span::end);
    ReadRequest { id: object, birth: None, spans, end, metadata: false, timeout_ms: 0 }
}

fn read(connection: &Connection, number: u64, request: ReadRequest) -> ReadReply {
    match reply(connection, number, Request::Read(request)) {
        Reply::Read(reply) => reply,
        other => panic!("{other:?}"),
    }
}

/// A node's socket for programs.
pub(crate) struct Open {
    _door: Door,
    _folder: tempfile::TempDir,
    store: std::path::PathBuf,
}

impl Open {
    pub(crate) fn of(world: &World, at: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.sock");
        let door = Door::open(&store, world.nodes[at].pool.asker()).unwrap();
        Self { _door: door, _folder: folder, store }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::connect(&socket_of(&self.store)).unwrap()
    }
}

#[test]
fn any_spans_of_an_object_are_read_from_another_node() {
    let Some(mut world) = World::start(3) else { return };
    let open = Open::of(&world, 1);
    let connection = open.connect();
    let mut dice = Random::new(9);
    for (number, bytes) in [(1, 1000), (2, 60_000), (3, (6 << 20) + 5)] {
        let content = pattern(number.into(), bytes);
        assert_eq!(world.put(0, id(number), &content, 1), Ok(()));
        for round in 0..8 {
            let (mut spans, mut at, mut wanted) = (Vec::new(), 0, Vec::new());
            let longest = [20, 3000, 200_000, bytes][round % 4];
            while at < bytes && spans.len() < 200 {
                let from = at + dice.size_below(longest.min(bytes - at));
                let length = 1 + dice.size_below(longest.min(bytes - from));
                spans.push((from as u64, length as u64));
                wanted.extend_from_slice(&content[from..from + length]);
                at = from + length;
            }
            let reply = read(&connection, 7, request(id(number), &spans));
            let ReadReply::Parts(Parts { object: Some(object), content, .. }) = reply else {
                panic!("{reply:?}")
            };
            assert_eq!(content.data_bytes, bytes as u64);
            assert!(*world.nodes[1].store.take_parts(object) == wanted, "round {round}");
        }
    }
    // What was not taken goes with the connection.
    let left = read(&connection, 8, request(id(1), &[(0, 5)]));
    assert!(matches!(left, ReadReply::Parts(Parts { object: Some(_), .. })), "{left:?}");
    assert_eq!(world.nodes[1].store.parts(), 1);
    drop(connection);
    eventually("the parts are deleted", || world.nodes[1].store.parts() == 0);
    // A node that has the object says so.
    let home = Open::of(&world, 0);
    assert_eq!(read(&home.connect(), 1, request(id(1), &[(0, 5)])), ReadReply::Here);
}

#[test]
fn a_read_that_cannot_be_done_fails_and_a_request_that_breaks_a_limit_ends_its_connection() {
    let Some(mut world) = World::start(2) else { return };
    let open = Open::of(&world, 1);
    let connection = open.connect();
    assert_eq!(world.put(0, id(1), &pattern(1, 1000), 1), Ok(()));
    let failed = |failure| ReadReply::Failed(failure);
    let beyond = failed(ReadFailure::Beyond { data_bytes: 1000 });
    assert_eq!(read(&connection, 1, request(id(1), &[(900, 101)])), beyond);
    assert_eq!(read(&connection, 2, request(id(9), &[(0, 1)])), failed(ReadFailure::Absent));
    let nothing = read(&connection, 3, request(id(1), &[]));
    assert!(matches!(nothing, ReadReply::Parts(Parts { object: None, .. })), "{nothing:?}");
    let cut = ReadRequest { end: 0, ..request(id(1), &[(990, 500), (2000, 5)]) };
    let ReadReply::Parts(Parts { object: Some(object), .. }) = read(&connection, 4, cut) else {
        panic!("what is there is read")
    };
    assert_eq!(world.nodes[1].store.take_parts(object).len(), 10);

    let many = |count: usize| (0..count as u64).map(|at| (at * 2, 1)).collect::<Vec<_>>();
    let most = many(PARTS_SPANS_MAX);
    let broken = [
        Request::Read(request(ObjectId::new([1; 20]), &[(0, 1)])),
        Request::Read(request(id(1), &[(5, 0)])),
        Request::Read(request(id(1), &[(5, 2), (6, 1)])),
        Request::Read(request(id(1), &[(u64::MAX, 2)])),
        Request::Read(request(id(1), &[(0, u64::MAX)])),
        Request::Read(request(id(1), &many(PARTS_SPANS_MAX + 1))),
        Request::Read(ReadRequest { metadata: true, ..request(id(1), &most) }),
        Request::Prefetch(vec![id(1); REQUEST_IDS_MAX + 1]),
        Request::Demote(vec![id(1); REQUEST_IDS_MAX + 1]),
    ];
    for wrong in broken {
        let bad = open.connect();
        bad.send(&encode_admin_request(1, &wrong).unwrap(), &[]).unwrap();
        assert!(is_ended(&bad), "{wrong:?}");
    }
    let last = read(&connection, 5, request(id(1), &most));
    assert_eq!(last, failed(ReadFailure::Beyond { data_bytes: 1000 }));

    // A program that waits for an object and goes is waited for no more.
    let waiting = open.connect();
    let later = ReadRequest { timeout_ms: u64::MAX, ..request(id(7), &[(0, 4)]) };
    waiting.send(&encode_admin_request(1, &Request::Read(later.clone())).unwrap(), &[]).unwrap();
    let other = open.connect();
    other.send(&encode_admin_request(1, &Request::Read(later)).unwrap(), &[]).unwrap();
    drop(waiting);
    assert_eq!(world.put(0, id(7), b"late", 1), Ok(()));
    let mut bytes = Vec::new();
    assert!(other.recv(&mut bytes, true).unwrap().bytes > 0);
    eventually("parts that no program takes are deleted", || world.nodes[1].store.parts() == 1);
}

#[test]
fn a_holder_that_dies_is_followed_by_the_next() {
    let Some(mut world) = World::start(3) else { return };
    let open = Open::of(&world, 2);
    let connection = open.connect();
    let bytes = pattern(4, 3 << 20);
    for number in 1..=6 {
        assert_eq!(world.put(0, id(number), &bytes, 2), Ok(()));
        let second = &world.nodes[1].store;
        eventually("there are two copies", || {
            second.keeps(id(number)) || world.nodes[2].store.keeps(id(number))
        });
    }
    drop(world.nodes.remove(0));
    let store = &world.nodes[1].store;
    for number in 1..=6 {
        let read = || read(&connection, 1, request(id(number), &[(1 << 20, 4096)]));
        // Its records may have been led by the node that is gone.
        let mut found = read();
        for _ in 0..20 {
            if found != ReadReply::Failed(ReadFailure::Unreachable) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            found = read();
        }
        match found {
            ReadReply::Here => {}
            ReadReply::Parts(Parts { object: Some(object), .. }) => {
                assert_eq!(*store.take_parts(object), bytes[1 << 20..][..4096]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn objects_that_programs_will_need_come_here() {
    let Some(mut world) = World::start(2) else { return };
    let open = Open::of(&world, 1);
    let bytes = pattern(5, 100_000);
    let ids: Vec<ObjectId> = (1..=4).map(id).collect();
    for id in &ids[..3] {
        assert_eq!(world.put(0, *id, &bytes, 1), Ok(()));
    }
    let connection = open.connect();
    assert_eq!(reply(&connection, 1, Request::Prefetch(ids.clone())), Reply::Prefetching);
    for id in &ids[..3] {
        eventually("it is here", || world.nodes[1].store.has(*id));
    }
    assert!(!world.nodes[1].store.has(ids[3]));
    assert_eq!(world.get(1, ids[0]), Ok(bytes));
}

#[test]
fn copies_that_programs_do_not_need_are_the_first_to_go_on_every_node() {
    let Some(mut world) = World::start(3) else { return };
    let open = Open::of(&world, 2);
    let bytes = pattern(5, 100_000);
    assert_eq!(world.put(0, id(1), &bytes, 2), Ok(()));
    assert_eq!(world.put(1, id(2), &bytes, 1), Ok(()));
    let copies = || world.nodes.iter().filter(|node| node.store.has(id(1))).count();
    eventually("there are two copies", || copies() == 2);
    let connection = open.connect();
    let ids = (1..=3).map(id).collect();
    assert_eq!(reply(&connection, 1, Request::Demote(ids)), Reply::Demoting);
    for node in &world.nodes {
        for object in [id(1), id(2)].into_iter().filter(|object| node.store.has(*object)) {
            eventually("the copy is demoted", || node.store.is_demoted(object));
        }
        assert!(!node.store.is_demoted(id(3)), "it does not exist");
    }
}
