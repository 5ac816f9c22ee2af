//! Objects with a home, which are seen there before the directory knows of them.

use plasmon_cluster::{Map, Slot};
use plasmon_proto::ObjectId;

use crate::event::Event;
use crate::message::{Envelope, HoldOutcome, Message, QuestionNo};
use crate::record::{Birth, Content};

use super::history::Operation;
use super::world::World;

/// A delete can come to the primary before the commit does, and then makes the record. Until all
/// acting nodes had it, a node that asked was told that the object has no bytes: it made memory for
/// that, and its client was told that there was no room.
#[test]
fn of_an_object_that_is_deleted_before_its_commit_came_no_bytes_are_told() {
    let seed = (0..).find(|seed| World::new(*seed, None, 0).machines.len() == 3).unwrap();
    let mut world = World::new(seed, None, 1000);
    world.start_all().unwrap();
    world.run_until(world.now.after_ms(3_000), false).unwrap();
    let id = ObjectId::pooled([7; 12], Some(0));
    let map = world.maps.last().unwrap().1.clone();
    let primary = map.primary(Map::group_of(&id)).unwrap();
    let from = world.machines[(usize::from(primary.0) + 1) % 3].slot();
    let incarnation = world.machines[usize::from(from.0)].incarnation;
    let birth = Birth { slot: world.machines[0].slot(), boot: 1, serial: 0 };
    let find = |number| Message::Find { id, question: QuestionNo(number), watch: false };
    let messages = vec![Message::Delete { id, birth }, find(1)];
    let envelope = Envelope { epoch: map.epoch(), from, incarnation, messages };
    world.give(usize::from(primary.0), Event::Peer(envelope)).unwrap();
    world.run_until(world.now.after_ms(100), false).unwrap();
    let trace = world.trace();
    assert!(trace.contains("Deleted {"), "{trace}");
    assert!(!trace.contains("Found {"), "{trace}");
}

/// A node that got a copy from the home of its id told the primary so once. That was lost while
/// the primary did not hold its lease; the home started again and forgot that node, and a delete
/// did not reach the copy, which clients of the node went on reading.
#[test]
fn a_delete_reaches_a_copy_that_came_while_the_primary_could_not_decide() {
    let three = |seed: &u64| World::new(*seed, None, 0).machines.len() == 3;
    let mut world = World::new((0..).find(three).unwrap(), None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    let (_, map) = world.maps.last().unwrap().clone();
    let id_of = |number: u8| ObjectId::pooled([number; 12], Some(0));
    let primary_of = |number: u8| map.primary(Map::group_of(&id_of(number))).unwrap();
    let number = (0..).find(|number| primary_of(*number) != Slot(0)).unwrap();
    let (id, primary) = (id_of(number), usize::from(primary_of(number).0));
    let third = 3 - primary;
    world.ids.push(id);
    let content = Content { data_bytes: 100, ..Content::default() };
    world.begin(0, Operation::Put { id, content, copies: 1, copies_min: 1 }).unwrap();
    pass(&mut world, 1_000);
    let maps = world.maps.len();
    world.machines[primary].reaches_etcd = false;
    pass(&mut world, 2_500);
    world.begin(third, Operation::Get { id, patient: false }).unwrap();
    pass(&mut world, 30);
    assert!(world.machines[third].store.objects.contains_key(&id), "{}", world.trace());
    world.machines[primary].reaches_etcd = true;
    pass(&mut world, 5_000);
    assert_eq!(world.maps.len(), maps, "the primary is what it was");
    world.crash(0, false, 200).unwrap();
    pass(&mut world, 3_000);
    world.begin(0, Operation::Delete { id }).unwrap();
    pass(&mut world, 2_000);
    assert!(!world.machines[third].store.objects.contains_key(&id), "{}", world.trace());
}

/// The primary heard of a copy that a node had got from the home of its id when the object was
/// deleted already, and forgotten. It took the commit for one that was still to come, and clients
/// of the node read what was deleted.
#[test]
fn a_copy_of_an_object_that_its_home_does_not_ask_for_is_dropped() {
    let three = |seed: &u64| World::new(*seed, None, 0).machines.len() == 3;
    let mut world = World::new((0..).find(three).unwrap(), None, 1000);
    let pass = |world: &mut World, ms| world.run_until(world.now.after_ms(ms), false).unwrap();
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    let (_, map) = world.maps.last().unwrap().clone();
    let id = ObjectId::pooled([7; 12], Some(0));
    let primary = map.primary(Map::group_of(&id)).unwrap();
    let from = world.machines[(usize::from(primary.0) + 1) % 3].slot();
    let incarnation = world.machines[usize::from(from.0)].incarnation;
    let birth = Birth { slot: Slot(0), boot: map.node(Slot(0)).unwrap().member.boot, serial: 0 };
    let messages = vec![Message::Held { id, birth, outcome: HoldOutcome::Cached }];
    let envelope = Envelope { epoch: map.epoch(), from, incarnation, messages };
    world.give(usize::from(primary.0), Event::Peer(envelope)).unwrap();
    pass(&mut world, 5_000);
    assert!(!world.trace().contains("Drop {"), "{}", world.trace());
    pass(&mut world, 10_000);
    assert!(world.trace().contains("Drop {"), "{}", world.trace());
}
