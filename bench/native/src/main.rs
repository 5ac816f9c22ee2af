//! The workers of the benchmark harness (`bench/worker.py`) in Rust: our client, and the machine's
//! limits beside it.
//!
//! ```text
//! plasmon-bench store                 our client: answers one JSON request per line
//! plasmon-bench log                   the log of durable objects alone, likewise
//! plasmon-bench limits                what the machine does without any store, likewise
//! plasmon-bench pool                  our client on three nodes of a pool, likewise
//! plasmon-bench peer <kind> <cpu>     the other end of a round trip; started by `limits`
//! plasmon-bench pool-reader <socket> <name>   a process that gets an object; started by `pool`
//! ```
//!
//! Every answer to a measurement holds samples: nanoseconds per operation, each the mean of one
//! batch. Deliberately absent: statistics, targets, tables. Those belong to the harness.

mod columns;
mod durable;
mod limits;
mod log;
mod machines;
mod pool;
mod protocol;
mod source;
mod store;
mod timing;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["store"] => {
            let mut side = store::Side::default();
            let outcome = protocol::serve(|request| side.run(request));
            side.stop();
            outcome
        }
        ["pool"] => {
            let mut side = pool::Side::default();
            let outcome = protocol::serve(|request| side.run(request));
            side.stop();
            outcome
        }
        ["log"] => {
            let mut side = log::Side::default();
            protocol::serve(|request| side.run(request))
        }
        ["pool-reader", socket, name] => pool::read(socket, name),
        ["limits"] => protocol::serve(limits::run),
        ["peer", kind, cpu] => limits::peer(kind, cpu.parse()?),
        _ => {
            bail!("usage: plasmon-bench store|pool|log|limits, and then one JSON request per line")
        }
    }
}
