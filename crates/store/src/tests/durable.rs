//! Durable objects: seen when they are in the log, deleted when that is in the log.

use plasmon_proto::message::{PendingObject, Reply, Request};
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState};

use super::{Put, TestDirectory, World, id};
use crate::event::{ClientNo, Event, LogFailure, SealTarget};
use crate::{Config, Effect, Store};

pub(super) fn world(capacity_bytes: u64) -> World {
    World::new(Config { durable: true, ..Config::new(capacity_bytes) })
}

/// Creates an object and asks for its seal; the number of that request.
fn create(world: &mut World, client: ClientNo, put: &Put) -> u64 {
    world.create(client, put).unwrap();
    seal(world, client, put, put.id)
}

fn seal(world: &mut World, client: ClientNo, put: &Put, target: ObjectId) -> u64 {
    world.next_number += 1;
    let (number, sealing) = ((1 << 40) + world.next_number, SealTarget { id: put.id, target });
    world.event(Event::Seal(client, number, sealing, Some(put.attributes.clone())));
    number
}

fn delete(world: &mut World, client: ClientNo, number: u64) -> u64 {
    world.send(client, Request::Delete { ids: vec![id(number)] })
}

fn code_of(reply: Option<Reply>) -> Code {
    match reply {
        Some(Reply::Failed(failure)) => failure.code,
        other => panic!("{other:?} is no failure"),
    }
}

/// The next daemon on the same memory and the same log.
fn restart(world: World) -> World {
    restart_with(world, false)
}

/// The same, perhaps with writers that may come back.
pub(super) fn restart_with(world: World, quarantined: bool) -> World {
    let (config, log, now_ms) = (world.store.config, world.log, world.now_ms);
    let mut store = world.store;
    let objects = store.objects.directory.entries().map(|(slot, entry, visible)| {
        let extras = store.objects.extras_of(entry.record);
        let attributes = extras.map(|extras| extras.attributes.clone()).unwrap_or_default();
        crate::event::RecoveredObject::in_memory(slot, entry, visible, attributes)
    });
    let objects: Vec<_> = objects.collect();
    let extents: Vec<_> = world
        .extents
        .iter()
        .map(|(extent, bytes)| crate::event::RecoveredExtent {
            extent: *extent,
            bytes: *bytes,
            quarantined,
            lent: None,
            strict: false,
            resident_bytes: *bytes,
        })
        .collect();
    let first_birth = world.births;
    let directory: TestDirectory = std::mem::take(store.directory_mut());
    let mut next = World::over(Store::new(Config { first_birth, ..config }, directory));
    (next.log, next.extents, next.births, next.now_ms) = (log, world.extents, first_birth, now_ms);
    let mut effects = Vec::new();
    let broken = next.store.recover(now_ms, &extents, objects, &mut effects);
    assert_eq!(broken, []);
    next.do_all(effects);
    next
}

#[test]
fn an_object_is_seen_when_it_is_in_the_log() {
    let mut world = world(1 << 20);
    world.logs = None;
    let client = world.connect(1);
    let reader = world.connect(2);
    let waits = world.send(
        reader,
        Request::Wait { ids: vec![id(1)], count: 1, timeout_ms: None, beyond_end: false },
    );
    let sealing = create(&mut world, client, &Put::new(1, 100).durable());
    assert_eq!(world.answer_to(client, sealing), None);
    assert_eq!(world.state(1), ObjectState::Creating);
    assert_eq!(world.status().log.unwrap().waiting, 1);
    world.settle(true);
    assert_eq!(world.answer_to(client, sealing), Some(Reply::Done));
    assert!(world.answer_to(reader, waits).is_some(), "it is told to those that wait");
    assert_eq!(world.state(1), ObjectState::Sealed);
    assert!(world.stat(client, 1).unwrap().durable);
    let log = world.status().log.unwrap();
    assert_eq!((log.objects, log.objects_away, log.waiting), (1, 0, 0));
}

#[test]
fn an_object_that_the_log_refuses_was_never_there() {
    let mut world = world(1 << 20);
    world.logs = Some(false);
    let client = world.connect(1);
    let sealing = create(&mut world, client, &Put::new(1, 100).durable());
    assert_eq!(code_of(world.answer_to(client, sealing)), Code::StoreFull);
    assert_eq!(world.state(1), ObjectState::Absent);
    assert_eq!(world.status().used_bytes, 0);
    world.logs = Some(true);
    assert_eq!(world.create_and_seal(client, &Put::new(1, 100).durable()), Ok(()));
}

#[test]
fn a_client_that_ends_after_its_seal_was_taken_changes_nothing() {
    for done in [true, false] {
        let mut world = world(1 << 20);
        world.logs = None;
        let client = world.connect(1);
        create(&mut world, client, &Put::new(1, 100).durable());
        world.disconnect(client);
        world.pass(1000);
        assert_eq!(world.state(1), ObjectState::Creating);
        let other = world.connect(1);
        assert_eq!(world.create(other, &Put::new(1, 5)).unwrap_err().code, Code::Exists);
        world.settle(done);
        let state = if done { ObjectState::Sealed } else { ObjectState::CreatorDied };
        assert_eq!(world.state(1), state);
    }
}

#[test]
fn a_seal_that_was_taken_can_neither_be_aborted_nor_left_over() {
    let mut world = world(1 << 20);
    world.logs = None;
    let client = world.connect(1);
    create(&mut world, client, &Put::new(1, 100).durable());
    let abort = world.ask_for_failure(client, Request::Abort { id: id(1) });
    assert_eq!(abort.code, Code::AlreadySealed);
    assert_eq!(world.delete(client, 1), Some(Code::NotSealed));
    // Its connection breaks, and it comes back without naming the object.
    world.event(Event::Part(client));
    world.event(Event::Resume(client, vec![], vec![]));
    world.pass(100);
    // It asks for the seal again, and is answered on this connection.
    let again = seal(&mut world, client, &Put::new(1, 100).durable(), id(1));
    assert_eq!(world.answer_to(client, again), None);
    world.settle(true);
    assert_eq!(world.answer_to(client, again), Some(Reply::Done));
    assert_eq!(world.state(1), ObjectState::Sealed);
}

#[test]
fn a_delete_is_answered_when_it_is_in_the_log() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    world.logs = None;
    let first = delete(&mut world, client, 1);
    assert_eq!(world.state(1), ObjectState::Deleted, "it is out of sight at once");
    assert_eq!(world.answer_to(client, first), None);
    // Another delete of it is answered with the first: the object is gone, and not dead yet.
    let second = delete(&mut world, client, 1);
    assert_eq!(world.answer_to(client, second), None);
    world.settle(true);
    assert_eq!(world.answer_to(client, first), Some(Reply::Outcomes(vec![None])));
    let absent = Some(Reply::Outcomes(vec![Some(Code::Absent)]));
    assert_eq!(world.answer_to(client, second), absent);
    assert!(world.log.is_empty());
}

#[test]
fn expiry_and_the_end_of_a_namespace_are_in_the_log() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    let short = Attributes { ttl_ms: Some(50), ..Attributes::default() };
    world.create_and_seal(client, &Put::new(1, 100).with(short).durable()).unwrap();
    let parent = world.connect(2);
    let namespace = "n".to_owned();
    assert_eq!(world.ask(parent, Request::Adopt { namespace, bytes_max: 0 }), Reply::Done);
    let named = Attributes { name: Name::new("n", "x").ok(), ..Attributes::default() };
    world.create_and_seal(client, &Put::new(2, 100).with(named).durable()).unwrap();
    world.pass(60);
    assert_eq!(world.states(&[1, 2]), [ObjectState::Deleted, ObjectState::Sealed]);
    world.disconnect(parent);
    assert_eq!(world.state(2), ObjectState::Deleted);
    assert!(world.log.is_empty());
}

#[test]
fn a_durable_object_leaves_the_memory_without_a_spill_tier_and_comes_back() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(9, 200_000)).unwrap();
    for number in 0..20 {
        world.create_and_seal(client, &Put::new(number + 10, 200_000).durable()).unwrap();
    }
    assert_eq!(world.state(9), ObjectState::Sealed, "what is not durable keeps its memory");
    let log = world.status().log.unwrap();
    assert_eq!((log.objects, world.status().spilled), (20, 0));
    assert!(log.objects_away >= 15, "{log:?}");
    assert_eq!(world.state(10), ObjectState::Spilled);
    let Reply::Located(found) = world.ask(client, Request::Get { ids: vec![id(10)] }) else {
        panic!("no answer to a get");
    };
    assert_eq!(found[0].as_ref().map(|it| it.sizes.data), Ok(200_000));
    assert_eq!(world.state(10), ObjectState::Sealed);
    assert!(world.stat(client, 10).unwrap().durable);
    let spills = world.effects.iter().any(|effect| matches!(effect, Effect::Spill(..)));
    assert!(!spills, "its bytes are there already");
    assert_eq!(world.delete(client, 11), None);
    assert_eq!(world.state(11), ObjectState::Deleted);
    assert!(world.log.get(&id(11)).is_none());
}

#[test]
fn with_a_spill_tier_durable_objects_leave_in_their_turn_and_are_never_written_there() {
    let config = Config { durable: true, spill_bytes_max: Some(300_000), ..Config::new(1 << 20) };
    let mut world = World::new(config);
    let client = world.connect(1);
    for number in 0..20 {
        let put = Put::new(number, 200_000);
        world.create_and_seal(client, &if number == 3 { put } else { put.durable() }).unwrap();
    }
    assert_eq!(world.state(3), ObjectState::Spilled);
    assert_eq!(world.tier.values().collect::<Vec<_>>(), [&id(3)]);
    let status = world.status();
    assert_eq!((status.spilled, status.log.unwrap().objects), (1, 19));
}

#[test]
fn what_cannot_be_durable_is_refused_with_a_sentence() {
    let mut world = World::with_capacity(1 << 20);
    let client = world.connect(1);
    let put = Put::new(1, 100).durable();
    world.create(client, &put).unwrap();
    let refused = world.seal_as(client, &put, id(1)).unwrap_err();
    assert_eq!(refused.code, Code::Unsupported);
    assert!(refused.detail.contains("--durable-dir"), "{}", refused.detail);

    let mut world = self::world(1 << 20);
    let client = world.connect(1);
    world.put(client, Put::new(5, 10)).unwrap();
    let ids = vec![id(2)];
    assert_eq!(world.ask(client, Request::Scope { scope: 1, ids, again: false }), Reply::Done);
    let cases = [
        (Put::new(1, 100).owned().durable(), "owned"),
        (Put::new(2, 100).durable(), "scope"),
        (Put::new(3, 100).of(&[5]).durable(), "not durable"),
    ];
    for (put, word) in cases {
        world.create(client, &put).unwrap();
        let refused = world.seal_as(client, &put, put.id).unwrap_err();
        assert_eq!(refused.code, Code::Unsupported, "{word}");
        assert!(refused.detail.contains(word), "{}", refused.detail);
    }
    // A ring cannot say that an object is in the log.
    assert_eq!(world.put(client, Put::new(4, 100).durable()), Err(Code::Unsupported));
}

#[test]
fn a_durable_composite_keeps_its_members_over_a_restart() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    world.create_and_seal(client, &Put::new(2, 100).of(&[1]).durable()).unwrap();
    let mut next = self::world(1 << 20);
    next.log = world.log;
    next.open_log();
    let client = next.connect(1);
    assert_eq!(next.states(&[1, 2]), [ObjectState::Spilled; 2]);
    assert_eq!(next.delete(client, 1), Some(Code::InUse));
    assert_eq!(next.delete(client, 2), None);
    assert_eq!(next.delete(client, 1), None);
    assert!(next.log.is_empty());
}

#[test]
fn an_object_is_replaced_in_the_log_and_in_the_index_in_one_step() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    let (old, _) = *world.log.get(&id(1)).unwrap();
    world.logs = None;
    let new = Put::new(2, 50).durable();
    world.create(client, &new).unwrap();
    let sealing = seal(&mut world, client, &new, id(1));
    assert_eq!(world.stat(client, 1).unwrap().sizes.data, 100, "the old one until then");
    // It can neither be made a member nor be replaced by another one meanwhile.
    let holder = Put::new(3, 5).of(&[1]);
    assert_eq!(world.put(client, holder), Err(Code::Absent));
    let rival = Put::new(4, 5);
    world.create(client, &rival).unwrap();
    assert_eq!(world.seal_as(client, &rival, id(1)).unwrap_err().code, Code::Exists);
    world.settle(true);
    assert_eq!(world.answer_to(client, sealing), Some(Reply::Done));
    assert_eq!(world.stat(client, 1).unwrap().sizes.data, 50);
    assert!(world.open.is_empty(), "the record before needs no end");
    assert!(world.log.get(&id(1)).unwrap().0 > old);
}

#[test]
fn an_object_that_is_not_durable_replaces_one_that_is() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    world.logs = None;
    let new = Put::new(2, 50);
    world.create(client, &new).unwrap();
    let sealing = seal(&mut world, client, &new, id(1));
    assert_eq!(world.answer_to(client, sealing), None, "the old one could come back");
    world.settle(true);
    assert_eq!(world.answer_to(client, sealing), Some(Reply::Done));
    assert!(world.log.is_empty());
}

/// A daemon that ends between the log and the index leaves an old object in memory and the one that
/// replaces it in the log. To take one for the other would change an object's bytes when it is
/// brought back.
#[test]
fn a_replacement_that_is_only_in_the_log_is_not_taken_for_the_object_before_it() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    world.create_and_seal(client, &Put::new(5, 100).durable()).unwrap();
    let old = world.store.objects.find(&id(1)).unwrap();
    world.logs = None;
    // As large, and begun in the same millisecond.
    let new = Put::new(2, 100).durable();
    world.create(client, &new).unwrap();
    seal(&mut world, client, &new, id(1));
    let (_, Effect::Log(_, order)) = world.open[0].clone() else { panic!("it is logged") };
    assert_ne!(order.meta.created_ms, old.meta.created_ms);
    world.log.put(&order);
    let mut next = restart(world);
    next.open_log();
    assert_eq!(next.states(&[1, 5]), [ObjectState::Spilled, ObjectState::Sealed]);
    let client = next.connect(1);
    next.ask(client, Request::Get { ids: vec![id(1)] });
    assert_eq!(next.stat(client, 1).unwrap().created_ms, order.meta.created_ms);
    next.delete(client, 1);
    assert!(next.log.get(&id(1)).is_none());
}

#[test]
fn a_delete_that_was_not_acknowledged_may_come_back_and_one_that_was_does_not() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    for number in 1..=3 {
        world.create_and_seal(client, &Put::new(number, 100).durable()).unwrap();
    }
    assert_eq!(world.delete(client, 1), None);
    world.logs = None;
    delete(&mut world, client, 2);
    let mut next = restart(world);
    next.open_log();
    let expected = [ObjectState::Absent, ObjectState::Spilled, ObjectState::Sealed];
    assert_eq!(next.states(&[1, 2, 3]), expected);
}

#[test]
fn until_the_log_is_open_durable_objects_are_read_and_neither_put_nor_deleted() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    for number in 1..=3 {
        world.create_and_seal(client, &Put::new(number, 100).durable()).unwrap();
    }
    let mut next = restart(world);
    let client = next.connect(1);
    assert_eq!(next.states(&[1, 2, 3]), [ObjectState::Sealed; 3]);
    assert_eq!(next.delete(client, 1), Some(Code::Io));
    let put = Put::new(4, 100).durable();
    next.create(client, &put).unwrap();
    assert_eq!(next.seal_as(client, &put, id(4)).unwrap_err().code, Code::Io);
    // Another object cannot take the place of one that the log would bring back.
    let volatile = Put::new(6, 10);
    next.create(client, &volatile).unwrap();
    assert_eq!(next.seal_as(client, &volatile, id(2)).unwrap_err().code, Code::Io);
    next.open_log();
    assert_eq!(next.delete(client, 1), None);
    assert_eq!(next.seal(client, &put), Ok(()));
    assert_eq!(next.status().log.unwrap().objects, 3);
}

/// What a store that is taken over gave out while its log was away, and what was deleted there.
#[test]
fn a_log_that_opens_late_finds_other_objects_under_its_ids() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    for number in 1..=8 {
        world.create_and_seal(client, &Put::new(number, 200_000).durable()).unwrap();
    }
    assert_eq!(world.states(&[1, 2]), [ObjectState::Spilled; 2]);
    let mut next = restart(world);
    let client = next.connect(1);
    assert_eq!(next.states(&[1, 2]), [ObjectState::Absent; 2]);
    next.put(client, Put::new(1, 10)).unwrap();
    next.create(client, &Put::new(2, 10)).unwrap();
    assert_eq!(next.open_log(), [id(1)]);
    assert_eq!(next.states(&[1, 2]), [ObjectState::Sealed, ObjectState::Spilled]);
    assert!(next.log.get(&id(1)).is_none());
    assert_eq!(next.seal(client, &Put::new(2, 10)), Err(Code::AlreadySealed));
}

#[test]
fn a_log_that_fails_takes_nothing_more_and_is_read() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    for number in 1..=8 {
        world.create_and_seal(client, &Put::new(number, 200_000).durable()).unwrap();
    }
    world.logs = None;
    let put = Put::new(10, 100).durable();
    let sealing = create(&mut world, client, &put);
    let (ticket, _) = world.open.pop_front().unwrap();
    let failure = LogFailure { code: Code::Io, detail: "the disk said no".to_owned() };
    world.event(Event::Logged(ticket, Err(failure)));
    assert_eq!(code_of(world.answer_to(client, sealing)), Code::Io);
    world.create(client, &put).unwrap();
    let refused = world.seal_as(client, &put, id(10)).unwrap_err();
    assert_eq!(refused.code, Code::Io);
    // The reason, and what to do.
    let detail = &refused.detail;
    assert!(detail.contains(": the disk said no; `plasmon doctor`"), "{detail}");
    assert_eq!(world.delete(client, 8), Some(Code::Io));
    assert_eq!(world.state(8), ObjectState::Sealed, "what is not deleted is there");
    world.logs = Some(true);
    assert_eq!(world.state(1), ObjectState::Spilled);
    world.ask(client, Request::Get { ids: vec![id(1)] });
    assert_eq!(world.state(1), ObjectState::Sealed);
}

#[test]
fn a_delete_that_the_log_does_not_take_is_no_success() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 100).durable()).unwrap();
    world.logs = None;
    let asked = delete(&mut world, client, 1);
    let (ticket, _) = world.open.pop_front().unwrap();
    let failure = LogFailure { code: Code::Io, detail: "the disk said no".to_owned() };
    world.event(Event::Unlogged(ticket, Err(failure)));
    let outcome = Some(Reply::Outcomes(vec![Some(Code::Io)]));
    assert_eq!(world.answer_to(client, asked), outcome);
}

/// The daemon ends while an object is on its way to the log, and its client asks again.
#[test]
fn a_seal_that_a_daemon_took_with_it_is_asked_again() {
    for is_in_log in [true, false] {
        let mut world = world(1 << 20);
        world.logs = None;
        let client = world.connect(1);
        let put = Put::new(1, 300_000).durable();
        create(&mut world, client, &put);
        let (range, sizes) = world.store.creating(client, &id(1)).unwrap();
        let (_, Effect::Log(_, order)) = world.open[0].clone() else { panic!("it is logged") };
        if is_in_log {
            world.log.put(&order);
        }
        let mut next = restart_with(world, true);
        next.open_log();
        let client = next.connect(1);
        next.event(Event::Part(client));
        next.store.writer_back(range.extent, client);
        let creating = PendingObject { id: id(1), sizes, traits: put.traits, range, strict: false };
        next.event(Event::Resume(client, vec![], vec![creating]));
        let expected = if is_in_log { Err(Code::AlreadySealed) } else { Ok(()) };
        assert_eq!(next.seal(client, &put), expected);
        assert!(next.log.get(&id(1)).is_some());
    }
}
