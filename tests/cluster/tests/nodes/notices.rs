//! Subscriptions to what happens on whole nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plasmon_client::{Filter, Notification, ObjectId, ObjectState, Subscription};
use plasmon_testkit::{pattern, until};

use crate::node::{LONG, Node, nodes};

/// What a program is told of an object, by the text of its name.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Born(String),
    Deleted(String),
    Lost,
}

fn subscribe(node: &Node, prefix: Option<&str>) -> Subscription {
    let filter = Filter { namespace: Some("@prod".to_owned()), prefix: prefix.map(str::to_owned) };
    node.client.subscribe(&filter).unwrap()
}

fn next(subscription: &mut Subscription) -> Told {
    let notification = subscription.next(LONG).unwrap().expect("a notice in time");
    let Notification::Notice(notice) = notification else { return Told::Lost };
    let name = subscription.last_name().unwrap();
    assert_eq!((name.namespace.as_str(), name.id()), ("@prod", notice.id));
    match notice.state {
        ObjectState::Sealed => Told::Born(name.text.clone()),
        ObjectState::Deleted => Told::Deleted(name.text.clone()),
        other => panic!("{other:?}"),
    }
}

/// The next gap.
fn next_of_gap(subscription: &mut Subscription) -> Told {
    loop {
        if let Told::Lost = next(subscription) {
            return Told::Lost;
        }
    }
}

/// Puts objects on a node until the birth of one is told: at first it may be in the gap, which is
/// told more than once.
fn wait_until_told(subscription: &mut Subscription, node: &Node, text: &str) {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    until("a birth is told", || {
        let text = format!("{text}{}", NUMBERS.fetch_add(1, Ordering::Relaxed));
        let name = put(node, &text, 1);
        let mut is_told = false;
        while let Some(told) = subscription.next(Some(Duration::from_millis(200))).unwrap() {
            is_told |= matches!(told, Notification::Notice(notice) if notice.id == name);
        }
        is_told
    });
}

fn put(node: &Node, text: &str, copies: u8) -> ObjectId {
    let options = crate::named(&format!("@prod:{text}"), copies);
    node.client.put(&pattern(1, 1000), &options).unwrap()
}

#[test]
fn births_and_deletes_are_told_on_every_node_and_gaps_as_well() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let mut all: Vec<_> = nodes.iter().map(|node| subscribe(node, None)).collect();
    let mut some = subscribe(&nodes[0], Some("b"));
    for (at, text) in ["a", "b", "c"].into_iter().enumerate() {
        let id = put(&nodes[at], text, 2);
        let other = &nodes[(at + 1) % 3].client;
        // A copy that a get brings is no birth, and its end no second delete.
        other.get(&id, LONG).unwrap();
        assert_eq!(other.delete(&[id]).unwrap(), [None]);
        for subscription in &mut all {
            assert_eq!(next(subscription), Told::Born(text.to_owned()));
            assert_eq!(next(subscription), Told::Deleted(text.to_owned()));
        }
    }
    assert_eq!(next(&mut some), Told::Born("b".to_owned()));
    assert_eq!(next(&mut some), Told::Deleted("b".to_owned()));
    nodes[0].client.put(b"", &crate::named("@test:x", 1)).unwrap();

    // A pool daemon that is started again: those who are connected to it, and those of other
    // nodes, are told that they missed something, and then what happens.
    nodes[1].kill_pool_daemon();
    for subscription in &mut all {
        assert_eq!(next(subscription), Told::Lost);
    }
    for subscription in &mut all {
        wait_until_told(subscription, &nodes[1], "d");
    }
    assert_eq!(some.next(Some(Duration::ZERO)).unwrap(), Some(Notification::Lost(u64::MAX)));

    // So does a store's daemon that is killed.
    nodes[2].kill_daemon();
    assert_eq!(next_of_gap(&mut all[0]), Told::Lost);
    wait_until_told(&mut all[0], &nodes[2], "e");
}
