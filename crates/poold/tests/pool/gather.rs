//! Parts of many objects in one request at the socket for programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_proto::ObjectId;
use plasmon_proto::frame::encode_admin_request;
use plasmon_proto::gather::{GatherRead, GatherReply, GatherRequest, Gathered};
use plasmon_proto::limits::{GATHER_BYTES_MAX, GATHER_READS_MAX, GATHER_SPANS_MAX, OBJECT_ALIGN};
use plasmon_proto::parts::{ReadFailure, Span};
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_shm::socket::Connection;
use plasmon_testkit::{Random, pattern};

use crate::door::{is_ended, reply};
use crate::double::{Double, eventually};
use crate::parts::Open;
use crate::relay::Relay;
use crate::{World, id};

fn read(object: ObjectId, spans: &[(u64, u64)]) -> GatherRead {
    let spans: Vec<Span> = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
    let end = spans.last().map_or(0, Span::end);
    GatherRead { id: object, spans, end }
}

fn gather(connection: &Connection, reads: Vec<GatherRead>) -> GatherReply {
    match reply(connection, 7, Request::Gather(GatherRequest { reads })) {
        Reply::Gather(reply) => reply,
        other => panic!("{other:?}"),
    }
}

/// Random spans of an object with so many bytes.
fn spans(dice: &mut Random, bytes: usize) -> Vec<(u64, u64)> {
    let (mut spans, mut at) = (Vec::new(), 0);
    let most = dice.size_below(6);
    let longest = [20, 3000, 200_000, bytes][dice.size_below(4)];
    while at < bytes && spans.len() < most {
        let from = at + dice.size_below(longest.min(bytes - at));
        let length = 1 + dice.size_below(longest.min(bytes - from));
        spans.push((from as u64, length as u64));
        at = from + length;
    }
    spans
}

/// Takes what a reply brought out of the store.
fn take(store: &Double, reply: &GatherReply) -> Vec<Arc<Vec<u8>>> {
    reply.objects.iter().map(|object| store.take_parts(*object)).collect()
}

/// What came of a read, which has to be parts.
fn part<'a>(objects: &'a [Arc<Vec<u8>>], gathered: &Gathered, length: usize) -> &'a [u8] {
    let Gathered::Parts { object, offset, .. } = gathered else { panic!("{gathered:?}") };
    if length == 0 {
        return &[];
    }
    assert_eq!(offset % OBJECT_ALIGN, 0);
    &objects[usize::from(*object)][*offset as usize..][..length]
}

fn wanted(content: &[u8], read: &GatherRead) -> Vec<u8> {
    let piece = |span: &Span| content[span.offset as usize..span.end() as usize].to_vec();
    read.spans.iter().flat_map(piece).collect()
}

#[test]
fn random_parts_of_objects_on_several_nodes_are_those_of_the_objects() {
    let Some(mut world) = World::start(3) else { return };
    let open = Open::of(&world, 2);
    let connection = open.connect();
    let mut dice = Random::new(11);
    let mut contents = BTreeMap::new();
    for number in 1..=40 {
        let bytes = [1, 700, 60_000, (3 << 20) + 5][usize::from(number) % 4];
        let content = pattern(number.into(), bytes);
        let at = usize::from(number) % 3;
        assert_eq!(world.put(at, id(number), &content, 1), Ok(()));
        contents.insert(id(number), (content, at));
    }
    for _ in 0..12 {
        let count = 1 + dice.size_below(120);
        let mut reads = Vec::new();
        while reads.len() < count {
            let object = id(1 + dice.below(40) as u8);
            let next = read(object, &spans(&mut dice, contents[&object].0.len()));
            let more = GatherRequest { reads: [reads.clone(), vec![next.clone()]].concat() };
            if !more.is_valid() {
                break;
            }
            reads.push(next);
        }
        let reply = gather(&connection, reads.clone());
        assert_eq!(reply.reads.len(), reads.len());
        let objects = take(&world.nodes[2].store, &reply);
        for (read, found) in reads.iter().zip(&reply.reads) {
            let (content, at) = &contents[&read.id];
            if *at == 2 {
                assert_eq!(*found, Gathered::Here);
                continue;
            }
            let wanted = wanted(content, read);
            assert!(part(&objects, found, wanted.len()) == wanted, "{read:?}");
        }
    }
    assert_eq!(world.nodes[2].store.parts(), 0);

    // Each object has its own reason, and the others are read.
    let mut reads: Vec<_> = (1..=39).map(|number| read(id(number), &[(0, 1)])).collect();
    reads.insert(7, read(id(99), &[(0, 1)]));
    reads.insert(20, read(id(1), &[(699, 2)]));
    world.nodes[0].store.delete(id(9));
    let reply = gather(&connection, reads);
    let failed = |failure| Gathered::Failed(failure);
    assert_eq!(reply.reads[7], failed(ReadFailure::Absent));
    assert_eq!(reply.reads[20], failed(ReadFailure::Beyond { data_bytes: 700 }));
    let gone = &reply.reads[9];
    assert!([ReadFailure::Absent, ReadFailure::Deleted].map(failed).contains(gone), "{gone:?}");
    let others = (0..41).filter(|at| ![7, 9, 20].contains(at));
    for at in others {
        assert!(!matches!(reply.reads[at], Gathered::Failed(_)), "{at}: {:?}", reply.reads[at]);
    }
    // What was not taken goes with the connection.
    assert!(world.nodes[2].store.parts() > 0);
    drop(connection);
    eventually("the parts are deleted", || world.nodes[2].store.parts() == 0);
}

#[test]
fn requests_that_break_a_limit_end_their_connection_and_nothing_else() {
    let Some(mut world) = World::start(2) else { return };
    let open = Open::of(&world, 1);
    assert_eq!(world.put(0, id(1), &pattern(1, 1000), 1), Ok(()));
    let broken = [
        vec![],
        vec![read(id(1), &[(0, 1)]); GATHER_READS_MAX + 1],
        vec![read(id(1), &[(0, 1), (2, 1), (4, 1)]); GATHER_SPANS_MAX / 2],
        vec![read(id(1), &[(0, GATHER_BYTES_MAX)]), read(id(1), &[(0, 1)])],
        vec![read(id(1), &[(0, 0)])],
        vec![read(id(1), &[(4, 1), (0, 1)])],
        vec![read(id(1), &[(0, u64::MAX)])],
        vec![read(id(1), &[(u64::MAX, 2)])],
        vec![GatherRead { end: u64::MAX, ..read(id(1), &[]) }],
        vec![read(ObjectId::new([1; 20]), &[(0, 1)])],
    ];
    let mut others: Vec<Connection> = Vec::new();
    for reads in broken {
        let bad = open.connect();
        let request = Request::Gather(GatherRequest { reads });
        // What is too long for a frame cannot even be sent.
        if let Ok(frame) = encode_admin_request(1, &request) {
            bad.send(&frame, &[]).unwrap();
            assert!(is_ended(&bad), "{request:?}");
        }
        others.push(open.connect());
    }
    for other in &others[..3] {
        let reply = gather(other, vec![read(id(1), &[(10, 30)]); GATHER_READS_MAX]);
        let objects = take(&world.nodes[1].store, &reply);
        let wanted = &pattern(1, 1000)[10..40];
        assert!(reply.reads.iter().all(|found| part(&objects, found, 30) == wanted));
    }
    drop(others);

    // A program that goes meanwhile leaves nothing.
    world.nodes[0].store.set_silent(true);
    for _ in 0..3 {
        let gone = open.connect();
        let reads = vec![read(id(1), &[(0, 1)]), read(id(2), &[(0, 1)])];
        let request = Request::Gather(GatherRequest { reads });
        gone.send(&encode_admin_request(1, &request).unwrap(), &[]).unwrap();
    }
    world.nodes[0].store.set_silent(false);
    eventually("no parts stay", || world.nodes[1].store.parts() == 0);
}

#[test]
fn a_holder_that_dies_in_the_middle_is_followed_by_the_others() {
    let Some(mut world) = World::start(4) else { return };
    let contents: Vec<Vec<u8>> = (0..24).map(|number| pattern(number, (1 << 20) + 100)).collect();
    for (number, content) in (1..).zip(&contents) {
        assert_eq!(world.put(0, id(number), content, 3), Ok(()));
    }
    let open = Open::of(&world, 3);
    let connection = open.connect();
    let reads: Vec<_> =
        (1..=24).map(|number| read(id(number), &[(number.into(), 1 << 20)])).collect();
    let begun = {
        let reads = reads.clone();
        std::thread::spawn(move || (gather(&connection, reads), connection))
    };
    let store = world.nodes[3].store.clone();
    eventually("some parts are here", || store.parts() > 0 || begun.is_finished());
    drop(world.nodes.remove(0));
    let (reply, connection) = begun.join().unwrap();
    check(&store, &contents, &reads, &reply);
    // Also when the node is known to be gone.
    let mut reply = gather(&connection, reads.clone());
    for _ in 0..50 {
        if !reply.reads.contains(&Gathered::Failed(ReadFailure::Unreachable)) {
            break;
        }
        take(&store, &reply);
        reply = gather(&connection, reads.clone());
    }
    check(&store, &contents, &reads, &reply);
}

/// Every read brought the bytes of its object, or the object is here.
fn check(store: &Double, contents: &[Vec<u8>], reads: &[GatherRead], reply: &GatherReply) {
    let objects = take(store, reply);
    for ((read, content), found) in reads.iter().zip(contents).zip(&reply.reads) {
        if *found != Gathered::Here {
            let wanted = wanted(content, read);
            assert!(part(&objects, found, wanted.len()) == wanted, "{read:?}");
        }
    }
}

/// The relay cuts connections after random numbers of bytes.
#[test]
fn connections_that_break_change_no_byte() {
    let relay = Relay::start(12);
    let Some(mut world) = World::start_behind(vec![Some(&relay), None]) else { return };
    let contents: Vec<Vec<u8>> =
        (0..8).map(|number| pattern(number, (2 << 20) + number as usize)).collect();
    for (number, content) in (1..).zip(&contents) {
        assert_eq!(world.put(0, id(number), content, 1), Ok(()));
    }
    let open = Open::of(&world, 1);
    let connection = open.connect();
    let reads: Vec<_> = (1..=8)
        .map(|number| read(id(number), &[(0, 500_000), (1_000_000, 40_000), (1 << 20, 1 << 20)]))
        .collect();
    for _ in 0..12 {
        let reply = gather(&connection, reads.clone());
        check(&world.nodes[1].store, &contents, &reads, &reply);
    }
}
