//! Shares of the memory, and a capacity that counts content.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Sizes;
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::event::ClientNo;

const MIB: u64 = 1 << 20;

use ObjectState::{Evicted, Sealed};

fn share(world: &mut World, client: ClientNo, bytes: u64) -> Result<(), Code> {
    match world.ask(client, Request::Share { bytes }) {
        Reply::Done => Ok(()),
        Reply::Failed(failure) => Err(failure.code),
        other => panic!("{other:?} is no answer to a share"),
    }
}

fn create(world: &mut World, client: ClientNo, number: u64, bytes: u64) -> Result<(), Code> {
    world.create_and_seal(client, &Put::new(number, bytes).cache())
}

#[test]
fn at_its_share_a_client_evicts_its_own_oldest() {
    let mut world = World::with_capacity(100 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    create(&mut world, two, 0, MIB).unwrap();
    share(&mut world, one, 3_000_000).unwrap();
    for number in 1..=5 {
        create(&mut world, one, number, 1_000_000).unwrap();
    }
    assert_eq!(world.states(&[0, 1, 2]), [Sealed, Evicted, Evicted]);
    assert_eq!(world.states(&[3, 4, 5]), [Sealed; 3]);
    // To the byte, and not one more.
    create(&mut world, one, 6, 3_000_000).unwrap();
    assert_eq!(world.states(&[3, 4, 5, 6]), [Evicted, Evicted, Evicted, Sealed]);
    assert_eq!(create(&mut world, one, 7, 3_000_001), Err(Code::QuotaExceeded));
    assert_eq!(world.state(6), Sealed);
}

#[test]
fn what_is_pinned_does_not_stop_its_owner() {
    let mut world = World::with_capacity(100 * MIB);
    let one = world.connect(1);
    share(&mut world, one, 2 * MIB).unwrap();
    create(&mut world, one, 1, MIB).unwrap();
    create(&mut world, one, 2, MIB).unwrap();
    let pins = [world.pin(1), world.pin(2)];
    create(&mut world, one, 3, MIB).unwrap();
    assert_eq!(world.states(&[1, 2, 3]), [Sealed; 3]);
    pins.into_iter().for_each(|pin| world.unpin(pin));
    create(&mut world, one, 4, MIB).unwrap();
    // The excess of that time goes now.
    assert_eq!(world.states(&[1, 2, 3, 4]), [Evicted, Evicted, Sealed, Sealed]);
}

#[test]
fn others_leave_a_share_alone_until_its_client_goes() {
    let mut world = World::with_capacity(10 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    share(&mut world, one, 4 * MIB).unwrap();
    create(&mut world, one, 1, 2 * MIB).unwrap();
    for number in 2..20 {
        create(&mut world, two, number, 3 * MIB).unwrap();
    }
    assert_eq!(world.state(1), Sealed);
    assert_eq!(world.evict(two, u64::MAX), (6 * MIB, 2));
    assert_eq!(create(&mut world, two, 30, 9 * MIB), Err(Code::StoreFull));
    assert_eq!(world.state(1), Sealed);
    world.disconnect(one);
    create(&mut world, two, 30, 9 * MIB).unwrap();
    assert_eq!(world.state(1), Evicted);
}

#[test]
fn objects_from_before_the_share_count() {
    let mut world = World::with_capacity(100 * MIB);
    let one = world.connect(1);
    create(&mut world, one, 1, MIB).unwrap();
    world.create(one, &Put::new(2, MIB).cache()).unwrap();
    share(&mut world, one, 2 * MIB).unwrap();
    world.seal(one, &Put::new(2, MIB).cache()).unwrap();
    create(&mut world, one, 3, MIB).unwrap();
    assert_eq!(world.states(&[1, 2, 3]), [Evicted, Sealed, Sealed]);
    // And what goes otherwise makes room.
    assert_eq!(world.delete(one, 2), None);
    create(&mut world, one, 4, MIB).unwrap();
    assert_eq!(world.states(&[3, 4]), [Sealed, Sealed]);
}

#[test]
fn shares_leave_three_tenths_and_are_given_once() {
    let mut world = World::with_capacity(10 * MIB);
    let clients = [1, 2, 3].map(|number| world.connect(number));
    assert_eq!(share(&mut world, clients[0], 7 * MIB + 1), Err(Code::StoreFull));
    assert_eq!(share(&mut world, clients[0], 4 * MIB), Ok(()));
    assert_eq!(share(&mut world, clients[0], MIB), Err(Code::StoreFull));
    assert_eq!(share(&mut world, clients[1], 3 * MIB + 1), Err(Code::StoreFull));
    assert_eq!(share(&mut world, clients[1], 3 * MIB), Ok(()));
    assert_eq!(share(&mut world, clients[2], 1), Err(Code::StoreFull));
    world.disconnect(clients[0]);
    assert_eq!(share(&mut world, clients[2], 4 * MIB), Ok(()));
}

#[test]
fn a_capacity_that_counts_content_holds_to_the_byte() {
    let config = Config { count_content: true, ..Config::new(1_000_000) };
    for (bytes, count) in [(1, 1000), (1000, 1000), (99, 10_101), (100_000, 10), (333_333, 3)] {
        let mut world = World::new(config);
        let client = world.connect(1);
        for number in 0..count {
            world.create_and_seal(client, &Put::new(number, bytes)).unwrap();
        }
        if bytes * (count + 1) > 1_000_000 {
            let failure = world.create(client, &Put::new(count, bytes)).unwrap_err();
            assert_eq!(failure.code, Code::StoreFull, "{count} objects of {bytes} bytes");
        }
        assert_eq!(world.status().capacity_bytes, 1_000_000);
    }
}

#[test]
fn content_makes_room_for_content() {
    let mut world = World::new(Config { count_content: true, ..Config::new(10_000) });
    let client = world.connect(1);
    for number in 0..3 {
        let sizes = Sizes { data: 9_000, metadata: 1_000, attributes: 0 };
        let put = Put { sizes, ..Put::new(number, 0).cache() };
        world.create_and_seal(client, &put).unwrap();
    }
    assert_eq!(world.states(&[0, 1, 2]), [Evicted, Evicted, Sealed]);
    let failure = world.create(client, &Put::new(3, 10_001)).unwrap_err();
    assert_eq!((failure.code, failure.wanted, failure.found), (Code::TooLarge, 10_001, 10_000));
    // It costs no client anything.
    assert_eq!(world.state(2), Sealed);
    let pin = world.pin(2);
    assert_eq!(world.create(client, &Put::new(3, 1)).unwrap_err().code, Code::StoreFull);
    world.unpin(pin);
    world.create(client, &Put::new(3, 1)).unwrap();
    assert_eq!(world.state(2), Evicted);
}

#[test]
fn spilled_content_comes_back_for_other_content() {
    let config = Config {
        count_content: true,
        spill_cache: true,
        spill_bytes_max: Some(u64::MAX),
        ..Config::new(10_000)
    };
    let mut world = World::new(config);
    let client = world.connect(1);
    for number in 0..3 {
        world.create_and_seal(client, &Put::new(number, 5_000).cache()).unwrap();
    }
    assert_eq!(world.states(&[0, 1, 2]), [ObjectState::Spilled, Sealed, Sealed]);
    let wait = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    assert_eq!(world.ask(client, wait), Reply::States(vec![Sealed]));
    assert_eq!(world.states(&[0, 1, 2]), [Sealed, ObjectState::Spilled, Sealed]);
}
