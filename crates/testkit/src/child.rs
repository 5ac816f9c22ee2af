//! Child processes that a test can talk to and kill.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use plasmon_client::ConnectOptions;

use crate::{TEST_TIMEOUT, TestStore};

/// Another process that does what its test program's `child` does for an errand.
#[derive(Debug)]
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
        connect_timeout: TEST_TIMEOUT,
        reconnect_timeout: TEST_TIMEOUT,
        ..ConnectOptions::default()
    };
    Some((errand, options))
}

/// In a child: sends a line to the test.
pub fn say(word: &str) {
    // The test harness writes to the same output without ending its line.
    println!("\nSAY {word}");
}

/// In a child: waits for a line of the test, or forever if it is to be killed.
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

    /// The next line that it sends.
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

    /// Says something to it.
    pub fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").unwrap();
    }

    /// Its number.
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
