//! Deletion of objects as soon as they have no readers.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Code, ObjectState, Policy};

use super::{Put, World, id};
use crate::Config;
use crate::deletes::RETRY_MS_MAX;
use crate::event::{ClientNo, Event};

const MIB: u64 = 1 << 20;
const CLIENT: ClientNo = ClientNo(1);

use ObjectState::{Absent, Creating, Deleted, Sealed, Spilled};

fn world() -> World {
    let mut world = World::with_capacity(4 * MIB);
    world.connect(1);
    world
}

fn delete_unused(world: &mut World, numbers: &[u64]) -> Vec<Option<Code>> {
    let ids = numbers.iter().map(|number| id(*number)).collect();
    match world.ask(CLIENT, Request::DeleteUnused { ids }) {
        Reply::Outcomes(outcomes) => outcomes,
        other => panic!("{other:?} is no answer to a delete"),
    }
}

#[test]
fn objects_without_readers_are_deleted_at_once_and_absent_ones_reported() {
    let mut world = world();
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    world.create(CLIENT, &Put::new(2, 100)).unwrap();
    let outcomes = delete_unused(&mut world, &[1, 2, 3, 1]);
    assert_eq!(outcomes, [None, Some(Code::NotSealed), Some(Code::Absent), None]);
    assert_eq!(world.states(&[1, 2, 3]), [Deleted, Creating, Absent]);
    assert_eq!(world.status().lingering, 0);
}

#[test]
fn what_is_read_stays_in_sight_until_it_is_not() {
    let mut world = world();
    let watcher = world.connect(2);
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    world.ask(watcher, Request::Subscribe { filter: Default::default() });
    let (first, second) = (world.pin(1), world.pin(1));
    assert_eq!(delete_unused(&mut world, &[1]), [None]);
    world.unpin(first);
    world.pass(1000);
    // It can still be read, listed and found, and its id is taken.
    assert_eq!(world.state(1), Sealed);
    assert_eq!(world.create(CLIENT, &Put::new(1, 100)).unwrap_err().code, Code::Exists);
    assert_eq!(world.notices(watcher), []);
    world.unpin(second);
    // Any question finds out; so does time.
    assert_eq!(
        world.ask(watcher, Request::States { ids: vec![id(1)] }),
        Reply::States(vec![Deleted])
    );
    assert_eq!(world.notices(watcher), [(id(1), Deleted)]);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn time_alone_finds_out() {
    let mut world = world();
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    let pin = world.pin(1);
    delete_unused(&mut world, &[1]);
    let due_ms = world.store.next_deadline().expect("the store wants to look again");
    world.unpin(pin);
    world.pass(due_ms - world.now_ms - 1);
    assert_eq!(world.state(1), Sealed);
    world.pass(1);
    assert_eq!(world.state(1), Deleted);
    assert_eq!(world.store.next_deadline(), None);
}

/// A question that found the last such object unread deleted it, and the next look stayed due: the
/// daemon woke without a pause until another object was to be deleted this way.
#[test]
fn nothing_is_due_after_a_question_deleted_the_last_one() {
    let questions: [fn() -> Request; 2] = [
        || Request::Stat { id: id(1) },
        || Request::List { filter: Default::default(), cursor: Default::default(), limit: 10 },
    ];
    for question in questions {
        let mut world = world();
        world.put(CLIENT, Put::new(1, 100)).unwrap();
        let pin = world.pin(1);
        delete_unused(&mut world, &[1]);
        world.unpin(pin);
        world.ask(CLIENT, question());
        assert_eq!(world.state(1), Deleted);
        world.pass(1000);
        assert_eq!(world.store.next_deadline(), None);
    }
}

/// A look for room found that a deleted object is pinned, and set no time to look again: when the
/// pin was gone, the object's memory was not free until something else was deleted.
#[test]
fn what_a_look_for_room_finds_pinned_is_looked_for_again() {
    let mut world = world();
    world.create_and_seal(CLIENT, &Put::new(1, 3 * MIB)).unwrap();
    let serial = world.put(CLIENT, Put::new(2, 100)).map(|_| world.pin(2)).unwrap();
    world.unpin(serial);
    let Put { id: large, sizes, traits, .. } = Put::new(3, 2 * MIB);
    let create = Request::Create { id: large, sizes, traits, strict: false };
    for (number, request) in [(900, Request::DeleteUnused { ids: vec![id(2)] }), (901, create)] {
        let event = Event::Request(CLIENT, number, request);
        world.store.step(world.now_ms, event, &mut world.effects);
        // A client read it just before it was hidden.
        world.store.directory_mut().pins.insert(serial, 1);
    }
    world.pass(0);
    assert_eq!((world.state(2), world.status().lingering), (Deleted, 1));
    world.unpin(serial);
    world.pass(RETRY_MS_MAX);
    assert_eq!(world.status().lingering, 0);
}

#[test]
fn another_object_of_the_same_id_is_not_meant() {
    let mut world = world();
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    let pin = world.pin(1);
    delete_unused(&mut world, &[1]);
    assert_eq!(world.delete(CLIENT, 1), None);
    world.put(CLIENT, Put::new(1, 200)).unwrap();
    world.unpin(pin);
    world.pass(1000);
    assert_eq!(world.state(1), Sealed);
}

#[test]
fn a_member_of_a_composite_is_in_use() {
    let mut world = world();
    world.put(CLIENT, Put::new(1, 100)).unwrap();
    world.put(CLIENT, Put::new(2, 100).of(&[1])).unwrap();
    assert_eq!(delete_unused(&mut world, &[1]), [Some(Code::InUse)]);
    assert_eq!(world.state(1), Sealed);
}

#[test]
fn spilled_objects_are_deleted_where_they_are() {
    let config = Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) };
    let mut world = World::new(config);
    world.connect(1);
    for number in 0..5 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    assert_eq!(world.state(0), Spilled);
    assert_eq!(delete_unused(&mut world, &[0]), [None]);
    assert_eq!(world.state(0), Deleted);
    assert!(world.tier.is_empty());
}

#[test]
fn an_object_that_is_spilled_while_its_delete_waits_goes() {
    let config = Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) };
    let mut world = World::new(config);
    world.connect(1);
    world.spill = None;
    for number in 0..4 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    // The store needs room and has object 0 written; meanwhile a client deletes it.
    world.send(
        CLIENT,
        Request::Create {
            id: id(9),
            sizes: super::sizes(MIB),
            traits: Default::default(),
            strict: false,
        },
    );
    assert_eq!(world.open.len(), 1);
    assert_eq!(delete_unused(&mut world, &[0]), [None]);
    world.settle(true);
    world.pass(1000);
    assert_eq!(world.state(0), Deleted);
    assert!(world.tier.is_empty());
    assert_eq!(world.state(9), Creating);
}

#[test]
fn cached_objects_are_spilled_instead_of_evicted_where_the_store_says_so() {
    let spilling =
        Config { spill_bytes_max: Some(u64::MAX), spill_cache: true, ..Config::new(4 * MIB) };
    for (config, state) in [
        (spilling, Spilled),
        (Config { spill_cache: false, ..spilling }, ObjectState::Evicted),
        (Config { spill_bytes_max: None, ..spilling }, ObjectState::Evicted),
    ] {
        let mut world = World::new(config);
        world.connect(1);
        for number in 0..5 {
            world.create_and_seal(CLIENT, &Put::new(number, MIB).cache()).unwrap();
        }
        assert_eq!(world.states(&[0, 1]), [state, Sealed]);
        // What is pinned is passed over; the bytes are those of the content.
        let pin = world.pin(1);
        assert_eq!(world.evict(CLIENT, MIB + 1), (2 * MIB, 2));
        assert_eq!(world.states(&[1, 2, 3, 4]), [Sealed, state, state, Sealed]);
        world.unpin(pin);
        assert_eq!(world.evict(CLIENT, u64::MAX), (2 * MIB, 2));
        assert_eq!(world.evict(CLIENT, u64::MAX), (0, 0));
    }
    // What is to be kept is not evicted on request.
    let mut world = World::new(spilling);
    world.connect(1);
    let put = Put::new(1, MIB);
    assert_eq!(put.traits.policy, Policy::Keep);
    world.create_and_seal(CLIENT, &put).unwrap();
    assert_eq!(world.evict(CLIENT, 1), (0, 0));
}

#[test]
fn a_page_of_a_listing_ends_where_its_objects_went() {
    // Objects that went while a page was made left room on it, so the same event looked through
    // all ledgers again, and again: a daemon with debug assertions ended over that.
    const OBJECTS: u64 = 1000;
    let mut world = World::with_capacity(64 * MIB);
    world.connect(1);
    for number in 0..OBJECTS {
        world.put(CLIENT, Put::new(number, 100)).unwrap();
    }
    let pins: Vec<u64> = (0..OBJECTS).map(|number| world.pin(number)).collect();
    for number in 0..OBJECTS {
        assert_eq!(delete_unused(&mut world, &[number]), [None]);
    }
    pins.into_iter().for_each(|pin| world.unpin(pin));
    let (mut cursor, mut found) = (Some(0), 0);
    while let Some(at) = cursor {
        let request = Request::List { filter: Default::default(), cursor: at, limit: 128 };
        let Reply::Page(page, next) = world.ask(CLIENT, request) else { panic!("no page") };
        found += page.len();
        cursor = next;
    }
    assert_eq!((found, world.status().objects), (0, 0));
}
