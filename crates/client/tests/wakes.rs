//! Clients that sleep for an object and are woken by the client that seals it, through a page of
//! hints that any client may fill with garbage.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plasmon_client::{Client, Code, ObjectId, ObjectState, PutOptions};
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Reply, Request};
use plasmon_shm::Connection;
use plasmon_shm::wake_page::WAKE_PAGE_BYTES;
use plasmon_testkit::{ChildProcess, TEST_TIMEOUT, TestStore, errand, id, pattern, say, until};

const MIB: u64 = 1 << 20;

/// Where the wake page is among the descriptors of a welcome.
const PAGE_AT: usize = 4;

fn with_id(id: ObjectId) -> PutOptions {
    PutOptions { id: Some(id), ..PutOptions::default() }
}

/// Ids that share one place in the wake page and one topic: docs/formats/shared-memory.md.
fn colliding(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[12..].copy_from_slice(&(number ^ 0x1234_5678).to_le_bytes());
    ObjectId::new(bytes)
}

/// What a child process does. Without an errand it is no test.
#[test]
fn child() {
    let Some((_, options)) = errand() else { return };
    let store = Client::connect(&options).unwrap();
    say("waiting");
    store.get(&id(1), None).unwrap();
}

/// A client of this user and its wake page.
fn page_of(node: &TestStore) -> (Connection, OwnedFd) {
    let connection = Connection::connect(&node.socket()).unwrap();
    let name = "meddler".to_owned();
    let hello = Hello { version: PROTOCOL_VERSION, name, channel: true, resume: None };
    connection.send(&encode_request(0, &Request::Hello(hello)).unwrap(), &[]).unwrap();
    let mut bytes = Vec::new();
    let mut received = connection.recv(&mut bytes, true).unwrap();
    match decode_from_daemon(&bytes).unwrap() {
        FromDaemon::Reply(0, Reply::Welcome(welcome)) => assert!(welcome.wake_page),
        other => panic!("{other:?}"),
    }
    (connection, received.fds.remove(PAGE_AT))
}

/// Two clients that each wait for what the other one seals next.
fn play_ping_pong(node: &TestStore, rounds: u64) {
    let (one, other) = (node.connect(), node.connect());
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                let ball = one.get(&id(2 * round), Some(TEST_TIMEOUT)).unwrap();
                one.put(&ball, &with_id(id(2 * round + 1))).unwrap();
            }
        });
        for round in 0..rounds {
            other.put(&round.to_le_bytes(), &with_id(id(2 * round))).unwrap();
            let ball = other.get(&id(2 * round + 1), Some(TEST_TIMEOUT)).unwrap();
            assert_eq!(&*ball, &round.to_le_bytes());
        }
    });
    let ids: Vec<_> = (0..2 * rounds).map(id).collect();
    assert!(one.delete(&ids).unwrap().iter().all(Option::is_none));
}

/// A client that finds an object by itself leaves the daemon's answer unread. Were these never
/// read, the daemon would stop listening to the client in the end.
#[test]
fn thousands_of_waits_leave_nothing_behind() {
    let node = TestStore::new(64 * MIB);
    play_ping_pong(&node, 3000);
    assert_eq!(node.connect().status().unwrap().waits, 0);
}

#[test]
fn garbage_in_the_page_costs_time_and_nothing_else() {
    let node = TestStore::new(64 * MIB);
    let (_connection, page) = page_of(&node);
    let is_over = AtomicBool::new(false);
    let words = WAKE_PAGE_BYTES as usize;
    thread::scope(|scope| {
        scope.spawn(|| {
            // All of it, all the time: events that were never set, cleared ones, wrong processors.
            for seed in 0.. {
                let garbage = match seed % 4 {
                    0 => vec![0; words],
                    1 => vec![u8::MAX; words],
                    _ => pattern(seed, words),
                };
                rustix::io::pwrite(&page, &garbage, 0).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                thread::yield_now();
            }
        });
        play_ping_pong(&node, 300);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_page_of_zeroes_and_of_ones_keeps_no_waiter_asleep() {
    let node = TestStore::new(64 * MIB);
    let (_connection, page) = page_of(&node);
    let (store, writer) = (node.connect(), node.connect());
    for (number, byte) in [(1, 0), (2, u8::MAX)] {
        thread::scope(|scope| {
            let waiting =
                scope.spawn(|| store.get(&id(number), Some(TEST_TIMEOUT)).unwrap().to_vec());
            until("it waits", || writer.status().unwrap().waits == 1);
            rustix::io::pwrite(&page, &[byte; WAKE_PAGE_BYTES as usize], 0).unwrap();
            writer.put(b"sealed", &with_id(id(number))).unwrap();
            assert_eq!(waiting.join().unwrap(), b"sealed");
        });
    }
}

#[test]
fn a_waiter_that_was_killed_asleep_blocks_no_other() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut child = ChildProcess::start(&node, "wait");
    child.heard();
    until("the child waits", || store.status().unwrap().waits == 1);
    child.kill();
    until("its wait is forgotten", || store.status().unwrap().waits == 0);
    thread::scope(|scope| {
        let other = node.connect();
        let waiting = scope.spawn(move || other.get(&id(1), Some(TEST_TIMEOUT)).unwrap().to_vec());
        until("another one waits", || store.status().unwrap().waits == 1);
        store.put(b"sealed", &with_id(id(1))).unwrap();
        assert_eq!(waiting.join().unwrap(), b"sealed");
    });
}

#[test]
fn thousands_wait_in_one_place_of_the_page() {
    const CLIENTS: usize = 3;
    const THREADS: u64 = 700;
    const OTHERS: u64 = 50;
    let node = TestStore::new(64 * MIB);
    let clients: [_; CLIENTS] = std::array::from_fn(|_| node.connect());
    let writer = node.connect();
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for client in &clients {
            // Most for one object, some for separate objects.
            for number in (0..THREADS).map(|number| number.saturating_sub(THREADS - OTHERS)) {
                waiting.push(scope.spawn(move || {
                    client.get(&colliding(number), Some(TEST_TIMEOUT)).unwrap().to_vec()
                        == b"sealed"
                }));
            }
        }
        let all = CLIENTS as u64 * THREADS;
        until("all of them wait", || writer.status().unwrap().waits == all);
        for number in (0..OTHERS).rev() {
            writer.put(b"sealed", &with_id(colliding(number))).unwrap();
        }
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
    });
    assert_eq!(writer.status().unwrap().waits, 0);
}

#[test]
fn a_seal_by_message_and_an_end_wake_as_well() {
    let node = TestStore::new(64 * MIB);
    let (store, writer) = (node.connect(), node.connect());
    let large = writer.create(20 * MIB, &with_id(id(1))).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get(&id(1), Some(TEST_TIMEOUT)).unwrap().len());
        until("it waits", || writer.status().unwrap().waits == 1);
        large.seal().unwrap();
        assert_eq!(waiting.join().unwrap() as u64, 20 * MIB);
        let waiting = scope.spawn(|| store.get(&id(2), Some(TEST_TIMEOUT)).unwrap_err().code());
        until("it waits", || writer.status().unwrap().waits == 1);
        store.disconnect();
        assert_eq!(waiting.join().unwrap(), Code::Disconnected);
    });
}

#[test]
fn a_sleeper_wakes_at_its_time_while_others_of_its_process_go_on() {
    let node = TestStore::new(64 * MIB);
    let (store, writer) = (node.connect(), node.connect());
    let short = Duration::from_millis(150);
    thread::scope(|scope| {
        let patient = scope.spawn(|| store.get(&id(1), Some(TEST_TIMEOUT)).unwrap().to_vec());
        let hurried: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    let began = Instant::now();
                    let error = store.get(&id(2), Some(short)).unwrap_err();
                    assert_eq!(error.code(), Code::TimedOut, "{error}");
                    assert!(began.elapsed() >= short, "it gave up early");
                })
            })
            .collect();
        while hurried.iter().any(|thread| !thread.is_finished()) {
            // A thread reads the socket that the sleepers' answers come on.
            assert_eq!(store.states(&[id(3)]).unwrap(), [ObjectState::Absent]);
        }
        hurried.into_iter().for_each(|thread| thread.join().unwrap());
        writer.put(b"sealed", &with_id(id(1))).unwrap();
        assert_eq!(patient.join().unwrap(), b"sealed");
    });
}

#[test]
fn the_page_and_its_sleepers_outlive_the_daemon() {
    let node = TestStore::new(64 * MIB);
    let (store, writer) = (node.connect(), node.connect());
    let inode = |page: &OwnedFd| rustix::fs::fstat(page).unwrap().st_ino;
    let (_connection, before) = page_of(&node);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..50)
            .map(|number| {
                let store = &store;
                scope.spawn(move || store.get(&id(number), Some(TEST_TIMEOUT)).unwrap().to_vec())
            })
            .collect();
        for round in 0..3 {
            until("they wait", || writer.status().unwrap().waits >= 50 - round);
            node.kill_daemon(&writer.status().unwrap());
            writer.put(b"sealed", &with_id(id(round))).unwrap();
        }
        for number in 3..50 {
            writer.put(b"sealed", &with_id(id(number))).unwrap();
        }
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == b"sealed"));
    });
    let (_connection, after) = page_of(&node);
    assert_eq!(inode(&before), inode(&after));
}
