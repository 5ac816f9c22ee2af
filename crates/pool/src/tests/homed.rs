//! Objects with a home, which are seen there before the directory knows of them.

use plasmon_cluster::Map;
use plasmon_proto::ObjectId;

use crate::event::Event;
use crate::message::{Envelope, Message, QuestionNo};
use crate::record::Birth;

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
