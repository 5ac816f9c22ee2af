//! Copies whose bytes go bad on a disk: they are found, and repaired from those of other nodes.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use plasmon_client::{Code, ObjectId, ObjectState};
use plasmon_testkit::{Etcd, Random, until};
use serde_json::Value;

use crate::contents::{damage, random_bytes, verify};
use crate::durable::{LOG, durable, put, switch_on};
use crate::name;
use crate::node::{LONG, Node, nodes};

/// The nodes that keep an object.
fn holders(node: &Node, id: &ObjectId) -> Vec<String> {
    let found = node.client.pool_place(id).ok().and_then(|place| place.found);
    found.map(|found| found.holders).unwrap_or_default()
}

/// The number of a node in its name.
fn number(name: &str) -> usize {
    name.strip_prefix("node").unwrap().parse().unwrap()
}

/// Changes a byte of an object in the log of a node.
fn damage_log(node: &Node, content: &[u8]) {
    let files = fs::read_dir(node.path("log")).unwrap().flatten();
    let damaged = files.filter(|entry| damage_file(&entry.path(), content)).count();
    assert_eq!(damaged, 1, "it is in the log once");
}

fn damage_file(path: &Path, content: &[u8]) -> bool {
    let is_segment = path.extension().is_some_and(|extension| extension == "log");
    is_segment && {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        damage(&file, 64, content)
    }
}

/// Everything on a disk, and in no memory.
fn begin(objects: &[(&str, &[u8])]) -> Option<(Etcd, Vec<Node>)> {
    let (etcd, mut nodes) = nodes(3, &LOG)?;
    for (at, (text, content)) in objects.iter().enumerate() {
        put(&nodes[at % 3], content, &durable(text, 2));
    }
    // Damage to the last batch of a log would look like a loss of power.
    put(&nodes[0], b"last", &durable("@prod:last", 3));
    nodes.iter_mut().for_each(Node::switch_off);
    Some((etcd, nodes))
}

fn wait_until_there(nodes: &[Node], objects: &[(&str, &[u8])]) {
    for node in nodes {
        node.wait_until_joined();
        node.wait_until_it_reaches(nodes.len());
        for (text, _) in objects {
            let id = name(text).id();
            until("the object is known", || holders(node, &id).len() == 2);
        }
    }
    wait_until_whole(&nodes[0]);
}

fn wait_until_whole(node: &Node) {
    until("the pool is whole", || {
        node.client.pool_verify(Duration::from_secs(60)).is_ok_and(|found| found.is_whole())
    });
}

#[test]
fn a_copy_that_is_damaged_in_a_log_is_made_again_and_all_nodes_read_what_is_right() {
    let mut dice = Random::new(21);
    let (small, large) = (random_bytes(&mut dice, 3000), random_bytes(&mut dice, 5_000_000));
    let objects = [("@prod:small", &small[..]), ("@prod:large", &large[..])];
    let Some((etcd, mut nodes)) = begin(&objects) else { return };
    // Both are damaged on one node that has them.
    for (_, content) in objects {
        let has = nodes.iter().position(|node| {
            let files = fs::read_dir(node.path("log")).unwrap().flatten();
            files.map(|entry| entry.path()).any(|path| damage_file(&path, content))
        });
        assert!(has.is_some(), "it is in a log");
    }
    switch_on(&mut nodes, &etcd);
    wait_until_there(&nodes, &objects);
    let (text, said, is_right) = verify(&nodes[0], &["--no-repair"]);
    assert!(!is_right && said.contains("2 copies that cannot be read"), "{text}{said}");
    let (text, said, is_right) = verify(&nodes[1], &[]);
    assert!(is_right && text.contains("2 objects repaired"), "{text}{said}");
    assert!(text.contains("@prod:large, "), "{text}");
    for node in &nodes {
        for (text, content) in objects {
            assert!(node.client.get(&name(text).id(), LONG).unwrap().data() == content, "{text}");
        }
    }
    let (text, said, is_right) = verify(&nodes[2], &[]);
    assert!(is_right && !text.contains("repaired"), "{text}{said}");
    // What was made again is in a log, too.
    nodes.iter_mut().for_each(Node::switch_off);
    switch_on(&mut nodes, &etcd);
    wait_until_there(&nodes, &objects);
    let (text, said, is_right) = verify(&nodes[0], &[]);
    assert!(is_right && !text.contains("repaired"), "{text}{said}");
}

#[test]
fn an_object_of_which_no_copy_is_right_stays_and_is_named() {
    let content = random_bytes(&mut Random::new(22), 20_000);
    let objects = [("@prod:lost", &content[..])];
    let Some((etcd, mut nodes)) = begin(&objects) else { return };
    let mut damaged = 0;
    for node in &nodes {
        let files = fs::read_dir(node.path("log")).unwrap().flatten();
        damaged += files.filter(|entry| damage_file(&entry.path(), &content)).count();
    }
    assert_eq!(damaged, 2);
    switch_on(&mut nodes, &etcd);
    wait_until_there(&nodes, &objects);
    let id = name("@prod:lost").id();
    for _ in 0..2 {
        let (text, said, is_right) = verify(&nodes[0], &["--json"]);
        assert!(!is_right && said.contains("1 object of which no copy is right"), "{text}{said}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let difference = &document["contents"]["differences"][0];
        assert_eq!(
            (&difference["outcome"], &difference["name"]),
            (&"none_right".into(), &"@prod:lost".into())
        );
        // What a node finds when it reads its copy, it says to the others; the last one stays.
        let mut there = Vec::new();
        until("a holder is known", || {
            there = holders(&nodes[0], &id);
            !there.is_empty()
        });
        let error = nodes[number(&there[0])].client.get(&id, LONG).unwrap_err();
        assert!(matches!(error.code(), Code::Corrupt | Code::Unreachable), "{error}");
    }
    // Also by a node that has no copy, and finds no node to have one from.
    let there = holders(&nodes[0], &id);
    let other = (0..3).find(|at| !there.iter().any(|holder| number(holder) == *at)).unwrap();
    until("it is deleted", || matches!(nodes[other].client.delete(&[id]).as_deref(), Ok([None])));
    until("its name is free", || nodes[1].client.put(b"new", &durable("@prod:lost", 2)).is_ok());
    assert_eq!(nodes[2].client.get(&id, LONG).unwrap().data(), b"new");
}

/// What is in memory is right, and the disk has something else: the next loss of power would show.
#[test]
fn a_damaged_record_of_a_copy_in_memory_is_written_again() {
    let content = random_bytes(&mut Random::new(23), 300_000);
    let Some((etcd, mut nodes)) = nodes(2, &LOG) else { return };
    put(&nodes[0], &content, &durable("@prod:x", 2));
    let id = name("@prod:x").id();
    damage_log(&nodes[1], &content);
    let (text, said, is_right) = verify(&nodes[0], &["--no-repair"]);
    assert!(!is_right && text.contains("damaged in its log"), "{text}{said}");
    assert!(said.contains("1 copy with damaged records"), "{said}");
    let (text, said, is_right) = verify(&nodes[0], &[]);
    assert!(is_right && text.contains("1 object repaired"), "{text}{said}");
    assert_eq!(nodes[1].client.status().unwrap().log.unwrap().repaired_total, 1);
    assert_eq!(nodes[1].client.states(&[id]).unwrap(), [ObjectState::Sealed]);
    nodes.iter_mut().for_each(Node::switch_off);
    switch_on(&mut nodes, &etcd);
    for node in &nodes {
        until("the object is back", || {
            node.client.get(&id, LONG).is_ok_and(|found| found.data() == content)
        });
    }
    wait_until_whole(&nodes[0]);
    let (text, said, is_right) = verify(&nodes[0], &[]);
    assert!(is_right && !text.contains("repaired"), "{text}{said}");
}
