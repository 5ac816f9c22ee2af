//! `plasmon pool dev` and what `start` and `doctor` say of pools, with a real etcd where there is
//! one. The pool daemon is a script that sleeps, or becomes the real one.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use plasmon_testkit::{Etcd, EtcdTls, Signal, build, ends, kill, process, until};
use serde_json::Value;

use crate::{Fixture, text};

/// Without a store. Its pool daemons sleep, and so never join.
fn fixture() -> Fixture {
    fixture_with("sleep 600")
}

/// The same, with real pool daemons.
pub(crate) fn joining() -> Fixture {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| build(&["plasmon-poold"]).join("plasmon-poold"));
    fixture_with(&format!("{} \"$@\"", program.display()))
}

/// Its pool daemons write their numbers and arguments to files of the folder, and become this
/// program.
fn fixture_with(program: &str) -> Fixture {
    let fixture = Fixture { directory: tempfile::tempdir().unwrap() };
    let script = fixture.path("poold");
    let folder = fixture.directory.path().display();
    let text = format!("#!/bin/sh\necho \"$@\" > {folder}/poold.$$\nexec {program}\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    fixture
}

fn command(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = fixture.command(arguments);
    command.env("PLASMON_POOLD", fixture.path("poold")).env("TMPDIR", fixture.directory.path());
    command
}

/// What a command that fails says.
fn fails(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stderr)
}

/// The arguments of the pool daemons that were started, by their numbers.
fn pool_daemons(fixture: &Fixture) -> Vec<(u32, String)> {
    let entries = fs::read_dir(fixture.directory.path()).unwrap().map(|entry| entry.unwrap());
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let pid = name.strip_prefix("poold.")?.parse().ok()?;
        Some((pid, fs::read_to_string(entry.path()).unwrap()))
    });
    // A file is made before it is written.
    found.filter(|(_, arguments)| arguments.ends_with('\n')).collect()
}

#[test]
fn a_store_is_started_as_a_node_of_a_pool() {
    let fixture = fixture();
    let cluster = "etcd://127.0.0.1:1,[::1]:2/prod";
    for flag in ["--name", "--node-name"] {
        let start = ["start", "--capacity", "16m", "--cluster", cluster, flag, "a", "--json"];
        let out = command(&fixture, &start).args(["--join-timeout", "0"]).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        let started: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&started["cluster"], &started["node_name"]), (&cluster.into(), &"a".into()));
        assert_eq!(started["joined"], false);
        assert!(fixture.good(&["status"]).contains(&format!("{cluster}, as a")));
        until("its pool daemon is started", || !pool_daemons(&fixture).is_empty());
        let (pid, arguments) = pool_daemons(&fixture).remove(0);
        assert!(arguments.ends_with(&format!("--cluster {cluster} --node-name a\n")));
        let pool_daemon = process(pid);
        fixture.good(&["stop"]);
        assert!(ends(&pool_daemon));
        fs::remove_file(fixture.path(&format!("poold.{pid}"))).unwrap();
    }
}

/// The guide named them, and only `plasmond` took them.
#[test]
fn start_takes_the_settings_of_a_node_as_flags() {
    let fixture = fixture();
    let token = fixture.path("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let node = ["--pool-listen", "127.0.0.1:0", "--pool-token-file", "token"];
    let more = ["--pool-folder", "node", "--pool-zone", "z", "--pool-weight", "0"];
    let start = ["start", "--capacity", "16m", "--cluster", "etcd://127.0.0.1:1", "--name", "a"];
    let all = [&start[..], &node, &more, &["--pool-movers", "2", "--join-timeout", "0.1"]].concat();
    let out = command(&fixture, &all).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let told = text(&out.stderr);
    assert!(told.contains("node a is not ready in the pool etcd://127.0.0.1:1/"), "{told}");
    assert!(told.contains("no pool daemon answers") && told.contains("s.log"), "{told}");
    until("its pool daemon is started", || !pool_daemons(&fixture).is_empty());
    let (_, arguments) = pool_daemons(&fixture).remove(0);
    let expected = format!(
        "--pool-listen 127.0.0.1:0 --pool-token-file {} --pool-folder {} --pool-zone z \
         --pool-weight 0 --pool-movers 2\n",
        token.display(),
        fixture.path("node").display(),
    );
    assert!(arguments.ends_with(&expected), "{arguments}");
    fixture.good(&["stop"]);
    let message = fails(command(&fixture, &start).args(["--pool-token-file", "missing"]));
    assert!(message.contains("missing") && message.contains("pool_token_file"), "{message}");
    let message = fails(command(&fixture, &start).args(["--pool-listen", "0.0.0.0:1"]));
    assert!(message.contains("pool_listen"), "{message}");
    let message = fails(command(&fixture, &start).args(["--pool-tls-cert", "missing"]));
    assert!(message.contains("pool_tls_key"), "{message}");
    let message = fails(command(&fixture, &start).arg("--pool-encrypt-data"));
    assert!(message.contains("pool_encrypt_data"), "{message}");
    let certificates = ["--pool-tls-cert", "token", "--pool-tls-key", "token"];
    let all = command(&fixture, &start).args(certificates).args(["--pool-tls-ca", "gone"]).output();
    let message = text(&all.unwrap().stderr);
    assert!(message.contains("pool_tls_ca") && message.contains("gone"), "{message}");
}

#[test]
fn certificates_are_made_once_renewed_and_revoked() {
    let fixture = fixture();
    let init = ["pool", "init-certs", "certs", "--cluster", "prod"];
    let run = |more: &[&str]| fixture.json(&[&init[..], more].concat());
    let made = run(&["--node", "a,b", "--days", "10"]);
    assert_eq!((&made["authority_made"], &made["cluster"]), (&true.into(), &"prod".into()));
    let mode = |file: &str| fs::metadata(fixture.path(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("certs/ca.key"), mode("certs/nodes/b/key.pem")), (0o600, 0o600));
    let authority = fs::read(fixture.path("certs/ca.pem")).unwrap();
    let again = run(&["--node", "c", "--node", "a", "--revoke", "a"]);
    assert_eq!(again["authority_made"], false);
    let renewed = |node: usize| again["nodes"][node]["renewed"].clone();
    assert_eq!((renewed(0), renewed(1)), (false.into(), true.into()));
    assert_eq!(again["revoked"][0]["certificates"], 1, "not the one that is made after that");
    assert_eq!(fs::read(fixture.path("certs/ca.pem")).unwrap(), authority);
    let list = fs::read(fixture.path("certs/revoked.crl")).unwrap();
    for node in ["a", "b", "c"] {
        let folder = fixture.path("certs/nodes").join(node);
        assert_eq!(fs::read(folder.join("revoked.crl")).unwrap(), list);
        assert_eq!(fs::read(folder.join("ca.pem")).unwrap(), authority);
    }
    let said = fixture.good(&[&init[..], &["--node", "d"]].concat());
    assert!(said.contains("node d: made") && said.contains("copy certs/nodes/d"), "{said}");
    for (more, words) in
        [(&["--revoke", "x"][..], "node x"), (&["--node", "a/b"], "\"a/b\" is not a name")]
    {
        let message = fails(&mut fixture.command(&[&init[..], more].concat()));
        assert!(message.contains(words), "{message}");
    }
    let other = ["pool", "init-certs", "certs", "--cluster", "test", "--node", "a"];
    let message = fails(&mut fixture.command(&other));
    assert!(message.contains("is not that of pool test"), "{message}");
    let unnamed = ["pool", "init-certs", "certs", "--cluster", "a b"];
    let message = fails(&mut fixture.command(&unnamed));
    assert!(message.contains("is not the name of a pool"), "{message}");
}

/// All that is said to etcd is encrypted, by certificates that the command has made; a node with a
/// wrong one says why it does not join, and joins when it has the right one.
#[test]
fn etcd_is_reached_encrypted_with_certificates_of_init_certs() {
    let fixture = joining();
    let hosts = ["--etcd", "127.0.0.1,localhost", "--node", "a", "--cluster", "prod"];
    let made = fixture.json(&[&["pool", "init-certs", "certs"], &hosts[..]].concat());
    assert_eq!(made["etcd"][0]["host"], "127.0.0.1");
    let file = |name: &str| fixture.path("certs/etcd/127.0.0.1").join(name);
    let (certificate, key, authority) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    let tls = EtcdTls { certificate: &certificate, key: &key, clients: Some(&authority) };
    let Some(etcd) = Etcd::start_encrypted(tls) else { return };
    let cluster = format!("{}/prod", etcd.endpoints()[0]);
    let own = ["--pool-etcd-cert", "certs/nodes/a/cert.pem"];
    let own = [&own[..], &["--pool-etcd-key", "certs/nodes/a/key.pem"]].concat();
    let start = ["start", "--capacity", "16m", "--cluster", &cluster, "--name", "a"];
    let message = fails(command(&fixture, &start).args(&own));
    assert!(message.contains("pool_etcd_ca"), "{message}");
    let plain = cluster.replace("https://", "etcd://");
    let doctor = |cluster: &str, more: &[&str]| {
        let arguments = [&["--cluster", cluster], more].concat();
        doctor_says(&fixture, &arguments, "etcd")
    };
    let words = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let in_clear = doctor(&plain, &[]);
    assert!(words(&in_clear, "found").contains("is named by https://"), "{in_clear}");
    let unknown = doctor(&cluster, &["--pool-etcd-ca", "certs/ca.pem"]);
    assert!(words(&unknown, "found").contains("--client-cert-auth"), "{unknown}");
    assert!(words(&unknown, "advice").contains("--pool-etcd-cert"), "{unknown}");

    fixture.json(&["pool", "init-certs", "other"]);
    fs::copy(fixture.path("other/ca.pem"), fixture.path("ca.pem")).unwrap();
    let with = [&["--pool-etcd-ca", "ca.pem"], &own[..]].concat();
    let more = ["--pool-folder", "node", "--join-timeout", "0"];
    let out = command(&fixture, &start).args(&with).args(more).output();
    assert!(out.unwrap().status.success());
    let log = || fs::read_to_string(fixture.path("s.log")).unwrap_or_default();
    until("the log says why", || log().contains("its certificate is not of the authority in"));
    fs::copy(&authority, fixture.path("ca.pem")).unwrap();
    until("the node has joined", || pool_node(&fixture, &with)["verdict"] == "good");
    let found = doctor(&cluster, &with);
    assert!(words(&found, "found").starts_with("https://127.0.0.1:"), "{found}");
    assert_eq!(found["verdict"], "good");
    let found = doctor_says(&fixture, &with, "etcd encryption");
    assert_eq!(found["found"], "reached encrypted");
    // Commands take the variables of the settings, too.
    let mut status = command(&fixture, &["pool", "status", "--json"]);
    status.env("PLASMON_POOL_TLS_CA", &authority);
    status.env("PLASMON_POOL_TLS_CERT", fixture.path("certs/nodes/a/cert.pem"));
    status.env("PLASMON_POOL_TLS_KEY", fixture.path("certs/nodes/a/key.pem"));
    let out = status.output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&found["etcd_encrypted"], &found["cluster"]), (&true.into(), &cluster.into()));
    fixture.good(&["stop"]);
}

#[test]
fn a_store_of_a_pool_is_not_started_with_what_cannot_work() {
    let fixture = fixture();
    let start = ["start", "--cluster", "etcd://127.0.0.1:1"];
    let message = fails(command(&fixture, &start).env("PLASMON_POOLD", "/nonexistent/poold"));
    assert!(message.contains("plasmon-poold") && message.contains("/nonexistent/poold"));
    let message = fails(command(&fixture, &["start", "--cluster", "h:2379"]).env("PATH", ""));
    assert!(message.contains("etcd://HOST:PORT"), "{message}");
    let message = fails(&mut command(&fixture, &["start", "--name", "a"]));
    assert!(message.contains("cluster"), "{message}");
    fixture.fails(3, &["status"]);
}

#[test]
fn doctor_looks_at_each_member_of_etcd() {
    let fixture = fixture();
    let doctor = |cluster: &str| {
        let out = command(&fixture, &["doctor", "--json", "--cluster", cluster]).output().unwrap();
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        let checks = found["checks"].as_array().unwrap().clone();
        let of = move |what: &str| {
            let these = checks.iter().filter(|check| check["what"] == what);
            these.cloned().collect::<Vec<Value>>()
        };
        (out.status.code(), of)
    };
    let (code, checks) = doctor("etcd://127.0.0.1:1");
    assert_eq!(code, Some(1));
    assert_eq!(checks("etcd")[0]["verdict"], "bad");
    assert_eq!(checks("pool daemon")[0]["verdict"], "good");
    assert_eq!(checks("pool address")[0]["verdict"], "note");
    let (code, checks) = doctor("127.0.0.1:1");
    assert_eq!((code, &checks("pool")[0]["verdict"]), (Some(1), &"bad".into()));

    let Some(etcd) = Etcd::start() else { return };
    let endpoint = &etcd.endpoints()[0];
    let (code, checks) = doctor(&format!("etcd://{endpoint},127.0.0.1:1/prod"));
    let members = checks("etcd");
    assert_eq!((&members[0]["verdict"], &members[1]["verdict"]), (&"good".into(), &"note".into()));
    assert!(members[0]["found"].as_str().unwrap().contains("version 3."), "{members:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_pool_for_development_needs_etcd_and_the_pool_daemon() {
    let fixture = fixture();
    let dev = ["pool", "dev"];
    let message = fails(command(&fixture, &dev).env("PATH", ""));
    assert!(message.contains("etcd-server"), "{message}");
    let message = fails(command(&fixture, &dev).env("PLASMON_POOLD", "/nonexistent/poold"));
    assert!(message.contains("/nonexistent/poold"), "{message}");
    for wrong in [&["--nodes", "0"][..], &["--nodes", "17"], &["--capacity", "lots"]] {
        fixture.fails(2, &[&dev, wrong].concat());
    }
    assert_eq!(folders(&fixture), 0);
}

/// The folders of pools that are there.
fn folders(fixture: &Fixture) -> usize {
    let entries = fs::read_dir(fixture.directory.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("plasmon-pool-")).count()
}

/// A pool of two nodes that runs.
pub(crate) struct Pool {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Events until it was ready.
    events: Vec<Value>,
}

impl Pool {
    /// `None` where there is no etcd.
    pub(crate) fn start(fixture: &Fixture) -> Option<Self> {
        Self::start_with(fixture, Stdio::null())
    }

    fn start_with(fixture: &Fixture, input: impl Into<Stdio>) -> Option<Self> {
        let mut pool = Self::begin(fixture, input)?;
        pool.hear_until("ready");
        assert_eq!(pool_daemons(fixture).len(), 2);
        Some(pool)
    }

    /// Its command is started, and has told nothing yet.
    fn begin(fixture: &Fixture, input: impl Into<Stdio>) -> Option<Self> {
        drop(Etcd::start()?);
        let mut command =
            command(fixture, &["pool", "dev", "--nodes", "2", "--capacity", "16m", "--json"]);
        command.stdin(input).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command has its end of the input.
        drop(command);
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, output, events: Vec::new() })
    }

    fn hear_until(&mut self, last: &str) {
        while self.events.last().is_none_or(|event| event["event"] != last) {
            let event = self.next().expect("an event");
            self.events.push(event);
        }
    }

    /// What it tells next; `None` when it has ended.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// What was told of a node.
    pub(crate) fn node(&self, name: &str) -> &Value {
        self.events.iter().find(|event| event["name"] == name).unwrap()
    }

    /// Every process that runs for it, apart from keepers.
    fn processes(&self, fixture: &Fixture) -> Vec<OwnedFd> {
        let own = self.events.iter().filter_map(|event| event["pid"].as_u64());
        let own = own.map(|pid| u32::try_from(pid).unwrap());
        let all = own.chain(pool_daemons(fixture).into_iter().map(|(pid, _)| pid));
        all.map(process).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // What it started ends with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_pool_for_development_ends_with_the_other_end_of_a_socket() {
    let fixture = joining();
    let (input, words) = UnixStream::pair().unwrap();
    let Some(mut pool) = Pool::start_with(&fixture, OwnedFd::from(input)) else { return };
    drop(words);
    assert_eq!(pool.next().unwrap()["event"], "ended");
}

/// The command inherits its standard input from the program that starts it. It read what came
/// there, and so took requests away from a program that was asked through its pipe.
#[test]
fn a_pool_for_development_ends_whole_with_its_standard_input_and_reads_nothing_there() {
    let fixture = joining();
    let (mut input, mut words) = std::io::pipe().unwrap();
    let Some(mut pool) = Pool::start_with(&fixture, input.try_clone().unwrap()) else { return };
    words.write_all(b"a request\n").unwrap();
    let ready = pool.events.last().unwrap();
    let cluster = format!("{}/default", ready["cluster"].as_str().unwrap());
    let folder = ready["folder"].as_str().unwrap().to_owned();
    assert!(folder.starts_with(fixture.directory.path().to_str().unwrap()));
    let processes = pool.processes(&fixture);
    assert_eq!(processes.len(), 1 + 2 + 2, "etcd, daemons, pool daemons");

    let socket = pool.node("node1")["socket"].as_str().unwrap();
    let status = fixture.json(&["status", "--socket", socket]);
    assert_eq!((&status["cluster"], &status["node_name"]), (&cluster.into(), &"node1".into()));
    assert_eq!(status["capacity_bytes"], 16 << 20);

    // When it says that it is ready, each node is connected with the other one.
    for node in ["node1", "node2"] {
        let socket = pool.node(node)["socket"].as_str().unwrap();
        let found = pool_node(&fixture, &["--socket", socket]);
        let said = format!("{node} has joined, and is connected with 1 other node");
        assert_eq!((&found["verdict"], &found["found"]), (&"good".into(), &said.into()));
    }

    // Of a daemon that is killed the keeper starts another, which belongs to the pool as well.
    let killed = u32::try_from(pool.node("node2")["pid"].as_u64().unwrap()).unwrap();
    kill(killed, Signal::KILL);
    let event = pool.next().unwrap();
    assert_eq!((&event["event"], &event["name"]), (&"node_ended".into(), &"node2".into()));
    let successor = process(u32::try_from(event["pid"].as_u64().unwrap()).unwrap());

    drop(words);
    assert_eq!(pool.next().unwrap()["event"], "ended");
    let mut left = String::new();
    input.read_to_string(&mut left).unwrap();
    assert_eq!(left, "a request\n");
    assert!(pool.child.wait().unwrap().success());
    assert!(processes.iter().chain([&successor]).all(ends));
    assert!(!Path::new(&folder).exists());
}

#[test]
fn a_pool_for_development_ends_by_a_signal() {
    let fixture = joining();
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut pool) = Pool::start(&fixture) else { return };
        let processes = pool.processes(&fixture);
        kill(pool.child.id(), signal);
        assert_eq!(pool.next().unwrap()["event"], "ended");
        assert!(pool.child.wait().unwrap().success());
        assert!(processes.iter().all(ends));
        assert_eq!(folders(&fixture), 0);
        for (pid, _) in pool_daemons(&fixture) {
            fs::remove_file(fixture.path(&format!("poold.{pid}"))).unwrap();
        }
    }
}

/// `start` and `doctor` said that no pool daemon answers, and to look at etcd; the reason was in
/// the log of the store alone.
#[test]
fn why_a_pool_daemon_does_not_come_up_is_said() {
    let fixture = joining();
    fixture.json(&["pool", "init-certs", "certs", "--cluster", "prod", "--node", "b"]);
    let start = ["start", "--capacity", "16m", "--cluster", "etcd://127.0.0.1:1/prod"];
    let node = ["--name", "a", "--join-timeout", "0", "--pool-folder", "node"];
    let files = ["--pool-tls-cert", "certs/nodes/b/cert.pem", "--pool-tls-key"];
    let more = ["certs/nodes/b/key.pem", "--pool-tls-ca", "certs/nodes/b/ca.pem"];
    let out = command(&fixture, &[&start[..], &node, &files, &more].concat()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let says = |words: &str| {
        let found = pool_node(&fixture, &[]);
        found["verdict"] == "bad" && found["found"].as_str().unwrap().contains(words)
    };
    until("the reason is said", || {
        says("pool daemon does not come up") && says("it is for node b of pool prod")
    });
    fixture.good(&["stop"]);
}

/// What `doctor` says of the node of a store.
fn pool_node(fixture: &Fixture, arguments: &[&str]) -> Value {
    doctor_says(fixture, arguments, "pool node")
}

fn doctor_says(fixture: &Fixture, arguments: &[&str], what: &str) -> Value {
    let out = command(fixture, &[&["doctor", "--json"], arguments].concat()).output().unwrap();
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["what"] == what).unwrap().clone()
}

/// It said that it was ready when its stores served, though no node had joined.
#[test]
fn a_pool_for_development_whose_nodes_do_not_join_is_not_ready() {
    let fixture = fixture();
    let Some(mut pool) = Pool::begin(&fixture, Stdio::null()) else { return };
    pool.hear_until("node");
    until("both pool daemons are started", || pool_daemons(&fixture).len() == 2);
    kill(pool.child.id(), Signal::INT);
    pool.hear_until("ended");
    assert!(pool.events.iter().all(|event| event["event"] != "ready"), "{:?}", pool.events);
    assert!(pool.child.wait().unwrap().success());

    let dev = ["pool", "dev", "--nodes", "1", "--capacity", "16m", "--join-timeout", "0.1"];
    let said = fails(&mut command(&fixture, &dev));
    assert!(said.contains("node1 has not joined the pool"), "{said}");
    assert!(said.contains("no pool daemon answers for this store"), "{said}");
    assert_eq!(folders(&fixture), 0);
    fixture.fails(2, &["pool", "dev", "--join-timeout", "-1"]);
}

/// `start` said that a store is the node before it had joined, and also when it never would.
#[test]
fn a_node_whose_name_is_taken_is_told_so_when_it_starts() {
    let Some(etcd) = Etcd::start() else { return };
    let cluster = format!("etcd://{}", etcd.endpoints()[0].trim_start_matches("http://"));
    let start = ["start", "--capacity", "16m", "--cluster", &cluster, "--name", "a", "--json"];
    let started = |fixture: &Fixture, within: &str| -> Value {
        let folder = ["--pool-folder", "node", "--join-timeout", within];
        let out = command(fixture, &[&start[..], &folder].concat()).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let (first, second) = (joining(), joining());
    let told = started(&first, "60");
    assert_eq!((&told["joined"], &told["not_joined"]), (&true.into(), &Value::Null));
    assert_eq!(
        pool_node(&first, &[])["found"],
        "a has joined, and is connected with 0 other nodes"
    );
    let port = doctor_says(&first, &[], "pool port");
    assert_eq!(port["verdict"], "good", "{port}");
    assert!(
        port["found"].as_str().unwrap().starts_with("1 node answers, the slowest in "),
        "{port}"
    );
    assert_eq!(doctor_says(&first, &[], "clock")["verdict"], "good");
    // The reason comes when the node that leads has seen it.
    let mut within = 1;
    until("start says why", || {
        let told = started(&second, &within.to_string());
        assert_eq!(told["joined"], false);
        let is_said = told["not_joined"].as_str().unwrap().contains("slot 0 has this name; choose");
        if !is_said {
            second.good(&["stop"]);
            within *= 2;
        }
        is_said
    });
    let found = pool_node(&second, &[]);
    assert_eq!(found["verdict"], "bad");
    assert!(found["found"].as_str().unwrap().contains("slot 0 has this name; choose"), "{found}");
}

#[test]
fn the_processes_of_a_pool_end_when_its_command_is_killed() {
    let fixture = joining();
    let Some(mut pool) = Pool::start(&fixture) else { return };
    let processes = pool.processes(&fixture);
    pool.child.kill().unwrap();
    pool.child.wait().unwrap();
    assert!(processes.iter().all(ends));
}

#[test]
fn looking_at_a_pool_that_is_not_there_says_why() {
    let fixture = fixture();
    let wrong = [
        (&["pool", "status"][..], "which pool?"),
        (&["pool", "nodes", "--cluster", "10.0.0.1:2379"], "etcd://"),
        (&["pool", "forget", "a", "--cluster", "etcd://h:1/a b"], "cannot be the name"),
        (&["pool", "drain", "a", "--no-wait", "--timeout", "1"], "cannot be used with"),
        (&["pool", "undrain", "a", "--cluster", "a"], "etcd://"),
    ];
    for (arguments, said) in wrong {
        let out = command(&fixture, arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
    let away = "etcd://127.0.0.1:1";
    for arguments in
        [&["status"][..], &["nodes"], &["forget", "a"], &["drain", "a"], &["undrain", "a"]]
    {
        let arguments = [&["pool"], arguments, &["--cluster", away]].concat();
        let said = fails(&mut command(&fixture, &arguments));
        assert!(said.contains(away) && said.contains("etcd does not answer"), "{said}");
    }
    for arguments in [&["pool", "where", "@prod:x"][..], &["pool", "verify"]] {
        let out = command(&fixture, arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(3), "no store runs: {}", text(&out.stderr));
    }

    let Some(etcd) = Etcd::start() else { return };
    let endpoint = etcd.endpoints().remove(0);
    let cluster = format!("etcd://{}/prod", endpoint.trim_start_matches("http://"));
    let said = fails(&mut command(&fixture, &["pool", "status", "--cluster", &cluster]));
    assert!(said.contains("there is no pool") && said.contains(&cluster), "{said}");
}
