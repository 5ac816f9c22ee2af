//! What the commands that show the store tell.

use std::process::Stdio;

use crate::{Fixture, text};

#[test]
fn stat_shows_schema_rows_and_columns_of_tables_and_the_shape_of_arrays() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("t.csv"), "x,s\n1,a\n2,b\n").unwrap();
    fixture.good(&["put", "t.csv"]);
    fixture.good(&["ingest", "t.csv", "t.csv", "--name", "parts"]);
    for (name, rows) in [("t", 2), ("parts", 4)] {
        let stat = fixture.json(&["stat", name]);
        assert_eq!((&stat["rows"], &stat["columns"]), (&rows.into(), &2.into()), "{name}: {stat}");
        let column = &stat["schema"][1];
        assert_eq!((&column["name"], &column["type"]), (&"s".into(), &"Utf8".into()), "{stat}");
        let shown = fixture.good(&["stat", name]);
        assert!(shown.contains(&format!("rows        {rows}")), "{shown}");
        assert!(shown.contains("x: Int64") && shown.contains("s: Utf8"), "{shown}");
    }
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }\n";
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend([0; 16]);
    std::fs::write(fixture.path("a.npy"), file).unwrap();
    fixture.good(&["put", "a.npy"]);
    let stat = fixture.json(&["stat", "a"]);
    assert_eq!((&stat["dtype"], &stat["shape"]), (&"<f8".into(), &serde_json::json!([2, 1])));
    assert!(fixture.good(&["stat", "a"]).contains("shape       (2, 1)"));
}

/// Lines had an id and a state, and no word of which object at what time.
#[test]
fn watch_tells_time_and_name() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("w"), b"watched").unwrap();
    fixture.good(&["put", "w", "--name", "before"]);
    let mut watch = fixture.command(&["watch", "--count", "3"]);
    let watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    fixture.wait_for_subscriber();
    fixture.good(&["put", "w", "--name", "n:x"]);
    fixture.good(&["rm", "n:x", "before"]);
    let seen = text(&watch.wait_with_output().unwrap().stdout);
    let words: Vec<Vec<&str>> =
        seen.lines().map(|line| line.split_whitespace().collect()).collect();
    let (states, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(|words| (words[1], words[words.len() - 1])).unzip();
    assert_eq!(states, ["sealed", "deleted", "deleted"], "{seen}");
    assert!(names.iter().all(|name| ["n:x", "before"].contains(name)), "{seen}");
    assert!(words.iter().all(|words| words[0].len() == 13 && words[0].ends_with('Z')), "{seen}");
}

#[test]
fn top_has_the_largest_objects() {
    let fixture = Fixture::started();
    for (name, bytes) in [("small", 10), ("large", 1000)] {
        std::fs::write(fixture.path("b"), vec![0; bytes]).unwrap();
        fixture.good(&["put", "b", "--name", name]);
    }
    let objects = &fixture.json(&["top", "--count", "1"])["objects"];
    assert_eq!((&objects[0]["name"], &objects[1]["name"]), (&"large".into(), &"small".into()));
    let shown = fixture.good(&["top", "--count", "1"]);
    assert!(shown.find("large").unwrap() < shown.find("small").unwrap(), "{shown}");
}

#[test]
fn names_of_objects_are_completed() {
    let fixture = Fixture::started();
    std::fs::write(fixture.path("b"), b"b").unwrap();
    for name in ["sales", "stocks", "n:sales"] {
        fixture.good(&["put", "b", "--name", name]);
    }
    let completed = |words: &[&str]| {
        let mut command = fixture.command(&[&["--", "plasmon"], words].concat());
        command
            .env("PLASMON_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let out = command.env("_CLAP_IFS", "\n").output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(completed(&["get", "sa"]), ["sales"]);
    assert_eq!(completed(&["rm", "sales", "s"]), ["sales", "stocks"]);
    assert_eq!(completed(&["stat", "n"]), ["n:sales"]);
    assert!(completed(&["hdf5", "ins"]).contains(&"inspect".to_owned()));
    assert!(completed(&["run-demo", "--ro"]).contains(&"--rows".to_owned()));
    assert!(completed(&["pu"]).contains(&"put".to_owned()));
    // Without a store there are no names, and no error in the middle of a line.
    assert!(completed(&["--socket", "none.sock", "get", "sa"]).is_empty());
    for shell in ["bash", "zsh", "fish"] {
        let script = fixture.good(&["completions", shell]);
        assert!(script.contains("PLASMON_COMPLETE"), "{script}");
    }
}

#[test]
fn each_command_has_a_page_of_the_manual() {
    let fixture = Fixture::started();
    let page = fixture.good(&["man"]);
    assert!(page.contains(".TH plasmon 1") && page.contains("Exit codes"), "{page}");
    assert!(fixture.good(&["man", "get"]).contains("\\-\\-output"));
    assert!(fixture.good(&["man", "spark", "submit"]).contains("spark\\-submit"));
    assert!(fixture.fails(2, &["man", "nothing"]).contains("nothing"));
    fixture.good(&["man", "--out", "pages"]);
    for page in ["plasmon.1", "plasmon-get.1", "plasmon-spark-submit.1", "plasmon-pool-dev.1"] {
        assert!(fixture.path("pages").join(page).is_file(), "{page}");
    }
}
