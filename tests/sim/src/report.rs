//! What a person sees.

use std::cell::RefCell;

use plasmon_shm::edge::Mutation;

use crate::run::{Failure, Tally};

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

impl Tally {
    /// Adds what another seed did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.operations += other.operations;
        self.checks += other.checks;
        self.daemons_killed += other.daemons_killed;
        self.keepers_killed += other.keepers_killed;
        self.stores_lost += other.stores_lost;
        self.clients_killed += other.clients_killed;
        self.execs += other.execs;
        self.stops += other.stops;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} steps, {} operations, {} checks; killed: {} daemons, {} keepers, {} clients; \
             {} stores lost, {} execs, {} stops",
            self.steps,
            self.operations,
            self.checks,
            self.daemons_killed,
            self.keepers_killed,
            self.clients_killed,
            self.stores_lost,
            self.execs,
            self.stops
        )
    }
}

/// Tells how a seed failed and how to see it again.
pub(crate) fn tell(failure: &Failure, mutation: Option<Mutation>) {
    println!("seed {}: {}", failure.seed, failure.violation);
    failure.trace.iter().for_each(|line| println!("  {line}"));
    let with = mutation.map_or(String::new(), |it| format!(" MUTATION={it:?}"));
    println!("again: make sim-node SEED={}{with}", failure.seed);
}
