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
mod report;
mod run;
mod tasks;
mod workers;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use plasmon_shm::edge::Mutation;

use crate::report::Sum;
use crate::run::Tally;
use crate::workers::Work;

const USAGE: &str = "plasmon-sim [--seeds N] [--first N] [--seed N] [--mutation NAME] [--jobs N] \
                     [--log] [--same SEEDS] [--mutations SEEDS]";

/// Failed seeds of which the last events are told.
const REPORTED_MAX: u64 = 3;

#[derive(Debug)]
struct Options {
    seeds: u64,
    first: u64,
    one: Option<u64>,
    mutation: Option<Mutation>,
    /// Seeds that are run with every rule broken in turn.
    mutations: u64,
    /// Seeds that are run once more, and must do the same.
    same: u64,
    jobs: u64,
    log: bool,
    /// Whether this process runs seeds for another one.
    is_worker: bool,
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
    let (first, count) = options.one.map_or((options.first, options.seeds), |seed| (seed, 1));
    let Options { mutation, jobs, .. } = options;
    let work = Work { first, count, mutation, jobs, is_logged: false, tells: true };
    if options.is_worker {
        workers::serve(Work { is_logged: options.log, ..work });
        return ExitCode::SUCCESS;
    }
    if options.log {
        return show(work);
    }
    let mut sums = Vec::new();
    if count > 0 {
        sums.push(run_seeds(work));
    }
    if options.same > 0 {
        sums.push(run_again(Work { count: options.same, tells: false, ..work }));
    }
    if options.mutations > 0 {
        sums.push(mutations::run(Work { count: options.mutations, tells: false, ..work }));
    }
    let is_fine = sums.iter().all(|sum| sum.failed == 0);
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs seeds in this process, with everything that is logged.
fn show(work: Work) -> ExitCode {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    log.with_writer(std::io::stdout).with_ansi(false).without_time().init();
    let folder = tempfile::tempdir_in("/dev/shm").expect("there is a folder for the socket");
    for seed in work.first..work.first + work.count {
        let report = run::run(seed, work.mutation, folder.path());
        if let Some(failure) = &report.failure {
            report::print_failure(seed, failure, work.mutation, true);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs seeds, and tells of those that fail.
fn run_seeds(work: Work) -> Sum {
    let begun = Instant::now();
    let (mut sum, mut tally) = (Sum::default(), Tally::default());
    let mut failed = Vec::new();
    workers::run_all(work, |report| {
        tally.add(&report.tally);
        match &report.failure {
            None => sum.passed += 1,
            Some(failure) => {
                report::print_failure(
                    report.seed,
                    failure,
                    work.mutation,
                    sum.failed >= REPORTED_MAX,
                );
                sum.failed += 1;
                failed.push(report.seed);
            }
        }
        true
    });
    let seconds = begun.elapsed().as_secs_f64();
    let rate = work.count as f64 / seconds;
    println!("{} seeds in {seconds:.1} s ({rate:.1} a second): {tally}", work.count);
    if !failed.is_empty() {
        failed.sort_unstable();
        println!("failed: {failed:?}");
    }
    println!("sim-node: {sum}");
    sum
}

/// Runs seeds twice, the second time with everything logged: the same must happen.
fn run_again(work: Work) -> Sum {
    let once = workers::hashes(work);
    let again = workers::hashes(Work { is_logged: true, ..work });
    let mut sum = Sum::default();
    for (seed, hash) in &once {
        if again.get(seed) == Some(hash) {
            sum.passed += 1;
        } else {
            println!("seed {seed} does not do the same twice");
            sum.failed += 1;
        }
    }
    println!("sim-same: {sum}");
    sum
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        seeds: 1000,
        first: 1,
        one: None,
        mutation: None,
        mutations: 0,
        same: 0,
        jobs: std::thread::available_parallelism().map_or(1, usize::from) as u64,
        log: false,
        is_worker: false,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("no number: {text}"));
        match argument.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--first" => options.first = number(value()?)?,
            "--seed" => options.one = Some(number(value()?)?),
            "--jobs" => options.jobs = number(value()?)?.max(1),
            "--mutation" => options.mutation = Some(mutations::named(&value()?)?),
            "--mutations" => options.mutations = number(value()?)?,
            "--same" => options.same = number(value()?)?,
            "--log" => options.log = true,
            "--worker" => options.is_worker = true,
            other => return Err(format!("unknown: {other}")),
        }
    }
    Ok(options)
}
