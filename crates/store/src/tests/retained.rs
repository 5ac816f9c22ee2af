//! Memory that was dropped and that processes have mapped still.
//!
//! A reader got one object of a strict store, released it and slept. The object was deleted and its
//! memory counted as free, was given out again, and stayed in the sleeping reader: a store with a
//! capacity of 600 MB took 2,302 MB of the machine and said that it used none.

use plasmon_proto::Code;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Level;

use super::{Put, World};
use crate::event::{ClientNo, Event};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

const CLIENT: ClientNo = ClientNo(1);

/// A store of 16 MiB with an object of 12 MiB that a process has mapped.
fn with_a_mapped_object(config: Config) -> (World, ExtentId) {
    let mut world = World::new(config);
    world.connect(CLIENT.0);
    world.release = None;
    world.create_and_seal(CLIENT, &Put::new(1, 12 * MIB)).unwrap();
    let extent = world.store.space.memory.iter().next().unwrap().id;
    (world, extent)
}

fn strict() -> Config {
    Config { level: Level::Strict, ..Config::new(16 * MIB) }
}

fn retained(world: &World) -> (u64, u64) {
    let status = world.status();
    (status.used_bytes, status.retained_bytes)
}

/// The answers to requests to create an object since the last call.
fn answers(world: &mut World) -> Vec<Result<(), (Code, String)>> {
    let effects = std::mem::take(&mut world.effects);
    let answer = |effect| match effect {
        Effect::Created(..) => Some(Ok(())),
        Effect::Reply(_, _, Reply::Failed(failure)) => Some(Err((failure.code, failure.detail))),
        _ => None,
    };
    effects.into_iter().filter_map(answer).collect()
}

fn ask_for(world: &mut World, number: u64, bytes: u64) {
    let Put { id, sizes, traits, .. } = Put::new(number, bytes);
    world.effects.clear();
    world.event(Event::Request(
        CLIENT,
        number,
        Request::Create { id, sizes, traits, strict: true },
    ));
}

#[test]
fn what_was_dropped_is_charged_until_it_is_let_go() {
    let (mut world, extent) = with_a_mapped_object(strict());
    world.delete(CLIENT, 1);
    assert!(world.effects.contains(&Effect::Drop(extent)));
    assert_eq!(retained(&world), (0, 12 * MIB));
    // What fits beside it is given at once, what does not waits for a moment.
    ask_for(&mut world, 2, 2 * MIB);
    assert_eq!(answers(&mut world), [Ok(())]);
    ask_for(&mut world, 3, 8 * MIB);
    assert_eq!(answers(&mut world), []);
    world.settle(true);
    assert_eq!(answers(&mut world), [Ok(())]);
    assert_eq!(retained(&world), (10 * MIB, 0));
}

#[test]
fn what_is_not_let_go_is_charged_and_no_longer_waited_for() {
    let (mut world, extent) = with_a_mapped_object(strict());
    world.delete(CLIENT, 1);
    ask_for(&mut world, 3, 8 * MIB);
    assert_eq!(answers(&mut world), []);
    world.settle(false);
    let refused = answers(&mut world);
    let [Err((Code::StoreFull, detail))] = &refused[..] else { panic!("{refused:?}") };
    assert!(detail.contains("12582912 bytes") && detail.contains("mapped"), "{detail}");
    ask_for(&mut world, 4, 8 * MIB);
    assert!(matches!(answers(&mut world)[..], [Err((Code::StoreFull, _))]));
    assert_eq!(retained(&world), (0, 12 * MIB));
    world.event(Event::Released(extent));
    assert_eq!(retained(&world), (0, 0));
    ask_for(&mut world, 5, 8 * MIB);
    assert_eq!(answers(&mut world), [Ok(())]);
}

#[test]
fn nothing_is_evicted_for_memory_that_is_on_its_way() {
    let (mut world, _) = with_a_mapped_object(strict());
    world.delete(CLIENT, 1);
    world.create_and_seal(CLIENT, &Put::new(2, MIB).cache()).unwrap();
    ask_for(&mut world, 3, 12 * MIB);
    assert_eq!(answers(&mut world), [], "it waits");
    world.settle(true);
    assert_eq!(answers(&mut world), [Ok(())]);
    assert!(world.state(2).is_readable(), "there was room for both");
}

#[test]
fn memory_that_the_daemon_can_take_away_is_not_waited_for() {
    let (mut world, _) = with_a_mapped_object(Config::new(16 * MIB));
    world.delete(CLIENT, 1);
    assert_eq!(retained(&world), (0, 0));
    // But if it could not, because a client was in the way, it is charged.
    let extent = ExtentId::new(1000, 1 << 40);
    world.event(Event::Retained(extent, 15 * MIB));
    assert_eq!(retained(&world), (0, 15 * MIB));
    let wanted = Put::new(7, 8 * MIB);
    assert_eq!(world.create(CLIENT, &wanted).map(drop).unwrap_err().code, Code::StoreFull);
    world.event(Event::Released(extent));
    world.event(Event::Released(extent));
    world.create(CLIENT, &wanted).unwrap();
}

#[test]
fn extents_that_were_never_made_leave_nothing_behind() {
    let mut world = World::new(strict());
    world.connect(CLIENT.0);
    (world.reserve, world.release) = (Some(false), None);
    ask_for(&mut world, 1, MIB);
    assert!(matches!(answers(&mut world)[..], [Err((Code::StoreFull, _))]));
    assert_eq!((retained(&world), world.open.len()), ((0, 0), 0));
}
