//! `log`: durable objects, and processes killed at any moment.
//!
//! In each round clients put, replace, delete and read durable objects, and then something dies
//! with `SIGKILL`: the daemon, so that the next one takes the memory over; the keeper; a client; or
//! the daemon, the keeper and all clients at once, so that nothing is left but the folder of the
//! log. After that a new store has the folder, and every object is looked at:
//!
//! * an acknowledged put or replacement that is not there is a *lost acknowledgement*;
//! * content that is not what was put is *torn*;
//! * an object whose delete was acknowledged, or that was found missing before, and is there again
//!   is *resurrected*.
//!
//! What was begun and not acknowledged is there whole or not at all; what it is found to be once,
//! it stays.

pub(crate) mod hand;
mod ledger;
mod line;
mod store;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use plasmon_testkit::Random;

use self::ledger::Ledger;
use self::line::Line;
use crate::daemon::Daemon;
use crate::worker_lines::{self, WorkerLine};

/// The longest that a store lives in a round before something dies.
const LIFE_MS_MAX: u64 = 120;

/// Rounds between two lines of progress.
const REPORT_EVERY: u64 = 50;

/// What to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Plan {
    /// The daemon's program.
    #[arg(long)]
    daemon: PathBuf,
    /// How many times something is killed.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Where the decisions come from; without one it is taken from the clock and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Clients at work at any time.
    #[arg(long, default_value_t = 3)]
    workers: usize,
    /// The folder of the log; without one a temporary folder.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// A client process.
struct Worker {
    number: u32,
    child: Child,
}

/// The verifier.
struct Verifier<'a> {
    plan: &'a Plan,
    folder: PathBuf,
    random: Random,
    ledger: Ledger,
    workers: Vec<Worker>,
    started: u32,
    /// Workers whose last line was not heard yet.
    speaking: usize,
    lines: (Sender<WorkerLine>, Receiver<WorkerLine>),
}

/// Runs the soak; whether nothing was lost, torn or resurrected.
pub(crate) fn run(plan: &Plan) -> Result<bool> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = plan.seed.unwrap_or_else(clock);
    println!("soak log: {} rounds, {} clients, seed {seed}", plan.rounds, plan.workers);
    let temporary = tempfile::Builder::new().prefix("plasmon-soak-log-").tempdir()?;
    let folder = plan.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut verifier = Verifier {
        plan,
        folder,
        random: Random::new(seed),
        ledger: Ledger::default(),
        workers: Vec::new(),
        started: 0,
        speaking: 0,
        lines: channel(),
    };
    let begun = Instant::now();
    let outcome = verifier.rounds();
    for mut worker in std::mem::take(&mut verifier.workers) {
        let _ = worker.child.kill();
        let _ = worker.child.wait();
    }
    let ledger = &verifier.ledger;
    println!("in {:.1} s: {}", begun.elapsed().as_secs_f64(), ledger.summary());
    let is_clean = outcome.is_ok() && ledger.is_clean();
    if !is_clean {
        println!("again: make soak NAME=log ROUNDS={} SEED={seed}", plan.rounds);
    }
    println!("{}", ledger.verdict());
    println!("{} passed, {} failed", u8::from(is_clean), u8::from(!is_clean));
    outcome?;
    Ok(is_clean)
}

impl Verifier<'_> {
    fn rounds(&mut self) -> Result<()> {
        let mut daemon = store::start(&self.plan.daemon, &self.folder, &mut self.random)?;
        for round in 1..=self.plan.rounds {
            while self.workers.len() < self.plan.workers {
                self.start_worker(&daemon)?;
            }
            self.listen_for(LIFE_MS_MAX);
            match self.random.below(100) {
                0..25 => {
                    daemon.kill_daemon()?;
                    self.ledger.count("daemons killed");
                }
                25..32 => {
                    daemon.kill_keeper()?;
                    self.ledger.count("keepers killed");
                }
                32..45 => {
                    let at = self.random.index(self.workers.len()).context("there is no client")?;
                    let mut worker = self.workers.swap_remove(at);
                    worker.child.kill()?;
                    worker.child.wait()?;
                    self.ledger.count("clients killed");
                }
                _ => {
                    daemon.kill_both()?;
                    self.end_workers()?;
                    self.ledger.count("whole stores killed");
                    daemon = store::start(&self.plan.daemon, &self.folder, &mut self.random)?;
                    self.ledger.audit(&daemon.store, &mut self.random)?;
                }
            }
            if round % REPORT_EVERY == 0 {
                println!("round {round}: {}", self.ledger.summary());
            }
        }
        // The last look, at what a store finds that was left by any of these.
        daemon.kill_both()?;
        self.end_workers()?;
        let mut daemon = store::start(&self.plan.daemon, &self.folder, &mut self.random)?;
        self.ledger.audit(&daemon.store, &mut self.random)?;
        daemon.stop()
    }

    fn start_worker(&mut self, daemon: &Daemon) -> Result<()> {
        self.started += 1;
        let number = self.started;
        let mut child = Command::new("/proc/self/exe")
            .arg("durable-worker")
            .arg("--socket")
            .arg(daemon.socket())
            .args(["--number", &number.to_string(), "--seed", &self.random.word().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a worker")?;
        worker_lines::forward(number, &mut child, &self.lines.0)?;
        self.speaking += 1;
        self.workers.push(Worker { number, child });
        Ok(())
    }

    /// Takes lines for a random time.
    fn listen_for(&mut self, most_ms: u64) {
        let until = Instant::now() + Duration::from_micros(self.random.below(most_ms * 1000));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(line) = self.lines.1.recv_timeout(left) {
                self.hear(line);
            }
        }
    }

    /// Kills all workers, and hears what they and the ones before them have said.
    fn end_workers(&mut self) -> Result<()> {
        for mut worker in std::mem::take(&mut self.workers) {
            worker.child.kill().with_context(|| format!("killing worker {}", worker.number))?;
            worker.child.wait()?;
        }
        while self.speaking > 0 {
            let heard = self.lines.1.recv().context("the readers of the workers have ended")?;
            self.hear(heard);
        }
        Ok(())
    }

    fn hear(&mut self, (number, line): WorkerLine) {
        let Some(line) = line else {
            self.speaking -= 1;
            return;
        };
        // A killed worker's last line may be cut; it says nothing that was acknowledged.
        if let Some(line) = Line::parse(&line) {
            self.ledger.learn(number, line);
        }
    }
}
