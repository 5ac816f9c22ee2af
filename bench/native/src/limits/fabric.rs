//! The same bytes written by another process into memory of this one, over libfabric: asked for
//! with a byte, and said to be there with one. No store, no name, no checksum.

use std::io::stdin;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use plasmon_fabric::{Choice, Completion, Endpoint, Grant, Place, Provider, Sink};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Deserialize;
use serde_json::{Value, json};

use super::peer::{Peer, say_ready};
use crate::timing::{cpu_ns, nanoseconds};

/// What begins the kind of the peer; the provider follows.
pub(super) const PEER: &str = "fabric-";

/// Bytes of what the peer is told of the window: three numbers and the name of the endpoint.
const TOLD_BYTES_MAX: usize = 512;
const NUMBER_BYTES: usize = size_of::<u64>();

#[derive(Debug, Deserialize)]
pub(crate) struct WriteSeries {
    provider: String,
    object_bytes: usize,
    count: u64,
    batch: u64,
}

impl WriteSeries {
    pub(super) fn run(&self) -> Result<Value> {
        let opened = open(&self.provider);
        let (endpoint, _done) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(json!({ "unsupported": format!("{error:#}") })),
        };
        let memory = Box::new(vec![1_u8; self.object_bytes]);
        let opened = endpoint.open_window(memory, Vec::as_mut_slice);
        let window = opened.map_err(|(_, error)| error)?;
        let peer = Peer::start(&format!("{PEER}{}", self.provider), -1, None)?;
        let Grant { base, key, bytes } = window.grant();
        let mut told: Vec<u8> = [base, key, bytes].iter().flat_map(|at| at.to_le_bytes()).collect();
        told.extend_from_slice(endpoint.name());
        send(&peer.socket, &told, SendFlags::empty())?;
        let processes = [std::process::id(), peer.pid()];
        let (mut samples, mut spent_ns) = (Vec::new(), Vec::new());
        let mut answer = [0; 1];
        for turn in 0..=self.count {
            let before = cpu_ns(&processes);
            let begin = Instant::now();
            for _ in 0..self.batch {
                send(&peer.socket, &[1], SendFlags::empty())?;
                let (_, length) = recv(&peer.socket, &mut answer, RecvFlags::empty())?;
                ensure!(length == 1, "the peer ended");
            }
            let taken = begin.elapsed();
            if turn > 0 {
                samples.push(nanoseconds(taken) / self.batch as f64);
                spent_ns.push(cpu_ns(&processes).saturating_sub(before) / self.batch);
            }
        }
        let is_written =
            window.bytes(0..bytes).is_some_and(|all| all.iter().all(|byte| *byte == 2));
        ensure!(is_written, "the bytes of the peer are in the window");
        drop(peer);
        window.close()?;
        Ok(json!({ "samples": samples, "batch": self.batch, "cpu_ns": spent_ns }))
    }
}

/// An endpoint, and what becomes of its writes.
fn open(provider: &str) -> Result<(Endpoint, Receiver<Completion>)> {
    let choice: Choice = provider.parse()?;
    let provider: Provider = *choice.providers().first().context("a provider is named")?;
    let (sender, done) = channel();
    // At the end of a measurement nothing waits for its writes.
    let sink: Sink = Arc::new(move |completion| _ = sender.send(completion));
    let endpoint = Endpoint::open(provider, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), sink)?;
    Ok((endpoint, done))
}

/// Writes into the window that it is told of as often as it is asked to, until the connection ends.
pub(super) fn peer(provider: &str) -> Result<()> {
    let (endpoint, done) = open(provider)?;
    say_ready()?;
    let mut told = [0; TOLD_BYTES_MAX];
    let (_, length) = recv(stdin(), &mut told, RecvFlags::empty())?;
    let (numbers, name) = told[..length].split_at(3 * NUMBER_BYTES);
    let number = |at: usize| -> Result<u64> {
        let bytes = &numbers[at * NUMBER_BYTES..][..NUMBER_BYTES];
        Ok(u64::from_le_bytes(bytes.try_into()?))
    };
    let window = Grant { base: number(0)?, key: number(1)?, bytes: number(2)? };
    let to = Place { peer: endpoint.peer(name)?, window, offset: 0 };
    let source = Arc::new(vec![2_u8; usize::try_from(window.bytes)?]);
    let mut asked = [0; 1];
    loop {
        match recv(stdin(), &mut asked, RecvFlags::empty()) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        endpoint.write(to, source.clone(), |source| source.as_slice(), 0)?;
        match done.recv()?.result {
            Ok(()) => _ = send(stdin(), &[1], SendFlags::empty())?,
            Err(error) => bail!("a write failed: {error}"),
        }
    }
}
