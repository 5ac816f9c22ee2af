//! Composite objects and their members.

use plasmon_proto::message::Request;
use plasmon_proto::ring::{self, Submission};
use plasmon_proto::{Attributes, Code, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::event::Event;

const MIB: u64 = 1 << 20;

use ObjectState::{Absent, Deleted, Evicted, Sealed, Spilled};

fn world() -> World {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in [1, 2] {
        world.put(client, Put::new(number, 100).cache().owned()).unwrap();
    }
    world.put(client, Put::new(3, 100).cache()).unwrap();
    world
}

const CLIENT: crate::event::ClientNo = crate::event::ClientNo(1);

#[test]
fn members_are_held_and_owned_ones_go_with_the_last_composite() {
    let mut world = world();
    world.put(CLIENT, Put::new(10, 0).of(&[1, 3, 1])).unwrap();
    let second = Put::new(11, 0).of(&[1, 2]);
    world.create_and_seal(CLIENT, &second).unwrap();
    assert_eq!(world.store.stat(&id(1)).unwrap().holders, 3);
    for number in [1, 2, 3] {
        assert_eq!(world.delete(CLIENT, number), Some(Code::InUse));
    }
    assert_eq!(world.evict(CLIENT, 1), (0, 0));
    assert_eq!(world.delete(CLIENT, 10), None);
    assert_eq!(world.states(&[1, 2, 3]), [Sealed; 3]);
    // Object 3 has no owner but its creator: it is just not held any more.
    assert_eq!(world.evict(CLIENT, 1), (100, 1));
    assert_eq!(world.delete(CLIENT, 11), None);
    assert_eq!(world.states(&[1, 2, 3]), [Deleted, Deleted, Evicted]);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn a_pinned_composite_keeps_its_members_after_its_delete() {
    let mut world = world();
    world.put(CLIENT, Put::new(10, 0).of(&[1, 3])).unwrap();
    let serial = world.pin(10);
    assert_eq!(world.delete(CLIENT, 10), None);
    assert_eq!(world.delete(CLIENT, 1), Some(Code::InUse));
    world.pass(20);
    assert_eq!(world.states(&[10, 1, 3]), [Deleted, Sealed, Sealed]);
    world.unpin(serial);
    world.pass(20);
    assert_eq!(world.states(&[10, 1, 3]), [Deleted, Deleted, Sealed]);
}

/// The first incarnation of an id was freed when its last reader let it go, and took the second
/// one off the list of objects deleted with their creator: it stayed forever.
#[test]
fn an_owned_object_is_deleted_with_its_creator_whatever_had_its_id_before() {
    let mut world = World::with_capacity(16 * MIB);
    let reader = world.connect(1);
    let creator = world.connect(2);
    world.put(creator, Put::new(5, 100).owned()).unwrap();
    let serial = world.pin(5);
    assert_eq!(world.delete(creator, 5), None);
    world.put(creator, Put::new(5, 100).owned()).unwrap();
    world.unpin(serial);
    world.pass(20);
    assert_eq!(world.state(5), Sealed);
    world.disconnect(creator);
    world.pass(20);
    assert_eq!(world.state(5), Deleted);
    assert_eq!(world.status().used_bytes, 0);
    world.disconnect(reader);
}

/// What a client had put into no composite was deleted after it by its ids, a piece at a time. An
/// owned object that another client had put under such an id between two pieces was deleted, too.
#[test]
fn an_owned_object_stays_when_the_creator_of_an_earlier_one_of_its_id_is_gone() {
    let mut world = World::with_capacity(16 * MIB);
    let (other, creator) = (world.connect(1), world.connect(2));
    world.put(creator, Put::new(5, 100).owned()).unwrap();
    // What it was creating is the first piece, which the event does itself.
    world.submit(creator, Submission::Announce { id: id(6) }).unwrap();
    let later = Put::new(5, 200).owned();
    let range = world.lease(other, later.sizes.footprint().unwrap()).unwrap().range;
    let (Put { id, sizes, traits, .. }, placement) = (later, range.placement());
    let put = Submission::Put(ring::Put { id, placement, sizes, traits });
    for event in [
        Event::Disconnect(creator),
        Event::Submit(other, 100, Submission::Delete { id }, None),
        Event::Submit(other, 101, put, Some(Attributes::default())),
    ] {
        world.store.step(world.now_ms, event, &mut world.effects);
    }
    assert!(world.store.has_work(), "the creator's other objects are the next piece");
    world.pass(20);
    let found = world.store.stat(&id).map(|found| (found.state, found.sizes));
    assert_eq!(found, Some((Sealed, sizes)));
    // It is deleted with its own creator.
    world.disconnect(other);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn members_must_be_there() {
    let mut world = world();
    world.submit(CLIENT, Submission::Announce { id: id(5) }).unwrap();
    for (number, state) in [(5, ObjectState::Creating), (6, Absent), (20, Absent)] {
        assert_eq!(world.state(number), state);
        let put = Put::new(20, 0).of(&[1, number]);
        assert_eq!(world.put(CLIENT, put.clone()), Err(Code::Absent));
        world.create(CLIENT, &put).unwrap();
        assert_eq!(world.seal(CLIENT, &put), Err(Code::Absent));
        assert_eq!(
            world.ask(CLIENT, Request::Abort { id: id(20) }),
            plasmon_proto::message::Reply::Done
        );
    }
    assert_eq!(world.store.stat(&id(1)).unwrap().holders, 0);
}

#[test]
fn composites_of_composites_come_apart_from_the_top() {
    let mut world = world();
    world.put(CLIENT, Put::new(10, 0).owned().of(&[1, 2])).unwrap();
    world.put(CLIENT, Put::new(11, 0).owned().of(&[10])).unwrap();
    world.put(CLIENT, Put::new(12, 0).cache().of(&[11])).unwrap();
    assert_eq!(world.delete(CLIENT, 10), Some(Code::InUse));
    // Evicting the top is as good as deleting it.
    let (_, objects) = world.evict(CLIENT, u64::MAX);
    assert_eq!(objects, 2);
    assert_eq!(
        world.states(&[12, 11, 10, 1, 2, 3]),
        [Evicted, Deleted, Deleted, Deleted, Deleted, Evicted]
    );
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn a_member_whose_time_is_over_stays_until_it_is_let_go() {
    let mut world = world();
    let client = CLIENT;
    let ttl = Attributes { ttl_ms: Some(10), ..Attributes::default() };
    world.put(client, Put::new(5, 100).with(ttl)).unwrap();
    world.put(client, Put::new(10, 0).of(&[5])).unwrap();
    world.pass(50);
    assert_eq!(world.state(5), Sealed);
    assert_eq!(world.delete(client, 10), None);
    assert_eq!(world.state(5), Deleted);
}

/// A store for spilling, with a table of two buffers (1, 2) and a group in it (3, of 4).
fn table() -> World {
    let mut world = World::new(Config { spill_bytes_max: Some(64 * MIB), ..Config::new(16 * MIB) });
    world.connect(1);
    for number in [1, 2, 4] {
        world.create_and_seal(CLIENT, &Put::new(number, 4 * MIB).owned()).unwrap();
    }
    world.put(CLIENT, Put::new(3, 0).owned().of(&[4])).unwrap();
    world.put(CLIENT, Put::new(10, 100).of(&[1, 2, 3])).unwrap();
    world
}

/// Takes memory that is not there.
fn press(world: &mut World, number: u64) -> Result<(), Code> {
    world.create_and_seal(CLIENT, &Put::new(number, 10 * MIB))
}

#[test]
fn a_composite_is_spilled_with_its_members_and_comes_back() {
    let mut world = table();
    press(&mut world, 20).unwrap();
    assert_eq!(world.states(&[10, 20]), [Spilled, Sealed]);
    let left = [1, 2, 3, 4].iter().filter(|number| world.state(**number) == Sealed).count();
    assert!(left <= 2, "members give their memory up as well");
    assert_eq!(world.delete(CLIENT, 1), Some(Code::InUse), "it is held all the same");
    // Read again: the composite first, then what it names.
    world.delete(CLIENT, 20);
    let ids = [10, 1, 2, 3, 4].map(id).to_vec();
    for id in &ids {
        let (ids, timeout_ms) = (vec![*id], Some(1000));
        world.ask(CLIENT, Request::Wait { ids, count: 1, timeout_ms, beyond_end: false });
    }
    assert_eq!(world.states(&[10, 1, 2, 3, 4]), [Sealed; 5]);
    assert_eq!(world.delete(CLIENT, 10), None);
    assert_eq!(world.states(&[1, 2, 3, 4]), [Deleted; 4]);
    assert_eq!((world.status().used_bytes, world.tier.len()), (0, 0));
}

#[test]
fn a_composite_that_is_pinned_keeps_its_members_in_memory() {
    let mut world = table();
    let serial = world.pin(10);
    assert_eq!(press(&mut world, 20), Err(Code::StoreFull));
    assert_eq!(world.states(&[10, 1, 2, 3, 4]), [Sealed; 5]);
    world.unpin(serial);
    press(&mut world, 20).unwrap();
    assert_eq!(world.state(10), Spilled);
}

/// It was chosen, written, and pinned before it was hidden: then its members stay where they are.
#[test]
fn a_composite_that_is_pinned_while_it_is_written_stays_with_its_members() {
    let mut world = table();
    world.spill = None;
    let request = Put::new(20, 10 * MIB);
    let (id, sizes, traits) = (request.id, request.sizes, request.traits);
    world.send(CLIENT, Request::Create { id, sizes, traits, strict: false });
    let serial = world.pin(10);
    while !world.open.is_empty() {
        world.settle(true);
    }
    assert_eq!(world.states(&[10, 1, 2, 3, 4]), [Sealed; 5]);
    assert!(world.tier.is_empty());
    world.unpin(serial);
}

#[test]
fn a_member_of_two_composites_stays_while_one_of_them_is_used() {
    let mut world = table();
    world.put(CLIENT, Put::new(11, 100).of(&[1])).unwrap();
    let serial = world.pin(11);
    assert_eq!(press(&mut world, 20), Ok(()));
    assert_eq!(world.states(&[10, 11, 1]), [Spilled, Sealed, Sealed]);
    world.unpin(serial);
    assert_eq!(world.delete(CLIENT, 10), None);
    assert_eq!(world.states(&[11, 1, 2, 4]), [Sealed, Sealed, Deleted, Deleted]);
}

#[test]
fn members_that_may_be_dropped_are_not_while_their_composite_is_spilled() {
    let mut world = World::new(Config { spill_bytes_max: Some(64 * MIB), ..Config::new(16 * MIB) });
    world.connect(1);
    world.create_and_seal(CLIENT, &Put::new(1, 4 * MIB).cache()).unwrap();
    world.create_and_seal(CLIENT, &Put::new(2, 4 * MIB)).unwrap();
    world.put(CLIENT, Put::new(10, 100).of(&[1, 2])).unwrap();
    press(&mut world, 20).unwrap();
    assert_eq!(world.states(&[10, 1, 2, 20]), [Spilled, Sealed, Spilled, Sealed]);
    assert_eq!(world.evict(CLIENT, u64::MAX), (0, 0));
    assert_eq!(world.delete(CLIENT, 10), None);
    assert_eq!(world.evict(CLIENT, u64::MAX), (4 * MIB, 1));
}
