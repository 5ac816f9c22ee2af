//! Waking a process that sleeps in a futex: the least that a wait for a seal can cost.

use std::io::{stdin, stdout};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::thread::futex;
use serde::Deserialize;

use super::peer::{Peer, say_ready};
use crate::protocol::Samples;
use crate::source::{Mapping, Pages};
use crate::timing::now_ns;

const PAGE_BYTES: usize = 4096;
const TURN: usize = 0;
const BEGAN: usize = 128;

#[derive(Debug, Deserialize)]
pub(crate) struct Wakes {
    count: u32,
    /// For how long the waker sleeps before each wake, which is when the waiter falls asleep.
    gap_us: u32,
    server_cpu: i64,
}

pub(crate) fn futex(wakes: Wakes) -> Result<Samples> {
    let (page, file) = Mapping::anonymous(PAGE_BYTES, Pages::Present)?;
    let peer = Peer::start("futex", wakes.server_cpu, Some(file))?;
    let mut order = [0; 8];
    order[..4].copy_from_slice(&wakes.count.to_le_bytes());
    order[4..].copy_from_slice(&wakes.gap_us.to_le_bytes());
    send(&peer.socket, &order, SendFlags::empty())?;

    let word = page.atomic::<AtomicU32>(TURN);
    let mut samples = Vec::new();
    for turn in 0..wakes.count {
        while word.load(Ordering::Acquire) == turn {
            match futex::wait(word, futex::Flags::empty(), turn, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let woken = now_ns();
        let began = page.atomic::<AtomicU64>(BEGAN).load(Ordering::Acquire);
        samples.push(woken.saturating_sub(began) as f64);
    }
    Ok(Samples { samples, batch: 1 })
}

pub(crate) fn futex_peer() -> Result<()> {
    let page = Mapping::new(stdout(), PAGE_BYTES, true, Pages::Present)?;
    say_ready()?;
    let mut order = [0; 8];
    let (_, length) = recv(stdin(), &mut order, RecvFlags::empty())?;
    ensure!(length == order.len(), "the starter ended");
    let [a, b, c, d, e, f, g, h] = order;
    let count = u32::from_le_bytes([a, b, c, d]);
    let gap = Duration::from_micros(u32::from_le_bytes([e, f, g, h]).into());

    let word = page.atomic::<AtomicU32>(TURN);
    for turn in 0..count {
        std::thread::sleep(gap);
        page.atomic::<AtomicU64>(BEGAN).store(now_ns(), Ordering::Release);
        word.store(turn + 1, Ordering::Release);
        futex::wake(word, futex::Flags::empty(), 1)?;
    }
    Ok(())
}
