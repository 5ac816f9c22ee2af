//! Files that other programs read, and files that are refused with what would work.

use crate::Fixture;

/// Unknown endings were stored and written as bytes, and the command said that all was well.
#[test]
fn an_ending_that_is_not_known_is_refused_with_those_that_are() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n").unwrap();
    fixture.good(&["put", "t.csv"]);
    for file in ["t.txt", "t.xlsx", "t.gz", "t.parquet.gz"] {
        let told = fixture.fails(1, &["get", "t", "-o", file]);
        assert!(told.contains(file) && told.contains(".jsonl"), "{told}");
        assert!(!fixture.path(file).exists(), "{file}");
        std::fs::write(fixture.path(file), "x").unwrap();
        let told = fixture.fails(1, &["put", file, "--name", "refused"]);
        assert!(told.contains(file) && told.contains("--format raw"), "{told}");
    }
    fixture.good(&["put", "t.txt", "--format", "raw", "--name", "notes"]);
    fixture.good(&["get", "notes", "-o", "back.md"]);
    assert_eq!(std::fs::read_to_string(fixture.path("back.md")).unwrap(), "x");
    fixture.good(&["get", "t", "-o", "t.list", "--format", "csv"]);
    assert_eq!(std::fs::read_to_string(fixture.path("t.list")).unwrap(), "x,s\n1,a\n");
    assert!(fixture.fails(1, &["get", "notes", "-o", "n.json"]).contains("--format raw"));
}

#[test]
fn csv_that_is_not_separated_by_commas_says_what_it_saw() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("s.csv"), "x;s\n1;a\n").unwrap();
    std::fs::write(fixture.path("empty.csv"), "").unwrap();
    for command in [&["put", "s.csv"][..], &["ingest", "s.csv", "--name", "s"]] {
        let told = fixture.fails(1, command);
        assert!(told.contains("1 semicolon and no comma"), "{told}");
        assert!(told.contains("--delimiter ';'"), "{told}");
    }
    fixture.good(&["put", "s.csv", "--delimiter", ";"]);
    fixture.good(&["ingest", "s.csv", "--delimiter", ";", "--name", "i"]);
    for name in ["s", "i"] {
        assert_eq!(fixture.good(&["get", name, "--format", "csv"]), "x,s\n1,a\n");
    }
    assert!(fixture.fails(1, &["put", "empty.csv"]).contains("it is empty"));
    fixture.fails(2, &["put", "s.csv", "--delimiter", ";;"]);
    assert!(fixture.fails(1, &["put", "x.npy", "--delimiter", ";"]).contains("CSV"));
}

#[test]
fn json_is_read_as_an_array_or_as_lines_whatever_its_ending() {
    let fixture = Fixture::started();
    let lines = "{\"x\":1,\"s\":\"a\"}\n{\"x\":2,\"s\":\"b\"}\n";
    let array = "[\n  {\"x\": 1, \"s\": \"a\"},\n  {\"x\": 2, \"s\": \"b\"}\n]\n";
    for (file, text) in [("1.json", lines), ("2.json", array), ("3.jsonl", array)] {
        std::fs::write(fixture.path(file), text).unwrap();
        fixture.good(&["put", file, "--name", file]);
        assert_eq!(fixture.good(&["get", file, "--format", "jsonl"]), lines, "{file}");
    }
    fixture.good(&["sort", "1.json", "2.json", "--by", "-x", "-o", "out.jsonl.gz"]);
    fixture.good(&["put", "out.jsonl.gz"]);
    assert_eq!(fixture.good(&["get", "out", "--format", "csv"]), "x,s\n2,b\n2,b\n1,a\n1,a\n");
    std::fs::write(fixture.path("mixed.json"), "[{\"x\": 1}, {\"x\": \"a\"}]").unwrap();
    assert!(fixture.fails(1, &["put", "mixed.json"]).contains("\"x\" is a number in one row"));
}

/// A file was made beside `/dev/stdout` and renamed over it.
#[test]
fn a_dash_and_a_device_are_written_to_and_not_replaced() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x\n1\n").unwrap();
    fixture.good(&["put", "t.csv"]);
    assert_eq!(fixture.good(&["get", "t", "-o", "-", "--format", "csv"]), "x\n1\n");
    std::os::unix::fs::symlink("/dev/null", fixture.path("nothing")).unwrap();
    fixture.good(&["get", "t", "-o", "nothing", "--format", "csv"]);
    assert!(std::fs::symlink_metadata(fixture.path("nothing")).unwrap().is_symlink());
}
