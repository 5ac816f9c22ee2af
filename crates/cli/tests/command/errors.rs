//! What an error says: the object by its name, what to do, and in the exit code what it is.

use serde_json::Value;

use crate::{Fixture, text};

/// The error of a command as a program reads it.
fn error(fixture: &Fixture, exit: i32, arguments: &[&str]) -> Value {
    let message = fixture.fails(exit, &[arguments, &["--json"]].concat());
    serde_json::from_str(&message).unwrap_or_else(|_| panic!("{arguments:?}: no JSON: {message}"))
}

#[test]
fn each_exit_code_is_as_the_help_promises_and_json_errors_have_the_code() {
    let fixture = Fixture::started_with("16m", &[]);
    std::fs::write(fixture.path("b"), vec![1; 1000]).unwrap();
    std::fs::File::create(fixture.path("big")).unwrap().set_len(17 << 20).unwrap();
    assert!(fixture.run(&["put", "b"]).status.code() == Some(0));
    let taken = error(&fixture, 1, &["put", "b"]);
    assert_eq!((&taken["code"], &taken["object"]), (&"exists".into(), &"b".into()));
    assert_eq!(taken["id"], fixture.json(&["stat", "b"])["id"]);
    assert_eq!(error(&fixture, 1, &["put", "missing.csv"])["code"], "failed");
    for wrong in [
        &["put"][..],
        &["frobnicate"],
        &["put", "b", "b", "--name", "x"],
        &["get", "b", "--timeout", "-1"],
        &["rm"],
        &["rm", "b", "--all"],
        &["rm", "b", "--older", "1h"],
        &["rm", "--older", "soon"],
        &["start", "--capacity", "lots"],
        &["start", "--set", "nothing=1"],
        &["start", "--set", "nothing"],
        &["start", "--set", "level=foo", "--socket", "other.sock"],
    ] {
        let code = if wrong.contains(&"level=foo") { 1 } else { 2 };
        let found = error(&fixture, code, wrong);
        let wanted = if code == 2 { "usage" } else { "bad_request" };
        assert_eq!(found["code"], wanted, "{wrong:?}: {found}");
    }
    for absent in [&["get", "gone"][..], &["stat", "gone"], &["rm", "gone"], &["rm", "go*", "-y"]] {
        assert_eq!(error(&fixture, 4, absent)["code"], "absent", "{absent:?}");
    }
    assert_eq!(error(&fixture, 5, &["put", "big"])["code"], "too_large");
    for command in [&["ls"][..], &["put", "b"], &["status"], &["rm", "--all", "-y"], &["watch"]] {
        let none = [command, &["--socket", "none.sock"]].concat();
        assert_eq!(error(&fixture, 3, &none)["code"], "disconnected");
        let message = fixture.fails(3, &none);
        assert!(message.contains("plasmon start") && message.contains("none.sock"), "{message}");
    }
    assert_eq!(error(&fixture, 1, &["start"])["code"], "already_running");
}

#[test]
fn errors_call_objects_by_their_names_and_say_what_to_do() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("sales"), b"1").unwrap();
    fixture.good(&["put", "sales"]);
    let id = fixture.json(&["stat", "sales"])["id"].as_str().unwrap().to_owned();
    let message = fixture.fails(4, &["get", "sale"]);
    assert!(
        message.contains("\"sale\"") && message.contains("did you mean \"sales\"?"),
        "{message}"
    );
    let message = fixture.fails(1, &["put", "sales"]);
    assert!(
        message.contains("\"sales\"") && message.contains(&id) && message.contains("--replace"),
        "{message}"
    );
    let message = fixture.fails(1, &["get", "sales", "--format", "parquet"]);
    assert!(message.contains("kind bytes") && message.contains("--format raw"), "{message}");
    fixture.good(&["rm", "sales"]);
    let message = fixture.fails(4, &["get", "sales"]);
    assert!(message.contains("\"sales\"") && message.contains("deleted"), "{message}");
    assert!(fixture.fails(4, &["get", &id]).contains(&id));
    // A daemon that does not take a setting is no failure of the operating system.
    let message = fixture.fails(1, &["start", "--set", "level=foo", "--socket", "other.sock"]);
    assert!(message.contains("\"foo\"") && !message.contains("operating system"), "{message}");
}

/// `--name a:b` was stored as the name "a:b", and `get a:b` looked for the name "b" in "a".
#[test]
fn a_name_means_the_same_where_it_is_put_and_where_it_is_got() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x\n1\n").unwrap();
    for (flags, name, namespace, shown) in [
        (&["--name", "a:b"][..], "b", "a", "a:b"),
        (&["--name", "b", "--namespace", "c"], "b", "c", "c:b"),
        (&["--name", ":d:e"], "d:e", "", ":d:e"),
        (&["--name", "f:g", "--namespace", "h"], "f:g", "h", "h:f:g"),
    ] {
        let put = fixture.json(&[&["put", "t.csv"], flags].concat());
        assert_eq!((&put["name"], &put["namespace"]), (&name.into(), &namespace.into()));
        assert_eq!(fixture.good(&["get", shown, "--format", "csv"]), "x\n1\n");
        assert!(fixture.good(&["ls"]).contains(&format!("\n{shown} ")));
    }
    fixture.good(&["ingest", "t.csv", "--name", "i:j"]);
    fixture.good(&["sort", "i:j", "--by", "x", "--name", "k:l"]);
    assert_eq!(fixture.good(&["get", "k:l", "--format", "csv"]), "x\n1\n");
    let id = "ab".repeat(20);
    assert!(fixture.fails(2, &["put", "t.csv", "--name", &id]).contains("read as an id"));
    let message = fixture.fails(2, &["put", "t.csv", "--name", "x", "--namespace", "a:b"]);
    assert!(message.contains("colon"), "{message}");
    // The first digits of an id are as good as the id.
    let id = fixture.json(&["stat", "a:b"])["id"].as_str().unwrap().to_owned();
    assert_eq!(fixture.good(&["get", &id[..8], "--format", "csv"]), "x\n1\n");
}

#[test]
fn a_capacity_above_the_memory_is_warned_of() {
    let fixture = Fixture { directory: tempfile::tempdir().unwrap() };
    let out = fixture.run(&["start", "--capacity", "1000t"]);
    assert!(out.status.success());
    let message = text(&out.stderr);
    assert!(message.contains("1000.0 TiB") && message.contains("memory"), "{message}");
    fixture.good(&["stop"]);
    let started = fixture.json(&["start", "--capacity", "1000t"]);
    assert!(started["warning"].as_str().unwrap().contains("memory"), "{started}");
    fixture.good(&["stop"]);
    assert!(text(&fixture.run(&["start", "--capacity", "16m"]).stderr).is_empty());
}

#[test]
fn copies_are_for_objects_of_a_pool() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x\n1\n").unwrap();
    for command in [&["put", "t.csv"][..], &["ingest", "t.csv"]] {
        let fails = |code, name: &str, flags: &[&str]| {
            fixture.fails(code, &[command, &["--name", name], flags].concat())
        };
        for flags in [&["--copies", "2"][..], &["--copies-min", "1"]] {
            let message = fails(2, "n:t", flags);
            assert!(message.contains("begin with @") && message.contains("\"n:t\""), "{message}");
        }
        for count in ["0", "9", "-1", "two"] {
            fails(2, "@prod:t", &["--copies", count]);
        }
        let message = fails(1, "@prod:t", &["--copies", "2", "--copies-min", "3"]);
        assert!(message.contains("copies_min"), "{message}");
        let message = fails(1, "@prod:t", &["--copies", "3", "--copies-min", "1"]);
        assert!(message.contains("@prod:t") && message.contains("pool"), "{message}");
        let message = fails(1, "@prod:t", &["--ttl", "5"]);
        assert!(message.contains("time to live"), "{message}");
    }
    let message = fixture.fails(1, &["put", "t.csv", "--namespace", "@prod", "--copies", "1"]);
    assert!(message.contains("@prod:t"), "{message}");
    let message = fixture.fails(1, &["put", "t.csv", "--pool", "--copies", "2"]);
    assert!(message.contains("t.csv") && message.contains("--cluster"), "{message}");
    for flags in [["--name", "t"], ["--namespace", "n"], ["--ttl", "5"]] {
        fixture.fails(2, &[&["put", "t.csv", "--pool"][..], &flags].concat());
    }
    assert_eq!(fixture.json(&["ls"]).as_array().unwrap().len(), 0);
}
