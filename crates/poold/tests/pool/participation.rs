//! How far nodes are with taking part, as they say it at their sockets.
//!
//! `plasmon pool dev` said that a pool was ready when its stores served. Its nodes did not know
//! each other yet, and a program that named one of them was told that the pool has no such node.

use std::path::Path;

use plasmon_poold::door::Door;
use plasmon_proto::participation::Participation;
use plasmon_proto::pool_admin::{Reply, Request, socket_of};
use plasmon_shm::socket::Connection;

use crate::door::reply;
use crate::double::eventually;
use crate::{Node, World};

fn ask(store: &Path) -> Participation {
    let connection = Connection::connect(&socket_of(store)).unwrap();
    match reply(&connection, 1, Request::Participation) {
        Reply::Participation(found) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_says_when_it_reaches_all_others_and_why_it_is_not_let_in() {
    let Some(mut world) = World::start(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..4).map(|at| folder.path().join(format!("{at}.sock"))).collect();
    let doors = world.nodes.iter().zip(&stores);
    let _doors: Vec<Door> =
        doors.map(|(node, store)| Door::open(store, node.pool.asker()).unwrap()).collect();
    for (at, store) in stores[..3].iter().enumerate() {
        eventually("the node reaches all others", || {
            let found = ask(store);
            found.reaches_all() && found.live == 3
        });
        let (found, slot) = (ask(store), world.slot(at));
        assert_eq!((found.slot, found.refused), (Some(slot), None));
        assert!(found.epoch > 0 && found.epoch <= world.map().epoch().0);
    }

    // Its name is that of a node that is up.
    let identity = tempfile::tempdir().unwrap();
    let second = Node::start(&world.etcd, identity.path(), 1, None);
    let _door = Door::open(&stores[3], second.pool.asker()).unwrap();
    eventually("it is not let in", || ask(&stores[3]).refused.is_some());
    let found = ask(&stores[3]);
    assert!(!found.has_joined() && found.slot.is_none(), "{found:?}");
    let reason = found.refused.unwrap();
    assert!(reason.contains("node n1") && reason.contains("has this name"), "{reason}");

    // One that is lost counts no more once its lease has ended.
    drop(world.nodes.remove(0));
    for store in &stores[1..3] {
        eventually("the node reaches those that are left", || {
            let found = ask(store);
            found.reaches_all() && found.live == 2
        });
    }
    // A node that has ended says that it takes no part.
    assert!(!ask(&stores[0]).has_joined());
}
