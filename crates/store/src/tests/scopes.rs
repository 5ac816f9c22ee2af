//! Objects that go with their maker unless it publishes them.

use plasmon_proto::limits::{REQUEST_IDS_MAX, SCOPE_IDS_MAX};
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Attributes, Code, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::event::{ClientNo, Event};

const MIB: u64 = 1 << 20;

use ObjectState::{Absent, Deleted, Sealed, Spilled};

fn done(world: &mut World, client: ClientNo, request: Request) -> Result<(), Code> {
    match world.ask(client, request) {
        Reply::Done => Ok(()),
        Reply::Failed(failure) => Err(failure.code),
        other => panic!("{other:?} is no answer about a scope"),
    }
}

fn scope(world: &mut World, client: ClientNo, number: u64, numbers: &[u64]) -> Result<(), Code> {
    let ids = numbers.iter().map(|number| id(*number)).collect();
    done(world, client, Request::Scope { scope: number, ids, again: false })
}

fn end(world: &mut World, client: ClientNo, scope: u64, publish: bool) -> Result<(), Code> {
    done(world, client, Request::EndScope { scope, publish })
}

#[test]
fn unpublished_objects_are_deleted_with_their_maker() {
    let mut world = World::with_capacity(64 * MIB);
    let (maker, other) = (world.connect(1), world.connect(2));
    scope(&mut world, maker, 7, &[1, 2, 3, 4]).unwrap();
    world.put(maker, Put::new(1, 1000)).unwrap();
    world.create_and_seal(maker, &Put::new(2, MIB)).unwrap();
    // Made by another client, and beside the scope.
    world.put(other, Put::new(3, 1000)).unwrap();
    world.put(maker, Put::new(5, 1000)).unwrap();
    assert_eq!(world.states(&[1, 2, 3, 4, 5]), [Sealed, Sealed, Sealed, Absent, Sealed]);
    world.disconnect(maker);
    assert_eq!(world.states(&[1, 2, 3, 4, 5]), [Deleted, Deleted, Sealed, Absent, Sealed]);
}

#[test]
fn published_objects_stay_together() {
    let mut world = World::with_capacity(64 * MIB);
    let maker = world.connect(1);
    scope(&mut world, maker, 7, &[1, 2]).unwrap();
    scope(&mut world, maker, 8, &[3]).unwrap();
    for number in 1..=3 {
        world.put(maker, Put::new(number, 1000)).unwrap();
    }
    end(&mut world, maker, 7, true).unwrap();
    assert_eq!(end(&mut world, maker, 7, true), Err(Code::Absent), "it ended");
    world.disconnect(maker);
    assert_eq!(world.states(&[1, 2, 3]), [Sealed, Sealed, Deleted]);
}

#[test]
fn a_scope_that_is_given_up_takes_its_objects_along_also_from_the_tier() {
    let config = Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) };
    let mut world = World::new(config);
    let (maker, other) = (world.connect(1), world.connect(2));
    scope(&mut world, maker, 1, &[0, 1, 2, 3, 4, 5]).unwrap();
    for number in 0..5 {
        world.create_and_seal(maker, &Put::new(number, MIB)).unwrap();
    }
    world.create_and_seal(other, &Put::new(5, MIB)).unwrap();
    assert_eq!(world.state(0), Spilled);
    end(&mut world, maker, 1, false).unwrap();
    assert_eq!(
        world.states(&[0, 1, 2, 3, 4, 5]),
        [Deleted, Deleted, Deleted, Deleted, Deleted, Sealed]
    );
}

#[test]
fn a_client_that_is_away_keeps_its_scope_and_one_that_is_gone_does_not() {
    let mut world = World::with_capacity(64 * MIB);
    let maker = world.connect(1);
    scope(&mut world, maker, 1, &[1]).unwrap();
    world.put(maker, Put::new(1, 1000)).unwrap();
    assert!(world.store.is_lent_to(maker), "it is not taken for gone");
    end(&mut world, maker, 1, true).unwrap();
    world.disconnect(maker);
    assert_eq!(world.state(1), Sealed);
}

#[test]
fn a_session_that_was_left_behind_lets_go_of_what_its_successor_publishes() {
    let mut world = World::with_capacity(64 * MIB);
    let (left, now) = (world.connect(1), world.connect(1));
    scope(&mut world, left, 1, &[1, 2]).unwrap();
    world.put(left, Put::new(1, 1000)).unwrap();
    let ids = vec![id(1), id(2)];
    done(&mut world, now, Request::Scope { scope: 1, ids, again: true }).unwrap();
    world.put(now, Put::new(2, 1000)).unwrap();
    end(&mut world, now, 1, true).unwrap();
    world.disconnect(now);
    world.disconnect(left);
    assert_eq!(world.states(&[1, 2]), [Sealed; 2]);
}

#[test]
fn what_a_composite_holds_stays() {
    let mut world = World::with_capacity(64 * MIB);
    let maker = world.connect(1);
    scope(&mut world, maker, 1, &[1]).unwrap();
    world.put(maker, Put::new(1, 1000)).unwrap();
    let members = vec![id(1)];
    let whole = Put::new(2, 10).with(Attributes { members, ..Attributes::default() });
    world.put(maker, whole).unwrap();
    world.disconnect(maker);
    assert_eq!(world.states(&[1, 2]), [Sealed; 2]);
}

#[test]
fn scopes_are_limited() {
    let mut world = World::with_capacity(64 * MIB);
    let maker = world.connect(1);
    for piece in 0..(SCOPE_IDS_MAX / REQUEST_IDS_MAX) as u64 {
        let numbers: Vec<u64> = (0..REQUEST_IDS_MAX as u64).map(|at| piece << 20 | at).collect();
        scope(&mut world, maker, piece % 2, &numbers).unwrap();
    }
    assert_eq!(scope(&mut world, maker, 3, &[9 << 20]), Err(Code::LimitReached));
    // An id that is in the scope already is no further one.
    scope(&mut world, maker, 0, &[0, 1, 1]).unwrap();
    assert_eq!(scope(&mut world, maker, 1, &[0]), Err(Code::LimitReached));
    end(&mut world, maker, 0, true).unwrap();
    scope(&mut world, maker, 3, &[9 << 20]).unwrap();
}

/// A scope of many ids was given up before all of its objects were made. What its maker made under
/// one of the ids then was deleted with the rest of the scope.
#[test]
fn what_is_made_after_a_scope_ended_is_not_deleted_with_it() {
    let mut world = World::with_capacity(64 * MIB);
    let maker = world.connect(1);
    let last = REQUEST_IDS_MAX as u64 - 1;
    scope(&mut world, maker, 1, &(0..=last).collect::<Vec<_>>()).unwrap();
    for number in 1..last {
        world.put(maker, Put::new(number, 1)).unwrap();
    }
    let end = Request::EndScope { scope: 1, publish: false };
    world.store.step(world.now_ms, Event::Request(maker, 1 << 40, end), &mut Vec::new());
    assert!(world.store.has_work(), "it goes in pieces");
    for number in [0, last] {
        world.put(maker, Put::new(number, 1)).unwrap();
    }
    assert_eq!(world.states(&[0, 1, last - 1, last]), [Sealed, Deleted, Deleted, Sealed]);
}
