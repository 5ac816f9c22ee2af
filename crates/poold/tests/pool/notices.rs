//! Programs subscribe at the socket of a node to what happens on all of them.

use std::path::{Path, PathBuf};

use plasmon_poold::door::Door;
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_admin_request};
use plasmon_proto::limits::NAME_BYTES_MAX;
use plasmon_proto::message::{Push, Reply};
use plasmon_proto::pool_admin::{Reply as PoolReply, Request, socket_of};
use plasmon_proto::pool_notice::NamesFilter;
use plasmon_proto::{Code, ObjectId, ObjectState};
use plasmon_shm::socket::Connection;

use crate::door::is_ended;
use crate::{World, id};

/// What a program is told: a state of an object, or that notices were lost.
type Told = Option<(ObjectId, ObjectState)>;

fn connect(store: &Path, filter: &NamesFilter) -> Connection {
    let connection = Connection::connect(&socket_of(store)).unwrap();
    let request = encode_admin_request(7, &Request::Subscribe(filter.clone())).unwrap();
    connection.send(&request, &[]).unwrap();
    connection
}

/// The next message, which comes in time: the socket has a deadline.
fn receive(connection: &Connection) -> FromDaemon {
    let mut bytes = Vec::new();
    assert!(connection.recv(&mut bytes, true).unwrap().bytes > 0, "the connection ended");
    decode_from_daemon(&bytes).unwrap()
}

/// A program that is told of every name, which the store's double makes of the id.
fn subscribe(store: &Path, prefix: &str) -> Connection {
    let filter = NamesFilter { namespace: "all".to_owned(), prefix: prefix.to_owned() };
    let connection = connect(store, &filter);
    assert_eq!(receive(&connection), FromDaemon::Reply(7, Reply::Done));
    connection
}

/// The next so many notices.
fn told(connection: &Connection, count: usize) -> Vec<Told> {
    let mut found: Vec<Told> = Vec::new();
    while found.len() < count {
        match receive(connection) {
            FromDaemon::Push(Push::NamedNotices(notices)) => {
                found.extend(notices.iter().map(|it| {
                    assert_eq!(it.name.text, it.notice.id.to_string());
                    Some((it.notice.id, it.notice.state))
                }))
            }
            FromDaemon::Push(Push::NoticesLost(u64::MAX)) => found.push(None),
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn births_and_deletes_of_all_nodes_are_told_once_and_a_node_that_ends_is_a_gap() {
    let Some(mut world) = World::start(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<PathBuf> = (0..3).map(|at| folder.path().join(format!("{at}.sock"))).collect();
    let doors = world.nodes.iter().zip(&stores);
    let mut doors: Vec<Door> =
        doors.map(|(node, store)| Door::open(store, node.pool.asker()).unwrap()).collect();
    let all: Vec<Connection> = stores.iter().map(|store| subscribe(store, "")).collect();
    let some = subscribe(&stores[0], &id(1).to_string());

    let born = |number| Some((id(number), ObjectState::Sealed));
    let deleted = |number| Some((id(number), ObjectState::Deleted));
    assert_eq!(world.put(0, id(1), b"one", 3), Ok(()));
    assert_eq!(world.put(1, id(2), b"two", 1), Ok(()));
    for connection in &all {
        let mut first = told(connection, 2);
        first.sort_by_key(|told| told.map(|(id, _)| id));
        assert_eq!(first, [born(1), born(2)]);
    }
    assert!(world.nodes[2].store.delete(id(1)));
    // Every copy of it is dropped, and it is deleted once. The next birth comes after that.
    for node in &world.nodes {
        node.store.wait_until_gone(id(1));
    }
    assert!(world.nodes[2].store.delete(id(2)));
    for connection in &all {
        assert_eq!(told(connection, 2), [deleted(1), deleted(2)]);
    }
    assert_eq!(told(&some, 2), [born(1), deleted(1)]);

    // There are so many subscriptions, and questions are answered all the same.
    let filter = NamesFilter { namespace: "all".to_owned(), prefix: String::new() };
    let many: Vec<Connection> = (0..22).map(|_| subscribe(&stores[0], "")).collect();
    let FromDaemon::Reply(7, Reply::Failed(failure)) = receive(&connect(&stores[0], &filter))
    else {
        panic!("one too many")
    };
    assert_eq!(failure.code, Code::LimitReached);
    let asking = Connection::connect(&socket_of(&stores[0])).unwrap();
    assert!(matches!(crate::door::reply(&asking, 1, Request::Status), PoolReply::Status(_)));
    drop(many);

    // The node's own socket goes first: it is no node's any more.
    drop(doors.remove(1));
    drop(world.nodes.remove(1));
    for connection in [&all[0], &all[2]] {
        assert_eq!(told(connection, 1), [None]);
    }
    assert!(is_ended(&all[1]));
    let made = |world: &mut World| world.put(0, id(3), b"three", 1) == Ok(());
    crate::double::eventually("the pool goes on", || made(&mut world));
    let told = told(&all[2], 1);
    assert!(told == [born(3)] || told == [None], "{told:?}");

    let long = NamesFilter { prefix: "x".repeat(NAME_BYTES_MAX + 1), ..NamesFilter::default() };
    assert!(is_ended(&connect(&stores[0], &long)));
}
