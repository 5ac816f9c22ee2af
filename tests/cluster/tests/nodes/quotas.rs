//! Limits of namespaces of the pool, on whole nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use plasmon_client::{Code, Error, ObjectId};
use plasmon_testkit::until;

use crate::named;
use crate::node::{LONG, Node, nodes};

const MIB: u64 = 1 << 20;

/// The bytes of the metadata that every object of these tests has.
const METADATA: u64 = 10;

fn put(node: &Node, name: &str, bytes: u64, copies: u8) -> Result<ObjectId, Error> {
    node.client.put(&vec![7; bytes as usize], &named(name, copies))
}

/// Whether a node accepts an object of so many bytes now, which goes again. `None` where it cannot
/// say: a node that another one waits for is starting, or has died.
fn accepts(node: &Node, bytes: u64) -> Option<bool> {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    match put(node, &format!("@app:try{number}"), bytes, 1) {
        Ok(id) => {
            until("it is deleted", || node.client.delete(&[id]).is_ok_and(|it| it == [None]));
            Some(true)
        }
        Err(error) if error.code() == Code::QuotaExceeded => Some(false),
        Err(_) => None,
    }
}

/// Nodes hear of each other with a delay.
fn until_refused(node: &Node, bytes: u64) {
    until("the node refuses more", || accepts(node, bytes) == Some(false));
}

fn until_accepted(node: &Node, bytes: u64) {
    until("the node accepts it", || accepts(node, bytes) == Some(true));
}

#[test]
fn a_limit_is_of_all_nodes_together_and_survives_their_pool_daemons() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let adopter = nodes[0].connect();
    adopter.adopt("@app", 5 * MIB / 2).unwrap();
    let first = put(&nodes[0], "@app:first", MIB, 1).unwrap();
    put(&nodes[1], "@app:second", MIB, 1).unwrap();
    until_refused(&nodes[2], MIB);
    let error = put(&nodes[2], "@app:third", MIB, 1).unwrap_err();
    for words in ["@app may have 2621440 bytes together", "2097172 on other nodes"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!((error.wanted(), error.found()), (MIB + METADATA, MIB / 2 - 2 * METADATA));
    // What still fits is put, other namespaces are not limited, and what is read is no copy.
    nodes[2].client.get(&first, LONG).unwrap();
    assert_eq!(accepts(&nodes[2], 400_000), Some(true));
    put(&nodes[2], "@other:third", 5 * MIB, 2).unwrap();

    // One of them leads.
    for node in &nodes {
        node.kill_pool_daemon();
        node.wait_until_joined();
        until_refused(&nodes[2], MIB);
    }
    nodes[1].kill_daemon();
    nodes[1].wait_until_joined();
    until_refused(&nodes[2], MIB);

    // A delete makes room on all nodes, and a copy takes it again.
    assert_eq!(nodes[0].client.delete(&[first]).unwrap(), [None]);
    until_accepted(&nodes[2], MIB);
    let mut both = None;
    // What was tried on the third node is counted until that node says that it went.
    until("the first node accepts it", || {
        let put = put(&nodes[0], "@app:both", MIB / 2, 2);
        both = put.map_err(|error| assert_eq!(error.code(), Code::QuotaExceeded, "{error}")).ok();
        both.is_some()
    });
    let both = both.unwrap();
    until_refused(&nodes[2], MIB);
    assert_eq!(nodes[1].client.delete(&[both]).unwrap(), [None]);

    // Every node knows a limit when it is answered.
    adopter.adopt("@app", 1).unwrap();
    assert!(nodes.iter().all(|node| accepts(node, 2) == Some(false)));
    let error = nodes[1].client.adopt("@app", 9).unwrap_err();
    assert_eq!(error.code(), Code::Exists, "{error}");
    adopter.adopt("@app", 0).unwrap();
    assert!(nodes.iter().all(|node| accepts(node, 4 * MIB) == Some(true)));

    // What a node had is over with its lease, and what was deleted meanwhile is not remembered.
    adopter.adopt("@app", 3 * MIB / 2).unwrap();
    until_refused(&nodes[2], MIB);
    nodes.remove(1).kill();
    until_accepted(&nodes[1], MIB);
}
