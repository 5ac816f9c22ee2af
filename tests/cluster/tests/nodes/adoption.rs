//! Namespaces of the pool that a process adopts, on whole nodes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use plasmon_client::{Client, Code, ConnectOptions, Filter, ObjectId};
use plasmon_testkit::{pattern, until};

use crate::node::{LONG, NOW, Node, nodes};
use crate::{name, named};

/// What has this program adopt a namespace, in a process of its own, and wait to be killed.
const ADOPTER: &str = "PLASMON_TEST_ADOPTER";

/// A process that has adopted a namespace.
struct Adopter(Child);

impl Adopter {
    fn start(node: &Node, namespace: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "adoption::adopts_and_waits"]);
        command.env(ADOPTER, namespace).env("PLASMON_SOCKET", node.client.socket());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("adopted")));
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Adopter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test unless it is started as a process of one: then it adopts, and waits for the end.
#[test]
fn adopts_and_waits() {
    let Ok(namespace) = std::env::var(ADOPTER) else { return };
    let client = Client::connect(&ConnectOptions::default()).unwrap();
    client.adopt(&namespace, 0).unwrap();
    println!("\nadopted");
    let _ = std::io::stdin().lines().count();
}

/// Puts so many objects in a namespace, from all nodes, with one and two copies.
fn put(nodes: &[Node], namespace: &str, count: usize) -> Vec<ObjectId> {
    let put = |number: usize| {
        let data = pattern(number as u64, 1000 * (number % 3));
        let options = named(&format!("{namespace}:{number}"), 1 + (number % 2) as u8);
        nodes[number % nodes.len()].client.put(&data, &options).unwrap()
    };
    (0..count).map(put).collect()
}

/// Waits until no node has, lists or finds any of the objects.
fn wait_until_gone(nodes: &[Node], namespace: &str, ids: &[ObjectId]) {
    let filter = Filter { namespace: Some(namespace.to_owned()), prefix: None };
    until("nothing of the namespace is listed", || {
        nodes[0].client.list(&filter).is_ok_and(|found| found.is_empty())
    });
    for node in nodes {
        until("no copy is left", || ids.iter().all(|id| node.client.get_now(id).is_none()));
        let error = node.client.get(&ids[0], NOW).unwrap_err();
        assert!(matches!(error.code(), Code::Absent | Code::Deleted), "{error}");
    }
}

fn late_put_is_refused(node: &Node, namespace: &str) {
    let error = node.client.put(b"late", &named(&format!("{namespace}:late"), 1)).unwrap_err();
    assert_eq!(error.code(), Code::Cancelled, "{error}");
    assert!(error.to_string().contains("adopted its namespace"), "{error}");
}

#[test]
fn what_a_process_has_adopted_goes_with_it_on_all_nodes_and_no_fault_of_others_ends_it() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let adopter = Adopter::start(&nodes[0], "@app");
    let ids = put(&nodes, "@app", 30);
    let other = nodes[1].client.put(b"other", &named("@other:x", 2)).unwrap();
    nodes[2].client.get(&ids[0], LONG).unwrap();
    let error = nodes[1].client.adopt("@app", 0).unwrap_err();
    assert_eq!(error.code(), Code::Exists, "{error}");

    // Neither a pool daemon nor a daemon that starts again ends anything.
    nodes[0].kill_pool_daemon();
    nodes[0].kill_daemon();
    nodes[1].kill_daemon();
    for node in &nodes {
        node.wait_until_joined();
        assert!(ids.iter().all(|id| node.client.get(id, LONG).is_ok()));
    }
    nodes[2].client.put(b"still", &named("@app:still", 1)).unwrap();

    adopter.kill();
    wait_until_gone(&nodes, "@app", &ids);
    nodes.iter().for_each(|node| late_put_is_refused(node, "@app"));
    assert_eq!(nodes[2].client.get(&other, LONG).unwrap().data(), b"other");

    // Adopted again, by a client that ends it itself.
    let client = nodes[1].connect();
    client.adopt("@app", 0).unwrap();
    let again = put(&nodes, "@app", 6);
    for node in &nodes {
        assert!(again.iter().all(|id| node.client.get(id, LONG).is_ok()));
    }
    assert_eq!(nodes[1].client.end_adoption("@app").unwrap_err().code(), Code::Absent);
    client.end_adoption("@app").unwrap();
    wait_until_gone(&nodes, "@app", &again);
    late_put_is_refused(&nodes[2], "@app");

    // One that disconnects ends it too, though its process lives and reads.
    client.adopt("@off", 0).unwrap();
    let off = put(&nodes, "@off", 6);
    let held = client.get(&off[2], LONG).unwrap();
    client.disconnect();
    wait_until_gone(&nodes, "@off", &off);
    assert!(held.data() == pattern(2, 2000));
    assert_eq!(nodes[0].client.get(&other, LONG).unwrap().data(), b"other");
}

#[test]
fn what_was_adopted_on_a_machine_goes_when_the_machine_is_given_up() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    nodes[0].client.adopt("@app", 0).unwrap();
    let ids = put(&nodes, "@app", 12);
    let other = nodes[1].client.put(b"other", &named("@other:x", 2)).unwrap();
    nodes.remove(0).kill();
    // Until then it may come back.
    let error = nodes[1].client.adopt("@app", 0).unwrap_err();
    assert_eq!(error.code(), Code::Exists, "{error}");
    let filter = Filter { namespace: Some("@app".to_owned()), prefix: None };
    until("nothing of the namespace is listed", || {
        nodes[0].client.list(&filter).is_ok_and(|found| found.is_empty())
    });
    for node in &nodes {
        until("no copy is left", || ids.iter().all(|id| node.client.get_now(id).is_none()));
        late_put_is_refused(node, "@app");
    }
    nodes[1].client.adopt("@app", 0).unwrap();
    let id = nodes[0].client.put(b"again", &named("@app:again", 2)).unwrap();
    assert_eq!(nodes[1].client.get_named(&name("@app:again"), LONG).unwrap().data(), b"again");
    assert_eq!(nodes[0].client.delete(&[id]).unwrap(), [None]);
    assert_eq!(nodes[1].client.get(&other, LONG).unwrap().data(), b"other");
}

#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn while_etcd_is_away_nothing_is_adopted_and_nothing_ends() {
    let Some((etcd, nodes)) = nodes(2, &[]) else { return };
    nodes[0].client.adopt("@app", 0).unwrap();
    let ids = put(&nodes, "@app", 6);
    etcd.pause(0);
    let error = nodes[1].client.adopt("@x", 0).unwrap_err();
    assert_eq!(error.code(), Code::Unreachable, "{error}");
    let adopter = nodes[1].connect();
    etcd.resume(0);
    nodes.iter().for_each(Node::wait_until_joined);
    assert!(nodes.iter().all(|node| ids.iter().all(|id| node.client.get(id, LONG).is_ok())));

    // One that ends meanwhile has ended when etcd is back.
    adopter.adopt("@late", 0).unwrap();
    let late = put(&nodes, "@late", 6);
    etcd.pause(0);
    drop(adopter);
    etcd.resume(0);
    wait_until_gone(&nodes, "@late", &late);
    assert!(nodes.iter().all(|node| ids.iter().all(|id| node.client.get(id, LONG).is_ok())));
}
