//! The order of the sources, what each refuses, and the flags that the keeper passes on.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use plasmon_proto::fabric::{Choice, Provider};
use plasmon_proto::limits::NODE_NAME_BYTES_MAX;
use plasmon_proto::message::Access;
use plasmon_proto::object::Level;
use plasmon_proto::settings::Bytes;

use super::config::SPIN_US_MAX;
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

/// A configuration with this etcd and these settings more.
fn pool(cluster: &str, given: &[(&str, &str)]) -> Result<Option<Pool>, BadStart> {
    let config = config(|settings| {
        cluster.clone_into(&mut settings.cluster);
        for (key, value) in given {
            settings.set(key, value).unwrap();
        }
    });
    Ok(config?.pool)
}

/// The setting that is wrong, and what is said of it.
fn refused(cluster: &str, given: &[(&str, &str)]) -> (&'static str, String) {
    match pool(cluster, given) {
        Err(BadStart::Value { key, what }) => (key, what),
        other => panic!("{given:?}: {other:?}"),
    }
}

const CLUSTER: &str = "etcd://h:2379";

#[test]
fn a_store_joins_a_pool_by_its_etcd_and_a_name() {
    assert_eq!(pool("", &[]).unwrap(), None);
    let name = "n".repeat(NODE_NAME_BYTES_MAX);
    for (cluster, hosts, named) in [
        (CLUSTER, &["h:2379"][..], "default"),
        ("etcd://h:2379,[::1]:1/prod", &["h:2379", "[::1]:1"], "prod"),
    ] {
        let joined = pool(cluster, &[("node_name", &name)]).unwrap().unwrap();
        assert_eq!(
            (joined.cluster.hosts, joined.cluster.name.as_str()),
            (hosts.iter().map(|h| (*h).into()).collect(), named)
        );
        assert_eq!(joined.node_name, name);
    }
    assert!(!pool(CLUSTER, &[]).unwrap().unwrap().node_name.is_empty());
    for bad in [&format!("{name}n"), "a\nb", "a/b", ".."] {
        assert_eq!(refused(CLUSTER, &[("node_name", bad)]).0, "node_name", "{bad}");
    }
    for cluster in ["h:2379", "etcd://", "etcd://h", "etcd://h:1,", "etcd://h:1/", "etcd://h:1/a b"]
    {
        let (key, what) = refused(cluster, &[]);
        assert!(key == "cluster" && what.contains('"'), "{cluster}: {what}");
    }
}

#[test]
fn a_node_of_a_pool_has_settings_of_its_own() {
    let plain = pool(CLUSTER, &[]).unwrap().unwrap();
    assert_eq!((plain.listen, plain.token_file, plain.folder), (None, None, None));
    assert_eq!((plain.zone.as_str(), plain.weight, plain.movers), ("", None, None));
    assert_eq!((plain.suspect_ms, plain.fabric), (None, Choice::Off));
    let given = [
        ("pool_listen", "[::1]:0"),
        ("pool_token_file", "/etc/token"),
        ("pool_folder", "here"),
        ("pool_zone", "rack 1"),
        ("pool_weight", "0"),
        ("pool_movers", "64"),
        ("pool_suspect_ms", "0"),
        ("pool_fabric", "shm;net"),
    ];
    let set = pool(CLUSTER, &given).unwrap().unwrap();
    assert_eq!(set.listen.map(|address| address.to_string()).as_deref(), Some("[::1]:0"));
    assert_eq!(set.token_file.as_deref(), Some(Path::new("/etc/token")));
    assert!(set.folder.is_some_and(|folder| folder.is_absolute() && folder.ends_with("here")));
    assert_eq!((set.zone.as_str(), set.weight, set.movers), ("rack 1", Some(0), Some(64)));
    assert_eq!(set.suspect_ms, Some(0));
    assert_eq!(set.fabric.providers(), [Provider::Shm, Provider::Net]);
    for (key, value) in given {
        assert_eq!(refused("", &[(key, value)]).0, key, "without a pool");
    }
    let zone = "z".repeat(65);
    for (key, value) in [
        ("pool_listen", "h:1"),
        ("pool_listen", "10.0.0.1"),
        ("pool_listen", "0.0.0.0:7411"),
        ("pool_listen", "[::]:0"),
        ("pool_zone", zone.as_str()),
        ("pool_zone", "a\nb"),
        ("pool_weight", "1048577"),
        ("pool_movers", "65"),
        ("pool_suspect_ms", "999"),
        ("pool_suspect_ms", "60001"),
        ("pool_fabric", ""),
        ("pool_fabric", "sockets"),
    ] {
        assert_eq!(refused(CLUSTER, &[(key, value)]).0, key, "{value}");
    }
    assert!(pool(CLUSTER, &[("pool_weight", "1048576")]).is_ok());
}

#[test]
fn the_secret_of_a_pool_is_of_some_length_and_for_its_owner_alone() {
    let token = tempfile::NamedTempFile::new().unwrap();
    let path = token.path().to_str().unwrap().to_owned();
    let check = |content: &[u8], mode: u32| {
        std::fs::write(token.path(), content).unwrap();
        std::fs::set_permissions(token.path(), Permissions::from_mode(mode)).unwrap();
        let pool = pool(CLUSTER, &[("pool_token_file", &path)]).unwrap().unwrap();
        pool.check_files().map_err(|bad| bad.to_string())
    };
    for content in [&[b'x'; 16][..], &[b'x'; 1024], b"0123456789abcdef \r\n"] {
        assert_eq!(check(content, 0o600), Ok(()));
    }
    for content in [&b""[..], &[b'x'; 15], b"0123456789abcde \n", &[b'x'; 1025], &[b'x'; 5000]] {
        let what = check(content, 0o600).unwrap_err();
        assert!(what.contains("16 to 1024") && what.contains(&path), "{what}");
    }
    for mode in [0o640, 0o604, 0o620] {
        let what = check(&[b'x'; 16], mode).unwrap_err();
        assert!(what.contains(&format!("{mode:04o}")) && what.contains("chmod 600"), "{what}");
    }
    for (path, problem) in [("/nonexistent/token", "cannot be read"), ("/", "is not a file")] {
        let pool = pool(CLUSTER, &[("pool_token_file", path)]).unwrap().unwrap();
        let what = pool.check_files().unwrap_err().to_string();
        assert!(what.contains("pool_token_file") && what.contains(problem), "{what}");
    }
}

#[test]
fn certificates_are_given_together_and_the_key_is_for_its_owner_alone() {
    let all = [
        ("pool_tls_cert", "/etc/cert.pem"),
        ("pool_tls_key", "/etc/key.pem"),
        ("pool_tls_ca", "/etc/ca.pem"),
        ("pool_tls_crl", "/etc/revoked.crl"),
        ("pool_encrypt_data", "true"),
    ];
    assert_eq!(pool(CLUSTER, &[]).unwrap().unwrap().tls, None);
    let tls = pool(CLUSTER, &all).unwrap().unwrap().tls.unwrap();
    assert_eq!((tls.key.as_path(), tls.encrypts_data), (Path::new("/etc/key.pem"), true));
    let tls = pool(CLUSTER, &all[..3]).unwrap().unwrap().tls.unwrap();
    assert_eq!((tls.revoked, tls.encrypts_data), (None, false));
    for (given, key) in [
        (&all[1..3], "pool_tls_cert"),
        (&[all[0], all[2]], "pool_tls_key"),
        (&all[..2], "pool_tls_ca"),
        (&all[3..4], "pool_tls_crl"),
        (&all[4..], "pool_encrypt_data"),
    ] {
        assert_eq!(refused(CLUSTER, given).0, key, "{given:?}");
    }
    for one in all {
        assert_eq!(refused("", &[one]).0, one.0, "without a pool");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    let given = [("pool_tls_cert", &*cert), ("pool_tls_key", &key), ("pool_tls_ca", &ca)];
    let check = || {
        let pool = pool(CLUSTER, &given).unwrap().unwrap();
        pool.check_files().map_err(|bad| bad.to_string())
    };
    for (path, setting) in [(&cert, "pool_tls_cert"), (&key, "pool_tls_key"), (&ca, "pool_tls_ca")]
    {
        let what = check().unwrap_err();
        assert!(what.contains(setting) && what.contains("cannot be read"), "{what}");
        std::fs::write(path, "x").unwrap();
        if setting == "pool_tls_key" {
            std::fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
            let what = check().unwrap_err();
            assert!(what.contains("0640") && what.contains("chmod 600"), "{what}");
            std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
    }
    assert_eq!(check(), Ok(()));
}

#[test]
fn an_etcd_that_is_reached_encrypted_has_files_that_can_be_read() {
    const SECURE: &str = "https://localhost:2379";
    let all = [
        ("pool_etcd_ca", "/nonexistent/ca.pem"),
        ("pool_etcd_cert", "/nonexistent/cert.pem"),
        ("pool_etcd_key", "/nonexistent/key.pem"),
    ];
    for (cluster, given, key) in [
        (SECURE, &[][..], "pool_etcd_ca"),
        (SECURE, &all[..2], "pool_etcd_key"),
        (SECURE, &[all[0], all[2]], "pool_etcd_cert"),
        (CLUSTER, &all[..1], "pool_etcd_ca"),
        ("", &all[1..], "pool_etcd_cert"),
    ] {
        assert_eq!(refused(cluster, given).0, key, "{cluster} {given:?}");
    }
    let lanes = [("pool_tls_cert", "/c"), ("pool_tls_key", "/k"), ("pool_tls_ca", "/a")];
    let found = pool(SECURE, &lanes).unwrap().unwrap();
    assert!(found.cluster.is_encrypted && found.etcd == Default::default());
    let folder = tempfile::tempdir().unwrap();
    let files = ["ca.pem", "cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let names = files.each_ref().map(|file| file.to_str().unwrap());
    let given = [(all[0].0, names[0]), (all[1].0, names[1]), (all[2].0, names[2])];
    let check = || {
        let pool = pool(SECURE, &given).unwrap().unwrap();
        pool.check_files().map_err(|bad| bad.to_string())
    };
    for (setting, file) in given {
        let what = check().unwrap_err();
        assert!(what.contains(setting) && what.contains("cannot be read"), "{what}");
        std::fs::write(file, "x").unwrap();
        std::fs::set_permissions(file, Permissions::from_mode(0o640)).unwrap();
    }
    let what = check().unwrap_err();
    assert!(what.contains("pool_etcd_key") && what.contains("chmod 600"), "{what}");
    std::fs::set_permissions(names[2], Permissions::from_mode(0o600)).unwrap();
    assert_eq!(check(), Ok(()));
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
