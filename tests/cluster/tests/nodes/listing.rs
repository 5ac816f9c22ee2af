//! Listings of whole nodes.

use std::collections::BTreeMap;
use std::process::Command;

use plasmon_client::{Code, Error, Filter, ObjectInfo};
use plasmon_testkit::{build, pattern, until};
use serde_json::Value;

use crate::node::{LONG, Node, nodes};
use crate::operator::Operator;

fn filter(namespace: &str, prefix: Option<&str>) -> Filter {
    Filter { namespace: Some(namespace.to_owned()), prefix: prefix.map(str::to_owned) }
}

/// What a listing gives before it ends, and how it ends.
fn list(node: &Node, filter: &Filter) -> (BTreeMap<String, ObjectInfo>, Option<Error>) {
    let mut found = BTreeMap::new();
    for object in node.client.listing(filter) {
        match object {
            Ok(object) => {
                let name = object.name.clone().unwrap().text;
                assert!(found.insert(name, object).is_none(), "it is listed twice");
            }
            Err(error) => return (found, Some(error)),
        }
    }
    (found, None)
}

/// The names, sizes and copies of a complete listing.
fn copies(node: &Node, filter: &Filter) -> Vec<(String, u64, Option<u16>)> {
    let (found, error) = list(node, filter);
    assert!(error.is_none(), "{error:?}");
    found.into_iter().map(|(name, it)| (name, it.sizes.data, it.copies)).collect()
}

/// What `plasmon ls` prints, and what it says of an error.
fn ls(node: &Node, arguments: &[&str]) -> (Vec<(String, u64)>, String) {
    let mut command = Command::new(build(&["plasmon-cli"]).join("plasmon"));
    command.arg("ls").args(arguments).args(["--sort", "name", "--json", "--socket"]);
    let out = command.arg(node.client.socket()).output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let objects = document.as_array().unwrap().iter();
    let row = |object: &Value| {
        (object["name"].as_str().unwrap().to_owned(), object["copies"].as_u64().unwrap())
    };
    (objects.map(row).collect(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_namespace_of_the_pool_is_listed_on_every_node_and_a_dead_node_is_named() {
    let Some((etcd, mut nodes)) = nodes(3, &[]) else { return };
    let put = |at: usize, text: &str, copies: u8, bytes: usize| {
        let name = format!("@prod:{text}");
        nodes[at].client.put(&pattern(1, bytes), &crate::named(&name, copies)).unwrap();
    };
    put(0, "a1", 1, 10);
    put(1, "b2", 2, 3_000_000);
    put(2, "c3", 3, 0);
    nodes[0].client.put(b"other", &crate::named("@test:x", 1)).unwrap();
    let expected = [
        ("a1".to_owned(), 10, Some(1)),
        ("b2".to_owned(), 3_000_000, Some(2)),
        ("c3".to_owned(), 0, Some(3)),
    ];
    let all = filter("@prod", None);
    for node in &nodes {
        // A copy is shown when its node hears that the object is published.
        until("every copy is shown", || copies(node, &all) == expected);
        assert_eq!(copies(node, &filter("@prod", Some("b"))), expected[1..2]);
        assert_eq!(copies(node, &filter("@prod", Some("x"))), []);
    }
    assert_eq!(nodes[1].client.list(&filter("@test", None)).unwrap().len(), 1);
    let rows = |texts: &[&str]| -> Vec<(String, u64)> {
        texts
            .iter()
            .map(|text| ((*text).to_owned(), u64::from(text.as_bytes()[1] - b'0')))
            .collect()
    };
    assert_eq!(
        ls(&nodes[2], &["--namespace", "@prod"]),
        (rows(&["a1", "b2", "c3"]), String::new())
    );
    assert_eq!(ls(&nodes[2], &["@prod:b"]), (rows(&["b2"]), String::new()));

    // A deleted one is in no listing, and a cached copy is no other copy.
    let id = crate::name("@prod:a1").id();
    nodes[2].client.get(&id, LONG).unwrap();
    assert_eq!(copies(&nodes[1], &all), expected);
    assert_eq!(nodes[1].client.delete(&[id]).unwrap(), [None]);
    until("the copies are gone", || copies(&nodes[0], &all) == expected[1..]);

    // A pool daemon that is killed is waited for.
    nodes[0].kill_pool_daemon();
    until("the pool daemon is back", || {
        let (found, error) = list(&nodes[0], &all);
        error.is_none() && found.len() == 2
    });

    nodes.remove(2).kill();
    let (found, error) = list(&nodes[0], &all);
    let error = error.unwrap();
    assert_eq!(error.code(), Code::Unreachable);
    assert!(error.to_string().contains("node2"), "{error}");
    assert!(found.contains_key("c3"), "what others have is listed: {found:?}");
    assert_eq!(nodes[1].client.list(&all).unwrap_err().code(), Code::Unreachable);
    let (rows, said) = ls(&nodes[0], &["@prod:c"]);
    assert!(rows[0].0 == "c3" && said.contains("node2"), "{rows:?} {said}");

    until("the node is given up", || Operator::of(&etcd).pool(&["forget", "node2"]).is_ok());
    until("the listing is complete", || list(&nodes[1], &all).1.is_none());
    until("every copy is made again", || {
        let (found, _) = list(&nodes[1], &all);
        found["b2"].copies == Some(2) && found["c3"].copies == Some(2)
    });
}
