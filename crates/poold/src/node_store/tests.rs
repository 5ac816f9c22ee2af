//! What the store of a node answers by itself.

use plasmon_pool::Birth;
use plasmon_proto::frame::{decode_request, encode_reply};
use plasmon_proto::message::{Access, IndexTable, MissingClaims, Reply, Request, Welcome};
use plasmon_proto::object::{Level, ObjectState};
use plasmon_shm::socket::Listener;

use super::*;

/// A copy that was wanted before the node had its slot was never answered, so the opening stayed.
#[test]
fn a_copy_that_is_wanted_before_the_node_has_a_slot_is_not_here() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let listener = Listener::bind(&socket, 0o600).unwrap();
    let daemon = std::thread::spawn(move || {
        let client = listener.accept().unwrap();
        let mut bytes = Vec::new();
        let received = client.recv(&mut bytes, true).unwrap();
        let (number, hello) = decode_request(&bytes[..received.bytes]).unwrap();
        assert!(matches!(hello, Request::Hello(_)));
        let welcome = Welcome {
            client: 1,
            token: 1,
            store: 9,
            epoch: 1,
            resumed: false,
            lost: MissingClaims::default(),
            channel: false,
            wake_page: false,
            access: Access::ReadWrite,
            level: Level::Leased,
            capacity_bytes: 1 << 20,
            index: IndexTable { number: 1, slots: 1 },
        };
        let reply = Reply::Welcome(welcome);
        client.send(&encode_reply(number, &reply).unwrap(), &[]).unwrap();
        client
    });
    let connection = StoreConnection::connect(&socket).unwrap();
    let client = daemon.join().unwrap();
    let mut store = NodeStore::new(&connection, || {});
    let birth = Birth { slot: Slot(1), boot: 1, serial: 1 };
    store.open(7, &ObjectId::pooled([1; 12], None), birth);
    let mut bytes = Vec::new();
    let received = client.recv(&mut bytes, true).unwrap();
    let (number, request) = decode_request(&bytes[..received.bytes]).unwrap();
    assert!(matches!(request, Request::Get { .. }));
    let reply = Reply::Located(vec![Err(ObjectState::Absent)]);
    client.send(&encode_reply(number, &reply).unwrap(), &[]).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        assert!(store.receive(&mut events));
    }
    assert!(matches!(events[..], [StoreEvent::Opened(7, None)]));
    drop(client);
    while store.receive(&mut events) {}
    assert_eq!(events.len(), 1);
}
