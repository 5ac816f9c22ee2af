//! Notifications: in order, filtered, and never lost silently.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use plasmon_client::Notice;
use plasmon_client::{
    Code, Filter, Name, Notification, ObjectState, Policy, PutOptions, Subscription,
};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, id, until};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn next(subscription: &mut Subscription) -> Notification {
    subscription.next(Some(TEST_TIMEOUT)).unwrap().expect("a notification comes")
}

fn notice(subscription: &mut Subscription) -> Notice {
    match next(subscription) {
        Notification::Notice(notice) => notice,
        lost => panic!("{lost:?}"),
    }
}

#[test]
fn notifications_come_in_order() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut subscription = store.subscribe(&Filter::default()).unwrap();
    let options = PutOptions {
        id: Some(id(1)),
        metadata: b"abc".to_vec(),
        policy: Policy::Cache,
        ..PutOptions::default()
    };
    store.put(b"12345", &options).unwrap();
    store.evict(1).unwrap();
    store.put(b"123456", &PutOptions { id: Some(id(2)), ..PutOptions::default() }).unwrap();
    store.delete(&[id(2)]).unwrap();
    let expected = [
        (1, ObjectState::Sealed, 5, 3),
        (1, ObjectState::Evicted, 5, 3),
        (2, ObjectState::Sealed, 6, 0),
        (2, ObjectState::Deleted, 6, 0),
    ];
    for (number, state, data_bytes, metadata_bytes) in expected {
        let expected = Notice { id: id(number), state, data_bytes, metadata_bytes };
        assert_eq!(notice(&mut subscription), expected);
    }
    assert_eq!(subscription.next(Some(Duration::ZERO)).unwrap(), None);
}

#[test]
fn a_filter_lets_only_its_names_through() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let filter = Filter { namespace: Some("a".to_owned()), prefix: Some("x/".to_owned()) };
    let mut subscription = store.subscribe(&filter).unwrap();
    let put = |namespace: &str, text: &str| {
        let name = Name::new(namespace, text).unwrap();
        store.put(b"", &PutOptions { name: Some(name), ..PutOptions::default() }).unwrap()
    };
    put("b", "x/1");
    put("a", "y/1");
    store.put(b"", &PutOptions::default()).unwrap();
    let wanted = put("a", "x/1");
    assert_eq!(notice(&mut subscription).id, wanted);
    assert_eq!(subscription.next(Some(Duration::ZERO)).unwrap(), None);
}

#[test]
fn ten_thousand_notices_arrive_in_order() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut subscription = store.subscribe(&Filter::default()).unwrap();
    let ids: Vec<_> =
        (0..10_000).map(|_| store.put(b"x", &PutOptions::default()).unwrap()).collect();
    for id in ids {
        let notice = notice(&mut subscription);
        assert_eq!((notice.id, notice.state), (id, ObjectState::Sealed));
    }
}

#[test]
fn a_subscriber_that_reads_too_late_learns_how_many_it_lost() {
    let node = TestStore::new(512 * MIB);
    let store = node.connect();
    let mut subscription = store.subscribe(&Filter::default()).unwrap();
    let total = plasmon_proto::limits::NOTIFICATIONS_QUEUED_MAX as u64 + 20_000;
    for _ in 0..total / 2 {
        let object = store.put(b"x", &PutOptions::default()).unwrap();
        store.delete_soon(&object).unwrap();
    }
    store.flush().unwrap();
    let (mut told, mut lost) = (0, 0);
    while told + lost < total {
        match next(&mut subscription) {
            Notification::Notice(_) => told += 1,
            Notification::Lost(count) => lost += count,
        }
    }
    assert_eq!(told + lost, total);
    assert!(lost > 0, "so many notices are not kept");
    assert_eq!(subscription.next(Some(Duration::ZERO)).unwrap(), None);
}

#[test]
fn a_subscription_survives_a_new_daemon_and_says_what_it_cannot_know() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut subscription = store.subscribe(&Filter::default()).unwrap();
    let status = store.status().unwrap();
    node.kill_daemon(&status);
    until("another daemon answers", || store.status().is_ok_and(|now| now.pid != status.pid));
    assert_eq!(next(&mut subscription), Notification::Lost(u64::MAX));
    let object = store.put(b"x", &PutOptions::default()).unwrap();
    assert_eq!(notice(&mut subscription).id, object);
}

#[test]
fn a_subscription_to_a_store_that_ended_says_so() {
    let node = TestStore::new(64 * MIB);
    let options =
        plasmon_client::ConnectOptions { reconnect_timeout: Duration::ZERO, ..node.options() };
    let store = plasmon_client::Client::connect(&options).unwrap();
    let mut subscription = store.subscribe(&Filter::default()).unwrap();
    store.shutdown().unwrap();
    let error = subscription.next(Some(TEST_TIMEOUT)).unwrap_err();
    assert_eq!(error.code(), Code::Disconnected, "{error}");
}
