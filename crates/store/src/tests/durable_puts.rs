//! Durable objects that are put by one request, from memory leased to their client.

use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::message::{Failure, PendingObject, Reply, Request};
use plasmon_proto::object::Sizes;
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState, ring};

use super::durable::{restart_with, world};
use super::{Put, World, id};
use crate::event::{ClientNo, Event, LogFailure};
use crate::{Config, Effect};

/// Leases memory and asks for a put from there; where that is, and the number of the request.
fn put_as(world: &mut World, client: ClientNo, put: &Put, target: ObjectId) -> (Range, u64) {
    let bytes = put.sizes.footprint().unwrap();
    let granted = world.lease(client, bytes).unwrap();
    let range = Range { bytes, ..granted.range };
    (range, ask(world, client, put, target, range.placement()))
}

fn ask(
    world: &mut World,
    client: ClientNo,
    put: &Put,
    target: ObjectId,
    placement: Placement,
) -> u64 {
    let attributes = Ok(put.attributes.clone());
    ask_with(world, client, (put, target), placement, attributes)
}

fn ask_with(
    world: &mut World,
    client: ClientNo,
    (put, target): (&Put, ObjectId),
    placement: Placement,
    attributes: Result<Attributes, Failure>,
) -> u64 {
    world.next_number += 1;
    let number = (1 << 41) + world.next_number;
    let put = ring::Put { id: put.id, placement, sizes: put.sizes, traits: put.traits };
    world.event(Event::PutDurable(client, number, put, target, attributes));
    number
}

fn put(world: &mut World, client: ClientNo, put: &Put) -> (Range, u64) {
    put_as(world, client, put, put.id)
}

fn failure_of(world: &World, client: ClientNo, number: u64) -> Failure {
    match world.answer_to(client, number) {
        Some(Reply::Failed(failure)) => failure,
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn one_request_puts_an_object_that_is_seen_when_it_is_in_the_log() {
    let mut world = world(1 << 20);
    world.logs = None;
    let client = world.connect(1);
    let reader = world.connect(2);
    let (ids, timeout_ms) = (vec![id(1)], None);
    let waits = world.send(reader, Request::Wait { ids, count: 1, timeout_ms, beyond_end: false });
    let named = Attributes { name: Name::new("n", "x").ok(), ..Attributes::default() };
    let object = Put::new(1, 100).with(named).durable();
    let (range, number) = put(&mut world, client, &object);
    assert_eq!((world.answer_to(client, number), world.state(1)), (None, ObjectState::Creating));
    world.settle(true);
    assert_eq!(world.answer_to(client, number), Some(Reply::Done));
    assert!(world.answer_to(reader, waits).is_some(), "it is told to those that wait");
    let entry = world.store.objects.find(&id(1)).unwrap();
    assert_eq!((entry.range, entry.meta.sizes), (range, object.sizes));
    assert_eq!(world.log.get(&id(1)).unwrap().1.attributes, object.attributes);
    assert_eq!((world.status().creating, world.status().used_bytes), (0, range.bytes));
    world.logs = Some(true);
    assert_eq!(world.delete(client, 1), None);
}

/// Whatever the answer is, the memory is not the client's any more.
#[test]
fn a_put_that_is_refused_leaves_nothing() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    world.put(client, Put::new(5, 10)).unwrap();
    let ids = vec![id(2)];
    assert_eq!(world.ask(client, Request::Scope { scope: 1, ids, again: false }), Reply::Done);
    let pooled = Put { id: ObjectId::pooled([7; 12], None), ..Put::new(0, 10).durable() };
    let cases = [
        (Put::new(1, 100).owned().durable(), Code::Unsupported, "owned"),
        (Put::new(2, 100).durable(), Code::Unsupported, "scope"),
        (Put::new(3, 100).of(&[5]).durable(), Code::Unsupported, "not durable"),
        (Put::new(4, 100), Code::BadRequest, "durable"),
        (Put::new(5, 100).durable(), Code::Exists, ""),
        (pooled, Code::Unsupported, "pool"),
    ];
    let before = (world.status().used_bytes, world.status().leased_bytes);
    for (object, code, word) in cases {
        let (_, number) = put(&mut world, client, &object);
        let refused = failure_of(&world, client, number);
        assert_eq!(refused.code, code, "{word}");
        assert!(refused.detail.contains(word), "{}", refused.detail);
        assert_eq!((refused.id, world.status().creating), (Some(object.id), 0), "{word}");
        let after = (world.status().used_bytes, world.status().leased_bytes);
        assert_eq!(after, before, "{word}");
    }
    let object = Put::new(6, 100).durable();
    let granted = world.lease(client, 256).unwrap();
    let why = Failure::of(Code::LimitReached);
    let placement = granted.range.placement();
    let number = ask_with(&mut world, client, (&object, id(6)), placement, Err(why));
    assert_eq!(failure_of(&world, client, number).code, Code::LimitReached);
    world.logs = Some(false);
    let (_, number) = put(&mut world, client, &object);
    assert_eq!(failure_of(&world, client, number).code, Code::StoreFull);
    assert_eq!(world.state(6), ObjectState::Absent);
    world.logs = Some(true);
    let (_, number) = put(&mut world, client, &object);
    assert_eq!(world.answer_to(client, number), Some(Reply::Done));
}

#[test]
fn a_store_without_a_log_and_one_whose_log_failed_refuse() {
    let mut without = World::new(Config::new(1 << 20));
    let client = without.connect(1);
    let (_, number) = put(&mut without, client, &Put::new(1, 100).durable());
    let refused = failure_of(&without, client, number);
    assert_eq!(refused.code, Code::Unsupported);
    assert!(refused.detail.contains("--durable-dir"), "{}", refused.detail);

    let mut failed = world(1 << 20);
    failed.logs = None;
    let client = failed.connect(1);
    let (_, number) = put(&mut failed, client, &Put::new(1, 100).durable());
    let (ticket, _) = failed.open.pop_front().unwrap();
    let failure = LogFailure { code: Code::Io, detail: "the disk said no".to_owned() };
    failed.event(Event::Logged(ticket, Err(failure)));
    assert_eq!(failure_of(&failed, client, number).code, Code::Io);
    let (_, number) = put(&mut failed, client, &Put::new(2, 100).durable());
    let detail = failure_of(&failed, client, number).detail;
    assert!(detail.contains(": the disk said no; `plasmon doctor`"), "{detail}");
    assert_eq!(failed.status().creating, 0);
}

#[test]
fn what_is_not_leased_to_a_client_it_cannot_put() {
    let mut world = world(1 << 20);
    let (client, other) = (world.connect(1), world.connect(2));
    let foreign = world.lease(other, 4096).unwrap().range;
    let own = world.lease(client, 128).unwrap().range;
    world.put(other, Put::new(9, 100)).unwrap();
    let sealed = world.store.objects.find(&id(9)).unwrap().range;
    let object = Put::new(1, 100).durable();
    let places = [
        ("another's lease", foreign.placement()),
        ("another's object", sealed.placement()),
        ("beyond its lease", Placement { offset: own.offset + own.bytes, ..own.placement() }),
        (
            "the last of its lease",
            Placement { offset: own.offset + own.bytes - 64, ..own.placement() },
        ),
        ("no extent", Placement { extent: ExtentId::new(777, 1), offset: 0 }),
        ("past every extent", Placement { offset: u64::MAX - 63, ..own.placement() }),
    ];
    let leased = world.status().leased_bytes;
    for (what, placement) in places {
        let number = ask(&mut world, client, &object, id(1), placement);
        assert_eq!(failure_of(&world, client, number).code, Code::BadRequest, "{what}");
        assert_eq!(world.status().leased_bytes, leased, "{what}");
    }
    let huge = Put { sizes: Sizes { data: 1 << 63, ..Sizes::default() }, ..object.clone() };
    let number = ask(&mut world, client, &huge, id(1), own.placement());
    assert_eq!(failure_of(&world, client, number).code, Code::TooLarge);
    assert_eq!((world.state(1), world.state(9)), (ObjectState::Absent, ObjectState::Sealed));
}

#[test]
fn it_replaces_an_object_in_one_step() {
    let mut world = world(1 << 20);
    let client = world.connect(1);
    let (_, first) = put(&mut world, client, &Put::new(1, 100).durable());
    assert_eq!(world.answer_to(client, first), Some(Reply::Done));
    world.logs = None;
    let (range, number) = put_as(&mut world, client, &Put::new(2, 50).durable(), id(1));
    assert_eq!(world.stat(client, 1).unwrap().sizes.data, 100, "the old one until then");
    let (_, rival) = put_as(&mut world, client, &Put::new(3, 5).durable(), id(1));
    assert_eq!(failure_of(&world, client, rival).code, Code::Exists);
    world.settle(true);
    assert_eq!(world.answer_to(client, number), Some(Reply::Done));
    assert_eq!(world.store.objects.find(&id(1)).unwrap().range, range);
    assert_eq!(world.states(&[2, 3]), [ObjectState::Absent; 2]);
    assert!(world.open.is_empty(), "the record before needs no end");
}

#[test]
fn a_client_that_ends_meanwhile_changes_nothing() {
    for done in [true, false] {
        let mut world = world(1 << 20);
        world.logs = None;
        let client = world.connect(1);
        put(&mut world, client, &Put::new(1, 100).durable());
        world.disconnect(client);
        world.pass(1000);
        world.settle(done);
        let state = if done { ObjectState::Sealed } else { ObjectState::CreatorDied };
        assert_eq!(world.state(1), state);
    }
}

/// The connection breaks at each moment, and the client asks again on the next one.
#[test]
fn a_request_that_is_asked_again_is_done_once() {
    let object = Put::new(1, 100).durable();
    let (sizes, traits) = (object.sizes, object.traits);
    for moment in ["unread", "on its way", "done"] {
        let mut world = world(1 << 20);
        world.logs = None;
        let client = world.connect(1);
        let bytes = sizes.footprint().unwrap();
        let range = Range { bytes, ..world.lease(client, bytes).unwrap().range };
        if moment != "unread" {
            ask(&mut world, client, &object, id(1), range.placement());
        }
        if moment == "done" {
            world.settle(true);
        }
        world.event(Event::Part(client));
        let creating = PendingObject { id: id(1), sizes, traits, range, strict: false };
        world.event(Event::Resume(client, vec![], vec![creating]));
        world.pass(100);
        let again = ask(&mut world, client, &object, id(1), range.placement());
        if moment != "done" {
            assert_eq!(world.answer_to(client, again), None, "{moment}");
            world.settle(true);
        }
        assert_eq!(world.answer_to(client, again), Some(Reply::Done), "{moment}");
        assert_eq!(world.store.objects.find(&id(1)).unwrap().range, range, "{moment}");
        assert!(world.open.is_empty(), "it is logged once: {moment}");
        // It was deleted since: nothing puts it again.
        world.logs = Some(true);
        assert_eq!(world.delete(client, 1), None);
        let late = ask(&mut world, client, &object, id(1), range.placement());
        assert_eq!(failure_of(&world, client, late).code, Code::BadRequest, "{moment}");
    }
}

/// The daemon is killed at each moment.
#[test]
fn a_request_that_a_daemon_took_with_it_is_asked_again() {
    let object = Put::new(2, 100).durable();
    let (sizes, traits) = (object.sizes, object.traits);
    for replaces in [false, true] {
        for moment in ["before the log", "in the log", "in the index"] {
            let mut world = world(1 << 20);
            let client = world.connect(1);
            put(&mut world, client, &Put::new(1, 70).durable());
            world.logs = None;
            let target = if replaces { id(1) } else { id(2) };
            let (range, _) = put_as(&mut world, client, &object, target);
            let (_, Effect::Log(_, order)) = world.open[0].clone() else { panic!("it is logged") };
            match moment {
                "in the log" => drop(world.log.put(&order)),
                "in the index" => world.settle(true),
                _ => {}
            }
            let mut next = restart_with(world, true);
            next.open_log();
            let client = next.connect(1);
            next.event(Event::Part(client));
            next.store.writer_back(range.extent, client);
            let creating = PendingObject { id: id(2), sizes, traits, range, strict: false };
            next.event(Event::Resume(client, vec![], vec![creating]));
            let again = ask(&mut next, client, &object, target, range.placement());
            match (moment, replaces) {
                // Whose object that is, no daemon knows any more.
                ("in the log", false) => {
                    assert_eq!(failure_of(&next, client, again).code, Code::Exists);
                }
                _ => assert_eq!(next.answer_to(client, again), Some(Reply::Done), "{moment}"),
            }
            assert_eq!(next.log.get(&target).unwrap().1.meta.sizes, sizes, "{moment}");
            assert!(next.stat(client, if replaces { 1 } else { 2 }).unwrap().durable);
        }
    }
}

/// A daemon that takes over keeps what a client had leased. Memory that was on its way to the log
/// is no lease any more, and must be kept as well: the client names it, and asks again.
#[test]
fn memory_on_its_way_to_the_log_is_noted_for_the_next_daemon() {
    let mut world = world(1 << 20);
    world.logs = None;
    let client = world.connect(1);
    let lease = world.lease(client, 4096).unwrap().range;
    let object = Put::new(1, 100).durable();
    ask(&mut world, client, &object, id(1), lease.placement());
    let bytes = object.sizes.footprint().unwrap();
    let rest = Range { offset: lease.offset + bytes, bytes: lease.bytes - bytes, ..lease };
    world.submit(client, ring::Submission::LeaseReturn(rest)).unwrap();
    let lent = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Lent(range) if range.extent == lease.extent => Some(*range),
        _ => None,
    });
    let lent = lent.expect("what is lent is noted");
    assert!(lent.offset <= lease.offset && lease.offset + bytes <= lent.offset + lent.bytes);
}
