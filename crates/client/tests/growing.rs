//! Objects that grow, and regions that an allocator carves from, against a real daemon.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::time::Duration;

use plasmon_client::{Client, Code, GrowOptions, GrowingObject, Policy, PutOptions, Traits};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, pattern, until};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

fn begin(store: &Client) -> GrowingObject {
    store.grow(&GrowOptions::default()).unwrap()
}

fn append(growing: &mut GrowingObject, at: usize, bytes: &[u8]) {
    growing.ensure(at + bytes.len()).unwrap();
    growing[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn an_object_grows_past_every_step_without_moving_and_is_read_elsewhere() {
    for settings in [[("level", "shared")], [("level", "leased")], [("level", "strict")]] {
        let node = TestStore::with(256 << 20, &settings);
        for store in [node.connect(), node.connect_by_socket()] {
            let mut growing = begin(&store);
            let base = growing.base();
            let data = pattern(7, 70 * MIB + 123);
            let mut at = 0;
            for part in data.chunks(300 * KIB) {
                append(&mut growing, at, part);
                at += part.len();
                assert_eq!(growing.base(), base, "it moved");
            }
            assert!(growing[..at] == data[..], "what was written is there before it is sealed");
            let id = growing.seal(at).unwrap();
            let buffer = node.connect().get(&id, NOW).unwrap();
            assert!(buffer.data() == data, "another process reads the same");
            assert_eq!(
                store.status().unwrap().used_bytes,
                data.len().next_multiple_of(4096) as u64
            );
            store.delete(&[id]).unwrap();
        }
    }
}

#[test]
fn an_empty_object_and_a_short_one() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    for bytes in [0, 1, 4096, 4097] {
        let mut growing = begin(&store);
        append(&mut growing, 0, &pattern(1, bytes));
        let id = growing.seal(bytes).unwrap();
        assert_eq!(store.get(&id, NOW).unwrap().data(), pattern(1, bytes));
    }
    let growing = begin(&store);
    let beyond = growing.granted() + 1;
    assert_eq!(growing.seal(beyond).unwrap_err().code(), Code::BadRequest);
}

#[test]
fn a_full_store_is_an_error_and_what_was_written_stays() {
    let node = TestStore::new(32 << 20);
    let store = node.connect();
    store.put(&pattern(4, 8 * MIB), &PutOptions::default()).unwrap();
    let mut growing = begin(&store);
    let part = pattern(3, MIB);
    let mut at = 0;
    let error = loop {
        match growing.ensure(at + MIB) {
            Ok(()) => append(&mut growing, at, &part),
            Err(error) => break error,
        }
        at += MIB;
    };
    assert_eq!(error.code(), Code::StoreFull, "{error}");
    assert_eq!(at, 24 * MIB, "every byte of the capacity was there to be used");
    assert!(growing[..at].chunks(MIB).all(|found| found == part));
    assert_eq!(store.put(&part, &PutOptions::default()).unwrap_err().code(), Code::StoreFull);
    assert_eq!(growing.ensure(33 * MIB).unwrap_err().code(), Code::TooLarge);
    growing.abort();
    until("the memory is free", || store.status().unwrap().used_bytes == 8 << 20);
    store.put(&part, &PutOptions::default()).unwrap();
}

#[test]
fn a_patient_builder_waits_for_room() {
    let node = TestStore::new(16 << 20);
    let (store, other) = (node.connect(), node.connect());
    let in_the_way = other.put(&pattern(1, 12 * MIB), &PutOptions::default()).unwrap();
    let options = GrowOptions { timeout: TEST_TIMEOUT, ..GrowOptions::default() };
    let mut growing = store.grow(&options).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it has met the limit", || other.status().unwrap().used_bytes > 15 << 20);
            other.delete(&[in_the_way]).unwrap();
        });
        for at in 0..8 {
            append(&mut growing, at * MIB, &pattern(2, MIB));
        }
    });
    growing.seal(8 * MIB).unwrap();
}

#[test]
fn evictable_objects_make_room_for_growth() {
    let node = TestStore::new(32 << 20);
    let store = node.connect();
    let cache = PutOptions { policy: Policy::Cache, ..PutOptions::default() };
    let old = store.put(&pattern(1, 20 * MIB), &cache).unwrap();
    store.flush().unwrap();
    let mut growing = begin(&store);
    for at in 0..24 {
        append(&mut growing, at * MIB, &pattern(2, MIB));
    }
    assert_eq!(store.get(&old, NOW).unwrap_err().code(), Code::Evicted);
}

#[test]
fn memory_that_was_given_up_is_used_again_with_its_mapping() {
    let node = TestStore::new(256 << 20);
    let store = node.connect();
    let mut growing = begin(&store);
    append(&mut growing, 0, &pattern(1, 20 * MIB));
    let base = growing.base();
    growing.abort();
    until("it is idle", || store.status().unwrap().warm_bytes >= 20 << 20);
    let again = begin(&store);
    assert_eq!(again.base(), base);
    assert!(again.granted() >= 20 * MIB);
}

#[test]
fn idle_memory_goes_to_the_client_that_needs_it() {
    let node = TestStore::new(64 << 20);
    let (store, other) = (node.connect(), node.connect());
    let mut growing = begin(&store);
    append(&mut growing, 0, &pattern(1, 6 * MIB));
    growing.abort();
    until("it is idle", || store.status().unwrap().warm_bytes >= 6 << 20);
    other.put(&pattern(2, 60 * MIB), &PutOptions::default()).unwrap();
    assert_eq!(other.status().unwrap().warm_bytes, 0);
    assert!(begin(&store).granted() <= 4 * MIB);
}

#[test]
fn memory_that_was_lent_stays_readable_after_the_seal() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut one = begin(&store);
    append(&mut one, 0, &pattern(1, MIB));
    let mut two = begin(&store);
    append(&mut two, 0, &pattern(2, 100));
    let base = one.base();
    GrowingObject::seal_all_lent(&mut [(&mut one, MIB), (&mut two, 100)]).unwrap();
    assert_eq!(one.base(), base);
    assert!(one[..MIB] == pattern(1, MIB));
    assert!(one.is_empty() || std::ops::DerefMut::deref_mut(&mut one).is_empty());
    assert!(store.get(&one.id(), NOW).unwrap().data() == pattern(1, MIB));
    let strict = TestStore::with(64 << 20, &[("level", "strict")]);
    let store = strict.connect();
    let error = begin(&store).seal_lent(10).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported, "{error}");
}

#[test]
fn many_are_sealed_at_once() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut all = Vec::new();
    for n in 0..100u64 {
        let mut growing = begin(&store);
        append(&mut growing, 0, &pattern(n, 1000 + n as usize));
        all.push((growing, 1000 + n as usize));
    }
    let ids = GrowingObject::seal_all(all).unwrap();
    for (n, id) in ids.iter().enumerate() {
        assert!(store.get(id, NOW).unwrap().data() == pattern(n as u64, 1000 + n));
    }
}

#[test]
fn a_daemon_that_dies_takes_the_object_and_not_the_bytes() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let sealed = begin(&store).seal(100).unwrap();
    let mut growing = begin(&store);
    append(&mut growing, 0, &pattern(1, MIB));
    node.kill_daemon(&store.status().unwrap());
    let error = loop {
        let wanted = growing.granted() + MIB;
        match growing.ensure(wanted) {
            // What had been asked for before.
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::Disconnected, "{error}");
    assert!(growing[..MIB] == pattern(1, MIB), "what was written stays readable");
    assert_eq!(growing.seal(MIB).unwrap_err().code(), Code::Disconnected);
    assert_eq!(store.get(&sealed, NOW).unwrap().data().len(), 100, "what was sealed is there");
    until("nothing is left", || {
        let status = store.status().unwrap();
        status.creating == 0 && status.used_bytes == 4096
    });
    begin(&store).seal(10).unwrap();
}

#[test]
fn a_region_is_published_part_by_part_in_place() {
    for level in ["shared", "leased"] {
        let node = TestStore::with(64 << 20, &[("level", level)]);
        let store = node.connect();
        let mut region = store.lease_region(MIB as u64).unwrap();
        let traits = Traits::default();
        let parts = [(0u64, 100usize), (4096, 64), (128, 1000), ((MIB - 64) as u64, 64)];
        for (at, bytes) in parts {
            let part = region.slice_mut(at, bytes as u64).unwrap();
            part.copy_from_slice(&pattern(at, bytes));
        }
        let ids = parts.map(|(at, bytes)| region.publish(at, bytes as u64, traits).unwrap());
        for ((at, bytes), id) in parts.iter().zip(ids) {
            let found = node.connect().get(&id, None).unwrap();
            assert!(found.data() == pattern(*at, *bytes), "{level} {at}");
            assert!(region.slice_mut(*at, 1).is_none(), "it is the store's now");
        }
        for (at, bytes) in [(0u64, 64u64), (100, 64), (MIB as u64, 64), (64, 4096)] {
            let error = region.publish(at, bytes, traits).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest, "{at}");
        }
        drop(region);
        store.flush().unwrap();
        let status = store.status().unwrap();
        assert_eq!((status.leased_bytes, status.objects), (0, 4));
        store.delete(&ids).unwrap();
        until("nothing is left", || store.status().unwrap().used_bytes == 0);
    }
}

#[test]
fn a_region_outlives_its_daemon() {
    let node = TestStore::new(64 << 20);
    let store = node.connect();
    let mut region = store.lease_region(MIB as u64).unwrap();
    region.slice_mut(0, 100).unwrap().fill(1);
    let first = region.publish(0, 100, Traits::default()).unwrap();
    store.flush().unwrap();
    node.kill_daemon(&store.status().unwrap());
    store.flush().unwrap();
    region.slice_mut(128, 100).unwrap().fill(2);
    let second = region.publish(128, 100, Traits::default()).unwrap();
    store.flush().unwrap();
    assert_eq!(store.get(&first, NOW).unwrap().data(), [1; 100]);
    assert_eq!(store.get(&second, NOW).unwrap().data(), [2; 100]);
}
