//! `plasmon spark` with a Spark and a Java that are scripts, and jars that are made here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::pool::{Pool, joining};
use crate::{Fixture, text};

const MANAGER: &str = "org/apache/spark/shuffle/plasmon/PlasmonShuffleManager.class";
const POM: &str = "META-INF/maven/org.plasmon/plasmon-spark/pom.properties";
const JAVA: &str = "echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=\"8\"' >&2
echo '    java.version = 17.0.9' >&2
echo '    java.specification.version = 17' >&2";

/// A zip file of entries that are not compressed, with nothing in it that is not read.
fn zip(entries: &[(String, &str)]) -> Vec<u8> {
    let (mut content, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in entries {
        let offset = u32::try_from(content.len()).unwrap();
        let lengths = [text.len(), text.len(), name.len()].map(|n| u32::try_from(n).unwrap());
        let [bytes, _, name_bytes] = lengths;
        let sizes = [bytes.to_le_bytes(), bytes.to_le_bytes(), name_bytes.to_le_bytes()].concat();
        content.extend([&b"PK\x03\x04"[..], &[0; 14], &sizes, name.as_bytes()].concat());
        content.extend(text.as_bytes());
        directory.extend([&b"PK\x01\x02"[..], &[0; 16], &sizes, &[0; 10]].concat());
        directory.extend([&offset.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let sizes = [directory.len(), content.len()].map(|n| u32::try_from(n).unwrap().to_le_bytes());
    let end = [&b"PK\x05\x06"[..], &[0; 4], &count, &count, &sizes.concat(), &[0; 2]].concat();
    [content, directory, end].concat()
}

/// The entries of our jar, as far as they are looked at.
fn entries() -> Vec<(String, &'static str)> {
    let native = format!("META-INF/native/linux-{}", std::env::consts::ARCH);
    let version = concat!("version=", env!("CARGO_PKG_VERSION"), "\n");
    vec![
        (MANAGER.to_owned(), "c"),
        (POM.to_owned(), version),
        (format!("{native}/libplasmon_jni.so"), "l"),
        (format!("{native}/plasmond"), "d"),
    ]
}

/// A machine on which all is well: Spark, Java and jar; without a store.
fn machine() -> Fixture {
    equipped(Fixture { directory: tempfile::tempdir().unwrap() })
}

fn equipped(fixture: Fixture) -> Fixture {
    script(&fixture, "spark/bin/spark-submit", "printf '%s\\n' \"$@\"; exit 7");
    script(&fixture, "java/bin/java", JAVA);
    for folder in ["spark/jars", "spark/conf"] {
        fs::create_dir_all(fixture.path(folder)).unwrap();
    }
    fs::write(fixture.path("spark/jars/spark-core_2.13-4.1.1.jar"), "").unwrap();
    fs::write(fixture.path("plasmon.jar"), zip(&entries())).unwrap();
    fixture
}

fn script(fixture: &Fixture, name: &str, lines: &str) {
    let file = fixture.path(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = fixture.command(&[&["spark"], arguments].concat());
    let names = ["PLASMON_SOCKET", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"];
    for name in names.into_iter().chain(["MASTER"]) {
        command.env_remove(name);
    }
    command.env("SPARK_HOME", fixture.path("spark")).env("JAVA_HOME", fixture.path("java"));
    command.env("PLASMON_SPARK_JAR", "plasmon.jar");
    command
}

/// The words that spark-submit is started with.
fn submitted(fixture: &Fixture, words: &[&str]) -> Vec<String> {
    let out = command(fixture, &[&["submit"], words].concat()).output().unwrap();
    assert_eq!(out.status.code(), Some(7), "spark-submit's own code: {}", text(&out.stderr));
    text(&out.stdout).lines().map(str::to_owned).collect()
}

/// The check of this name, as `doctor` finds it.
fn checked(mut command: Command, what: &str) -> (String, String) {
    let out = command.arg("--json").output().unwrap();
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["what"] == what).unwrap();
    let bad = checks.iter().filter(|check| check["verdict"] == "bad").count();
    assert_eq!(out.status.code(), Some(i32::from(bad > 0)), "{found}");
    let word = |key: &str| check[key].as_str().unwrap().to_owned();
    (word("verdict"), word("found") + &word("advice"))
}

/// A class path of the user's own replaced ours, so executors died at their start and were started
/// forever; ours replaced that of the site. A relative jar was found by the driver alone.
#[test]
fn submit_joins_class_paths_and_names_the_jar_with_its_whole_path() {
    let fixture = machine();
    let jar = fixture.path("plasmon.jar").canonicalize().unwrap().display().to_string();
    let site = "spark.executor.extraClassPath /site/*\nspark.driver.extraClassPath /site/d\n";
    fs::write(fixture.path("spark/conf/spark-defaults.conf"), site).unwrap();
    let has = |words: &[String], key: &str, value: &str| {
        let all: Vec<_> = words.iter().filter(|word| word.contains(key)).collect();
        assert_eq!(all, [&format!("{key}={value}")], "{words:?}");
    };
    let words = submitted(&fixture, &["app.py", "--driver-class-path", "x"]);
    has(&words, "spark.executor.extraClassPath", &format!("{jar}:/site/*"));
    has(&words, "spark.driver.extraClassPath", &format!("{jar}:/site/d"));
    assert_eq!(words[words.len() - 3..], ["app.py", "--driver-class-path", "x"]);

    let own = ["--driver-class-path", "d", "--conf", "spark.executor.extraClassPath=e", "app.py"];
    let words = submitted(&fixture, &own);
    has(&words, "spark.executor.extraClassPath", &format!("{jar}:e"));
    has(&words, "spark.driver.extraClassPath", &format!("{jar}:d"));
    assert!(!words.contains(&"--driver-class-path".to_owned()), "it would win: {words:?}");

    fs::write(fixture.path("other.conf"), "spark.executor.extraClassPath=/other\n").unwrap();
    let words = submitted(&fixture, &["--properties-file", "other.conf", "app.py"]);
    has(&words, "spark.executor.extraClassPath", &format!("{jar}:/other"));
    has(&words, "spark.driver.extraClassPath", &jar);
    let words = submitted(&fixture, &["--socket", "s.sock", "app.py"]);
    let store = fixture.path("s.sock").display().to_string();
    has(&words, "spark.plasmon.store", &store);
}

#[test]
fn submit_says_what_is_missing() {
    let fixture = machine();
    let said = |mut command: Command| {
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        text(&out.stderr)
    };
    let submit = |words: &[&str]| command(&fixture, &[&["submit"], words].concat());
    let message = said(submit(&["--properties-file", "gone.conf", "app.py"]));
    assert!(message.contains("cannot read Spark's settings in gone.conf"), "{message}");
    let mut colon = submit(&["app.py"]);
    fs::create_dir(fixture.path("a:b")).unwrap();
    fs::write(fixture.path("a:b/plasmon.jar"), "").unwrap();
    colon.env("PLASMON_SPARK_JAR", "a:b/plasmon.jar");
    let message = said(colon);
    assert!(message.contains("has a colon") && message.contains("PLASMON_SPARK_JAR"), "{message}");
    let mut without = submit(&["app.py"]);
    let message = said({
        without.env("SPARK_HOME", fixture.path("nowhere"));
        without
    });
    assert!(message.contains("SPARK_HOME is set, but there is no"), "{message}");
}

#[test]
fn doctor_finds_all_well_where_it_is() {
    let fixture = machine();
    let out = command(&fixture, &["doctor"]).output().unwrap();
    let message = text(&out.stdout);
    assert!(out.status.success(), "{message}");
    assert!(message.contains("17.0.9") && message.contains("4.1.1"), "{message}");
    assert!(message.contains("each application starts its own"), "{message}");
}

/// Any file was a good jar.
#[test]
fn doctor_opens_the_jar() {
    let fixture = machine();
    let without = |name: &str| {
        zip(&entries().into_iter().filter(|(entry, _)| !entry.ends_with(name)).collect::<Vec<_>>())
    };
    let mut old = entries();
    old[1].1 = "version=0.0.1\n";
    let mut cut = zip(&entries());
    cut.drain(..40);
    for (content, said) in [
        (b"no jar".to_vec(), "it is not a jar"),
        (Vec::new(), "it is not a jar"),
        (cut, "it is not a jar, or is truncated"),
        (zip(&[]), "it is not Plasmon's jar"),
        (without("Manager.class"), "it is not Plasmon's jar"),
        (without(".so"), "it holds no libplasmon_jni.so for this machine"),
        (without("plasmond"), "it holds no plasmond for this machine"),
        (zip(&old), "it is of version 0.0.1"),
    ] {
        fs::write(fixture.path("plasmon.jar"), content).unwrap();
        let (verdict, message) = checked(command(&fixture, &["doctor"]), "jar");
        assert_eq!(verdict, "bad", "{message}");
        assert!(message.contains(said) && message.contains("make spark"), "{message}");
    }
}

/// A `JAVA_HOME` that leads nowhere was passed over, which Spark does not do.
#[test]
fn doctor_runs_the_java_that_spark_would_run() {
    let fixture = machine();
    let mut nowhere = command(&fixture, &["doctor"]);
    nowhere.env("JAVA_HOME", "/nowhere");
    let (verdict, message) = checked(nowhere, "java");
    assert_eq!(verdict, "bad");
    assert!(message.contains("JAVA_HOME is set, but there is no /nowhere/bin/java"), "{message}");
    let mut in_path = command(&fixture, &["doctor"]);
    in_path.env_remove("JAVA_HOME").env("PATH", fixture.path("java/bin"));
    assert_eq!(checked(in_path, "java").0, "good");
    script(&fixture, "java/bin/java", &JAVA.replace("17", "11"));
    let (verdict, message) = checked(command(&fixture, &["doctor"]), "java");
    assert!(
        verdict == "bad" && message.contains("11.0.9") && message.contains("Java 17"),
        "{message}"
    );
    script(&fixture, "java/bin/java", "echo 'Unrecognized option: -x' >&2; exit 1");
    let (verdict, message) = checked(command(&fixture, &["doctor"]), "java");
    assert!(verdict == "bad" && message.contains("but: Unrecognized option"), "{message}");
}

/// The store that an application would use is that of `--socket`, or of Spark's settings.
#[test]
fn doctor_reaches_for_the_store_that_submit_would_use() {
    let fixture = machine();
    fs::write(fixture.path("spark/conf/spark-defaults.conf"), "spark.plasmon.store /no/s.sock")
        .unwrap();
    let (verdict, message) = checked(command(&fixture, &["doctor"]), "store");
    assert!(verdict == "bad" && message.contains("plasmon --socket /no/s.sock start"), "{message}");
    fixture.good(&["start", "--capacity", "16m"]);
    let socket = fixture.path("s.sock").display().to_string();
    let (verdict, message) = checked(command(&fixture, &["doctor", "--socket", &socket]), "store");
    assert!(verdict == "good" && message.contains(&socket), "{message}");
}

#[test]
fn submit_sets_what_a_shuffle_on_the_pool_takes() {
    let fixture = machine();
    let pool = |words: &[&str]| {
        let words = submitted(&fixture, words);
        let all = words.iter().filter_map(|word| word.strip_prefix("spark.plasmon."));
        (all.map(str::to_owned).collect::<Vec<_>>().join(" "), words.last().unwrap().clone())
    };
    for (words, settings) in [
        (&["app.py"][..], ""),
        (&["--pool", "app.py"], "pool=@spark"),
        (&["--pool=auto", "app.py"], "pool=auto"),
        (&["--pool=none", "--master", "local", "--pool=@x", "app.py"], "pool=@x"),
        (&["--pool", "--copies", "3", "--ack=async", "app.py"], "ack=async copies=3 pool=@spark"),
        (&["--master", "local", "--copies=2", "--pool", "app.py"], "copies=2 pool=@spark"),
    ] {
        assert_eq!(pool(words), (settings.to_owned(), "app.py".to_owned()), "{words:?}");
    }
    for words in [&["--pool=x", "app.py"][..], &["-v", "--copies=9", "a"], &["--pool", "@x", "a"]] {
        let out = command(&fixture, &[&["submit"], words].concat()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {}", text(&out.stderr));
    }
    let out = command(&fixture, &["conf", "--pool=@team", "--copies", "2"]).output().unwrap();
    let lines = text(&out.stdout);
    assert!(lines.contains("spark.plasmon.pool @team\n"), "{lines}");
    assert!(lines.contains("spark.plasmon.copies 2\n"), "{lines}");
}

/// The driver's store, without a pool: what `doctor` finds is what the driver would do.
#[test]
fn doctor_says_where_the_shuffle_would_be() {
    let fixture = machine();
    let doctor = |words: &[&str]| {
        let mut command = command(&fixture, &[&["doctor"], words].concat());
        // No store runs at this user's own socket.
        command.env("XDG_RUNTIME_DIR", fixture.directory.path());
        command
    };
    let (verdict, message) = checked(doctor(&[]), "shuffle");
    assert_eq!(verdict, "good");
    assert!(message.contains("on one machine: the master, local[*], is on this"), "{message}");
    let cluster = ["--master", "spark://h:7077"];
    let (verdict, message) = checked(doctor(&cluster), "shuffle");
    assert!(verdict == "note" && message.contains("no store runs at"), "{message}");
    let (verdict, message) = checked(doctor(&["--pool=none", "--master", "yarn"]), "shuffle");
    assert!(verdict == "good" && message.contains("spark.plasmon.pool is none"), "{message}");
    let (verdict, message) = checked(doctor(&["--pool"]), "store");
    assert!(verdict == "bad" && message.contains("start --cluster etcd://"), "{message}");
    let (verdict, message) = checked(doctor(&["--conf", "spark.plasmon.pool=x"]), "shuffle");
    assert!(verdict == "bad" && message.contains("\"x\" is not auto"), "{message}");
    fs::write(fixture.path("spark/conf/spark-defaults.conf"), "spark.plasmon.pool none").unwrap();
    let (verdict, message) = checked(doctor(&cluster), "shuffle");
    assert!(verdict == "good" && message.contains("is none"), "{message}");

    fixture.good(&["start", "--capacity", "16m"]);
    let socket = fixture.path("s.sock").display().to_string();
    let on_store = |words: &[&str]| doctor(&[words, &["--socket", &socket]].concat());
    let (verdict, message) = checked(on_store(&["--pool=@x"]), "pool");
    assert!(verdict == "bad" && message.contains("belongs to no pool"), "{message}");
    let auto = ["--pool=auto", "--master", "spark://h:7077"];
    let (verdict, message) = checked(on_store(&auto), "shuffle");
    assert!(verdict == "note" && message.contains("belongs to no pool"), "{message}");
    assert_eq!(checked(on_store(&auto), "store version").0, "good");
}

#[test]
fn doctor_looks_at_the_pool_that_the_shuffle_would_be_on() {
    let fixture = equipped(joining());
    let Some(pool) = Pool::start(&fixture) else { return };
    let socket = pool.node("node2")["socket"].as_str().unwrap().to_owned();
    let doctor = |words: &[&str]| {
        let mut command = command(&fixture, &[&["doctor", "--socket", &socket], words].concat());
        command.env("XDG_RUNTIME_DIR", fixture.directory.path());
        command
    };
    for words in [&["--pool=@team"][..], &["--master", "spark://h:7077"]] {
        for (what, said) in [
            ("store", "reached at"),
            ("store version", env!("CARGO_PKG_VERSION")),
            ("pool node", "node2 has joined, and is connected with 1 other node"),
            ("pool nodes", "2 live (node1, node2)"),
            ("copies", "2 of each output: 2 nodes of the pool take copies"),
        ] {
            let (verdict, message) = checked(doctor(words), what);
            assert!(verdict == "good" && message.contains(said), "{what}: {message}");
        }
    }
    assert!(checked(doctor(&["--pool=@team"]), "pool").1.contains("namespaces @team-.."));
    let (verdict, message) = checked(doctor(&["--pool", "--copies", "3"]), "copies");
    assert!(verdict == "note" && message.contains("start more nodes"), "{message}");
    let (verdict, message) = checked(doctor(&["--pool=none"]), "shuffle");
    assert!(verdict == "good" && message.contains("is none"), "{message}");
}
