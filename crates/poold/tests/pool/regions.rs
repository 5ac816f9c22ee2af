//! Memory of the pool by address, at the socket of the pool daemon: writes that follow each other,
//! what ends with a connection, and requests that no program may make.

use std::path::Path;

use plasmon_poold::door::Door;
use plasmon_proto::ObjectId;
use plasmon_proto::frame::{decode_admin_reply, encode_admin_request};
use plasmon_proto::inline::InlineBytes;
use plasmon_proto::pool_admin::{Reply, Request, socket_of};
use plasmon_proto::region::{
    AllocateRequest, REGION_PIECE_BYTES_MAX, RegionFailure, RegionReply, RegionRequest,
};
use plasmon_shm::socket::Connection;

use crate::World;
use crate::door::{is_ended, reply};

const BYTES: u64 = 1_000_000;

fn allocate(connection: &Connection, node: &str, copies: u8) -> ObjectId {
    let node = Some(node.to_owned());
    let request = AllocateRequest { bytes: BYTES, copies, copies_min: 1, node };
    match reply(connection, 1, Request::Allocate(request)) {
        Reply::Allocated(id) => id,
        other => panic!("{other:?}"),
    }
}

fn write(id: ObjectId, offset: u64, bytes: &[u8]) -> Request {
    let bytes = InlineBytes(bytes.to_vec());
    Request::Region(RegionRequest::Write { id, offset, bytes })
}

fn ask(connection: &Connection, request: RegionRequest) -> RegionReply {
    match reply(connection, 7, Request::Region(request)) {
        Reply::Region(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn send(connection: &Connection, number: u64, request: &Request) {
    connection.send(&encode_admin_request(number, request).unwrap(), &[]).unwrap();
}

fn receive(connection: &Connection) -> (u64, Reply) {
    let mut bytes = Vec::new();
    assert!(connection.recv(&mut bytes, true).unwrap().bytes > 0, "the connection ended");
    decode_admin_reply(&bytes).unwrap()
}

#[test]
fn regions_at_the_socket_of_the_pool_daemon() {
    let Some(world) = World::start(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..3).map(|at| folder.path().join(format!("{at}.sock"))).collect();
    let doors = world.nodes.iter().zip(&stores);
    let _doors: Vec<Door> =
        doors.map(|(node, store)| Door::open(store, node.pool.asker()).unwrap()).collect();
    let connect = |store: &Path| Connection::connect(&socket_of(store)).unwrap();
    let programs: Vec<Connection> = stores.iter().map(|store| connect(store)).collect();

    // More writes than are under way at a time, and a question after them: replies come in order.
    let id = allocate(&programs[0], "n1", 2);
    let mut wanted = vec![0; BYTES as usize];
    for number in 0..100 {
        let (at, byte) = (number * 9_000, number as u8);
        send(&programs[2], 100 + number, &write(id, at, &[byte; 10_000]));
        wanted[at as usize..][..10_000].fill(byte);
    }
    send(&programs[2], 200, &Request::Region(RegionRequest::Look { id }));
    for number in 100..200 {
        assert_eq!(receive(&programs[2]), (number, Reply::Region(RegionReply::Done)));
    }
    let open = Reply::Region(RegionReply::Open { bytes: BYTES });
    assert_eq!(receive(&programs[2]), (200, open));

    // Requests that no program makes end their connection alone.
    let stray = ObjectId::pooled([3; 12], None);
    let piece = vec![1; REGION_PIECE_BYTES_MAX + 1];
    let none = AllocateRequest { bytes: 1, copies: 0, copies_min: 0, node: None };
    for wrong in [
        write(id, 0, &piece),
        write(stray, 0, &[1]),
        Request::Region(RegionRequest::Free { id, is_abandoned: true }),
        Request::Region(RegionRequest::Allocate { id, bytes: 1, copies: 1, copies_min: 1 }),
        Request::Region(RegionRequest::Seal { id: stray }),
        Request::Allocate(none),
    ] {
        let bad = connect(&stores[2]);
        send(&bad, 1, &wrong);
        assert!(is_ended(&bad), "{wrong:?}");
    }
    let beyond = reply(&programs[2], 8, write(id, BYTES - 1, &[1, 2]));
    let failed = |failure| RegionReply::Failed(failure);
    assert_eq!(beyond, Reply::Region(failed(RegionFailure::Beyond { bytes: BYTES })));

    // Sealed from elsewhere, with two copies.
    assert_eq!(ask(&programs[2], RegionRequest::Seal { id }), RegionReply::Done);
    for at in 0..3 {
        assert_eq!(*world.nodes[at].store.get(id).unwrap(), wanted);
    }
    assert_eq!(ask(&programs[0], RegionRequest::Seal { id }), failed(RegionFailure::Sealed));

    // What a connection allocated ends with it; what it sealed stays.
    let other = connect(&stores[0]);
    let left = allocate(&other, "n1", 1);
    let named = AllocateRequest { bytes: 1, copies: 1, copies_min: 1, node: Some("n9".into()) };
    let refused = reply(&other, 2, Request::Allocate(named));
    assert_eq!(refused, Reply::Region(failed(RegionFailure::NoNode)));
    drop(other);
    plasmon_testkit::until("the region ends", || {
        let look = ask(&programs[2], RegionRequest::Look { id: left });
        look == failed(RegionFailure::AllocatorGone)
    });
    drop(programs);
    assert_eq!(*world.nodes[0].store.get(id).unwrap(), wanted);
}
