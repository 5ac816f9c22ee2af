//! `kill`: rounds of one death each, with audits between them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::audit;
use crate::fates::{Fate, Fates};
use crate::journal::Entry;
use crate::node::Node;
use crate::random::Random;
use crate::tally::Tally;
use crate::worker::PATIENCE;

/// Rounds between two audits.
const AUDIT_EVERY: u64 = 25;
/// An audit comes early when the objects may have grown beyond this.
const BYTES_MAX: usize = 192 << 20;
/// What the store holds; more than [`BYTES_MAX`], and little enough that some is spilled.
const CAPACITY: &str = "256m";
/// The most that a victim lives from the round's start, so that it dies at every step of its work.
const LIFE_MS_MAX: u64 = 40;
/// Lines of the daemon's log that a failure shows.
const LOG_LINES: usize = 30;

/// What to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Plan {
    /// The daemon's program.
    #[arg(long)]
    daemon: PathBuf,
    /// How many processes are killed.
    #[arg(long, default_value_t = 2000)]
    rounds: u64,
    /// Where the decisions come from; without one it is taken from the clock and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Clients at work at any time.
    #[arg(long, default_value_t = 4)]
    workers: usize,
}

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Client,
    Daemon,
    Keeper,
}

/// A client process.
struct Worker {
    number: u32,
    child: Child,
    /// Closed to let it end by itself.
    stdin: Option<ChildStdin>,
}

/// What comes from a worker: a line, or the end.
type Line = (u32, Option<String>);

/// The verifier.
struct Verifier<'a> {
    plan: &'a Plan,
    node: Node,
    workers: Vec<Worker>,
    started: u32,
    lines: (Sender<Line>, Receiver<Line>),
    fates: Fates,
    random: Random,
    tally: Tally,
}

/// Runs the soak; whether nothing was lost, leaked or violated.
pub(crate) fn run(plan: &Plan) -> Result<bool> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = plan.seed.unwrap_or_else(clock);
    println!("soak kill: {} rounds, {} clients, seed {seed}", plan.rounds, plan.workers);
    let node = Node::start(&plan.daemon, CAPACITY)?;
    let mut verifier = Verifier {
        plan,
        node,
        workers: Vec::new(),
        started: 0,
        lines: channel(),
        fates: Fates::default(),
        random: Random::new(seed),
        tally: Tally::default(),
    };
    let begun = Instant::now();
    let outcome = verifier.rounds();
    let Verifier { node, mut workers, tally, .. } = verifier;
    for worker in &mut workers {
        // Only after a failure are there any.
        let _ = worker.child.kill();
        let _ = worker.child.wait();
    }
    println!("in {:.1} s:\n{tally}", begun.elapsed().as_secs_f64());
    let log = node.log_tail(LOG_LINES);
    let stopped = node.stop();
    let clean = tally.is_clean() && outcome.is_ok() && matches!(stopped, Ok(true));
    if !clean {
        println!("the end of the daemon's log:\n{log}");
        println!("again: make soak NAME=kill ROUNDS={} SEED={seed}", plan.rounds);
    }
    println!("{} passed, {} failed", u8::from(clean), u8::from(!clean));
    outcome?;
    if !stopped? {
        bail!("the store's processes did not end");
    }
    Ok(clean)
}

impl Verifier<'_> {
    fn rounds(&mut self) -> Result<()> {
        for round in 1..=self.plan.rounds {
            while self.workers.len() < self.plan.workers {
                self.start_worker()?;
            }
            self.one_round()?;
            let due = round % AUDIT_EVERY == 0 || round == self.plan.rounds;
            if due || self.fates.bytes() > BYTES_MAX {
                self.audit(round)?;
            }
        }
        Ok(())
    }

    /// Lets everybody work for a moment, then kills one.
    fn one_round(&mut self) -> Result<()> {
        let victim = match self.random.below(100) {
            0..70 => Victim::Client,
            70..92 => Victim::Daemon,
            _ => Victim::Keeper,
        };
        let until = Instant::now() + Duration::from_micros(self.random.below(LIFE_MS_MAX * 1000));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(line) = self.lines.1.recv_timeout(left) {
                self.take(line);
            }
        }
        match victim {
            Victim::Client => {
                let at = self.random.index(self.workers.len()).context("there is no client")?;
                let mut worker = self.workers.swap_remove(at);
                worker.child.kill()?;
                worker.child.wait()?;
                self.count("clients");
            }
            Victim::Daemon => {
                let took = self.node.kill_daemon()?;
                self.tally.recoveries.push(took);
                self.count("daemons");
            }
            Victim::Keeper => {
                self.node.kill_keeper()?;
                self.count("keepers");
            }
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.kills.entry(what).or_default() += 1;
    }

    fn start_worker(&mut self) -> Result<()> {
        self.started += 1;
        let number = self.started;
        let mut child = worker_command(&self.node.socket(), number, self.random.next())
            .spawn()
            .context("starting a worker")?;
        let stdout = child.stdout.take().context("a worker has an output")?;
        let lines = self.lines.0.clone();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                // The verifier only stops listening when it ends.
                if lines.send((number, Some(line))).is_err() {
                    return;
                }
            }
            let _ = lines.send((number, None));
        });
        let stdin = child.stdin.take();
        self.workers.push(Worker { number, child, stdin });
        Ok(())
    }

    /// Lets every worker end by itself, reads all that they and the killed ones said, and looks.
    fn audit(&mut self, round: u64) -> Result<()> {
        for worker in &mut self.workers {
            worker.stdin = None;
        }
        for mut worker in std::mem::take(&mut self.workers) {
            let status = wait_within(&mut worker.child, PATIENCE * 2)?;
            if !status {
                let number = worker.number;
                self.tally.violations.push(format!("worker {number} did not end well"));
            }
        }
        // The readers of all workers, killed or not, end behind their last line; then the channel
        // has no sender left but the verifier's own.
        let (sender, receiver) = std::mem::replace(&mut self.lines, channel());
        drop(sender);
        while let Ok(line) = receiver.recv_timeout(PATIENCE) {
            self.take(line);
        }
        let tally = &mut self.tally;
        (tally.sealed, tally.deleted) = (self.fates.sealed, self.fates.deleted);
        let (there, either) = (self.fates.count(Fate::There), self.fates.count(Fate::Either));
        audit::run(&self.node, &mut self.fates, &mut self.random, &mut self.tally)?;
        let tally = &self.tally;
        println!(
            "round {round}: {there} objects there, {either} either way; {} lost, {} leaks, {} \
             violations",
            tally.lost.len(),
            tally.leaks.len(),
            tally.violations.len(),
        );
        Ok(())
    }

    fn take(&mut self, (number, line): Line) {
        let Some(line) = line else { return };
        match Entry::parse(&line) {
            // A killed worker's last line may be cut; it says nothing that was acknowledged.
            None => {}
            Some(Entry::Verified(count)) => self.tally.verified += count,
            Some(Entry::Refused(what)) => *self.tally.refused.entry(what).or_default() += 1,
            Some(Entry::Violation(what)) => {
                self.tally.violations.push(format!("worker {number}: {what}"));
            }
            Some(entry) => self.fates.learn(&entry),
        }
    }
}

fn worker_command(socket: &Path, number: u32, seed: u64) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("worker")
        .arg("--socket")
        .arg(socket)
        .args(["--number", &number.to_string(), "--seed", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Whether a process ended by itself, and well, within this time; afterwards it is gone.
fn wait_within(child: &mut Child, patience: Duration) -> Result<bool> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}
