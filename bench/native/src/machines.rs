//! Machines that the harness has made: network namespaces on one bridge.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Deserialize;

/// The network.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Machines {
    /// The bridge between the machines.
    bridge: String,
    /// The address of this process on it.
    pub(crate) address: Ipv4Addr,
    pub(crate) nodes: Vec<Machine>,
}

/// One machine.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Machine {
    /// Its namespace. Its end of the cable at the bridge has the same name.
    namespace: String,
    pub(crate) address: Ipv4Addr,
}

impl Machine {
    /// A command that runs a program on this machine; the program is its last word so far.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Moves the calling thread, and what it starts from now on, to this machine.
    pub(crate) fn enter(&self) -> Result<()> {
        let path = format!("/run/netns/{}", self.namespace);
        let namespace = File::open(&path).with_context(|| path.clone())?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

/// A machine that is cut off: its cable is in, and nothing arrives in either direction, until the
/// end of the value.
#[derive(Debug)]
pub(crate) struct Cut {
    namespace: String,
    bridge: String,
}

impl Machines {
    /// Cuts a machine off.
    pub(crate) fn cut(&self, at: usize) -> Result<Cut> {
        let Machine { namespace, .. } =
            self.nodes.get(at).context("a machine that is not there")?;
        ip(&["link", "set", namespace, "nomaster"])?;
        Ok(Cut { namespace: namespace.clone(), bridge: self.bridge.clone() })
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // The harness removes the machines if this fails.
        let _ = ip(&["link", "set", &self.namespace, "master", &self.bridge]);
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).output().context("ip")?;
    if output.status.success() {
        return Ok(());
    }
    bail!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())
}
