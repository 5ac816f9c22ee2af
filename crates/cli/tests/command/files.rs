//! Files that other programs read, and files that are refused with what would work.

use std::process::{Command, Stdio};

use crate::Fixture;

/// Unknown endings were stored and written as bytes, and the command said that all was well.
#[test]
fn an_unknown_extension_is_refused_with_the_known_ones() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n").unwrap();
    fixture.good(&["put", "t.csv"]);
    for file in ["t.txt", "t.xlsx", "t.gz", "t.parquet.gz"] {
        let message = fixture.fails(1, &["get", "t", "-o", file]);
        assert!(message.contains(file) && message.contains(".jsonl"), "{message}");
        assert!(!fixture.path(file).exists(), "{file}");
        std::fs::write(fixture.path(file), "x").unwrap();
        let message = fixture.fails(1, &["put", file, "--name", "refused"]);
        assert!(message.contains(file) && message.contains("--format raw"), "{message}");
    }
    fixture.good(&["put", "t.txt", "--format", "raw", "--name", "notes"]);
    fixture.good(&["get", "notes", "-o", "back.md"]);
    assert_eq!(std::fs::read_to_string(fixture.path("back.md")).unwrap(), "x");
    fixture.good(&["get", "t", "-o", "t.list", "--format", "csv"]);
    assert_eq!(std::fs::read_to_string(fixture.path("t.list")).unwrap(), "x,s\n1,a\n");
    assert!(fixture.fails(1, &["get", "notes", "-o", "n.json"]).contains("--format raw"));
}

#[test]
fn csv_with_another_delimiter_is_refused_with_a_hint() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("s.csv"), "x;s\n1;a\n").unwrap();
    std::fs::write(fixture.path("empty.csv"), "").unwrap();
    for command in [&["put", "s.csv"][..], &["ingest", "s.csv", "--name", "s"]] {
        let message = fixture.fails(1, command);
        assert!(message.contains("1 semicolon and no comma"), "{message}");
        assert!(message.contains("--delimiter ';'"), "{message}");
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

/// A column that was empty in the first 10,000 lines got type null, later values were dropped, and
/// the command said that all was well.
#[test]
fn a_value_that_comes_late_in_a_file_is_there() {
    let fixture = Fixture::started();
    let mut text = "n,late\n".to_owned();
    (0..20_000).for_each(|row| text.push_str(&format!("{row},\n")));
    text.push_str("20000,2.5\n");
    std::fs::write(fixture.path("late.csv"), &text).unwrap();
    fixture.good(&["put", "late.csv"]);
    fixture.good(&["ingest", "late.csv", "--name", "ingested"]);
    fixture.good(&["sort", "late.csv", "--by", "n", "--name", "sorted"]);
    for name in ["late", "ingested", "sorted"] {
        let back = fixture.good(&["get", name, "--format", "csv"]);
        assert!(back.ends_with("\n20000,2.5\n"), "{name}");
        let schema = fixture.json(&["stat", name])["schema"].to_string();
        assert!(schema.contains("Float64") && !schema.contains("Null"), "{schema}");
    }
}

#[test]
fn files_of_one_table_decide_its_types_together() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("1.csv"), "x,s\n1,\n").unwrap();
    std::fs::write(fixture.path("2.csv"), "x,s\n1.5,a\n").unwrap();
    fixture.good(&["ingest", "1.csv", "2.csv", "--name", "all"]);
    assert_eq!(fixture.good(&["get", "all", "--format", "csv"]), "x,s\n1.0,\n1.5,a\n");
    fixture.good(&["sort", "2.csv", "1.csv", "--by", "x", "-o", "out.jsonl"]);
    let sorted = std::fs::read_to_string(fixture.path("out.jsonl")).unwrap();
    assert_eq!(sorted, "{\"x\":1.0,\"s\":null}\n{\"x\":1.5,\"s\":\"a\"}\n");
}

/// A pipe cannot be read twice: "Illegal seek".
#[test]
fn a_pipe_is_read_like_a_file() {
    let fixture = Fixture::started();
    let mut put = fixture.command(&["put", "/dev/stdin", "--format", "csv", "--name", "piped"]);
    let put = put.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut put = put.spawn().unwrap();
    std::io::Write::write_all(put.stdin.as_mut().unwrap(), b"x\n\n1\n").unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(fixture.good(&["get", "piped", "--format", "csv"]), "x\n1\n");
}

/// Each column took 16 MB, however short the file: 3,000 columns of one row took 22 GB.
#[test]
fn memory_is_bounded_by_the_data_and_not_by_the_columns() {
    let fixture = Fixture::started_with("256m", &[]);
    let line = |cell: &dyn Fn(usize) -> String| (0..3000).map(cell).collect::<Vec<_>>().join(",");
    let csv = format!("{}\n{}\n", line(&|at| format!("c{at}")), line(&|at| at.to_string()));
    std::fs::write(fixture.path("wide.csv"), csv).unwrap();
    let json = format!("{{{}}}\n", line(&|at| format!("\"c{at}\": {at}")));
    std::fs::write(fixture.path("wide.jsonl"), json).unwrap();
    for file in ["wide.csv", "wide.jsonl"] {
        let mut put = Command::new("sh");
        // Kilobytes of memory that is written and not shared.
        put.args(["-c", "ulimit -d 100000; exec \"$@\"", "sh"]);
        put.args([env!("CARGO_BIN_EXE_plasmon"), "put", file, "--name", file]);
        put.current_dir(fixture.directory.path()).env("PLASMON_SOCKET", fixture.path("s.sock"));
        let out = put.output().unwrap();
        assert!(out.status.success(), "{file}: {}", crate::text(&out.stderr));
        assert_eq!(fixture.json(&["stat", file])["columns"], 3000);
    }
}
