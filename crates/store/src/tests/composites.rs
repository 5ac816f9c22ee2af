//! Composite objects and their members.

use plasmon_proto::message::Request;
use plasmon_proto::{Attributes, Code, ObjectState};

use super::{Put, World, id};

const MIB: u64 = 1 << 20;

use ObjectState::{Absent, Deleted, Evicted, Sealed};

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
    // Object 3 is owned by nobody but its creator: it is just not held any more.
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

#[test]
fn members_must_be_there() {
    let mut world = world();
    world.submit(CLIENT, plasmon_proto::ring::Submission::Announce { id: id(5) }).unwrap();
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
