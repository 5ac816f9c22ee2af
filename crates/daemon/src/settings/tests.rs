//! The order of the sources, what each refuses, and the flags that the keeper passes on.

use std::io::Write;

use plasmon_proto::limits::NODE_NAME_BYTES_MAX;
use plasmon_proto::message::Access;
use plasmon_proto::object::Level;
use plasmon_proto::settings::Bytes;

use super::config::{Pool, SPIN_US_MAX};
use super::*;

fn flags(arguments: &[&str]) -> Result<Invocation, clap::Error> {
    let arguments = ["plasmond"].iter().chain(arguments).map(|text| text.into());
    flags::parse(arguments)
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn nothing(_: &str) -> Option<String> {
    None
}

#[test]
fn later_sources_win() {
    let file = file("capacity_bytes = 1048576\nspin_us = 1\nlinger_ms = 1\nkeeper = false\n");
    let environment = |name: &str| match name {
        "PLASMON_SPIN_US" | "PLASMON_LINGER_MS" => Some("2".to_owned()),
        "PLASMON_LOG" => Some(String::new()),
        _ => None,
    };
    let given = flags(&[
        "--linger-ms",
        "9",
        "--linger-ms=3",
        "--collapse",
        "--end-with-last-client",
        "false",
    ])
    .unwrap()
    .settings;
    let loaded = load(Some(file.path()), environment, &given).unwrap();
    assert_eq!(loaded.settings.capacity_bytes, Bytes(1 << 20));
    assert_eq!((loaded.settings.spin_us, loaded.settings.linger_ms), (2, 3));
    assert!(!loaded.settings.keeper && loaded.settings.collapse);
    assert_eq!(loaded.settings.log, "warn", "an empty variable is not set");
}

#[test]
fn what_was_set_survives_as_flags() {
    let given = flags(&["--admit=1:ro,2:rw", "--keeper=false", "--socket", "-odd name"]).unwrap();
    let loaded = load(None, nothing, &given.settings).unwrap();
    let again = loaded.as_flags();
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let again = load(None, nothing, &flags(&again).unwrap().settings).unwrap();
    assert_eq!(again, loaded);
}

#[test]
fn wrong_sources_are_named() {
    let error_of = |file: Option<&Path>, variable: Option<(&str, &str)>, given: &[&str]| {
        let environment =
            |name: &str| variable.filter(|(key, _)| *key == name).map(|(_, v)| v.to_owned());
        load(file, environment, &flags(given).unwrap().settings).unwrap_err().to_string()
    };
    let unknown = file("capacity = 1\n");
    let text = error_of(Some(unknown.path()), None, &[]);
    assert!(text.contains("capacity") && text.contains(unknown.path().to_str().unwrap()), "{text}");
    assert!(error_of(Some(file("= 1").path()), None, &[]).contains("line 1"));
    assert!(error_of(Some(Path::new("/nonexistent/x")), None, &[]).contains("/nonexistent/x"));
    assert!(error_of(None, Some(("PLASMON_SPIN_US", "x")), &[]).contains("PLASMON_SPIN_US"));
    assert!(error_of(None, None, &["--capacity-bytes=many"]).contains("--capacity-bytes"));
    assert!(flags(&["--no-such-flag"]).is_err());
}

#[test]
fn every_setting_is_in_the_help() {
    let help = flags::command().render_long_help().to_string();
    for setting in SETTINGS {
        assert!(help.contains(&format!("--{}", flag_of(setting.key))), "{}", setting.key);
        assert!(help.contains(&variable_of(setting.key)), "{}", setting.key);
    }
}

fn config(change: impl Fn(&mut Settings)) -> Result<Config, BadStart> {
    let mut settings = Settings { socket: "/tmp/x.sock".to_owned(), ..Settings::default() };
    change(&mut settings);
    Config::new(&settings)
}

#[test]
fn settings_become_a_checked_configuration() {
    let plain = config(|_| {}).unwrap();
    assert_eq!((plain.level, plain.socket_mode, plain.spill.clone()), (Level::Shared, 0o600, None));
    assert!(plain.capacity_bytes > 0 && plain.warm_bytes_max == plain.capacity_bytes / 4);
    assert_eq!(plain.access_of(7, 7), Some(Access::ReadWrite));
    assert_eq!(plain.access_of(8, 7), None);

    let admitting = config(|s| s.admit = vec!["8:ro".to_owned()]).unwrap();
    assert_eq!(admitting.access_of(8, 7), Some(Access::ReadOnly));
    assert_eq!(admitting.level, Level::Leased);
    let raised = config(|s| {
        s.admit = vec!["8:rw".to_owned()];
        s.level = "shared".to_owned();
    });
    assert_eq!(raised.unwrap().level, Level::Leased, "another user raises the level");
    assert_eq!(config(|s| s.level = "strict".to_owned()).unwrap().level, Level::Strict);
    assert_eq!(config(|s| s.capacity_bytes = Bytes(10_000)).unwrap().capacity_bytes, 10_000);
    assert_eq!(config(|s| s.spin_us = u32::MAX).unwrap().spin_us, SPIN_US_MAX);
    for hang_timeout_ms in [0, 1000] {
        let hang_timeout = config(|s| s.hang_timeout_ms = hang_timeout_ms).unwrap().hang_timeout;
        assert_eq!(hang_timeout.as_millis(), hang_timeout_ms.into());
    }
}

#[test]
fn senseless_values_are_refused() {
    let refused = |change: &dyn Fn(&mut Settings)| match config(change) {
        Err(BadStart::Value { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&|s| s.admit = vec!["x:rw".into()]), "admit");
    assert_eq!(refused(&|s| s.admit = vec!["1:rx".into()]), "admit");
    assert_eq!(refused(&|s| s.level = "none".into()), "level");
    assert_eq!(refused(&|s| s.log = "loud".into()), "log");
    assert_eq!(refused(&|s| s.hang_timeout_ms = 999), "hang_timeout_ms");
    assert_eq!(refused(&|s| s.socket_mode = "0999".into()), "socket_mode");
    assert_eq!(refused(&|s| s.socket_mode = "7777".into()), "socket_mode");
    assert_eq!(refused(&|s| s.socket = format!("/{}", "x".repeat(107))), "socket");
    assert_eq!(refused(&|s| s.capacity_bytes = Bytes(u64::MAX)), "capacity_bytes");
    assert!(config(|s| s.socket = format!("/{}", "x".repeat(106))).is_ok());
}

#[test]
fn a_store_joins_a_pool_by_its_etcd_and_a_name() {
    let pool = |cluster: &str, name: &str| {
        config(|s| (s.cluster, s.node_name) = (cluster.to_owned(), name.to_owned()))
    };
    assert_eq!(pool("", "").unwrap().pool, None);
    let node_name = "n".repeat(NODE_NAME_BYTES_MAX);
    for cluster in ["etcd://h:2379", "etcd://h:2379,g:2379"] {
        let joined = Pool { cluster: cluster.to_owned(), node_name: node_name.clone() };
        assert_eq!(pool(cluster, &node_name).unwrap().pool, Some(joined));
    }
    assert!(!pool("etcd://h:2379", "").unwrap().pool.unwrap().node_name.is_empty());
    let refused = |cluster: &str, name: &str| match pool(cluster, name) {
        Err(BadStart::Value { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("", "a"), "node_name");
    assert_eq!(refused("etcd://h:2379", &format!("{node_name}n")), "node_name");
    assert_eq!(refused("etcd://h:2379", "a\nb"), "node_name");
    for cluster in ["h:2379", "etcd://", "etcd://h", "etcd://:2379", "etcd://h:1,", "etcd:/h:1"] {
        assert_eq!(refused(cluster, "a"), "cluster", "{cluster}");
    }
}

/// In a container of 256 MB the default was half of the machine's memory, and the daemon was killed
/// again and again instead of saying that it is full.
#[test]
fn the_default_capacity_is_half_of_what_the_daemon_may_use() {
    let config = |settings: &Settings| Config::on(settings, || 256 << 20).unwrap();
    assert_eq!(config(&Settings::default()).capacity_bytes, 128 << 20);
    // A capacity that was chosen explicitly is kept; the memory worker looks at the limit.
    let chosen = Settings { capacity_bytes: Bytes(1 << 30), ..Settings::default() };
    assert_eq!(config(&chosen).capacity_bytes, 1 << 30);
}
