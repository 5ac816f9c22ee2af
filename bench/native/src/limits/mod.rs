//! What the machine does without any store: the limits that our figures stand beside.

mod copy;
mod fabric;
mod peer;
mod round_trip;
mod stream;
mod tcp;
mod wake;

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
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
    Stream(stream::StreamSeries),
    /// A message to another process and its answer.
    SocketRoundTrip(round_trip::RoundTrips),
    /// Two processes that both poll a word of shared memory.
    SpinRoundTrip(round_trip::RoundTrips),
    /// A process that sleeps in a futex is woken by another.
    FutexWake(wake::Wakes),
    /// Bytes that another process sends over TCP when it is asked.
    Fetch(tcp::FetchSeries),
    /// Bytes that another process writes into memory of this one, over libfabric.
    FabricWrite(fabric::WriteSeries),
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
        Limit::Fetch(series) => return series.run(),
        Limit::FabricWrite(series) => return series.run(),
        Limit::Copy(series) => series.run(),
        Limit::Stream(series) => series.run(),
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

/// Runs as a peer: what `plasmon-bench peer` does.
pub(crate) fn peer(kind: &str, cpu: i64) -> Result<()> {
    crate::timing::pin(cpu)?;
    if let Some(provider) = kind.strip_prefix(fabric::PEER) {
        return fabric::peer(provider);
    }
    match kind {
        "socket" => round_trip::socket_peer(),
        "spin" => round_trip::spin_peer(),
        "futex" => wake::futex_peer(),
        "tcp" => tcp::peer(),
        _ => bail!("there is no peer of the kind {kind}"),
    }
}
