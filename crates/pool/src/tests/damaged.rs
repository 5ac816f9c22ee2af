//! Copies that go bad: they are replaced from those that are right, and the last ones stay.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;
use plasmon_proto::pool_checksum::{CopyFault, CopyRepair};

use crate::event::{Call, Event};
use crate::record::{Birth, Content};

use super::durable::{DONE, delete, get, ids, is_read, logs, pass, put, world, world_of};
use super::history::Operation;
use super::store::Outcome;
use super::world::World;

/// How long a comparison may take.
const WITHIN_MS: u64 = 20_000;

fn birth(world: &World, id: ObjectId) -> Birth {
    let mut stores = world.machines.iter().map(|machine| &machine.store);
    stores.find_map(|store| store.objects.get(&id)).unwrap().birth
}

/// What a machine has of an object is damaged, in its log and in memory, and it notices.
fn damage(world: &mut World, at: usize, id: ObjectId) {
    let store = &mut world.machines[at].store;
    let birth = store.objects[&id].birth;
    store.damaged.insert(id);
    if store.log.objects.contains_key(&id) {
        store.log.damaged.insert(id);
    }
    world.give(at, Event::Local(Call::Damaged { id, birth })).unwrap();
}

/// The machines with a copy that is right and is never evicted.
fn right(world: &World, id: ObjectId) -> Vec<usize> {
    let is_right = |at: &usize| {
        let store = &world.machines[*at].store;
        store.objects.get(&id).is_some_and(|it| it.keep) && !store.damaged.contains(&id)
    };
    (0..world.machines.len()).filter(is_right).collect()
}

/// Objects that are short of copies, unreachable and lost.
fn verify(world: &mut World) -> (u64, u64, u64) {
    world.verified.clear();
    world.give(0, Event::Verify { number: 7, within_ms: WITHIN_MS }).unwrap();
    pass(world, WITHIN_MS + 1_000);
    let verified = world.verified.remove(&7).unwrap();
    verified
        .tallies
        .values()
        .fold((0, 0, 0), |sum, it| (sum.0 + it.short, sum.1 + it.unreachable, sum.2 + it.lost))
}

#[test]
fn a_damaged_copy_is_made_again_from_one_that_is_right() {
    for [which, machines] in [[0, 3], [1, 3], [0, 2], [1, 2]] {
        let mut world = world(machines, machines);
        let [id, _] = ids(1);
        assert_eq!(put(&mut world, 0, id, (2, 2)), DONE, "{}", world.trace());
        let at = logs(&world, id)[which];
        damage(&mut world, at, id);
        pass(&mut world, 15_000);
        assert_eq!(right(&world, id).len(), 2, "{}", world.trace());
        assert_eq!(logs(&world, id).len(), 2, "{}", world.trace());
        for at in 0..machines {
            assert!(is_read(&get(&mut world, at, id)), "{}", world.trace());
        }
        assert_eq!(verify(&mut world), (0, 0, 0));
    }
}

/// Questions of nodes without a copy were not answered where there is no copy to have, so a delete
/// did not learn what to delete.
#[test]
fn an_object_of_which_all_copies_are_damaged_is_deleted_by_a_node_without_a_copy() {
    for at in 0..3 {
        let mut world = world(3, 3);
        let [id, _] = ids(1);
        assert_eq!(put(&mut world, at, id, (1, 1)), DONE, "{}", world.trace());
        let holder = logs(&world, id)[0];
        damage(&mut world, holder, id);
        pass(&mut world, 2_000);
        let deleted = delete(&mut world, (holder + 1) % 3, id);
        assert_eq!(deleted, Some(Outcome::Deleted), "{}", world.trace());
        pass(&mut world, 2_000);
        assert_eq!(logs(&world, id), [], "{}", world.trace());
    }
}

#[test]
fn the_last_copy_stays_and_the_object_is_short() {
    let mut world = world(3, 3);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    let holders = logs(&world, id);
    for at in &holders {
        damage(&mut world, *at, id);
    }
    pass(&mut world, 30_000);
    let left = logs(&world, id);
    assert!(!left.is_empty(), "it is not given up: {}", world.trace());
    assert_eq!(right(&world, id), []);
    let (short, unreachable, lost) = verify(&mut world);
    assert_eq!((short, unreachable, lost), (1, 0, 0), "{}", world.trace());
    // Another copy that is right turns up: the operator has brought the disk back.
    let at = left[0];
    let store = &mut world.machines[at].store;
    store.damaged.remove(&id);
    store.log.damaged.remove(&id);
    world.crash(at, true, 500).unwrap();
    pass(&mut world, 30_000);
    assert_eq!(right(&world, id).len(), 2, "{}", world.trace());
    assert_eq!(verify(&mut world), (0, 0, 0));
}

/// A cached copy is the only one that is right: it becomes one that is kept before the damaged one
/// is given up.
#[test]
fn a_cached_copy_is_kept_when_the_only_holder_is_damaged() {
    let mut world = world(3, 0);
    let [id, _] = ids(1);
    let content = Content { data_bytes: 100_000, ..Content::default() };
    world.ids.push(id);
    world.begin(0, Operation::Put { id, content, copies: 1, copies_min: 1 }).unwrap();
    pass(&mut world, 3_000);
    let holder = right(&world, id)[0];
    let reader = (holder + 1) % 3;
    assert!(is_read(&get(&mut world, reader, id)), "{}", world.trace());
    damage(&mut world, holder, id);
    pass(&mut world, 15_000);
    assert_eq!(right(&world, id).len(), 1, "{}", world.trace());
    for at in 0..3 {
        assert!(is_read(&get(&mut world, at, id)), "{}", world.trace());
    }
    assert_eq!(verify(&mut world), (0, 0, 0));
}

/// An operator has compared the contents, and says at any node which copies of which node are not
/// right.
#[test]
fn what_an_operator_has_found_is_repaired() {
    let mut world = world(3, 3);
    let [id, other] = ids(1);
    for id in [id, other] {
        assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    }
    let (at, at_other) = (logs(&world, id)[1], logs(&world, other)[1]);
    world.machines[at].store.damaged.insert(id);
    world.machines[at_other].store.log.damaged.insert(other);
    for (at, id, fault) in [(at, id, CopyFault::Content), (at_other, other, CopyFault::Record)] {
        let (node, birth) = (world.machines[at].slot(), birth(&world, id));
        let copies = vec![CopyRepair { id, birth, fault }];
        world.give(2, Event::Repair { node, copies }).unwrap();
    }
    pass(&mut world, 15_000);
    assert_eq!(right(&world, id).len(), 2, "{}", world.trace());
    assert!(world.machines.iter().all(|it| it.store.log.damaged.is_empty()));
    assert_eq!(logs(&world, other).len(), 2, "it was written again where it was");
    // What is said of another incarnation, or of what is not there, is nothing.
    let birth = Birth { serial: 999, ..birth(&world, id) };
    for fault in [CopyFault::Content, CopyFault::Record] {
        let node = world.machines[1].slot();
        let copies = vec![CopyRepair { id, birth, fault }];
        world.give(0, Event::Repair { node, copies }).unwrap();
    }
    pass(&mut world, 5_000);
    assert_eq!(right(&world, id).len(), 2, "{}", world.trace());
}

/// Copies go bad at random while power goes and comes back. As long as one is right somewhere, all
/// are at the end.
#[test]
fn as_long_as_one_copy_is_right_all_are_at_the_end() {
    for seed in 1..=20 {
        let mut world = world_of(seed, 3, 3);
        let all: Vec<ObjectId> = (1..5).map(|number| ids(number)[0]).collect();
        for id in &all {
            assert_eq!(put(&mut world, 0, *id, (2, 2)), DONE, "seed {seed}");
        }
        for _ in 0..8 {
            let id = all[world.dice.size_below(all.len())];
            let there = right(&world, id);
            if there.len() > 1 {
                let at = there[world.dice.size_below(there.len())];
                damage(&mut world, at, id);
            }
            if world.dice.below(4) == 0 {
                let (at, ms) = (world.dice.size_below(3), 200 + world.dice.below(3_000));
                world.crash(at, true, ms).unwrap();
            }
            let wait_ms = world.dice.below(8_000);
            pass(&mut world, wait_ms);
        }
        pass(&mut world, 60_000);
        for id in &all {
            let found: BTreeSet<usize> = right(&world, *id).into_iter().collect();
            assert!(found.len() >= 2, "seed {seed}: {id} {found:?}\n{}", world.trace());
        }
        assert_eq!(verify(&mut world), (0, 0, 0), "seed {seed}");
    }
}
