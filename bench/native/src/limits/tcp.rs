//! The same bytes over one TCP connection: asked for with eight bytes, read into memory that is
//! warm. No store, no name, no checksum.

use std::io::{ErrorKind, Read, Write, stdin};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Deserialize;
use serde_json::{Value, json};

use super::peer::{Peer, say_ready};
use crate::machines::Machines;
use crate::timing::{cpu_ns, nanoseconds};

#[derive(Debug, Deserialize)]
pub(crate) struct FetchSeries {
    object_bytes: usize,
    count: u64,
    #[serde(default = "one")]
    batch: u64,
    /// The first two are the sender's and the receiver's; without them both are on loopback.
    machines: Option<Machines>,
}

fn one() -> u64 {
    1
}

impl FetchSeries {
    pub(super) fn run(&self) -> Result<Value> {
        let Some(machines) = &self.machines else {
            return self.measure(|| Ok(()), Ipv4Addr::LOCALHOST);
        };
        let [sender, receiver, ..] = &machines.nodes[..] else { bail!("two machines are needed") };
        // On a thread of its own, which does not come back to where it was.
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                sender.enter()?;
                self.measure(|| receiver.enter(), sender.address)
            });
            measured.join().unwrap_or_else(|_| bail!("the thread that receives has panicked"))
        })
    }

    /// The peer is started where this thread is; `enter` moves the thread to where it receives.
    fn measure(&self, enter: impl FnOnce() -> Result<()>, address: Ipv4Addr) -> Result<Value> {
        let peer = Peer::start("tcp", -1, None)?;
        let mut port = [0; 2];
        let (_, length) = recv(&peer.socket, &mut port, RecvFlags::empty())?;
        ensure!(length == port.len(), "the peer says its port");
        enter()?;
        let mut stream = TcpStream::connect((address, u16::from_le_bytes(port)))?;
        stream.set_nodelay(true)?;
        let mut into = vec![1; self.object_bytes];
        let processes = [std::process::id(), peer.pid()];
        let (mut samples, mut spent_ns) = (Vec::new(), Vec::new());
        for turn in 0..=self.count {
            let before = cpu_ns(&processes);
            let begin = Instant::now();
            for _ in 0..self.batch {
                stream.write_all(&(self.object_bytes as u64).to_le_bytes())?;
                stream.read_exact(&mut into)?;
            }
            let taken = begin.elapsed();
            if turn > 0 {
                samples.push(nanoseconds(taken) / self.batch as f64);
                spent_ns.push(cpu_ns(&processes).saturating_sub(before) / self.batch);
            }
        }
        Ok(json!({ "samples": samples, "batch": self.batch, "cpu_ns": spent_ns }))
    }
}

/// Sends as many bytes as it is asked for, until the connection ends.
pub(super) fn peer() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    say_ready()?;
    send(stdin(), &listener.local_addr()?.port().to_le_bytes(), SendFlags::empty())?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    let mut asked = [0; 8];
    loop {
        match stream.read_exact(&mut asked) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        bytes.resize(usize::try_from(u64::from_le_bytes(asked))?, 1);
        stream.write_all(&bytes)?;
    }
}
