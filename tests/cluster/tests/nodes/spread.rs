//! Objects whose copies are on other nodes than their writer's, and caches.

use plasmon_client::{Code, CopyPlacement, Durability, PutOptions};
use plasmon_testkit::{pattern, until};

use crate::named;
use crate::node::{LONG, NOW, Node, nodes};

const SPREAD: CopyPlacement = CopyPlacement::Spread;

fn places(node: &Node, id: &plasmon_client::ObjectId) -> (Vec<String>, Vec<String>) {
    let found = node.client.pool_place(id).unwrap().found;
    found.map(|found| (found.holders, found.caches)).unwrap_or_default()
}

#[test]
fn what_is_spread_is_kept_by_others_and_may_be_evicted_by_its_writer() {
    let Some((etcd, nodes)) = nodes(3, &[]) else { return };
    let spread = |name: &str, copies| PutOptions { placement: SPREAD, ..named(name, copies) };
    let client = &nodes[0].client;
    let data = pattern(7, 2 << 20);
    let both = PutOptions { copies_min: 2, ..spread("@prod:both", 2) };
    until("all nodes take part", || match client.put(&data, &both) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Code::NotEnoughNodes, "{error}");
            false
        }
    });
    let id = crate::name("@prod:both").id();
    let kept = || {
        let (mut holders, caches) = places(&nodes[0], &id);
        holders.sort_unstable();
        holders == ["node1", "node2"] && caches == ["node0"]
    };
    until("its writer lets it go", kept);
    let refused = PutOptions { copies_min: 3, ..spread("@prod:three", 3) };
    assert_eq!(client.put(b"x", &refused).unwrap_err().code(), Code::NotEnoughNodes);

    // Without a name it is seen at once.
    let unnamed = PutOptions { name: None, pool: true, ..spread("@prod:-", 1) };
    let homed = client.put(&data, &unnamed).unwrap();
    until("its writer lets it go", || !places(&nodes[0], &homed).0.contains(&"node0".to_owned()));
    client.evict(64 << 20).unwrap();
    for id in [&id, &homed] {
        assert!(client.get(id, LONG).unwrap().data() == data, "from another node");
    }

    // A cache has one copy, and ends with it.
    let cache = PutOptions { storage: Some(Durability::Cache), ..named("@prod:cache", 0) };
    let cached = client.put(&data, &cache).unwrap();
    assert!(nodes[1].client.get(&cached, LONG).unwrap().data() == data);
    assert_eq!(places(&nodes[2], &cached).0, [""; 0]);
    client.evict(64 << 20).unwrap();
    for node in &nodes {
        until("it has ended", || {
            let error = node.client.get(&cached, NOW).err();
            error.is_some_and(|error| [Code::Absent, Code::Deleted].contains(&error.code()))
        });
    }
    until("its name is free", || nodes[2].client.put(&data, &cache).is_ok());

    // What a node without weight puts is kept by others, too.
    let light = Node::start(&etcd, "node3", &["--pool-weight", "0"]);
    light.wait_until_joined();
    let id = light.client.put(&data, &named("@prod:light", 2)).unwrap();
    until("it lets it go", || {
        let (holders, caches) = places(&light, &id);
        holders.len() == 2 && caches == ["node3"]
    });
    assert!(!light.keeps(&id));
}
