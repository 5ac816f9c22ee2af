//! Objects from put to get: sizes at every edge, ids, names, metadata, composites, time to live.

use std::time::Duration;

use plasmon_client::{Code, Filter, Name, ObjectId, ObjectState, Policy, PutOptions, Writer, tag};
use plasmon_proto::frame::encode_request;
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Request};
use plasmon_shm::Connection;
use plasmon_testkit::{TestStore, id, pattern, until};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

#[test]
fn what_is_put_is_got_at_every_size() {
    let node = TestStore::new(256 * MIB);
    let (writer, reader) = (node.connect(), node.connect());
    let large = 4 * MIB as usize;
    let sizes =
        [0, 1, 63, 64, 65, 4095, 4096, 4097, 100_000, large - 1, large, large + 1, 40 << 20];
    for (seed, bytes) in sizes.into_iter().enumerate() {
        let data = pattern(seed as u64, bytes);
        let id = writer.put(&data, &PutOptions::default()).unwrap();
        for store in [&writer, &reader] {
            let buffer = store.get(&id, NOW).unwrap();
            assert!(buffer.data() == data, "{bytes} bytes");
            assert_eq!((buffer.metadata(), buffer.id()), (&b""[..], id));
            assert_eq!(buffer.data().as_ptr().addr() % 64, 0, "objects are aligned");
            let pinned = store.get_now(&id).expect("it was just got");
            assert!(pinned.data() == data && pinned.serial() == buffer.serial());
        }
    }
}

#[test]
fn an_object_of_exactly_the_capacity_fits_and_no_larger_one() {
    let capacity = 16 * MIB;
    let node = TestStore::new(capacity);
    let store = node.connect();
    for round in 0..3 {
        let data = pattern(round, capacity as usize);
        let id = store.put(&data, &with_id(round)).unwrap();
        assert!(store.get(&id, NOW).unwrap().data() == data);
        assert_eq!(store.delete(&[id]).unwrap(), [None]);
        let larger = vec![0; capacity as usize + 1];
        let error = store.put(&larger, &with_id(100)).unwrap_err();
        assert_eq!(error.code(), Code::TooLarge, "{error}");
        assert_eq!(store.states(&[plasmon_testkit::id(100)]).unwrap(), [ObjectState::Absent]);
    }
    for bytes in [1 << 46, (1 << 46) + 1, 1 << 63, u64::MAX] {
        let error = store.create(bytes, &with_id(7)).unwrap_err();
        assert_eq!(error.code(), Code::TooLarge, "{error}");
        assert_eq!(error.id(), Some(id(7)));
    }
}

#[test]
fn metadata_tag_and_policy_come_back() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    for bytes in [10, 6 << 20] {
        let data = pattern(1, bytes);
        let options = PutOptions {
            metadata: b"what it is".to_vec(),
            tag: tag::NDARRAY,
            policy: Policy::Cache,
            ..PutOptions::default()
        };
        let id = store.put_parts(&[&data[..3], b"", &data[3..]], &options).unwrap();
        let buffer = store.get(&id, NOW).unwrap();
        assert!(buffer.data() == data);
        assert_eq!(buffer.metadata(), b"what it is");
        assert_eq!((buffer.tag(), buffer.policy()), (tag::NDARRAY, Policy::Cache));
        let info = store.stat(&id).unwrap().expect("it is there");
        assert_eq!((info.state, info.sizes.data), (ObjectState::Sealed, bytes as u64));
        assert_eq!((info.sizes.metadata, info.traits.tag), (10, tag::NDARRAY));
    }
}

#[test]
fn an_id_is_given_once() {
    let node = TestStore::new(64 * MIB);
    let (one, other) = (node.connect(), node.connect());
    for bytes in [100, 5 << 20] {
        let number = bytes as u64;
        one.put(&vec![1; bytes], &with_id(number)).unwrap();
        for store in [&one, &other] {
            let error = store.put(&vec![2; bytes], &with_id(number)).unwrap_err();
            assert_eq!((error.code(), error.id()), (Code::Exists, Some(id(number))), "{error}");
            let error = store.create(bytes as u64, &with_id(number)).unwrap_err();
            assert_eq!((error.code(), error.id()), (Code::Exists, Some(id(number))), "{error}");
        }
        assert!(other.get(&id(number), NOW).unwrap().iter().all(|byte| *byte == 1));
    }
    one.flush().unwrap();
    other.flush().unwrap();
}

#[test]
fn the_second_of_two_creators_is_refused_at_once() {
    let node = TestStore::new(64 * MIB);
    let (one, other) = (node.connect(), node.connect());
    for bytes in [100, 5 * MIB] {
        let first = one.create(bytes, &with_id(bytes)).unwrap();
        for store in [&one, &other] {
            assert_eq!(store.create(bytes, &with_id(bytes)).unwrap_err().code(), Code::Exists);
            assert_eq!(store.put(b"x", &with_id(bytes)).unwrap_err().code(), Code::Exists);
        }
        assert_eq!(other.states(&[id(bytes)]).unwrap(), [ObjectState::Creating]);
        first.abort().unwrap();
        one.flush().unwrap();
        assert_eq!(other.states(&[id(bytes)]).unwrap(), [ObjectState::Absent]);
        let second = other.create(bytes, &with_id(bytes)).unwrap();
        second.seal().unwrap();
        assert!(one.contains(&id(bytes)).unwrap());
    }
}

#[test]
fn writing_in_place_and_sealing() {
    let node = TestStore::new(64 * MIB);
    let (writer, reader) = (node.connect(), node.connect());
    for (strict, bytes) in [(false, 1000), (false, 5 << 20), (true, 1000), (true, 5 << 20)] {
        let data = pattern(3, bytes);
        let options = PutOptions { metadata: b"12345".to_vec(), strict, ..PutOptions::default() };
        let mut object: Writer = writer.create(bytes as u64, &options).unwrap();
        assert_eq!(object.len(), bytes);
        object.copy_from_slice(&data);
        object.metadata_mut().copy_from_slice(b"54321");
        assert_eq!(reader.get(&object.id(), NOW).unwrap_err().code(), Code::NotSealed);
        assert!(reader.get_now(&object.id()).is_none());
        let id = object.seal().unwrap();
        let buffer = reader.get(&id, NOW).unwrap();
        assert!(buffer.data() == data);
        assert_eq!(buffer.metadata(), b"54321");
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let node = TestStore::new(16 * MIB);
    let store = node.connect();
    for round in 0..20 {
        for bytes in [1000, 10 * MIB] {
            let mut object = store.create(bytes, &with_id(round)).unwrap();
            object.fill(1);
            drop(object);
        }
    }
    store.flush().unwrap();
    assert_eq!(store.states(&[id(0)]).unwrap(), [ObjectState::Absent]);
    let status = store.status().unwrap();
    assert_eq!((status.objects, status.creating, status.used_bytes), (0, 0, 0));
}

#[test]
fn deleting_hides_at_once_and_readers_keep_what_they_hold() {
    let node = TestStore::new(256 * MIB);
    let store = node.connect();
    for bytes in [100, 5 << 20] {
        let data = pattern(9, bytes);
        let object = store.put(&data, &PutOptions::default()).unwrap();
        let held = store.get(&object, NOW).unwrap();
        assert_eq!(store.delete(&[object, id(404)]).unwrap(), [None, Some(Code::Absent)]);
        assert!(store.get_now(&object).is_none());
        assert_eq!(store.get(&object, NOW).unwrap_err().code(), Code::Deleted);
        assert_eq!(store.delete(&[object]).unwrap(), [Some(Code::Absent)]);
        for round in 0..20 {
            store.put(&pattern(round, bytes), &PutOptions::default()).unwrap();
        }
        assert!(held.data() == data, "its memory was given to another object");
    }
}

#[test]
fn deleting_soon_reports_what_was_refused_later() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let object = store.put(b"x", &PutOptions::default()).unwrap();
    store.delete_soon(&object).unwrap();
    store.flush().unwrap();
    assert!(!store.contains(&object).unwrap());
    store.delete_soon(&id(404)).unwrap();
    let error = store.flush().unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::Absent, Some(id(404))), "{error}");
    store.flush().unwrap();
}

#[test]
fn names_are_ids() {
    let node = TestStore::new(64 * MIB);
    let (one, other) = (node.connect(), node.connect());
    let name = Name::new("market", "prices/2026").unwrap();
    let options = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
    let object = one.put(b"1.5", &options).unwrap();
    assert_eq!(object, name.id());
    assert_eq!(&*other.get_named(&name, NOW).unwrap(), b"1.5");
    assert_eq!(one.put(b"2", &options).unwrap_err().code(), Code::Exists);
    assert_eq!(other.stat(&object).unwrap().unwrap().name, Some(name));
    other.put(b"unnamed", &PutOptions::default()).unwrap();
    other.flush().unwrap();
    let in_namespace = |namespace: &str, prefix: &str| {
        let filter =
            Filter { namespace: Some(namespace.to_owned()), prefix: Some(prefix.to_owned()) };
        one.list(&filter).unwrap().len()
    };
    assert_eq!((in_namespace("market", "prices/"), in_namespace("market", "x")), (1, 0));
    assert_eq!(one.list(&Filter::default()).unwrap().len(), 2);
}

#[test]
fn without_a_pool_a_name_of_one_is_refused_with_what_to_start() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let name = Name::new("", "@prod:sales").unwrap();
    let options = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
    let id = name.id();
    let refused = [
        store.put(b"x", &options).unwrap_err(),
        store.create(1, &options).unwrap_err(),
        store.get(&id, NOW).unwrap_err(),
        store.get(&id, Some(Duration::from_secs(60))).unwrap_err(),
        store.states(&[id]).unwrap_err(),
        store.delete(&[id]).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.code(), Code::Unsupported, "{error}");
        assert!(error.to_string().contains("choose another name"), "{error}");
    }
    // The client goes on as if it had not asked.
    let local = store.put(b"y", &PutOptions::default()).unwrap();
    assert_eq!(store.get(&local, NOW).unwrap().data(), b"y");
}

#[test]
fn an_object_is_replaced_in_one_step_and_readers_of_the_old_one_keep_it() {
    for level in ["shared", "leased", "strict"] {
        let node = TestStore::with(64 * MIB, &[("level", level)]);
        let by_socket = node.connect_by_socket();
        let (store, reader) = (node.connect(), node.connect());
        let name = Name::new("", "prices").unwrap();
        let options =
            PutOptions { name: Some(name.clone()), replace: true, ..PutOptions::default() };
        for (number, (store, bytes)) in (1..).zip([
            (&store, 100),
            (&store, 5 << 20),
            (&by_socket, 100),
            (&by_socket, 5 << 20),
            (&store, 0),
        ]) {
            let before = reader.get_named(&name, NOW).ok();
            let kept = before.as_ref().map(|buffer| buffer.data().to_vec());
            let data = pattern(number, bytes);
            assert_eq!(store.put(&data, &options).unwrap(), name.id());
            assert!(reader.get_named(&name, NOW).unwrap().data() == data);
            assert!(before.as_ref().map(|buffer| buffer.data().to_vec()) == kept);
            // In place, and given up first.
            let mut writer = store.create(bytes as u64, &options).unwrap();
            assert_eq!(writer.id(), name.id());
            writer.fill(7);
            assert!(reader.get_named(&name, NOW).unwrap().data() == data);
            writer.abort().unwrap();
            assert!(reader.get_named(&name, NOW).unwrap().data() == data);
            let mut writer = store.create(bytes as u64, &options).unwrap();
            writer.fill(8);
            assert_eq!(writer.seal().unwrap(), name.id());
            assert!(reader.get_named(&name, NOW).unwrap().data() == vec![8; bytes]);
        }
        assert_eq!(store.stat(&name.id()).unwrap().unwrap().name, Some(name.clone()));
        assert_eq!(store.list(&Filter::default()).unwrap().len(), 1);
    }
}

#[test]
fn an_object_is_replaced_only_by_its_name_and_never_within_a_composite() {
    let node = TestStore::new(16 * MIB);
    let store = node.connect();
    let nameless = PutOptions { replace: true, ..PutOptions::default() };
    assert_eq!(store.put(b"new", &nameless).unwrap_err().code(), Code::BadRequest);
    assert_eq!(store.create(3, &nameless).unwrap_err().code(), Code::BadRequest);
    store.put(b"old", &with_id(1)).unwrap();
    let whole = PutOptions { members: vec![id(1)], ..with_id(2) };
    store.put(b"", &whole).unwrap();
    let error = store.put(b"new", &PutOptions { id: Some(id(1)), ..nameless }).unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::InUse, Some(id(1))));
    assert_eq!(store.get(&id(1), NOW).unwrap().data(), b"old");
    assert_eq!(store.status().unwrap().creating, 0);
}

#[test]
fn a_composite_holds_its_members() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let owned = PutOptions { owned: true, ..PutOptions::default() };
    let member = store.put(b"owned", &owned).unwrap();
    let free = store.put(b"free", &PutOptions::default()).unwrap();
    let options = PutOptions { members: vec![member, free], ..with_id(1) };
    let whole = store.put(b"the whole", &options).unwrap();
    assert_eq!(store.delete(&[member, free]).unwrap(), [Some(Code::InUse); 2]);
    assert_eq!(store.delete(&[whole]).unwrap(), [None]);
    assert!(store.get_now(&free).is_some(), "what is not owned stays");
    assert_eq!(store.get(&member, NOW).unwrap_err().code(), Code::Deleted);
    let missing = PutOptions { members: vec![id(404)], ..with_id(2) };
    assert_eq!(store.put(b"x", &missing).unwrap_err().code(), Code::Absent);
}

#[test]
fn an_object_ends_with_its_time_to_live() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let options = PutOptions { ttl: Some(Duration::from_millis(30)), ..with_id(5) };
    store.put(b"short", &options).unwrap();
    let states = store.wait_beyond_end(&[id(6)], 1, Some(Duration::from_millis(60))).unwrap();
    assert_eq!(states, [ObjectState::Absent]);
    until("it has expired", || store.states(&[id(5)]).unwrap() == [ObjectState::Deleted]);
    assert!(store.get_now(&id(5)).is_none());
}

#[test]
fn digests_cover_data_and_metadata() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let put = |data: &[u8], metadata: &[u8]| {
        let options = PutOptions { metadata: metadata.to_vec(), ..PutOptions::default() };
        store.put(data, &options).unwrap()
    };
    let digest = |object| store.digest(&object).unwrap();
    let (a, b) = (put(b"ab", b"c"), put(b"ab", b"c"));
    assert_eq!(digest(a), digest(b));
    assert_eq!(digest(a), digest(a));
    assert_ne!(digest(a), digest(put(b"a", b"bc")));
    assert_ne!(digest(a), digest(put(b"ab", b"d")));
    assert_eq!(store.digest(&id(404)).unwrap_err().code(), Code::Absent);
}

#[test]
fn many_puts_share_one_acknowledgement() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let data: Vec<Vec<u8>> = (0..10_000).map(|seed| pattern(seed, 50)).collect();
    let objects: Vec<_> = data.iter().map(|data| (None, &data[..])).collect();
    let ids = store.put_many(&objects, &PutOptions::default()).unwrap();
    for (id, data) in ids.iter().zip(&data) {
        assert_eq!(store.get(id, NOW).unwrap().data(), data);
    }
    let chosen: Vec<_> = (0..100).map(|n| (Some(id(n)), &data[n as usize][..])).collect();
    store.put_many(&chosen, &PutOptions::default()).unwrap();
    let again = [(Some(id(500)), &b"new"[..]), (Some(id(7)), b"old"), (Some(id(501)), b"new")];
    let error = store.put_many(&again, &PutOptions::default()).unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::Exists, Some(id(7))));
    assert!(store.contains(&id(500)).unwrap());
}

#[test]
fn a_hundred_thousand_objects() {
    const COUNT: u64 = 100_000;
    let node = TestStore::new(256 * MIB);
    let (writer, reader) = (node.connect(), node.connect());
    let ids: Vec<_> =
        (0..COUNT).map(|n| writer.put(&n.to_le_bytes(), &PutOptions::default()).unwrap()).collect();
    writer.flush().unwrap();
    for (n, id) in ids.iter().enumerate() {
        let pinned = reader.get_now(id).unwrap_or_else(|| panic!("object {n} is missing"));
        assert_eq!(pinned.data(), (n as u64).to_le_bytes());
    }
    assert_eq!(reader.status().unwrap().objects, COUNT);
    let listed = reader.list(&Filter::default()).unwrap();
    assert_eq!(listed.len() as u64, COUNT);
    let all = reader.get_many(&ids, NOW).unwrap();
    assert!(all.iter().all(Result::is_ok));
    drop(all);
    assert!(writer.delete(&ids).unwrap().iter().all(Option::is_none));
    until("the memory is free", || {
        let status = reader.status().unwrap();
        status.objects == 0 && status.lingering == 0 && status.used_bytes == 0
    });
}

#[test]
fn a_trusted_object_is_readable_at_once_and_a_refusal_is_reported_later() {
    let node = TestStore::new(64 * MIB);
    let (one, two) = (node.connect(), node.connect());
    let trusted = |number| PutOptions { trusted: true, ..with_id(number) };
    for number in 0..200 {
        let bytes = 1 + 997 * number as usize;
        let mut object = one.create(bytes as u64, &trusted(number)).unwrap();
        object.copy_from_slice(&pattern(number, bytes));
        object.seal().unwrap();
        assert_eq!(two.states(&[id(number)]).unwrap(), [ObjectState::Sealed]);
        assert!(two.get(&id(number), NOW).unwrap().data() == pattern(number, bytes));
    }
    let mut again = two.create(10, &trusted(7)).unwrap();
    again.fill(0);
    again.seal().unwrap();
    let error = two.flush().unwrap_err();
    assert_eq!(error.code(), Code::Exists, "{error}");
    assert!(one.get(&id(7), NOW).unwrap().data() == pattern(7, 1 + 997 * 7));
}

/// The numbers that say where ids belong in the index, as each client can read them.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn key_of_index(node: &TestStore) -> [u64; 4] {
    let connection = Connection::connect(&node.socket()).unwrap();
    let name = "curious".to_owned();
    let hello = Hello { version: PROTOCOL_VERSION, name, channel: false, resume: None };
    connection.send(&encode_request(0, &Request::Hello(hello)).unwrap(), &[]).unwrap();
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, true).unwrap();
    let mut header = [0; 64];
    assert_eq!(rustix::io::pread(&received.fds[1], &mut header, 0).unwrap(), 64);
    [2, 3, 4, 5].map(|word| u64::from_le_bytes(std::array::from_fn(|byte| header[word * 8 + byte])))
}

/// Ids could be chosen that all belong in one slot of the index; each of them, and each other id
/// that belonged there, cost a walk past all the others. Now a probe has a bound, objects beyond it
/// are found by asking, and enough of them make the daemon choose another key.
#[test]
fn objects_whose_ids_crowd_in_the_index_are_found_by_asking() {
    let node = TestStore::new(64 * MIB);
    let (writer, reader) = (node.connect(), node.connect());
    let first = key_of_index(&node)[0].to_le_bytes();
    let crowding = |number: u64| {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&first);
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        ObjectId::new(bytes)
    };
    let put = |number: u64| {
        let options = PutOptions { id: Some(crowding(number)), ..PutOptions::default() };
        writer.put(&number.to_le_bytes(), &options).unwrap();
    };
    let found = |number: u64| {
        let id = crowding(number);
        let alone = reader.get(&id, NOW).unwrap();
        let together = reader.get_many(&[id], NOW).unwrap().remove(0).unwrap();
        assert!(alone.data() == number.to_le_bytes() && together.data() == alone.data());
        reader.get_now(&id).is_some()
    };
    // Not enough for another key: 512 lie where a probe finds them.
    (0..560).for_each(put);
    assert_eq!((0..560).filter(|number| found(*number)).count(), 512);
    node.kill_daemon(&reader.status().unwrap());
    assert_eq!((0..560).filter(|number| found(*number)).count(), 512, "the next daemon");
    (560..2000).for_each(put);
    assert_eq!((0..2000).filter(|number| found(*number)).count(), 2000, "another key");
    assert_ne!(key_of_index(&node)[0].to_le_bytes(), first);
}

/// The memory of an object that was given up stayed mapped, and open to new writers. What the
/// client put there next made the daemon expel it, and was lost although the put had succeeded.
#[test]
fn what_is_put_after_an_object_was_given_up_is_there() {
    let node = TestStore::with(256 * MIB, &[("level", "leased")]);
    let reader = node.connect();
    for bytes in [100_000, 1 << 20, 5 << 20, 12 << 20, 20 << 20] {
        let writer = node.connect();
        let mut given_up = writer.create(bytes, &PutOptions::default()).unwrap();
        given_up.copy_at(0, b"given up").unwrap();
        given_up.abort().unwrap();
        let id = writer.put(b"put", &PutOptions::default()).unwrap();
        writer.flush().unwrap();
        assert_eq!(reader.get(&id, NOW).unwrap().data(), b"put", "after {bytes} bytes");
    }
    assert_eq!(reader.status().unwrap().expelled_total, 0);
}

/// At level leased the client protects its memory before anything in it is published. The daemon
/// did it, and waited for whatever was being written there.
#[test]
fn every_way_to_put_works_at_every_level() {
    for level in ["shared", "leased", "strict"] {
        let node = TestStore::with(256 * MIB, &[("level", level)]);
        let (writer, reader) = (node.connect(), node.connect());
        let by_socket = node.connect_by_socket();
        let large = 20 * MIB as usize;
        let mut put = Vec::new();
        for (seed, bytes) in [(1, 100), (2, 100_000), (3, large), (4, 5 * MIB as usize)] {
            let data = pattern(seed, bytes);
            for (store, strict) in [(&writer, false), (&writer, true), (&by_socket, false)] {
                let options = PutOptions { strict, ..PutOptions::default() };
                put.push((store.put(&data, &options).unwrap(), data.clone()));
                let mut filled = store.create(bytes as u64, &options).unwrap();
                filled.copy_from_slice(&data);
                put.push((filled.seal().unwrap(), data.clone()));
            }
        }
        for (id, data) in &put {
            assert!(reader.get(id, NOW).unwrap().data() == *data, "{level}: {} bytes", data.len());
        }
        assert_eq!(reader.status().unwrap().expelled_total, 0, "{level}");
        if level != "strict" {
            let mut region = writer.lease_region(1 << 20).unwrap();
            region.slice_mut(0, 64).unwrap().fill(7);
            let id = region.publish(0, 64, plasmon_proto::object::Traits::default()).unwrap();
            region.slice_mut(64, 64).unwrap().fill(8);
            writer.flush().unwrap();
            assert!(reader.get(&id, NOW).unwrap().data() == [7; 64], "{level}");
        }
    }
}

/// What an idle client was not told of the end of other clients' memory counted as the fate of its
/// own puts: the next one failed.
#[test]
fn a_client_that_misses_the_end_of_much_memory_has_nothing_in_doubt() {
    let node = TestStore::with(64 * MIB, &[]);
    let (idle, busy) = (node.connect(), node.connect());
    let before = idle.put(b"before", &PutOptions::default()).unwrap();
    for _ in 0..=plasmon_proto::limits::COMPLETIONS {
        let id = busy.create(20 * MIB, &PutOptions::default()).unwrap().seal().unwrap();
        busy.delete(&[id]).unwrap();
    }
    let after = idle.put(b"after", &PutOptions::default()).unwrap();
    idle.flush().unwrap();
    assert!(busy.get(&before, NOW).unwrap().data() == b"before");
    assert!(busy.get(&after, NOW).unwrap().data() == b"after");
}
