//! A store with little memory: what is refused, evicted, spilled, limited.

use std::time::Duration;

use plasmon_client::{Code, ObjectState, Policy, PutOptions};
use plasmon_testkit::{TestStore, id, pattern, until};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let node = TestStore::new(16 * MIB);
    let store = node.connect();
    for bytes in [10_000u64, MIB] {
        let mut kept = Vec::new();
        let error = loop {
            let n = kept.len() as u64;
            match store.put(&pattern(n, bytes as usize), &with_id(bytes + n)) {
                Ok(object) => kept.push(object),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Code::StoreFull, "{error}");
        assert!(kept.len() as u64 * bytes > 12 * MIB, "it was full after {} objects", kept.len());
        assert_eq!(
            store.get(&id(bytes + kept.len() as u64), NOW).unwrap_err().code(),
            Code::Absent
        );
        for (n, object) in kept.iter().enumerate() {
            let buffer = store.get(object, NOW).unwrap();
            assert!(buffer.data() == pattern(n as u64, bytes as usize), "object {n} changed");
        }
        assert!(store.delete(&kept).unwrap().iter().all(Option::is_none));
        until("the memory is free", || store.status().unwrap().used_bytes == 0);
    }
}

#[test]
fn a_refused_put_without_a_waiter_is_reported_later() {
    let node = TestStore::new(16 * MIB);
    let (store, other) = (node.connect(), node.connect());
    let data = vec![7; 1000];
    let object = store.new_id();
    store.put(&data, &PutOptions::default()).unwrap();
    let missing = PutOptions { members: vec![object], ..PutOptions::default() };
    let refused = store.put(&data, &missing).unwrap();
    other.status().unwrap();
    until("the refusal is there", || store.get(&refused, NOW).is_err());
    let error = store.get(&refused, NOW).unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::Absent, Some(refused)), "{error}");
    let error = store.flush().unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::Absent, Some(refused)), "{error}");
    store.flush().unwrap();
    store.put(&data, &missing).unwrap();
    until("the next put tells", || store.put(&data, &PutOptions::default()).is_err());
    store.put(&data, &PutOptions::default()).unwrap();
}

#[test]
fn what_is_pinned_is_never_evicted_silently() {
    let node = TestStore::new(16 * MIB);
    let store = node.connect();
    let cache = |number| PutOptions { policy: Policy::Cache, ..with_id(number) };
    for n in 0..12 {
        store.put(&pattern(n, MIB as usize), &cache(n)).unwrap();
    }
    let held: Vec<_> = (0..12).map(|n| store.get(&id(n), NOW).unwrap()).collect();
    let error = store.put(&vec![0; 8 * MIB as usize], &with_id(100)).unwrap_err();
    assert_eq!(error.code(), Code::StoreFull, "{error}");
    for (n, buffer) in held.iter().enumerate() {
        assert!(buffer.data() == pattern(n as u64, MIB as usize));
    }
    drop(held);
    store.put(&vec![0; 8 * MIB as usize], &with_id(100)).unwrap();
    let states = store.states(&(0..12).map(id).collect::<Vec<_>>()).unwrap();
    let evicted = states.iter().filter(|state| **state == ObjectState::Evicted).count();
    assert!((4..12).contains(&evicted), "{states:?}");
    let first = states.iter().position(|state| *state == ObjectState::Evicted).unwrap();
    assert_eq!(store.get(&id(first as u64), NOW).unwrap_err().code(), Code::Evicted);
}

#[test]
fn eviction_on_request_takes_the_least_recently_used() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    for n in 0..10 {
        let options = PutOptions { policy: Policy::Cache, ..with_id(n) };
        store.put(&pattern(n, 100_000), &options).unwrap();
    }
    store.touch(&[id(0), id(1)]).unwrap();
    let (bytes, objects) = store.evict(200_000).unwrap();
    assert_eq!((bytes, objects), (200_000, 2));
    let states = store.states(&[id(0), id(1), id(2), id(3), id(4)]).unwrap();
    let (sealed, evicted) = (ObjectState::Sealed, ObjectState::Evicted);
    assert_eq!(states, [sealed, sealed, evicted, evicted, sealed]);
    assert_eq!(store.evict(u64::MAX).unwrap().1, 8);
}

#[test]
fn objects_spill_to_files_and_come_back() {
    let spill = tempfile::tempdir().unwrap();
    let directory = spill.path().display().to_string();
    let node = TestStore::with(16 * MIB, &[("spill_dir", &directory)]);
    let bytes = 3 * MIB as usize;
    for store in [node.connect(), node.connect_by_socket()] {
        let ids: Vec<_> = (0..12)
            .map(|n| {
                let options = PutOptions { metadata: vec![n as u8; 9], ..PutOptions::default() };
                store.put(&pattern(n, bytes), &options).unwrap()
            })
            .collect();
        assert!(store.status().unwrap().spilled > 0);
        assert!(store.contains(&ids[0]).unwrap());
        for (n, id) in ids.iter().enumerate() {
            for timeout in [NOW, None] {
                let buffer = store.get(id, timeout).unwrap();
                assert!(buffer.data() == pattern(n as u64, bytes), "object {n}");
                assert_eq!(buffer.metadata(), [n as u8; 9]);
            }
        }
        assert!(store.delete(&ids).unwrap().iter().all(Option::is_none));
    }
}

#[test]
fn a_quota_limits_one_client_only() {
    let node = TestStore::new(64 * MIB);
    let (limited, free) = (node.connect(), node.connect());
    limited.set_quota(3 * MIB).unwrap();
    for n in 0..2 {
        limited.put(&pattern(n, MIB as usize), &with_id(n)).unwrap();
    }
    let error = limited.put(&vec![0; 2 * MIB as usize], &with_id(2)).unwrap_err();
    assert_eq!(error.code(), Code::QuotaExceeded, "{error}");
    free.put(&vec![0; 10 * MIB as usize], &with_id(3)).unwrap();
    limited.delete(&[id(0)]).unwrap();
    until("the quota has room", || limited.put(&vec![0; MIB as usize], &with_id(4)).is_ok());
}

#[test]
fn a_store_of_ten_thousand_bytes_is_a_store() {
    let node = TestStore::new(10_000);
    let store = node.connect();
    let object = store.put(&pattern(1, 10_000), &PutOptions::default()).unwrap();
    assert!(store.get(&object, NOW).unwrap().data() == pattern(1, 10_000));
    assert_eq!(store.put(b"more", &with_id(1)).unwrap_err().code(), Code::StoreFull);
    store.delete(&[object]).unwrap();
    for n in 0..20 {
        store.put(b"small", &with_id(n)).unwrap();
    }
}

/// A store of 16 MB with 12 objects of 3 MB: most are spilled.
fn crowded(spill: &std::path::Path) -> (TestStore, Vec<plasmon_client::ObjectId>) {
    let node = TestStore::with(16 * MIB, &[("spill_dir", &spill.display().to_string())]);
    let store = node.connect();
    let put = |n| {
        let options = PutOptions { metadata: vec![n as u8; 9], ..PutOptions::default() };
        store.put(&pattern(n, CROWDED_BYTES), &options).expect("there is a spill tier")
    };
    let ids = (0..12).map(put).collect();
    (node, ids)
}

const CROWDED_BYTES: usize = 3 * MIB as usize;

/// A reader of a small part of a spilled object had to have all of it brought back, which spilled
/// another one: 400 readers of a shuffle's sections moved 182 GB for 1 GB.
#[test]
fn pieces_of_a_spilled_object_are_read_in_its_file() {
    let spill = tempfile::tempdir().unwrap();
    let (node, ids) = crowded(spill.path());
    for store in [node.connect(), node.connect_by_socket()] {
        let before = store.status().unwrap();
        let mut in_files = 0;
        for (n, id) in ids.iter().enumerate() {
            let whole = pattern(n as u64, CROWDED_BYTES);
            let reader = store.open(id).unwrap();
            assert_eq!((reader.id(), reader.bytes()), (*id, CROWDED_BYTES as u64));
            in_files += u64::from(reader.is_in_file());
            for (offset, bytes) in [(0, 100), (1_234_567, 20_000), (CROWDED_BYTES - 1, 1)] {
                let mut piece = vec![0; bytes];
                reader.read_at(offset as u64, &mut piece).unwrap();
                assert!(piece == whole[offset..offset + bytes], "object {n} at {offset}");
            }
            assert!(reader.read_at(CROWDED_BYTES as u64, &mut []).is_ok());
            // The metadata follows the data in the file, and is no part of it.
            for (offset, bytes) in [(CROWDED_BYTES as u64, 1), (u64::MAX, 9), (0, 4 * MIB)] {
                let mut piece = vec![7; bytes as usize];
                let error = reader.read_at(offset, &mut piece).unwrap_err();
                assert_eq!((error.code(), error.id()), (Code::BadRequest, Some(*id)), "{error}");
                assert!(piece.iter().all(|byte| *byte == 7), "nothing was read");
                assert!(store.read_range(id, offset, bytes).is_err());
            }
            assert!(store.read_range(id, 5, u64::MAX).is_err(), "no memory is taken for it");
            assert_eq!(store.read_range(id, 5, 2).unwrap(), whole[5..7]);
        }
        let after = store.status().unwrap();
        assert_eq!((in_files, after.spilled), (before.spilled, before.spilled));
        assert!(in_files > 6, "{after:?}");
        assert_eq!(after.restored_total, before.restored_total);
        let error = store.open(&id(99)).unwrap_err();
        assert_eq!(error.code(), Code::Absent, "{error}");
    }
}

#[test]
fn a_reader_of_a_file_reads_on_whatever_becomes_of_the_object_and_the_daemon() {
    let spill = tempfile::tempdir().unwrap();
    let (node, ids) = crowded(spill.path());
    let store = node.connect();
    let [back, deleted, kept] = [0, 1, 2].map(|n| store.open(&ids[n]).unwrap());
    assert!(back.is_in_file() && deleted.is_in_file() && kept.is_in_file());
    assert!(store.get(&ids[0], None).unwrap().data() == pattern(0, CROWDED_BYTES));
    store.delete(&ids[1..2]).unwrap();
    let status = store.status().unwrap();
    node.kill_daemon(&status);
    for (n, reader) in [(0, back), (1, deleted), (2, kept)] {
        let mut piece = [0; 100];
        reader.read_at(50, &mut piece).unwrap();
        assert!(piece == pattern(n, CROWDED_BYTES)[50..150], "object {n}");
    }
    // The next daemon opens what is spilled, and finds each object once.
    assert_eq!(store.open(&ids[1]).unwrap_err().code(), Code::Absent);
    for (n, id) in ids.iter().enumerate().filter(|(n, _)| *n != 1) {
        let whole = pattern(n as u64, CROWDED_BYTES);
        assert_eq!(store.read_range(id, 50, 100).unwrap(), whole[50..150], "object {n}");
    }
    assert_eq!(store.list(&Default::default()).unwrap().len(), 11);
}

/// A store that was smaller than what its clients read in turns wrote every object again and again.
#[test]
fn an_object_that_is_spilled_again_is_not_written_again() {
    let spill = tempfile::tempdir().unwrap();
    let (node, ids) = crowded(spill.path());
    let store = node.connect();
    for _ in 0..3 {
        for (n, id) in ids.iter().enumerate() {
            assert!(store.get(id, None).unwrap().data() == pattern(n as u64, CROWDED_BYTES));
        }
    }
    let status = store.status().unwrap();
    let all = 12 * (CROWDED_BYTES as u64 + 9);
    assert!(status.spill_written_bytes_total <= all, "{status:?}");
    assert!(status.spill_read_bytes_total >= 2 * all, "{status:?}");
    assert!(status.spill_kept_bytes > 0, "{status:?}");
    // A daemon that is killed leaves each object once, whether or not it had a file as well.
    node.kill_daemon(&status);
    assert_eq!(store.list(&Default::default()).unwrap().len(), 12);
    for (n, id) in ids.iter().enumerate() {
        assert!(store.get(id, None).unwrap().data() == pattern(n as u64, CROWDED_BYTES));
    }
    assert!(store.delete(&ids).unwrap().iter().all(Option::is_none));
    until("every file is gone", || {
        let folders = std::fs::read_dir(spill.path()).unwrap();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        files.flatten().all(|file| file.file_name() == "lock")
    });
}
