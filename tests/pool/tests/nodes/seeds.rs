//! Runs from seeds.
//!
//! `make sim SEED=8317` replays one run, here and in the simulation of the nodes alone;
//! `WHOLE=10000` runs more of these, `FIRST=10000` begins elsewhere, and `MUTATIONS=all` breaks
//! rules that must be found to be broken. A seed that fails prints its last events, as many as
//! `EVENTS` says.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plasmon_proto::ObjectId;
use plasmon_proto::parts::PARTS_TTL_MS;

use super::world::{Act, What, World};

/// Seeds that the test runs, and at most so many to find a broken rule.
const SEEDS: u64 = 60;
const MUTATION_SEEDS: u64 = 3000;

/// Threads that run seeds.
const THREADS: usize = 2;

/// How long faults happen, and how long everything may take after that.
const FAULTS_MS: u64 = 9_000;
const QUIET_MS: u64 = 30_000;

/// Of the quiet time: after so long, every node is asked about every id.
const AUDIT_MS: u64 = 19_000;

/// How long the nodes have to say where everything is, and to delete everything.
const PLACES_MS: u64 = 1_000;
const DELETES_MS: u64 = 10_000;

/// Events that the report of a failure has, unless `EVENTS` says otherwise.
const EVENTS: u64 = 80;

/// A rule that a pool daemon can break, to see that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Copies that are to be kept may be evicted.
    SealUnkept,
    /// Copies are shown before they are published.
    ShowAtOnce,
    /// A node is not told that its store has ended a copy.
    ForgetEnded,
    /// Copies are shown without a lease for twenty times as long as the other nodes count on.
    VouchForLong,
    /// Copies that are to be dropped stay, and are said to be gone.
    KeepDropped,
    /// A node takes a copy for sealed that its store was only told to seal.
    SealedAtOnce,
    /// Parts in messages have a wrong byte.
    WrongParts,
    /// Writes to regions are answered, and not done.
    LoseWrites,
    /// A pool daemon does not hear that the session of an adoption has ended.
    ForgetOrphans,
}

impl World {
    /// Runs a whole life of the pool.
    fn run(&mut self) -> Result<(), String> {
        self.make_ids();
        self.start_all()?;
        self.after_ms(1_000, What::Act(Act::Fault));
        self.run_until(self.now.after_ms(FAULTS_MS), true)?;
        self.stop_faults()?;
        self.end_all_owners()?;
        self.end_all_adoptions()?;
        self.run_until(self.now.after_ms(AUDIT_MS), false)?;
        let audit = self.audit()?;
        self.run_until(self.now.after_ms(QUIET_MS - AUDIT_MS), false)?;
        self.check_answers(&audit)?;
        self.check_durable(&audit)?;
        self.rest()?;
        self.check_regions()?;
        self.check_adoptions()?;
        self.look_at_places()?;
        self.history.check()?;
        let deletes = self.delete_all()?;
        self.run_until(self.now.after_ms(DELETES_MS), false)?;
        self.check_late()?;
        self.wait_for_parts()?;
        self.rest()?;
        self.check_empty(&deletes)?;
        self.look_at_places()
    }

    /// Waits until nothing is under way. A repair that finds no room is tried again now and then.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..10 {
            if self.check_rest().is_ok() {
                break;
            }
            self.run_until(self.now.after_ms(100), false)?;
        }
        self.check_rest()
    }

    /// Parts that no program has taken delete themselves.
    fn wait_for_parts(&mut self) -> Result<(), String> {
        let is_local = |(id, ..): &(ObjectId, _, _)| !id.is_pooled();
        if self.machines.iter().any(|machine| machine.copies().iter().any(is_local)) {
            let until = self.quiet_at.after_ms(PARTS_TTL_MS + 2_000);
            self.run_until(until.max(self.now), false)?;
        }
        Ok(())
    }

    fn look_at_places(&mut self) -> Result<(), String> {
        self.ask_places()?;
        self.run_until(self.now.after_ms(PLACES_MS), false)?;
        self.check_places()
    }
}

/// Runs one seed; what went wrong.
fn run(seed: u64, mutation: Option<Mutation>, trace_max: usize) -> Result<(), String> {
    let mut world = World::new(seed, mutation, trace_max);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let ended = ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    });
    ended.map_err(|what| format!("seed {seed}: {what}\n{}", world.trace()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seeds() -> std::ops::Range<u64> {
    let first = number("FIRST").unwrap_or(0);
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("WHOLE").unwrap_or(SEEDS),
    }
}

/// The seeds that fail, with the reason; of all or up to enough of them, tried by several threads.
fn failing(
    seeds: std::ops::Range<u64>,
    mutation: Option<Mutation>,
    is_enough: impl Fn(usize) -> bool + Sync,
) -> BTreeMap<u64, String> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(BTreeMap::new());
    // A seed that fails without a broken rule says nothing about the rule.
    let is_news = |seed| mutation.is_none() || run(seed, None, 0).is_ok();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || is_enough(found.lock().map_or(0, |found| found.len())) {
                return;
            }
            if let Err(what) = run(seed, mutation, 0)
                && is_news(seed)
                && let Ok(mut found) = found.lock()
            {
                found.insert(seed, what);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap_or_default()
}

#[test]
fn whole_nodes_keep_every_promise() {
    let seeds = seeds();
    let failing = failing(seeds.clone(), None, |_| false);
    println!("whole nodes, seeds {seeds:?}: {} failed", failing.len());
    failing.values().for_each(|what| println!("{what}"));
    if let Some(seed) = failing.keys().next() {
        // The same again, this time with a report.
        let events = number("EVENTS").unwrap_or(EVENTS);
        let report = run(*seed, None, events as usize).expect_err("it failed before");
        panic!("{report}\nseeds that fail: {:?}", failing.keys());
    }
}

#[test]
#[ignore = "takes half a minute; make sim MUTATIONS=all"]
fn a_broken_rule_is_found() {
    for rule in [
        Mutation::SealUnkept,
        Mutation::ShowAtOnce,
        Mutation::ForgetEnded,
        Mutation::VouchForLong,
        Mutation::KeepDropped,
        Mutation::SealedAtOnce,
        Mutation::WrongParts,
        Mutation::LoseWrites,
        Mutation::ForgetOrphans,
    ] {
        let found = failing(0..MUTATION_SEEDS, Some(rule), |found| found > 0);
        let found = found.values().next().map(|what| what.trim_end());
        println!("whole nodes: {rule:?} found by {found:?}");
        assert!(found.is_some(), "{rule:?} was not found");
    }
}
