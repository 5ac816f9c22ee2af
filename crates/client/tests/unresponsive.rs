//! A daemon that does not answer: stopped, stuck, or overloaded.
//!
//! Requests had no timeout and could not be interrupted: a program hung for as long as the daemon
//! did, also when it only dropped what it had.

#![expect(clippy::unwrap_used, reason = "this is a test, also outside of #[test]")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plasmon_client::{
    Client, Code, ConnectOptions, Error, Filter, GrowOptions, ObjectState, PutOptions,
    StartOptions, interruptible,
};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, id, plasmond, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

/// A time after which a test of a short timeout has failed, also on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A daemon that is stopped until this is dropped.
struct StoppedDaemon(Pid);

impl StoppedDaemon {
    fn new(store: &Client) -> Self {
        let pid = i32::try_from(store.status().unwrap().pid).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for StoppedDaemon {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// Without a keeper, which would replace a daemon that hangs.
fn node() -> TestStore {
    TestStore::with(64 * MIB, &[("keeper", "false")])
}

fn named(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

type Call = (&'static str, fn(&Client) -> Result<(), Error>);

/// One call of every kind that asks the daemon something.
const CALLS: &[Call] = &[
    ("status", |store| store.status().map(drop)),
    ("stat", |store| store.stat(&id(1)).map(drop)),
    ("clients", |store| store.clients().map(drop)),
    ("list", |store| store.list(&Filter::default()).map(drop)),
    ("states", |store| store.states(&[id(1)]).map(drop)),
    ("contains", |store| store.contains(&id(1)).map(drop)),
    ("delete", |store| store.delete(&[id(1)]).map(drop)),
    ("delete_unused", |store| store.delete_unused(&[id(1)]).map(drop)),
    ("touch", |store| store.touch(&[id(1)])),
    ("evict", |store| store.evict(1).map(drop)),
    ("set_quota", |store| store.set_quota(1 << 40)),
    ("adopt", |store| store.adopt("space", 0)),
    ("put with an id", |store| store.put(b"small", &named(2)).map(drop)),
    ("put of much", |store| store.put(&[1; 20 << 20], &PutOptions::default()).map(drop)),
    ("create", |store| store.create(20 << 20, &PutOptions::default()).map(drop)),
    ("create with an id", |store| store.create(10, &named(3)).map(drop)),
    ("grow", |store| store.grow(&GrowOptions::default()).map(drop)),
    ("flush", |store| {
        store.put(b"on its way", &PutOptions::default())?;
        store.flush()
    }),
    ("get", |store| store.get(&id(9), Some(Duration::from_millis(50))).map(drop)),
    ("get now", |store| store.get(&id(9), NOW).map(drop)),
    ("get many", |store| store.get_many(&[id(8), id(9)], NOW).map(drop)),
    ("wait", |store| store.wait(&[id(9)], 1, Some(Duration::from_millis(50))).map(drop)),
    ("digest", |store| store.digest(&id(9)).map(drop)),
    ("subscribe", |store| store.subscribe(&Filter::default()).map(drop)),
];

/// Afterwards the store is as if nothing had been asked but what was put.
fn check_clean(other: &Client, store: &Client) {
    store.flush().unwrap();
    until("nothing is under construction and no client waits", || {
        let status = other.status().unwrap();
        (status.creating, status.waits) == (0, 0)
    });
    store.put(b"another", &named(100)).unwrap();
    assert_eq!(store.get(&id(100), NOW).unwrap().data(), b"another");
    store.delete(&[id(100)]).unwrap();
}

#[test]
fn every_call_times_out_when_the_daemon_does_not_answer() {
    let node = node();
    let options = ConnectOptions {
        request_timeout: Duration::from_millis(100),
        channel: true,
        ..node.options()
    };
    let other = node.connect();
    for channel in [true, false] {
        let store = Client::connect(&ConnectOptions { channel, ..options.clone() }).unwrap();
        store.put(b"warm", &PutOptions::default()).unwrap();
        store.flush().unwrap();
        let stopped = StoppedDaemon::new(&other);
        for (name, call) in CALLS {
            let began = Instant::now();
            let error = call(&store).expect_err(name);
            assert_eq!(error.code(), Code::TimedOut, "{name}: {error}");
            assert!(began.elapsed() < LONG, "{name} took {:?}", began.elapsed());
            assert!(error.to_string().contains("answer"), "{name}: {error}");
        }
        let error = Client::connect(&ConnectOptions { channel, ..options.clone() }).unwrap_err();
        assert_eq!(error.code(), Code::TimedOut, "{error}");
        drop(stopped);
        check_clean(&other, &store);
    }
}

#[test]
fn every_call_can_be_interrupted_while_the_daemon_does_not_answer() {
    let node = node();
    let other = node.connect();
    for channel in [true, false] {
        let options = ConnectOptions { channel, ..node.options() };
        let store = Client::connect(&options).unwrap();
        store.put(b"warm", &PutOptions::default()).unwrap();
        store.flush().unwrap();
        let stopped = StoppedDaemon::new(&other);
        for (name, call) in CALLS {
            let error = interruptible(|| true, || call(&store)).expect_err(name);
            assert_eq!(error.code(), Code::Cancelled, "{name}: {error}");
        }
        let error = interruptible(|| true, || store.get(&id(9), None)).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled, "{error}");
        let error = interruptible(|| true, || Client::connect(&options)).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled, "{error}");
        drop(stopped);
        check_clean(&other, &store);
    }
}

#[test]
fn a_timeout_of_the_callers_counts_whatever_the_daemon_does() {
    let node = node();
    let store = node.connect();
    let stopped = StoppedDaemon::new(&store);
    let began = Instant::now();
    let error = store.get(&id(9), Some(Duration::from_millis(300))).unwrap_err();
    assert_eq!(error.code(), Code::TimedOut, "{error}");
    assert!(began.elapsed() >= Duration::from_millis(300) && began.elapsed() < LONG);
    drop(stopped);
    // The same while the daemon is gone, and this very call would have to find another.
    store.shutdown().unwrap();
    let began = Instant::now();
    let error = store.get(&id(9), Some(Duration::from_millis(300))).unwrap_err();
    assert_eq!(error.code(), Code::TimedOut, "{error}");
    assert!(began.elapsed() < LONG, "it took {:?}", began.elapsed());
    let error = interruptible(|| true, || store.get(&id(9), None)).unwrap_err();
    assert_eq!(error.code(), Code::Cancelled, "{error}");
}

#[test]
fn a_daemon_at_work_has_more_time_than_a_silent_one() {
    let node = TestStore::with(64 * MIB, &[("keeper", "false")]);
    let options = ConnectOptions { request_timeout: Duration::from_millis(20), ..node.options() };
    let store = Client::connect(&options).unwrap();
    // Answers within the time, each after much work: allocating, copying, sealing. A machine on
    // which the daemon gets no processor for that long makes it silent, now and then.
    let bytes = vec![1; 40 << 20];
    let put = || match store.put(&bytes, &PutOptions::default()) {
        Ok(id) => store.delete(&[id]).is_ok(),
        Err(error) => {
            assert_eq!(error.code(), Code::TimedOut, "{error}");
            false
        }
    };
    let answered = (0..50).filter(|_| put()).take(3).count();
    assert_eq!(answered, 3, "of 50 puts");
}

/// Dropped buffers sent one message each, and waited for room in the socket while no thread read
/// the answers: after some 620 in a row the program hung forever.
#[test]
fn any_number_of_buffers_can_be_dropped_in_a_row() {
    const COUNT: u64 = 5000;
    let node = node();
    let other = node.connect();
    let ids: Vec<_> = (0..COUNT).map(id).collect();
    for one in &ids {
        let options = PutOptions { id: Some(*one), trusted: true, ..PutOptions::default() };
        other.put(b"bytes", &options).unwrap();
    }
    let store = node.connect_by_socket();
    let take = || {
        let buffers = store.get_many(&ids, NOW).unwrap();
        buffers.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    drop(take());
    let buffers = take();
    // Also while the daemon reads nothing at all. It is told when it goes on, without another call.
    let stopped = StoppedDaemon::new(&other);
    drop(buffers);
    drop(stopped);
    other.delete(&ids).unwrap();
    until("no pin is left", || other.status().unwrap().lingering == 0);
    drop(store);
}

#[test]
fn any_number_of_objects_and_waits_can_be_given_up_in_a_row() {
    let node = node();
    let other = node.connect();
    let store = node.connect_by_socket();
    let writers: Vec<_> =
        (0..1500).map(|_| store.create(64, &PutOptions::default()).unwrap()).collect();
    let waits: Vec<_> =
        (0..1000).map(|number| store.start_wait(&[id(number)], 1, None).unwrap()).collect();
    let stopped = StoppedDaemon::new(&other);
    drop((writers, waits));
    drop(stopped);
    until("nothing is under construction and no client waits", || {
        let status = other.status().unwrap();
        (status.creating, status.waits) == (0, 0)
    });
    assert_eq!(store.states(&[id(1)]).unwrap(), [ObjectState::Absent]);
}

/// Given up, an object that lies in leased memory was told of through the ring, and the drop waited
/// for room in that.
#[test]
fn any_number_of_writers_can_be_dropped_in_a_row() {
    let node = node();
    let (other, store) = (node.connect(), node.connect());
    for _ in 0..2 {
        let create = |_| store.create(64, &PutOptions::default()).unwrap();
        let writers: Vec<_> = (0..5000).map(create).collect();
        let stopped = StoppedDaemon::new(&other);
        drop(writers);
        drop(stopped);
        until("nothing is under construction", || other.status().unwrap().creating == 0);
    }
    store.flush().unwrap();
    check_clean(&other, &store);
    // The memory of all of them is free: there is room for as much as there was.
    drop(store);
    until("the client is gone", || other.status().unwrap().clients == 1);
    assert_eq!(other.status().unwrap().leased_bytes, 0);
}

/// `Instant::now() + timeout` panics when the sum is more than the clock can count.
#[test]
fn for_ever_is_a_timeout_like_any_other() {
    let node = node();
    let started = plasmon_client::start(&StartOptions {
        daemon: Some(plasmond()),
        settings: vec![
            ("socket".to_owned(), node.directory().join("two.sock").display().to_string()),
            ("capacity_bytes".to_owned(), MIB.to_string()),
            ("keeper".to_owned(), "false".to_owned()),
        ],
        timeout: Duration::MAX,
    });
    let options = ConnectOptions {
        socket: Some(started.unwrap().socket),
        connect_timeout: Duration::MAX,
        reconnect_timeout: Duration::MAX,
        request_timeout: Duration::MAX,
        ..ConnectOptions::default()
    };
    let store = Client::connect(&options).unwrap();
    let patient = GrowOptions { timeout: Duration::MAX, ..GrowOptions::default() };
    let mut growing = store.grow(&patient).unwrap();
    growing.ensure(100_000).unwrap();
    growing.ensure_exactly(200_000).unwrap();
    let id = growing.seal(10).unwrap();
    assert_eq!(store.get(&id, Some(Duration::MAX)).unwrap().len(), 10);
    assert_eq!(store.wait(&[id], 0, Some(Duration::MAX)).unwrap(), [ObjectState::Sealed]);
    store.shutdown().unwrap();
}

#[test]
fn a_daemon_that_does_not_start_is_not_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (program, pid_file) = (directory.path().join("stuck"), directory.path().join("pid"));
    let script = format!(
        "#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 1000\n",
        pid_file.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = directory.path().join("store.sock").display().to_string();
    let options = |timeout| StartOptions {
        daemon: Some(PathBuf::from(&program)),
        settings: vec![("socket".to_owned(), socket.clone())],
        timeout,
    };
    let is_gone = || {
        let mut pid = String::new();
        until("the program has said its number", || {
            pid = std::fs::read_to_string(&pid_file).unwrap_or_default();
            !pid.is_empty()
        });
        std::fs::remove_file(&pid_file).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        test_kill_process(pid).is_err()
    };
    let error = plasmon_client::start(&options(Duration::from_secs(3))).unwrap_err();
    assert_eq!(error.code(), Code::TimedOut, "{error}");
    assert!(is_gone(), "after the time had passed");
    let error =
        interruptible(|| true, || plasmon_client::start(&options(TEST_TIMEOUT))).unwrap_err();
    assert_eq!(error.code(), Code::Cancelled, "{error}");
}
