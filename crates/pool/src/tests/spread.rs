//! Objects whose copies are on other nodes than their creator's.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::event::{Event, Refusal};
use crate::record::Content;

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::World;

/// A pool of so many machines at rest, of which the first `light` have no weight.
fn world(machines: usize, light: usize) -> World {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == machines).unwrap();
    let mut world = World::new(seed, None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    world.machines.iter_mut().take(light).for_each(|machine| machine.weight = 0);
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

/// Puts an object on the first machine, and waits until all is quiet.
fn put(world: &mut World, id: ObjectId, keeping: Keeping, copies: (u8, u8)) -> Option<Outcome> {
    let content = Content { data_bytes: 300_000, keeping, ..Content::default() };
    world.ids.push(id);
    let (copies, copies_min) = copies;
    let no = world.begin(0, Operation::Put { id, content, copies, copies_min }).unwrap();
    pass(world, 8_000);
    outcome(world, no)
}

fn spread(world: &mut World, id: ObjectId, copies: (u8, u8)) -> Option<Outcome> {
    put(world, id, Keeping::Spread, copies)
}

/// Which machines keep an object, and which others have it.
fn places(world: &World, id: ObjectId) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let of = |keep: bool| {
        let has = |at: &usize| {
            world.machines[*at].store.objects.get(&id).is_some_and(|object| object.keep == keep)
        };
        (0..world.machines.len()).filter(has).collect()
    };
    (of(true), of(false))
}

fn is_read(world: &mut World, at: usize, id: ObjectId) -> bool {
    let get = |world: &mut World| {
        let no = world.begin(at, Operation::Get { id, patient: false }).unwrap();
        pass(world, 2_000);
        matches!(outcome(world, no), Some(Outcome::Read(_)))
    };
    // The stores have no room for one landing in thirty.
    (0..5).any(|_| get(world))
}

/// One that any node may make, and one of the first machine.
fn ids(number: u8) -> [ObjectId; 2] {
    [None, Some(0)].map(|home| ObjectId::pooled([number; 12], home))
}

const DONE: Option<Outcome> = Some(Outcome::Put(Ok(())));

#[test]
fn the_copies_of_an_object_that_is_spread_are_on_other_nodes() {
    let mut world = world(4, 0);
    for copies in 1..=3 {
        for id in ids(copies) {
            assert_eq!(spread(&mut world, id, (copies, copies)), DONE, "{copies}");
            let (kept, cached) = places(&world, id);
            assert_eq!((kept.len(), kept.contains(&0)), (usize::from(copies), false), "{copies}");
            assert_eq!(cached, BTreeSet::from([0]), "its creator has it until it is evicted");
        }
    }
    let mut calls = Vec::new();
    for _ in 0..6 {
        world.machines[0].store.evict(0, &mut calls);
    }
    assert_eq!(calls.len(), 6);
    calls.into_iter().for_each(|call| world.give(0, Event::Local(call)).unwrap());
    pass(&mut world, 1_000);
    for id in (1..=3).flat_map(ids) {
        assert!(is_read(&mut world, 0, id));
    }
    pass(&mut world, 10_000);
    world.check_rest().unwrap();
    world.ask_places().unwrap();
    pass(&mut world, 1_000);
    world.check_places().unwrap();
}

#[test]
fn fewer_other_nodes_than_copies_are_enough_if_there_are_as_many_as_needed_at_least() {
    for number in 0..2 {
        let mut world = world(2, 0);
        let id = ids(1)[number];
        assert_eq!(spread(&mut world, id, (2, 1)), DONE);
        // Its creator keeps it, too, as long as there is no other node.
        assert_eq!(places(&world, id).0, BTreeSet::from([0, 1]));
        let id = ids(2)[number];
        let refused = Some(Outcome::Put(Err(Refusal::NotEnoughNodes)));
        assert_eq!(spread(&mut world, id, (2, 2)), refused);
        assert_eq!(places(&world, id), Default::default());
    }
}

#[test]
fn copies_that_were_lost_are_made_again_on_other_nodes_than_the_creators() {
    for number in 0..2 {
        let mut world = world(4, 0);
        let id = ids(1)[number];
        assert_eq!(spread(&mut world, id, (2, 2)), DONE);
        let (kept, _) = places(&world, id);
        let lost = *kept.first().unwrap();
        world.crash(lost, true, 60_000).unwrap();
        // Long enough that the next loss is not one of many at once.
        pass(&mut world, 35_000);
        let (kept, cached) = places(&world, id);
        assert_eq!((kept.len(), cached), (2, BTreeSet::from([0])), "{kept:?}");

        // With no other node left, its creator keeps it once more, and lets it go again.
        let lost = *kept.first().unwrap();
        world.crash(lost, true, 15_000).unwrap();
        pass(&mut world, 9_000);
        assert!(places(&world, id).0.contains(&0), "{:?}; {}", places(&world, id), world.trace());
        pass(&mut world, 40_000);
        let (kept, cached) = places(&world, id);
        assert_eq!((kept.len(), cached), (2, BTreeSet::from([0])), "{kept:?}");
    }
}

#[test]
fn what_its_creator_still_has_rescues_an_object_that_all_holders_lost() {
    for number in 0..2 {
        let mut world = world(3, 0);
        let id = ids(1)[number];
        assert_eq!(spread(&mut world, id, (1, 1)), DONE);
        let (kept, _) = places(&world, id);
        let lost = *kept.first().unwrap();
        world.crash(lost, true, 40_000).unwrap();
        pass(&mut world, 20_000);
        let (kept, cached) = places(&world, id);
        assert_eq!((kept.len(), cached), (1, BTreeSet::from([0])), "{}", world.trace());
        assert!(!kept.contains(&lost));
    }
}

#[test]
fn what_a_node_without_weight_puts_is_kept_by_others() {
    let mut world = world(4, 1);
    for id in ids(1) {
        assert_eq!(put(&mut world, id, Keeping::Local, (2, 2)), DONE);
        let (kept, cached) = places(&world, id);
        assert_eq!((kept.len(), cached), (2, BTreeSet::from([0])), "{kept:?}");
    }
}

/// The records were made again from the copy of the creator's node, and another copy that was not
/// shown yet was asked for first: nothing said that the creator's node kept its own, too.
#[test]
fn its_creator_lets_it_go_after_all_records_were_lost() {
    for home in [None, Some(1)] {
        let mut world = world(2, 0);
        let ids = (0..8).map(|number| ObjectId::pooled([number; 12], home)).collect::<Vec<_>>();
        for id in ids.iter().copied() {
            let content =
                Content { data_bytes: 1000, keeping: Keeping::Spread, ..Content::default() };
            let put = Operation::Put { id, content, copies: 2, copies_min: 1 };
            world.begin(1, put).unwrap();
        }
        pass(&mut world, 20_000);
        for id in &ids {
            assert_eq!(places(&world, *id).0, BTreeSet::from([0, 1]));
            world.machines[0].store.objects.get_mut(id).unwrap().visible = false;
        }
        (0..2).for_each(|at| world.crash(at, false, 500).unwrap());
        pass(&mut world, 30_000);
        for id in ids {
            assert_eq!(places(&world, id), (BTreeSet::from([0]), BTreeSet::from([1])));
        }
    }
}
