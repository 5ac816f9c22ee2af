//! Round trips between two processes: through a socket, and through memory that both poll.

use std::hint;
use std::io::{stdin, stdout};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Deserialize;

use super::peer::{Peer, say_ready};
use crate::protocol::Samples;
use crate::source::{Mapping, Pages};
use crate::timing::Series;

const MESSAGE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Where the client writes its turn, and where the peer answers: a cache line each.
const ASKED: usize = 0;
const ANSWERED: usize = 128;

#[derive(Debug, Deserialize)]
pub(crate) struct RoundTrips {
    count: u64,
    batch: u64,
    server_cpu: i64,
}

impl RoundTrips {
    fn series(&self) -> Series {
        Series { count: self.count, batch: self.batch }
    }
}

pub(crate) fn socket(trips: RoundTrips) -> Result<Samples> {
    let peer = Peer::start("socket", trips.server_cpu, None)?;
    let mut message = [1; MESSAGE_BYTES];
    let trip = || {
        send(&peer.socket, &message, SendFlags::empty())?;
        let (_, length) = recv(&peer.socket, &mut message, RecvFlags::empty())?;
        ensure!(length == MESSAGE_BYTES, "the peer ended");
        Ok(())
    };
    trips.series().take(trip, || Ok(()))
}

pub(crate) fn socket_peer() -> Result<()> {
    say_ready()?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match recv(stdin(), &mut message, RecvFlags::empty()) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Ok(()),
            Ok((_, length)) => {
                send(stdin(), &message[..length], SendFlags::empty())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn spin(trips: RoundTrips) -> Result<Samples> {
    let (page, file) = Mapping::anonymous(PAGE_BYTES, Pages::Present)?;
    let _peer = Peer::start("spin", trips.server_cpu, Some(file))?;
    let mut turn = 0;
    let trip = || {
        turn += 1;
        page.atomic::<AtomicU64>(ASKED).store(turn, Ordering::Release);
        while page.atomic::<AtomicU64>(ANSWERED).load(Ordering::Acquire) != turn {
            hint::spin_loop();
        }
        Ok(())
    };
    trips.series().take(trip, || Ok(()))
}

/// Polls until it is killed.
pub(crate) fn spin_peer() -> Result<()> {
    let page = Mapping::new(stdout(), PAGE_BYTES, true, Pages::Present)?;
    say_ready()?;
    let mut seen = 0;
    loop {
        let turn = page.atomic::<AtomicU64>(ASKED).load(Ordering::Acquire);
        if turn != seen {
            seen = turn;
            page.atomic::<AtomicU64>(ANSWERED).store(turn, Ordering::Release);
        }
        hint::spin_loop();
    }
}
