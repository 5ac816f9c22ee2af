//! Rules broken on purpose: the simulator must notice every one of them.

use std::process::ExitCode;
use std::time::Instant;

use plasmon_shm::edge::Mutation;

/// The rules that can be broken.
const ALL: &[Mutation] = &[
    Mutation::SkipFence,
    Mutation::KeepStaleMapping,
    Mutation::ForgetLingering,
    Mutation::DropWithoutPunch,
    Mutation::AnswerBeforeDraining,
    Mutation::AdoptWithoutReplay,
    Mutation::AckBeforePublish,
    Mutation::HoldNothing,
    Mutation::IgnoreDeath,
    Mutation::ResumeWithoutLeases,
    Mutation::LoseSilently,
    Mutation::IgnoreRefusal,
];

/// The rule of this name.
pub(crate) fn named(name: &str) -> Result<Mutation, String> {
    let found = ALL.iter().find(|rule| format!("{rule:?}") == name);
    found.copied().ok_or_else(|| format!("no such mutation: {name}; there are {ALL:?}"))
}

/// Breaks each rule in turn, in up to so many seeds.
pub(crate) fn run(seeds: u64, jobs: usize) -> ExitCode {
    let mut missed = Vec::new();
    for rule in ALL {
        let begun = Instant::now();
        let outcome = crate::run_many(1, seeds, Some(*rule), jobs, false);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome.failure {
            Some(failure) => {
                let name = format!("{rule:?}");
                println!(
                    "{name:<24} seed {:>5} ({seconds:.1} s): {}",
                    failure.seed, failure.violation
                );
            }
            None => {
                println!("{rule:?}: NOT FOUND in {seeds} seeds ({seconds:.1} s)");
                missed.push(rule);
            }
        }
    }
    println!("sim-mutations: {} passed, {} failed", ALL.len() - missed.len(), missed.len());
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
