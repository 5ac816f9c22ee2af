//! The store under test: its processes, and what they hold.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ConnectOptions, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::lives::{self, CAPACITY_BYTES, Life};
use crate::worker::TIMEOUT;

/// Between two looks at something that takes its time.
const POLL: Duration = Duration::from_millis(1);

/// What the daemon says, and where it spills, in the folder of the store.
const LOG: &str = "daemon.log";
const SPILL: &str = "spill";

/// A daemon with its keeper.
#[derive(Debug)]
pub(crate) struct Node {
    folder: PathBuf,
    child: Child,
    /// The verifier's own connection.
    pub(crate) store: Client,
    /// Dropped last, when its processes have gone.
    #[expect(dead_code, reason = "what it does is in its drop")]
    group: Option<Group>,
}

impl Node {
    /// Starts a store in this folder, where another one may have died before.
    pub(crate) fn start(program: &Path, life: &Life, folder: &Path) -> Result<Self> {
        let socket = folder.join("store.sock");
        let log = fs::File::options().create(true).append(true).open(folder.join(LOG))?;
        let group = life.limit_bytes.map(Group::make).transpose()?.flatten();
        let mut command = match &group {
            Some(group) => group.command(program),
            None => Command::new(program),
        };
        let child = command
            .arg("--socket")
            .arg(&socket)
            .args(["--capacity-bytes", &CAPACITY_BYTES.to_string()])
            .arg("--spill-dir")
            .arg(folder.join(SPILL))
            .args(life.flags)
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
        let store = Client::connect(&options).context("connecting to the store")?;
        Ok(Self { folder: folder.to_owned(), child, store, group })
    }

    /// Takes the spill folder away, or brings it back.
    pub(crate) fn set_spill_folder(&self, there: bool) -> Result<()> {
        let (there_path, away) = (self.folder.join(SPILL), self.folder.join("away"));
        let (from, to) = if there { (away, there_path) } else { (there_path, away) };
        fs::rename(from, to).context("moving the spill folder")
    }

    /// Kills the daemon and the keeper at once: the store is over.
    pub(crate) fn kill_both(&mut self) -> Result<bool> {
        // One that was killed just now is about to be replaced by another one.
        let status = self.until("a keeper", |now| is_alive(now.keeper_pid))?;
        // A process that is stopped cannot start another one.
        signal(status.keeper_pid, Signal::STOP)?;
        kill(status.pid)?;
        kill(status.keeper_pid)?;
        let first = Pid::from_child(&self.child).as_raw_nonzero().get() as u32;
        self.await_end(vec![first, status.pid, status.keeper_pid])
    }

    /// How many stores have left something in the spill folder, this one included.
    pub(crate) fn spill_folders(&self) -> Result<usize> {
        let entries = fs::read_dir(self.folder.join(SPILL))?;
        Ok(entries.filter(|entry| entry.as_ref().is_ok_and(|it| it.path().is_dir())).count())
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

    /// Stops the store; whether its processes went.
    pub(crate) fn stop(mut self) -> Result<bool> {
        let status = self.store.status()?;
        self.store.shutdown()?;
        let first = Pid::from_child(&self.child).as_raw_nonzero().get() as u32;
        self.await_end(vec![first, status.pid, status.keeper_pid])
    }

    /// Whether these processes end.
    fn await_end(&mut self, mut waiting: Vec<u32>) -> Result<bool> {
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
        Ok(waiting.is_empty())
    }
}

/// A control group that limits memory, gone with its value.
#[derive(Debug)]
struct Group(PathBuf);

impl Group {
    /// `None` where there are no control groups that this user can make.
    fn make(limit_bytes: u64) -> Result<Option<Self>> {
        let Some((groups, limit)) = lives::memory_groups() else { return Ok(None) };
        let folder = groups.join(format!("plasmon-soak-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() || !folder.join(limit).exists() {
            let _ = fs::remove_dir(&folder);
            return Ok(None);
        }
        let group = Self(folder);
        fs::write(group.0.join(limit), limit_bytes.to_string())?;
        Ok(Some(group))
    }

    /// Starts a program in the group, with everything that it starts in turn.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(self.0.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty one can be removed; a daemon that would not end is reported elsewhere.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Kills a process that cannot refuse.
fn kill(pid: u32) -> Result<()> {
    signal(pid, Signal::KILL)
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such process number")?;
    Ok(kill_process(pid, signal)?)
}

/// Whether a process is there and not only waiting to be reaped.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    // Its other threads may end after the first one, and hold locks and sockets until then.
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let has_ended = |state| matches!(state, 'Z' | 'X') && threads() <= 1;
    pid != 0 && state.is_some_and(|state| !has_ended(state))
}

/// How many memfds a process holds, by however many descriptors.
pub(crate) fn memfds(pid: u32) -> Result<usize> {
    let paths =
        fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_memfd = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"))
    };
    let inodes = paths.filter(is_memfd).filter_map(|path| Some(fs::metadata(path).ok()?.ino()));
    Ok(inodes.collect::<BTreeSet<u64>>().len())
}
