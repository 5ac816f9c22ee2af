//! Nodes that are drained, and destroyed once they are.

use plasmon_cluster::leader::Command;
use plasmon_cluster::{DrainReport, Left, Map, Slot, drain};
use plasmon_proto::ObjectId;

use crate::event::{Event, Fate, Refusal};
use crate::record::{Birth, Content};
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::{Act, What, World};

impl World {
    /// What machines that hold a lease report of draining nodes.
    fn drain_reports(&self) -> Vec<(Slot, DrainReport)> {
        let holds = |until: Option<Mono>| until.is_some_and(|until| until > self.now);
        let machines = self.machines.iter().filter(|machine| holds(machine.lease_expires));
        machines.flat_map(|it| it.drains.iter().map(|report| (it.slot(), *report))).collect()
    }

    /// The nodes that can be stopped without loss.
    pub(super) fn drained(&self, map: &Map) -> Vec<Slot> {
        drain::drained(map, &self.drain_reports())
    }

    fn newest_map(&self) -> &Map {
        &self.maps[self.maps.len() - 1].1
    }

    /// An operator drains a node, takes it back, or ends it.
    pub(super) fn drain_at_random(&mut self) -> Result<(), String> {
        let ms = 100 + self.dice.below(700);
        self.after_ms(ms, What::Act(Act::Drain));
        let at = self.dice.size_below(self.machines.len());
        let slot = self.machines[at].slot();
        let Some(node) = self.newest_map().node(slot) else { return Ok(()) };
        let (drains, since) = (node.drain, node.since);
        let luck = self.dice.below(100);
        if !drains && luck < 50 {
            self.note(|| format!("{at} is to be drained"));
            self.drained_ever.insert(at);
            self.commands.push(Command::Drain(slot));
        } else if self.drained(self.newest_map()).contains(&slot) && luck < 70 {
            let began = self.maps.iter().find(|(_, map)| map.epoch() >= since);
            let began = began.map_or(Mono(0), |(made, _)| *made);
            if self.memory_lost < began {
                self.check_drained(at)?;
            }
            self.note(|| format!("{at} is drained, and destroyed"));
            self.crash(at, true, 500)?;
        } else if drains && luck < 20 {
            self.commands.push(Command::Undrain(slot));
        }
        Ok(())
    }

    /// Every node takes part again.
    pub(super) fn undrain_all(&mut self) {
        let slots: Vec<Slot> = self.newest_map().nodes().map(|(slot, _)| slot).collect();
        if self.has_drains {
            self.commands.extend(slots.into_iter().map(Command::Undrain));
        }
    }

    /// What exists for certain and is on this machine is kept by another one, too.
    fn check_drained(&self, at: usize) -> Result<(), String> {
        let is_certain = |(id, birth): &&(ObjectId, Birth)| {
            !self.history.wiped.contains_key(id)
                && self.history.certain(*id, self.now, self.now) == Some(*birth)
        };
        for (id, birth) in self.acknowledged.keys().filter(is_certain) {
            let keeps = |other: usize| {
                let object = self.machines[other].store.objects.get(id);
                object.is_some_and(|object| object.birth == *birth && object.keep)
            };
            let mut others = (0..self.machines.len()).filter(|other| *other != at);
            if self.machines[at].store.has(id, *birth) && !others.any(keeps) {
                return Err(format!("{at} is drained, and no other machine keeps {id} {birth:?}"));
            }
        }
        Ok(())
    }
}

fn pass(world: &mut World, ms: u64) {
    world.run_until(world.now.after_ms(ms), false).unwrap();
}

fn outcome(world: &World, no: OperationNo) -> Option<Outcome> {
    world.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
}

/// A pool of so many machines, which have joined it.
fn world(machines: usize) -> World {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == machines).unwrap();
    let mut world = World::new(seed, None, 500);
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    world
}

fn put(world: &mut World, at: usize, id: ObjectId, (copies, copies_min): (u8, u8)) -> OperationNo {
    let content = Content { data_bytes: 3_000_000, ..Content::default() };
    let no = world.begin(at, Operation::Put { id, content, copies, copies_min }).unwrap();
    pass(world, 2_000);
    no
}

fn drain(world: &mut World, at: usize) {
    let slot = world.machines[at].slot();
    world.commands.push(Command::Drain(slot));
    pass(world, 5_000);
}

fn is_drained(world: &World, at: usize) -> bool {
    world.drained(world.newest_map()).contains(&world.machines[at].slot())
}

fn left(world: &World, at: usize) -> Left {
    let slot = world.machines[at].slot();
    drain::progress(world.newest_map(), slot, &world.drain_reports()).unwrap().left
}

fn free(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], None)
}

#[test]
fn what_only_a_drained_node_had_is_on_others_when_it_is_destroyed() {
    let mut world = world(3);
    let mut ids: Vec<_> = (0..6).map(free).collect();
    ids.extend((10..14).map(|number| ObjectId::pooled([number; 12], Some(1))));
    for id in &ids {
        let no = put(&mut world, 1, *id, (1, 1));
        assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));
    }
    drain(&mut world, 1);
    assert!(is_drained(&world, 1), "{:?}; {}", left(&world, 1), world.trace());
    // Its own copies are like those that a get brought.
    assert!(world.machines[1].store.objects.values().all(|object| !object.keep));

    // What it makes now is kept by others from the beginning.
    ids.push(free(20));
    let no = put(&mut world, 1, free(20), (1, 1));
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));
    assert!(is_drained(&world, 1));

    world.machines[1].crash(true);
    pass(&mut world, 10_000);
    for id in ids {
        for at in [0, 2] {
            let mut get = || {
                let no = world.begin(at, Operation::Get { id, patient: false }).unwrap();
                pass(&mut world, 2_000);
                outcome(&world, no)
            };
            // The stores have no room for one landing in thirty.
            let no_room = Some(Outcome::Fate(Fate::NoRoom));
            let read = (0..5).map(|_| get()).find(|read| *read != no_room);
            assert!(matches!(read, Some(Some(Outcome::Read(_)))), "{id}: {read:?}");
        }
    }
}

/// A primary that found the record of a commit pending asked its origin, which drained and had
/// evicted its copy since: it was taken for one that had given the object up, and the object was
/// dropped everywhere.
#[test]
fn a_primary_that_finds_a_commit_of_a_draining_node_pending_does_not_withdraw_it() {
    for id in (0..30).map(free) {
        let mut world = world(3);
        drain(&mut world, 1);
        let primary = world.newest_map().acting(Map::group_of(&id))[0];
        let content = Content { data_bytes: 100, ..Content::default() };
        let put = Operation::Put { id, content, copies: 1, copies_min: 1 };
        let no = world.begin(1, put).unwrap();
        while outcome(&world, no).is_none() {
            pass(&mut world, 1);
        }
        let mut calls = Vec::new();
        world.machines[1].store.evict(0, &mut calls);
        for call in calls {
            world.give(1, Event::Local(call)).unwrap();
        }
        world.crash(usize::from(primary.0), false, 6_000).unwrap();
        pass(&mut world, 15_000);
        let no = world.begin(1, Operation::Get { id, patient: false }).unwrap();
        pass(&mut world, 3_000);
        let read = outcome(&world, no);
        assert!(matches!(read, Some(Outcome::Read(_))), "{read:?}; {}", world.trace());
    }
}

#[test]
fn a_node_is_not_drained_while_the_pool_has_too_few_others() {
    let mut world = world(2);
    for (number, copies) in [(1, (2, 2)), (2, (1, 1))] {
        let no = put(&mut world, 1, free(number), copies);
        assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));
    }
    drain(&mut world, 1);
    // A node may say that it has no room, and is asked again.
    pass(&mut world, 20_000);
    let left_now = left(&world, 1);
    assert_eq!((left_now.objects, left_now.few_nodes, left_now.last), (1, 1, 0), "{left_now:?}");
    assert!(!is_drained(&world, 1));
    // A put that needs two nodes finds one.
    let no = put(&mut world, 1, free(3), (2, 2));
    let refused = Some(Outcome::Put(Err(Refusal::NotEnoughNodes)));
    assert_eq!(outcome(&world, no), refused);

    let slot = world.machines[1].slot();
    world.commands.push(Command::Undrain(slot));
    pass(&mut world, 3_000);
    let no = put(&mut world, 1, free(3), (2, 2));
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));

    // With the last node that has a copy away, nothing can be moved.
    let only = free(4);
    put(&mut world, 1, only, (1, 1));
    world.crash(1, false, 4_000).unwrap();
    pass(&mut world, 500);
    drain(&mut world, 1);
    pass(&mut world, 20_000);
    let no = world.begin(0, Operation::Get { id: only, patient: false }).unwrap();
    pass(&mut world, 3_000);
    assert!(matches!(outcome(&world, no), Some(Outcome::Read(_))));
}
