//! An etcd of one member, for a pool on this machine.

use std::env;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_etcd::{Client, Options};
use serde_json::json;

use super::child::{self, Process};
use super::node::tail;
use super::stop::Stop;

/// How often other ports are tried, should another program have taken one meanwhile.
const STARTS_MAX: usize = 5;

/// How long it may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);

/// How often it is asked whether it serves.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The variable without which etcd 3.4 refuses to run on ARM64; all others begin like it and are
/// settings.
const ARCHITECTURE: &str = "ETCD_UNSUPPORTED_ARCH";

/// A running etcd.
pub(super) struct Etcd {
    /// Its process.
    pub(super) process: Process,
    /// Where it serves clients, as `host:port`.
    pub(super) endpoint: String,
}

/// The program of the system's package.
pub(super) fn program() -> Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join("etcd"));
    found
        .into_iter()
        .find(|program| program.is_file())
        .context("there is no etcd in PATH; on Debian and Ubuntu: apt-get install etcd-server")
}

impl Etcd {
    /// Starts one with its data and its log in this folder; `None` when the command is to end.
    pub(super) fn start(program: &Path, folder: &Path, stop: &mut Stop) -> Result<Option<Self>> {
        let log = folder.join("etcd.log");
        for _ in 0..STARTS_MAX {
            let (endpoint, mut command) = command(program, folder)?;
            let errors = File::create(&log).with_context(|| log.display().to_string())?;
            command.stdout(Stdio::null()).stderr(errors);
            let mut etcd = Self { process: Process::spawn(&mut command)?, endpoint };
            let served = etcd.serves(stop);
            match served {
                Ok(true) => return Ok(Some(etcd)),
                Ok(false) if stop.is_asked() => {}
                // It ended: another program may have its port.
                Ok(false) => continue,
                Err(_) => {}
            }
            etcd.end();
            return served.map(|_| None);
        }
        bail!("etcd does not start: {}", tail(&log))
    }

    /// Waits until it serves; it does not when it has ended, or the command is to end.
    fn serves(&mut self, stop: &mut Stop) -> Result<bool> {
        let mut client = Client::new(Options::new(vec![self.endpoint.clone()]))?;
        let start = Instant::now();
        while !stop.is_asked() && self.process.end().is_none() {
            // Without a leader it does not serve; a field of 0 is left out.
            let answer = client.call("maintenance/status", &json!({})).unwrap_or_default();
            if answer["leader"].as_str().is_some_and(|leader| leader != "0") {
                return Ok(true);
            }
            if start.elapsed() > START_WITHIN {
                bail!("etcd does not serve within {START_WITHIN:?}");
            }
            stop.wait(&[], Some(ASK_EVERY))?;
        }
        Ok(false)
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        const END_WITHIN: Duration = Duration::from_secs(5);
        self.process.terminate();
        self.process.end_by(Instant::now() + END_WITHIN);
    }
}

/// The address for clients, and the command.
fn command(program: &Path, folder: &Path) -> Result<(String, Command)> {
    let (client, peer) = (free_port()?, free_port()?);
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let mut command = child::command(program);
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("ETCD_") && name != ARCHITECTURE {
            command.env_remove(&variable);
        }
    }
    if env::consts::ARCH == "aarch64" {
        command.env(ARCHITECTURE, "arm64");
    }
    command
        .args(["--name", "dev", "--data-dir"])
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
        .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
        .args(["--initial-cluster", &format!("dev={}", url(peer))]);
    Ok((format!("127.0.0.1:{client}"), command))
}

/// A port that no program listens on now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(listener.local_addr().context("looking for a free port")?.port())
}
