//! The output of the simulator.

use std::cell::RefCell;

use plasmon_shm::edge::Mutation;

use crate::run::{Counter, Failure, Report, Tally};

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps where a panic came from instead of printing it.
pub(crate) fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("at {}:{}", at.file(), at.line()));
        PANIC.set(place.unwrap_or_default());
    }));
}

/// Where the last panic of this thread came from.
pub(crate) fn last_panic() -> String {
    PANIC.take()
}

/// How many checks passed and failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl std::fmt::Display for Sum {
    /// As the other runners of tests say it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    /// Adds what another seed did.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted =
            Counter::ALL.iter().map(|counter| format!("{} {}", self.of(*counter), counter.words()));
        f.write_str(&counted.collect::<Vec<_>>().join(", "))
    }
}

impl Report {
    /// A seed whose process ended with it.
    pub(crate) fn of_end(seed: u64, violation: String) -> Self {
        let failure = Failure { violation, trace: Vec::new() };
        Self { seed, failure: Some(failure), ..Self::default() }
    }

    /// As lines, for the parent of a worker.
    pub(crate) fn encode(&self) -> String {
        let Self { seed, hash, tally, failure } = self;
        let sums: Vec<String> = tally.0.iter().map(u64::to_string).collect();
        let word = if failure.is_some() { "failed" } else { "passed" };
        let mut text = format!("{word} {seed} {hash} {}\n", sums.join(" "));
        if let Some(Failure { violation, trace }) = failure {
            let lines = std::iter::once(violation).chain(trace).flat_map(|line| line.lines());
            lines.for_each(|line| text += &format!("| {line}\n"));
            text += "end\n";
        }
        text
    }

    /// What [`Self::encode`] wrote; `None` for any other line.
    pub(crate) fn decode(line: &str, rest: &mut impl Iterator<Item = String>) -> Option<Self> {
        let mut words = line.split(' ');
        let is_failed = match words.next()? {
            "passed" => false,
            "failed" => true,
            _ => return None,
        };
        let mut number = || words.next()?.parse().ok();
        let (seed, hash) = (number()?, number()?);
        let mut tally = Tally::default();
        for sum in &mut tally.0 {
            *sum = number()?;
        }
        let failure = is_failed.then(|| {
            let lines = rest.take_while(|line| line != "end");
            let mut lines = lines.map(|line| line.trim_start_matches("| ").to_owned());
            let violation = lines.next().unwrap_or_default();
            Failure { violation, trace: lines.collect() }
        });
        Some(Self { seed, hash, tally, failure })
    }
}

/// Tells how a seed failed, what happened last in it, and how to see it again.
pub(crate) fn print_failure(
    seed: u64,
    failure: &Failure,
    mutation: Option<Mutation>,
    is_short: bool,
) {
    println!("seed {seed}: {}", failure.violation);
    if !is_short {
        failure.trace.iter().for_each(|line| println!("  {line}"));
    }
    let with = mutation.map_or(String::new(), |it| format!(" MUTATION={it:?}"));
    println!("  again: make sim-node SEED={seed}{with}");
}
