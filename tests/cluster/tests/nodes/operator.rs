//! What an operator sees of whole nodes, and does, with the real command. It asks etcd, and no
//! node.

use std::process::Command;

use plasmon_testkit::{Etcd, build, until};
use serde_json::Value;

use crate::node::{Node, nodes};

/// The command, for the pool in this etcd.
pub(crate) struct Operator {
    cluster: String,
}

impl Operator {
    pub(crate) fn of(etcd: &Etcd) -> Self {
        let endpoint = etcd.endpoints().remove(0);
        let endpoint = endpoint.trim_start_matches("http://");
        Self { cluster: format!("etcd://{endpoint}") }
    }

    /// The command `pool` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(build(&["plasmon-cli"]).join("plasmon"));
        command.arg("pool").args(arguments).args(["--cluster", &self.cluster, "--json"]);
        command
    }

    /// What it prints, or why it fails.
    pub(crate) fn pool(&self, arguments: &[&str]) -> Result<Value, String> {
        let out = self.command(arguments).output().unwrap();
        let error = String::from_utf8(out.stderr).unwrap();
        if out.status.success() {
            Ok(serde_json::from_slice(&out.stdout).unwrap())
        } else {
            Err(error)
        }
    }

    pub(crate) fn status(&self) -> Value {
        self.pool(&["status"]).unwrap()
    }

    /// The slot of a node: they got theirs in no certain order.
    fn slot(&self, name: &str) -> u64 {
        let found = self.pool(&["nodes"]).unwrap();
        let mut nodes = found["nodes"].as_array().unwrap().iter();
        nodes.find(|node| node["name"] == name).unwrap()["slot"].as_u64().unwrap()
    }

    /// The state of each node, by name.
    fn states(&self) -> Vec<(String, String)> {
        let found = self.pool(&["nodes"]).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let nodes = found["nodes"].as_array().unwrap().iter();
        let mut states: Vec<_> =
            nodes.map(|node| (text(&node["name"]), text(&node["state"]))).collect();
        states.sort();
        states
    }

    pub(crate) fn is(&self, expected: &[(&str, &str)]) -> bool {
        let states = self.states();
        let states = states.iter().map(|(name, state)| (name.as_str(), state.as_str()));
        states.eq(expected.iter().copied())
    }
}

/// Two of three nodes that were lost within half a minute could never be given up: the brake held
/// for ever, and no command forgot one.
#[test]
fn an_operator_sees_lost_nodes_and_forgets_them() {
    let Some((etcd, mut nodes)) = nodes(3, &[]) else { return };
    let operator = Operator::of(&etcd);
    until("all groups are complete", || operator.status()["groups_settled"] == 1024);
    let status = operator.status();
    assert_eq!((&status["nodes_live"], &status["alarm"]), (&3.into(), &Value::Null));
    assert!(status["leader"].as_str().is_some_and(|name| name.starts_with("node")), "{status}");
    let found = operator.pool(&["nodes"]).unwrap();
    for node in found["nodes"].as_array().unwrap() {
        assert_eq!((&node["state"], &node["groups_complete"]), (&"up".into(), &1024.into()));
    }

    for (arguments, said) in [
        (["forget", "node1"], "node node1 is up"),
        (["forget", "node7"], "has no node node7; its nodes are node"),
    ] {
        let error = operator.pool(&arguments).unwrap_err();
        assert!(error.contains(said), "{error}");
    }

    nodes.drain(1..).for_each(Node::kill);
    until("the brake holds", || operator.status()["alarm"].is_string());
    assert!(operator.is(&[("node0", "up"), ("node1", "down"), ("node2", "down")]));
    let slot = operator.slot("node1");
    let forgotten = operator.pool(&["forget", "node1"]).unwrap();
    assert_eq!((&forgotten["slot"], &forgotten["forgotten"]), (&slot.into(), &true.into()));
    assert_eq!(operator.states().len(), 2);
    until("the other one is given up", || operator.is(&[("node0", "up"), ("node2", "out")]));
    assert_eq!(operator.status()["alarm"], Value::Null);
    operator.pool(&["forget", &operator.slot("node2").to_string()]).unwrap();
    until("all groups are complete", || operator.status()["groups_settled"] == 1024);
    assert!(operator.is(&[("node0", "up")]));

    // No node is left that could carry it out.
    nodes.remove(0).kill();
    until("the node is gone", || operator.status()["leader"].is_null());
    let error = operator.pool(&["forget", "node0", "--timeout", "0.2"]).unwrap_err();
    assert!(error.contains("no node leads the pool"), "{error}");
    assert!(operator.is(&[("node0", "down")]));
}

#[test]
fn an_operator_sees_where_the_copies_of_an_object_are() {
    let Some((etcd, mut nodes)) = nodes(3, &[]) else { return };
    let operator = Operator::of(&etcd);
    until("all groups are complete", || operator.status()["groups_settled"] == 1024);
    let place = |node: &Node, object: &str| {
        let mut command = Command::new(build(&["plasmon-cli"]).join("plasmon"));
        command.args(["pool", "where", object, "--json", "--socket"]).arg(node.client.socket());
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let keeps = |node: &Node| {
        let holders = place(node, "@prod:sales")["found"]["holders"].clone();
        // None while the record is between two primaries.
        let holders = holders.as_array().into_iter().flatten();
        let mut names: Vec<_> = holders.map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(place(&nodes[1], "@prod:sales")["standing"], "absent");
    let data = vec![1; 100_000];
    nodes[0].client.put(&data, &crate::named("@prod:sales", 2)).unwrap();
    for node in &nodes {
        let found = place(node, "@prod:sales");
        assert_eq!((&found["standing"], &found["found"]["copies"]), (&"live".into(), &2.into()));
        assert_eq!(
            (&found["found"]["origin"], &found["found"]["data_bytes"]),
            (&"node0".into(), &100_000.into())
        );
        assert!(keeps(node).len() == 2 && keeps(node).contains(&"node0".to_owned()), "{found}");
    }

    nodes.remove(0).kill();
    until("the copy is made again", || keeps(&nodes[0]) == ["node1", "node2"]);
}
