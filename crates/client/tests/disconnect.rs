//! A connection that breaks without its client noticing, because a get sends nothing.
//!
//! Alone in its program: it tells its sockets by the descriptors that appear.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use plasmon_client::{Policy, PutOptions};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, until};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// More sessions than the daemon keeps of a process that left them.
const SESSIONS: usize = 600;

fn sockets() -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    });
    sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Shuts the sockets of a client down, which it does not use.
fn break_connection(before: &BTreeSet<i32>) {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for number in sockets().difference(before) {
        let socket = pidfd_getfd(&this, *number, PidfdGetfdFlags::empty()).unwrap();
        shutdown(socket, Shutdown::Both).unwrap();
    }
}

/// The daemon kept 512 disconnected sessions and forgot the oldest that pinned nothing then. A
/// client that had not noticed went on pinning through the index, and its bytes were overwritten.
#[test]
fn what_a_client_pins_after_its_connection_broke_unnoticed_is_not_used_again() {
    // A session that pins something is kept and resumed; one that pins nothing is forgotten.
    for keeps in [true, false] {
        pins_after_its_connection_broke(keeps);
    }
}

fn pins_after_its_connection_broke(keeps: bool) {
    let store = TestStore::new(16 << 20);
    let writer = store.connect();
    let bytes = vec![65; 200_000];
    let ids: Vec<_> = (0..3).map(|_| writer.put(&bytes, &PutOptions::default()).unwrap()).collect();
    writer.flush().unwrap();
    let before = sockets();
    let victim = store.connect();
    drop(victim.get(&ids[0], Some(TEST_TIMEOUT)).unwrap());
    let kept = keeps.then(|| victim.get(&ids[1], Some(TEST_TIMEOUT)).unwrap());
    break_connection(&before);
    until("the daemon disconnects the client", || writer.status().unwrap().clients == 1);
    for _ in 0..SESSIONS {
        drop(store.connect());
    }
    until("the sessions are gone", || writer.status().unwrap().clients == 1);

    let found = victim.get(&ids[0], Some(TEST_TIMEOUT)).unwrap();
    writer.delete(&ids).unwrap();
    let read = 1 + u64::from(keeps);
    assert_eq!(writer.status().unwrap().lingering, read, "the client still reads them");
    let cached = PutOptions { policy: Policy::Cache, ..PutOptions::default() };
    for _ in 0..200 {
        writer.put(&[66; 200_000], &cached).unwrap();
    }
    writer.flush().unwrap();
    assert!(found.data() == bytes, "a pinned byte is never used again");
    assert!(kept.as_ref().is_none_or(|kept| kept.data() == bytes), "a pinned byte is never used");
    drop((found, kept));
    until("nothing is pinned any more", || writer.status().unwrap().lingering == 0);
}
