//! What of the store's memory is really there, and which mappings a client keeps.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod support;

use std::time::Duration;

use plasmon_client::{Code, ObjectId, PutOptions, Store};
use support::{TestStore, id, pattern};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

/// Large enough to have an extent of its own in the small stores of these tests.
const LARGE: usize = 1 << 20;

fn strict(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), strict: true, ..PutOptions::default() }
}

/// Reads an object; the file that its bytes were mapped from.
fn inode_of(store: &Store, object: &ObjectId) -> u64 {
    let buffer = store.get(object, NOW).unwrap();
    support::mapped_inode(buffer.data().as_ptr().addr()).unwrap()
}

/// An idle reader whose completion ring was full did not hear of the end of an extent, and kept its
/// mapping. When the number of the extent came back it read the old bytes as those of another
/// object, or died.
#[test]
fn an_idle_reader_lets_go_of_what_it_was_not_told_of() {
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
    support::until("the memory is free", || writer.status().unwrap().used_bytes == 0);
    assert!(support::mappings_of(inode) > 0, "the reader has not looked yet");
    assert_eq!(reader.get(&id(2), NOW).unwrap_err().code(), Code::Deleted);
    assert_eq!(support::mappings_of(inode), 0);
    // What it reads next is what was put last.
    writer.put(&pattern(500, LARGE), &strict(500)).unwrap();
    assert!(reader.get(&id(500), NOW).unwrap().data() == pattern(500, LARGE));
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
        let inode = support::mapped_inode(buffer.data().as_ptr().addr()).unwrap();
        drop(buffer);
        assert!(support::present_bytes(inode) >= bytes as u64);
        inodes.push(inode);
        assert_eq!(writer.delete(&[id(number)]).unwrap(), [None]);
        // The reader does nothing.
        support::until("its memory is gone", || support::present_bytes(inode) == 0);
    }
}
