//! A real daemon for each test, in a directory of its own, and child processes to be killed.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a test, although it is no #[test]"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use plasmon_client::{Client, ConnectOptions, ObjectId, StartOptions, Status};
use plasmon_proto::limits::{RESIDENT_SLACK_BYTES_MIN, RESIDENT_SLACK_PER_CAPACITY};
use rustix::process::{Pid, Signal, kill_process};

/// The longest that anything in a test may take; far more than it does on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program `plasmond`, built once from this very workspace.
pub fn plasmond() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            if let Some(given) = std::env::var_os("PLASMON_DAEMON") {
                return PathBuf::from(given);
            }
            // A test program lies in `<target>/<profile>/deps`.
            let test = std::env::current_exe().unwrap();
            let profile = test.parent().and_then(Path::parent).unwrap().to_owned();
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "plasmon-daemon", "--bin", "plasmond"]);
            if profile.ends_with("release") {
                build.arg("--release");
            }
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            build.env("CARGO_TARGET_DIR", profile.parent().unwrap());
            assert!(build.status().unwrap().success(), "plasmond does not build");
            profile.join("plasmond")
        })
        .clone()
}

/// A store that ends with the test.
pub struct TestStore {
    directory: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl TestStore {
    /// With a capacity of so many bytes.
    pub fn new(capacity_bytes: u64) -> Self {
        Self::with(capacity_bytes, &[])
    }

    /// With more settings.
    pub fn with(capacity_bytes: u64, settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("plasmon-test-").tempdir().unwrap();
        let mut all = vec![
            ("socket".to_owned(), socket_in(&directory).display().to_string()),
            ("capacity_bytes".to_owned(), capacity_bytes.to_string()),
        ];
        all.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let store = Self { directory, settings: all };
        store.start();
        store
    }

    fn start(&self) {
        let started = plasmon_client::start(&self.start_options()).unwrap();
        assert_eq!(started.socket, self.socket());
    }

    fn start_options(&self) -> StartOptions {
        StartOptions {
            daemon: Some(plasmond()),
            settings: self.settings.clone(),
            timeout: PATIENCE,
        }
    }

    /// Ends this store and begins another one in its place.
    pub fn start_anew(&self) {
        let before = self.connect().status().unwrap().pid;
        self.connect().shutdown().unwrap();
        until("another store is there", || {
            plasmon_client::start(&self.start_options()).is_ok()
                && Client::connect(&self.options())
                    .and_then(|store| store.status())
                    .is_ok_and(|status| status.pid != before)
        });
    }

    /// Starts a daemon where the one before was killed with its keeper; whether it serves.
    pub fn start_again(&self) -> bool {
        let options = StartOptions {
            daemon: Some(plasmond()),
            settings: self.settings.clone(),
            timeout: PATIENCE,
        };
        plasmon_client::start(&options).is_ok()
    }

    /// A directory for this test alone.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn socket(&self) -> PathBuf {
        socket_in(&self.directory)
    }

    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            socket: Some(self.socket()),
            name: "test".to_owned(),
            connect_timeout: PATIENCE,
            reconnect_timeout: PATIENCE,
            ..ConnectOptions::default()
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.options()).unwrap()
    }

    /// A client without ring and ledger.
    pub fn connect_by_socket(&self) -> Client {
        Client::connect(&ConnectOptions { channel: false, ..self.options() }).unwrap()
    }

    /// Kills the daemon as the machine would when it is out of memory. Its keeper starts another.
    pub fn kill_daemon(&self, status: &Status) {
        kill(status.pid);
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        let options = ConnectOptions { channel: false, ..self.options() };
        let Ok(store) =
            Client::connect(&ConnectOptions { connect_timeout: Duration::from_secs(5), ..options })
        else {
            return;
        };
        if !std::thread::panicking()
            && let Ok(status) = store.status()
        {
            memory_is_within_bounds(&status);
        }
        // A test that stopped its store itself has nothing left to stop.
        let _ = store.shutdown();
        if std::thread::panicking()
            && let Ok(log) = std::fs::read_to_string(self.socket().with_extension("log"))
        {
            eprintln!("--- the daemon's log\n{log}---");
        }
    }
}

fn socket_in(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("store.sock")
}

/// `kill -9`.
pub fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::yield_now();
    }
}

/// The capacity is a bound: what all extents of the daemon take of the machine's memory does not
/// exceed it by more than the stated slack, whatever a test did.
fn memory_is_within_bounds(status: &Status) {
    let slack = (status.capacity_bytes / RESIDENT_SLACK_PER_CAPACITY).max(RESIDENT_SLACK_BYTES_MIN);
    let deadline = Instant::now() + PATIENCE;
    // What was dropped last is given back by a thread of the daemon's.
    while extents_bytes(status.pid) > status.capacity_bytes + slack {
        assert!(Instant::now() < deadline, "{} bytes: {status:?}", extents_bytes(status.pid));
        std::thread::yield_now();
    }
}

/// What the extents of a daemon take of the machine's memory.
fn extents_bytes(daemon: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;

    let Ok(folder) = std::fs::read_dir(format!("/proc/{daemon}/fd")) else { return 0 };
    let extents = folder.flatten().filter(|entry| {
        let link = std::fs::read_link(entry.path());
        link.is_ok_and(|link| link.to_string_lossy().contains("memfd:plasmon-extent"))
    });
    let files: std::collections::BTreeMap<u64, u64> = extents
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .map(|found| (found.ino(), found.blocks() * 512))
        .collect();
    files.into_values().sum()
}

/// How the kernel calls a memfd in the lists of a process. An inode's number is one file's only on
/// its device, and libraries are on others.
const MEMFD: &str = "/memfd:";

/// The parts of this process's memory, as first address, address behind the last, and memfd.
fn mappings() -> Vec<(usize, usize, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parsed = maps.lines().filter(|line| line.contains(MEMFD)).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let inode = fields.nth(3)?.parse().ok()?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)?, inode))
    });
    parsed.collect()
}

/// The file that lies at this address of this process.
pub fn mapped_inode(address: usize) -> Option<u64> {
    let at = |(start, end, _): &(usize, usize, u64)| (*start..*end).contains(&address);
    mappings().into_iter().find(at).map(|(_, _, inode)| inode)
}

/// How often this process has mapped a file.
pub fn mappings_of(inode: u64) -> usize {
    mappings().into_iter().filter(|(_, _, found)| *found == inode).count()
}

/// How many bytes of a file are present in this process's memory, as far as it has touched them.
pub fn present_bytes(inode: u64) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut within, mut kib) = (false, 0);
    for line in smaps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [range, _, _, _, found, ..] if range.contains('-') => {
                within = found.parse() == Ok(inode) && line.contains(MEMFD);
            }
            ["Rss:", count, "kB"] if within => kib += count.parse::<u64>().unwrap(),
            _ => {}
        }
    }
    kib << 10
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut data = Vec::with_capacity(bytes + 8);
    while data.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(bytes);
    data
}

/// An id made of one number.
pub fn id(number: u64) -> ObjectId {
    let mut bytes = [0x1d; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

/// Another process that does what its test program's `child` does for an errand.
pub struct ChildProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    input: ChildStdin,
}

const ERRAND: &str = "PLASMON_TEST_ERRAND";
const SOCKET: &str = "PLASMON_TEST_SOCKET";

/// In a child: what it is to do, and with which store.
pub fn errand() -> Option<(String, ConnectOptions)> {
    let errand = std::env::var(ERRAND).ok()?;
    let socket = PathBuf::from(std::env::var_os(SOCKET)?);
    let options = ConnectOptions {
        socket: Some(socket),
        name: "child".to_owned(),
        connect_timeout: PATIENCE,
        reconnect_timeout: PATIENCE,
        ..ConnectOptions::default()
    };
    Some((errand, options))
}

/// In a child: says something to the test.
pub fn say(word: &str) {
    // The test harness writes to the same output without ending its line.
    println!("\nSAY {word}");
}

/// In a child: waits until the test says something, or for ever if it is to be killed.
pub fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

impl ChildProcess {
    /// Starts the test `child` of this test program with an errand.
    pub fn start(store: &TestStore, errand: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
            .env(ERRAND, errand)
            .env(SOCKET, store.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take().unwrap();
        Self { child, output, input }
    }

    /// The next thing that it says.
    pub fn heard(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the child ended silently: {:?}", self.child.wait());
            if let Some(word) = line.trim().strip_prefix("SAY ") {
                return word.to_owned();
            }
        }
    }

    pub fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends well.
    pub fn finish(mut self) {
        drop(self.input);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "the child failed: {rest}");
    }
}
