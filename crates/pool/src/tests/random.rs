//! Random runs of a pool from seeds.
//!
//! A run is a seed. Clients on two to five machines put, get, wait for and delete a few ids, while
//! machines and pool daemons die and come back, pause, lose their connections and their leases.
//! Then the faults stop, and everything has to be finished within 30 virtual seconds.
//! `make sim SEED=8317` replays one run, `SEEDS=10000` runs more, `FIRST=10000` others, and
//! `MUTATIONS=all` breaks rules that must be found to be broken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::config::Mutation;
use crate::event::{Event, Fate};
use crate::record::Content;
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::network::Way;
use super::store::Outcome;
use super::world::{Act, What, World};

/// Seeds that the test runs, and at most so many to find a broken rule.
const SEEDS: u64 = 200;
const MUTATION_SEEDS: u64 = 300;
const DRAIN_SEEDS: u64 = 75;
const CUT_SEEDS: u64 = 75;
const LOG_SEEDS: u64 = 80;

/// Threads that run seeds.
const THREADS: usize = 2;

/// How long faults happen, and how long everything may take after that.
const FAULTS_MS: u64 = 9_000;
const QUIET_MS: u64 = 30_000;

/// Of the quiet time: after so long, every node is asked about every id.
const AUDIT_MS: u64 = 19_000;

/// Events that the report of a failure has, unless `EVENTS` says otherwise.
const EVENTS: u64 = 60;

/// How long the nodes have to say where everything is.
const PLACES_MS: u64 = 1_000;

/// How long the nodes have to compare everything.
const VERIFY_MS: u64 = 12_000;

/// Ids that clients compete for.
const FREE_IDS: u8 = 5;

impl World {
    /// Starts all machines.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        for at in 0..self.machines.len() {
            self.start(at)?;
            self.after_ms(50, What::Act(Act::Client(at)));
        }
        for a in 0..self.machines.len() {
            for b in 0..a {
                self.connect(Way { from: a, to: b });
            }
        }
        self.after_ms(1, What::Etcd);
        Ok(())
    }

    /// Runs a whole life of the pool.
    fn run(&mut self) -> Result<(), String> {
        self.ids = (0..FREE_IDS).map(|n| ObjectId::pooled([n; 12], None)).collect();
        if self.has_logs {
            self.give_logs();
        }
        self.start_all()?;
        self.after_ms(1_000, What::Act(Act::Fault));
        if self.has_drains {
            self.after_ms(1_500, What::Act(Act::Drain));
        }
        if self.has_cuts {
            self.after_ms(1_200, What::Act(Act::Cut));
        }
        let end = self.now.after_ms(FAULTS_MS);
        self.run_until(end, true)?;
        if self.has_logs {
            self.mend_logs()?;
            self.run_until(self.now.after_ms(20), false)?;
        }
        self.stop_faults()?;
        self.end_all_owners()?;
        self.run_until(self.now.after_ms(AUDIT_MS), false)?;
        self.wait_for_durable_puts()?;
        let audit = self.audit()?;
        self.run_until(self.now.after_ms(QUIET_MS - AUDIT_MS), false)?;
        self.check_answers(&audit)?;
        self.check_durable(&audit)?;
        // A repair that finds no room is tried again now and then.
        for _ in 0..10 {
            if self.check_rest().is_ok() {
                break;
            }
            self.run_until(self.now.after_ms(100), false)?;
        }
        self.check_rest()?;
        self.check_live()?;
        self.ask_places()?;
        self.run_until(self.now.after_ms(PLACES_MS), false)?;
        if self.check_places().is_err() {
            // The copy of a writer that it need not have may have been let go just then.
            self.ask_places()?;
            self.run_until(self.now.after_ms(PLACES_MS), false)?;
            self.check_places()?;
        }
        if self.check_listings().is_err() {
            // A copy for which there was no room may have been made just then, and another one let
            // go.
            self.check_listings()?;
        }
        if self.has_drains {
            self.ask_verifications()?;
            self.run_until(self.now.after_ms(VERIFY_MS), false)?;
            self.check_verifications()?;
        }
        self.check_notices()?;
        self.history.check()
    }

    pub(super) fn run_until(&mut self, end: Mono, faults: bool) -> Result<(), String> {
        let mut count = 0u64;
        while let Some(what) = self.pop(end) {
            count += 1;
            if count > 3_000_000 {
                return Err("the pool never rests".into());
            }
            match what {
                What::Act(act) => self.act(act, faults)?,
                other => self.happen(other)?,
            }
        }
        self.now = end;
        Ok(())
    }

    fn act(&mut self, act: Act, faults: bool) -> Result<(), String> {
        match act {
            Act::Client(at) => {
                if !faults {
                    return Ok(());
                }
                let ms = 5 + self.dice.below(120);
                self.after_ms(ms, What::Act(Act::Client(at)));
                if self.machines[at].node.is_some() {
                    self.operate(at)?;
                    self.list_at_random(at)?;
                    self.subscribe_at_random(at)?;
                    self.read_at_random(at)?;
                    self.use_region_at_random(at)?;
                }
                Ok(())
            }
            Act::GiveUp(at, no) => self.give_up(at, no),
            Act::EndRead(number) => self.end_read(number),
            Act::Fault => {
                if faults {
                    let ms = 100 + self.dice.below(1_500);
                    self.after_ms(ms, What::Act(Act::Fault));
                    self.fault()?;
                }
                Ok(())
            }
            Act::Start(at) => self.start(at),
            Act::Resume(at) => self.resume(at),
            Act::Connect(way) => {
                self.connect(way);
                Ok(())
            }
            Act::Heal(way) => self.heal(way),
            Act::Etcd(at) => {
                self.machines[at].reaches_etcd = true;
                Ok(())
            }
            Act::Drain if faults => self.drain_at_random(),
            Act::Cut if faults => {
                self.cut_at_random();
                Ok(())
            }
            Act::Drain | Act::Cut => Ok(()),
        }
    }

    /// A client on this machine does something.
    fn operate(&mut self, at: usize) -> Result<(), String> {
        let id = if self.dice.percent(80) {
            self.ids[self.dice.size_below(usize::from(FREE_IDS))]
        } else if self.dice.percent(60) {
            let identity = std::array::from_fn(|_| self.dice.below(256) as u8);
            let id = ObjectId::pooled(identity, Some(at as u16));
            self.ids.push(id);
            return self.put(at, id);
        } else {
            self.ids[self.dice.size_below(self.ids.len())]
        };
        match self.dice.below(10) {
            0..=3 if id.home().is_none() => self.put(at, id),
            4 => self.begin(at, Operation::Delete { id }).map(|_| ()),
            5 => {
                let no = self.begin(at, Operation::Get { id, patient: true })?;
                let ms = 100 + self.dice.below(4_000);
                self.after_ms(ms, What::Act(Act::GiveUp(at, no)));
                Ok(())
            }
            6 => {
                let mut calls = Vec::new();
                let which = self.dice.size_below(4);
                self.machines[at].store.evict(which, &mut calls);
                calls.into_iter().try_for_each(|call| self.give(at, Event::Local(call)))
            }
            _ => self.begin(at, Operation::Get { id, patient: false }).map(|_| ()),
        }
    }

    fn put(&mut self, at: usize, id: ObjectId) -> Result<(), String> {
        let data_bytes: u64 = self.dice.pick(&[0, 100, 1 << 20, 3_000_000, 9_000_000]);
        let metadata_bytes = if data_bytes.is_multiple_of(1_000) { 700 } else { 0 };
        let keeping = self.dice.pick(&[
            Keeping::Local,
            Keeping::Local,
            Keeping::Local,
            Keeping::Spread,
            Keeping::Spread,
            Keeping::Cache,
        ]);
        let copies = self.dice.pick(&[1, 2, 2, 3]);
        let copies_min = 1 + self.dice.below(u64::from(copies)) as u8;
        let copies_min = copies_min.min(2);
        let (copies, copies_min) = match keeping {
            Keeping::Cache => (1, 1),
            Keeping::Local | Keeping::Spread => (copies, copies_min),
        };
        let durable = self.durable_at_random(keeping, (copies, copies_min));
        let content =
            Content { data_bytes, metadata_bytes, keeping, durable, ..Content::default() };
        self.begin(at, Operation::Put { id, content, copies, copies_min }).map(|_| ())
    }

    pub(super) fn begin(&mut self, at: usize, operation: Operation) -> Result<OperationNo, String> {
        let no = self.history.begin(self.now, at, operation);
        self.note(|| format!("{at} begins {no:?} {operation:?}"));
        let machine = &mut self.machines[at];
        let (slot, boot) = (machine.slot(), machine.boot);
        let mut calls = Vec::new();
        let key = (self.now, no, slot, boot);
        let answers = machine.store.begin(key, &operation, &mut calls);
        self.note_made(at);
        self.answer(at, answers)?;
        calls.into_iter().try_for_each(|call| self.give(at, Event::Local(call)))?;
        Ok(no)
    }

    pub(super) fn give_up(&mut self, at: usize, no: OperationNo) -> Result<(), String> {
        let Some(entry) = self.history.entries.get_mut(&no) else { return Ok(()) };
        if entry.end.is_some() || entry.left {
            return Ok(());
        }
        entry.left = true;
        let id = entry.operation.id();
        let mut calls = Vec::new();
        self.machines[at].store.cancel(&id, no, &mut calls);
        calls.into_iter().try_for_each(|call| self.give(at, Event::Local(call)))
    }

    fn fault(&mut self) -> Result<(), String> {
        if self.has_logs && self.dice.percent(20) {
            return self.fault_of_logs();
        }
        let at = self.dice.size_below(self.machines.len());
        let other = self.dice.size_below(self.machines.len());
        let way = Way { from: at, to: other };
        let ms = 50 + self.dice.below(4_000);
        let kind = self.dice.below(10);
        self.note(|| format!("fault {kind} at {at}, {other}, for {ms} ms"));
        match kind {
            0 | 1 if self.machines[at].node.is_some() => self.crash(at, kind == 0, ms),
            2 if self.machines.iter().all(|m| m.node.is_some()) && self.dice.percent(30) => {
                // All pool daemons at once: every group loses its records.
                (0..self.machines.len()).try_for_each(|at| self.crash(at, false, ms / 4))
            }
            3 | 4 if at != other && self.network.link(way).up => {
                self.disconnect(way);
                self.after_ms(ms / 4, What::Act(Act::Connect(way)));
                Ok(())
            }
            5 if at != other => {
                self.network.cut(way);
                self.after_ms(ms, What::Act(Act::Heal(way)));
                Ok(())
            }
            6 | 7 => {
                self.machines[at].reaches_etcd = false;
                self.after_ms(ms * 2, What::Act(Act::Etcd(at)));
                Ok(())
            }
            8 if self.machines[at].node.is_some() => {
                self.machines[at].paused = true;
                self.after_ms(ms, What::Act(Act::Resume(at)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn crash(&mut self, at: usize, with_memory: bool, ms: u64) -> Result<(), String> {
        if with_memory {
            self.memory_lost = self.now;
            let of_machine =
                |entry: &&mut super::history::Entry| entry.node == at && entry.end.is_none();
            self.history.entries.values_mut().filter(of_machine).for_each(|e| e.left = true);
        }
        if self.has_drains {
            let objects = self.machines[at].store.objects.iter();
            let hidden = objects.filter(|(_, object)| !object.visible);
            self.forgotten.extend(hidden.map(|(id, object)| (at, *id, object.birth)));
        }
        self.leave_reads(at);
        self.leave_regions(at);
        self.machines[at].crash(with_memory);
        for other in (0..self.machines.len()).filter(|other| *other != at) {
            self.disconnect(Way { from: at, to: other });
        }
        self.after_ms(ms, What::Act(Act::Start(at)));
        Ok(())
    }

    fn start(&mut self, at: usize) -> Result<(), String> {
        if self.machines[at].node.is_some() {
            return Ok(());
        }
        let (mutation, is_impatient) = (self.mutation, self.is_impatient);
        self.machines[at].start(mutation, is_impatient);
        let incarnation = self.machines[at].incarnation;
        self.note(|| format!("{at} starts, incarnation {incarnation}"));
        for call in self.machines[at].store.resume() {
            self.give(at, Event::Local(call))?;
        }
        for other in (0..self.machines.len()).filter(|other| *other != at) {
            self.connect(Way { from: at, to: other });
        }
        self.after_ms(0, What::KeepAlive { at });
        Ok(())
    }

    fn resume(&mut self, at: usize) -> Result<(), String> {
        self.machines[at].paused = false;
        while let Some(event) = self.machines[at].backlog.pop_front() {
            self.give(at, event)?;
        }
        self.give(at, Event::Time)
    }

    fn disconnect(&mut self, way: Way) {
        if self.network.link(way).up {
            self.network.reset(way);
            self.tell_link(way, false);
        }
    }

    fn connect(&mut self, way: Way) {
        let runs = |at: usize| self.machines[at].node.is_some();
        if runs(way.from) && runs(way.to) && !self.network.link(way).up {
            self.network.link(way).up = true;
            self.tell_link(way, true);
        }
    }

    fn tell_link(&mut self, way: Way, up: bool) {
        let generation = self.network.link(way).generation;
        let Way { from, to } = way;
        self.at(self.now, What::Link { at: from, peer: to, up, generation });
        self.at(self.now, What::Link { at: to, peer: from, up, generation });
    }

    /// Ends a cut; what it held back arrives before what is still under way.
    pub(super) fn heal(&mut self, way: Way) -> Result<(), String> {
        let generation = self.network.link(way).generation;
        let held = self.network.heal(way);
        held.into_iter().try_for_each(|bytes| self.happen(What::Deliver { way, generation, bytes }))
    }

    fn stop_faults(&mut self) -> Result<(), String> {
        self.note(|| "faults stop".into());
        self.undrain_all();
        self.bulk_loss = 0;
        for at in 0..self.machines.len() {
            self.machines[at].reaches_etcd = true;
            if self.machines[at].paused {
                self.resume(at)?;
            }
            self.start(at)?;
        }
        for a in 0..self.machines.len() {
            for b in 0..self.machines.len() {
                let way = Way { from: a, to: b };
                if a != b {
                    self.heal(way)?;
                    self.connect(way);
                }
            }
        }
        Ok(())
    }

    /// Asks every node about every id.
    fn audit(&mut self) -> Result<Vec<OperationNo>, String> {
        self.leave_durable_puts();
        let waits: Vec<_> = self
            .history
            .entries
            .iter()
            .filter(|(_, entry)| entry.end.is_none() && !entry.left)
            .map(|(no, entry)| (*no, entry.clone()))
            .collect();
        for (no, entry) in waits {
            match entry.operation {
                Operation::Get { patient: true, .. } => self.give_up(entry.node, no)?,
                _ => return Err(format!("still under way: {entry:?}")),
            }
        }
        let mut asked = self.read_everything()?;
        for id in self.ids.clone() {
            for at in 0..self.machines.len() {
                asked.push(self.begin(at, Operation::Get { id, patient: false })?);
            }
        }
        Ok(asked)
    }

    /// In quiet times every question has an answer.
    fn check_answers(&self, audit: &[OperationNo]) -> Result<(), String> {
        for no in audit {
            let entry = &self.history.entries[no];
            match &entry.end {
                // A read that was answered with what says nothing about the object.
                None if entry.left => {}
                None | Some((_, Outcome::Fate(Fate::Unreachable | Fate::Damaged))) => {
                    return Err(format!("not answered in quiet times: {entry:?}"));
                }
                Some((_, Outcome::Fate(Fate::Lost))) => {
                    let id = entry.operation.id();
                    let has = |m: &&super::machine::Machine| m.store.objects.contains_key(&id);
                    if let Some(machine) = self.machines.iter().find(has) {
                        return Err(format!("{id} is lost, but {} has it", machine.index));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Nothing is under way, and what was acknowledged is where it was.
    pub(super) fn check_rest(&self) -> Result<(), String> {
        for machine in &self.machines {
            let node = machine.node.as_ref().ok_or("a machine is down")?;
            let at = machine.index;
            if !node.is_idle() {
                return Err(format!("node {at} is not idle: {node:?}"));
            }
            if !machine.store.landings.is_empty() || !machine.serves.is_empty() {
                return Err(format!("machine {at} has landings or pins: {machine:?}"));
            }
        }
        self.check_reads()?;
        self.check_regions()?;
        self.check_caches()?;
        for ((id, birth), kept) in &self.acknowledged {
            let wiped = self.history.wiped.contains_key(id);
            if wiped || self.history.certain(*id, Mono(u64::MAX), Mono(u64::MAX)) != Some(*birth) {
                continue;
            }
            for (at, boot) in kept {
                let machine = &self.machines[*at];
                let may_let_go = self.drained_ever.contains(at);
                if machine.boot == *boot && !machine.store.has(id, *birth) && !may_let_go {
                    return Err(format!("{at} dropped {id} {birth:?}, which was acknowledged"));
                }
            }
        }
        Ok(())
    }
}

impl World {
    /// A cache ends with the copy of the node where it was made, and no node keeps it.
    fn check_caches(&self) -> Result<(), String> {
        for machine in &self.machines {
            for (id, object) in &machine.store.objects {
                let (at, birth) = (machine.index, object.birth);
                let is_cache = object.content.keeping == Keeping::Cache;
                if is_cache && object.keep {
                    return Err(format!("{at} keeps {id} {birth:?}, which is a cache"));
                }
                if is_cache && !self.machines[usize::from(birth.slot.0)].store.has(id, birth) {
                    return Err(format!("{at} has {id} {birth:?}, which has ended"));
                }
            }
        }
        Ok(())
    }
}

/// What is special about a run.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    mutation: Option<Mutation>,
    has_drains: bool,
    has_cuts: bool,
    fenced_go_on: bool,
    has_logs: bool,
}

/// Runs one seed; what went wrong.
fn run(seed: u64, kind: Kind, trace_max: usize) -> Result<(), String> {
    let mut world = World::new(seed, kind.mutation, trace_max);
    (world.has_drains, world.has_cuts) = (kind.has_drains, kind.has_cuts);
    (world.fenced_go_on, world.has_logs) = (kind.fenced_go_on, kind.has_logs);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let ended = ended.unwrap_or_else(|_| Err("panicked".into()));
    ended.map_err(|what| format!("seed {seed}: {what}\n{}", world.trace()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = number("FIRST").unwrap_or(0);
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("SEEDS").unwrap_or(count),
    }
}

/// The seeds that fail, of all or up to the first one, tried by several threads.
fn failing(
    seeds: std::ops::Range<u64>,
    kind: Kind,
    is_enough: impl Fn(usize) -> bool + Sync,
) -> Vec<u64> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || is_enough(found.lock().map_or(0, |found| found.len())) {
                return;
            }
            if let Err(what) = run(seed, kind, 0)
                && let Ok(mut found) = found.lock()
            {
                if kind.mutation.is_none() {
                    println!("{}", what.trim_end());
                }
                found.push(seed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_unstable();
    found
}

#[test]
fn random_runs_keep_every_promise() {
    check(Kind::default(), seeds(SEEDS));
}

/// Nodes are drained, too, and destroyed once they are.
#[test]
fn random_runs_with_drains_keep_every_promise() {
    check(Kind { has_drains: true, ..Kind::default() }, seeds(DRAIN_SEEDS));
}

/// Machines lose each other while they hold their leases, and one of them is fenced.
#[test]
fn random_runs_with_cuts_keep_every_promise() {
    check(Kind { has_cuts: true, ..Kind::default() }, seeds(CUT_SEEDS));
}

/// Objects are durable, too; logs are slow, full or fail, and power goes on all machines at once.
#[test]
fn random_runs_with_logs_keep_every_promise() {
    check(Kind { has_logs: true, ..Kind::default() }, seeds(LOG_SEEDS));
}

/// Seeds that found a fault which the first hundreds of their kind do not find. They say less once
/// the simulation draws otherwise.
#[test]
fn seeds_that_found_faults_pass() {
    let plain = Kind::default();
    let drains = Kind { has_drains: true, ..plain };
    let cuts = Kind { has_cuts: true, ..plain };
    let logs = Kind { has_logs: true, ..plain };
    for (kind, seed) in [(plain, 1920), (plain, 4625), (drains, 308), (cuts, 8383), (cuts, 9188)] {
        run(seed, kind, 0).unwrap();
    }
    for (kind, seed) in [(logs, 10312), (logs, 10527), (logs, 20915), (logs, 20586), (logs, 30859)]
    {
        run(seed, kind, 0).unwrap();
    }
}

fn check(kind: Kind, seeds: std::ops::Range<u64>) {
    let failing = failing(seeds.clone(), kind, |_| false);
    println!("seeds {seeds:?}: {} failed", failing.len());
    if let Some(seed) = failing.first() {
        // The same again, this time with a report.
        let events = number("EVENTS").unwrap_or(EVENTS);
        let report = run(*seed, kind, events as usize).expect_err("it failed before");
        panic!("{report}\nseeds that fail: {failing:?}");
    }
}

#[test]
fn broken_rules_are_found() {
    for rule in [
        Mutation::DecideWithoutLease,
        Mutation::AbsentWhenIncomplete,
        Mutation::AcknowledgeBeforeCopies,
        Mutation::IgnoreBirths,
    ] {
        let kind = Kind { mutation: Some(rule), ..Kind::default() };
        let found = failing(0..MUTATION_SEEDS, kind, |found| found > 0);
        println!("{rule:?} found by seed {found:?}");
        assert!(!found.is_empty(), "{rule:?} was not found");
    }
    let kind = Kind { has_cuts: true, fenced_go_on: true, ..Kind::default() };
    let found = failing(0..MUTATION_SEEDS, kind, |found| found > 0);
    println!("fenced nodes that go on found by seed {found:?}");
    assert!(!found.is_empty(), "a fenced node that goes on was not found");
}
