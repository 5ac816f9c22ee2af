//! An etcd of three members that loses its leader.

use plasmon_testkit::Etcd;

use crate::machines::{Put, check, put, wait_until_gone};
use crate::node::{Node, nodes_with};

/// Objects are put on each node in turn, got on all others, and some are deleted.
fn work(nodes: &[Node], objects: &mut Vec<Put>, text: &str) {
    for number in 0..6 {
        let node = &nodes[number % nodes.len()];
        objects.push(put(node, &format!("@prod:{text}{number}"), 2, 50_000).unwrap());
    }
    let doomed = objects.swap_remove(objects.len() / 2);
    assert_eq!(nodes[0].client.delete(&[doomed.id]).unwrap(), [None]);
    nodes.iter().for_each(|node| wait_until_gone(node, &doomed));
    for object in objects.iter() {
        nodes.iter().for_each(|node| check(node, object, text));
    }
}

#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn the_loss_of_its_leader_stops_nothing() {
    let Some(etcd) = Etcd::start_with(3, &[]) else { return };
    let (mut etcd, nodes) = nodes_with(etcd, 3, &[]);
    let mut objects = Vec::new();
    work(&nodes, &mut objects, "first");
    for round in 0..2 {
        let leader = etcd.leader();
        etcd.kill(leader);
        work(&nodes, &mut objects, &format!("killed{round}."));
        etcd.restart(leader);
        work(&nodes, &mut objects, &format!("restarted{round}."));

        let leader = etcd.leader();
        etcd.pause(leader);
        work(&nodes, &mut objects, &format!("stopped{round}."));
        etcd.resume(leader);
        work(&nodes, &mut objects, &format!("resumed{round}."));
    }
    // No node was given up meanwhile: what it had first it still has.
    let kept = objects.iter().filter(|object| nodes.iter().any(|node| node.keeps(&object.id)));
    assert_eq!(kept.count(), objects.len());
}
