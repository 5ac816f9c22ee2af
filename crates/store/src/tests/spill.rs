//! The spill tier.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::{Attributes, Code, ObjectState};

use super::{Put, World, id};
use crate::event::{ClientNo, Event, ReadBack};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

use ObjectState::{Corrupt, Deleted, Sealed, Spilled};

const CLIENT: ClientNo = ClientNo(1);

fn config() -> Config {
    Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) }
}

/// A store full of four objects.
fn full(config: Config) -> World {
    let mut world = World::new(config);
    world.connect(1);
    for number in 0..4 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    world
}

fn wait(numbers: &[u64]) -> Request {
    let ids = numbers.iter().map(|number| id(*number)).collect();
    Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: false }
}

#[test]
fn kept_objects_are_spilled_for_others_and_come_back() {
    for level in [Level::Shared, Level::Leased] {
        let mut world = full(Config { level, ..config() });
        world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
        assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Spilled, Sealed, Sealed, Sealed, Sealed]);
        let old = *world.tier.first_key_value().unwrap().0;
        assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Sealed]));
        assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Sealed, Spilled, Sealed, Sealed, Sealed]);
        let entry = world.store.objects.find(&id(0)).unwrap();
        assert_ne!(entry.serial, old, "it is a new incarnation");
        assert!(world.tier.contains_key(&old), "its file is kept");
        let status = world.status();
        assert_eq!((status.spilled_total, status.restored_total), (2, 1));
        assert_eq!((status.spilled, status.spilled_bytes), (1, MIB));
        // Its creator owns it again.
        assert_eq!(world.store.owned_bytes(CLIENT), 4 * MIB);
    }
}

/// The outputs of Spark's finished shuffles stayed in memory for as long as what was written after
/// them was younger.
#[test]
fn demoted_objects_are_spilled_before_older_ones() {
    let mut world = full(config());
    world.ask(CLIENT, Request::Demote { ids: vec![id(2), id(3)] });
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Sealed, Sealed, Spilled, Sealed, Sealed]);
    world.create_and_seal(CLIENT, &Put::new(5, MIB)).unwrap();
    assert_eq!(world.states(&[0, 1, 3, 4, 5]), [Sealed, Sealed, Spilled, Sealed, Sealed]);
    // What comes back was used last.
    assert_eq!(world.ask(CLIENT, wait(&[3])), Reply::States(vec![Sealed]));
    world.create_and_seal(CLIENT, &Put::new(6, MIB)).unwrap();
    assert_eq!(world.states(&[0, 1, 3, 6]), [Spilled, Spilled, Sealed, Sealed]);
}

/// A pinned object is in use, whatever was said of it: the next one goes.
#[test]
fn a_demoted_object_that_is_pinned_stays() {
    let mut world = full(config());
    world.ask(CLIENT, Request::Demote { ids: vec![id(3), id(2)] });
    let serial = world.pin(3);
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    assert_eq!(world.states(&[0, 1, 2, 3]), [Sealed, Sealed, Spilled, Sealed]);
    world.unpin(serial);
    world.create_and_seal(CLIENT, &Put::new(5, MIB)).unwrap();
    assert_eq!(world.states(&[0, 1, 3]), [Spilled, Sealed, Sealed]);
}

#[test]
fn waiters_for_one_spilled_object_share_one_restore() {
    let mut world = full(config());
    let two = world.connect(2);
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    world.restore = None;
    let first = world.send(CLIENT, wait(&[0]));
    let second = world.send(two, wait(&[0, 3]));
    let third = world.send(two, Request::Get { ids: vec![id(0), id(9)] });
    // A question does not wait for it, and brings nothing back.
    let ids = vec![id(0)];
    let asked = Request::Wait { ids, count: 0, timeout_ms: Some(0), beyond_end: false };
    assert_eq!(world.ask(two, asked), Reply::States(vec![Spilled]));
    assert_eq!(world.open.len(), 1);
    world.settle(true);
    assert_eq!(world.answer_to(CLIENT, first), Some(Reply::States(vec![Sealed])));
    assert_eq!(world.answer_to(two, second), Some(Reply::States(vec![Sealed, Sealed])));
    let Some(Reply::Located(found)) = world.answer_to(two, third) else { panic!("no answer") };
    assert!(found[0].is_ok() && found[1] == Err(ObjectState::Absent));
}

#[test]
fn what_cannot_be_read_back_is_corrupt_until_it_is_deleted() {
    let mut world = full(config());
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    world.restore = Some(false);
    assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Corrupt]));
    assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Corrupt]));
    assert_eq!(world.put(CLIENT, Put::new(0, 1)), Err(Code::Exists));
    assert_eq!(world.delete(CLIENT, 0), None);
    assert_eq!(world.state(0), Deleted);
    assert!(!world.tier.values().any(|spilled| *spilled == id(0)));
}

/// A folder that was away for a moment made every object corrupt that was read meanwhile, for good.
#[test]
fn what_cannot_be_read_now_stays_spilled_and_is_tried_again() {
    let mut world = full(config());
    let two = world.connect(2);
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    world.restore = None;
    let alone = world.send(CLIENT, wait(&[0]));
    let among_others = world.send(two, wait(&[3, 0]));
    let get = world.send(two, Request::Get { ids: vec![id(0)] });
    let (ticket, _) = world.open.pop_front().unwrap();
    world.event(Event::Restored(ticket, ReadBack::Failed));
    let Some(Reply::Failed(failure)) = world.answer_to(CLIENT, alone) else { panic!("no answer") };
    assert_eq!((failure.code, failure.id), (Code::Io, Some(id(0))));
    assert_eq!(world.answer_to(two, among_others), Some(Reply::States(vec![Sealed, Spilled])));
    assert_eq!(world.answer_to(two, get), Some(Reply::Located(vec![Err(Spilled)])));
    assert_eq!(world.state(0), Spilled);
    world.store.check_capacity();
    world.restore = Some(true);
    assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Sealed]));
}

#[test]
fn nothing_pinned_or_held_is_spilled() {
    let mut world = full(config());
    let serials = [0, 1, 2, 3].map(|number| world.pin(number));
    assert_eq!(world.create(CLIENT, &Put::new(4, MIB)).unwrap_err().code, Code::StoreFull);
    world.unpin(serials[2]);
    world.create_and_seal(CLIENT, &Put::new(4, MIB - 4096)).unwrap();
    assert_eq!(world.states(&[0, 1, 2, 3]), [Sealed, Sealed, Spilled, Sealed]);
    world.unpin(serials[0]);
    world.create_and_seal(CLIENT, &Put::new(5, 10).of(&[0])).unwrap();
    // A client that reads a composite reads its members, too.
    world.pin(5);
    let failure = world.create(CLIENT, &Put::new(6, 2 * MIB)).unwrap_err();
    assert_eq!(failure.code, Code::StoreFull);
    assert_eq!(world.state(0), Sealed);
}

#[test]
fn an_object_pinned_while_it_is_written_stays() {
    let mut world = full(config());
    world.spill = None;
    let Put { id: new, sizes, traits, .. } = Put::new(4, MIB);
    let create = Request::Create { id: new, sizes, traits, strict: false };
    let number = world.send(CLIENT, create);
    assert_eq!(world.state(0), Sealed, "it can be read meanwhile");
    world.pin(0);
    world.settle(true);
    // The tier forgets its copy, and the next object has to go.
    assert!(world.tier.is_empty());
    assert_eq!(world.state(0), Sealed);
    world.settle(true);
    assert_eq!(world.state(1), Spilled);
    assert!(matches!(world.answer_to(CLIENT, number), Some(Reply::Created(_))));
}

/// A daemon was killed between hiding an object that it had written to the tier and counting its
/// pins. The next one took what was hidden for deleted, removed the file, and the object was lost.
#[test]
fn a_daemon_that_dies_while_an_object_leaves_the_memory_leaves_a_note() {
    for is_pinned in [false, true] {
        let mut world = full(config());
        world.spill = None;
        let Put { id: new, sizes, traits, .. } = Put::new(4, MIB);
        world.send(CLIENT, Request::Create { id: new, sizes, traits, strict: false });
        let serial = world.store.objects.find(&id(0)).unwrap().serial;
        if is_pinned {
            world.pin(0);
        }
        world.settle_at(0, true);
        let directory = world.store.directory();
        assert_eq!(*directory.left_at_look.borrow(), (vec![serial], Some(serial)));
        assert_eq!(directory.leaving, None, "it stays, or is in the tier alone");
        assert_eq!(world.state(0), if is_pinned { Sealed } else { Spilled });
    }
}

/// A client deleted an object that lay in the tier, and was told so. The daemon was killed before
/// its file was removed, and the next one found the object again.
#[test]
fn a_file_that_is_about_to_be_removed_is_noted() {
    let mut world = full(config());
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    let serial = *world.tier.first_key_value().unwrap().0;
    assert!(world.store.directory().void.is_empty());
    assert_eq!((world.state(0), world.delete(CLIENT, 0)), (Spilled, None));
    assert!(world.store.directory().void.contains(&serial));
    // What was read back, too, which has its file still.
    world.create_and_seal(CLIENT, &Put::new(5, MIB)).unwrap();
    let serial = *world.tier.first_key_value().unwrap().0;
    assert_eq!(
        (world.state(1), world.ask(CLIENT, wait(&[1]))),
        (Spilled, Reply::States(vec![Sealed]))
    );
    assert!(!world.store.directory().void.contains(&serial));
    assert_eq!(world.delete(CLIENT, 1), None);
    assert!(world.store.directory().void.contains(&serial));
}

/// The same incarnation may be written again, while what was noted about its earlier file stands.
#[test]
fn a_file_that_is_written_again_counts_again() {
    let mut world = full(config());
    world.spill = None;
    let Put { id: new, sizes, traits, .. } = Put::new(4, MIB);
    world.send(CLIENT, Request::Create { id: new, sizes, traits, strict: false });
    let serial = world.store.objects.find(&id(0)).unwrap().serial;
    let pin = world.pin(0);
    world.settle_at(0, true);
    assert_eq!((world.state(0), world.store.directory().void.contains(&serial)), (Sealed, true));
    world.unpin(pin);
    world.spill = Some(true);
    while !world.open.is_empty() {
        world.settle(true);
    }
    for number in 10..14 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    assert_eq!((world.state(0), world.store.directory().void.contains(&serial)), (Spilled, false));
}

#[test]
fn an_object_deleted_while_it_is_written_is_forgotten_in_both_places() {
    let mut world = full(config());
    world.spill = None;
    let Put { id: new, sizes, traits, .. } = Put::new(4, MIB);
    let create = Request::Create { id: new, sizes, traits, strict: false };
    let number = world.send(CLIENT, create);
    assert_eq!(world.delete(CLIENT, 0), None);
    assert_eq!(world.status().lingering, 1, "the daemon still reads it");
    world.settle(true);
    assert!(world.tier.is_empty());
    assert_eq!((world.state(0), world.status().lingering), (Deleted, 0));
    assert!(matches!(world.answer_to(CLIENT, number), Some(Reply::Created(_))));
}

#[test]
fn a_tier_that_fails_is_tried_a_few_times() {
    let mut world = full(config());
    world.spill = Some(false);
    assert_eq!(world.create(CLIENT, &Put::new(4, MIB)).unwrap_err().code, Code::StoreFull);
    let tries = world.effects.iter().filter(|effect| matches!(effect, Effect::Spill(..))).count();
    assert_eq!(tries, 3);
    assert_eq!(world.states(&[0, 1, 2, 3]), [Sealed; 4]);
    world.spill = Some(true);
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
}

#[test]
fn a_tier_has_a_limit() {
    let mut world = full(Config { spill_bytes_max: Some(2 * MIB), ..config() });
    world.create_and_seal(CLIENT, &Put::new(4, 2 * MIB)).unwrap();
    assert_eq!(world.status().spilled_bytes, 2 * MIB);
    assert_eq!(world.create(CLIENT, &Put::new(5, 64)).unwrap_err().code, Code::StoreFull);
    // Cached objects make room where kept ones cannot.
    assert_eq!(world.delete(CLIENT, 0), None);
    assert_eq!(world.status().spilled_bytes, MIB);
    assert!(world.create(CLIENT, &Put::new(5, MIB)).is_ok());
}

#[test]
fn a_delete_while_it_comes_back_answers_the_waiters() {
    let mut world = full(config());
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    world.restore = None;
    let waiting = world.send(CLIENT, wait(&[0]));
    assert_eq!(world.delete(CLIENT, 0), None);
    assert_eq!(world.answer_to(CLIENT, waiting), Some(Reply::States(vec![Deleted])));
    assert!(!world.tier.values().any(|it| *it == id(0)));
    world.settle(true);
    assert_eq!(world.state(0), Deleted);
    world.put(CLIENT, Put::new(0, 10)).unwrap();
}

#[test]
fn a_restore_without_memory_answers_its_waiters() {
    let mut world = full(config());
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    for number in 1..5 {
        world.pin(number);
    }
    assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Spilled]));
    let get = Request::Get { ids: vec![id(0)] };
    assert_eq!(world.ask(CLIENT, get), Reply::Located(vec![Err(Spilled)]));
    // It is not lost by that.
    assert_eq!(world.delete(CLIENT, 1), None);
    let serial = world.store.directory().pins.keys().next().copied().unwrap();
    world.unpin(serial);
    assert_eq!(world.ask(CLIENT, wait(&[0])), Reply::States(vec![Sealed]));
}

#[test]
fn names_times_and_members_survive_the_tier() {
    let mut world = World::new(config());
    world.connect(1);
    world.put(CLIENT, Put::new(1, 10).owned()).unwrap();
    let attributes = Attributes {
        name: Some(plasmon_proto::Name::new("n", "x").unwrap()),
        ttl_ms: Some(1000),
        members: vec![id(1)],
        ..Attributes::default()
    };
    world.create_and_seal(CLIENT, &Put::new(2, 4 * MIB - 8192).with(attributes)).unwrap();
    world.create_and_seal(CLIENT, &Put::new(3, MIB)).unwrap();
    assert_eq!(world.states(&[1, 2, 3]), [Sealed, Spilled, Sealed]);
    let info = world.store.stat(&id(2)).unwrap();
    assert_eq!(
        (info.name.unwrap().text.as_str(), info.expires_ms),
        ("x", Some(world.now_ms + 1000))
    );
    assert_eq!(world.delete(CLIENT, 1), Some(Code::InUse));
    assert_eq!(world.ask(CLIENT, wait(&[2])), Reply::States(vec![Sealed]));
    // What is read is evicted last; its member comes back when it is read.
    assert_eq!(world.states(&[1, 2, 3]), [Spilled, Sealed, Spilled]);
    world.create_and_seal(CLIENT, &Put::new(4, MIB)).unwrap();
    assert_eq!(world.state(2), Spilled);
    world.pass(1000);
    assert_eq!(world.states(&[1, 2]), [Deleted, Deleted]);
}

#[test]
fn many_small_objects_go_through_a_small_memory() {
    let mut world = World::new(config());
    world.connect(1);
    for number in 0..8000 {
        assert!(world.put(CLIENT, Put::new(number, 1000)).is_ok(), "{number}");
        world.effects.clear();
    }
    world.store.check_capacity();
    assert!(world.status().spilled > 3000);
    for number in (0..8000).step_by(101) {
        assert_eq!(world.ask(CLIENT, wait(&[number])), Reply::States(vec![Sealed]));
        world.effects.clear();
    }
    assert_eq!(world.status().objects + world.status().spilled, 8000);
}

/// A waiter for two objects of which only one fits was never answered: each that came back spilled
/// the other, and the other was waited for again.
#[test]
fn a_wait_for_more_than_fits_ends() {
    let mut world = World::new(config());
    world.connect(1);
    for number in [1, 2] {
        world.create_and_seal(CLIENT, &Put::new(number, 3 * MIB)).unwrap();
    }
    let reply = world.ask(CLIENT, wait(&[1, 2]));
    assert_eq!(reply, Reply::States(vec![Sealed, Spilled]));
    assert_eq!(world.ask(CLIENT, wait(&[2])), Reply::States(vec![Sealed]));
    let reply = world.ask(CLIENT, Request::Get { ids: vec![id(1), id(2)] });
    let Reply::Located(found) = reply else { panic!("{reply:?}") };
    assert!(found[0].is_ok() && found[1] == Err(Spilled));
}
