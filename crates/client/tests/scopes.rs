//! Objects that stay together or not at all, whatever dies meanwhile.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::time::Duration;

use plasmon_client::{
    Client, Code, ConnectOptions, ObjectId, ObjectState, PutOptions, interruptible,
};
use plasmon_proto::limits::SCOPE_IDS_MAX;
use plasmon_testkit::{ChildProcess, TestStore, errand, hear, id, pattern, say, until};
use rustix::process::{Pid, Signal, kill_process};

const MIB: u64 = 1 << 20;
const LARGE: usize = 20 << 20;

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

fn ids(numbers: &[u64]) -> Vec<ObjectId> {
    numbers.iter().map(|number| id(*number)).collect()
}

/// Does something while the daemon does not answer.
fn while_stopped<T>(daemon: u32, work: impl FnOnce() -> T) -> T {
    let pid = Pid::from_raw(i32::try_from(daemon).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let done = work();
    kill_process(pid, Signal::CONT).unwrap();
    done
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
}

/// A scope that was given up without an answer was named to every later daemon: what the client had
/// made since under one of its ids was deleted when the daemon was restarted.
#[test]
fn a_scope_that_has_ended_is_not_named_again() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    let scope = store.scope(&ids(&[1])).unwrap();
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    let before = store.status().unwrap();
    let ended = while_stopped(before.pid, || interruptible(|| true, || scope.abort()));
    assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
    assert_eq!(store.states(&ids(&[1])).unwrap(), [ObjectState::Deleted]);
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    node.kill_daemon(&before);
    let is_back = || store.status().is_ok_and(|status| status.epoch > before.epoch);
    until("the client is with another daemon", is_back);
    assert_eq!(store.states(&ids(&[1])).unwrap(), [ObjectState::Sealed]);
}

/// An object of two scopes stayed when one was published, unless the daemon was restarted: the
/// other scope was named to it with that id.
#[test]
fn what_one_scope_published_stays_when_another_is_given_up() {
    for restarts in [false, true] {
        let node = TestStore::new(256 * MIB);
        let store = node.connect();
        let outer = store.scope(&ids(&[1, 2])).unwrap();
        let inner = store.scope(&ids(&[1])).unwrap();
        store.put(&pattern(1, 1000), &with_id(1)).unwrap();
        store.put(&pattern(2, 1000), &with_id(2)).unwrap();
        inner.publish().unwrap();
        if restarts {
            node.kill_daemon(&store.status().unwrap());
        }
        outer.abort().unwrap();
        let states = store.states(&ids(&[1, 2])).unwrap();
        assert_eq!(states, [ObjectState::Sealed, ObjectState::Deleted], "restarts: {restarts}");
    }
}

#[test]
fn ids_beyond_the_limit_are_refused_and_none_of_them_is_added() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    let many: Vec<ObjectId> = (0..=SCOPE_IDS_MAX as u64).map(id).collect();
    let refused = store.scope(&many).unwrap_err();
    assert_eq!(refused.code(), Code::LimitReached);
    assert!(refused.to_string().contains(&SCOPE_IDS_MAX.to_string()), "{refused}");
    let scope = store.scope(&many[..10]).unwrap();
    assert_eq!(scope.add(&many[10..]).unwrap_err().code(), Code::LimitReached);
    scope.add(&many[5..SCOPE_IDS_MAX]).unwrap();
    store.put(&pattern(1, 100), &with_id(SCOPE_IDS_MAX as u64)).unwrap();
    store.put(&pattern(1, 100), &with_id(7)).unwrap();
    scope.abort().unwrap();
    let states = store.states(&ids(&[7, SCOPE_IDS_MAX as u64])).unwrap();
    assert_eq!(states, [ObjectState::Deleted, ObjectState::Sealed]);
    store.scope(&many[1..]).unwrap().publish().unwrap();
}

/// A client that had disconnected kept its scopes until its process ended.
#[test]
fn a_client_that_disconnects_ends_its_scopes() {
    let node = TestStore::new(256 * MIB);
    let (store, other) = (node.connect(), node.connect());
    let scope = store.scope(&ids(&[1])).unwrap();
    let _lent = store.create(1000, &with_id(2)).unwrap();
    store.put(&pattern(1, 1000), &with_id(1)).unwrap();
    store.disconnect();
    until("the object is gone", || other.states(&ids(&[1])).unwrap() == [ObjectState::Deleted]);
    assert_eq!(scope.add(&ids(&[3])).unwrap_err().code(), Code::Disconnected);
    scope.abort().unwrap();
    // A scope keeps the connection, as a writer does.
    let store = node.connect();
    let scope = store.scope(&ids(&[4])).unwrap();
    store.put(&pattern(4, 1000), &with_id(4)).unwrap();
    drop(store);
    scope.publish().unwrap();
    assert_eq!(other.states(&ids(&[4])).unwrap(), [ObjectState::Sealed]);
}

#[test]
fn an_end_that_is_interrupted_is_given_up() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    let numbers: Vec<u64> = (1..2000).collect();
    for publish in [false, true] {
        let scope = store.scope(&ids(&numbers)).unwrap();
        store.put(&pattern(1, 1000), &with_id(1)).unwrap();
        let end = || if publish { scope.publish() } else { scope.abort() };
        let pid = store.status().unwrap().pid;
        let ended = while_stopped(pid, || interruptible(|| true, end));
        assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
        assert_eq!(store.states(&ids(&[1])).unwrap(), [ObjectState::Deleted], "{publish}");
    }
}
