//! A store whose daemon and keeper are under supervision.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use plasmon_client::{Client, ConnectOptions};
use plasmon_testkit::{TEST_TIMEOUT, daemon_command, ends, plasmond, process, readable};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::round::until;
use crate::supervisor::Supervisor;

/// How long a client goes on trying while things fail.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(3);

/// What the store holds in memory; a round writes more.
const CAPACITY: &str = "16m";

/// What every message of a panic contains.
const PANIC: &str = "panicked at";

/// A folder, a daemon in it, and the verdicts for its system calls.
#[derive(Debug)]
pub struct Node {
    folder: TempDir,
    /// Where faults are injected.
    pub supervisor: Supervisor,
    child: Child,
}

/// How a start went.
#[derive(Debug)]
pub enum StartOutcome {
    /// The store serves.
    Serving(Node),
    /// The daemon ended; what it said.
    Refused(String),
}

impl Node {
    /// Starts a daemon under the supervisor.
    pub fn start(supervisor: &Supervisor) -> Result<StartOutcome> {
        let folder = tempfile::Builder::new().prefix("plasmon-faults-").tempdir()?;
        let mut command = daemon_command(&plasmond(), &socket_in(&folder));
        command.arg("--spill-dir").arg(folder.path().join("spill"));
        command.args(["--capacity-bytes", CAPACITY, "--ready-fd=1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(log_in(&folder))?);
        let spawned = supervisor.run(move || command.spawn())?;
        let spawned = spawned.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?;
        let child = match spawned {
            Ok(child) => child,
            // The fault hit the start of the program itself.
            Err(error) => return Ok(StartOutcome::Refused(format!("starting it: {error}"))),
        };
        let mut node = Self { folder, supervisor: supervisor.clone(), child };
        let mut output = node.child.stdout.take().context("the output is a pipe")?;
        if !readable(&output, TEST_TIMEOUT) {
            bail!("the daemon neither serves nor ends\n{}", node.log());
        }
        let mut line = [0; 1];
        if output.read(&mut line)? == 1 {
            return Ok(StartOutcome::Serving(node));
        }
        ensure!(ends(&process(node.child.id())), "the daemon does not end\n{}", node.log());
        let status = node.child.wait()?;
        let said = node.log();
        ensure!(!status.success(), "the daemon ends as if all were well\n{said}");
        ensure!(status.code().is_some(), "the daemon ends with {status}\n{said}");
        ensure!(!said.contains(PANIC), "the daemon panicked\n{said}");
        // Nothing may come of a start that was reported as failed.
        until(|| Ok(node.processes()), Vec::is_empty).context("a process is left")?;
        Ok(StartOutcome::Refused(said))
    }

    /// How a client reaches the store.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            socket: Some(socket_in(&self.folder)),
            name: "faults".to_owned(),
            connect_timeout: CLIENT_TIMEOUT,
            reconnect_timeout: CLIENT_TIMEOUT,
            request_timeout: CLIENT_TIMEOUT,
            ..ConnectOptions::default()
        }
    }

    /// A new client.
    pub fn connect(&self) -> plasmon_client::Result<Client> {
        Client::connect(&self.options())
    }

    /// What daemon and keeper have logged.
    pub fn log(&self) -> String {
        let log = fs::read(log_in(&self.folder)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// An error if the daemon or the keeper panicked.
    pub fn check_log(&self) -> Result<()> {
        let log = self.log();
        ensure!(!log.contains(PANIC), "a panic\n{log}");
        Ok(())
    }

    /// The processes of this store: those whose command line names its folder.
    fn processes(&self) -> Vec<Pid> {
        let needle = self.folder.path().to_string_lossy().into_owned();
        let Ok(found) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = found.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = numbers.filter(|number: &i32| {
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&needle)
        });
        ours.filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.supervisor.heal();
        // A daemon that is killed would be started again by its keeper: until none is left.
        let deadline = Instant::now() + TEST_TIMEOUT;
        if let Ok(Some(_)) = self.child.try_wait()
            && self.processes().is_empty()
        {
            return;
        }
        if let Ok(store) = self.connect() {
            let _ = store.shutdown();
        }
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() >= deadline {
                break;
            }
            for process in left {
                let _ = kill_process(process, Signal::KILL);
            }
            let _ = self.child.try_wait();
            std::thread::yield_now();
        }
        let _ = self.child.wait();
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("store.sock")
}

fn log_in(folder: &TempDir) -> PathBuf {
    Path::join(folder.path(), "daemon.log")
}
