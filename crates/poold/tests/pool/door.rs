//! The socket at which programs ask where objects are: right answers, and bytes that are none.

use std::path::Path;

use plasmon_poold::door::Door;
use plasmon_proto::ObjectId;
use plasmon_proto::frame::{decode_admin_reply, encode_admin_request};
use plasmon_proto::pool_admin::{ObjectPlace, Reply, Request, Standing, socket_of};
use plasmon_shm::socket::Connection;

use crate::{World, id};

fn ask(connection: &Connection, number: u64, id: ObjectId) -> ObjectPlace {
    match reply(connection, number, Request::Where(id)) {
        Reply::Where(place) => place,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn reply(connection: &Connection, number: u64, request: Request) -> Reply {
    let request = encode_admin_request(number, &request).unwrap();
    connection.send(&request, &[]).unwrap();
    let mut bytes = Vec::new();
    assert!(connection.recv(&mut bytes, true).unwrap().bytes > 0, "the connection ended");
    let (answered, reply) = decode_admin_reply(&bytes).unwrap();
    assert_eq!(answered, number);
    reply
}

/// Whether the other end has ended the connection.
pub(crate) fn is_ended(connection: &Connection) -> bool {
    let mut bytes = Vec::new();
    connection.recv(&mut bytes, true).unwrap().bytes == 0
}

#[test]
fn programs_ask_any_node_where_an_object_is() {
    let Some(mut world) = World::start(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..3).map(|at| folder.path().join(format!("{at}.sock"))).collect();
    let doors = world.nodes.iter().zip(&stores);
    let mut doors: Vec<Door> =
        doors.map(|(node, store)| Door::open(store, node.pool.asker()).unwrap()).collect();
    let connect = |store: &Path| Connection::connect(&socket_of(store)).unwrap();

    let bytes = vec![7; 100_000];
    assert_eq!(world.put(0, id(1), &bytes, 2), Ok(()));
    assert_eq!(world.get(0, id(9)), Err(plasmon_pool::Fate::Absent));
    let mut told = Vec::new();
    for store in &stores {
        let connection = connect(store);
        let place = ask(&connection, 5, id(1));
        assert_eq!(ask(&connection, 6, id(9)).standing, Standing::Absent);
        assert_eq!(place.standing, Standing::Live);
        let found = place.found.clone().unwrap();
        assert_eq!((found.data_bytes, found.copies), (100_000, 2));
        assert_eq!((found.origin.as_str(), found.holders.len()), ("n0", 2));
        assert!(found.holders.contains(&"n0".to_owned()), "{found:?}");
        told.push(place);
    }
    assert!(told.iter().all(|place| *place == told[0]), "{told:?}");

    let connection = connect(&stores[1]);
    let Reply::Status(status) = reply(&connection, 7, Request::Status) else { panic!() };
    assert_eq!((status.nodes_live, status.groups_settled), (3, 1024));
    assert!(status.leader.is_some());
    let Reply::Nodes(nodes) = reply(&connection, 8, Request::Nodes { after: None }) else {
        panic!()
    };
    assert_eq!(nodes.len(), 3);
    let after = Some(nodes[1].slot);
    let rest = reply(&connection, 9, Request::Nodes { after });
    assert_eq!(rest, Reply::Nodes(nodes[2..].to_vec()));

    // Bytes that are no request end their connection, and no other.
    let (good, request) = (connect(&stores[0]), Request::Where(id(1)));
    let whole = encode_admin_request(1, &request).unwrap();
    for wrong in [&b"?"[..], &[0; 1000], &whole[..whole.len() - 1], &[&whole[..], b"x"].concat()] {
        let bad = connect(&stores[0]);
        bad.send(wrong, &[]).unwrap();
        assert!(is_ended(&bad), "{} bytes", wrong.len());
    }
    assert_eq!(ask(&good, 2, id(1)).standing, Standing::Live);

    // There are so many connections, and a place once one has ended.
    let connected = |_| {
        let mut found = None;
        // The end of a connection before takes a moment.
        plasmon_testkit::until("there is a place", || {
            let next = connect(&stores[0]);
            let is_there = next.send(&whole, &[]).is_ok() && !is_ended(&next);
            found = is_there.then_some(next);
            found.is_some()
        });
        found.unwrap()
    };
    let many: Vec<Connection> = (0..127).map(connected).collect();
    assert!(is_ended(&connect(&stores[0])), "one too many");
    drop(many);
    drop(connected(0));

    // A node that ended answers that it cannot be asked; a socket that was closed is gone.
    drop(world.nodes.remove(0));
    assert_eq!(ask(&good, 3, id(1)).standing, Standing::Unreachable);
    drop(doors.remove(0));
    assert!(is_ended(&good));
    assert!(Connection::connect(&socket_of(&stores[0])).is_err());
}
