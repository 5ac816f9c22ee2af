//! How much memory a sort takes for what, and which way it goes.

use plasmon_client::{Client, ConnectOptions, PutOptions};

use crate::{Fixture, many_rows};

/// The whole buffer of a table in the store was counted for each of its columns, so one of many
/// columns went through a scratch file although it was small. Here that file has no folder.
#[test]
fn an_object_of_many_columns_counts_once() {
    let fixture = Fixture::started();
    let row = |at: u32| (0..8).map(move |column| (at * 7 + column).to_string());
    let line = |at: u32| row(at).collect::<Vec<_>>().join(",");
    let header = (0..8).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",");
    let lines: Vec<String> = std::iter::once(header).chain((0..40_000).rev().map(line)).collect();
    std::fs::write(fixture.path("wide.csv"), lines.join("\n") + "\n").unwrap();
    fixture.good(&["put", "wide.csv", "--name", "wide"]);
    let bytes = fixture.json(&["stat", "wide"])["data_bytes"].as_u64().unwrap();
    let sort = ["sort", "wide", "--by", "c0", "--spill-dir", "nowhere", "--memory"];
    let fits = (bytes / 4 * 5 + 8).to_string();
    fixture.good(&[&sort[..], &[&fits, "--name", "sorted"]].concat());
    let little = (bytes / 4 * 5 - 8).to_string();
    let refused = fixture.fails(1, &[&sort[..], &[&little, "--name", "again"]].concat());
    assert!(refused.contains("nowhere"), "{refused}");
}

/// A sort into a store that is full of what others read ended with an error, also where the store
/// could have spilled partition after partition. With the memory of the machine one partition would
/// have been as large as the table.
#[test]
fn a_store_that_is_full_of_others_objects_gets_the_rows_part_by_part() {
    for spills in [true, false] {
        let spilled = tempfile::tempdir().unwrap();
        let folder = ["--spill-dir", spilled.path().to_str().unwrap()];
        let fixture = Fixture::started_with("4m", if spills { &folder } else { &[] });
        let socket = Some(fixture.path("s.sock"));
        let options = ConnectOptions { socket, ..ConnectOptions::default() };
        let store = Client::connect(&options).unwrap();
        let held = store.put(&vec![7; 3 << 20], &PutOptions::default()).unwrap();
        let held = store.get_existing(&held).unwrap();
        many_rows(&fixture, 100_000);
        let sort = ["sort", "many.csv", "--by", "key", "--name", "many", "--spill-dir", "."];
        if spills {
            let message = fixture.json(&sort);
            assert_eq!(message["rows"], 100_000);
            assert!(message["names"].as_array().unwrap().len() > 1, "{message}");
        } else {
            let refused = fixture.fails(5, &sort);
            assert!(refused.contains("full"), "{refused}");
            assert_eq!(fixture.json(&["ls"]).as_array().unwrap().len(), 1);
        }
        assert_eq!(held.data()[0], 7);
    }
}

/// All partitions of a sort in memory are there, or none: one that is in the way ends it.
#[test]
fn a_sort_in_memory_that_finds_a_name_taken_leaves_nothing() {
    let fixture = Fixture::started();
    many_rows(&fixture, 2000);
    fixture.good(&["put", "many.csv", "--name", "many/0002"]);
    let sort = ["sort", "many.csv", "--by", "key", "--name", "many", "--partitions", "4"];
    fixture.fails(1, &sort);
    let left = fixture.json(&["ls"]);
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["name"], "many/0002");
    fixture.good(&["rm", "many/0002", "--yes"]);
    assert_eq!(fixture.json(&sort)["names"].as_array().unwrap().len(), 4);
}
