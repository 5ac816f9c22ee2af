//! Versions of a dataset in a real store, as this process and others write them.
//!
//! Earlier connectors alternated between two names, and a writer of theirs that was killed left one
//! under each.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plasmon_client::{Client, Name, ObjectState, PutOptions, tag};
use plasmon_hdf5_model::{Column, Mark, Number, Stream, Table};
use plasmon_hdf5_store::{Dataset, DatasetKey, Error, make, open, remove};
use plasmon_proto::composite::CompositeWriter;
use plasmon_proto::value::{ValueHeader, table_kind};
use plasmon_testkit::TestStore;

/// The values of a version, one byte each.
type Values = [u8; 4];

/// What another process does to the object of a name.
type Case<'a> = (&'a str, &'a dyn Fn(&str));

const NOW: Option<Duration> = Some(Duration::ZERO);

fn store() -> TestStore {
    TestStore::new(16 << 20)
}

fn table() -> Table {
    Table::new(vec![4], vec![Column::of_number("x", Number::U8)]).unwrap()
}

fn of(dataset: &[u8]) -> DatasetKey<'_> {
    DatasetKey { file: Path::new("/x.h5"), data: Mark(7), dataset }
}

fn full(name: &str) -> Name {
    Name::new("hdf5", name).unwrap()
}

/// The name that earlier connectors gave every other version.
fn left(name: &str) -> Name {
    full(&format!("{name}@"))
}

/// Puts a version as another process does.
fn put(client: &Client, name: Name, version: u64, values: Values) {
    let (table, bytes) = (table(), table().body_bytes());
    let mut body = vec![0; usize::try_from(bytes).unwrap()];
    body[..values.len()].copy_from_slice(&values);
    let owned = PutOptions { owned: true, ..PutOptions::default() };
    let body = client.put(&body, &owned).unwrap();
    let stream = Stream::of(&table, &[]);
    let mut writer = CompositeWriter::default();
    writer.push(&stream.head);
    writer.push_member(0, 0, bytes);
    writer.push(&stream.foot);
    let header = ValueHeader { kind: table_kind::TABLE, ..ValueHeader::default() };
    let own = [&b"PLH5"[..], &version.to_le_bytes()].concat();
    let options = PutOptions {
        name: Some(name),
        metadata: header.encode(&own).unwrap(),
        tag: tag::COMPOSITE,
        members: vec![body],
        replace: true,
        ..PutOptions::default()
    };
    client.put(&writer.encode(&[body]), &options).unwrap();
}

fn read(dataset: &Dataset) -> Values {
    let mut values = Values::default();
    dataset.columns().bytes.read_exact_at(&mut values, dataset.columns().offsets[0]).unwrap();
    values
}

fn write(dataset: &Dataset, values: &[u8]) -> Result<(), Error> {
    dataset.columns().bytes.write_all_at(values, dataset.columns().offsets[0]).unwrap();
    dataset.commit(true)
}

/// What a process reads that opens the dataset now.
fn read_anew(store: &TestStore, dataset: Arc<Dataset>) -> Values {
    let name = dataset.name();
    drop(dataset);
    read(&open(&store.socket(), &name, &table()).unwrap())
}

fn is_there(client: &Client, name: &Name) -> bool {
    client.states(&[name.id()]).unwrap() == [ObjectState::Sealed]
}

#[test]
fn a_version_takes_the_place_of_the_one_before() {
    let store = store();
    let client = store.connect();
    let dataset = make(&store.socket(), of(b"g/x"), &table()).unwrap();
    assert!(!is_there(&client, &full(&dataset.name())), "it is not sealed yet");
    write(&dataset, &[1, 2, 3, 4]).unwrap();
    let first = client.get(&full(&dataset.name()).id(), NOW).unwrap();
    for value in 5..9 {
        write(&dataset, &[value]).unwrap();
        assert!(is_there(&client, &full(&dataset.name())));
        assert!(!is_there(&client, &left(&dataset.name())));
    }
    let second = client.get(&full(&dataset.name()).id(), NOW).unwrap();
    assert_ne!(first.serial(), second.serial());
    assert_eq!(first.tag(), tag::COMPOSITE, "what is read stays");
    let name = dataset.name();
    assert_eq!(read_anew(&store, dataset), [8, 2, 3, 4]);
    remove(&store.socket(), &name);
    assert!(!is_there(&client, &full(&name)));
}

/// For moments a version was under the other name alone.
#[test]
fn a_reader_finds_the_dataset_by_its_name_whenever_it_looks() {
    let store = store();
    let dataset = make(&store.socket(), of(b"x"), &table()).unwrap();
    write(&dataset, &[0; 4]).unwrap();
    let (id, is_over) = (full(&dataset.name()).id(), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let client = store.connect();
            while !is_over.load(Ordering::Relaxed) {
                let composite = client.get(&id, NOW).unwrap();
                assert_eq!(composite.tag(), tag::COMPOSITE);
            }
        });
        let written = (0..200_u8).try_for_each(|value| write(&dataset, &[value; 4]));
        is_over.store(true, Ordering::Relaxed);
        written.unwrap();
        reader.join().unwrap();
    });
    assert_eq!(read_anew(&store, dataset), [199; 4]);
}

#[test]
fn what_a_killed_writer_of_before_left_is_read_and_goes_with_the_next_version() {
    let kept = [1, 1, 1, 1];
    let newer = [2, 2, 2, 2];
    let cases = [
        ("before the old one went", Some((1, kept)), (2, newer)),
        ("before the new one had the name", None, (2, newer)),
        ("before the other name was free", Some((3, newer)), (2, kept)),
    ];
    for (killed, under_name, (version, values)) in cases {
        let store = store();
        let client = store.connect();
        if let Some((version, values)) = under_name {
            put(&client, full("f/x"), version, values);
        }
        put(&client, left("f/x"), version, values);
        let dataset = open(&store.socket(), "f/x", &table()).unwrap();
        assert_eq!(read(&dataset), newer, "{killed}");
        assert!(is_there(&client, &left("f/x")), "{killed}: reading changes nothing");
        write(&dataset, &[9]).unwrap();
        assert!(is_there(&client, &full("f/x")), "{killed}");
        assert!(!is_there(&client, &left("f/x")), "{killed}");
        assert_eq!(read_anew(&store, dataset), [9, 2, 2, 2], "{killed}");
    }
}

#[test]
fn a_writer_that_is_killed_before_the_other_name_is_free_leaves_its_version() {
    let store = store();
    let client = store.connect();
    put(&client, left("f/x"), 2, [1; 4]);
    let dataset = open(&store.socket(), "f/x", &table()).unwrap();
    write(&dataset, &[9]).unwrap();
    // As if it had not come to that.
    put(&client, left("f/x"), 2, [1; 4]);
    assert_eq!(read_anew(&store, dataset), [9, 1, 1, 1]);
}

#[test]
fn a_dataset_that_is_deleted_goes_under_both_names() {
    let store = store();
    let client = store.connect();
    for name in [full("f/x"), left("f/x")] {
        put(&client, name, 1, [1; 4]);
    }
    remove(&store.socket(), "f/x");
    assert!(![full("f/x"), left("f/x")].iter().any(|name| is_there(&client, name)));
}

#[test]
fn what_another_process_wrote_is_not_replaced() {
    let store = store();
    let client = store.connect();
    let theirs = |version, name: &str| put(&client, full(name), version, [7; 4]);
    let cases: [Case<'_>; 3] = [
        ("it wrote the next version", &|name| theirs(2, name)),
        ("it deleted the dataset and made another one", &|name| {
            remove(&store.socket(), name);
            theirs(1, name);
        }),
        ("it is of before, and uses the other name", &|name| put(&client, left(name), 2, [7; 4])),
    ];
    for (case, (other, happens)) in cases.into_iter().enumerate() {
        let path = format!("x{case}");
        let dataset = make(&store.socket(), of(path.as_bytes()), &table()).unwrap();
        write(&dataset, &[1, 2, 3, 4]).unwrap();
        happens(&dataset.name());
        let error = write(&dataset, &[9]).unwrap_err();
        assert!(matches!(error, Error::Overtaken(_)), "{other}: {error}");
        assert_eq!(read(&dataset), [1, 2, 3, 4], "{other}: what was open stays");
        assert_eq!(read_anew(&store, dataset), [7; 4], "{other}");
    }
}

#[test]
fn an_object_that_is_not_a_dataset_is_not_replaced() {
    let store = store();
    let client = store.connect();
    let dataset = make(&store.socket(), of(b"x"), &table()).unwrap();
    write(&dataset, &[1, 2, 3, 4]).unwrap();
    let options =
        PutOptions { name: Some(full(&dataset.name())), replace: true, ..PutOptions::default() };
    client.put(b"mine", &options).unwrap();
    let error = write(&dataset, &[9]).unwrap_err();
    assert!(matches!(error, Error::Foreign(..)), "{error}");
    assert_eq!(client.get(&full(&dataset.name()).id(), NOW).unwrap().data(), b"mine");
}

#[test]
fn what_was_deleted_is_written_again() {
    let store = store();
    let client = store.connect();
    let dataset = make(&store.socket(), of(b"x"), &table()).unwrap();
    write(&dataset, &[1, 2, 3, 4]).unwrap();
    client.delete(&[full(&dataset.name()).id()]).unwrap();
    write(&dataset, &[9]).unwrap();
    assert_eq!(read_anew(&store, dataset), [9, 2, 3, 4]);
}
