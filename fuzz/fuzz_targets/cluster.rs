//! What a node of a pool takes from etcd and from other nodes: maps, members, envelopes.
//!
//! The first byte says what the bytes are given to. The groups of a map, which are many and look
//! the same, may be left out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_cluster::{Map, Member};
use plasmon_pool::Envelope;

/// A group without nodes.
const EMPTY_GROUP: [u8; 17] =
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0];

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    match mode & 3 {
        0 => member(bytes),
        1 => map(bytes),
        2 => {
            // So many groups come from the bytes; the others are empty.
            let groups = usize::from(mode >> 2);
            map(&[bytes, &EMPTY_GROUP.repeat(plasmon_cluster::limits::GROUPS - groups)].concat());
        }
        _ => envelope(bytes),
    }
});

fn member(bytes: &[u8]) {
    let Ok(member) = Member::decode(bytes) else { return };
    assert_eq!(member.encode().as_deref(), Ok(bytes));
}

fn map(bytes: &[u8]) {
    let Ok(map) = Map::decode(bytes) else { return };
    assert_eq!(map.encode(), bytes);
    // What is asked of a map that came from outside.
    for (slot, node) in map.nodes() {
        assert_eq!(map.node(slot).map(|found| &found.member), Some(&node.member));
    }
}

/// An envelope that is taken is one that can be sent again.
fn envelope(bytes: &[u8]) {
    let Ok(envelope) = Envelope::decode(bytes) else { return };
    let Some(again) = envelope.encode() else { return };
    assert_eq!(Envelope::decode(&again), Ok(envelope));
}
