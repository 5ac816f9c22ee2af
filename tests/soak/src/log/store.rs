//! The store under test: its processes die, and its log stays.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ConnectOptions, Status};
use plasmon_testkit::Random;
use rustix::process::{Pid, Signal};

use crate::node::{is_alive, signal};
use crate::worker::TIMEOUT;

/// Between two looks at something that takes its time.
const POLL: Duration = Duration::from_millis(1);

/// Less than what the objects take, so that they leave the memory and come back from the log.
const CAPACITY: &str = "24m";

/// A daemon with its keeper.
pub(super) struct Store {
    folder: PathBuf,
    child: Child,
    /// The verifier's own connection.
    pub(super) client: Client,
}

impl Store {
    /// Starts a store that has the log in this folder.
    pub(super) fn start(program: &Path, folder: &Path, random: &mut Random) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let socket = folder.join("store.sock");
        let log = File::options().create(true).append(true).open(folder.join("daemon.log"))?;
        let batch_ms = random.pick(&["0", "2"]);
        let child = Command::new(program)
            .arg("--socket")
            .arg(&socket)
            .args(["--capacity-bytes", CAPACITY, "--durable-segment-bytes", "1m"])
            .args(["--durable-batch-ms", batch_ms, "--durable-device", "file"])
            .arg("--durable-dir")
            .arg(folder.join("log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let options = ConnectOptions {
            socket: Some(socket),
            name: "verifier".to_owned(),
            connect_timeout: TIMEOUT,
            reconnect_timeout: TIMEOUT,
            ..ConnectOptions::default()
        };
        let client = Client::connect(&options).context("connecting to the store")?;
        Ok(Self { folder: folder.to_owned(), child, client })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("store.sock")
    }

    /// Kills the daemon, and waits until the next one answers.
    pub(super) fn kill_daemon(&self) -> Result<()> {
        let before = self.client.status()?;
        signal(before.pid, Signal::KILL)?;
        self.until("another daemon", |now| now.epoch > before.epoch)?;
        // Nothing may be killed before the keeper holds everything again.
        self.until("the keeper of the new daemon", |now| now.keeper_pid != 0).map(drop)
    }

    /// Kills the keeper, and waits until the daemon has another one.
    pub(super) fn kill_keeper(&self) -> Result<()> {
        let before = self.until("a keeper", |now| is_alive(now.keeper_pid))?;
        signal(before.keeper_pid, Signal::KILL)?;
        let is_next = |now: &Status| now.keeper_pid != 0 && now.keeper_pid != before.keeper_pid;
        self.until("another keeper", is_next).map(drop)
    }

    /// Kills the daemon and the keeper at once, and waits until they are gone.
    pub(super) fn kill_both(mut self) -> Result<()> {
        let status = self.until("a keeper", |now| is_alive(now.keeper_pid))?;
        // A process that is stopped cannot start another one.
        signal(status.keeper_pid, Signal::STOP)?;
        signal(status.pid, Signal::KILL)?;
        signal(status.keeper_pid, Signal::KILL)?;
        self.await_end(&status)
    }

    /// Stops the store.
    pub(super) fn stop(mut self) -> Result<()> {
        let status = self.client.status()?;
        self.client.shutdown()?;
        self.await_end(&status)
    }

    fn await_end(&mut self, status: &Status) -> Result<()> {
        let first = Pid::from_child(&self.child).as_raw_nonzero().get() as u32;
        let mut waiting = vec![first, status.pid, status.keeper_pid];
        let deadline = Instant::now() + TIMEOUT;
        while !waiting.is_empty() {
            // The first daemon is our child and stays a zombie until we ask for it.
            let _ = self.child.try_wait();
            waiting.retain(|pid| is_alive(*pid));
            if Instant::now() > deadline {
                bail!("processes {waiting:?} do not end");
            }
            std::thread::park_timeout(POLL);
        }
        Ok(())
    }

    fn until(&self, what: &str, mut wanted: impl FnMut(&Status) -> bool) -> Result<Status> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status = self.client.status().with_context(|| format!("waiting for {what}"))?;
            if wanted(&status) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("waited for {what} in vain: {status:?}");
            }
            std::thread::park_timeout(POLL);
        }
    }
}
