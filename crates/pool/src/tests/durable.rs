//! Durable objects: the power of one machine goes, or of all, and what was acknowledged is there.

use plasmon_cluster::{Map, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::pool::WantedCopies;

use crate::event::{Event, Fate, Refusal};
use crate::limits::COMMIT_STUCK_MS;
use crate::record::{Birth, Content};

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::World;

pub(super) const DONE: Option<Outcome> = Some(Outcome::Put(Ok(())));

/// A pool of so many machines at rest, of which those after the first `logs` have no log.
pub(super) fn world_of(seed: u64, machines: usize, logs: usize) -> World {
    let is_it = |other: &u64| {
        let world = World::new(*other, None, 0);
        world.machines.len() == machines && other % 2 == seed % 2
    };
    let seed = (seed * 1000..).find(is_it).unwrap();
    let mut world = World::new(seed, None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    world.machines.iter_mut().take(logs).for_each(|it| it.store.log.is_there = true);
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    world
}

pub(super) fn world(machines: usize, logs: usize) -> World {
    world_of(0, machines, logs)
}

pub(super) fn pass(world: &mut World, ms: u64) {
    world.run_until(world.now.after_ms(ms), false).unwrap();
}

fn outcome(world: &World, no: OperationNo) -> Option<Outcome> {
    world.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
}

pub(super) fn put(world: &mut World, at: usize, id: ObjectId, copies: (u8, u8)) -> Option<Outcome> {
    let (copies, copies_min) = copies;
    let durable = Some(WantedCopies { copies, copies_min });
    let content = Content { data_bytes: 100_000, durable, ..Content::default() };
    world.ids.push(id);
    let no = world.begin(at, Operation::Put { id, content, copies, copies_min }).unwrap();
    pass(world, 4_000);
    outcome(world, no)
}

pub(super) fn get(world: &mut World, at: usize, id: ObjectId) -> Option<Outcome> {
    let no = world.begin(at, Operation::Get { id, patient: false }).unwrap();
    pass(world, 3_000);
    outcome(world, no)
}

pub(super) fn delete(world: &mut World, at: usize, id: ObjectId) -> Option<Outcome> {
    let no = world.begin(at, Operation::Delete { id }).unwrap();
    pass(world, 1_000);
    outcome(world, no)
}

/// The machines whose logs have an object.
pub(super) fn logs(world: &World, id: ObjectId) -> Vec<usize> {
    let has = |at: &usize| world.machines[*at].store.log.objects.contains_key(&id);
    (0..world.machines.len()).filter(has).collect()
}

fn tombstones(world: &World) -> usize {
    world.machines.iter().map(|machine| machine.store.log.tombstones.len()).sum()
}

/// The power of all machines goes, and comes back after these times.
fn lose_all(world: &mut World, back_ms: &[u64]) {
    for (at, ms) in back_ms.iter().enumerate() {
        world.crash(at, true, *ms).unwrap();
    }
}

pub(super) fn is_read(outcome: &Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Read(_)))
}

/// One that any node may make, and one of the first machine.
pub(super) fn ids(number: u8) -> [ObjectId; 2] {
    [None, Some(0)].map(|home| ObjectId::pooled([number; 12], home))
}

/// The soak lost an acknowledged object: the log of its node still had the tombstone of an object
/// before of the same name, and after a loss of all power that was taken for the end of the id.
#[test]
fn a_tombstone_that_was_left_over_does_not_end_a_later_object() {
    for at in 0..3 {
        let mut world = world(3, 3);
        for id in ids(1) {
            assert_eq!(put(&mut world, 0, id, (1, 1)), DONE, "{}", world.trace());
            let before = Birth { slot: Slot(0), boot: 1, serial: 0 };
            world.machines[at].store.log.tombstones.insert((id, before));
        }
        lose_all(&mut world, &[300, 500, 700]);
        pass(&mut world, 20_000);
        for id in ids(1) {
            assert!((0..5).any(|_| is_read(&get(&mut world, 1, id))), "{}", world.trace());
        }
        pass(&mut world, 5_000);
        assert_eq!(tombstones(&world), 0, "what was left over is removed");
    }
}

#[test]
fn what_was_acknowledged_is_in_as_many_logs_and_outlives_all_power() {
    let mut world = world(3, 3);
    for copies in 1..=3 {
        for id in ids(copies) {
            assert_eq!(put(&mut world, 0, id, (copies, copies)), DONE, "{}", world.trace());
            assert_eq!(logs(&world, id).len(), usize::from(copies), "{}", world.trace());
        }
    }
    lose_all(&mut world, &[300, 500, 700]);
    pass(&mut world, 20_000);
    for id in (1..=3).flat_map(ids) {
        for at in 0..3 {
            assert!((0..5).any(|_| is_read(&get(&mut world, at, id))), "{}", world.trace());
        }
    }
    for copies in 1..=3 {
        for id in ids(copies) {
            assert_eq!(logs(&world, id).len(), usize::from(copies), "no copy more or less");
        }
    }
}

#[test]
fn nodes_without_a_log_hold_no_durable_copies() {
    let mut world = world(3, 1);
    let [one, _] = ids(1);
    assert_eq!(put(&mut world, 1, one, (2, 1)), DONE, "{}", world.trace());
    assert_eq!(logs(&world, one), [0]);
    let [two, _] = ids(2);
    let refused = Some(Outcome::Put(Err(Refusal::NotEnoughLogs)));
    assert_eq!(put(&mut world, 0, two, (2, 2)), refused, "{}", world.trace());
    assert_eq!(logs(&world, two), []);
    lose_all(&mut world, &[300, 300, 300]);
    pass(&mut world, 20_000);
    assert!(is_read(&get(&mut world, 2, one)), "{}", world.trace());
}

/// A node without a log lets go of what it made once it is in a log elsewhere. When all records
/// were lost, that its store has no copy was taken as proof that the object had been refused.
#[test]
fn what_a_node_without_a_log_made_outlives_the_records() {
    let mut world = world(3, 2);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 2, id, (1, 1)), DONE, "{}", world.trace());
    let mut calls = Vec::new();
    world.machines[2].store.evict(0, &mut calls);
    assert_eq!(calls.len(), 1, "it is a cached copy by now");
    calls.into_iter().for_each(|call| world.give(2, Event::Local(call)).unwrap());
    for at in 0..3 {
        world.crash(at, at < 2, 500).unwrap();
    }
    pass(&mut world, 20_000);
    assert!(is_read(&get(&mut world, 2, id)), "{}", world.trace());
}

#[test]
fn a_full_log_refuses_and_another_node_is_asked() {
    let mut world = world(3, 3);
    world.machines[1].store.log.is_full = true;
    let [one, _] = ids(1);
    assert_eq!(put(&mut world, 0, one, (2, 2)), DONE, "{}", world.trace());
    assert_eq!(logs(&world, one), [0, 2]);
    world.machines[0].store.log.is_full = true;
    let [two, _] = ids(2);
    let refused = Some(Outcome::Put(Err(Refusal::StoreFull)));
    assert_eq!(put(&mut world, 0, two, (1, 1)), refused, "{}", world.trace());
    assert_eq!(logs(&world, two), []);
}

/// A holder is away while the object is deleted, and then the power of all goes: its copy is the
/// only thing that is left of the object.
#[test]
fn what_was_deleted_while_a_holder_was_away_stays_deleted() {
    for away in 0..3 {
        let mut world = world(3, 3);
        let [id, _] = ids(1);
        assert_eq!(put(&mut world, 0, id, (3, 3)), DONE);
        world.crash(away, true, 12_000).unwrap();
        pass(&mut world, 6_000);
        let other = (away + 1) % 3;
        assert_eq!(delete(&mut world, other, id), Some(Outcome::Deleted), "{}", world.trace());
        pass(&mut world, 1_000);
        assert_eq!(logs(&world, id), [away]);
        assert!(tombstones(&world) > 0, "{}", world.trace());
        lose_all(&mut world, &[500, 500, 500]);
        pass(&mut world, 30_000);
        assert_eq!(logs(&world, id), [], "{}", world.trace());
        for at in 0..3 {
            let found = get(&mut world, at, id);
            let is_gone = matches!(found, Some(Outcome::Fate(Fate::Absent | Fate::Deleted)));
            assert!(is_gone, "{found:?}");
        }
        assert_eq!(tombstones(&world), 0, "they are not needed any more: {}", world.trace());
        assert_eq!(put(&mut world, 0, id, (2, 2)), DONE, "the id is free: {}", world.trace());
    }
}

/// While a node that may know more is away, an object of which all records are lost is neither
/// shown nor called absent.
#[test]
fn a_pool_that_is_not_complete_waits_for_the_others() {
    let mut world = world(3, 3);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    lose_all(&mut world, &[300, 300, 8_000]);
    pass(&mut world, 1_000);
    let found = get(&mut world, 0, id);
    let is_unknown = matches!(found, Some(Outcome::Fate(Fate::Unreachable)) | None);
    assert!(is_unknown || is_read(&found), "{found:?}: {}", world.trace());
    pass(&mut world, 30_000);
    assert!(is_read(&get(&mut world, 0, id)), "{}", world.trace());
}

#[test]
fn a_node_that_loses_its_power_comes_back_with_its_copies_and_no_byte_moves() {
    let mut world = world(3, 3);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    let before = logs(&world, id);
    world.crash(before[1], true, 1_000).unwrap();
    pass(&mut world, 10_000);
    assert_eq!(logs(&world, id), before, "{}", world.trace());
    let object = &world.machines[before[1]].store.objects[&id];
    assert!(object.visible && object.keep && object.logged, "{}", world.trace());
}

/// A copy that clients do not see yet is said to be held now and then, so that it is shown or
/// dropped. That was taken for an answer, and a put with a slow log was acknowledged before it.
#[test]
fn a_put_waits_for_logs_that_are_slow() {
    let mut world = world_of(1, 3, 3);
    assert!(!world.is_impatient);
    world.log_ms = 6_000;
    let mut puts = Vec::new();
    for number in 1..=6 {
        let [id, _] = ids(number);
        let durable = Some(WantedCopies { copies: 2, copies_min: 2 });
        let content = Content { data_bytes: 100, durable, ..Content::default() };
        world.ids.push(id);
        let put = Operation::Put { id, content, copies: 2, copies_min: 2 };
        puts.push((id, world.begin(0, put).unwrap()));
    }
    pass(&mut world, 20_000);
    for (id, no) in puts {
        assert_eq!(outcome(&world, no), DONE, "{}", world.trace());
        assert_eq!(logs(&world, id).len(), 2);
    }
}

#[test]
fn copies_in_a_log_that_failed_do_not_count_and_end_when_its_node_is_back() {
    let mut world = world(3, 3);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    let at = logs(&world, id)[0];
    world.machines[at].store.log.has_failed = true;
    pass(&mut world, 6_000);
    let others: Vec<usize> = logs(&world, id).into_iter().filter(|other| *other != at).collect();
    assert_eq!(others.len(), 2, "another node has it now: {}", world.trace());
    let [three, _] = ids(2);
    let refused = Some(Outcome::Put(Err(Refusal::NotEnoughLogs)));
    assert_eq!(put(&mut world, at, three, (3, 3)), refused, "{}", world.trace());
    let [two, _] = ids(3);
    assert_eq!(put(&mut world, at, two, (2, 2)), DONE, "{}", world.trace());
    assert_eq!(logs(&world, two), others);

    assert_eq!(delete(&mut world, at, id), Some(Outcome::Deleted), "{}", world.trace());
    pass(&mut world, 3_000);
    assert_eq!(logs(&world, id), [at], "its log takes no end");
    assert!(tombstones(&world) > 0, "so it is remembered that it ended");
    world.crash(at, true, 500).unwrap();
    pass(&mut world, 20_000);
    assert_eq!((logs(&world, id), tombstones(&world)), (vec![], 0), "{}", world.trace());
    assert!(!is_read(&get(&mut world, at, id)));
}

/// A put at the first of three machines whose primary starts again while all logs still write: the
/// next primary inherits it as pending. From then on the logs of these machines have no room.
fn inherited(full: &[usize], copies: (u8, u8)) -> (World, ObjectId, OperationNo) {
    let mut world = world_of(1, 3, 3);
    let (_, map) = world.maps.last().unwrap().clone();
    let primary = |id: &ObjectId| map.group(Map::group_of(id)).primary();
    let id = (1..).map(|number| ids(number)[0]).find(|id| primary(id) == Some(Slot(1))).unwrap();
    world.log_ms = 6_000;
    world.ids.push(id);
    let durable = Some(WantedCopies { copies: copies.0, copies_min: copies.1 });
    let content = Content { data_bytes: 100_000, durable, ..Content::default() };
    let (copies, copies_min) = copies;
    let no = world.begin(0, Operation::Put { id, content, copies, copies_min }).unwrap();
    pass(&mut world, 100);
    assert_eq!(logs(&world, id), [], "{}", world.trace());
    world.crash(1, false, 200).unwrap();
    full.iter().for_each(|at| world.machines[*at].store.log.is_full = true);
    (world, id, no)
}

/// The log of the node where an object was made had no room, and others took it. Its copy stayed in
/// memory for as long as the object existed, though it counts as no copy.
#[test]
fn an_origin_whose_log_is_full_lets_its_copy_go_once_others_have_the_object() {
    for copies in [(1, 1), (2, 1), (2, 2)] {
        let (mut world, id, no) = inherited(&[0], copies);
        pass(&mut world, 20_000);
        assert_eq!(outcome(&world, no), DONE, "{}", world.trace());
        let others = logs(&world, id);
        assert_eq!(others.len(), usize::from(copies.0), "{}", world.trace());
        assert!(!others.contains(&0));
        let object = &world.machines[0].store.objects[&id];
        assert!(object.visible && !object.keep, "{}", world.trace());
        let mut calls = Vec::new();
        world.machines[0].store.evict(0, &mut calls);
        assert_eq!(calls.len(), 1);
        calls.into_iter().for_each(|call| world.give(0, Event::Local(call)).unwrap());
        assert!(is_read(&get(&mut world, 0, id)), "{}", world.trace());
        assert_eq!(logs(&world, id), others);
    }
}

/// No log has room for an object that an earlier primary may have let exist: it is not withdrawn,
/// and its put ends all the same.
#[test]
fn a_put_that_was_inherited_and_that_no_log_has_room_for_ends() {
    for copies in [(1, 1), (2, 1), (2, 2)] {
        let (mut world, id, no) = inherited(&[0, 1, 2], copies);
        pass(&mut world, 20_000);
        assert_eq!(outcome(&world, no), None, "{}", world.trace());
        pass(&mut world, COMMIT_STUCK_MS);
        let unreachable = Some(Outcome::Put(Err(Refusal::Unreachable)));
        assert_eq!(outcome(&world, no), unreachable, "{}", world.trace());
        world.machines.iter_mut().for_each(|machine| machine.store.log.is_full = false);
        pass(&mut world, 30_000);
        // It exists or not; either way the name can be used again.
        assert_eq!(delete(&mut world, 1, id), Some(Outcome::Deleted), "{}", world.trace());
        pass(&mut world, 20_000);
        assert_eq!(put(&mut world, 0, id, copies), DONE, "{}", world.trace());
    }
}

/// Puts and deletes at random machines, whose power goes again and again, of one or of all.
#[test]
fn nothing_acknowledged_is_lost_and_nothing_deleted_comes_back() {
    for seed in 1..=30 {
        let mut world = world_of(seed, 3, 3);
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for number in 0..12u8 {
            let [id, _] = ids(number + 1);
            let at = world.dice.size_below(3);
            let copies = 1 + world.dice.below(3) as u8;
            if put(&mut world, at, id, (copies, 1)) == DONE {
                there.push(id);
            }
            if !there.is_empty() && world.dice.below(3) == 0 {
                let id = there.swap_remove(world.dice.size_below(there.len()));
                // Without an answer it may have happened or not.
                if delete(&mut world, at, id) == Some(Outcome::Deleted) {
                    gone.push(id);
                }
            }
            match world.dice.below(4) {
                0 => {
                    let times = [200, 400, 600].map(|ms| ms + world.dice.below(2_000));
                    lose_all(&mut world, &times);
                }
                1 => {
                    let (at, ms) = (world.dice.size_below(3), 200 + world.dice.below(6_000));
                    world.crash(at, true, ms).unwrap();
                }
                _ => {}
            }
            let wait_ms = world.dice.below(9_000);
            pass(&mut world, wait_ms);
        }
        pass(&mut world, 60_000);
        for id in there {
            let found = (0..5).any(|_| is_read(&get(&mut world, 0, id)));
            assert!(found, "seed {seed}: {id} is lost\n{}", world.trace());
        }
        for id in gone {
            let found = get(&mut world, 1, id);
            assert!(!is_read(&found), "seed {seed}: {id} is back\n{}", world.trace());
            assert_eq!(logs(&world, id), [], "seed {seed}\n{}", world.trace());
        }
        assert_eq!(tombstones(&world), 0, "seed {seed}\n{}", world.trace());
    }
}
