//! Copies that go bad: they are replaced from those that are right, and the last ones stay.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherRead, GatherRequest};
use plasmon_proto::parts::{ReadRequest, Span};
use plasmon_proto::pool::WantedCopies;
use plasmon_proto::pool_checksum::{CopyFault, CopyRepair};

use crate::event::{Call, Event, Fate};
use crate::limits::UNREACHABLE_MS;
use crate::record::{Birth, Content};

use super::durable::{DONE, delete, get, ids, is_read, logs, pass, put, world, world_of};
use super::history::Operation;
use super::questions::Question;
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

/// What a machine has of an object is damaged, and its store notices when it is read.
fn damage_unseen(world: &mut World, at: usize, id: ObjectId) {
    let store = &mut world.machines[at].store;
    store.damaged.insert(id);
    if store.log.objects.contains_key(&id) {
        store.log.damaged.insert(id);
    }
}

/// A get waits at most so long for what is damaged everywhere: sources are tried, and say so.
const TRIED_MS: u64 = 2_000;

/// A get, and how long it took if it ended.
fn timed_get(world: &mut World, at: usize, id: ObjectId) -> (Option<Outcome>, u64) {
    loop {
        let begin = world.now;
        let no = world.begin(at, Operation::Get { id, patient: true }).unwrap();
        pass(world, UNREACHABLE_MS + 2_000);
        match world.history.entries[&no].end.clone() {
            // The double has no memory now and then.
            Some((_, Outcome::Fate(Fate::NoRoom))) => {}
            Some((end, outcome)) => return (Some(outcome), (end.0 - begin.0) / 1_000),
            None => return (None, u64::MAX),
        }
    }
}

/// Its first byte, by a read and by a gather.
fn questions(id: ObjectId) -> [Question; 2] {
    let (spans, end) = (vec![Span { offset: 0, bytes: 1 }], 1);
    let read =
        ReadRequest { id, birth: None, spans: spans.clone(), end, metadata: false, timeout_ms: 0 };
    let gather = GatherRequest { reads: vec![GatherRead { id, spans, end }] };
    [Question::One(read), Question::Many(gather)]
}

fn read_parts(world: &mut World, at: usize, question: Question) -> Option<Outcome> {
    loop {
        world.begin_read(at, question.clone()).unwrap();
        let no = *world.history.entries.last_key_value().unwrap().0;
        pass(world, TRIED_MS);
        // The double has no memory now and then.
        let entry = &world.history.entries[&no];
        if !entry.left {
            return entry.end.clone().map(|(_, outcome)| outcome);
        }
    }
}

const DAMAGED: Option<Outcome> = Some(Outcome::Fate(Fate::Damaged));

/// A get on a node without a copy asked again and again for sources, as long as it may for nodes
/// that cannot be reached, and was told that the object is unreachable.
#[test]
fn a_get_of_what_is_damaged_everywhere_says_so_after_its_sources_were_tried() {
    for (machines, copies, data_bytes) in
        [(2, 1, 100), (3, 1, 100_000), (3, 2, 100), (4, 2, 100_000), (5, 3, 3_000_000)]
    {
        let mut world = world(machines, machines);
        let [id, _] = ids(1);
        let durable = Some(WantedCopies { copies, copies_min: copies });
        let content = Content { data_bytes, durable, ..Content::default() };
        world.ids.push(id);
        let operation = Operation::Put { id, content, copies, copies_min: copies };
        world.begin(0, operation).unwrap();
        pass(&mut world, 5_000);
        let holders = logs(&world, id);
        assert_eq!(holders.len(), usize::from(copies), "{}", world.trace());
        holders.iter().for_each(|at| damage_unseen(&mut world, *at, id));
        let others: Vec<usize> = (0..machines).filter(|at| !holders.contains(at)).collect();
        let at = others[0];
        let [read, gather] = questions(id);
        assert_eq!(read_parts(&mut world, at, read), DAMAGED, "{}", world.trace());
        for _ in 0..2 {
            for at in others.iter().copied() {
                let (outcome, ms) = timed_get(&mut world, at, id);
                assert_eq!(outcome, DAMAGED, "{machines} {copies} {at}: {}", world.trace());
                assert!(ms < TRIED_MS, "{at} waited {ms} ms: {}", world.trace());
            }
        }
        assert_eq!(read_parts(&mut world, at, gather), DAMAGED, "{}", world.trace());
        assert_eq!(delete(&mut world, at, id), Some(Outcome::Deleted), "{}", world.trace());
        pass(&mut world, 2_000);
        assert_eq!(logs(&world, id), [], "{}", world.trace());
        assert_eq!(put(&mut world, at, id, (copies, 1)), DONE, "its id is free");
    }
}

/// Only what is damaged everywhere is said to be: a copy that may be right is waited for.
#[test]
fn a_copy_on_a_node_that_is_away_may_be_right() {
    let mut world = world(3, 3);
    let [id, _] = ids(1);
    assert_eq!(put(&mut world, 0, id, (2, 2)), DONE);
    let holders = logs(&world, id);
    let other = (0..3).find(|at| !holders.contains(at)).unwrap();
    damage_unseen(&mut world, holders[0], id);
    world.crash(holders[1], true, 14_000).unwrap();
    pass(&mut world, 1_000);
    let (outcome, ms) = timed_get(&mut world, other, id);
    assert_ne!(outcome, DAMAGED, "{}", world.trace());
    assert!(ms >= UNREACHABLE_MS, "{ms}: {}", world.trace());
    pass(&mut world, 30_000);
    for at in 0..3 {
        assert!(is_read(&get(&mut world, at, id)), "{}", world.trace());
    }
    assert_eq!(right(&world, id).len(), 2, "{}", world.trace());
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
