//! `kill`: rounds of one fault each, with audits between them.
//!
//! A fault is the death of a client, the daemon or the keeper, or a moment in which one of them is
//! stopped or the spill folder is gone. After some rounds the daemon and the keeper are killed at
//! once, which ends a life; the next one has other settings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use plasmon_testkit::Random;
use rustix::process::Signal;

use crate::audit;
use crate::bystander::Kind;
use crate::fates::{Fate, Fates};
use crate::journal::Entry;
use crate::lives::{self, Life};
use crate::node::Node;
use crate::processes;
use crate::residency;
use crate::tally::Tally;
use crate::worker::TIMEOUT;
use crate::worker_lines::{self, WorkerLine};

/// Rounds between two audits.
const AUDIT_EVERY: u64 = 25;
/// An audit comes early when the objects may have grown beyond this.
const BYTES_MAX: usize = 192 << 20;
/// Lives of a store in one soak, as far as the rounds suffice.
const LIVES: u64 = 8;
/// Rounds that a life has at least.
const LIFE_ROUNDS_MIN: u64 = 15;
/// The longest that something is stopped or away.
const PAUSE_MS_MAX: u64 = 100;
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
    /// The only kind of life, from 0; without it a store has one after the other.
    #[arg(long)]
    life: Option<u64>,
    /// Clients at work at any time.
    #[arg(long, default_value_t = 4)]
    workers: usize,
}

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillClient,
    KillDaemon,
    KillKeeper,
    StopClient,
    StopDaemon,
    StopKeeper,
    /// The spill folder is gone for a moment.
    LoseFolder,
}

impl Fault {
    fn draw(random: &mut Random, life: &Life) -> Self {
        match random.below(100) {
            0..55 => Self::KillClient,
            55..75 => Self::KillDaemon,
            75..82 => Self::KillKeeper,
            82..88 => Self::StopClient,
            88..92 => Self::StopDaemon,
            92..95 => Self::StopKeeper,
            _ if life.faulty_spill => Self::LoseFolder,
            _ => Self::StopClient,
        }
    }
}

/// A client process.
struct Worker {
    number: u32,
    child: Child,
    /// Closed to let it end by itself.
    stdin: Option<ChildStdin>,
}

/// The verifier.
struct Verifier<'a> {
    plan: &'a Plan,
    folder: tempfile::TempDir,
    life: Life,
    node: Node,
    bystanders: Vec<Child>,
    workers: Vec<Worker>,
    started: u32,
    lines: (Sender<WorkerLine>, Receiver<WorkerLine>),
    fates: Fates,
    random: Random,
    tally: Tally,
}

/// Runs the soak; whether nothing was lost, leaked or violated.
pub(crate) fn run(plan: &Plan) -> Result<bool> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = plan.seed.unwrap_or_else(clock);
    println!("soak kill: {} rounds, {} clients, seed {seed}", plan.rounds, plan.workers);
    let folder = tempfile::Builder::new().prefix("plasmon-soak-").tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let life = lives::life(plan.life.unwrap_or(0));
    let node = Node::start(&plan.daemon, &life, folder.path())?;
    let mut verifier = Verifier {
        plan,
        folder,
        life,
        node,
        bystanders: Vec::new(),
        workers: Vec::new(),
        started: 0,
        lines: channel(),
        fates: Fates::default(),
        random: Random::new(seed),
        tally: Tally::default(),
    };
    let begun = Instant::now();
    let outcome = verifier.rounds();
    let Verifier { mut node, workers, bystanders, mut tally, folder: _folder, .. } = verifier;
    // Only after a failure are there any.
    for mut child in workers.into_iter().map(|worker| worker.child).chain(bystanders) {
        let _ = child.kill();
        let _ = child.wait();
    }
    tally.new_findings().iter().for_each(|finding| println!("at the end: {finding}"));
    println!("in {:.1} s:\n{tally}", begun.elapsed().as_secs_f64());
    let log = node.daemon.log_tail(LOG_LINES);
    let stopped = node.daemon.stop();
    let clean = tally.is_clean() && outcome.is_ok() && stopped.is_ok();
    if !clean {
        println!("the end of the daemon's log:\n{log}");
        println!("again: make soak NAME=kill ROUNDS={} SEED={seed}", plan.rounds);
    }
    println!("{} passed, {} failed", u8::from(clean), u8::from(!clean));
    outcome?;
    stopped?;
    Ok(clean)
}

impl Verifier<'_> {
    fn rounds(&mut self) -> Result<()> {
        let life_rounds = (self.plan.rounds / LIVES).max(LIFE_ROUNDS_MIN);
        println!("life: {}", self.life.name);
        for round in 1..=self.plan.rounds {
            while self.workers.len() < self.plan.workers {
                self.start_worker()?;
            }
            self.attract_bystander()?;
            self.one_round()?;
            self.tally
                .new_findings()
                .iter()
                .for_each(|finding| println!("round {round}: {finding}"));
            let is_last = round == self.plan.rounds;
            let ends_life = round % life_rounds == 0 && !is_last;
            let due = round % AUDIT_EVERY == 0 || is_last || ends_life;
            if due || self.fates.bytes() > BYTES_MAX {
                self.audit(round)?;
            }
            if ends_life {
                self.next_life(round / life_rounds)?;
            }
        }
        Ok(())
    }

    /// Lets all workers run for a moment, then does what this round has.
    fn one_round(&mut self) -> Result<()> {
        let fault = Fault::draw(&mut self.random, &self.life);
        self.listen_for(LIFE_MS_MAX);
        match fault {
            Fault::KillClient => {
                let at = self.random.index(self.workers.len()).context("there is no client")?;
                let mut worker = self.workers.swap_remove(at);
                worker.child.kill()?;
                worker.child.wait()?;
                self.count("clients killed");
            }
            Fault::KillDaemon => {
                let took = self.node.daemon.kill_daemon()?;
                self.tally.recoveries.push(took);
                self.count("daemons killed");
            }
            Fault::KillKeeper => {
                self.node.daemon.kill_keeper()?;
                self.count("keepers killed");
            }
            Fault::StopClient => {
                let at = self.random.index(self.workers.len()).context("there is no client")?;
                self.pause(self.workers[at].child.id(), "clients stopped")?;
            }
            Fault::StopDaemon => {
                let pid = self.node.daemon.store.status()?.pid;
                self.pause(pid, "daemons stopped")?;
            }
            Fault::StopKeeper => {
                let pid = self.node.daemon.store.status()?.keeper_pid;
                self.pause(pid, "keepers stopped")?;
            }
            Fault::LoseFolder => {
                self.node.set_spill_folder(false)?;
                self.listen_for(PAUSE_MS_MAX);
                self.node.set_spill_folder(true)?;
                self.count("spill folders lost for a moment");
            }
        }
        Ok(())
    }

    /// Stops a process for a moment. A daemon may die of a stopped one's silence, but nothing else.
    fn pause(&mut self, pid: u32, what: &'static str) -> Result<()> {
        processes::signal(pid, Signal::STOP)?;
        self.listen_for(PAUSE_MS_MAX);
        processes::signal(pid, Signal::CONT)?;
        self.count(what);
        Ok(())
    }

    /// Takes lines for a random time.
    fn listen_for(&mut self, most_ms: u64) {
        let until = Instant::now() + Duration::from_micros(self.random.below(most_ms * 1000));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if let Ok(line) = self.lines.1.recv_timeout(left) {
                self.take(line);
            }
        }
    }

    /// Ends this life and begins another one with other settings, in the same folder.
    fn next_life(&mut self, number: u64) -> Result<()> {
        let life = lives::life(self.plan.life.unwrap_or(number));
        println!("life: {}", life.name);
        // Everything in memory is gone, and what was in files with it.
        self.fates.forget_all();
        self.node.daemon.kill_both()?;
        self.count("daemon and keeper at once");
        self.node = Node::start(&self.plan.daemon, &life, self.folder.path())?;
        self.life = life;
        let folders = self.node.spill_folders()?;
        if folders > 1 {
            self.tally.leaks.push(format!("{folders} stores have left spill folders behind"));
        }
        Ok(())
    }

    /// Keeps one bystander of each kind.
    fn attract_bystander(&mut self) -> Result<()> {
        if self.bystanders.len() < Kind::ALL.len() {
            let kind = Kind::ALL[self.bystanders.len()];
            let child = own_command(&self.node.daemon.socket(), "bystander")
                .args(["--kind", kind.flag()])
                .stdout(Stdio::null())
                .spawn()
                .context("starting a bystander")?;
            self.bystanders.push(child);
        }
        Ok(())
    }

    /// What the store counts is what its extents take, although bystanders have mapped some that
    /// are gone; then lets the bystanders end.
    fn check_residency(&mut self) -> Result<()> {
        let bystanders: Vec<u32> = self.bystanders.iter().map(Child::id).collect();
        let mut resident = 0;
        let within = self.node.daemon.until("dropped memory to be given back", |now| {
            let forked = bystanders.iter().flat_map(|pid| residency::children(*pid));
            let pids = forked.chain(bystanders.iter().copied());
            resident = residency::resident_bytes(pids.chain([now.pid, now.keeper_pid]));
            residency::is_within(resident, now.resident_bytes.min(now.capacity_bytes))
        });
        if let Err(error) = within {
            self.tally.leaks.push(format!("{resident} bytes are resident: {error}"));
        }
        self.tally.resident_bytes_max = self.tally.resident_bytes_max.max(resident);
        for mut child in std::mem::take(&mut self.bystanders) {
            drop(child.stdin.take());
            if !wait_within(&mut child, TIMEOUT)? {
                self.tally.violations.push("a bystander did not end well".to_owned());
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
        let mut command = worker_command(&self.node.daemon.socket(), number, self.random.word());
        if self.life.two_users && number.is_multiple_of(2) {
            command.uid(lives::OTHER_UID).gid(lives::OTHER_UID);
        }
        let mut child = command.spawn().context("starting a worker")?;
        worker_lines::forward(number, &mut child, &self.lines.0)?;
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
            let status = wait_within(&mut worker.child, TIMEOUT * 2)?;
            if !status {
                let number = worker.number;
                self.tally.violations.push(format!("worker {number} did not end well"));
            }
        }
        // The readers of all workers, killed or not, end after their last line; then the channel
        // has no sender left but the verifier's own.
        let (sender, receiver) = std::mem::replace(&mut self.lines, channel());
        drop(sender);
        while let Ok(line) = receiver.recv_timeout(TIMEOUT) {
            self.take(line);
        }
        self.check_residency()?;
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

    fn take(&mut self, (number, line): WorkerLine) {
        let Some(line) = line else { return };
        match Entry::parse(&line) {
            // A killed worker's last line may be cut; it says nothing that was acknowledged.
            None => {}
            Some(Entry::Verified(count)) => self.tally.verified += count,
            Some(Entry::Refused(what)) if what.ends_with(": io") && !self.life.faulty_spill => {
                self.tally.violations.push(format!("worker {number}: {what}"));
            }
            Some(Entry::Refused(what)) => *self.tally.refused.entry(what).or_default() += 1,
            Some(Entry::Violation(what)) => {
                self.tally.violations.push(format!("worker {number}: {what}"));
            }
            Some(entry) => self.fates.learn(&entry),
        }
    }
}

fn worker_command(socket: &Path, number: u32, seed: u64) -> Command {
    let mut command = own_command(socket, "worker");
    command
        .args(["--number", &number.to_string(), "--seed", &seed.to_string()])
        .stdout(Stdio::piped());
    command
}

/// This program in another role. It ends with its standard input.
fn own_command(socket: &Path, role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(role).arg("--socket").arg(socket).stdin(Stdio::piped());
    command
}

/// Whether a process ended by itself, and well, within this time; afterwards it is gone.
fn wait_within(child: &mut Child, timeout: Duration) -> Result<bool> {
    let deadline = Instant::now() + timeout;
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
