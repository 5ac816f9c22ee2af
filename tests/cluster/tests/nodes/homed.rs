//! Objects without names: seen at once, found through their home, accepted by the pool afterwards.

use std::time::Duration;

use plasmon_client::{Ack, Client, Code, Error, Filter, Name, ObjectId, PutOptions};
use plasmon_testkit::{pattern, until};

use crate::node::{LONG, NOW, nodes};

/// A time within which nothing that needs the pool can have happened.
const SOON: Option<Duration> = Some(Duration::from_millis(300));

fn pooled(copies: u8) -> PutOptions {
    PutOptions { pool: true, copies, ..PutOptions::default() }
}

fn local(copies: u8) -> PutOptions {
    PutOptions { ack: Some(Ack::Local), ..pooled(copies) }
}

fn settled(client: &Client, ids: &[ObjectId]) {
    let outcomes = client.settle(ids, LONG).unwrap();
    assert!(outcomes.iter().all(Option::is_none), "{outcomes:?}");
}

/// Puts so many objects of a few bytes each.
fn put_many(client: &Client, count: u64, options: &PutOptions) -> Vec<ObjectId> {
    (0..count).map(|number| client.put(&number.to_le_bytes(), options).unwrap()).collect()
}

/// All of them from this one on are there.
fn check_from(client: &Client, first: usize, ids: &[ObjectId], context: &str) {
    let found = client.get_many(&ids[first..], LONG).unwrap();
    for (number, found) in (first as u64..).zip(found) {
        let found = found.unwrap_or_else(|error| panic!("{context}, {number}: {error}"));
        assert_eq!(found.data(), number.to_le_bytes(), "{context}");
    }
}

#[test]
fn an_object_without_a_name_is_found_on_all_nodes_as_soon_as_it_is_put() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    for (round, bytes) in [0, 5, 1 << 20, (20 << 20) + 3, 64, 65].into_iter().enumerate() {
        let data = pattern(round as u64, bytes);
        let options = PutOptions { metadata: b"what it is".to_vec(), tag: 7, ..pooled(0) };
        let id = nodes[0].client.put(&data, &options).unwrap();
        assert!(id.is_pooled() && id.home().is_some());
        for node in nodes.iter().rev() {
            // As it is now: it was put, so it is not absent.
            let found = node.client.get_existing(&id).unwrap();
            assert!(found.data() == data, "{bytes}");
            assert_eq!((found.metadata(), found.tag()), (&b"what it is"[..], 7));
        }
        settled(&nodes[0].client, &[id]);
        // A primary that has not heard yet that the home joined has the copy dropped.
        until("a copy is there, too", || {
            nodes[1].client.get_existing(&id).unwrap();
            nodes[1].client.settle(&[id], NOW).unwrap() == [None]
        });
        assert_eq!(nodes[2].client.delete(&[id]).unwrap(), [None]);
        // A node gets the copies of others, which end one by one.
        until("the copies are gone", || {
            nodes.iter().all(|node| node.client.get_now(&id).is_none())
        });
        for node in &nodes {
            let error = node.client.get(&id, NOW).unwrap_err();
            assert!(matches!(error.code(), Code::Absent | Code::Deleted), "{error}");
        }
    }
    let ids: Vec<ObjectId> =
        nodes.iter().map(|it| it.client.put(b"x", &pooled(0)).unwrap()).collect();
    let homes: std::collections::BTreeSet<_> = ids.iter().map(ObjectId::home).collect();
    assert_eq!(homes.len(), 3, "each node has a slot of its own");
    let error = nodes[0].client.settle(&ids[1..2], NOW).unwrap();
    assert_eq!(error, [Some(Code::BadRequest)], "it is settled where it was put");
}

/// An object that other nodes ask for before the pool daemon of its home was told of it was absent.
#[test]
fn what_the_pool_daemon_has_not_heard_of_is_found_all_the_same() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    for round in 0..200u64 {
        let id = nodes[0].client.put(&round.to_le_bytes(), &pooled(0)).unwrap();
        let found = nodes[1].client.get_existing(&id);
        assert_eq!(found.unwrap().data(), round.to_le_bytes(), "round {round}");
    }
    let ids = put_many(&nodes[0].client, 5_000, &pooled(0));
    let last = nodes[1].client.get_existing(ids.last().unwrap()).unwrap();
    assert_eq!(last.data(), 4_999u64.to_le_bytes());
    settled(&nodes[0].client, &ids);
}

#[test]
fn copies_are_there_when_a_put_returns_or_is_settled() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let waited = nodes[0].client.put(b"waited", &pooled(2)).unwrap();
    let client = &nodes[0].client;
    let settled_later = client.put_many(&[(None, b"one"), (None, b"two")], &local(2)).unwrap();
    settled(client, &settled_later);
    let mut writer = client.create(6, &pooled(2)).unwrap();
    writer.copy_from_slice(b"filled");
    let filled = writer.seal().unwrap();
    let refused = client.put(b"x", &PutOptions { copies: 8, copies_min: 4, ..pooled(8) });
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::NotEnoughNodes);
    let said = "it needs 4 nodes at least, and the pool has 3 nodes for copies now";
    assert!(refused.to_string().contains(said), "{refused}");

    // The pool refuses it after it was seen: it has ended, everywhere.
    let options = PutOptions { copies_min: 4, ..local(4) };
    let id = client.put(b"too much", &options).unwrap();
    assert_eq!(client.settle(&[id], LONG).unwrap(), [Some(Code::NotEnoughNodes)]);
    for node in &nodes {
        until("the refused object is gone", || {
            let found = node.client.get(&id, NOW).map(drop).map_err(|error| error.code());
            matches!(found, Err(Code::Absent | Code::Deleted))
        });
    }

    // The home dies: the directory knows where the copies are. Until another node leads it, which
    // takes longer on a machine that is busy, they are out of reach.
    nodes.remove(0).kill();
    let all = [waited, filled, settled_later[0], settled_later[1]];
    for node in &nodes {
        for (id, data) in all.iter().zip([&b"waited"[..], b"filled", b"one", b"two"]) {
            let mut found = node.client.get(id, LONG);
            until("another node leads", || {
                let is_away = |error: &Error| error.code() == Code::Unreachable;
                let away = found.as_ref().is_err_and(is_away);
                if away {
                    found = node.client.get(id, LONG);
                }
                !away
            });
            assert_eq!(found.unwrap().data(), data);
        }
    }
    assert_eq!(nodes[1].client.delete(&all).unwrap(), [None; 4]);
}

/// Reads of objects with a home go on while etcd is away, and so do puts; the pool accepts them
/// when it is back.
#[test]
fn etcd_is_away() {
    let Some((mut etcd, nodes)) = nodes(2, &[]) else { return };
    let before = put_many(&nodes[0].client, 100, &pooled(0));
    settled(&nodes[0].client, &before);
    etcd.kill(0);
    // Leases end.
    std::thread::sleep(Duration::from_secs(4));
    check_from(&nodes[1].client, 0, &before, "put before");
    let during = put_many(&nodes[0].client, 100, &pooled(0));
    check_from(&nodes[1].client, 0, &during, "put meanwhile");
    let outcomes = nodes[0].client.settle(&during, SOON).unwrap();
    assert_eq!(outcomes, [Some(Code::TimedOut); 100]);
    etcd.restart(0);
    settled(&nodes[0].client, &during);
    assert_eq!(nodes[1].client.delete(&during).unwrap(), [None; 100]);
}

/// What the pool daemon had not answered is told again to the next one, and by the next daemon.
#[test]
fn pool_daemons_and_daemons_are_killed_while_objects_are_put() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    for round in 0..4u64 {
        let putter = nodes[0].connect();
        let ids = std::thread::scope(|scope| {
            let putting = scope.spawn(|| put_many(&putter, 3_000, &local(1 + (round % 2) as u8)));
            std::thread::sleep(Duration::from_millis(6 * round));
            match round {
                0 | 1 => nodes[0].kill_pool_daemon(),
                2 => nodes[1].kill_pool_daemon(),
                _ => nodes[0].kill_daemon(),
            }
            putting.join().unwrap()
        });
        // The client that put them is gone, too.
        drop(putter);
        let mut outcomes = nodes[0].client.settle(&ids, LONG).unwrap();
        // For ten seconds there may be no pool daemon on a machine that is busy.
        if outcomes.contains(&Some(Code::Unreachable)) {
            outcomes = nodes[0].client.settle(&ids, LONG).unwrap();
        }
        assert!(outcomes.iter().all(Option::is_none), "round {round}");
        check_from(&nodes[1].client, 2_500, &ids, &format!("round {round}"));
        let outcomes = nodes[1].client.delete(&ids).unwrap();
        assert!(outcomes.iter().all(Option::is_none), "round {round}");
        for node in &nodes {
            until("the memory of every object is free", || {
                node.client.status().unwrap().objects == 0
            });
        }
    }
}

/// A delete of what the pool daemon had not heard of yet was answered before the object was
/// committed, which then came to exist.
#[test]
fn deletes_right_after_puts_leave_nothing() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let ids = put_many(&nodes[0].client, 8_000, &pooled(0));
    for (chunk, node) in ids.chunks(2_000).zip([0, 1, 0, 1]) {
        let outcomes = nodes[node].client.delete(chunk).unwrap();
        assert!(outcomes.iter().all(Option::is_none));
    }
    for node in &nodes {
        until("the memory of every object is free", || node.client.status().unwrap().objects == 0);
    }
    let outcomes = nodes[0].client.settle(&ids, LONG).unwrap();
    let ended = |outcome: &Option<Code>| matches!(outcome, Some(Code::Deleted | Code::Absent));
    assert!(outcomes.iter().all(ended));
}

/// Spark's shuffle names its outputs so: found from the slot alone, listed and ended by the name.
#[test]
fn a_name_at_home_is_found_on_all_nodes_by_its_id_and_ends_with_its_namespace() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let owner = nodes[1].connect();
    owner.adopt("@app", 0).unwrap();
    let name = |text: &str| Name::new("@app", text).unwrap();
    let put = |node: usize, text: &str, copies| {
        let client = &nodes[node].client;
        let id = name(text).id_at(client.pool_slot().unwrap().0);
        let options = PutOptions { id: Some(id), name: Some(name(text)), ..local(copies) };
        let mut writer = client.create(8, &PutOptions { trusted: true, ..options }).unwrap();
        writer.copy_from_slice(&(node as u64).to_le_bytes());
        assert_eq!(writer.seal().unwrap(), id);
        id
    };
    let same = [put(0, "same", 1), put(2, "same", 1)];
    for (id, bytes) in same.iter().zip([0, 2u64]) {
        assert_eq!(nodes[1].client.get_existing(id).unwrap().data(), bytes.to_le_bytes());
    }
    let kept = put(0, "kept", 2);
    settled(&nodes[0].client, &[same[0], kept]);
    let error = nodes[1].client.get_existing(&name("same").id()).unwrap_err();
    assert_eq!(error.code(), Code::Absent, "the name alone leads to no object");
    let wrong = PutOptions { id: Some(name("other").id_at(0)), ..pooled(1) };
    let error = nodes[0].client.put(b"x", &PutOptions { name: Some(name("x")), ..wrong });
    assert_eq!(error.unwrap_err().code(), Code::BadRequest);
    let listed = Filter { namespace: Some("@app".to_owned()), prefix: Some("same".to_owned()) };
    until("all nodes list both", || {
        let found = nodes[1].client.list(&listed).unwrap();
        found.len() == 2 && found.iter().all(|info| same.contains(&info.id))
    });

    // The home dies, and what has another copy is found there under the name's id.
    nodes.remove(0).kill();
    let found = || nodes.iter().all(|node| node.client.get(&kept, LONG).is_ok());
    until("the other copy is found", found);
    owner.disconnect();
    until("everything of the namespace is gone", || {
        nodes.iter().all(|node| {
            let ids = [same[1], kept];
            ids.iter().all(|id| node.client.get_now(id).is_none())
                && node.client.list(&listed).is_ok_and(|found| found.is_empty())
        })
    });
}
