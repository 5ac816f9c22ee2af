//! Which machines hear each other, what they report of that in the double of etcd, and what a
//! machine does that is fenced.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::fence::Times;
use plasmon_cluster::{Map, NodeState, ReachReport, Slot, Suspect, Suspicion};

use crate::event::Event;
use crate::record::Content;
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::machine::Machine;
use super::network::Way;
use super::store::Outcome;
use super::world::{Act, TTL_MS, What, World};

/// How long a machine hears nothing of another one before it reports it.
const SUSPECT_MS: u64 = 600;

/// The leader's times, shorter than in a real pool as all others here.
pub(super) const TIMES: Times = Times { confirm_ms: 200, pause_ms: 2_000, settle_ms: 300 };

/// A machine whose core stands still is looked at again after so long.
const STILL_MS: u64 = 20;

/// What a machine knows of which others it hears.
#[derive(Debug)]
pub(super) struct Ears {
    suspicion: Suspicion,
    heard_ms: BTreeMap<Slot, u64>,
    /// What it reports; `None` before it has looked.
    pub(super) suspects: Option<Vec<Suspect>>,
    /// Whether it is fenced and its lease is not ended yet.
    pub(super) is_stopping: bool,
    /// Until when it waits for a map that has it down, before it takes a lease again.
    pub(super) waits_until: Mono,
}

impl Default for Ears {
    fn default() -> Self {
        Self {
            suspicion: Suspicion::new(SUSPECT_MS),
            heard_ms: BTreeMap::new(),
            suspects: None,
            is_stopping: false,
            waits_until: Mono(0),
        }
    }
}

impl Ears {
    /// Its lease is gone.
    pub(super) fn clear(&mut self) {
        self.suspicion.clear();
        self.suspects = self.suspects.as_ref().map(|_| Vec::new());
    }
}

impl Machine {
    fn holds_lease(&self, now: Mono) -> bool {
        self.lease_expires.is_some_and(|until| until > now)
    }
}

impl World {
    /// Every machine looks which others it has heard.
    pub(super) fn look_around(&mut self) {
        if !self.has_cuts {
            return;
        }
        let (now, now_ms) = (self.now, self.now.0 / 1000);
        let runs: Vec<bool> = self.machines.iter().map(|m| m.node.is_some() && !m.paused).collect();
        for at in (0..self.machines.len()).filter(|at| runs[*at]) {
            for other in (0..self.machines.len()).filter(|other| *other != at) {
                let way = Way { from: other, to: at };
                let slot = Slot(other as u16);
                if !self.network.link(way).up {
                    self.machines[at].ears.heard_ms.remove(&slot);
                } else if runs[other] && !self.network.is_cut(way) {
                    self.machines[at].ears.heard_ms.insert(slot, now_ms);
                }
            }
            let map = self.maps[self.machines[at].maps_sent.saturating_sub(1)].1.clone();
            let waiting = self.waiting(&map);
            let own = self.machines[at].slot();
            let Ears { suspicion, heard_ms, .. } = &mut self.machines[at].ears;
            let is_waiting = |slot| waiting.contains(&slot);
            let suspects = suspicion
                .look(now_ms, (&map, own), is_waiting, |slot| heard_ms.get(&slot).copied());
            let machine = &mut self.machines[at];
            let is_news = machine.ears.suspects.as_ref() != Some(&suspects);
            if is_news && machine.reaches_etcd && machine.holds_lease(now) {
                machine.ears.suspects = Some(suspects.clone());
                self.note(|| format!("{at} reports {suspects:?}"));
            }
        }
    }

    fn waiting(&self, map: &Map) -> BTreeSet<Slot> {
        let holds = |machine: &&Machine| machine.holds_lease(self.now);
        let slots = self.machines.iter().filter(holds).map(Machine::slot);
        slots.filter(|slot| !map.is_live(*slot)).collect()
    }

    /// What machines report under their leases.
    pub(super) fn reach_reports(&self, map: &Map) -> Vec<ReachReport> {
        let report = |machine: &Machine| {
            let node = map.node(machine.slot())?;
            let is_this = node.member.incarnation == machine.incarnation;
            let suspects = machine.ears.suspects.clone().filter(|_| is_this)?;
            Some(ReachReport { slot: machine.slot(), suspects })
        };
        let holds = |machine: &&Machine| machine.holds_lease(self.now);
        self.machines.iter().filter(holds).filter_map(report).collect()
    }

    /// Machines are told that they have to stop, if they hear of etcd.
    pub(super) fn fence(&mut self) {
        for slot in self.fence.clone() {
            let at = usize::from(slot.0);
            let machine = &mut self.machines[at];
            let hears = machine.node.is_some() && machine.reaches_etcd;
            if !hears || machine.ears.is_stopping || !machine.holds_lease(self.now) {
                continue;
            }
            machine.ears.is_stopping = true;
            self.fenced += 1;
            self.note(|| format!("{at} is fenced"));
            if !self.fenced_go_on {
                self.etcd_tells(at, Event::LeaseLost);
            }
            let (due, incarnation) = (self.machines[at].etcd_last, self.machines[at].incarnation);
            self.at(Mono(due.0 + 1), What::Stopped { at, incarnation });
        }
    }

    /// A fenced machine's node has stopped, and the lease is ended.
    pub(super) fn stopped(&mut self, at: usize, incarnation: u64) {
        let (now, machine) = (self.now, &mut self.machines[at]);
        if machine.incarnation != incarnation || !machine.ears.is_stopping {
            return;
        }
        if machine.paused && machine.holds_lease(now) {
            return self.after_ms(STILL_MS, What::Stopped { at, incarnation });
        }
        machine.ears.is_stopping = false;
        machine.ears.waits_until = now.after_ms(2 * TTL_MS);
        machine.lease_expires = None;
        self.note(|| format!("{at} ends its lease"));
    }

    /// Whether a machine may take a lease: one that was fenced waits until it is down. One that
    /// goes on does not notice that.
    pub(super) fn may_join(&self, at: usize) -> bool {
        let machine = &self.machines[at];
        let (_, map) = &self.maps[self.maps.len() - 1];
        let is_down = !map.is_live(machine.slot()) && !self.fenced_go_on;
        !machine.ears.is_stopping && (is_down || machine.ears.waits_until <= self.now)
    }

    /// Two machines lose each other, in one direction or both, and go on with etcd.
    pub(super) fn cut_at_random(&mut self) {
        let ms = 500 + self.dice.below(2_500);
        self.after_ms(ms, What::Act(Act::Cut));
        let (at, other) =
            (self.dice.size_below(self.machines.len()), self.dice.size_below(self.machines.len()));
        if at == other {
            return;
        }
        let lasts_ms = 500 + self.dice.below(5_000);
        let both = self.dice.percent(60);
        self.note(|| format!("{at} does not reach {other}, {both}, for {lasts_ms} ms"));
        let way = Way { from: at, to: other };
        for way in [Some(way), both.then_some(Way { from: other, to: at })].into_iter().flatten() {
            self.network.cut(way);
            self.after_ms(lasts_ms, What::Act(Act::Heal(way)));
        }
    }

    /// In quiet times all machines are live.
    pub(super) fn check_live(&self) -> Result<(), String> {
        let (_, map) = &self.maps[self.maps.len() - 1];
        match map.nodes().find(|(_, node)| node.state != NodeState::Up) {
            Some((slot, node)) if self.has_cuts && !node.drain => {
                Err(format!("node {slot} is {:?} in quiet times", node.state))
            }
            _ => Ok(()),
        }
    }
}

/// Puts on a machine.
fn puts(world: &mut World, at: usize, first: u8) -> Vec<OperationNo> {
    let put = |number: u8| {
        let id = plasmon_proto::ObjectId::pooled([first + number; 12], None);
        world.ids.push(id);
        let content = Content { data_bytes: 100, ..Content::default() };
        // Stores have no room now and then.
        let (copies, copies_min) = (2, 1);
        world.begin(at, Operation::Put { id, content, copies, copies_min }).unwrap()
    };
    (0..20).map(put).collect()
}

fn run(world: &mut World, ms: u64) {
    let end = world.now.after_ms(ms);
    world.run_until(end, false).unwrap();
}

/// The machines that the newest map has as live.
fn live(world: &World) -> Vec<usize> {
    let (_, map) = &world.maps[world.maps.len() - 1];
    map.nodes().filter(|(_, node)| node.is_live()).map(|(slot, _)| usize::from(slot.0)).collect()
}

/// Puts whose records two nodes keep that do not reach each other ended as unreachable for as long
/// as both held their leases.
#[test]
fn puts_succeed_while_two_nodes_do_not_reach_each_other() {
    for (seed, one_way) in (0..12).map(|seed| (seed, seed % 3 == 0)) {
        let mut world = World::new(seed, None, 0);
        world.has_cuts = true;
        world.machines.truncate(3);
        if world.machines.len() < 3 {
            continue;
        }
        world.start_all().unwrap();
        run(&mut world, 2_000);
        assert_eq!(live(&world).len(), 3, "seed {seed}");
        let before = puts(&mut world, 2, 0);
        run(&mut world, 2_000);
        world.network.cut(Way { from: 1, to: 2 });
        if !one_way {
            world.network.cut(Way { from: 2, to: 1 });
        }
        // These wait until it is decided which of the two goes.
        let meanwhile = puts(&mut world, 0, 40);
        run(&mut world, 2_000);
        assert_eq!((live(&world), world.fenced), (vec![0, 1], 1), "seed {seed}");
        let after = [puts(&mut world, 0, 80), puts(&mut world, 1, 120)].concat();
        run(&mut world, 2_000);
        for no in [before, meanwhile, after].concat() {
            let end = world.history.entries[&no].end.clone();
            assert!(matches!(end, Some((_, Outcome::Put(Ok(()))))), "seed {seed}, {no:?}: {end:?}");
        }
        for way in [Way { from: 1, to: 2 }, Way { from: 2, to: 1 }] {
            world.heal(way).unwrap();
        }
        run(&mut world, 3_000);
        assert_eq!((live(&world), world.fenced), (vec![0, 1, 2], 1), "seed {seed}");
    }
}
