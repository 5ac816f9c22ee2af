//! Three whole nodes with a real etcd: `plasmond` with its keeper, `plasmon-poold`, and clients.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod adoption;
mod contents;
mod deletes;
mod disk;
mod drain;
mod durable;
mod encrypted;
mod etcd_members;
mod fabric;
mod faults;
mod homed;
mod hostile;
mod links;
mod listing;
mod machines;
mod network;
mod node;
mod notices;
mod operator;
mod pairs;
mod partitions;
mod quotas;
mod regions;
mod relay;
mod relayed;
mod scrub;
mod spread;
mod stranger;

use std::thread;
use std::time::Duration;

use plasmon_client::{Code, Name, ObjectState, PutOptions};
use plasmon_testkit::{pattern, until};

use crate::node::{LONG, NOW, Node, nodes};

fn name(text: &str) -> Name {
    Name::new("", text).unwrap()
}

fn named(text: &str, copies: u8) -> PutOptions {
    let (name, metadata) = (Some(name(text)), b"what it is".to_vec());
    PutOptions { name, metadata, tag: 7, copies, ..PutOptions::default() }
}

#[test]
fn an_object_is_put_on_one_node_and_got_on_all() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    for (text, bytes) in [
        ("@prod:empty", 0),
        ("@prod:small", 5),
        ("@prod:one", 1 << 20),
        ("@prod:large", (20 << 20) + 3),
    ] {
        let data = pattern(bytes as u64, bytes);
        let id = nodes[0].client.put(&data, &named(text, 2)).unwrap();
        for node in &nodes {
            let found = node.client.get(&id, LONG).unwrap();
            assert!(found.data() == data, "{text}");
            assert_eq!((found.metadata(), found.tag()), (&b"what it is"[..], 7));
            // It is here now: no question goes anywhere.
            assert!(node.client.get_now(&id).is_some());
            assert_eq!(node.client.get_named(&name(text), NOW).unwrap().data(), data);
        }
        let again = nodes[1].client.put(&data, &named(text, 2)).unwrap_err();
        assert_eq!(again.code(), Code::Exists, "{text}");
        assert_eq!(nodes[2].client.delete(&[id]).unwrap(), [None]);
        for node in &nodes {
            until("the copies are gone", || node.client.get_now(&id).is_none());
            let error = node.client.get(&id, NOW).unwrap_err();
            assert!(matches!(error.code(), Code::Absent | Code::Deleted), "{error}");
        }
    }
}

#[test]
fn a_get_waits_for_an_object_that_another_node_makes() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let id = name("@prod:later").id();
    assert_eq!(nodes[1].client.states(&[id]).unwrap(), [ObjectState::Absent]);
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| nodes[1].client.get(&id, LONG).map(|found| found.data().to_vec()));
        // Its question is under way or not: both are right.
        thread::sleep(Duration::from_millis(50));
        nodes[0].client.put(b"late", &named("@prod:later", 1)).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"late");
    });
}

#[test]
fn of_two_nodes_that_make_one_name_one_succeeds() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    for round in 0..20 {
        let text = format!("@prod:race{round}");
        let put = |node: &Node, data: &[u8]| node.client.put(data, &named(&text, 2));
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(|| put(&nodes[0], b"one"));
            let other = scope.spawn(|| put(&nodes[1], b"other"));
            (one.join().unwrap(), other.join().unwrap())
        });
        let expected = match (&one, &other) {
            (Ok(_), Err(error)) if error.code() == Code::Exists => b"one".to_vec(),
            (Err(error), Ok(_)) if error.code() == Code::Exists => b"other".to_vec(),
            _ => panic!("{one:?}, {other:?}"),
        };
        for node in &nodes {
            let found = node.client.get(&name(&text).id(), LONG).unwrap();
            assert_eq!(found.data(), expected);
        }
    }
}

#[test]
fn a_node_that_is_killed_loses_nothing_and_its_copies_are_made_again() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let data = pattern(1, 5 << 20);
    let ids: Vec<_> = (0..10)
        .map(|number| nodes[0].client.put(&data, &named(&format!("@prod:{number}"), 2)).unwrap())
        .collect();
    nodes.remove(0).kill();
    for id in &ids {
        assert!(nodes[1].client.get(id, LONG).unwrap().data() == data);
        assert!(nodes[0].client.get(id, LONG).unwrap().data() == data);
    }
    // Each node that is left has a copy that is never evicted.
    for node in &nodes {
        until("every copy is kept", || ids.iter().all(|id| node.keeps(id)));
    }
    // A daemon that starts again has forgotten which; the pool has not.
    for node in &nodes {
        node.kill_daemon();
        until("every copy is kept again", || ids.iter().all(|id| node.keeps(id)));
    }
}

#[test]
fn a_pool_daemon_that_is_killed_comes_back() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let data = pattern(2, 100_000);
    let id = nodes[0].client.put(&data, &named("@prod:x", 1)).unwrap();
    for _ in 0..3 {
        nodes[0].kill_pool_daemon();
        assert!(nodes[0].client.get(&id, NOW).unwrap().data() == data, "what is here is read");
        let other = nodes[0].client.put(b"y", &named("@prod:y", 2)).unwrap();
        assert_eq!(nodes[1].client.get(&other, LONG).unwrap().data(), b"y");
        assert_eq!(nodes[1].client.delete(&[other]).unwrap(), [None]);
        // As long as the copy is here, a put of the name is refused: it exists.
        until("the copy is gone", || nodes[0].client.get_now(&other).is_none());
    }
    assert!(nodes[1].client.get(&id, LONG).unwrap().data() == data);
}

#[test]
fn a_daemon_that_is_killed_keeps_its_place_in_the_pool() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let data = pattern(3, 100_000);
    let id = nodes[0].client.put(&data, &named("@prod:x", 1)).unwrap();
    nodes[0].kill_daemon();
    assert!(nodes[0].client.get(&id, LONG).unwrap().data() == data);
    assert!(nodes[1].client.get(&id, LONG).unwrap().data() == data);
    let error = nodes[1].client.put(b"other", &named("@prod:x", 1)).unwrap_err();
    assert_eq!(error.code(), Code::Exists);
}

/// A put whose daemon was killed while the pool was deciding about it was told that the object is
/// absent: the seal was asked again, and the next daemon knew of none. The pool may accept it yet.
#[test]
fn a_put_whose_daemon_is_killed_while_the_pool_decides_is_told_that_it_is_disconnected() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let node = &nodes[0];
    let pool_daemon = node.stop_pool_daemon();
    thread::scope(|scope| {
        let putting = scope.spawn(|| node.client.put(&pattern(4, 100_000), &named("@prod:x", 2)));
        let observer = node.connect();
        until("the object is sealed and not shown", || {
            let status = observer.status().unwrap();
            status.creating == 0 && status.used_bytes >= 100_000
        });
        node.kill_daemon();
        let error = putting.join().unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Disconnected, "{error}");
    });
    plasmon_testkit::kill(pool_daemon, plasmon_testkit::Signal::CONT);
}

#[test]
fn copies_move_at_every_level_of_protection() {
    for level in ["leased", "strict"] {
        let Some((_etcd, nodes)) = nodes(2, &["--level", level]) else { return };
        for bytes in [10, 3 << 20] {
            let data = pattern(bytes as u64, bytes);
            let text = format!("@prod:{bytes}");
            let id = nodes[0].client.put(&data, &named(&text, 2)).unwrap();
            assert!(nodes[1].client.get(&id, LONG).unwrap().data() == data, "{level}");
        }
    }
}
