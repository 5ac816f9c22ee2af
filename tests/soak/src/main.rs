//! The soak: random clients under load, processes killed at random, and an account of every object.
//!
//! ```text
//!   plasmon-soak kill             the verifier: starts the store and the workers, kills, audits
//!     ├── plasmond, its keeper    killed or stopped for a moment; both at once end a life
//!     ├── plasmon-soak worker     a client that puts, gets, deletes, waits and tells what it did
//!     └── plasmon-soak bystander  a client that has read something and then does nothing
//! ```
//!
//! A worker tells the verifier through its standard output what it is about to do and what was
//! acknowledged, so that the verifier knows what must be there, what must be gone, and what may be
//! either. The bytes of an object follow from its id, so that any worker can check every object.
//!
//! The decisions follow from the seed; how the processes interleave does not.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

mod audit;
mod bystander;
mod cluster;
mod content;
mod daemon;
mod fates;
mod journal;
mod kill;
mod lives;
mod log;
mod node;
mod processes;
mod residency;
mod tally;
mod worker;
mod worker_lines;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Real processes, killed at random, and an account of what was lost.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    soak: Soak,
}

#[derive(Debug, Subcommand)]
enum Soak {
    /// Kills clients, the daemon and the keeper under load.
    Kill(kill::Plan),
    /// Kills and stops what whole nodes of a pool are made of, and etcd, under load.
    Cluster(cluster::Plan),
    /// Kills everything under load of durable objects, and looks at what the log has.
    Log(log::Plan),
    /// A client of durable objects under the verifier's eyes.
    #[command(hide = true)]
    DurableWorker(log::hand::Orders),
    /// A client under the verifier's eyes.
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        number: u32,
        #[arg(long)]
        seed: u64,
    },
    /// A client that does nothing for long.
    #[command(hide = true)]
    Bystander {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        kind: bystander::Kind,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().soak {
        Soak::Kill(plan) => kill::run(&plan),
        Soak::Cluster(plan) => cluster::run(&plan),
        Soak::Log(plan) => log::run(&plan),
        Soak::DurableWorker(orders) => log::hand::run(&orders).map(|()| true),
        Soak::Worker { socket, number, seed } => worker::run(&socket, number, seed).map(|()| true),
        Soak::Bystander { socket, kind } => bystander::run(&socket, kind).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::from(2)
        }
    }
}
