//! Objects whose size is not known before they are sealed.

use plasmon_proto::message::{Grant, Reply, Request};
use plasmon_proto::object::{Level, Traits};
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::effect::Effect;
use crate::event::ClientNo;

const MIB: u64 = 1 << 20;
const CLIENT: ClientNo = ClientNo(1);

fn world() -> World {
    let mut world = World::new(Config { warm_bytes_max: 8 * MIB, ..Config::new(16 * MIB) });
    world.connect(1);
    world
}

fn begin(world: &mut World, number: u64, bytes: u64) -> Grant {
    let traits = Traits { owned: true, ..Traits::default() };
    let request = Request::CreateGrowing { id: id(number), traits, bytes, open_ended: false };
    match world.ask(CLIENT, request) {
        Reply::Created(granted) => granted,
        other => panic!("{other:?} is no memory"),
    }
}

fn grow(world: &mut World, number: u64, bytes: u64) -> Result<u64, Code> {
    match world.ask(CLIENT, Request::Grow { id: id(number), bytes }) {
        Reply::Grown { bytes } => Ok(bytes),
        Reply::Failed(failure) => Err(failure.code),
        other => panic!("{other:?} is no answer to a growth"),
    }
}

fn seal(world: &mut World, number: u64, data: u64) -> Result<(), Code> {
    match world.ask(CLIENT, Request::SealGrown { id: id(number), data }) {
        Reply::Done => Ok(()),
        Reply::Failed(failure) => Err(failure.code),
        other => panic!("{other:?} is no answer to a seal"),
    }
}

fn used(world: &mut World) -> u64 {
    world.status().used_bytes
}

#[test]
fn an_object_grows_at_its_end_and_is_cut_to_its_size() {
    let mut world = world();
    let granted = begin(&mut world, 1, 100);
    assert_eq!((granted.range.offset, granted.range.bytes), (0, 4096));
    assert_eq!(grow(&mut world, 1, 50), Ok(4096), "it has that much");
    assert_eq!(grow(&mut world, 1, MIB + 1), Ok(MIB + 4096));
    assert_eq!(used(&mut world), MIB + 4096);
    assert_eq!(world.store.owned_bytes(CLIENT), MIB + 4096);
    assert_eq!(world.state(1), ObjectState::Creating);
    assert_eq!(seal(&mut world, 1, 5000), Ok(()));
    let info = world.store.stat(&id(1)).unwrap();
    assert_eq!((info.state, info.sizes.data), (ObjectState::Sealed, 5000));
    assert_eq!((used(&mut world), world.extents[&granted.range.extent]), (8192, 8192));
    assert_eq!(world.store.owned_bytes(CLIENT), 8192);
    assert_eq!(seal(&mut world, 1, 5000), Err(Code::AlreadySealed));
    assert_eq!(grow(&mut world, 1, MIB), Err(Code::AlreadySealed));
    assert_eq!(world.delete(CLIENT, 1), None);
    assert_eq!(used(&mut world), 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut world = world();
    begin(&mut world, 1, 4096);
    let taken = Request::CreateGrowing {
        id: id(1),
        traits: Traits::default(),
        bytes: 1,
        open_ended: false,
    };
    assert_eq!(world.ask_for_failure(CLIENT, taken).code, Code::Exists);
    assert_eq!(grow(&mut world, 2, 1), Err(Code::Absent));
    assert_eq!(grow(&mut world, 1, 17 * MIB), Err(Code::TooLarge));
    assert_eq!(seal(&mut world, 1, 4097), Err(Code::BadRequest));
    let plain = Request::Seal { id: id(1) };
    assert_eq!(world.ask_for_failure(CLIENT, plain).code, Code::BadRequest);
    world.connect(2);
    let other = Request::Grow { id: id(1), bytes: MIB };
    assert_eq!(world.ask_for_failure(ClientNo(2), other).code, Code::NotOwner);
    world.ask(CLIENT, Request::Quota { bytes: MIB });
    assert_eq!(grow(&mut world, 1, MIB + 1), Err(Code::QuotaExceeded));
    assert_eq!(grow(&mut world, 1, MIB), Ok(MIB));
    assert_eq!(used(&mut world), MIB);
}

#[test]
fn a_full_store_refuses_to_grow_until_there_is_room() {
    let mut world = world();
    world.create_and_seal(CLIENT, &Put::new(9, 8 * MIB)).unwrap();
    begin(&mut world, 1, 8 * MIB);
    assert_eq!(grow(&mut world, 1, 8 * MIB + 1), Err(Code::StoreFull));
    assert_eq!(used(&mut world), 16 * MIB);
    world.delete(CLIENT, 9);
    assert_eq!(grow(&mut world, 1, 16 * MIB), Ok(16 * MIB));
    // Evictable objects give way.
    assert_eq!(seal(&mut world, 1, MIB), Ok(()));
    world.create_and_seal(CLIENT, &Put::new(8, 8 * MIB).cache()).unwrap();
    begin(&mut world, 2, MIB);
    assert_eq!(grow(&mut world, 2, 12 * MIB), Ok(12 * MIB));
    assert_eq!(world.state(8), ObjectState::Evicted);
}

#[test]
fn what_is_given_up_stays_warm_for_the_next_and_goes_under_pressure() {
    let mut world = world();
    let first = begin(&mut world, 1, 4 * MIB);
    world.ask(CLIENT, Request::Abort { id: id(1) });
    assert_eq!((used(&mut world), world.status().warm_bytes), (0, 4 * MIB));
    let again = begin(&mut world, 2, MIB);
    assert_eq!((again.range.extent, again.range.bytes), (first.range.extent, 4 * MIB));
    assert!(again.warm);
    world.ask(CLIENT, Request::Abort { id: id(2) });
    world.effects.clear();
    world.create_and_seal(CLIENT, &Put::new(9, 14 * MIB)).unwrap();
    let cut = Effect::Trim { extent: first.range.extent, bytes: 0 };
    let cut = world.effects.iter().position(|it| *it == cut);
    let dropped = world.effects.iter().position(|it| *it == Effect::Drop(first.range.extent));
    assert!(cut.unwrap() < dropped.unwrap(), "its last writer may have it mapped still");
}

/// A client let an object grow and gave it up. The next client was given the same memory, whose
/// size the first could still change: the next one was ended by a signal. And the first left
/// memory behind that it had allocated by itself.
#[test]
fn what_one_client_gives_up_is_never_another_clients() {
    let mut world = world();
    let first = begin(&mut world, 1, 4 * MIB);
    world.effects.clear();
    world.ask(CLIENT, Request::Abort { id: id(1) });
    let trim = Effect::Trim { extent: first.range.extent, bytes: 4 * MIB };
    assert!(world.effects.contains(&trim), "no more than is charged stays");
    let other = world.connect(7);
    let options = Request::CreateGrowing {
        id: id(2),
        traits: Traits::default(),
        bytes: MIB,
        open_ended: true,
    };
    world.ask(other, options);
    let granted = world.effects.iter().find_map(|effect| match effect {
        Effect::Created(client, _, granted) if *client == other => Some(*granted),
        _ => None,
    });
    assert_ne!(granted.unwrap().range.extent, first.range.extent);
    world.effects.clear();
    world.disconnect(CLIENT);
    assert!(world.effects.contains(&Effect::Drop(first.range.extent)), "it leaves with its writer");
    assert_eq!(world.status().warm_bytes, 0);
    // What is being written when its client parts stays readable there; it is the store's no more.
    world.effects.clear();
    world.disconnect(other);
    let extent = granted.unwrap().range.extent;
    assert!(world.effects.contains(&Effect::Drop(extent)));
    assert!(!world.effects.iter().any(|it| matches!(it, Effect::Trim { .. })));
}

#[test]
fn the_smallest_idle_extent_that_is_long_enough_is_taken() {
    let mut world = world();
    let extents: Vec<_> =
        [1, 4, 2].map(|mib| begin(&mut world, mib, mib * MIB).range.extent).to_vec();
    for number in [1, 4, 2] {
        world.ask(CLIENT, Request::Abort { id: id(number) });
    }
    assert_eq!(begin(&mut world, 10, 3 * MIB).range.extent, extents[1]);
    assert_eq!(begin(&mut world, 11, 3 * MIB).range.extent, extents[2], "the longest there is");
    assert_eq!(begin(&mut world, 12, 100).range.extent, extents[0]);
}

/// A small buffer that began small took the short memory and made it long, beside the long memory
/// that the large buffer had had before: there was twice as much as ever was used.
#[test]
fn what_is_open_ended_takes_the_longest_that_is_allowed() {
    let mut world = world();
    let extents = [1, 4].map(|mib| begin(&mut world, mib, mib * MIB).range.extent);
    for number in [1, 4] {
        world.ask(CLIENT, Request::Abort { id: id(number) });
    }
    let traits = Traits::default();
    let open =
        |number| Request::CreateGrowing { id: id(number), traits, bytes: 100, open_ended: true };
    match world.ask(CLIENT, open(10)) {
        Reply::Created(granted) => assert_eq!(granted.range.extent, extents[1]),
        other => panic!("{other:?} is no memory"),
    }
    world.ask(CLIENT, Request::Abort { id: id(10) });
    // Not more than its client may own.
    world.ask(CLIENT, Request::Quota { bytes: 2 * MIB });
    match world.ask(CLIENT, open(11)) {
        Reply::Created(granted) => assert_eq!(granted.range.extent, extents[0]),
        other => panic!("{other:?} is no memory"),
    }
}

#[test]
fn the_machine_may_refuse() {
    let mut world = world();
    begin(&mut world, 1, MIB);
    world.reserve = Some(false);
    assert_eq!(grow(&mut world, 1, 2 * MIB), Err(Code::StoreFull));
    let other = Request::CreateGrowing {
        id: id(2),
        traits: Traits::default(),
        bytes: MIB,
        open_ended: false,
    };
    assert_eq!(world.ask_for_failure(CLIENT, other).code, Code::StoreFull);
    assert_eq!((used(&mut world), world.store.owned_bytes(CLIENT)), (MIB, MIB));
    world.reserve = Some(true);
    assert_eq!(grow(&mut world, 1, 2 * MIB), Ok(2 * MIB));
}

/// Growths that are under way when the object is sealed, aborted, or its creator dies.
#[test]
fn growth_that_comes_too_late_leaks_nothing() {
    for done in [true, false] {
        for end in 0..4 {
            let mut world = world();
            begin(&mut world, 1, MIB);
            world.reserve = None;
            world.send(CLIENT, Request::Grow { id: id(1), bytes: 2 * MIB });
            let again = Request::Grow { id: id(1), bytes: 3 * MIB };
            assert_eq!(world.ask_for_failure(CLIENT, again).code, Code::LimitReached);
            match end {
                0 => drop(world.ask(CLIENT, Request::Abort { id: id(1) })),
                1 => assert_eq!(seal(&mut world, 1, 100), Ok(())),
                2 => world.disconnect(CLIENT),
                _ => {
                    world.harden = None;
                    world.send(CLIENT, Request::SealGrown { id: id(1), data: 100 });
                }
            }
            world.settle(done);
            if end == 3 {
                world.settle(true);
            }
            let sealed = end == 1 || end == 3;
            assert_eq!(used(&mut world), if sealed { 4096 } else { 0 }, "{end} {done}");
            // A machine that refuses memory gets back what is idle; so does one whose writer left.
            let warm = if sealed || !done || end == 2 { 0 } else { 2 * MIB };
            assert_eq!(world.status().warm_bytes, warm, "{end} {done}");
            if sealed {
                assert_eq!(world.delete(CLIENT, 1), None);
            }
            assert_eq!(world.store.owned_bytes(CLIENT), 0, "{end} {done}");
        }
    }
}

/// It was told that the pages are there; they were refused later, and writing to them was the end
/// of its process.
#[test]
fn an_idle_extent_that_still_grows_is_given_to_no_client() {
    let mut world = world();
    let first = begin(&mut world, 1, MIB);
    world.reserve = None;
    world.send(CLIENT, Request::Grow { id: id(1), bytes: 2 * MIB });
    world.ask(CLIENT, Request::Abort { id: id(1) });
    let request = Request::CreateGrowing {
        id: id(2),
        traits: Traits::default(),
        bytes: MIB,
        open_ended: false,
    };
    let number = world.send(CLIENT, request);
    world.settle(false);
    world.settle(true);
    match world.answer_to(CLIENT, number) {
        Some(Reply::Created(granted)) => assert_ne!(granted.range.extent, first.range.extent),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extent_that_its_creator_resized_is_not_published() {
    for level in [Level::Shared, Level::Leased, Level::Strict] {
        let mut world = World::new(Config { level, ..Config::new(16 * MIB) });
        world.connect(1);
        begin(&mut world, 1, MIB);
        world.harden = Some(false);
        assert_eq!(seal(&mut world, 1, 100), Err(Code::InUse));
        assert_eq!((world.state(1), used(&mut world)), (ObjectState::Absent, 0));
    }
}

#[test]
fn a_creator_that_dies_leaves_neither_parts_nor_members_behind() {
    let mut world = world();
    begin(&mut world, 1, MIB);
    begin(&mut world, 2, MIB);
    begin(&mut world, 3, MIB);
    assert_eq!(seal(&mut world, 2, 100), Ok(()));
    assert_eq!(seal(&mut world, 3, 100), Ok(()));
    world.put(CLIENT, Put::new(10, 0).of(&[3])).unwrap();
    world.disconnect(CLIENT);
    use ObjectState::{CreatorDied, Deleted, Sealed};
    assert_eq!(world.states(&[1, 2, 3, 10]), [CreatorDied, Deleted, Sealed, Sealed]);
}
