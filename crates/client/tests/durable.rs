//! Durable objects, as a client sees them.

use plasmon_client::{Client, Code, Filter, ObjectId, PutOptions};
use plasmon_testkit::{TestStore, id, pattern};

const MIB: u64 = 1 << 20;

fn durable() -> PutOptions {
    PutOptions { durable: true, ..PutOptions::default() }
}

fn store(folder: &tempfile::TempDir) -> TestStore {
    let folder = folder.path().join("log").display().to_string();
    TestStore::with(16 * MIB, &[("durable_dir", &folder), ("durable_segment_bytes", "1m")])
}

fn ids(client: &Client) -> Vec<ObjectId> {
    let mut ids: Vec<_> = client
        .list(&Filter::default())
        .expect("a listing")
        .into_iter()
        .map(|info| info.id)
        .collect();
    ids.sort();
    ids
}

#[test]
fn the_next_store_has_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mut expected) = (pattern(1, 300_000), Vec::new());
    let node = store(&folder);
    {
        let client = node.connect();
        let named = PutOptions { id: Some(id(1)), metadata: vec![7; 9], ..durable() };
        expected.push(client.put(&data, &named).unwrap());
        let many: Vec<_> = (0..200u8).map(|at| vec![at; usize::from(at)]).collect();
        let many: Vec<_> = many.iter().map(|data| (None, &data[..])).collect();
        expected.extend(client.put_many(&many, &durable()).unwrap());
        let mut writer = client.create(5, &durable()).unwrap();
        writer.copy_from_slice(b"built");
        expected.push(writer.seal().unwrap());
        let gone = client.put(b"gone", &durable()).unwrap();
        assert_eq!(client.delete(&[gone, expected[1]]).unwrap(), [None, None]);
        expected.remove(1);
        client.put(b"volatile", &PutOptions::default()).unwrap();
        assert!(client.stat(&id(1)).unwrap().unwrap().durable);
        assert_eq!(client.status().unwrap().log.unwrap().objects, 201);
    }
    node.start_anew();
    let client = node.connect();
    expected.sort();
    assert_eq!(ids(&client), expected);
    let found = client.get_existing(&id(1)).unwrap();
    assert!(found.data() == &data[..] && found.metadata() == [7; 9]);
}

#[test]
fn a_put_of_many_ends_with_its_first_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    client.put(b"there", &PutOptions { id: Some(id(3)), ..durable() }).unwrap();
    let many: Vec<_> = (1..=5).map(|number| (Some(id(number)), &b"x"[..])).collect();
    let refused = client.put_many(&many, &durable()).unwrap_err();
    assert_eq!((refused.code(), refused.id()), (Code::Exists, Some(id(3))));
    assert_eq!(client.status().unwrap().log.unwrap().objects, 3);
    assert_eq!(client.status().unwrap().creating, 0);
}

#[test]
fn a_store_without_a_log_refuses_before_a_byte_is_copied() {
    let node = TestStore::new(16 * MIB);
    let client = node.connect();
    for outcome in [
        client.put(b"x", &durable()).map(drop),
        client.create(1 << 20, &durable()).map(drop),
        client.put_many(&[(None, b"x")], &durable()).map(drop),
    ] {
        assert_eq!(outcome.unwrap_err().code(), Code::Unsupported);
    }
    assert_eq!(client.status().unwrap().sealed_total, 0);
}
