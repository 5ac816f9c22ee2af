//! Connections that are cut in the middle of writing.
//!
//! The daemon took leases back as soon as their connection broke and gave them to others. The
//! client went on writing into them, over objects that others had sealed there.
//!
//! The tests of this program tell their sockets by the descriptors that appear, so they take turns.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use plasmon_client::{Client, Code, GrowOptions, ObjectId, PutOptions, Writer};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, until};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

static TURN: Mutex<()> = Mutex::new(());

const SMALL: usize = 100_000;
const LARGE: usize = 3 << 20;

fn sockets() -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    });
    sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Shuts the sockets of a client down, which it does not use now.
fn cut(before: &BTreeSet<i32>) {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for number in sockets().difference(before) {
        let socket = pidfd_getfd(&this, *number, PidfdGetfdFlags::empty()).unwrap();
        shutdown(socket, Shutdown::Both).unwrap();
    }
}

/// Puts many objects: memory that is there and free is used first.
fn fill(store: &Client) -> Vec<ObjectId> {
    (0..200).map(|_| store.put(&[7; 50_000], &PutOptions::default()).unwrap()).collect()
}

fn check(store: &Client, ids: &[ObjectId]) {
    for id in ids {
        let found = store.get(id, Some(TEST_TIMEOUT)).unwrap();
        assert!(found.data().iter().all(|byte| *byte == 7), "{id} was written over");
    }
}

fn begin(store: &Client, bytes: usize) -> Writer {
    let mut writer = store.create(bytes as u64, &PutOptions::default()).unwrap();
    writer[..bytes / 2].fill(1);
    writer
}

fn finish(store: &Client, mut writer: Writer) {
    let bytes = writer.len();
    writer[bytes / 2..].fill(1);
    let id = writer.seal().unwrap();
    assert!(*store.get(&id, Some(TEST_TIMEOUT)).unwrap().data() == vec![1; bytes]);
}

/// The connection is cut while objects are half written; others fill the store; then the rest is
/// written.
#[test]
fn what_is_written_when_the_connection_is_cut_harms_nothing_and_is_kept() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let node = TestStore::new(16 << 20);
    let other = node.connect();
    let before = sockets();
    let victim = node.connect();
    victim.put(&[1; 1000], &PutOptions::default()).unwrap();
    let (small, large) = (begin(&victim, SMALL), begin(&victim, LARGE));
    let mut growing = victim.grow(&GrowOptions::default()).unwrap();
    growing.ensure(SMALL).unwrap();
    growing.write(0, &[1; SMALL / 2]);
    victim.flush().unwrap();
    cut(&before);
    until("the connection is gone", || other.status().unwrap().clients == 1);
    let ids = fill(&other);
    // It has not noticed, and has room in its lease.
    let put = victim.put(&[1; 1000], &PutOptions::default()).unwrap();
    growing.write(SMALL / 2, &[1; SMALL / 2]);
    finish(&victim, small);
    finish(&victim, large);
    let grown = growing.seal(SMALL).unwrap();
    victim.flush().unwrap();
    assert_eq!(other.status().unwrap().away_bytes, 0, "the client is back");
    for id in [put, grown] {
        let found = victim.get(&id, Some(TEST_TIMEOUT)).unwrap();
        assert!(found.data().iter().all(|byte| *byte == 1));
    }
    check(&other, &ids);
}

/// The same while threads put all the time.
#[test]
fn connections_that_are_cut_under_load_harm_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let node = TestStore::new(16 << 20);
    let other = node.connect();
    let ids: Vec<_> =
        (0..20).map(|_| other.put(&[7; 50_000], &PutOptions::default()).unwrap()).collect();
    let before = sockets();
    let victim = node.connect();
    std::thread::scope(|scope| {
        for bytes in [100, 5000, 60_000] {
            let victim = &victim;
            scope.spawn(move || {
                for _ in 0..300 {
                    let id = victim.put(&vec![1; bytes], &PutOptions::default()).unwrap();
                    let found = victim.get(&id, Some(TEST_TIMEOUT)).unwrap();
                    assert!(found.data() == vec![1; bytes]);
                    drop(found);
                    victim.delete(&[id]).unwrap();
                }
            });
        }
        for _ in 0..20 {
            cut(&before);
            // Until it is mended: a question is answered on the next connection.
            victim.status().unwrap();
            let id = other.put(&[7; 50_000], &PutOptions::default()).unwrap();
            check(&other, &[id]);
            other.delete(&[id]).unwrap();
        }
    });
    victim.flush().unwrap();
    check(&other, &ids);
    drop(victim);
    until("everything is let go", || {
        let status = other.status().unwrap();
        status.away_bytes == 0 && status.creating == 0 && status.clients == 1
    });
}

#[test]
fn a_store_that_is_dropped_holds_no_memory_although_its_process_lives() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let node = TestStore::new(16 << 20);
    let other = node.connect();
    for is_cut in [false, true] {
        let before = sockets();
        let victim = node.connect();
        victim.put(&[1; 1000], &PutOptions::default()).unwrap();
        victim.flush().unwrap();
        let writer = begin(&victim, LARGE);
        if is_cut {
            cut(&before);
            until("the connection is gone", || other.status().unwrap().away_bytes > 0);
        }
        drop((writer, victim));
        until("everything is let go", || {
            let status = other.status().unwrap();
            (status.away_bytes, status.creating, status.clients) == (0, 0, 1)
        });
    }
}

/// The daemon is killed and has no keeper: the memory is a lost store's.
#[test]
fn writing_for_a_store_that_is_lost_ends_in_an_error() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let node = TestStore::with(16 << 20, &[("keeper", "false")]);
    let victim = node.connect();
    let (mut small, mut large) = (begin(&victim, SMALL), begin(&victim, LARGE));
    node.kill_daemon(&victim.status().unwrap());
    until("another daemon can be started", || node.start_again());
    let other = node.connect();
    let ids = fill(&other);
    // The client notices with its first question, which says so.
    let told = victim.status().unwrap_err();
    assert_eq!(told.code(), Code::Disconnected, "{told}");
    assert_eq!(victim.status().unwrap().epoch, 1);
    for writer in [&mut small, &mut large] {
        assert_eq!(writer.copy_at(0, &[1; 64]).unwrap_err().code(), Code::Disconnected);
    }
    assert_eq!(small.seal().unwrap_err().code(), Code::Disconnected);
    assert_eq!(large.seal().unwrap_err().code(), Code::Disconnected);
    check(&other, &ids);
}
