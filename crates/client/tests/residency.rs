//! How much of the store's memory is really there, and which mappings a client keeps.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::time::Duration;

use plasmon_client::{Client, Code, ObjectId, PutOptions};
use plasmon_testkit::{
    ChildProcess, TestStore, errand, hear, id, mapped_inode, mappings_of, pattern, present_bytes,
    say, until,
};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

/// Large enough to have its own extent in the small stores of these tests.
const LARGE: usize = 1 << 20;

fn strict(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), strict: true, ..PutOptions::default() }
}

fn with_id(number: u64) -> PutOptions {
    PutOptions { strict: false, ..strict(number) }
}

/// Reads an object; the file that its bytes were mapped from.
fn inode_of(store: &Client, object: &ObjectId) -> u64 {
    let buffer = store.get(object, NOW).unwrap();
    mapped_inode(buffer.data().as_ptr().addr()).unwrap()
}

/// An idle reader whose completion ring was full missed the end of an extent, and kept its
/// mapping. When the number of the extent came back it read the old bytes as those of another
/// object, or died.
#[test]
fn an_idle_reader_unmaps_extents_it_was_not_notified_of() {
    let node = TestStore::new(16 * MIB);
    let (reader, writer) = (node.connect(), node.connect());
    writer.put(&pattern(1, LARGE), &strict(1)).unwrap();
    let inode = inode_of(&reader, &id(1));
    let gone = |number: u64| {
        writer.put(&pattern(number, LARGE), &strict(number)).unwrap();
        assert_eq!(writer.delete(&[id(number)]).unwrap(), [None]);
    };
    // More than its completion ring holds; its last reader is the daemon's to find out.
    (2..300).for_each(gone);
    assert_eq!(writer.delete(&[id(1)]).unwrap(), [None]);
    until("the memory is free", || writer.status().unwrap().used_bytes == 0);
    // The reader does nothing.
    until("it unmaps what is gone", || mappings_of(inode) == 0);
    assert_eq!(reader.get(&id(2), NOW).unwrap_err().code(), Code::Deleted);
    // What it reads next is what was put last.
    writer.put(&pattern(500, LARGE), &strict(500)).unwrap();
    assert!(reader.get(&id(500), NOW).unwrap().data() == pattern(500, LARGE));
}

/// A reader mapped small extents with all their pages. What the store counted as free in them had
/// none, and got some by that: a store of 4 MB had 6.
#[test]
fn a_reader_brings_no_memory_into_what_is_free() {
    let node = TestStore::new(16 * MIB);
    for (reader, number) in [(node.connect(), 1), (node.connect_by_socket(), 2)] {
        node.connect().put(&pattern(number, 5000), &with_id(number)).unwrap();
        let buffer = reader.get(&id(number), NOW).unwrap();
        assert!(buffer.data() == pattern(number, 5000));
        let inode = mapped_inode(buffer.data().as_ptr().addr()).unwrap();
        let present = present_bytes(inode);
        assert!(present <= MIB / 2, "{present} bytes for one object and a lease");
    }
}

/// A client that read an object once and then slept kept its memory, although the object was gone
/// and the store gave out the same bytes of its capacity again: 2.3 GB in a store of 600 MB.
#[test]
fn memory_that_was_given_back_is_gone_from_idle_clients() {
    let node = TestStore::with(64 * MIB, &[("warm_bytes_max", "4096")]);
    let (reader, writer) = (node.connect(), node.connect());
    let mut inodes = Vec::new();
    for number in 0..4 {
        let bytes = (40 + number as usize) << 20;
        let options = PutOptions { id: Some(id(number)), ..PutOptions::default() };
        writer.put(&pattern(number, bytes), &options).unwrap();
        let buffer = reader.get(&id(number), NOW).unwrap();
        assert!(buffer.data() == pattern(number, bytes));
        let inode = mapped_inode(buffer.data().as_ptr().addr()).unwrap();
        drop(buffer);
        assert!(present_bytes(inode) >= bytes as u64);
        inodes.push(inode);
        assert_eq!(writer.delete(&[id(number)]).unwrap(), [None]);
        // The reader does nothing.
        until("its memory is gone", || present_bytes(inode) == 0);
    }
}

/// From a sealed extent the kernel takes no pages while a process has it mapped. An idle reader of
/// a strict object, and one of a store of another level than shared, kept them until its next
/// operation, and the capacity did not count them.
#[test]
fn idle_clients_let_go_of_sealed_memory_and_it_is_charged_until_then() {
    for level in ["shared", "leased", "strict"] {
        let node = TestStore::with(32 * MIB, &[("level", level)]);
        let (reader, writer) = (node.connect(), node.connect());
        let asking = node.connect_by_socket();
        let is_strict = level == "shared";
        for number in 0..24 {
            let options = PutOptions {
                id: Some(id(number)),
                strict: is_strict && number % 2 == 0,
                ..PutOptions::default()
            };
            let bytes = pattern(number, 10 << 20);
            writer.put(&bytes, &options).unwrap_or_else(|error| panic!("{level}: {error}"));
            assert!(reader.get(&id(number), NOW).unwrap().data() == bytes);
            assert!(asking.get(&id(number), NOW).unwrap().data() == bytes);
            assert_eq!(writer.delete(&[id(number)]).unwrap(), [None]);
        }
        until("all is let go", || asking.status().unwrap().retained_bytes == 0);
        let status = asking.status().unwrap();
        assert!(status.resident_bytes <= 32 * MIB + 4 * MIB, "{level}: {status:?}");
    }
}

/// A client without a channel is told of no extent that is gone. At level leased it kept what it
/// had mapped to write to, so that the store was full of unused memory.
#[test]
fn a_writer_without_a_channel_lets_go_of_what_was_deleted() {
    let node = TestStore::with(64 * MIB, &[("level", "leased")]);
    let store = node.connect_by_socket();
    for round in 0..12 {
        let ids: Vec<ObjectId> = (0..60).map(|number| id(round * 60 + number)).collect();
        for id in &ids {
            let options = PutOptions { id: Some(*id), ..PutOptions::default() };
            let mut writer = store.create(400 << 10, &options).unwrap();
            writer.copy_from_slice(&pattern(round, 400 << 10));
            writer.seal().unwrap();
        }
        assert!(store.delete(&ids).unwrap().iter().all(Option::is_none));
    }
    let status = store.status().unwrap();
    assert!(status.retained_bytes <= 32 * MIB, "{status:?}");
}

/// What a process does that is started as another client: reads an object and lets it go.
#[test]
fn child() {
    let Some((_, options)) = errand() else { return };
    let store = Client::connect(&options).unwrap();
    drop(store.get(&id(1), NOW).unwrap());
    say("read");
    hear();
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
    if signal == rustix::process::Signal::STOP {
        // Its threads stop one by one, and one that had not could unmap something.
        until("the process has stopped", || is_stopped(pid));
    }
}

/// Whether every thread of a process is stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.filter_map(Result::ok).all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// Memory that a stopped process has mapped is there, so it is charged: the store is full, and says
/// why. That the daemon is replaced changes nothing.
#[test]
fn what_a_stopped_reader_holds_stays_charged_and_the_error_says_so() {
    use rustix::process::Signal;

    let node = TestStore::with(32 * MIB, &[("level", "leased")]);
    let mut child = {
        let writer = node.connect();
        writer.put(&pattern(1, 20 << 20), &strict(1)).unwrap();
        let mut child = ChildProcess::start(&node, "read");
        assert_eq!(child.heard(), "read");
        signal(child.pid(), Signal::STOP);
        assert_eq!(writer.delete(&[id(1)]).unwrap(), [None]);
        child
    };
    let writer = node.connect();
    let held = || writer.status().unwrap().retained_bytes >= 20 * MIB;
    assert!(held());
    let refused = |number| {
        let full = writer.put(&pattern(number, 20 << 20), &strict(number)).unwrap_err();
        assert_eq!(full.code(), Code::StoreFull);
        assert!(full.to_string().contains("still mapped"), "{full}");
    };
    refused(2);
    let before = writer.status().unwrap();
    node.kill_daemon(&before);
    until("the next daemon serves", || writer.status().unwrap().epoch > before.epoch);
    assert!(held(), "{:?}", writer.status());
    refused(3);
    assert!(writer.status().unwrap().resident_bytes >= 20 * MIB);
    // What fits beside it fits.
    writer.put(&pattern(4, 4 << 20), &strict(4)).unwrap();
    signal(child.pid(), Signal::CONT);
    until("the child lets go", || !held());
    writer.put(&pattern(5, 20 << 20), &strict(5)).unwrap();
    // A process that ends lets go of everything.
    signal(child.pid(), Signal::STOP);
    child.kill();
}
