//! Limits, at each and past it.

use plasmon_proto::Code;
use plasmon_proto::extent::Range;
use plasmon_proto::limits::PINS_PER_CLIENT_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::Submission;

use super::{Put, World, id};
use crate::Effect;
use crate::construction::CREATING_PER_CLIENT_MAX;
use crate::event::Event;
use crate::memory::LEASE_PIECES_MAX;

const MIB: u64 = 1 << 20;

#[test]
fn objects_that_one_client_may_be_creating() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let mut effects = Vec::new();
    for number in 0..CREATING_PER_CLIENT_MAX as u64 {
        let announce = Submission::Announce { id: id(number) };
        world.store.step(world.now_ms, Event::Submit(one, number, announce, None), &mut effects);
    }
    assert_eq!(effects, []);
    let next = Submission::Announce { id: id(u64::MAX) };
    assert_eq!(world.submit(one, next), Err(Code::LimitReached));
    assert_eq!(world.create(one, &Put::new(u64::MAX, 1)).unwrap_err().code, Code::LimitReached);
    assert_eq!(world.submit(two, next), Ok(()));
    assert_eq!(world.submit(one, Submission::Abort { id: id(5) }), Ok(()));
    assert_eq!(world.submit(one, Submission::Announce { id: id(5) }), Ok(()));
    world.disconnect(one);
    assert_eq!(world.status().creating, 1);
}

#[test]
fn pins_that_the_store_counts_for_one_client() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.put(client, Put::new(1, 10)).unwrap();
    let batch = 1024;
    assert_eq!(PINS_PER_CLIENT_MAX % batch, 0);
    let mut effects = Vec::new();
    for number in 0..(PINS_PER_CLIENT_MAX / batch) as u64 {
        effects.clear();
        let get = Request::Get { ids: vec![id(1); batch] };
        world.store.step(world.now_ms, Event::Request(client, number, get), &mut effects);
        assert!(matches!(effects[..], [Effect::Reply(_, _, Reply::Located(_))]));
    }
    let get = Request::Get { ids: vec![id(1)] };
    assert_eq!(world.ask_for_failure(client, get.clone()).code, Code::TooManyPins);
    let serial = world.store.objects.find(&id(1)).unwrap().serial;
    assert_eq!(world.ask(client, Request::Release { serials: vec![serial] }), Reply::Done);
    assert!(matches!(world.ask(client, get), Reply::Located(_)));
}

/// A client carves every second unit of a huge lease, so that the daemon must remember each rest.
#[test]
fn a_client_that_crumbles_its_leases_is_expelled() {
    let mut world = World::with_capacity(64 * MIB);
    let client = world.connect(1);
    let lease = world.lease(client, 16 * MIB).unwrap().range;
    let mut effects = Vec::new();
    for piece in 0..LEASE_PIECES_MAX as u64 {
        let range = Range { offset: lease.offset + (2 * piece + 1) * 64, bytes: 64, ..lease };
        let submission = Submission::LeaseReturn(range);
        world.store.step(world.now_ms, Event::Submit(client, 0, submission, None), &mut effects);
        if piece < LEASE_PIECES_MAX as u64 - 1 {
            assert_eq!(effects, [], "{piece}");
        }
    }
    assert!(matches!(effects[0], Effect::Expel(expelled, _) if expelled == client));
    world.disconnect(client);
    assert_eq!(world.status().leased_bytes, 0);
    assert_eq!(world.status().expelled_total, 1);
}

/// Many waiters for one object were once found by walking past each other.
#[test]
fn a_crowd_that_waits_for_one_object_is_answered() {
    let mut world = World::with_capacity(16 * MIB);
    let mut effects = Vec::new();
    let clients: Vec<_> = (0..40).map(|number| world.connect(number)).collect();
    for client in &clients {
        for number in 0..1000 {
            let ids = vec![id(1)];
            let wait = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: false };
            world.store.step(world.now_ms, Event::Request(*client, number, wait), &mut effects);
        }
    }
    assert_eq!((effects.len(), world.status().waits), (0, 40_000));
    world.put(clients[0], Put::new(1, 10)).unwrap();
    let answers = world.effects.iter().filter(
        |effect| matches!(effect, Effect::Reply(_, _, Reply::States(states)) if states.len() == 1),
    );
    assert_eq!((answers.count(), world.status().waits), (40_000, 0));
}
