//! A machine is taken out of a pool, with the real command: what it alone had is on the others.

use std::process::{Command, Stdio};

use plasmon_client::{Code, PutOptions};
use plasmon_testkit::{Signal, build, kill, pattern, until};
use serde_json::Value;

use crate::node::{LONG, Node, nodes};
use crate::operator::Operator;
use crate::{name, named};

/// What `pool verify` says at the pool daemon of a node, and whether it succeeds.
fn verify(node: &Node) -> (bool, Value) {
    let mut command = Command::new(build(&["plasmon-cli"]).join("plasmon"));
    command.args(["pool", "verify", "--json", "--socket"]).arg(node.client.socket());
    let out = command.output().unwrap();
    (out.status.success(), serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn a_drained_node_takes_nothing_with_it() {
    let Some((etcd, mut nodes)) = nodes(3, &[]) else { return };
    let operator = Operator::of(&etcd);
    until("all groups are complete", || operator.status()["groups_settled"] == 1024);
    let mut objects: Vec<_> = (0..12)
        .map(|number| {
            let data = pattern(number, [10, 100_000, 2 << 20][number as usize % 3]);
            let options = named(&format!("@prod:{number}"), 1);
            (nodes[1].client.put(&data, &options).unwrap(), data)
        })
        .collect();
    let (is_whole, found) = verify(&nodes[0]);
    assert!(is_whole && found["objects"] == 12, "{found}");

    let drained = operator.pool(&["drain", "node1", "--timeout", "60"]).unwrap();
    assert_eq!(drained["drained"], true);
    assert!(operator.is(&[("node0", "up"), ("node1", "drained"), ("node2", "up")]));
    // What is put there now is kept by others, and read there as anywhere.
    let late = nodes[1].client.put(b"late", &named("@prod:late", 1)).unwrap();
    assert_eq!(nodes[1].client.get(&late, LONG).unwrap().data(), b"late");
    objects.push((late, b"late".to_vec()));

    nodes.remove(1).kill();
    for (id, data) in &objects {
        for node in &nodes {
            assert!(node.client.get(id, LONG).unwrap().data() == data);
        }
    }
    until("it has left", || operator.is(&[("node0", "up"), ("node1", "out"), ("node2", "up")]));
    assert_eq!(operator.status()["alarm"], Value::Null);
    operator.pool(&["forget", "node1"]).unwrap();
    until("the pool is whole", || verify(&nodes[0]).0);

    // Two nodes are left, and an object that needs both.
    let options = PutOptions { copies_min: 2, ..named("@prod:both", 2) };
    nodes[0].client.put(b"both", &options).unwrap();
    let mut waiting = operator.command(&["drain", "node2"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the node drains", || operator.is(&[("node0", "up"), ("node2", "draining")]));
    kill(waiting.id(), Signal::INT);
    let ended = waiting.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("goes on draining"), "{said}");
    let error = operator.pool(&["drain", "node2"]).unwrap_err();
    assert!(error.contains("1 object cannot be moved, because the pool has too few"), "{error}");
    let refused = nodes[0]
        .client
        .put(b"more", &PutOptions { name: Some(name("@prod:more")), ..options.clone() });
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::NotEnoughNodes);
    let said = "it needs 2 nodes at least, and the pool has 1 node for copies now";
    assert!(refused.to_string().contains(said), "{refused}");

    assert_eq!(operator.pool(&["undrain", "node2"]).unwrap()["undrained"], true);
    assert!(operator.is(&[("node0", "up"), ("node2", "up")]));
    until("it takes part again", || {
        let options = PutOptions { name: Some(name("@prod:more")), ..options.clone() };
        nodes[0].client.put(b"more", &options).is_ok()
    });
}
