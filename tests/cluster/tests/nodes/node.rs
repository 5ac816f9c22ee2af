//! A node: a daemon with its keeper and its pool daemon, and a client.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use plasmon_client::{Client, ConnectOptions, Filter, ObjectId, Policy};
use plasmon_testkit::{
    Etcd, Signal, TEST_TIMEOUT, build, daemon_command, kill, plasmond, signal_what_is_left, until,
};
use tempfile::TempDir;

/// At once.
pub(crate) const NOW: Option<Duration> = Some(Duration::ZERO);

/// As long as a test waits for anything.
pub(crate) const LONG: Option<Duration> = Some(TEST_TIMEOUT);

/// A node. It ends with the value.
pub(crate) struct Node {
    pub(crate) client: Client,
    folder: TempDir,
    daemon: Child,
    is_killed: bool,
}

/// So many nodes in one pool, which have all joined it and are connected with each other; `None`
/// where there is no etcd.
pub(crate) fn nodes(count: usize, flags: &[&str]) -> Option<(Etcd, Vec<Node>)> {
    Some(nodes_with(Etcd::start()?, count, flags))
}

/// The same, with this etcd.
pub(crate) fn nodes_with(etcd: Etcd, count: usize, flags: &[&str]) -> (Etcd, Vec<Node>) {
    let nodes: Vec<Node> =
        (0..count).map(|number| Node::start(&etcd, &format!("node{number}"), flags)).collect();
    for node in &nodes {
        node.wait_until_joined();
        node.wait_until_it_reaches(count);
    }
    (etcd, nodes)
}

impl Node {
    pub(crate) fn start(etcd: &Etcd, name: &str, flags: &[&str]) -> Self {
        Self::start_inside(&[], etcd, name, flags)
    }

    /// Starts a node by a command that begins with these words, such as those that bring it into a
    /// network namespace.
    pub(crate) fn start_inside(inside: &[String], etcd: &Etcd, name: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command = command_of(folder.path(), etcd, name, flags);
        let daemon = within(inside, command).stdin(Stdio::null()).spawn().unwrap();
        let client = connect(socket(folder.path()));
        Self { client, folder, daemon, is_killed: false }
    }

    /// Its power is gone: all of it is killed at once, and what is on its disk stays.
    pub(crate) fn switch_off(&mut self) {
        self.kill_all();
    }

    /// It starts again on its disk, as a new store.
    pub(crate) fn switch_on(&mut self, etcd: &Etcd, name: &str, flags: &[&str]) {
        assert!(self.is_killed, "it was switched off");
        let mut command = command_of(self.folder.path(), etcd, name, flags);
        self.daemon = command.stdin(Stdio::null()).spawn().unwrap();
        self.is_killed = false;
        self.client = connect(socket(self.folder.path()));
    }

    /// A file or folder of its own, by its name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another client.
    pub(crate) fn connect(&self) -> Client {
        connect(socket(self.folder.path()))
    }

    /// Puts and deletes an object of its own.
    pub(crate) fn wait_until_joined(&self) {
        let name = plasmon_client::Name::new("", format!("@joined:{}", self.daemon.id())).unwrap();
        let options =
            plasmon_client::PutOptions { name: Some(name), copies: 1, ..Default::default() };
        let mut id = None;
        until("the node has joined", || {
            id = self.client.put(b"", &options).ok();
            id.is_some()
        });
        assert_eq!(self.client.delete(&[id.unwrap()]).unwrap(), [None]);
    }

    /// Waits until it knows so many nodes, itself included, and is connected with them. Before that
    /// it puts objects with fewer copies than it is asked for.
    pub(crate) fn wait_until_it_reaches(&self, nodes: usize) {
        until("the node reaches all others", || {
            let found = self.client.pool_participation();
            found.is_ok_and(|found| found.reaches_all() && found.live as usize == nodes)
        });
    }

    /// Whether there is a copy that is never evicted.
    pub(crate) fn keeps(&self, id: &ObjectId) -> bool {
        let listed = self.client.list(&Filter::default()).unwrap();
        listed.iter().any(|info| info.id == *id && info.traits.policy == Policy::Keep)
    }

    /// `kill -9` for its pool daemon, and waits until it is gone.
    pub(crate) fn kill_pool_daemon(&self) {
        kill_and_wait(self.pool_daemon());
    }

    /// Stops its pool daemon without ending it; which process that is.
    pub(crate) fn stop_pool_daemon(&self) -> u32 {
        let pid = self.pool_daemon();
        kill(pid, Signal::STOP);
        pid
    }

    /// Which process its pool daemon is.
    pub(crate) fn pool_daemon(&self) -> u32 {
        let mut pid = 0;
        until("there is a pool daemon", || {
            pid = pool_daemon_of(&socket(self.folder.path())).unwrap_or(0);
            pid > 0
        });
        pid
    }

    /// Its pool daemon stands still for a while.
    pub(crate) fn pause_pool_daemon(&self, time: Duration) {
        let Some(pid) = pool_daemon_of(&socket(self.folder.path())) else { return };
        signal_what_is_left(pid, Signal::STOP);
        std::thread::sleep(time);
        signal_what_is_left(pid, Signal::CONT);
    }

    /// `kill -9` for its daemon: the keeper starts another one.
    pub(crate) fn kill_daemon(&self) {
        kill_and_wait(self.client.status().unwrap().pid);
    }

    /// `kill -9` for all of it at once.
    pub(crate) fn kill(mut self) {
        self.kill_all();
    }

    fn kill_all(&mut self) {
        if std::mem::replace(&mut self.is_killed, true) {
            return;
        }
        // Daemon and keeper start each other again, so none may run while the other ends.
        let processes = || processes_of(&socket(self.folder.path()));
        for pid in processes() {
            signal_what_is_left(pid, Signal::STOP);
        }
        processes().into_iter().for_each(kill_and_wait);
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// The program `plasmon-poold`, built once from this very workspace.
fn poold() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build(&["plasmon-poold"]).join("plasmon-poold")).clone()
}

/// What stands for the folder of a node in its flags.
pub(crate) const FOLDER: &str = "FOLDER";

/// The daemon of a node that has its files in this folder.
fn command_of(folder: &Path, etcd: &Etcd, name: &str, flags: &[&str]) -> Command {
    let own = |flag: &&str| flag.replace(FOLDER, &folder.display().to_string());
    let mut command = daemon_command(&plasmond(), &socket(folder));
    command.args(["--capacity-bytes", "256m", "--node-name", name]);
    command.args(flags.iter().map(own));
    let endpoints = etcd.endpoints().join(",");
    let scheme = if endpoints.starts_with("https://") { "" } else { "etcd://" };
    command.arg("--cluster").arg(format!("{scheme}{endpoints}"));
    command.env("PLASMON_POOLD", poold());
    command.env("XDG_STATE_HOME", folder);
    if let Some(level) = std::env::var_os("PLASMON_POOLD_LOG") {
        command.env("PLASMON_POOLD_LOG", level);
    }
    command
}

/// A command that begins with these words.
fn within(words: &[String], command: Command) -> Command {
    let Some((first, rest)) = words.split_first() else { return command };
    let mut longer = Command::new(first);
    longer.args(rest).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => longer.env(name, value),
            None => longer.env_remove(name),
        };
    }
    longer
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("store.sock")
}

fn connect(socket: PathBuf) -> Client {
    let options = ConnectOptions {
        socket: Some(socket),
        name: "test".to_owned(),
        connect_timeout: TEST_TIMEOUT,
        ..ConnectOptions::default()
    };
    Client::connect(&options).unwrap()
}

fn kill_and_wait(pid: u32) {
    if let Some(process) = signal_what_is_left(pid, Signal::KILL) {
        assert!(plasmon_testkit::ends(&process), "a process that is killed ends");
    }
}

/// The pool daemon of the store at this socket.
fn pool_daemon_of(socket: &Path) -> Option<u32> {
    processes_of(socket).into_iter().find(|pid| program_of(*pid).ends_with(b"plasmon-poold"))
}

/// The processes that were started with this socket: daemon, keeper and pool daemon.
fn processes_of(socket: &Path) -> Vec<u32> {
    let socket = socket.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| arguments_of(*pid).iter().any(|argument| argument.ends_with(socket)))
        .collect()
}

fn program_of(pid: u32) -> Vec<u8> {
    arguments_of(pid).into_iter().next().unwrap_or_default()
}

fn arguments_of(pid: u32) -> Vec<Vec<u8>> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}
