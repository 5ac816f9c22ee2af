//! Durable objects of a pool: the power of all machines goes, and they are there with their names.

use plasmon_client::{Code, ObjectState, PutOptions};
use plasmon_testkit::{Etcd, pattern, until};

use crate::node::{LONG, NOW, Node, nodes};
use crate::{name, named};

/// The flags of a node with a log, which is not read through by itself.
pub(crate) const LOG: [&str; 6] = [
    "--durable-dir",
    "FOLDER/log",
    "--durable-segment-bytes",
    "4m",
    "--durable-scrub-bytes-per-second",
    "0",
];

pub(crate) fn durable(text: &str, copies: u8) -> PutOptions {
    PutOptions { durable: true, copies_min: copies, ..named(text, copies) }
}

/// Puts until so many nodes take part.
pub(crate) fn put(node: &Node, data: &[u8], options: &PutOptions) {
    until("enough nodes take part", || match node.client.put(data, options) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Code::NotEnoughNodes, "{error}");
            false
        }
    });
}

pub(crate) fn switch_on(nodes: &mut [Node], etcd: &Etcd) {
    for (at, node) in nodes.iter_mut().enumerate() {
        node.switch_on(etcd, &format!("node{at}"), &LOG);
    }
}

#[test]
fn after_a_loss_of_all_power_every_durable_object_is_there_with_its_name() {
    let Some((etcd, mut nodes)) = nodes(3, &LOG) else { return };
    let objects = [
        ("@prod:empty", 0, 1),
        ("@prod:small", 5, 2),
        ("@prod:one", 1 << 20, 3),
        ("@prod:large", (20 << 20) + 3, 2),
    ];
    for (at, (text, bytes, copies)) in objects.into_iter().enumerate() {
        put(&nodes[at % 3], &pattern(bytes as u64, bytes), &durable(text, copies));
    }
    let unnamed = PutOptions { name: None, pool: true, ..durable("@prod:-", 2) };
    let homed = nodes[0].client.put(b"unnamed", &unnamed).unwrap();
    nodes[0].client.put(b"in memory", &named("@prod:memory", 2)).unwrap();
    let gone = nodes[1].client.put(b"gone", &durable("@prod:gone", 3)).unwrap();
    let info = nodes[0].client.stat(&name("@prod:small").id()).unwrap().unwrap();
    assert!(info.durable);
    let place = nodes[2].client.pool_place(&gone).unwrap().found.unwrap();
    assert!(place.is_durable && place.holders.len() == 3);

    // One is away while an object is deleted.
    nodes[2].switch_off();
    until("the object is deleted", || {
        matches!(nodes[0].client.delete(&[gone]).as_deref(), Ok([None]))
    });
    nodes.iter_mut().for_each(Node::switch_off);
    switch_on(&mut nodes, &etcd);
    for node in &nodes {
        for (text, bytes, _) in objects {
            let id = name(text).id();
            until("the object is back", || {
                let found = node.client.get(&id, LONG);
                found.is_ok_and(|found| found.data() == pattern(bytes as u64, bytes))
            });
            let found = node.client.get_named(&name(text), NOW).unwrap();
            assert_eq!((found.metadata(), found.tag()), (&b"what it is"[..], 7));
        }
        until("the unnamed object is back", || {
            node.client.get(&homed, LONG).is_ok_and(|found| found.data() == b"unnamed")
        });
        let states = node.client.states(&[gone, name("@prod:memory").id()]).unwrap();
        let is_gone =
            |state: &ObjectState| matches!(state, ObjectState::Absent | ObjectState::Deleted);
        assert!(states.iter().all(is_gone), "{states:?}");
    }
    until("its name is free", || nodes[2].client.put(b"new", &durable("@prod:gone", 2)).is_ok());
}

#[test]
fn nodes_without_a_log_keep_no_durable_objects_and_the_error_says_so() {
    let Some((etcd, mut nodes)) = nodes(1, &LOG) else { return };
    let mut other = Node::start(&etcd, "other", &[]);
    other.wait_until_joined();
    nodes.iter().chain([&other]).for_each(|node| node.wait_until_it_reaches(2));
    let error = other.client.put(b"x", &durable("@prod:two", 2)).unwrap_err();
    assert_eq!(error.code(), Code::NotEnoughNodes);
    assert!(error.to_string().contains("--durable-dir"), "{error}");
    // From a node without a log the one copy that counts is on the other node.
    put(&other, b"x", &durable("@prod:one", 1));
    let holds = |node: &Node| {
        let found = node.client.pool_place(&name("@prod:one").id()).unwrap().found;
        found.is_some_and(|found| found.holders == ["node0"])
    };
    until("it is where the log is", || holds(&nodes[0]));
    other.switch_off();
    nodes[0].switch_off();
    switch_on(&mut nodes, &etcd);
    other.switch_on(&etcd, "other", &[]);
    until("the object is back", || {
        nodes[0].client.get(&name("@prod:one").id(), LONG).is_ok_and(|it| it.data() == b"x")
    });
}

/// The folder of a log is gone, so its next segment cannot be made.
#[test]
fn a_log_that_fails_is_named_and_puts_go_on_without_it() {
    let Some((_etcd, nodes)) = nodes(3, &LOG) else { return };
    put(&nodes[0], b"first", &durable("@prod:first", 3));
    std::fs::remove_dir_all(nodes[2].path("log")).unwrap();
    let failed = |node: &Node| node.client.pool_status().map(|status| status.logs_failed);
    let mut count = 0;
    // Where copies go is drawn: the third node needs another segment sooner or later.
    until("the status names the node", || {
        let options = durable(&format!("@prod:{count}"), 2);
        nodes[0].client.put(&pattern(count, 3 << 20), &options).unwrap();
        count += 1;
        failed(&nodes[0]).is_ok_and(|it| it == ["node2"])
    });
    let keeps = |number: u64| {
        let place = nodes[0].client.pool_place(&name(&format!("@prod:{number}")).id());
        let holders = place.unwrap().found.unwrap().holders;
        let counted = holders.iter().filter(|holder| *holder != "node2").count();
        counted >= 2
    };
    until("each is in the logs of two others", || (0..count).all(keeps));
    let error = nodes[1].client.put(b"x", &durable("@prod:three", 3)).unwrap_err();
    assert_eq!(error.code(), Code::NotEnoughNodes);
    nodes[0].client.delete(&[name("@prod:first").id()]).unwrap();
}
