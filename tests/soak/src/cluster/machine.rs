//! The nodes under test: a daemon with its keeper, its pool daemon and its log each, all on one
//! machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ConnectOptions};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::processes::{is_alive, signal};

/// How many bytes of objects a node holds.
pub(super) const CAPACITY_BYTES: u64 = 192 << 20;

/// The flags of the log of durable objects. Its segments are small, so that they are collected.
const LOG: [&str; 4] = ["--durable-segment-bytes", "1m", "--durable-device", "file"];

/// How long a client looks for a daemon that is away.
const RECONNECT: Duration = Duration::from_secs(5);

/// How long processes have to end.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Between two looks at something that takes its time.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The programs, and where the pool is.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) daemon: PathBuf,
    pub(super) pool_daemon: PathBuf,
    pub(super) etcd: String,
}

/// One node, which may be down.
#[derive(Debug)]
pub(super) struct Machine {
    programs: Programs,
    number: usize,
    /// How often it was made anew.
    generation: u32,
    folder: TempDir,
    /// The first daemon of its store; none while the node is down.
    daemon: Option<Child>,
}

impl Machine {
    /// A node with an empty folder.
    pub(super) fn start(programs: &Programs, number: usize) -> Result<Self> {
        let folder = folder()?;
        let programs = programs.clone();
        let mut machine = Self { programs, number, generation: 0, folder, daemon: None };
        machine.start_again()?;
        Ok(machine)
    }

    /// Starts it after its death, with the identity that it had.
    pub(super) fn start_again(&mut self) -> Result<()> {
        let mut command = Command::new(&self.programs.daemon);
        let variables = std::env::vars_os().filter_map(|(key, _)| key.into_string().ok());
        for key in variables.filter(|key| key.starts_with("PLASMON_")) {
            // How much the pool daemon logs is for the user to say.
            if key != "PLASMON_POOLD_LOG" {
                command.env_remove(key);
            }
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        command.arg("--socket").arg(self.socket());
        command.arg("--capacity-bytes").arg(CAPACITY_BYTES.to_string());
        command.args(LOG).arg("--durable-dir").arg(self.folder.path().join("log"));
        command.arg("--node-name").arg(format!("node{}.{}", self.number, self.generation));
        command.arg("--cluster").arg(format!("etcd://{}", self.programs.etcd));
        command.env("PLASMON_POOLD", &self.programs.pool_daemon);
        command.env("XDG_STATE_HOME", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.daemon = Some(command.spawn().context("starting a daemon")?);
        Ok(())
    }

    /// Whether it was started, and not killed or stopped since.
    pub(super) fn is_on(&self) -> bool {
        self.daemon.is_some()
    }

    /// Starts another node in its place after its death.
    pub(super) fn start_anew(&mut self) -> Result<()> {
        let log = fs::read(self.log_path())?;
        self.folder = folder()?;
        fs::write(self.log_path(), log)?;
        self.generation += 1;
        self.start_again()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("node.log")
    }

    /// What its daemons said.
    pub(super) fn log(&self) -> String {
        fs::read(self.log_path()).map_or_else(
            |error| error.to_string(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("store.sock")
    }

    /// How a client connects, which looks so long for the node.
    pub(super) fn options(&self, connect_timeout: Duration) -> ConnectOptions {
        ConnectOptions {
            socket: Some(self.socket()),
            name: "soak".to_owned(),
            connect_timeout,
            reconnect_timeout: RECONNECT,
            ..ConnectOptions::default()
        }
    }

    /// A client of this node, which is to be up.
    pub(super) fn connect(&self) -> Result<Client> {
        Client::connect(&self.options(END_WITHIN))
            .with_context(|| format!("connecting to node {}", self.number))
    }

    /// `kill -9` for its keeper alone, where it has one now.
    pub(super) fn kill_keeper(&self) -> Result<()> {
        let keeper = self.connect()?.status()?.keeper_pid;
        if is_alive(keeper) {
            signal(keeper, Signal::KILL)?;
        }
        Ok(())
    }

    /// The process of its pool daemon.
    pub(super) fn pool_daemon(&self) -> Option<u32> {
        let program = self.programs.pool_daemon.as_os_str().as_encoded_bytes();
        let is_it = |pid: &u32| arguments_of(*pid).first().is_some_and(|first| first == program);
        self.processes().into_iter().find(is_it)
    }

    /// Its processes: those with its socket on their command line.
    fn processes(&self) -> Vec<u32> {
        let socket = self.socket();
        let socket = socket.as_os_str().as_encoded_bytes();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| arguments_of(*pid).iter().any(|argument| argument.ends_with(socket)))
            .collect()
    }

    /// `kill -9` for all of it at once.
    pub(super) fn kill(&mut self) -> Result<()> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        // Daemon and keeper start each other again, so none may run while the other ends. One that
        // has ended meanwhile is not there to be told.
        let mut processes = self.processes();
        loop {
            processes.iter().for_each(|pid| _ = signal(*pid, Signal::STOP));
            let now = self.processes();
            if now == processes {
                break;
            }
            processes = now;
        }
        processes.iter().for_each(|pid| _ = signal(*pid, Signal::KILL));
        let end = self.await_end(processes, &mut daemon);
        let _ = daemon.kill();
        let _ = daemon.wait();
        end
    }

    /// Stops it as a user does.
    pub(super) fn stop(&mut self) -> Result<()> {
        let client = self.connect()?;
        let processes = self.processes();
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        client.shutdown()?;
        let end = self.await_end(processes, &mut daemon);
        let _ = daemon.kill();
        let _ = daemon.wait();
        end
    }

    fn await_end(&self, mut processes: Vec<u32>, daemon: &mut Child) -> Result<()> {
        let deadline = Instant::now() + END_WITHIN;
        while !processes.is_empty() {
            // The first daemon is our child and stays a zombie until we ask for it.
            let _ = daemon.try_wait();
            processes.retain(|pid| is_alive(*pid));
            if Instant::now() > deadline {
                // Leave nothing behind, whatever went wrong.
                processes.iter().for_each(|pid| _ = signal(*pid, Signal::KILL));
                bail!("processes of node {} do not end: {processes:?}", self.number);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Without [`Machine::stop`] it is killed.
impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("soak: {error:#}");
        }
    }
}

fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("plasmon-soak-").tempdir()?)
}

fn arguments_of(pid: u32) -> Vec<Vec<u8>> {
    let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
    line.unwrap_or_default().split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}
