//! Objects that are sealed in the place of others.

use plasmon_proto::message::{Filter, Reply, Request};
use plasmon_proto::{Attributes, Code, Name, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::event::ClientNo;

const MIB: u64 = 1 << 20;
const CLIENT: ClientNo = ClientNo(1);

use ObjectState::{Absent, Creating, Deleted, Sealed, Spilled};

fn replace(world: &mut World, made: &Put, target: u64) -> Result<(), Code> {
    world.seal_as(CLIENT, made, id(target)).map_err(|failure| {
        assert_eq!(failure.id, Some(id(target)), "the failure names what the caller knows");
        failure.code
    })
}

/// A store with object 1, and a client that creates object 2.
fn world() -> (World, Put) {
    let mut world = World::with_capacity(16 * MIB);
    world.connect(1);
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    let made = Put::new(2, 5000);
    world.create(CLIENT, &made).unwrap();
    (world, made)
}

#[test]
fn the_new_object_is_there_and_the_old_one_has_ended_in_one_step() {
    let (mut world, made) = world();
    let watcher = world.connect(2);
    world.ask(watcher, Request::Subscribe { filter: Filter::default() });
    replace(&mut world, &made, 1).unwrap();
    assert_eq!(world.states(&[1, 2]), [Sealed, Absent]);
    assert_eq!(world.stat(CLIENT, 1).unwrap().sizes.data, 5000);
    assert_eq!(world.notices(watcher), [(id(1), Deleted), (id(1), Sealed)]);
    let status = world.status();
    assert_eq!((status.objects, status.creating, status.lingering), (1, 0, 0));
    assert_eq!(world.store.directory().leaving, None);
    // No client asks for it by the id that it was made with.
    world.put(CLIENT, Put::new(2, 10)).unwrap();
}

#[test]
fn without_an_old_one_it_is_a_seal() {
    let (mut world, made) = world();
    assert_eq!(world.delete(CLIENT, 1), None);
    replace(&mut world, &made, 1).unwrap();
    assert_eq!(world.states(&[1, 2]), [Sealed, Absent]);
    let again = Put::new(3, 10);
    world.create(CLIENT, &again).unwrap();
    replace(&mut world, &again, 3).unwrap();
    assert_eq!(world.state(3), Sealed);
}

#[test]
fn readers_of_the_old_one_keep_it() {
    let (mut world, made) = world();
    let pin = world.pin(1);
    replace(&mut world, &made, 1).unwrap();
    assert_eq!((world.status().objects, world.status().lingering), (1, 1));
    world.unpin(pin);
    world.pass(1000);
    assert_eq!(world.status().lingering, 0);
}

#[test]
fn what_is_refused_leaves_both_as_they_were() {
    let (mut world, made) = world();
    let holder = made.clone().of(&[1]);
    assert_eq!(replace(&mut world, &holder, 1), Err(Code::BadRequest));
    world.create(CLIENT, &Put::new(3, 10)).unwrap();
    assert_eq!(replace(&mut world, &made, 3), Err(Code::Exists));
    world.put(CLIENT, Put::new(4, 0).of(&[1])).unwrap();
    assert_eq!(replace(&mut world, &made, 1), Err(Code::InUse));
    assert_eq!(world.states(&[1, 2, 3]), [Sealed, Creating, Creating]);
    world.seal(CLIENT, &made).unwrap();
    assert_eq!(world.state(2), Sealed);
}

#[test]
fn the_old_one_stays_when_the_creator_dies() {
    let (mut world, _made) = world();
    world.disconnect(CLIENT);
    assert_eq!(world.states(&[1, 2]), [Sealed, ObjectState::CreatorDied]);
}

#[test]
fn members_that_both_hold_stay_and_those_of_the_old_one_alone_go() {
    let mut world = World::with_capacity(16 * MIB);
    world.connect(1);
    for number in [5, 6, 7] {
        world.put(CLIENT, Put::new(number, 100).owned()).unwrap();
    }
    world.put(CLIENT, Put::new(1, 0).of(&[5, 6])).unwrap();
    let made = Put::new(2, 0).of(&[6, 7]);
    world.create(CLIENT, &made).unwrap();
    replace(&mut world, &made, 1).unwrap();
    world.pass(1000);
    assert_eq!(world.states(&[1, 5, 6, 7]), [Sealed, Deleted, Sealed, Sealed]);
}

#[test]
fn a_spilled_object_is_replaced_and_its_waiters_get_the_new_one() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) });
    world.connect(1);
    let made = Put::new(9, 100);
    world.create(CLIENT, &made).unwrap();
    for number in 0..4 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    assert_eq!(world.state(0), Spilled);
    world.restore = None;
    let wait = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    let waiter = world.send(CLIENT, wait);
    replace(&mut world, &made, 0).unwrap();
    assert_eq!(world.answer_to(CLIENT, waiter), Some(Reply::States(vec![Sealed])));
    assert_eq!(world.stat(CLIENT, 0).unwrap().sizes.data, 100);
    while !world.open.is_empty() {
        world.settle(true);
    }
    assert_eq!(world.state(0), Sealed);
    assert!(!world.tier.values().any(|object| *object == id(0)), "its file is gone");
}

#[test]
fn of_an_adopted_namespace_only_the_difference_counts() {
    let mut world = World::with_capacity(16 * MIB);
    world.connect(1);
    let adopt = Request::Adopt { namespace: "app".to_owned(), bytes_max: 1000 };
    assert_eq!(world.ask(CLIENT, adopt), Reply::Done);
    let named = |number, bytes| {
        let name = Name::new("app", "table").ok();
        Put::new(number, bytes).with(Attributes { name, ..Attributes::default() })
    };
    world.put(CLIENT, named(1, 600)).unwrap();
    let made = named(2, 900);
    world.create(CLIENT, &made).unwrap();
    replace(&mut world, &made, 1).unwrap();
    let other = named(3, 200);
    world.create(CLIENT, &other).unwrap();
    assert_eq!(world.seal(CLIENT, &other), Err(Code::QuotaExceeded));
    world.disconnect(CLIENT);
    assert_eq!(world.state(1), Deleted);
}
