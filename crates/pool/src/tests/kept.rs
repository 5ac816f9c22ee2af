//! A copy that must not be evicted, after its store was started again.

use plasmon_proto::ObjectId;

use crate::event::Event;
use crate::message::Standing;
use crate::record::Content;

use super::history::Operation;
use super::store::Outcome;
use super::world::World;

/// A store forgets with its daemon that a copy which came as a cached one is never to be evicted.
/// The records said that its node holds the object, so no node asked it again to keep the copy, and
/// the last one could be evicted.
#[test]
fn a_holder_whose_store_started_again_is_asked_again_to_keep_its_copy() {
    let mut world = World::new(1, None, 0);
    let id = ObjectId::pooled([7; 12], None);
    let content = Content { data_bytes: 100, ..Content::default() };
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    let put = Operation::Put { id, content, copies: 2, copies_min: 1 };
    world.begin(0, put).unwrap();
    pass(&mut world, 3_000);
    let holders = |world: &World| -> Vec<usize> {
        let keeps = |at: &usize| world.machines[*at].store.objects.get(&id).is_some_and(|o| o.keep);
        (0..world.machines.len()).filter(keeps).collect()
    };
    let before = holders(&world);
    assert_eq!(before.len(), 2);
    for at in &before {
        world.crash(*at, false, 500).unwrap();
        world.machines[*at].store.forget_with_daemon();
        pass(&mut world, 20_000);
        assert_eq!(holders(&world), before, "{}", world.trace());
    }
}

/// A copy of that kind could be evicted between the moment when its node vouched for it, and so its
/// store showed it, and the request of the primary to keep it.
#[test]
fn a_copy_that_is_to_be_kept_is_kept_before_it_is_shown() {
    for seed in 0..20 {
        let mut world = World::new(seed, None, 200);
        let id = ObjectId::pooled([7; 12], None);
        let content = Content { data_bytes: 100, ..Content::default() };
        let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
        world.start_all().unwrap();
        pass(&mut world, 3_000);
        let put = Operation::Put { id, content, copies: 2, copies_min: 1 };
        world.begin(0, put).unwrap();
        pass(&mut world, 3_000);
        for at in 0..world.machines.len() {
            if world.machines[at].store.objects.get(&id).is_none_or(|object| !object.keep) {
                continue;
            }
            world.crash(at, false, 500).unwrap();
            world.machines[at].store.forget_with_daemon();
            while world.machines[at].store.visible(world.now, &id).is_none() {
                pass(&mut world, 1);
            }
            assert!(world.machines[at].store.objects[&id].keep, "seed {seed}: {}", world.trace());
            // Until the other nodes have the records again.
            pass(&mut world, 20_000);
        }
    }
}

/// A node said that it holds a copy when it had told its store to seal it. A store that died before
/// it had done so left an acknowledged object with a copy less than was promised.
#[test]
fn a_put_waits_until_the_store_of_each_holder_has_sealed_its_copy() {
    for home in [None, Some(0)] {
        let mut world = World::new(1, None, 0);
        let id = ObjectId::pooled([7; 12], home);
        let content = Content { data_bytes: 100, ..Content::default() };
        let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
        world.start_all().unwrap();
        pass(&mut world, 3_000);
        world.seals_late = true;
        let put = world.begin(0, Operation::Put { id, content, copies: 2, copies_min: 2 }).unwrap();
        // Longer than it takes until a node says again what it holds.
        pass(&mut world, 5_000);
        assert_eq!(world.history.entries[&put].end, None);
        let has = |world: &World, at: &usize| world.machines[*at].store.objects.contains_key(&id);
        let at = (1..world.machines.len()).find(|at| has(&world, at)).unwrap();
        // What the node tells a new primary of it is true, too.
        let node = world.machines[at].node.as_ref().unwrap();
        let entry = node.inventory().find(|entry| entry.id == id).unwrap();
        assert_eq!(entry.standing, Standing::Arriving);
        let birth = entry.birth;
        world.give(at, Event::CopySealed { id, birth }).unwrap();
        pass(&mut world, 1_000);
        let outcome = world.history.entries[&put].end.clone().map(|(_, outcome)| outcome);
        assert_eq!(outcome, Some(Outcome::Put(Ok(()))));
    }
}
