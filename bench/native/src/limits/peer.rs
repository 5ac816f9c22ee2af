//! The other process of a round trip.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The other end of a round trip, in a separate process.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    pub(super) socket: OwnedFd,
}

impl Peer {
    /// Starts this program as a peer, with a socket as its input and `shared` as its output.
    pub(super) fn start(kind: &str, cpu: i64, shared: Option<OwnedFd>) -> Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let child = Command::new(std::env::current_exe()?)
            .arg0("plasmon-bench-peer")
            .args(["peer", kind, &cpu.to_string()])
            .stdin(theirs)
            .stdout(shared.map_or_else(Stdio::null, Stdio::from))
            .spawn()
            .context("starting the peer")?;
        let peer = Self { child, socket: ours };
        let mut ready = [0; 1];
        let (_, length) =
            rustix::net::recv(&peer.socket, &mut ready, rustix::net::RecvFlags::empty())?;
        anyhow::ensure!(length == 1, "the peer ended before it was ready");
        Ok(peer)
    }
}

impl Peer {
    /// The number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer may be polling, so it is just killed. Both fail only when it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells the starter that the peer is ready.
pub(super) fn say_ready() -> Result<()> {
    rustix::net::send(std::io::stdin(), &[1], rustix::net::SendFlags::empty())?;
    Ok(())
}
