//! What the machine does without any store: the limits that our figures stand beside.

mod copy;
mod round_trip;
mod wake;

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::protocol::{Samples, answer};
use crate::timing::Series;

/// A request for a limit.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Limit {
    /// Nothing to start; the harness asks every side.
    Start {},
    Copy(copy::CopySeries),
    /// A message to another process and its answer.
    SocketRoundTrip(round_trip::RoundTrips),
    /// Two processes that both poll a word of shared memory.
    SpinRoundTrip(round_trip::RoundTrips),
    /// A process that sleeps in a futex is woken by another.
    FutexWake(wake::Wakes),
    /// One sequentially consistent exchange and two loads: the least that a pin can be.
    Atomics {
        count: u64,
        batch: u64,
    },
    /// The cheapest system call.
    SystemCall {
        count: u64,
        batch: u64,
    },
}

/// Measures a limit.
pub(crate) fn run(limit: Limit) -> Result<Value> {
    let samples = match limit {
        Limit::Start {} => {
            return Ok(json!({ "address": "", "start_ns": 0, "versions": {} }));
        }
        Limit::Copy(series) => series.run(),
        Limit::SocketRoundTrip(trips) => round_trip::socket(trips),
        Limit::SpinRoundTrip(trips) => round_trip::spin(trips),
        Limit::FutexWake(wakes) => wake::futex(wakes),
        Limit::Atomics { count, batch } => atomics(Series { count, batch }),
        Limit::SystemCall { count, batch } => system_call(Series { count, batch }),
    };
    answer(samples?)
}

fn atomics(series: Series) -> Result<Samples> {
    let words: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
    let pin = || {
        let pinned = words[0].compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        let seen = words[1].load(Ordering::SeqCst) | words[2].load(Ordering::SeqCst);
        std::hint::black_box((pinned, seen));
        words[0].store(0, Ordering::Release);
        Ok(())
    };
    series.take(pin, || Ok(()))
}

fn system_call(series: Series) -> Result<Samples> {
    let ask = || {
        std::hint::black_box(rustix::process::getppid());
        Ok(())
    };
    series.take(ask, || Ok(()))
}

/// The other end of a round trip, in a process of its own.
#[derive(Debug)]
struct Peer {
    child: Child,
    socket: OwnedFd,
}

impl Peer {
    /// Starts this program as a peer, with a socket as its input and `shared` as its output.
    fn start(kind: &str, cpu: i64, shared: Option<OwnedFd>) -> Result<Self> {
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

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer may be polling, so it is not asked. Both fail only when it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs as a peer: what `plasmon-bench peer` does.
pub(crate) fn peer(kind: &str, cpu: i64) -> Result<()> {
    crate::timing::pin(cpu)?;
    match kind {
        "socket" => round_trip::socket_peer(),
        "spin" => round_trip::spin_peer(),
        "futex" => wake::futex_peer(),
        _ => bail!("there is no peer of the kind {kind}"),
    }
}

/// Tells the starter that the peer is ready.
fn say_ready() -> Result<()> {
    rustix::net::send(std::io::stdin(), &[1], rustix::net::SendFlags::empty())?;
    Ok(())
}
