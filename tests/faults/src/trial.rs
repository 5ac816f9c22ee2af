//! One fault at one moment, and what must be so afterwards.
//!
//! The promises that every trial looks at: the daemon does not start, and says why, or it serves;
//! what fails is answered with an error, within a client's timeout; nothing panics; what was
//! sealed is there; and once the fault is over everything works, in the same processes.

use std::fmt;

use anyhow::{Context, Result, anyhow, ensure};
use plasmon_client::{Client, ObjectId, PutOptions};
use plasmon_testkit::{Signal, kill};

use crate::kinds::error_name;
use crate::node::{Node, StartOutcome};
use crate::round::{check_objects, check_works, content, delete, id, round_in_time, until};
use crate::supervisor::{Fault, Supervisor};

/// When calls fail, and in which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// While daemon and keeper start.
    Start,
    /// In daemon and keeper, while clients use the store.
    Serve,
    /// In the keeper and the next daemon, after the daemon was killed.
    Takeover,
    /// In a client.
    Client,
}

impl Scene {
    /// Every scene.
    pub const ALL: [Self; 4] = [Self::Start, Self::Serve, Self::Takeover, Self::Client];
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Serve => "serve",
            Self::Takeover => "takeover",
            Self::Client => "client",
        })
    }
}

/// What a trial showed, when it broke no promise.
#[derive(Debug, Default)]
pub struct TrialOutcome {
    /// How many calls failed.
    pub failed: u32,
    /// What was said about it.
    pub said: Vec<String>,
}

/// How many calls fail of a fault without an end while the daemon is away.
const BURST: u32 = 12;

/// The objects that every trial finds again.
const KEPT: &[(u64, usize)] = &[(0, 900), (1, 70_000), (2, 1_000_000)];
const KEPT_ROUND: u64 = u64::MAX;

/// A store that serves one trial after the other, until one breaks it.
#[derive(Debug)]
pub struct Bench {
    node: Node,
    reader: Client,
    rounds: u64,
}

/// Describes a fault in a line that names it again.
pub fn name(scene: Scene, fault: &Fault) -> String {
    let count = if fault.count == u32::MAX { "all".to_owned() } else { fault.count.to_string() };
    let (kind, error) = (fault.kind.name, error_name(fault.error));
    format!("{scene} {kind} {error} after {} count {count}", fault.after)
}

/// Daemon and keeper start while something fails. If they do not, they say why; without the fault
/// they do.
pub fn start(fault: Fault) -> Result<TrialOutcome> {
    let supervisor = Supervisor::default();
    supervisor.inject(fault);
    let started = Node::start(&supervisor)?;
    let (_, failed) = supervisor.heal();
    let said = match started {
        StartOutcome::Serving(node) => {
            Bench::of(node)?.check()?;
            Vec::new()
        }
        StartOutcome::Refused(said) => {
            ensure!(!said.trim().is_empty(), "the daemon ends and does not say why");
            vec![said]
        }
    };
    Ok(TrialOutcome { failed, said })
}

impl Bench {
    /// A store with the objects that must never be lost.
    pub fn start() -> Result<Self> {
        match Node::start(&Supervisor::default())? {
            StartOutcome::Serving(node) => Self::of(node),
            StartOutcome::Refused(said) => Err(anyhow!("without a fault: {said}")),
        }
    }

    fn of(node: Node) -> Result<Self> {
        let reader = node.connect().map_err(|error| anyhow!("connect: {error}"))?;
        for (id, bytes) in kept() {
            let options = PutOptions { id: Some(id), ..PutOptions::default() };
            reader.put(&content(&id, bytes), &options).map_err(|error| anyhow!("{error}"))?;
        }
        reader.flush().map_err(|error| anyhow!("{error}"))?;
        Ok(Self { node, reader, rounds: 0 })
    }

    /// Tries a fault in this store. After an error the store is of no use any more.
    pub fn try_fault(&mut self, scene: Scene, fault: Fault) -> Result<TrialOutcome> {
        match scene {
            Scene::Start => start(fault),
            Scene::Serve => self.serve(fault),
            Scene::Takeover => self.take_over(fault),
            Scene::Client => self.client(fault),
        }
        .map_err(|error| anyhow!("{error:#}\n--- the log\n{}", self.node.log()))
    }

    fn serve(&mut self, fault: Fault) -> Result<TrialOutcome> {
        let before = self.reader.status().map_err(|error| anyhow!("{error}"))?;
        self.rounds += 1;
        self.node.supervisor.inject(fault);
        let outcome = round_in_time(&self.node.options(), &self.reader, self.rounds);
        let (_, failed) = self.node.supervisor.heal();
        let outcome = outcome?;
        check_objects(&self.reader, &outcome.acknowledged)?;
        delete(&self.reader, self.rounds)?;
        self.check()?;
        let after = self.reader.status().map_err(|error| anyhow!("{error}"))?;
        ensure!(before.pid == after.pid, "the daemon ended, and another one serves");
        Ok(TrialOutcome { failed, said: outcome.errors })
    }

    fn take_over(&mut self, fault: Fault) -> Result<TrialOutcome> {
        let before = self.reader.status().map_err(|error| anyhow!("{error}"))?;
        self.node.supervisor.inject(fault);
        kill(before.pid, Signal::KILL);
        let supervisor = self.node.supervisor.clone();
        // A fault without an end ends when the first daemons have met it.
        let status = || self.reader.status().map(|status| status.pid).map_err(|e| e.to_string());
        let answers = |pid: &Result<u32, String>| pid.as_ref().is_ok_and(|pid| *pid != before.pid);
        let answered = if fault.count == u32::MAX {
            until(|| Ok(status()), |pid| answers(pid) || supervisor.failed() >= BURST)
        } else {
            until(|| Ok(status()), answers)
        };
        let (_, failed) = supervisor.heal();
        let said = answered?.err().into_iter().collect();
        until(|| Ok(status()), answers)?.map_err(|error| anyhow!("{error}"))?;
        self.check()?;
        Ok(TrialOutcome { failed, said })
    }

    fn client(&mut self, fault: Fault) -> Result<TrialOutcome> {
        let supervisor = Supervisor::default();
        self.rounds += 1;
        let (options, number) = (self.node.options(), self.rounds);
        let reader = self.reader.clone();
        // The thread that is filtered has made every descriptor and thread of its client itself.
        let own = supervisor.clone();
        let filtered = supervisor.run(move || {
            own.inject(fault);
            let outcome = crate::round::round(&options, &reader, number);
            (outcome, own.heal())
        })?;
        let (outcome, (_, failed)) = filtered.join().map_err(|_| anyhow!("the client panicked"))?;
        let outcome = outcome?;
        check_objects(&self.reader, &outcome.acknowledged)?;
        delete(&self.reader, self.rounds)?;
        self.check()?;
        Ok(TrialOutcome { failed, said: outcome.errors })
    }

    /// Everything is there and works, for a client that was connected all the while and for a new
    /// one.
    fn check(&mut self) -> Result<()> {
        self.rounds += 1;
        check_objects(&self.reader, &kept()).context("what was sealed before the fault")?;
        check_works(&self.node, &self.reader, self.rounds)?;
        let newcomer = self.node.connect().map_err(|error| anyhow!("a new client: {error}"))?;
        check_objects(&newcomer, &kept()).context("read by a new client")?;
        let sealed = kept().len() as u64;
        until(
            || newcomer.status().map_err(|error| anyhow!("{error}")),
            |status| status.objects == sealed && status.creating == 0 && status.waits == 0,
        )
        .context("something is left of the round")?;
        self.node.check_log()
    }
}

fn kept() -> Vec<(ObjectId, usize)> {
    KEPT.iter().map(|(number, bytes)| (id(KEPT_ROUND, *number), *bytes)).collect()
}
