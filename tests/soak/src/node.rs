//! The store under test: its processes, and what they hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{ConnectOptions, Status, Store};
use rustix::process::{Pid, Signal, kill_process};

use crate::worker::PATIENCE;

/// Between two looks at something that takes its time.
const POLL: Duration = Duration::from_millis(1);

/// A daemon with its keeper, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Node {
    folder: tempfile::TempDir,
    child: Child,
    /// The verifier's own connection.
    pub(crate) store: Store,
}

impl Node {
    /// Starts a store.
    pub(crate) fn start(program: &Path, capacity: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plasmon-soak-").tempdir()?;
        let socket = folder.path().join("store.sock");
        let log = fs::File::create(folder.path().join("daemon.log"))?;
        let child = Command::new(program)
            .arg("--socket")
            .arg(&socket)
            .args(["--capacity-bytes", capacity])
            .arg("--spill-dir")
            .arg(folder.path().join("spill"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let options = ConnectOptions {
            socket: Some(socket),
            name: "verifier".to_owned(),
            connect_timeout: PATIENCE,
            reconnect_timeout: PATIENCE,
            ..ConnectOptions::default()
        };
        let store = Store::connect(&options).context("connecting to the store")?;
        Ok(Self { folder, child, store })
    }

    /// Where clients connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("store.sock")
    }

    /// The end of the daemon's log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.folder.path().join("daemon.log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Kills the daemon; how long it took until the next one answered.
    pub(crate) fn kill_daemon(&self) -> Result<Duration> {
        let before = self.store.status()?;
        let started = Instant::now();
        kill(before.pid)?;
        self.until("another daemon", |now| now.epoch > before.epoch)?;
        let took = started.elapsed();
        // Nothing may be killed before the keeper holds everything again.
        self.until("the keeper of the new daemon", |now| now.keeper_pid != 0)?;
        Ok(took)
    }

    /// Kills the keeper and waits until the daemon has another one.
    pub(crate) fn kill_keeper(&self) -> Result<()> {
        let before = self.store.status()?;
        if before.keeper_pid == 0 {
            bail!("the store has no keeper");
        }
        kill(before.keeper_pid)?;
        self.until("another keeper", |now| {
            now.keeper_pid != 0 && now.keeper_pid != before.keeper_pid
        })?;
        Ok(())
    }

    /// Asks for the figures until they are as wanted, and gives them.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Result<Status> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.store.status().with_context(|| format!("waiting for {what}"))?;
            if wanted(&status) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("waited for {what} in vain: {status:?}");
            }
            std::thread::park_timeout(POLL);
        }
    }

    /// Stops the store; whether its processes went.
    pub(crate) fn stop(mut self) -> Result<bool> {
        let status = self.store.status()?;
        self.store.shutdown()?;
        let deadline = Instant::now() + PATIENCE;
        let first = Pid::from_child(&self.child).as_raw_nonzero().get() as u32;
        let mut waiting = vec![first, status.pid, status.keeper_pid];
        while !waiting.is_empty() && Instant::now() < deadline {
            // The first daemon is our child and stays a zombie until we ask for it.
            let _ = self.child.try_wait();
            waiting.retain(|pid| is_alive(*pid));
            std::thread::park_timeout(POLL);
        }
        for pid in &waiting {
            // Leave nothing behind, whatever went wrong.
            let _ = kill(*pid);
        }
        Ok(waiting.is_empty())
    }
}

/// Kills a process that cannot refuse.
fn kill(pid: u32) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such process number")?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Whether a process is there and not only waiting to be buried.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    pid != 0 && state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// How many memfds a process holds.
pub(crate) fn memfds(pid: u32) -> Result<usize> {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("/memfd:"));
    Ok(links.count())
}
