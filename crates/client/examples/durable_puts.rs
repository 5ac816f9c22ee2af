//! Measures durable puts into a running store: so many clients, each of which puts objects of one
//! size and awaits every answer.
//!
//! `cargo run --release -p plasmon-client --example durable_puts -- SOCKET CLIENTS BYTES SECONDS`
//!
//! With a fifth argument, `created`, each object gets memory of its own by a request before the one
//! that seals it, as larger ones do.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use plasmon_client::{Client, ConnectOptions, ObjectId, PutOptions};

/// How many objects a client keeps before it deletes them.
const KEPT: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (place, mode) = arguments.split_at(arguments.len().min(4));
    let [socket, clients, bytes, seconds] = place else {
        return Err("usage: durable_puts SOCKET CLIENTS BYTES SECONDS [created]".into());
    };
    let (clients, bytes): (usize, usize) = (clients.parse()?, bytes.parse()?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    let options = ConnectOptions {
        socket: Some(socket.into()),
        exact: mode.first().is_some_and(|mode| mode == "created"),
        ..ConnectOptions::default()
    };
    let begin = Instant::now();
    let workers: Vec<_> = (0..clients)
        .map(|_| {
            let options = options.clone();
            thread::spawn(move || work(&options, bytes, begin + time))
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.join().map_err(|_| "a client failed")??);
    }
    let taken = begin.elapsed();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos() / 1000;
    println!(
        "clients {clients}, {bytes} B: {:.1} us a put; each waits {} us (p10 {}, p90 {})",
        taken.as_secs_f64() * 1e6 / times.len() as f64,
        at(50),
        at(10),
        at(90)
    );
    Ok(())
}

/// The times of the puts of one client.
fn work(
    options: &ConnectOptions,
    bytes: usize,
    until: Instant,
) -> Result<Vec<Duration>, plasmon_client::Error> {
    let store = Client::connect(options)?;
    let data = vec![7; bytes];
    let durable = PutOptions { durable: true, ..PutOptions::default() };
    let (mut times, mut made): (_, Vec<ObjectId>) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        let begin = Instant::now();
        made.push(store.put(&data, &durable)?);
        times.push(begin.elapsed());
        if made.len() == KEPT {
            store.delete(&made)?;
            made.clear();
        }
    }
    store.delete(&made)?;
    Ok(times)
}
