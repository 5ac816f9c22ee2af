//! Rules broken on purpose: the simulator must notice every one of them.

use std::collections::BTreeMap;
use std::time::Instant;

use plasmon_shm::edge::Mutation;

use crate::report::Sum;
use crate::workers::{self, Work};

/// The rules that can be broken.
const ALL: &[Mutation] = &[
    Mutation::SkipFence,
    Mutation::KeepStaleMapping,
    Mutation::ForgetDetached,
    Mutation::DropWithoutPunch,
    Mutation::AnswerBeforeDraining,
    Mutation::AdoptWithoutReplay,
    Mutation::AckBeforePublish,
    Mutation::HoldNothing,
    Mutation::IgnoreDeath,
    Mutation::ResumeWithoutLeases,
    Mutation::LoseSilently,
    Mutation::IgnoreRefusal,
    Mutation::SleepOn,
];

/// The rule of this name.
pub(crate) fn named(name: &str) -> Result<Mutation, String> {
    let found = ALL.iter().find(|rule| format!("{rule:?}") == name);
    found.copied().ok_or_else(|| format!("no such mutation: {name}; there are {ALL:?}"))
}

/// Breaks each rule in turn, in as many seeds, until one of them fails that does not fail without.
pub(crate) fn run(work: Work) -> Sum {
    let mut sum = Sum::default();
    // Whether seeds fail by themselves, as far as that was needed.
    let mut fails = BTreeMap::new();
    for rule in ALL {
        let begun = Instant::now();
        let broken = Work { mutation: Some(*rule), ..work };
        let mut found = None;
        workers::run_all(broken, |report| {
            let Some(failure) = &report.failure else { return true };
            let seed = report.seed;
            let fails = *fails.entry(seed).or_insert_with(|| fails_by_itself(seed, work));
            if !fails {
                found = Some((seed, failure.violation.clone()));
            }
            found.is_none()
        });
        let (name, seconds) = (format!("{rule:?}"), begun.elapsed().as_secs_f64());
        match found {
            Some((seed, violation)) => {
                println!("{name:<20} found in {seconds:>5.1} s, seed {seed}: {violation}");
                sum.passed += 1;
            }
            None => {
                println!("{name:<20} NOT FOUND in {} seeds, {seconds:.1} s", work.count);
                sum.failed += 1;
            }
        }
    }
    println!("sim-mutations: {sum}");
    sum
}

fn fails_by_itself(seed: u64, work: Work) -> bool {
    let alone = Work { first: seed, count: 1, jobs: 1, tells: false, ..work };
    let mut fails = false;
    workers::run_all(alone, |report| {
        fails = report.failure.is_some();
        true
    });
    fails
}
