//! Nodes that write large content into each other's memory, over libfabric where it is installed.

use std::time::Duration;

use plasmon_client::ObjectId;
use plasmon_testkit::{pattern, until};

use crate::named;
use crate::node::{LONG, Node, nodes};

const BYTES: usize = (3 << 20) + 7;

/// Waits until every node has said which providers are in use; whether there are any.
fn has_provider(nodes: &[Node]) -> bool {
    let mut providers = Vec::new();
    until("the nodes have said by what they are written to", || {
        let found = nodes[0].client.pool_nodes().unwrap();
        let said = found.iter().filter_map(|node| node.fabric.clone());
        providers = said.collect();
        providers.len() == nodes.len()
    });
    for found in &providers {
        assert!(!found.providers.is_empty() || !found.refused.is_empty(), "{found:?}");
    }
    providers.iter().all(|found| !found.providers.is_empty())
}

fn put(node: &Node, number: u64) -> ObjectId {
    let data = pattern(number, BYTES);
    node.client.put(&data, &named(&format!("@prod:{number}"), 1)).unwrap()
}

fn is_right(node: &Node, id: &ObjectId, number: u64) -> bool {
    node.client.get(id, LONG).unwrap().data() == pattern(number, BYTES)
}

/// With providers or without, objects arrive, also while pool daemons are killed in the middle of
/// their transfers and come back.
#[test]
fn objects_arrive_and_killed_pool_daemons_come_back() {
    let Some((_etcd, nodes)) = nodes(3, &["--pool-fabric=net"]) else { return };
    let is_used = has_provider(&nodes);
    if !is_used {
        eprintln!("libfabric is not used here: content comes over TCP");
    }
    for number in 0..3 {
        let id = put(&nodes[number as usize % 3], number);
        assert!(nodes.iter().all(|node| is_right(node, &id, number)), "{number}");
    }
    for round in 0..2 {
        let first = 100 + 10 * round;
        let ids: Vec<_> =
            (first..first + 4).map(|number| (put(&nodes[0], number), number)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5 * round));
                // Of the writing side, and of the side that is written to.
                nodes[if round == 1 { 0 } else { 1 }].kill_pool_daemon();
            });
            for node in &nodes[1..] {
                scope.spawn(|| {
                    for (id, number) in &ids {
                        until("the object is there and right", || {
                            let found = node.client.get(id, LONG);
                            found.is_ok_and(|found| found.data() == pattern(*number, BYTES))
                        });
                    }
                });
            }
        });
        nodes.iter().for_each(|node| node.wait_until_it_reaches(3));
    }
    assert_eq!(has_provider(&nodes), is_used, "pool daemons that were started again use it again");
}
