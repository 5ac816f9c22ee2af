//! Objects that are listed and deleted by name, by pattern, by age and without a name.

use crate::Fixture;

/// Puts empty objects of these names.
fn filled(fixture: &Fixture, names: &[&str]) {
    std::fs::write(fixture.path("b"), b"0123456789").unwrap();
    for name in names {
        fixture.good(&["put", "b", "--name", name]);
    }
}

fn listed(fixture: &Fixture, arguments: &[&str]) -> Vec<String> {
    let found = fixture.json(&[&["ls", "--sort", "name"], arguments].concat());
    let text = |name: &serde_json::Value| name.as_str().unwrap_or("-").to_owned();
    found.as_array().unwrap().iter().map(|object| text(&object["name"])).collect()
}

/// Objects without a name stayed forever: nothing but their 40 digits could delete them.
#[test]
fn what_is_listed_with_flags_and_patterns_is_deleted_with_the_same() {
    let fixture = Fixture::started();
    filled(&fixture, &["tmp1", "tmp2", "kept", "n:tmp3", "n:other"]);
    assert_eq!(listed(&fixture, &["tmp*"]), ["tmp1", "tmp2"]);
    assert_eq!(listed(&fixture, &["tmp"]), ["tmp1", "tmp2"]);
    assert_eq!(listed(&fixture, &["*tmp?"]), ["tmp1", "tmp2", "tmp3"]);
    assert_eq!(listed(&fixture, &["--prefix", "tmp"]), ["tmp1", "tmp2", "tmp3"]);
    assert_eq!(listed(&fixture, &["--namespace", "n", "--reverse"]), ["tmp3", "other"]);
    assert_eq!(listed(&fixture, &["--older", "1h"]).len(), 0);
    assert_eq!(listed(&fixture, &["--larger", "11"]).len(), 0);
    // Without a terminal only --yes deletes many objects, and the error says how many.
    for command in [&["rm", "tmp*"][..], &["rm", "--all"], &["rm", "--prefix", "tmp"]] {
        let message = fixture.fails(2, command);
        assert!(message.contains(" objects") && message.contains("--yes"), "{message}");
    }
    assert_eq!(listed(&fixture, &[]).len(), 5);
    assert_eq!(fixture.good(&["rm", "tmp*", "--yes"]), "2 objects deleted, 20 B\n");
    assert_eq!(fixture.json(&["rm", "--older", "1h", "--yes"])["deleted"], 0);
    assert_eq!(fixture.json(&["rm", "--prefix", "tmp", "--yes"])["deleted"], 1);
    assert_eq!(listed(&fixture, &[]), ["kept", "other"]);
    let id = fixture.json(&["stat", "kept"])["id"].as_str().unwrap().to_owned();
    fixture.good(&["rm", &id[..10]]);
    fixture.fails(4, &["get", "kept"]);
    assert_eq!(fixture.json(&["rm", "--all", "--yes"])["deleted"], 1);
    assert_eq!(fixture.good(&["rm", "--all", "--yes"]), "nothing to delete\n");
}

#[test]
fn parts_of_a_table_go_with_it_and_are_not_counted() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n").unwrap();
    fixture.good(&["ingest", "t.csv", "--name", "t"]);
    assert!(listed(&fixture, &["--unnamed"]).len() > 1);
    assert_eq!(fixture.json(&["rm", "--unnamed", "--yes"])["deleted"], 0);
    assert_eq!(fixture.json(&["rm", "--all", "--yes"])["deleted"], 1);
    assert_eq!(listed(&fixture, &[]).len(), 0);
}

#[test]
fn a_listing_fits_eighty_columns_and_the_long_one_has_whole_ids() {
    let fixture = Fixture::started();
    filled(&fixture, &["a-name-of-thirty-letters-012345", "n:x"]);
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n").unwrap();
    fixture.good(&["ingest", "t.csv", "--name", "t"]);
    let short = fixture.good(&["ls"]);
    assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
    let id = fixture.json(&["stat", "n:x"])["id"].as_str().unwrap().to_owned();
    assert!(short.contains(&id[..8]) && !short.contains(&id), "{short}");
    assert!(fixture.good(&["ls", "--long"]).contains(&id));
}
