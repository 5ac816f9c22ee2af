//! Records of the log that were found damaged: what is in memory is written again, what is in the
//! log alone is read, and nothing ends.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::status::LogFigures;
use plasmon_proto::{ObjectId, ObjectState};

use super::{Put, World, id};
use crate::event::{ClientNo, Event, Lsn};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

fn world() -> World {
    World::new(Config { durable: true, ..Config::new(MIB) })
}

fn lsn_of(world: &World, id: &ObjectId) -> Lsn {
    world.log.get(id).unwrap().0
}

fn damage(world: &mut World, number: u64) {
    let lsn = lsn_of(world, &id(number));
    world.event(Event::LogDamaged(id(number), lsn));
}

fn figures(world: &mut World) -> LogFigures {
    world.status().log.unwrap()
}

fn put(world: &mut World, client: ClientNo, number: u64) {
    world.create_and_seal(client, &Put::new(number, 1000).durable()).unwrap();
}

/// Has an object leave the memory for the log.
fn drive_out(world: &mut World, client: ClientNo, number: u64) {
    let mut other = 1000;
    while world.state(number) != ObjectState::Spilled {
        other += 1;
        world.create_and_seal(client, &Put::new(other, 200_000).durable()).unwrap();
    }
}

#[test]
fn what_is_in_memory_is_written_again() {
    let mut world = world();
    let client = world.connect(1);
    put(&mut world, client, 1);
    let before = lsn_of(&world, &id(1));
    world.logs = None;
    damage(&mut world, 1);
    damage(&mut world, 1);
    assert_eq!(world.open.len(), 1, "it is written once");
    let Effect::Relog(_, damaged, order) = &world.open[0].1 else { panic!("it is written") };
    assert_eq!((*damaged, order.id), (before, id(1)));
    assert!(order.attributes.durable);
    assert_eq!(world.state(1), ObjectState::Sealed);
    world.settle(true);
    assert!(lsn_of(&world, &id(1)) > before);
    let found = figures(&mut world);
    assert_eq!((found.repaired_total, found.corrupt, found.waiting), (1, 0, 0));
    // What was said of the record before is not about this one.
    world.event(Event::LogDamaged(id(1), before));
    assert!(world.open.is_empty());
    world.logs = Some(true);
    assert_eq!(
        world.ask(client, Request::Delete { ids: vec![id(1)] }),
        Reply::Outcomes(vec![None])
    );
    assert!(world.log.is_empty());
}

#[test]
fn what_ends_while_it_is_written_again_ends_in_the_log_too() {
    for done in [true, false] {
        let mut world = world();
        let client = world.connect(1);
        put(&mut world, client, 1);
        world.logs = None;
        damage(&mut world, 1);
        let deleting = world.send(client, Request::Delete { ids: vec![id(1)] });
        assert_eq!(world.open.len(), 2);
        world.settle(done);
        world.settle(true);
        while !world.open.is_empty() {
            world.settle(true);
        }
        let answer = world.answer_to(client, deleting);
        assert_eq!(answer, Some(Reply::Outcomes(vec![None])));
        assert!(world.log.is_empty(), "{done}");
        world.pass(60_000);
        assert_eq!(world.status().used_bytes, 0);
    }
}

#[test]
fn memory_that_is_not_what_was_put_is_not_written() {
    let mut world = world();
    let client = world.connect(1);
    put(&mut world, client, 1);
    let before = lsn_of(&world, &id(1));
    world.logs = Some(false);
    damage(&mut world, 1);
    let found = figures(&mut world);
    assert_eq!((found.damaged_total, found.repaired_total), (1, 0));
    assert_eq!(found.fault, "", "the log works");
    assert_eq!((lsn_of(&world, &id(1)), world.state(1)), (before, ObjectState::Sealed));
    world.logs = Some(true);
    put(&mut world, client, 2);
}

/// What can be read still is lost with the next opening of the log: so it is written again.
#[test]
fn what_is_in_the_log_alone_is_read_and_written_again_if_it_can_be_read() {
    let mut world = world();
    let client = world.connect(1);
    put(&mut world, client, 1);
    drive_out(&mut world, client, 1);
    let before = lsn_of(&world, &id(1));
    damage(&mut world, 1);
    assert!(lsn_of(&world, &id(1)) > before);
    assert_eq!(world.state(1), ObjectState::Sealed);
    let found = figures(&mut world);
    assert_eq!((found.damaged_total, found.repaired_total, found.corrupt), (1, 1, 0));
}

#[test]
fn what_cannot_be_read_stays_and_is_counted_until_it_is_deleted() {
    let mut world = world();
    let client = world.connect(1);
    put(&mut world, client, 1);
    drive_out(&mut world, client, 1);
    world.logs = Some(false);
    for _ in 0..3 {
        damage(&mut world, 1);
        assert_eq!(world.state(1), ObjectState::Corrupt);
        let found = figures(&mut world);
        assert_eq!((found.damaged_total, found.repaired_total, found.corrupt), (1, 0, 1));
    }
    world.logs = Some(true);
    assert!(world.log.get(&id(1)).is_some(), "it was not given up");
    assert_eq!(
        world.ask(client, Request::Delete { ids: vec![id(1)] }),
        Reply::Outcomes(vec![None])
    );
    assert!(world.log.get(&id(1)).is_none());
    assert_eq!(figures(&mut world).corrupt, 0);
}
