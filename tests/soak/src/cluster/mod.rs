//! `cluster`: whole nodes of a pool with a real etcd, clients on all of them, and in each round a
//! fault.
//!
//! ```text
//!   threads of this process ──► node 0, 1, 2 (plasmond, keeper, plasmon-poold) ──► etcd
//!          │ what they did, what they were told
//!          ▼
//!       History ◄── after each round, when all is up again: a look at everything (audit.rs)
//! ```
//!
//! Clients put names, and objects without names, which the pool accepts later (homed.rs), gather
//! parts of them, and write regions that become such objects (parts.rs). An object
//! that was acknowledged is there until it is deleted, unless as many nodes died with their memory
//! as it had copies. A durable one is in the logs of its nodes: it is there although the power of
//! all went at once (power.rs), unless as many nodes were replaced by others with empty logs, and
//! after its delete it never comes back from one. Bytes are never wrong, a name never has two
//! objects, nothing waits for ever, and no store keeps what no object needs.

mod audit;
mod fault;
mod history;
mod homed;
mod load;
mod machine;
mod parts;
mod power;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use plasmon_etcd::Options;
use plasmon_testkit::{Etcd, Random};

use self::audit::{Audit, settles};
use self::fault::{Fault, Scene, Successor};
use self::load::{Shared, lock};
use self::machine::{Machine, Programs};
use self::verdict::Verdict;

/// Threads with a client each, on every node.
const CLIENTS: usize = 2;

/// How long a thread looks for a node that is away.
const CONNECT: Duration = Duration::from_millis(300);

/// A node is replaced so seldom that the pool gives up the one before.
const REPLACE_EVERY: Duration = Duration::from_secs(60);

/// What a failure shows of each node's log, without the steps of the node.
const LOG_LINES: usize = 40;

/// What to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Plan {
    /// The daemon's program.
    #[arg(long)]
    daemon: PathBuf,
    /// The pool daemon's program.
    #[arg(long)]
    pool_daemon: PathBuf,
    /// Rounds of one fault or two.
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// Where the decisions come from; without one it is taken from the clock and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many nodes; without a number, 3 or 4.
    #[arg(long)]
    nodes: Option<usize>,
    /// Only faults with these words in their description; for the search for what one causes.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Keeps the logs of the nodes in this folder.
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// Runs the soak; whether nothing was found.
pub(crate) fn run(plan: &Plan) -> Result<bool> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = plan.seed.unwrap_or_else(clock);
    let mut random = Random::new(seed);
    let drawn = 3 + random.size_below(2);
    let nodes = plan.nodes.unwrap_or(drawn);
    println!("soak cluster: {} rounds, {nodes} nodes, seed {seed}", plan.rounds);
    let Some(etcd) = Etcd::start() else {
        println!("0 passed, 0 failed, 1 skipped");
        return Ok(true);
    };
    let endpoint = etcd.endpoints().remove(0);
    let programs = Programs {
        daemon: plan.daemon.clone(),
        pool_daemon: plan.pool_daemon.clone(),
        etcd: endpoint.trim_start_matches("http://").to_owned(),
    };
    let machines = (0..nodes).map(|number| Machine::start(&programs, number));
    let machines = machines.collect::<Result<Vec<_>>>()?;
    let shared = Arc::new(Shared::default());
    let only = plan.only.clone();
    let etcd_options = Options::new(vec![programs.etcd.clone()]);
    let mut pool =
        Pool { machines, etcd, etcd_options, shared, random, replaced: None, round: 0, only };
    let begun = Instant::now();
    let outcome = pool.rounds(plan.rounds);
    pool.shared.counts().iter().for_each(|(what, count)| println!("  {count:8} {what}"));
    let is_clean = matches!(&outcome, Ok(findings) if findings.is_empty());
    if let Some(folder) = &plan.logs {
        pool.write_logs(folder)?;
    }
    if !is_clean {
        pool.print_logs();
        let found = outcome.iter().flatten();
        found.for_each(|finding| println!("in round {}: {finding}", pool.round));
        println!("again: make soak NAME=cluster ROUNDS={} SEED={seed}", plan.rounds);
    }
    let verdict = Verdict::of(outcome.iter().flatten());
    println!("in {:.1} s, {} rounds: {verdict}", begun.elapsed().as_secs_f64(), pool.round);
    println!("{} passed, {} failed", u8::from(is_clean), u8::from(!is_clean));
    Ok(outcome?.is_empty())
}

/// The nodes, and what is known of what they have.
struct Pool {
    machines: Vec<Machine>,
    etcd: Etcd,
    etcd_options: Options,
    shared: Arc<Shared>,
    random: Random,
    /// When a node was last replaced.
    replaced: Option<Instant>,
    /// The round that was begun last.
    round: u64,
    /// Words of the faults.
    only: Vec<String>,
}

impl Pool {
    /// All rounds, or those to the first that finds something; what was found.
    fn rounds(&mut self, rounds: u64) -> Result<Vec<String>> {
        if let Some(missing) = settles(&self.etcd_options, self.machines.len()) {
            return Ok(vec![missing]);
        }
        let threads = self.start_load();
        let outcome = self.rounds_under_load(rounds);
        self.shared.end();
        let findings = outcome?;
        // After a failure a call may never end.
        if !findings.is_empty() {
            return Ok(findings);
        }
        for thread in threads {
            if thread.join().is_err() {
                return Ok(vec!["a client panicked".to_owned()]);
            }
        }
        let mut findings = Audit::new(&self.shared, &self.machines, rounds + 1)?.run(true);
        findings.extend(std::mem::take(&mut lock(&self.shared.history).findings));
        for machine in &mut self.machines {
            machine.stop()?;
        }
        Ok(findings)
    }

    fn start_load(&mut self) -> Vec<JoinHandle<()>> {
        self.shared.pause();
        self.tell_nodes();
        let nodes = self.machines.len();
        let start = |thread: usize| {
            let (shared, seed) = (self.shared.clone(), self.random.word());
            thread::spawn(move || load::work(&shared, thread, thread % nodes, seed))
        };
        (0..nodes * CLIENTS).map(start).collect()
    }

    /// Tells the clients where the nodes are.
    fn tell_nodes(&self) {
        let options = self.machines.iter().map(|machine| machine.options(CONNECT));
        *lock(&self.shared.nodes) = options.collect();
    }

    fn rounds_under_load(&mut self, rounds: u64) -> Result<Vec<String>> {
        for round in 1..=rounds {
            self.round = round;
            let begun = Instant::now();
            let nodes = self.machines.len();
            let mut faults = fault::draw_like(&mut self.random, nodes, &self.only);
            self.spare_the_brake(&mut faults);
            let text = fault::describe(&faults);
            self.shared.resume();
            thread::sleep(Duration::from_millis(200 + self.random.below(800)));
            let shared = self.shared.clone();
            let Self { machines, etcd, random, .. } = self;
            Scene { machines, etcd, random }.play(&faults, &shared)?;
            self.tell_nodes();
            thread::sleep(Duration::from_millis(200 + self.random.below(1_500)));
            let mut findings = self.shared.pause();
            let paused = begun.elapsed();
            findings.extend(settles(&self.etcd_options, self.machines.len()));
            if findings.is_empty() {
                findings = Audit::new(&self.shared, &self.machines, round)?.run(false);
            }
            findings.extend(std::mem::take(&mut lock(&self.shared.history).findings));
            let (load, all) = (paused.as_secs_f64(), begun.elapsed().as_secs_f64());
            println!("round {round}: {text}: {load:.1} s of {all:.1} s");
            if !findings.is_empty() {
                return Ok(findings);
            }
        }
        Ok(Vec::new())
    }

    /// Two nodes that go for good within half a minute are so many that the pool gives none up
    /// before a person says so.
    fn spare_the_brake(&mut self, faults: &mut [Fault]) {
        for fault in faults {
            if let Fault::KillNode(node, Successor::Another) = *fault {
                if self.replaced.is_some_and(|at| at.elapsed() < REPLACE_EVERY) {
                    *fault = Fault::KillNode(node, Successor::Same);
                } else {
                    self.replaced = Some(Instant::now());
                }
            }
        }
    }

    fn write_logs(&self, folder: &std::path::Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        for (number, machine) in self.machines.iter().enumerate() {
            std::fs::write(folder.join(format!("node{number}.log")), machine.log())?;
        }
        Ok(())
    }

    fn print_logs(&self) {
        for (number, machine) in self.machines.iter().enumerate() {
            let log = machine.log();
            let lines: Vec<_> = log.lines().filter(|line| !line.contains(" TRACE ")).collect();
            println!("the end of the log of node {number}:");
            lines[lines.len().saturating_sub(LOG_LINES)..].iter().for_each(|line| {
                println!("  {line}");
            });
        }
    }
}
