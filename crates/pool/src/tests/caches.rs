//! Objects that are not kept: they end with the copy of the node where they were made.

use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::event::{Event, Fate};
use crate::record::Content;

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::World;

/// A pool of three machines at rest.
fn world() -> World {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    world
}

fn pass(world: &mut World, ms: u64) {
    world.run_until(world.now.after_ms(ms), false).unwrap();
}

fn outcome(world: &World, no: OperationNo) -> Option<Outcome> {
    world.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
}

fn put(world: &mut World, at: usize, id: ObjectId) -> Option<Outcome> {
    let content = Content { data_bytes: 300_000, keeping: Keeping::Cache, ..Content::default() };
    world.ids.push(id);
    let put = Operation::Put { id, content, copies: 1, copies_min: 1 };
    let no = world.begin(at, put).unwrap();
    pass(world, 3_000);
    outcome(world, no)
}

fn get(world: &mut World, at: usize, id: ObjectId) -> Option<Outcome> {
    let mut once = || {
        let no = world.begin(at, Operation::Get { id, patient: false }).unwrap();
        pass(world, 2_000);
        outcome(world, no)
    };
    // The stores have no room for one landing in thirty.
    (0..5).map(|_| once()).find(|read| *read != Some(Outcome::Fate(Fate::NoRoom))).flatten()
}

fn is_gone(read: Option<&Outcome>) -> bool {
    matches!(read, Some(Outcome::Fate(Fate::Absent | Fate::Deleted)))
}

/// One that any node may make, and one of the first machine.
fn ids() -> [ObjectId; 2] {
    [None, Some(0)].map(|home| ObjectId::pooled([7; 12], home))
}

const DONE: Option<Outcome> = Some(Outcome::Put(Ok(())));

#[test]
fn a_cache_ends_everywhere_when_its_writers_node_evicts_it() {
    for id in ids() {
        let mut world = world();
        assert_eq!(put(&mut world, 0, id), DONE);
        assert!(matches!(get(&mut world, 1, id), Some(Outcome::Read(_))));
        assert!(world.machines.iter().all(|it| it.store.objects.values().all(|it| !it.keep)));
        let mut calls = Vec::new();
        world.machines[0].store.evict(0, &mut calls);
        assert_eq!(calls.len(), 1);
        calls.into_iter().for_each(|call| world.give(0, Event::Local(call)).unwrap());
        pass(&mut world, 1_000);
        for at in 0..3 {
            let read = get(&mut world, at, id);
            assert!(is_gone(read.as_ref()), "{at}: {read:?}");
            assert!(!world.machines[at].store.objects.contains_key(&id));
        }
        if id.home().is_none() {
            assert_eq!(put(&mut world, 1, id), DONE, "the name is free");
        }
        world.check_rest().unwrap();
    }
}

#[test]
fn a_cache_goes_with_its_machine_and_survives_its_pool_daemon() {
    for id in ids() {
        let mut world = world();
        assert_eq!(put(&mut world, 0, id), DONE);
        world.crash(0, false, 500).unwrap();
        world.machines[0].store.forget_with_daemon();
        pass(&mut world, 10_000);
        assert!(matches!(get(&mut world, 2, id), Some(Outcome::Read(_))), "{}", world.trace());
        assert!(world.machines.iter().all(|it| it.store.objects.values().all(|it| !it.keep)));

        world.crash(0, true, 500).unwrap();
        pass(&mut world, 10_000);
        for at in 0..3 {
            let read = get(&mut world, at, id);
            assert!(is_gone(read.as_ref()), "{at}: {read:?}");
        }
        pass(&mut world, 10_000);
        world.check_rest().unwrap();
    }
}
