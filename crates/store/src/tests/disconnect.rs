//! Connections that break while their processes live.
//!
//! A lease went back to the store as soon as its client's connection broke, and was given to the
//! next that asked. The client did not know yet and went on writing: at level shared into objects
//! that others had sealed there since.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{MissingClaims, PendingObject, Reply, Request};
use plasmon_proto::object::{Level, Traits};
use plasmon_proto::ring::{Completion, Submission};
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id, sizes};
use crate::event::{ClientNo, Event};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

fn overlap(one: &Range, other: &Range) -> bool {
    one.extent == other.extent
        && one.offset < other.offset + other.bytes
        && other.offset < one.offset + one.bytes
}

/// All memory that can be leased, as the ranges that come.
fn lease_everything(world: &mut World, client: ClientNo) -> Vec<Range> {
    let wanted = Request::Lease { bytes_min: 4096, bytes_wanted: 64 * 1024 };
    let mut leased = Vec::new();
    while let Reply::Lease(granted) = world.ask(client, wanted.clone()) {
        leased.push(granted.range);
    }
    leased
}

fn come_back(
    world: &mut World,
    client: ClientNo,
    leases: Vec<Range>,
    creating: Vec<PendingObject>,
) -> MissingClaims {
    world.event(Event::Resume(client, leases, creating));
    let report = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Resumed(to, lost) if *to == client => Some(lost.clone()),
        _ => None,
    });
    report.expect("it is told what is left")
}

fn creating(number: u64, bytes: u64, range: Range) -> PendingObject {
    let (sizes, traits) = (sizes(bytes), Traits::default());
    PendingObject { id: id(number), sizes, traits, range, strict: false }
}

#[test]
fn a_lease_of_a_broken_connection_is_given_to_no_other() {
    for level in [Level::Shared, Level::Leased] {
        let mut world = World::new(Config { level, ..Config::new(4 * MIB) });
        let (writer, other) = (world.connect(1), world.connect(2));
        let lease = world.lease(writer, 64 << 10).unwrap().range;
        let own = world.create(writer, &Put::new(1, 2 * MIB)).unwrap().range;
        assert!(world.store.is_lent_to(writer));
        world.event(Event::Part(writer));
        assert_eq!(world.status().away_bytes, lease.bytes + own.bytes);
        let others = lease_everything(&mut world, other);
        assert!(!others.is_empty());
        let is_own = |range: &&Range| overlap(range, &lease) || overlap(range, &own);
        assert_eq!(others.iter().find(is_own), None, "{level:?}");
        assert_eq!(world.state(1), ObjectState::Creating, "its creator may come back");

        // It comes back, finds everything as it was, and goes on.
        let lost = come_back(&mut world, writer, vec![lease], vec![creating(1, 2 * MIB, own)]);
        assert_eq!((lost, world.status().away_bytes), (MissingClaims::default(), 0));
        assert_eq!(world.put_at(writer, Put::new(2, 64), lease), Ok(()));
        assert_eq!(world.seal(writer, &Put::new(1, 2 * MIB)), Ok(()));
    }
}

#[test]
fn what_a_client_does_not_name_when_it_comes_back_is_free() {
    let mut world = World::with_capacity(4 * MIB);
    let (writer, other) = (world.connect(1), world.connect(2));
    let lease = world.lease(writer, 64 << 10).unwrap().range;
    world.create(writer, &Put::new(1, 2 * MIB)).unwrap();
    world.create(writer, &Put::new(2, MIB)).unwrap();
    world.submit(writer, Submission::Announce { id: id(3) }).unwrap();
    let waiting = Request::Wait { ids: vec![id(1)], count: 0, timeout_ms: None, beyond_end: false };
    let waiting = world.send(other, waiting);
    world.event(Event::Part(writer));
    assert_eq!(world.answer_to(other, waiting), None);
    let rest = Range { offset: lease.offset + 4096, bytes: 4096, ..lease };
    let lost = come_back(&mut world, writer, vec![rest], vec![]);
    assert_eq!(lost, MissingClaims::default());
    assert_eq!(world.status().leased_bytes, 4096);
    let died = Reply::States(vec![ObjectState::CreatorDied]);
    assert_eq!(world.answer_to(other, waiting), Some(died));
    assert_eq!(
        world.states(&[1, 2, 3]),
        [
            ObjectState::CreatorDied,
            ObjectState::CreatorDied,
            // What it announced it aborts itself.
            ObjectState::Creating,
        ]
    );
    let freed = Range { bytes: 64, ..lease };
    assert_eq!(world.put_at(writer, Put::new(4, 64), freed), Err(Code::BadRequest));
    assert_eq!(world.put_at(writer, Put::new(3, 64), rest), Ok(()));
}

#[test]
fn memory_that_is_not_the_clients_is_lost_to_it() {
    let mut world = World::with_capacity(4 * MIB);
    let (writer, other) = (world.connect(1), world.connect(2));
    let lease = world.lease(writer, 8192).unwrap().range;
    let theirs = world.lease(other, 8192).unwrap().range;
    world.event(Event::Part(writer));
    let beyond = Range { bytes: lease.bytes + 64, ..lease };
    let object = creating(9, 64, Range { bytes: 64, ..theirs });
    let lost = come_back(&mut world, writer, vec![theirs, beyond], vec![object]);
    assert_eq!(lost, MissingClaims { leases: vec![theirs, beyond], creating: vec![id(9)] });
    // What it has of a range stays its own all the same: it may be writing there.
    assert_eq!(world.put_at(writer, Put::new(1, 64), lease), Ok(()));
    assert_eq!(world.put_at(writer, Put::new(2, 64), theirs), Err(Code::BadRequest));
    assert_eq!(world.put_at(other, Put::new(3, 64), theirs), Ok(()));
}

#[test]
fn the_ring_of_a_client_that_is_away_goes_on_and_leases_nothing() {
    let mut world = World::with_capacity(4 * MIB);
    let writer = world.connect(1);
    let lease = world.lease(writer, 8192).unwrap().range;
    world.event(Event::Part(writer));
    assert_eq!(world.put_at(writer, Put::new(1, 64), lease), Ok(()));
    let wanted = Submission::LeaseWanted { bytes_min: 64, bytes_wanted: 64 };
    assert_eq!(world.submit(writer, wanted), Err(Code::Cancelled));
    let rest = Range { offset: lease.offset + 64, bytes: 8192 - 64, ..lease };
    assert_eq!(come_back(&mut world, writer, vec![rest], vec![]), MissingClaims::default());
    assert_eq!(world.submit(writer, wanted), Ok(()));
}

/// A grant that was on its way when the connection broke: the client asks again, under the same
/// number, and would have taken the first answer for the second.
#[test]
fn what_was_asked_on_a_broken_connection_is_answered_no_more() {
    let mut world = World::with_capacity(64 * MIB);
    let writer = world.connect(1);
    world.reserve = None;
    world.send(writer, Request::Lease { bytes_min: 64, bytes_wanted: 64 });
    world.submit(writer, Submission::LeaseWanted { bytes_min: 64, bytes_wanted: 64 }).unwrap();
    let sized =
        Request::Create { id: id(1), sizes: sizes(MIB), traits: Traits::default(), strict: false };
    world.send(writer, sized.clone());
    world.event(Event::Part(writer));
    assert_eq!(come_back(&mut world, writer, vec![], vec![]), MissingClaims::default());
    let again = world.send(writer, sized);
    let from = world.effects.len();
    while !world.open.is_empty() {
        world.settle(true);
    }
    let answers = world.effects[from..].iter().filter(|effect| {
        matches!(effect, Effect::Reply(..) | Effect::Lease(..))
            || matches!(effect, Effect::Complete(_, Completion::Lease { .. }))
    });
    assert_eq!(answers.count(), 0, "nothing but the object is answered");
    assert!(matches!(world.answer_to(writer, again), Some(Reply::Created(_))));
    assert_eq!(world.status().leased_bytes, 0);
}

#[test]
fn a_growing_object_outlives_a_broken_connection() {
    let mut world = World::with_capacity(64 * MIB);
    let writer = world.connect(1);
    let traits = Traits::default();
    let begin = Request::CreateGrowing { id: id(1), traits, bytes: 65_536, open_ended: false };
    let Reply::Created(granted) = world.ask(writer, begin) else { panic!("it is created") };
    world.reserve = None;
    let grow = Request::Grow { id: id(1), bytes: 2 * 65_536 };
    world.send(writer, grow.clone());
    world.event(Event::Part(writer));
    assert_eq!(world.status().away_bytes, 65_536);
    let named = PendingObject { sizes: sizes(0), ..creating(1, 0, granted.range) };
    assert_eq!(come_back(&mut world, writer, vec![], vec![named]), MissingClaims::default());
    // What was asked for comes on the new connection.
    let again = world.send(writer, grow);
    world.settle(true);
    assert_eq!(world.answer_to(writer, again), Some(Reply::Grown { bytes: 2 * 65_536 }));
    // The same with its seal.
    world.harden = None;
    let seal = Request::SealGrown { id: id(1), data: 70_000 };
    let first = world.send(writer, seal.clone());
    world.event(Event::Part(writer));
    let named = PendingObject { sizes: sizes(0), ..creating(1, 0, granted.range) };
    assert_eq!(come_back(&mut world, writer, vec![], vec![named]), MissingClaims::default());
    let again = world.send(writer, seal);
    world.settle(true);
    assert_eq!(world.answer_to(writer, first), None);
    assert_eq!(world.answer_to(writer, again), Some(Reply::Done));
    assert_eq!(world.state(1), ObjectState::Sealed);
}

#[test]
fn a_client_that_is_gone_leaves_nothing_in_doubt() {
    // By the end of its process, an exec, or a goodbye: the daemon tells them apart.
    let mut world = World::with_capacity(4 * MIB);
    let (writer, other) = (world.connect(1), world.connect(2));
    world.lease(writer, 64 << 10).unwrap();
    world.create(writer, &Put::new(1, MIB)).unwrap();
    let begin = Request::CreateGrowing {
        id: id(2),
        traits: Traits::default(),
        bytes: 65_536,
        open_ended: false,
    };
    world.ask(writer, begin);
    world.event(Event::Part(writer));
    world.event(Event::Part(writer));
    world.disconnect(writer);
    let status = world.status();
    assert_eq!((status.away_bytes, status.leased_bytes, status.used_bytes), (0, 0, 0));
    assert_eq!(world.states(&[1, 2]), [ObjectState::CreatorDied; 2]);
    assert!(!lease_everything(&mut world, other).is_empty());
    assert!(!world.store.is_lent_to(writer));
    world.event(Event::Resume(writer, vec![], vec![]));
}

#[test]
fn nothing_is_lent_to_a_client_that_has_sealed_and_returned_everything() {
    let mut world = World::with_capacity(4 * MIB);
    let writer = world.connect(1);
    let lease = world.lease(writer, 128).unwrap().range;
    world.put_at(writer, Put::new(1, 64), lease).unwrap();
    assert!(world.store.is_lent_to(writer));
    let rest = Range { offset: lease.offset + 64, bytes: 64, ..lease };
    world.submit(writer, Submission::LeaseReturn(rest)).unwrap();
    assert!(!world.store.is_lent_to(writer));
    world.create(writer, &Put::new(2, MIB)).unwrap();
    assert!(world.store.is_lent_to(writer));
    world.seal(writer, &Put::new(2, MIB)).unwrap();
    assert!(!world.store.is_lent_to(writer));
}

/// Tens of thousands of small leases ended in one event.
#[test]
fn the_leases_of_a_client_that_is_gone_end_in_pieces() {
    let mut world = World::with_capacity(64 * MIB);
    let writer = world.connect(1);
    let lease = world.lease(writer, MIB).unwrap().range;
    let pieces = 3 * crate::work::PIECE as u64;
    for piece in 0..pieces {
        let at = Range { offset: lease.offset + piece * 128, bytes: 64, ..lease };
        world.submit(writer, Submission::LeaseReturn(at)).unwrap();
    }
    let mut effects = Vec::new();
    world.store.step(world.now_ms, Event::Disconnect(writer), &mut effects);
    let mut steps = 1;
    while world.store.has_work() {
        let before = world.store.space.memory.charged_bytes();
        world.store.step(world.now_ms, Event::Tick, &mut effects);
        let ended = before - world.store.space.memory.charged_bytes();
        assert!(ended <= lease.bytes && steps < 100);
        steps += 1;
    }
    assert!(steps >= 3, "{steps} events for {pieces} pieces");
    world.store.check();
    let status = world.status();
    assert_eq!((status.leased_bytes, status.used_bytes), (0, 0));
}
