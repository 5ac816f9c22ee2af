//! The `plasmon` command against a real daemon, as a person or a script would use it.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod errors;
mod files;
mod looking;
mod pool;
mod removing;
mod sorting;
mod spark;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use plasmon_testkit::{plasmond, until};
use serde_json::Value;
use tempfile::TempDir;

/// A store of its own, stopped at the end of the test.
struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn started() -> Self {
        Self::started_with("64m", &[])
    }

    fn started_with(capacity: &str, settings: &[&str]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        let out = fixture.run(&[&["start", "--capacity", capacity], settings].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        fixture
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plasmon"));
        command.args(arguments).current_dir(self.directory.path());
        command.env("PLASMON_SOCKET", self.path("s.sock")).env("PLASMON_DAEMON", plasmond());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn good(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        text(&out.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn fails(&self, exit_code: i32, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert_eq!(out.status.code(), Some(exit_code), "{arguments:?}: {}", text(&out.stderr));
        text(&out.stderr)
    }

    fn wait_for_subscriber(&self) {
        until("a client has subscribed", || {
            let clients = &self.json(&["top", "--count", "1"])["clients"];
            clients.as_array().unwrap().iter().any(|client| client["subscribed"] == true)
        });
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.run(&["stop"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_table_goes_in_and_comes_out() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n2,b\n").unwrap();
    let put = fixture.json(&["put", "t.csv", "--name", "t", "--namespace", "n"]);
    assert_eq!(put["name"], "t");
    let listed = fixture.json(&["ls"]);
    assert_eq!((&listed[0]["kind"], &listed[0]["namespace"]), (&"table".into(), &"n".into()));
    assert_eq!(listed[0]["id"], put["id"]);
    assert_eq!(fixture.good(&["get", "n:t", "--format", "csv"]), "x,s\n1,a\n2,b\n");
    for file in ["t.parquet", "t.arrow", "t.json", "t.jsonl", "t.csv.gz", "t.tsv.zst"] {
        fixture.good(&["get", "n:t", "-o", file]);
        fixture.good(&["put", file, "--name", file]);
        assert_eq!(fixture.good(&["get", file, "--format", "csv"]), "x,s\n1,a\n2,b\n");
    }
    let stat = fixture.json(&["stat", "n:t"]);
    assert_eq!((&stat["state"], &stat["pins"]), (&"sealed".into(), &0.into()));
    assert!(fixture.good(&["ls", "t."]).lines().count() == 7, "a head and six objects");
    fixture.good(&["rm", "n:t"]);
    fixture.fails(4, &["get", "n:t"]);
    fixture.fails(4, &["stat", "never-there"]);
}

#[test]
fn files_become_one_table_built_in_the_store() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("1.csv"), "x,s\n1,a\n2,b\n").unwrap();
    std::fs::write(fixture.path("2.csv"), "x,s\n3,c\n").unwrap();
    let made = fixture.json(&["ingest", "1.csv", "2.csv", "--name", "all", "--namespace", "n"]);
    assert_eq!((&made["name"], &made["rows"]), (&"all".into(), &3.into()));
    assert_eq!(fixture.good(&["get", "n:all", "--format", "csv"]), "x,s\n1,a\n2,b\n3,c\n");
    for file in ["all.parquet", "all.arrow"] {
        fixture.good(&["get", "n:all", "-o", file]);
        fixture.good(&["ingest", file, "--name", file]);
        assert_eq!(fixture.good(&["get", file, "--format", "csv"]), "x,s\n1,a\n2,b\n3,c\n");
    }
    let taken = fixture.fails(1, &["ingest", "1.csv", "--name", "all.arrow"]);
    assert!(taken.contains("exists already"), "{taken}");
    fixture.good(&["ingest", "1.csv", "--name", "all.arrow", "--replace"]);
    assert_eq!(fixture.good(&["get", "all.arrow", "--format", "csv"]), "x,s\n1,a\n2,b\n");
    std::fs::write(fixture.path("other.csv"), "y\n3\n").unwrap();
    let other = fixture.fails(1, &["ingest", "1.csv", "other.csv", "--name", "x"]);
    assert!(other.contains("other.csv has different columns"), "{other}");
    let raw = fixture.fails(1, &["ingest", "1.bin", "--name", "x"]);
    assert!(raw.contains("1.bin"), "{raw}");
    fixture.good(&["rm", "n:all", "all.parquet", "all.arrow"]);
    assert_eq!(fixture.json(&["ls"]).as_array().unwrap().len(), 0, "members go with their table");
}

#[test]
fn files_that_cannot_fit_are_reported_before() {
    let fixture = Fixture::started();
    let capacity = fixture.json(&["status"])["capacity_bytes"].as_u64().unwrap();
    let file = std::fs::File::create(fixture.path("large.csv")).unwrap();
    std::io::Write::write_all(&mut &file, b"x\n1\n").unwrap();
    file.set_len(4 * capacity + 4).unwrap();
    let message = fixture.fails(5, &["ingest", "large.csv", "--name", "x"]);
    assert!(message.contains("at least") && message.contains("more capacity"), "{message}");
}

/// A file of `rows` short lines, each of which is much longer in memory.
fn growing_file(path: &Path, rows: u32) {
    let lines = "1,2,3,4\n".repeat(rows as usize);
    std::fs::write(path, format!("a,b,c,d\n{lines}")).unwrap();
}

#[test]
fn files_that_turn_out_too_large_are_reported_with_a_way_out_and_leave_nothing() {
    let fixture = Fixture::started_with("16m", &[]);
    growing_file(&fixture.path("t.csv"), 600_000);
    let message = fixture.fails(5, &["ingest", "t.csv", "--name", "x"]);
    assert!(
        message.contains("ingesting t.csv") && message.contains("the store is full after"),
        "{message}"
    );
    assert!(message.contains("--spill-dir"), "{message}");
    let status = fixture.json(&["status"]);
    assert_eq!((&status["used_bytes"], &status["creating"]), (&0.into(), &0.into()));
}

/// Tables that are built go to the spill tier as a whole and come back, as those that were put.
#[test]
fn built_tables_make_room_for_each_other() {
    let spill = tempfile::tempdir().unwrap();
    let directory = spill.path().to_str().unwrap();
    let fixture = Fixture::started_with("16m", &["--spill-dir", directory]);
    growing_file(&fixture.path("t.csv"), 200_000);
    for name in ["one", "two", "three"] {
        fixture.good(&["ingest", "t.csv", "--name", name]);
    }
    let status = fixture.json(&["status"]);
    assert!(status["spilled"].as_u64().unwrap() > 0, "{status}");
    for name in ["one", "two", "three"] {
        fixture.good(&["get", name, "-o", "back.csv", "--timeout", "60"]);
        let (made, back) = (fixture.path("t.csv"), fixture.path("back.csv"));
        assert!(std::fs::read(made).unwrap() == std::fs::read(back).unwrap(), "{name}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_exit_code() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("b"), vec![1; 1000]).unwrap();
    fixture.good(&["put", "b"]);
    assert!(fixture.fails(1, &["put", "b"]).contains("--replace"));
    fixture.good(&["put", "b", "--replace"]);
    assert!(fixture.fails(1, &["put", "missing.csv"]).contains("missing.csv"));
    assert!(fixture.fails(1, &["get", "b", "--format", "parquet"]).contains("raw"));
    fixture.fails(2, &["put"]);
    fixture.fails(2, &["frobnicate"]);
    std::fs::File::create(fixture.path("big")).unwrap().set_len(65 << 20).unwrap();
    fixture.fails(5, &["put", "big"]);
    let error: Value = serde_json::from_str(&fixture.fails(4, &["--json", "get", "gone"])).unwrap();
    assert!(error["code"].is_string());
    let out = fixture.command(&["status"]).env("PLASMON_SOCKET", fixture.path("none")).output();
    assert_eq!(out.unwrap().status.code(), Some(3));
    fixture.fails(1, &["start"]);
}

#[test]
fn the_store_is_described_and_watched() {
    let fixture = Fixture::started();
    let mut watch = fixture.command(&["watch", "--count", "2", "--json"]);
    let watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    fixture.wait_for_subscriber();
    std::fs::write(fixture.path("w"), b"watched").unwrap();
    fixture.good(&["put", "w"]);
    fixture.good(&["rm", "w"]);
    let seen = text(&watch.wait_with_output().unwrap().stdout);
    let states: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&"sealed".into(), &"deleted".into()));
    let status = fixture.json(&["status"]);
    assert_eq!(status["capacity_bytes"], 64 << 20);
    assert!(fixture.good(&["status"]).contains("64.0 MiB"));
    assert!(fixture.json(&["doctor"])["checks"].as_array().unwrap().len() > 5);
    for shell in ["bash", "zsh", "fish"] {
        assert!(fixture.good(&["completions", shell]).contains("plasmon"));
    }
    assert!(fixture.good(&["--help"]).contains("Exit codes"));
}

#[test]
fn files_and_objects_are_sorted_into_files_and_into_the_store() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("one.csv"), "city,price\nB,3\nA,1\n").unwrap();
    std::fs::write(fixture.path("two.csv"), "city,price\nA,7\nC,\n").unwrap();
    let by = ["--by", "city,-price"];
    fixture.good(&[&["sort", "one.csv", "two.csv", "--out", "out.csv"], &by[..]].concat());
    let sorted = "city,price\nA,7\nA,1\nB,3\nC,\n";
    assert_eq!(std::fs::read_to_string(fixture.path("out.csv")).unwrap(), sorted);

    let named = ["sort", "out.csv", "--name", "s", "--partitions", "2", "--by", "-city"];
    let message = fixture.json(&named);
    assert_eq!(message["names"], serde_json::json!(["s/0000", "s/0001"]));
    assert_eq!(message["rows"], 4);
    fixture.good(&["sort", "s/0001", "s/0000", "-o", "again.csv", "--by", "city,-price"]);
    assert_eq!(std::fs::read_to_string(fixture.path("again.csv")).unwrap(), sorted);

    // With a byte of memory the rows go through an unlinked scratch file.
    let little = ["sort", "one.csv", "two.csv", "--memory", "1", "--by", "city,-price"];
    fixture.good(&[&little[..], &["--out", "little.csv"]].concat());
    assert_eq!(std::fs::read_to_string(fixture.path("little.csv")).unwrap(), sorted);
    let nowhere = [&little[..], &["--out", "x.csv", "--spill-dir", "nowhere"]].concat();
    assert!(fixture.fails(1, &nowhere).contains("nowhere"));
    let limited = [&little[..], &["--out", "x.csv", "--spill-max", "1"]].concat();
    assert!(fixture.fails(1, &limited).contains("the limit that was given is 1"));
    fixture.fails(2, &["sort", "one.csv", "--out", "x.csv", "--by", "city", "--memory", "much"]);

    let wrong = fixture.fails(1, &["sort", "one.csv", "--out", "x.csv", "--by", "town"]);
    assert!(wrong.contains("\"town\"") && wrong.contains("\"city\", \"price\""), "{wrong}");
    fixture.fails(1, &["sort", "one.csv", "--out", "x.txt", "--by", "city"]);
    fixture.fails(2, &["sort", "one.csv", "--by", "city"]);
    fixture.fails(4, &["sort", "nothing", "--out", "x.csv", "--by", "city"]);
    let taken = fixture.fails(1, &named);
    assert!(taken.contains("s/0000") || taken.contains("exists"), "{taken}");
    assert!(!fixture.path("x.csv").exists());
}

/// Rows in a shuffled order, as many as make the sort of them take a while.
fn many_rows(fixture: &Fixture, rows: u64) {
    let row = |at: u64| format!("{},{at}\n", at * 7_919 % rows);
    let text = std::iter::once("key,at\n".to_owned()).chain((0..rows).map(row));
    std::fs::write(fixture.path("many.csv"), text.collect::<String>()).unwrap();
}

const SPILLING: [&str; 7] = ["sort", "many.csv", "--by", "key", "--memory", "64k", "--spill-dir"];

#[test]
fn what_needs_more_memory_is_sorted_into_the_store_part_by_part() {
    let fixture = Fixture::started_with("64m", &[]);
    many_rows(&fixture, 20_000);
    let named = [&SPILLING[..], &[".", "--name", "many"]].concat();
    let message = fixture.json(&named);
    let names: Vec<&str> =
        message["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.len() > 4, "{names:?}");
    assert_eq!(message["rows"], 20_000);
    let again = [&["sort"], &names[..], &["--by", "at", "--out", "again.csv"]].concat();
    fixture.good(&again);
    let original = std::fs::read_to_string(fixture.path("many.csv")).unwrap();
    assert_eq!(std::fs::read_to_string(fixture.path("again.csv")).unwrap(), original);
    fixture.good(&["get", names[0], "--output", "first.csv"]);
    let first = std::fs::read_to_string(fixture.path("first.csv")).unwrap();
    let keys = first.lines().skip(1).map(|line| line.split(',').next().unwrap());
    assert!(keys.eq((0..first.lines().count() - 1).map(|key| key.to_string())), "{first}");

    // What is there already stays, and is not taken for what a sort that fails has made.
    let taken = fixture.fails(1, &named);
    assert!(taken.contains("many/0000 exists already"), "{taken}");
    assert_eq!(fixture.json(&["stat", names[0]])["state"], "sealed");
}

#[test]
fn more_than_the_store_holds_is_refused_beforehand() {
    let fixture = Fixture::started_with("1m", &[]);
    many_rows(&fixture, 200_000);
    let named = [&SPILLING[..], &[".", "--name", "many"]].concat();
    let refused = fixture.fails(1, &named);
    assert!(refused.contains("need about") && refused.contains("the store has"), "{refused}");
}

/// Partitions are sealed one after the other, and a sort that was killed between two of them left
/// the first ones, under the names that a second try wants.
#[test]
fn a_killed_sort_into_the_store_leaves_nothing_and_can_be_run_again() {
    let fixture = Fixture::started_with("64m", &[]);
    many_rows(&fixture, 60_000);
    let named = [&SPILLING[..], &[".", "--name", "many"]].concat();
    let mut sort = fixture.command(&named).stderr(Stdio::null()).spawn().unwrap();
    let objects = || fixture.json(&["ls"]).as_array().unwrap().len();
    until("a partition is made", || {
        assert!(sort.try_wait().unwrap().is_none(), "ended before it could be killed");
        fixture.run(&["stat", "many/0000", "--json"]).status.success() && objects() >= 2
    });
    sort.kill().unwrap();
    sort.wait().unwrap();
    until("no partition is left", || objects() == 0);
    assert_eq!(fixture.json(&named)["rows"], 60_000);
}
