//! `plasmon pool dev`: a whole pool on one machine, for development.
//!
//! ```text
//!   etcd ──serves──► all nodes at the same time ──serve──► joining ──all reach all──► running
//!                                                              └───────┬──stop─────────┘
//!                                                                      ▼
//!                                                             nodes, etcd, folder end
//! ```
//!
//! Everything lies in one folder, and every process ends with this one: at a stop in order, and
//! when this process is killed by the kernel's signal (`child`).

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{StartOptions, daemon_program};
use plasmon_proto::settings::parse_bytes;
use serde_json::json;
use tempfile::TempDir;

use super::etcd::{self, Etcd};
use super::joining::{Joining, NotJoined, Place};
use super::node::{Node, Plan, tail};
use super::program::program;
use super::stop::Stop;
use crate::arguments::PoolDev;
use crate::failure::usage;
use crate::output::Output;

/// How long all stores together have to end.
const END_WITHIN: Duration = Duration::from_secs(15);

/// The programs that a pool needs.
struct Programs {
    etcd: PathBuf,
    daemon: PathBuf,
}

/// A pool on this machine.
struct Pool {
    nodes: Vec<Node>,
    etcd: Option<Etcd>,
    folder: TempDir,
}

/// Runs a pool until it is stopped.
pub(super) fn dev(dev: &PoolDev, output: &Output) -> Result<()> {
    if parse_bytes(&dev.capacity).is_none() {
        bail!(usage(format!("--capacity takes bytes, such as 4g; found \"{}\"", dev.capacity)));
    }
    program()?;
    let programs =
        Programs { etcd: etcd::program()?, daemon: daemon_program(&StartOptions::default())? };
    let mut stop = Stop::watch()?;
    let folder = tempfile::Builder::new().prefix("plasmon-pool-").tempdir();
    let folder = folder.context("making a temporary folder")?;
    let mut pool = Pool { nodes: Vec::new(), etcd: None, folder };
    let ran = pool.run(&programs, dev, &mut stop, output);
    let ended = pool.end(output);
    ran.and(ended)
}

impl Pool {
    fn run(
        &mut self,
        programs: &Programs,
        dev: &PoolDev,
        stop: &mut Stop,
        output: &Output,
    ) -> Result<()> {
        let folder = self.folder.path().to_owned();
        let Some(etcd) = Etcd::start(&programs.etcd, &folder, stop)? else { return Ok(()) };
        let (pid, endpoint) = (etcd.process.pid(), etcd.endpoint.clone());
        self.etcd = Some(etcd);
        let event = json!({ "event": "etcd", "endpoint": endpoint, "pid": pid });
        output.value(&event, || format!("etcd: {endpoint}, process {pid}"))?;
        let plan = Plan {
            daemon: programs.daemon.clone(),
            cluster: format!("etcd://{endpoint}"),
            capacity: dev.capacity.clone(),
            folder,
        };
        for number in 1..=dev.nodes {
            self.nodes.push(Node::start(&plan, format!("node{number}"))?);
        }
        for node in &mut self.nodes {
            node.wait_until_ready(stop)?;
            if stop.is_asked() {
                return Ok(());
            }
            let (name, socket, pid) = (&node.name, node.socket.display(), node.process.pid());
            let event = json!({ "event": "node", "name": name, "socket": node.socket, "pid": pid });
            output.value(&event, || format!("{name}: {socket}, process {pid}"))?;
        }
        let place = |node: &Node| Place { name: node.name.clone(), socket: node.socket.clone() };
        let within = Duration::try_from_secs_f64(dev.join_timeout)?;
        let joining = Joining::begin(self.nodes.iter().map(place).collect(), within)?;
        self.supervise(&plan.cluster, joining, stop, output)
    }

    /// All nodes have joined the pool, or one has not.
    fn joined(&self, outcome: Result<(), NotJoined>, cluster: &str, output: &Output) -> Result<()> {
        let Err(NotJoined { node, why }) = outcome else { return self.tell_ready(cluster, output) };
        let log = self.nodes.iter().find(|other| other.name == node);
        let log = log.map(|node| tail(&node.log)).unwrap_or_default();
        bail!("{node} has not joined the pool in time (--join-timeout): {why}\n{log}")
    }

    fn tell_ready(&self, cluster: &str, output: &Output) -> Result<()> {
        let folder = self.folder.path();
        let event = json!({ "event": "ready", "cluster": cluster, "folder": folder });
        output.value(&event, || {
            let lines = self
                .nodes
                .iter()
                .map(|node| format!("  PLASMON_SOCKET={} plasmon status", node.socket.display()));
            format!(
                "the pool {cluster} has {} nodes; use each with its own socket:\n{}\nCtrl-C ends \
                 it and deletes {}",
                self.nodes.len(),
                lines.collect::<Vec<_>>().join("\n"),
                folder.display()
            )
        })
    }

    /// Waits until the command is to end, and tells when the pool is ready, and which processes end
    /// before.
    fn supervise(
        &mut self,
        cluster: &str,
        joining: Joining,
        stop: &mut Stop,
        output: &Output,
    ) -> Result<()> {
        let mut joining = Some(joining);
        while !stop.is_asked() && !self.nodes.is_empty() {
            let nodes = self.nodes.iter().map(|node| node.process.as_fd());
            let etcd = self.etcd.iter().map(|etcd| etcd.process.as_fd());
            let joins = joining.iter().map(Joining::as_fd);
            let descriptors: Vec<_> = nodes.chain(etcd).chain(joins).collect();
            stop.wait(&descriptors, None)?;
            if stop.is_asked() {
                break;
            }
            if let Some(outcome) = joining.as_ref().and_then(Joining::outcome) {
                joining = None;
                self.joined(outcome, cluster, output)?;
            }
            self.look_after_nodes(output)?;
            if let Some(end) = self.etcd.as_mut().and_then(|etcd| etcd.process.end()) {
                self.etcd = None;
                let event = json!({ "event": "etcd_ended", "how": end });
                output.value(&event, || format!("etcd has ended ({end})"))?;
            }
        }
        Ok(())
    }

    fn look_after_nodes(&mut self, output: &Output) -> Result<()> {
        let mut events = Vec::new();
        self.nodes.retain_mut(|node| {
            let Some(end) = node.process.end() else { return true };
            let (told, goes_on) = node.look_after(&end);
            let (name, pid) = (&node.name, goes_on.then(|| node.process.pid()));
            let event = json!({ "event": "node_ended", "name": name, "how": end, "pid": pid });
            events.push((event, told));
            goes_on
        });
        events.into_iter().try_for_each(|(event, told)| output.value(&event, || told))
    }

    /// Ends all processes, and removes the folder.
    fn end(mut self, output: &Output) -> Result<()> {
        for node in &self.nodes {
            node.process.terminate();
        }
        let deadline = Instant::now() + END_WITHIN;
        for node in &mut self.nodes {
            if !node.process.end_by(deadline) {
                output.warn(&format!("{} did not end, and was killed", node.name));
            }
        }
        if let Some(etcd) = &mut self.etcd {
            etcd.end();
        }
        let folder = self.folder.path().to_owned();
        self.folder.close().with_context(|| format!("cannot remove {}", folder.display()))?;
        let event = json!({ "event": "ended", "folder": folder });
        output.value(&event, || format!("the pool has ended, and {} is removed", folder.display()))
    }
}
