//! Processes that die: clients at every step, the daemon under load, and clients that lie.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plasmon_client::{Client, Code, ConnectOptions, Error, Filter, ObjectState, PutOptions};
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Reply, Request};
use plasmon_shm::Connection;
use plasmon_testkit::{
    ChildProcess, TEST_TIMEOUT, TestStore, errand, hear, id, pattern, say, until,
};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);
const LARGE: u64 = 20 * MIB;

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

/// What a child process does. Without an errand it is no test.
#[test]
fn child() {
    let Some((errand, options)) = errand() else { return };
    let store = Client::connect(&options).unwrap();
    let (step, bytes) = errand.split_once(' ').unwrap_or((&errand, "0"));
    let bytes: u64 = bytes.parse().unwrap();
    let data = || pattern(1, bytes as usize);
    match step {
        "connect" => {}
        "put" => drop(store.put(&data(), &with_id(1)).unwrap()),
        "get" => {
            let held = store.get(&id(1), None).unwrap();
            say("holding");
            hear();
            assert!(held.data() == pattern(1, held.len()));
        }
        "wait" => {
            say("waiting");
            let _ = store.get(&id(404), None);
        }
        "adopt" => {
            store.adopt("app", 0).unwrap();
            loop {
                say("adopted");
                hear();
                // Whatever is asked finds out whether the daemon is another one.
                store.status().unwrap();
            }
        }
        "create" | "write" => {
            let mut object = store.create(bytes, &with_id(1)).unwrap();
            if step == "write" {
                object.copy_from_slice(&data());
            }
            say("creating");
            hear();
        }
        "stream" => {
            // Puts until it is killed, and says after each acknowledged one how far it is.
            say("streaming");
            for n in 0.. {
                store.put(&pattern(n, bytes as usize), &with_id(1000 + n)).unwrap();
                store.put(&pattern(n, bytes as usize), &PutOptions::default()).unwrap();
            }
        }
        other => panic!("no such errand: {other}"),
    }
    say("done");
    hear();
}

/// Nothing of the dead is left: no creation, no lease, no wait, no memory.
fn assert_nothing_leaks(store: &Client, objects: u64) {
    until("nothing is left of the dead client", || {
        let status = store.status().unwrap();
        status.clients == 1
            && status.creating == 0
            && status.leased_bytes == 0
            && status.waits == 0
            && status.lingering == 0
            && status.objects == objects
    });
}

#[test]
fn a_client_killed_at_any_step_leaks_nothing() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect_by_socket();
    for bytes in [1000, LARGE] {
        for step in ["connect", "create", "write", "wait", "put", "get"] {
            let mut child = ChildProcess::start(&node, &format!("{step} {bytes}"));
            child.heard();
            if step == "wait" {
                until("it waits", || store.status().unwrap().waits == 1);
            }
            if step == "get" {
                store.delete(&[id(1)]).unwrap();
                assert_eq!(store.status().unwrap().lingering, 1, "the child holds it");
            }
            child.kill();
            assert_nothing_leaks(&store, u64::from(step == "put"));
        }
        until("the memory is free", || store.status().unwrap().used_bytes == 0);
    }
}

#[test]
fn a_wait_for_a_dead_creator_ends_at_once() {
    let node = TestStore::new(256 * MIB);
    for bytes in [1000, LARGE] {
        let mut child = ChildProcess::start(&node, &format!("write {bytes}"));
        child.heard();
        for store in [node.connect(), node.connect_by_socket()] {
            if store.states(&[id(1)]).unwrap() == [ObjectState::CreatorDied] {
                continue;
            }
            assert_eq!(store.states(&[id(1)]).unwrap(), [ObjectState::Creating]);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| store.get(&id(1), None));
                until("it waits", || store.status().unwrap().waits == 1);
                child.kill();
                let error = waiting.join().unwrap().unwrap_err();
                assert_eq!((error.code(), error.id()), (Code::CreatorDied, Some(id(1))), "{error}");
            });
        }
        let store = node.connect();
        store.put(b"made again", &with_id(1)).unwrap();
        store.delete(&[id(1)]).unwrap();
    }
}

#[test]
fn acknowledged_puts_of_a_killed_client_stay() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect_by_socket();
    let mut child = ChildProcess::start(&node, "stream 500");
    child.heard();
    until("some objects are there", || store.status().unwrap().objects > 2000);
    child.kill();
    let objects = store.list(&Filter::default()).unwrap();
    let acknowledged = (0..).take_while(|n| store.get(&id(1000 + n), NOW).is_ok()).count() as u64;
    assert!(acknowledged >= 1000, "{acknowledged}");
    for n in 0..acknowledged {
        assert!(store.get(&id(1000 + n), NOW).unwrap().data() == pattern(n, 500));
    }
    assert!(
        objects.len() as u64 >= 2 * acknowledged - 1,
        "a put before an acknowledged one is lost"
    );
    assert_nothing_leaks(&store, store.status().unwrap().objects);
}

#[test]
fn the_daemon_is_killed_under_load_and_nothing_sealed_is_lost() {
    const ROUNDS: u64 = 8;
    let node = TestStore::new(512 * MIB);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let observer = node.connect();
    let base = observer.put(&pattern(1, 100_000), &with_id(1)).unwrap();
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let store = node.connect();
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let bytes = if n % 50 == 0 { 5 << 20 } else { 700 + n as usize % 3000 };
                let options = with_id(10_000 + n);
                match store.put(&pattern(n, bytes), &options) {
                    Ok(_) => acknowledged.store(n + 1, Ordering::Relaxed),
                    Err(error) => panic!("put {n}: {error}"),
                }
                if n % 50 == 0 && n >= 50 {
                    store.delete(&[id(10_000 + n - 50)]).unwrap();
                }
            }
        });
        let reading = scope.spawn(|| {
            let store = node.connect();
            let held = store.get(&base, NOW).unwrap();
            while !stop.load(Ordering::Relaxed) {
                assert!(held.data() == pattern(1, 100_000));
                assert!(store.get_now(&base).is_some(), "reading goes on without a daemon");
                let n = acknowledged.load(Ordering::Relaxed).saturating_sub(1);
                if n % 50 != 0 {
                    let buffer = store.get(&id(10_000 + n), NOW).unwrap();
                    assert!(buffer.data() == pattern(n, buffer.len()), "object {n}");
                }
            }
        });
        for _ in 0..ROUNDS {
            let (status, before) =
                (observer.status().unwrap(), acknowledged.load(Ordering::Relaxed));
            node.kill_daemon(&status);
            until("another daemon answers", || {
                observer.status().is_ok_and(|now| now.pid != status.pid)
            });
            until("the writer goes on", || {
                acknowledged.load(Ordering::Relaxed) > before + 20 || writing.is_finished()
            });
        }
        stop.store(true, Ordering::Relaxed);
        writing.join().unwrap();
        reading.join().unwrap();
    });
    let count = acknowledged.load(Ordering::Relaxed);
    for n in (0..count).filter(|n| n % 50 != 0) {
        let buffer = observer.get(&id(10_000 + n), NOW).unwrap();
        assert!(buffer.data() == pattern(n, buffer.len()), "object {n} of {count}");
    }
    assert_eq!(observer.status().unwrap().epoch, ROUNDS + 1);
}

#[test]
fn an_object_under_construction_outlives_a_daemon() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    for bytes in [1000, LARGE] {
        let data = pattern(bytes, bytes as usize);
        let mut object = store.create(bytes, &with_id(bytes)).unwrap();
        let status = store.status().unwrap();
        node.kill_daemon(&status);
        object.copy_from_slice(&data);
        until("another daemon answers", || store.status().is_ok_and(|now| now.pid != status.pid));
        object.seal().unwrap();
        assert!(node.connect().get(&id(bytes), NOW).unwrap().data() == data);
    }
}

#[test]
fn waits_are_asked_again_of_the_next_daemon() {
    let node = TestStore::new(64 * MIB);
    let (store, observer) = (node.connect(), node.connect());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get(&id(5), Some(TEST_TIMEOUT)).unwrap().to_vec());
        let mut pending = store.start_wait(&[id(5)], 0, None).unwrap();
        until("they wait", || observer.status().unwrap().waits == 2);
        let status = observer.status().unwrap();
        node.kill_daemon(&status);
        observer.put(b"at last", &with_id(5)).unwrap();
        assert_eq!(waiting.join().unwrap(), b"at last");
        until("the pending wait is answered", || {
            pending.poll().is_some_and(|states| states.unwrap() == [ObjectState::Sealed])
        });
    });
}

/// Three daemons that were killed while a client waited for one answer: it left its session behind,
/// with the memory and the ids that it was creating, and the store was full.
#[test]
fn a_session_outlives_many_daemons_in_a_row() {
    let node = TestStore::new(32 << 20);
    let (store, watcher) = (node.connect(), node.connect_by_socket());
    let mut writer = store.create(20 << 20, &with_id(1)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get(&id(2), Some(TEST_TIMEOUT)));
        for _ in 0..8 {
            let status = watcher.status().unwrap();
            node.kill_daemon(&status);
            until("the client waits for the next daemon", || {
                watcher.status().is_ok_and(|now| now.pid != status.pid && now.waits == 1)
            });
        }
        watcher.put(b"at last", &with_id(2)).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().data(), b"at last");
    });
    writer.fill(7);
    writer.seal().unwrap();
    assert_eq!(watcher.status().unwrap().away_bytes, 0);
}

#[test]
fn without_a_keeper_a_dead_daemon_is_reported_and_buffers_stay_readable() {
    let node = TestStore::with(64 * MIB, &[("keeper", "false")]);
    let options = ConnectOptions { reconnect_timeout: Duration::from_millis(50), ..node.options() };
    let store = Client::connect(&options).unwrap();
    let object = store.put(&pattern(1, 5000), &PutOptions::default()).unwrap();
    let held = store.get(&object, NOW).unwrap();
    let writer = store.create(100, &with_id(2)).unwrap();
    node.kill_daemon(&store.status().unwrap());
    let error = store.get(&id(404), NOW).unwrap_err();
    assert_eq!(error.code(), Code::Disconnected, "{error}");
    assert!(held.data() == pattern(1, 5000));
    assert!(store.get_now(&object).is_some());
    assert_eq!(writer.seal().unwrap_err().code(), Code::Disconnected);
    drop(held);
}

/// A client without a channel connected again in the midst of a get, found the object in a new
/// store, and looked for it in what it had mapped of the old one: a new store gives
/// its extents the same numbers again.
#[test]
fn a_get_that_finds_a_new_store_reads_that_stores_memory() {
    let node = TestStore::new(64 * MIB);
    let reader = node.connect_by_socket();
    node.connect().put(&pattern(1, 5000), &with_id(1)).unwrap();
    let held = reader.get(&id(1), NOW).unwrap();
    assert!(held.data() == pattern(1, 5000));
    node.start_anew();
    node.connect().put(&pattern(2, 5000), &with_id(1)).unwrap();
    reports_another_store(&node, &reader.get(&id(1), NOW).unwrap_err());
    assert!(reader.get(&id(1), NOW).unwrap().data() == pattern(2, 5000));
    assert!(held.data() == pattern(1, 5000), "the old store's memory stays while it is read");
}

fn reports_another_store(node: &TestStore, error: &Error) {
    assert_eq!(error.code(), Code::Disconnected, "{error}");
    assert!(error.to_string().contains("another store now serves"), "{error}");
    assert!(error.to_string().contains(&node.socket().display().to_string()), "{error}");
}

/// A daemon without a keeper was killed and another one started on its socket. Puts returned ids,
/// gets said that the object had no creator and no waiters, and no call said what had
/// happened: the client went on in the other store as if it were the same.
#[test]
fn a_client_that_meets_another_store_says_so_once_and_goes_on_in_it() {
    for channel in [true, false] {
        let node = TestStore::with(64 * MIB, &[("keeper", "false")]);
        let store = Client::connect(&ConnectOptions { channel, ..node.options() }).unwrap();
        let old = store.put(b"of the first", &PutOptions::default()).unwrap();
        let held = store.get(&old, NOW).unwrap();
        let pending = store.start_wait(&[id(9)], 1, None).unwrap();
        node.kill_daemon(&store.status().unwrap());
        until("another store serves", || node.start_again());
        reports_another_store(&node, &store.states(&[old]).unwrap_err());
        let mut pending = pending;
        let waited = pending.poll().expect("what waited in the first is answered, too");
        reports_another_store(&node, &waited.unwrap_err());
        assert_eq!(
            store.states(&[old]).unwrap(),
            [ObjectState::Absent],
            "what it held is forgotten"
        );
        assert_eq!(store.get(&old, NOW).unwrap_err().code(), Code::Absent);
        assert_eq!(held.data(), b"of the first");
        let new = store.put(b"of the second", &PutOptions::default()).unwrap();
        store.flush().unwrap();
        assert_eq!(store.get(&new, NOW).unwrap().data(), b"of the second");
    }
}

#[test]
fn what_was_put_when_another_store_came_is_reported_lost() {
    let node = TestStore::with(64 * MIB, &[("keeper", "false")]);
    let store = node.connect();
    store.put(b"a lease to write in", &PutOptions::default()).unwrap();
    store.flush().unwrap();
    node.kill_daemon(&store.status().unwrap());
    until("another store serves", || node.start_again());
    // It is on its way when the client cannot know yet that it will not be read.
    let lost = store.put(b"on its way", &PutOptions::default()).unwrap();
    let error = store.flush().unwrap_err();
    reports_another_store(&node, &error);
    assert!(error.to_string().contains("1 earlier submissions were lost"), "{error}");
    store.flush().unwrap();
    assert_eq!(store.states(&[lost]).unwrap(), [ObjectState::Absent]);
}

/// A connection that speaks the protocol by hand, with the descriptors of its welcome: control,
/// index, channel, doorbell.
fn shake_hands(node: &TestStore) -> (Connection, Vec<std::os::fd::OwnedFd>) {
    let connection = Connection::connect(&node.socket()).unwrap();
    let hello =
        Hello { version: PROTOCOL_VERSION, name: "liar".to_owned(), channel: true, resume: None };
    connection.send(&encode_request(0, &Request::Hello(hello)).unwrap(), &[]).unwrap();
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, true).unwrap();
    let reply = decode_from_daemon(&bytes).unwrap();
    assert!(matches!(reply, FromDaemon::Reply(0, Reply::Welcome(_))), "{reply:?}");
    (connection, received.fds)
}

fn wait_for_the_end(connection: &Connection) {
    let mut bytes = Vec::new();
    while connection.recv(&mut bytes, true).unwrap().bytes > 0 {}
}

#[test]
fn garbage_in_ring_and_ledger_harms_only_its_writer() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let object = store.put(b"mine", &with_id(1)).unwrap();
    for seed in 0..20 {
        let (connection, fds) = shake_hands(&node);
        let channel = &fds[2];
        // The ring's records, then the whole ledger, then a tail that says: all of it is new.
        rustix::io::pwrite(channel, &pattern(seed, 262_144), 4096).unwrap();
        rustix::io::pwrite(channel, &pattern(seed + 1, 1 << 20), 4096 + 262_144 + 16_384).unwrap();
        rustix::io::pwrite(channel, &(1u64 << 20).to_le_bytes(), 512).unwrap();
        let tail = if seed % 2 == 0 { 4096u64 } else { u64::MAX - seed };
        rustix::io::pwrite(channel, &tail.to_le_bytes(), 64).unwrap();
        rustix::io::write(&fds[3], &1u64.to_ne_bytes()).unwrap();
        wait_for_the_end(&connection);
        assert_eq!(&*store.get(&object, NOW).unwrap(), b"mine");
    }
    let status = store.status().unwrap();
    assert_eq!(status.expelled_total, 20);
    store.put(b"still at work", &with_id(2)).unwrap();
}

#[test]
fn garbage_on_the_socket_harms_only_its_sender() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    for seed in 0..50 {
        let (connection, _fds) = shake_hands(&node);
        let mut frame = encode_request(seed, &Request::Status).unwrap();
        match seed % 5 {
            0 => frame = pattern(seed, 1 + seed as usize * 100),
            1 => frame.truncate(seed as usize % 16 + 1),
            2 => frame.extend(pattern(seed, 100)),
            3 => frame[6] = 3,
            _ => frame[16..].fill(0xff),
        }
        connection.send(&frame, &[]).unwrap();
        wait_for_the_end(&connection);
    }
    let silent = Connection::connect(&node.socket()).unwrap();
    silent.send(b"x", &[]).unwrap();
    wait_for_the_end(&silent);
    store.put(b"still at work", &with_id(2)).unwrap();
    assert!(store.status().unwrap().expelled_total >= 50);
}

/// An object that is named in the namespace that a child adopts.
fn of_app(number: u64) -> PutOptions {
    let name = plasmon_client::Name::new("app", number.to_string()).unwrap();
    PutOptions { name: Some(name), ..PutOptions::default() }
}

#[test]
fn a_killed_parent_takes_its_namespace_along_also_after_a_restart_of_the_daemon() {
    for restarts in [false, true] {
        let node = TestStore::new(64 * MIB);
        let store = node.connect();
        let mut parent = ChildProcess::start(&node, "adopt");
        assert_eq!(parent.heard(), "adopted");
        let small = store.put(&pattern(1, 1000), &of_app(1)).unwrap();
        let large = store.put(&pattern(2, LARGE as usize), &of_app(2)).unwrap();
        let other = store.put(&pattern(3, 1000), &with_id(3)).unwrap();
        if restarts {
            node.kill_daemon(&store.status().unwrap());
            parent.tell("go on");
            assert_eq!(parent.heard(), "adopted");
            // It sent this before it was answered, and the daemon received it in this order.
            assert_eq!(store.states(&[small, large]).unwrap(), [ObjectState::Sealed; 2]);
        }
        parent.kill();
        until("the namespace ends", || {
            store.states(&[small, large]).unwrap() == [ObjectState::Deleted; 2]
        });
        assert_eq!(store.states(&[other]).unwrap(), [ObjectState::Sealed]);
        let error = store.put(&pattern(4, 1000), &of_app(4)).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled, "{error}");
    }
}
