//! Objects that stay together or not at all, whatever dies meanwhile.

use std::time::Duration;

use plasmon_client::{
    Client, Code, ConnectOptions, ObjectId, ObjectState, PutOptions, interruptible,
};
use plasmon_testkit::{ChildProcess, TestStore, errand, hear, id, pattern, say, until};

const MIB: u64 = 1 << 20;
const LARGE: usize = 20 << 20;

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

fn ids(numbers: &[u64]) -> Vec<ObjectId> {
    numbers.iter().map(|number| id(*number)).collect()
}

/// What a child process does. Without an errand it is no test.
#[test]
fn child() {
    let Some((errand, options)) = errand() else { return };
    let store = Client::connect(&options).unwrap();
    let mut scope = Some(store.scope(&ids(&[1, 2, 3])).unwrap());
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    store.put(&pattern(2, LARGE), &with_id(2)).unwrap();
    loop {
        say("made");
        hear();
        // Whatever is asked finds out whether the daemon is another one.
        store.status().unwrap();
        if errand == "publish"
            && let Some(scope) = scope.take()
        {
            scope.publish().unwrap();
        }
    }
}

#[test]
fn a_killed_maker_takes_along_what_it_did_not_publish() {
    for restarts in [false, true] {
        let node = TestStore::new(256 * MIB);
        let store = node.connect();
        let mut maker = ChildProcess::start(&node, "keep");
        assert_eq!(maker.heard(), "made");
        // Of the scope's ids one is made by another client.
        store.put(&pattern(3, 1000), &with_id(3)).unwrap();
        let sealed = [ObjectState::Sealed; 3];
        assert_eq!(store.states(&ids(&[1, 2, 3])).unwrap(), sealed);
        if restarts {
            node.kill_daemon(&store.status().unwrap());
            maker.tell("go on");
            assert_eq!(maker.heard(), "made");
            assert_eq!(store.states(&ids(&[1, 2, 3])).unwrap(), sealed);
        }
        maker.kill();
        until("they are gone", || {
            let states = store.states(&ids(&[1, 2])).unwrap();
            states.iter().all(|state| *state == ObjectState::Deleted)
        });
        let last = store.states(&ids(&[3])).unwrap()[0];
        // After a restart nothing knows who made it.
        assert!(last == ObjectState::Sealed || restarts, "{last:?}");
    }
}

#[test]
fn what_was_published_outlives_maker_and_daemon() {
    for restarts in [false, true] {
        let node = TestStore::new(256 * MIB);
        let store = node.connect();
        let mut maker = ChildProcess::start(&node, "publish");
        assert_eq!(maker.heard(), "made");
        if restarts {
            node.kill_daemon(&store.status().unwrap());
        }
        maker.tell("publish");
        assert_eq!(maker.heard(), "made");
        if restarts {
            node.kill_daemon(&store.status().unwrap());
        }
        let pid = maker.pid();
        maker.kill();
        let is_gone = || !store.clients().unwrap().iter().any(|client| client.pid == pid);
        until("the daemon knows that the maker is gone", is_gone);
        assert_eq!(store.states(&ids(&[1, 2])).unwrap(), [ObjectState::Sealed; 2]);
        assert!(store.get(&id(1), None).unwrap().data() == pattern(1, 1000));
    }
}

#[test]
fn a_dropped_scope_deletes_at_once_also_for_a_caller_that_was_interrupted() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    let scope = store.scope(&ids(&[1])).unwrap();
    scope.add(&ids(&[2])).unwrap();
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    store.put(&pattern(2, 1000), &with_id(2)).unwrap();
    store.put(&pattern(3, 1000), &with_id(3)).unwrap();
    interruptible(|| true, || drop(scope));
    let states = store.states(&ids(&[1, 2, 3])).unwrap();
    assert_eq!(states, [ObjectState::Deleted, ObjectState::Deleted, ObjectState::Sealed]);
    // An empty scope is one as well.
    store.scope(&[]).unwrap().publish().unwrap();
}

/// A scope that could not be ended, because there was no daemon, ends with the next connection.
#[test]
fn a_scope_that_was_dropped_without_a_daemon_ends_with_the_next_one() {
    let node = TestStore::new(256 * MIB);
    let options = ConnectOptions { reconnect_timeout: Duration::ZERO, ..node.options() };
    let (store, other) = (Client::connect(&options).unwrap(), node.connect());
    let scope = store.scope(&ids(&[1])).unwrap();
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    node.kill_daemon(&other.status().unwrap());
    drop(scope);
    until("the client is back", || store.status().is_ok());
    until("the object is gone", || other.states(&ids(&[1])).unwrap() == [ObjectState::Deleted]);
    let many: Vec<ObjectId> = (10..11 + (1 << 13)).map(id).collect();
    let refused = other.scope(&many).unwrap_err();
    assert_eq!(refused.code(), Code::LimitReached);
}
