//! A daemon and its keeper: how they are started, killed and stopped, and the verifier's own
//! connection to their store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, Status};
use rustix::process::{Pid, Signal};

use crate::processes::{is_alive, kill, signal};
use crate::worker::{TIMEOUT, connect};

/// Between two looks at something that takes its time.
const POLL: Duration = Duration::from_millis(1);

/// What the daemon says, in the folder of the store.
const LOG: &str = "daemon.log";

/// A daemon with its keeper.
#[derive(Debug)]
pub(crate) struct Daemon {
    folder: PathBuf,
    child: Child,
    /// The verifier's own connection.
    pub(crate) store: Client,
}

impl Daemon {
    /// Starts a daemon, by a command that names its settings, for a store in this folder, where
    /// another one may have died before.
    pub(crate) fn start(mut command: Command, folder: &Path) -> Result<Self> {
        let socket = folder.join("store.sock");
        let log = File::options().create(true).append(true).open(folder.join(LOG))?;
        let command = command.arg("--socket").arg(&socket);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let store = connect(&socket, "verifier".to_owned()).context("connecting to the store")?;
        Ok(Self { folder: folder.to_owned(), child, store })
    }

    /// Where clients connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("store.sock")
    }

    /// The end of the daemon's log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
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

    /// Kills the keeper, and waits until the daemon has another one.
    pub(crate) fn kill_keeper(&self) -> Result<()> {
        let before = self.until("a keeper", |now| is_alive(now.keeper_pid))?;
        kill(before.keeper_pid)?;
        let is_next = |now: &Status| now.keeper_pid != 0 && now.keeper_pid != before.keeper_pid;
        self.until("another keeper", is_next).map(drop)
    }

    /// Kills the daemon and the keeper at once, and waits until they are gone: the store is over.
    pub(crate) fn kill_both(&mut self) -> Result<()> {
        // One that was killed just now is about to be replaced by another one.
        let status = self.until("a keeper", |now| is_alive(now.keeper_pid))?;
        // A process that is stopped cannot start another one.
        signal(status.keeper_pid, Signal::STOP)?;
        kill(status.pid)?;
        kill(status.keeper_pid)?;
        self.await_end(&status)
    }

    /// Stops the store, and waits until its processes are gone.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let status = self.store.status()?;
        self.store.shutdown()?;
        self.await_end(&status)
    }

    /// Asks for the figures until they are as wanted, and gives them.
    pub(crate) fn until(
        &self,
        what: &str,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Result<Status> {
        let deadline = Instant::now() + TIMEOUT;
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

    fn await_end(&mut self, status: &Status) -> Result<()> {
        let first = Pid::from_child(&self.child).as_raw_nonzero().get() as u32;
        let mut waiting = vec![first, status.pid, status.keeper_pid];
        let deadline = Instant::now() + TIMEOUT;
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
        if !waiting.is_empty() {
            bail!("processes {waiting:?} of the store did not end");
        }
        Ok(())
    }
}
