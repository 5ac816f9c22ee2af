//! Extents, warm memory, and how levels differ.

use plasmon_proto::Code;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::ring::Submission;

use super::{Put, World};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

fn warm(bytes: u64) -> Config {
    Config { warm_bytes_max: bytes, ..Config::new(bytes) }
}

#[test]
fn a_large_object_recycles_the_extent_of_the_one_before() {
    let mut world = World::new(warm(256 * MIB));
    let (one, two) = (world.connect(1), world.connect(2));
    let first = world.create(one, &Put::new(1, 100 * MIB)).unwrap();
    assert_eq!((first.warm, first.extent_bytes), (false, 100 * MIB));
    world.seal(one, &Put::new(1, 100 * MIB)).unwrap();
    world.delete(one, 1);
    assert_eq!(world.status().warm_bytes, 100 * MIB);
    // A ninth less fits, by another client too; half does not.
    let second = world.create(two, &Put::new(2, 90 * MIB)).unwrap();
    assert_eq!((second.warm, second.range.extent), (true, first.range.extent));
    world.seal(two, &Put::new(2, 90 * MIB)).unwrap();
    world.delete(one, 2);
    let third = world.create(two, &Put::new(3, 50 * MIB)).unwrap();
    assert!(!third.warm && third.range.extent != first.range.extent);
}

#[test]
fn warm_memory_is_given_back_before_it_would_exceed_the_capacity() {
    let mut world = World::new(warm(64 * MIB));
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 40 * MIB)).unwrap();
    world.delete(client, 1);
    world.create_and_seal(client, &Put::new(2, 20 * MIB)).unwrap();
    assert_eq!(world.status().warm_bytes, 40 * MIB);
    world.create_and_seal(client, &Put::new(3, 30 * MIB)).unwrap();
    assert_eq!(world.status().warm_bytes, 0);
    world.store.check_capacity();
}

#[test]
fn warm_memory_keeps_its_limit() {
    let mut world = World::new(Config { warm_bytes_max: 4 * MIB, ..Config::new(64 * MIB) });
    let client = world.connect(1);
    for number in 0..32 {
        world.put(client, Put::new(number, MIB / 2)).unwrap();
    }
    world.create_and_seal(client, &Put::new(40, 20 * MIB)).unwrap();
    world.delete(client, 40);
    assert_eq!(world.status().warm_bytes, 0);
    for number in (0..32).filter(|number| number % 8 != 0) {
        world.delete(client, number);
        assert!(world.status().warm_bytes <= 5 * MIB);
    }
    // Some parts of arenas were given back while others were in use.
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Punch(_))));
    // Everything can be used again.
    for number in (0..32).step_by(8) {
        world.delete(client, number);
    }
    world.create_and_seal(client, &Put::new(50, 64 * MIB)).unwrap();
}

#[test]
fn small_objects_find_the_holes_of_small_objects() {
    let mut world = World::with_capacity(4 * MIB);
    let client = world.connect(1);
    for number in 0..4 * 1024 {
        world.put(client, Put::new(number, 1024)).unwrap();
    }
    assert_eq!(world.put(client, Put::new(9999, 1)), Err(Code::StoreFull));
    for number in (0..4 * 1024).step_by(2) {
        world.delete(client, number);
    }
    for number in (0..4 * 1024).step_by(2) {
        assert!(world.put(client, Put::new(number, 1024)).is_ok(), "{number}");
    }
    assert_eq!(world.put(client, Put::new(9999, 1)), Err(Code::StoreFull));
}

#[test]
fn an_orphaned_arena_is_open_at_level_shared() {
    let mut world = World::with_capacity(64 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let range = world.put(one, Put::new(1, 1000)).unwrap();
    world.lease(one, MIB).unwrap();
    let before = world.effects.len();
    world.disconnect(one);
    assert!(world.effects[before..].contains(&Effect::Writer(range.extent, None)));
    let lease = world.lease(two, 64).unwrap();
    assert_eq!((lease.range.extent, lease.warm), (range.extent, true));
    assert!(world.effects.contains(&Effect::Writer(range.extent, Some(two))));
}

#[test]
fn at_level_leased_memory_stays_with_its_writer() {
    let mut world = World::new(Config { level: Level::Leased, ..warm(64 * MIB) });
    let (one, two) = (world.connect(1), world.connect(2));
    let range = world.put(one, Put::new(1, 1000)).unwrap();
    let protect = Effect::Protect(range.extent);
    let lease = world.lease(two, 64).unwrap();
    assert!(world.store.awaits_protection(two, &lease.range), "nothing is published there yet");
    assert!(!world.store.awaits_protection(one, &lease.range), "it is not its extent");
    assert!(!world.store.awaits_protection(one, &range), "it is protected");
    assert_eq!(world.effects.iter().filter(|effect| **effect == protect).count(), 1);
    world.put(one, Put::new(2, 1000)).unwrap();
    assert_eq!(world.effects.iter().filter(|effect| **effect == protect).count(), 1);
    let large = world.create(one, &Put::new(3, 20 * MIB)).unwrap();
    world.seal(one, &Put::new(3, 20 * MIB)).unwrap();
    world.delete(one, 3);
    let other = world.create(two, &Put::new(4, 20 * MIB)).unwrap();
    assert_ne!(other.range.extent, large.range.extent);
    let same = world.create(one, &Put::new(5, 20 * MIB)).unwrap();
    assert_eq!((same.range.extent, same.warm), (large.range.extent, true));
    world.disconnect(one);
    assert!(world.effects.contains(&Effect::Drop(large.range.extent)));
    let lease = world.lease(two, 64).unwrap();
    assert_ne!(lease.range.extent, range.extent);
    // The last object takes the orphan along.
    world.delete(two, 1);
    assert!(!world.effects.contains(&Effect::Drop(range.extent)));
    world.delete(two, 2);
    assert!(world.effects.contains(&Effect::Drop(range.extent)));
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Punch(_))));
}

#[test]
fn a_strict_store_leases_nothing_and_makes_everything_strict() {
    let mut world = World::new(Config { level: Level::Strict, ..warm(64 * MIB) });
    let client = world.connect(1);
    assert_eq!(world.lease(client, 64).unwrap_err().code, Code::Unsupported);
    let granted = world.create(client, &Put::new(1, 100)).unwrap();
    world.seal(client, &Put::new(1, 100)).unwrap();
    let own = granted.range.extent;
    let harden = |effect: &&Effect| matches!(effect, Effect::Harden(_, extent) if *extent == own);
    assert_eq!(world.effects.iter().filter(harden).count(), 1);
}

#[test]
fn a_machine_without_memory_is_a_full_store_and_nothing_is_left_behind() {
    let mut world = World::with_capacity(64 * MIB);
    let client = world.connect(1);
    world.reserve = Some(false);
    let failure = world.lease(client, 4096).unwrap_err();
    assert_eq!(failure.code, Code::StoreFull);
    assert!(!failure.detail.is_empty());
    for data in [100, 20 * MIB] {
        let failure = world.create(client, &Put::new(1, data)).unwrap_err();
        assert_eq!((failure.code, failure.id), (Code::StoreFull, Some(super::id(1))));
        assert_eq!(world.state(1), plasmon_proto::ObjectState::Absent);
    }
    let status = world.status();
    assert_eq!((status.extents, status.used_bytes, status.leased_bytes), (0, 0, 0));
    assert_eq!(world.store.owned_bytes(client), 0);
    world.reserve = Some(true);
    assert!(world.put(client, Put::new(1, 100)).is_ok());
}

#[test]
fn a_refusal_of_the_machine_costs_cached_objects_their_memory() {
    let mut world = World::with_capacity(64 * MIB);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 20 * MIB).cache()).unwrap();
    world.reserve = None;
    let request = Request::Create {
        id: super::id(2),
        sizes: super::sizes(16 * MIB),
        traits: Default::default(),
        strict: false,
    };
    let number = world.send(client, request);
    world.settle(false);
    assert_eq!(world.state(1), plasmon_proto::ObjectState::Sealed);
    world.settle(false);
    assert_eq!(world.state(1), plasmon_proto::ObjectState::Evicted);
    world.settle(true);
    assert!(matches!(world.answer_to(client, number), Some(Reply::Created(_))));
}

#[test]
fn a_client_that_goes_while_memory_is_reserved_leaves_none_behind() {
    let mut world = World::with_capacity(64 * MIB);
    let client = world.connect(1);
    world.reserve = None;
    world.send(client, Request::Lease { bytes_min: 64, bytes_wanted: 64 });
    let create = Request::Create {
        id: super::id(2),
        sizes: super::sizes(20 * MIB),
        traits: Default::default(),
        strict: false,
    };
    world.send(client, create);
    world.disconnect(client);
    world.settle(true);
    world.settle(true);
    let status = world.status();
    assert_eq!((status.used_bytes, status.leased_bytes), (0, 0));
    world.reserve = Some(true);
    let next = world.connect(1);
    world.create_and_seal(next, &Put::new(1, 64 * MIB)).unwrap();
}

#[test]
fn returned_leases_are_free_again() {
    let mut world = World::with_capacity(2 * MIB);
    let client = world.connect(1);
    for _ in 0..3 {
        let lease = world.lease(client, 2 * MIB).unwrap().range;
        assert_eq!(world.lease(client, 64).unwrap_err().code, Code::StoreFull);
        assert_eq!(world.submit(client, Submission::LeaseReturn(lease)), Ok(()));
        assert_eq!(world.submit(client, Submission::LeaseReturn(lease)), Err(Code::BadRequest));
    }
}
