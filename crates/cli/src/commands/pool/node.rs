//! The store of one node of a pool on this machine.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ConnectOptions, Incarnation};
use plasmon_proto::settings::SETTINGS;

use super::child::{self, Process};
use super::stop::Stop;

/// How long a daemon may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);

/// How long a keeper may take to start another daemon.
const RESTART_WITHIN: Duration = Duration::from_secs(5);

/// How much of a log an error quotes.
const LOG_LINES: usize = 10;

/// What all nodes have in common.
pub(super) struct Plan {
    /// The program of the daemon.
    pub(super) daemon: PathBuf,
    /// The address of the pool.
    pub(super) cluster: String,
    /// The capacity of each store, as a setting.
    pub(super) capacity: String,
    /// The folder of the pool.
    pub(super) folder: PathBuf,
}

/// A node that runs.
pub(super) struct Node {
    /// Its name.
    pub(super) name: String,
    /// The socket of its store.
    pub(super) socket: PathBuf,
    /// Its daemon.
    pub(super) process: Process,
    /// What its daemon and its pool daemon say.
    pub(super) log: PathBuf,
    /// Where its daemon says that it serves.
    ready: Option<ChildStdout>,
}

impl Node {
    /// Starts the daemon of a node.
    pub(super) fn start(plan: &Plan, name: String) -> Result<Self> {
        let folder = plan.folder.join(&name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let (socket, log) = (folder.join("store.sock"), folder.join("log"));
        let errors = File::options().create(true).append(true).open(&log);
        let errors = errors.with_context(|| log.display().to_string())?;
        let mut command = child::command(&plan.daemon);
        // Settings of this shell are for a store of its own.
        for setting in SETTINGS.iter().filter(|setting| setting.key != "log") {
            command.env_remove(format!("PLASMON_{}", setting.key.to_ascii_uppercase()));
        }
        command.arg("--socket").arg(&socket).arg("--log-file").arg(&log);
        command.args(["--ready-fd=1", "--capacity-bytes", &plan.capacity]);
        command.args(["--cluster", &plan.cluster, "--node-name", &name]);
        command.arg("--pool-folder").arg(folder.join("pool"));
        // A daemon that a keeper started is no child of this process, and ends with it by this.
        let own = Incarnation::own().context("looking at this process")?;
        command.args(["--starter", &own.to_string()]);
        command.stdout(Stdio::piped()).stderr(errors);
        let mut process = Process::spawn(&mut command)?;
        let ready = process.take_output();
        Ok(Self { name, socket, process, log, ready })
    }

    /// Waits until its store serves, or the command is to end.
    pub(super) fn wait_until_ready(&mut self, stop: &mut Stop) -> Result<()> {
        let Some(mut ready) = self.ready.take() else { return Ok(()) };
        let start = Instant::now();
        loop {
            let left = START_WITHIN.saturating_sub(start.elapsed());
            stop.wait(&[ready.as_fd()], Some(left))?;
            if stop.is_asked() {
                return Ok(());
            }
            if left.is_zero() {
                bail!("{} does not serve within {START_WITHIN:?}: {}", self.name, tail(&self.log));
            }
            if !is_readable(&ready) {
                continue;
            }
            // One line, or nothing when the daemon has ended.
            if ready.read(&mut [0; 4096]).context("waiting for a store")? == 0 {
                bail!("{} does not start: {}", self.name, tail(&self.log));
            }
            return Ok(());
        }
    }

    /// Its daemon has ended, in this way: what became of the node, in words, and whether it goes
    /// on.
    pub(super) fn look_after(&mut self, end: &str) -> (String, bool) {
        let name = &self.name;
        if end == std::process::ExitStatus::default().to_string() {
            return (format!("{name} was stopped"), false);
        }
        match self.successor() {
            Ok(process) => {
                let pid = process.pid();
                self.process = process;
                (format!("the daemon of {name} ended ({end}); process {pid} goes on"), true)
            }
            Err(_) => (format!("{name} has ended ({end}): {}", tail(&self.log)), false),
        }
    }

    /// The daemon that the keeper started.
    fn successor(&self) -> Result<Process> {
        let options = ConnectOptions {
            socket: Some(self.socket.clone()),
            name: "plasmon pool dev".to_owned(),
            channel: false,
            connect_timeout: RESTART_WITHIN,
            reconnect_timeout: RESTART_WITHIN,
            request_timeout: RESTART_WITHIN,
            ..ConnectOptions::default()
        };
        Process::watch(Client::connect(&options)?.status()?.pid)
    }
}

fn is_readable(output: &ChildStdout) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec::default();
    poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}

/// The end of a log, for an error.
pub(super) fn tail(log: &Path) -> String {
    // A log that cannot be read leaves the quotation empty.
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
