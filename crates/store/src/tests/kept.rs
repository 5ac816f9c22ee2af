//! Files of objects that came back to memory.
//!
//! The file was removed as soon as its object was back. A store smaller than what its clients read
//! in turns wrote every object again each time: a shuffle of 1 GB in a store of 256 MB wrote 182
//! GB.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Attributes, ObjectState};

use super::{Put, World, id};
use crate::event::{ClientNo, Event};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

use ObjectState::{Deleted, Sealed, Spilled};

const CLIENT: ClientNo = ClientNo(1);

fn config() -> Config {
    Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) }
}

/// Five objects in a store for four: the first is spilled.
fn world(config: Config) -> World {
    let mut world = World::new(config);
    world.connect(1);
    for number in 0..5 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    assert_eq!(world.state(0), Spilled);
    world
}

fn read(world: &mut World, number: u64) {
    let ids = vec![id(number)];
    let request = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: false };
    assert_eq!(world.ask(CLIENT, request), Reply::States(vec![Sealed]), "object {number}");
}

fn written(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::Spill(..))).count()
}

#[test]
fn an_object_is_written_once_however_often_it_is_spilled() {
    let mut world = world(config());
    for number in (0..5).cycle().take(50) {
        read(&mut world, number);
    }
    assert_eq!(written(&world), 5);
    let status = world.status();
    assert_eq!((status.objects, status.spilled), (4, 1), "an object is counted once");
    assert_eq!((status.spilled_bytes, status.spill_kept_bytes), (MIB, 4 * MIB));
    assert_eq!(status.spill_written_bytes_total, 5 * MIB);
    assert_eq!(status.spill_read_bytes_total, 50 * MIB);
    assert_eq!(world.tier.len(), 5);
}

#[test]
fn the_file_ends_with_its_object_and_is_not_taken_for_a_later_ones() {
    let mut world = world(config());
    read(&mut world, 0);
    let file = world.store.objects.kept.iter().next().unwrap().1.file;
    // A reader pins it: its memory stays for a while, its file must not.
    let pin = world.pin(0);
    assert_eq!((world.delete(CLIENT, 0), world.state(0)), (None, Deleted));
    assert!(!world.tier.contains_key(&file) && world.store.directory().void.contains(&file));
    world.unpin(pin);
    world.create_and_seal(CLIENT, &Put::new(0, MIB)).unwrap();
    for number in 1..5 {
        read(&mut world, number);
    }
    assert_eq!((world.state(0), written(&world)), (Spilled, 6), "the new one is written itself");
}

#[test]
fn an_object_that_is_pinned_when_it_should_go_stays_with_its_file() {
    let mut world = world(config());
    for number in 0..5 {
        read(&mut world, number);
    }
    assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Spilled, Sealed, Sealed, Sealed, Sealed]);
    let before = written(&world);
    // Pinned by one that claimed it after the look that chose it.
    let asked = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    let mut effects = Vec::new();
    world.store.step(world.now_ms, Event::Request(CLIENT, 1 << 40, asked), &mut effects);
    assert!(world.store.has_work());
    let pin = world.pin(1);
    world.do_all(effects);
    world.event(Event::Tick);
    assert_eq!(world.states(&[0, 1, 2]), [Sealed, Sealed, Spilled]);
    world.unpin(pin);
    for number in 2..5 {
        read(&mut world, number);
    }
    assert_eq!(written(&world), before);
}

#[test]
fn an_object_deleted_while_it_leaves_is_gone_in_both_places() {
    let mut world = world(config());
    for number in 0..5 {
        read(&mut world, number);
    }
    let asked = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    let mut effects = Vec::new();
    world.store.step(world.now_ms, Event::Request(CLIENT, 1 << 40, asked), &mut effects);
    assert!(world.store.has_work());
    world.do_all(effects);
    assert_eq!(world.delete(CLIENT, 1), None);
    world.event(Event::Tick);
    world.store.check();
    assert_eq!((world.state(1), world.status().lingering), (Deleted, 0));
    assert!(!world.tier.values().any(|it| *it == id(1)));
}

#[test]
fn files_of_objects_in_memory_make_room_first_the_oldest() {
    let mut world = world(Config { spill_bytes_max: Some(3 * MIB), ..config() });
    for number in [0, 1, 2] {
        read(&mut world, number);
    }
    // 3 is spilled; 1 and 2 have files, that of 0 made room for the one of 3.
    assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Sealed, Sealed, Sealed, Spilled, Sealed]);
    let kept: Vec<_> = world.store.objects.kept.iter().map(|(_, kept)| kept.id).collect();
    assert_eq!(kept, [id(1), id(2)]);
    assert_eq!(world.status().spilled_bytes + world.status().spill_kept_bytes, 3 * MIB);
    // All of the budget goes to objects that have no other place.
    world.create_and_seal(CLIENT, &Put::new(5, 2 * MIB)).unwrap();
    let status = world.status();
    assert_eq!((status.spilled_bytes, status.spill_kept_bytes), (3 * MIB, 0));
}

/// The tier's disk is full before its budget is.
#[test]
fn a_tier_that_is_full_has_the_files_of_objects_in_memory_removed() {
    let mut world = world(config());
    read(&mut world, 0);
    assert_eq!(world.status().spill_kept_bytes, MIB);
    world.spill = None;
    let Put { id: new, sizes, traits, .. } = Put::new(5, MIB);
    let create = Request::Create { id: new, sizes, traits, strict: false };
    let number = world.send(CLIENT, create);
    world.settle(false);
    assert_eq!(world.status().spill_kept_bytes, 0);
    world.settle(true);
    assert!(matches!(world.answer_to(CLIENT, number), Some(Reply::Created(_))));
}

#[test]
fn composites_and_their_members_go_again_without_being_written() {
    let mut world = World::new(config());
    world.connect(1);
    world.put(CLIENT, Put::new(1, 10).owned()).unwrap();
    let attributes = Attributes { members: vec![id(1)], ..Attributes::default() };
    world.create_and_seal(CLIENT, &Put::new(2, 4 * MIB - 8192).with(attributes)).unwrap();
    world.create_and_seal(CLIENT, &Put::new(3, MIB)).unwrap();
    for _ in 0..5 {
        for number in [2, 1, 3] {
            read(&mut world, number);
        }
    }
    assert_eq!(written(&world), 3);
    assert_eq!(world.delete(CLIENT, 2), None);
    assert_eq!(world.states(&[1, 2]), [Deleted, Deleted]);
    assert!(world.tier.len() <= 1);
}

/// What is to be deleted after its last reader is known by its incarnation, which is another one in
/// the file.
#[test]
fn an_object_deleted_with_its_last_reader_is_removed_from_its_file_too() {
    let mut world = world(config());
    for number in 0..5 {
        read(&mut world, number);
    }
    let pin = world.pin(1);
    let request = Request::DeleteUnused { ids: vec![id(1)] };
    assert_eq!(world.ask(CLIENT, request), Reply::Outcomes(vec![None]));
    assert_eq!(world.state(1), Sealed);
    world.unpin(pin);
    let wait = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    world.send(CLIENT, wait);
    world.pass(1000);
    assert_eq!(world.state(1), Deleted);
    assert!(!world.tier.values().any(|it| *it == id(1)));
}
