//! Programs list what all nodes have, at the socket of any of them.

use std::collections::BTreeMap;

use plasmon_poold::door::Door;
use plasmon_proto::ObjectId;
use plasmon_proto::limits::NAMESPACE_BYTES_MAX;
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_admin::{LIST_WITHOUT_MAX, Reply, Request, socket_of};
use plasmon_proto::pool_listing::ListQuery;
use plasmon_shm::socket::Connection;

use crate::door::{is_ended, reply};
use crate::{World, id};

/// The store's double has no names: every object is in every namespace that is not the pool's.
fn query(after: Option<ObjectId>) -> ListQuery {
    ListQuery { namespace: "all".to_owned(), prefix: String::new(), after }
}

/// Everything that is listed, and the nodes that did not answer.
fn list(connection: &Connection) -> (BTreeMap<ObjectId, u16>, Vec<String>) {
    let (mut found, mut after) = (BTreeMap::new(), None);
    let (mut without, mut named) = (Vec::new(), Vec::new());
    loop {
        let request = Request::List { query: query(after), without: without.clone() };
        let Reply::Listed { page, missing } = reply(connection, 1, request) else { panic!() };
        assert!(query(after).is_answered_by(&page), "{page:?}");
        for object in page.objects {
            assert_eq!(found.insert(object.id, object.copies), None);
        }
        for (slot, name) in missing {
            without.push(slot);
            named.push(name);
        }
        after = page.next;
        if after.is_none() {
            return (found, named);
        }
    }
}

#[test]
fn a_listing_has_every_object_of_all_nodes_once_and_names_a_node_that_is_silent() {
    let Some(mut world) = World::start(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..3).map(|at| folder.path().join(format!("{at}.sock"))).collect();
    let doors = world.nodes.iter().zip(&stores);
    let _doors: Vec<Door> =
        doors.map(|(node, store)| Door::open(store, node.pool.asker()).unwrap()).collect();
    let connections: Vec<Connection> =
        stores.iter().map(|store| Connection::connect(&socket_of(store)).unwrap()).collect();
    assert_eq!(list(&connections[0]), (BTreeMap::new(), Vec::new()));

    let mut expected = BTreeMap::new();
    for number in 0..30 {
        let copies = 1 + number % 3;
        assert_eq!(world.put(usize::from(number % 2), id(number), b"x", copies), Ok(()));
        expected.insert(id(number), u16::from(copies));
    }
    for number in 0..30 {
        // A copy is shown when its node hears that the object is published.
        let shown = || {
            let shown = world.nodes.iter().filter(|node| node.store.keeps(id(number))).count();
            shown == usize::from(1 + number % 3)
        };
        crate::double::eventually("every copy is shown", shown);
    }
    for connection in &connections {
        assert_eq!(list(connection), (expected.clone(), Vec::new()));
    }

    world.nodes[1].store.set_silent(true);
    let (found, missing) = list(&connections[2]);
    assert_eq!(missing, ["n1"]);
    // What others have as well is there, with the copies that answered.
    for number in 0..30 {
        let is_there = number % 2 == 0 || number % 3 > 0;
        assert!(!is_there || found.contains_key(&id(number)), "{number}");
    }
    assert!(found.keys().all(|id| expected.contains_key(id)));
    world.nodes[1].store.set_silent(false);
    assert_eq!(list(&connections[1]), (expected, Vec::new()));

    // Questions that are too long end their connection.
    let long = ListQuery { namespace: "n".repeat(NAMESPACE_BYTES_MAX + 1), ..query(None) };
    for request in [
        Request::List { query: long, without: Vec::new() },
        Request::List { query: query(None), without: vec![Slot(0); LIST_WITHOUT_MAX + 1] },
    ] {
        let bad = Connection::connect(&socket_of(&stores[0])).unwrap();
        let request = plasmon_proto::frame::encode_admin_request(1, &request).unwrap();
        bad.send(&request, &[]).unwrap();
        assert!(is_ended(&bad));
    }
}
