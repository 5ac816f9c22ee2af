//! A client under the verifier's eyes: two threads that do whatever clients do, in random order.
//!
//! Each thread makes its own objects and deletes only those, so that what it was told is enough
//! to know what must be there. It reads those of all. Buffers are held for a while and compared
//! once more when they are let go: a pinned object never changes, whatever happened to it
//! meanwhile.

mod hand;

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plasmon_client::{Client, ConnectOptions, Error};
use plasmon_testkit::Random;

use crate::content::Origin;
use crate::journal::Entry;
use hand::Hand;

/// Threads of one worker, which share its connection.
const THREADS: u8 = 2;

/// For how long a worker waits for the daemon, at the start and after it was killed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to a store whose daemon may be killed at any time.
pub(crate) fn connect(socket: &Path, name: String) -> Result<Client, Error> {
    let options = ConnectOptions {
        socket: Some(socket.to_owned()),
        name,
        connect_timeout: TIMEOUT,
        reconnect_timeout: TIMEOUT,
        ..ConnectOptions::default()
    };
    Client::connect(&options)
}

/// Works until the standard input ends.
pub(crate) fn run(socket: &Path, number: u32, seed: u64) -> anyhow::Result<()> {
    let store = connect(socket, format!("worker {number}"))?;
    Entry::Ready.report();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let origin = Origin { worker: number, thread };
            let random = Random::new(seed.wrapping_mul(31).wrapping_add(u64::from(thread)));
            let (store, stop) = (store.clone(), &stop);
            scope.spawn(move || Hand::new(store, origin, random).work(stop));
        }
        // The verifier never writes: this ends when it lets the worker go, or is gone itself.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}
