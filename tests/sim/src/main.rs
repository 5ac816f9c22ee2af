//! The simulator: daemon, keeper and clients in one process, in an order that follows from a seed.
//!
//! ```text
//! run: one seed ──► world: processes, tasks, clock ──► edge (what the real code asks the kernel)
//!  │                    │                                │
//!  │ faults             └── tasks: coroutines            ├── the daemon's own loop and workers
//!  │                                                     ├── the keeper's own loop
//!  └► audit: what must hold when all is quiet            └── clients: the real library
//!                         model: what is known of every object, and its bytes
//! ```
//!
//! The code under test is not changed and not simulated: what it asks of the world outside goes
//! through `plasmon_shm::edge`, and this answers. Sockets, descriptors and memory are real.

mod audit;
mod clients;
mod memory;
mod model;
mod mutations;
mod random;
mod report;
mod run;
mod tasks;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use plasmon_shm::edge::Mutation;

use crate::run::{Failure, Tally};

const USAGE: &str = "plasmon-sim [--seeds N] [--first N] [--seed N] [--mutation NAME] \
                     [--mutations [SEEDS]] [--jobs N] [--twice] [--log]";

#[derive(Debug)]
struct Options {
    seeds: u64,
    first: u64,
    one: Option<u64>,
    mutation: Option<Mutation>,
    mutations: Option<u64>,
    jobs: usize,
    twice: bool,
    log: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    report::watch_panics();
    if options.log {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        log.with_writer(std::io::stdout).without_time().init();
    }
    if let Some(seeds) = options.mutations {
        return mutations::run(seeds, options.jobs);
    }
    let (first, count) = match options.one {
        Some(seed) => (seed, 1),
        None => (options.first, options.seeds),
    };
    let begun = Instant::now();
    let outcome = run_many(first, count, options.mutation, options.jobs, true);
    let (tally, done) = (outcome.tally, outcome.done);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{done} seeds in {seconds:.1} s ({:.0}/s): {tally}", done as f64 / seconds);
    if options.twice {
        return again(first, count, options.mutation, &outcome);
    }
    match outcome.failure {
        None => {
            println!("sim-node: {done} passed, 0 failed");
            ExitCode::SUCCESS
        }
        Some(failure) => {
            report::tell(&failure, options.mutation);
            println!("sim-node: {} passed, 1 failed", done - 1);
            ExitCode::FAILURE
        }
    }
}

/// What became of many seeds.
#[derive(Debug)]
pub(crate) struct Outcome {
    tally: Tally,
    done: u64,
    failure: Option<Failure>,
}

/// Runs the same seeds once more: the same must have happened.
fn again(first: u64, count: u64, mutation: Option<Mutation>, once: &Outcome) -> ExitCode {
    let twice = run_many(first, count, mutation, 1, false);
    let what = |it: &Outcome| {
        let failed = it.failure.as_ref().map(|failure| failure.violation.clone());
        format!("{} {failed:?}", it.tally)
    };
    if what(once) == what(&twice) {
        println!("sim-node: {count} seeds did the same twice");
        return ExitCode::SUCCESS;
    }
    println!("sim-node: not the same twice:\n{}\n{}", what(once), what(&twice));
    ExitCode::FAILURE
}

/// Runs seeds in so many threads until one fails.
pub(crate) fn run_many(
    first: u64,
    count: u64,
    mutation: Option<Mutation>,
    jobs: usize,
    tells: bool,
) -> Outcome {
    let (next, done, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let sum = Mutex::new((Tally::default(), None::<Failure>));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
                let folder = folder.expect("there is a folder for the socket");
                while !failed.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    let outcome = run::run(first + at, mutation, folder.path());
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(tally) => sum.0.add(&tally),
                        Err(failure) => {
                            failed.store(true, Ordering::Relaxed);
                            let earlier = sum.1.as_ref().is_some_and(|it| it.seed < failure.seed);
                            if !earlier {
                                sum.1 = Some(failure);
                            }
                        }
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if tells && done % 1000 == 0 {
                        println!("{done} seeds: {}", sum.0);
                    }
                }
            });
        }
    });
    let (tally, failure) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome { tally, done: done.into_inner(), failure }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        seeds: 1000,
        first: 1,
        one: None,
        mutation: None,
        mutations: None,
        jobs: cores,
        twice: false,
        log: false,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("no number: {text}"));
        match argument.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--first" => options.first = number(value()?)?,
            "--seed" => options.one = Some(number(value()?)?),
            "--jobs" => options.jobs = number(value()?)?.max(1) as usize,
            "--mutation" => options.mutation = Some(mutations::named(&value()?)?),
            "--mutations" => options.mutations = Some(number(value()?)?),
            "--twice" => options.twice = true,
            "--log" => options.log = true,
            other => return Err(format!("unknown: {other}")),
        }
    }
    Ok(options)
}
