//! Deletes that wait for the last copy.

use std::time::Duration;

use plasmon_client::{Code, ObjectId};
use plasmon_testkit::{Signal, TEST_TIMEOUT, kill};

use crate::node::{LONG, nodes};

#[test]
fn a_delete_waits_for_the_last_copy_and_names_the_node_that_has_it() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let put = |text: &str| nodes[0].client.put(b"x", &crate::named(text, 2)).unwrap();
    let ids: Vec<ObjectId> = (0..5).map(|number| put(&format!("@prod:{number}"))).collect();
    for node in &nodes {
        for id in &ids {
            node.client.get(id, LONG).unwrap();
        }
    }
    let deleted = nodes[2].client.delete_and_wait(&ids, TEST_TIMEOUT).unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    for (number, id) in ids.iter().enumerate() {
        assert!(nodes.iter().all(|node| node.client.get_now(id).is_none()), "{number}");
        // The name is free at once.
        assert_eq!(put(&format!("@prod:{number}")), *id);
    }

    // Of a node that stands still is not known whether it shows its copy.
    let id = put("@prod:slow");
    nodes[1].client.get(&id, LONG).unwrap();
    let place = nodes[2].client.pool_place(&id).unwrap();
    let primary = place.primary.unwrap();
    let (still, other) = if primary == "node1" { (0, 1) } else { (1, 2) };
    let still = if primary == "node0" { 1 } else { still };
    let pid = nodes[still].stop_pool_daemon();
    let result = nodes[other].client.delete_and_wait(&[id], Duration::from_millis(300)).unwrap();
    kill(pid, Signal::CONT);
    let error = result.into_iter().next().unwrap().unwrap_err();
    // The acting nodes, of which it is one, record a delete before it counts.
    assert!(matches!(error.code(), Code::InUse | Code::Unreachable), "{error}");
    if error.code() == Code::InUse {
        assert!(error.to_string().contains(&format!("node{still}")), "{error}");
    }
    let again = nodes[other].client.delete_and_wait(&[id], TEST_TIMEOUT).unwrap();
    assert!(again[0].is_ok(), "{again:?}");

    let local = plasmon_client::Name::new("", "local").unwrap().id();
    let error = nodes[0].client.delete_and_wait(&[local], TEST_TIMEOUT).unwrap_err();
    assert_eq!(error.code(), Code::BadRequest);
    let unnamed = nodes[0].client.delete_and_wait(&[], TEST_TIMEOUT).unwrap();
    assert!(unnamed.is_empty());
}
