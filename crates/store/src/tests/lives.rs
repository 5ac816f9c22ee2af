//! The life of an object: announce, put, create, seal, abort, delete.

use plasmon_proto::extent::Range;
use plasmon_proto::limits::{METADATA_BYTES_MAX, OBJECT_BYTES_MAX};
use plasmon_proto::message::{Access, Filter, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{self, Submission};
use plasmon_proto::{Attributes, Code, Name, ObjectState};

use super::{Put, World, id, sizes};
use crate::Effect;
use crate::deletes::RETRY_MS_MAX;
use crate::event::{Event, SealTarget};

const MIB: u64 = 1 << 20;

#[test]
fn a_put_into_leased_memory_is_there_and_gone_after_its_delete() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let range = world.put(client, Put::new(1, 1000)).unwrap();
    assert_eq!(world.state(1), ObjectState::Sealed);
    assert_eq!(range.bytes, 1024);
    assert_eq!(world.store.owned_bytes(client), 1024);
    assert_eq!(world.delete(client, 1), None);
    assert_eq!(world.state(1), ObjectState::Deleted);
    assert_eq!(world.delete(client, 1), Some(Code::Absent));
    assert_eq!(world.store.owned_bytes(client), 0);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn objects_are_carved_from_any_part_of_a_lease_but_only_once() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let lease = world.lease(client, 4096).unwrap().range;
    let at = |offset| Range { offset: lease.offset + offset, ..lease };
    assert_eq!(world.put_at(client, Put::new(1, 64), at(1024)), Ok(()));
    assert_eq!(world.put_at(client, Put::new(2, 64), at(0)), Ok(()));
    assert_eq!(world.put_at(client, Put::new(3, 128), at(4096 - 128)), Ok(()));
    for (offset, data) in [(1024, 64), (960, 128), (0, 64), (4096 - 64, 64), (4032, 128), (4096, 1)]
    {
        let put = Put::new(9, data);
        assert_eq!(world.put_at(client, put, at(offset)), Err(Code::BadRequest), "{offset}");
    }
    assert_eq!(world.put_at(client, Put::new(4, 960 - 64), at(64)), Ok(()));
    let status = world.status();
    assert_eq!((status.objects, status.used_bytes), (4, 64 + 64 + 128 + 896));
    assert_eq!(status.leased_bytes, 4096 - status.used_bytes);
}

#[test]
fn a_put_into_memory_of_another_client_is_refused() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let lease = world.lease(one, 4096).unwrap().range;
    assert_eq!(world.put_at(two, Put::new(1, 64), lease), Err(Code::BadRequest));
    assert_eq!(world.submit(two, Submission::LeaseReturn(lease)), Err(Code::BadRequest));
    assert_eq!(world.state(1), ObjectState::Absent);
    assert_eq!(world.put_at(one, Put::new(1, 64), lease), Ok(()));
}

#[test]
fn an_id_is_given_once() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    assert_eq!(world.submit(one, Submission::Announce { id: id(1) }), Ok(()));
    assert_eq!(world.state(1), ObjectState::Creating);
    assert_eq!(world.submit(two, Submission::Announce { id: id(1) }), Err(Code::Exists));
    assert_eq!(world.submit(one, Submission::Announce { id: id(1) }), Err(Code::Exists));
    assert_eq!(world.put(two, Put::new(1, 100)), Err(Code::Exists));
    assert_eq!(world.create(two, &Put::new(1, 100)).unwrap_err().code, Code::Exists);
    // What was refused gave its memory back.
    assert_eq!(world.status().used_bytes + world.status().leased_bytes, 0);
    assert_eq!(world.store.owned_bytes(two), 0);
    assert!(world.put(one, Put::new(1, 100)).is_ok());
    assert_eq!(world.put(one, Put::new(1, 100)), Err(Code::Exists));
    assert_eq!(world.submit(two, Submission::Announce { id: id(1) }), Err(Code::Exists));
    assert_eq!(world.create(two, &Put::new(1, 100)).unwrap_err().code, Code::Exists);
    assert_eq!(world.status().objects, 1);
}

/// A daemon can die after it published an object and before it moved the ring's head; the record
/// then arrives again, and refusing it would tell its client that an object is not there which is.
#[test]
fn the_same_put_twice_is_one_put() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let range = world.put(client, Put::new(1, 100)).unwrap();
    let before = world.status();
    assert_eq!(world.put_at(client, Put::new(1, 100), range), Ok(()));
    assert_eq!(world.status(), before);
}

#[test]
fn a_put_with_unreadable_attributes_or_absent_members_is_refused_and_costs_nothing() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let lease = world.lease(client, 4096).unwrap().range;
    let Put { id, sizes, traits, .. } = Put::new(1, 10);
    let placement = lease.placement();
    let submission = Submission::Put(ring::Put { id, placement, sizes, traits });
    assert_eq!(world.submit_with(client, submission, None), Err(Code::BadRequest));
    let long = Attributes {
        name: Some(Name { namespace: String::new(), text: String::new() }),
        ..Attributes::default()
    };
    let at = Range { offset: lease.offset + 64, ..lease };
    assert_eq!(world.put_at(client, Put::new(1, 10).with(long), at), Err(Code::BadRequest));
    let at = Range { offset: lease.offset + 128, ..lease };
    assert_eq!(world.put_at(client, Put::new(1, 10).of(&[7]), at), Err(Code::Absent));
    assert_eq!(world.state(1), ObjectState::Absent);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn an_announced_object_that_is_refused_is_not_creating_any_more() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    assert_eq!(world.submit(client, Submission::Announce { id: id(1) }), Ok(()));
    assert_eq!(world.put(client, Put::new(1, 10).of(&[7])), Err(Code::Absent));
    assert_eq!(world.state(1), ObjectState::Absent);
    assert_eq!(world.submit(client, Submission::Announce { id: id(1) }), Ok(()));
    assert_eq!(world.submit(client, Submission::Abort { id: id(1) }), Ok(()));
    assert_eq!(world.state(1), ObjectState::Absent);
    assert_eq!(world.submit(client, Submission::Abort { id: id(1) }), Err(Code::Absent));
}

#[test]
fn create_and_seal_and_their_refusals() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let put = Put::new(1, 5000);
    assert_eq!(world.seal(one, &put), Err(Code::Absent));
    let granted = world.create(one, &put).unwrap();
    assert_eq!(granted.range.bytes, 5056);
    assert_eq!(world.store.creating(one, &put.id), Some((granted.range, put.sizes)));
    assert_eq!(world.store.creating(two, &put.id), None);
    assert_eq!(world.seal(two, &put), Err(Code::NotOwner));
    assert_eq!(world.delete(two, 1), Some(Code::NotOwner));
    world.now_ms += 30;
    assert_eq!(world.seal(one, &put), Ok(()));
    assert_eq!(world.seal(one, &put), Err(Code::AlreadySealed));
    assert_eq!(world.seal(two, &put), Err(Code::AlreadySealed));
    let info = world.store.stat(&put.id).unwrap();
    assert_eq!((info.construct_ms, info.creator_pid), (30, 101));
    assert_eq!(world.delete(two, 1), None);
    assert_eq!(world.seal(one, &put), Err(Code::Absent));
}

#[test]
fn an_abort_gives_everything_back() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    for data in [100, 8 * MIB] {
        let put = Put::new(1, data);
        world.create(one, &put).unwrap();
        assert!(world.store.owned_bytes(one) >= data);
        let abort = Request::Abort { id: put.id };
        assert_eq!(world.ask_for_failure(two, abort.clone()).code, Code::NotOwner);
        assert_eq!(world.ask(one, abort.clone()), Reply::Done);
        assert_eq!(world.ask_for_failure(one, abort).code, Code::Absent);
        assert_eq!(world.store.owned_bytes(one), 0);
        assert_eq!(world.status().used_bytes, 0);
        // The creator's delete does the same.
        world.create(one, &put).unwrap();
        assert_eq!(world.delete(one, 1), None);
        assert_eq!(world.state(1), ObjectState::Absent);
    }
}

#[test]
fn an_abort_while_memory_is_looked_for_answers_the_create_too() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.reserve = None;
    let create =
        Request::Create { id: id(1), sizes: sizes(10), traits: Traits::default(), strict: false };
    let number = world.send(client, create);
    assert_eq!(world.state(1), ObjectState::Creating);
    assert_eq!(world.ask(client, Request::Abort { id: id(1) }), Reply::Done);
    assert_eq!(world.answer_to(client, number), None);
    world.settle(true);
    let answer = world.answer_to(client, number);
    assert!(matches!(answer, Some(Reply::Failed(it)) if it.code == Code::Cancelled));
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn sizes_at_and_past_the_capacity() {
    // Not a multiple of pages, and one that is.
    for capacity in [10_000, 8192, 3 * MIB, 40 * MIB] {
        let mut world = World::with_capacity(capacity);
        let client = world.connect(1);
        let named = Attributes { name: Some(Name::new("", "x").unwrap()), ..Attributes::default() };
        for round in 0..3 {
            let full = Put::new(round, capacity).with(named.clone());
            assert_eq!(world.create_and_seal(client, &full), Ok(()), "{capacity}, {round}");
            let more = Put::new(9, capacity.min(9000));
            assert_eq!(world.create(client, &more).unwrap_err().code, Code::StoreFull);
            assert_eq!(world.delete(client, round), None);
        }
        for data in [capacity + 1, capacity + 9000, OBJECT_BYTES_MAX + 1, 1 << 63, u64::MAX] {
            let failure = world.create(client, &Put::new(7, data)).unwrap_err();
            assert_eq!(failure.code, Code::TooLarge, "{data}");
            assert_eq!((failure.id, failure.wanted), (Some(id(7)), data));
            assert_eq!(world.state(7), ObjectState::Absent);
        }
        let wide = Sizes { metadata: METADATA_BYTES_MAX + 1, ..Sizes::default() };
        let failure = world.create(client, &Put { sizes: wide, ..Put::new(7, 0) }).unwrap_err();
        assert_eq!(failure.code, Code::TooLarge);
        for (number, data) in [(20, 0), (21, 1)] {
            assert_eq!(world.create_and_seal(client, &Put::new(number, data)), Ok(()));
            assert!(world.put(client, Put::new(number + 10, data)).is_ok());
        }
    }
}

#[test]
fn leases_at_and_past_the_capacity() {
    let mut world = World::with_capacity(3 * MIB);
    let client = world.connect(1);
    for _ in 0..3 {
        let lease = world.lease(client, 3 * MIB).unwrap().range;
        assert_eq!(world.lease(client, 1).unwrap_err().code, Code::StoreFull);
        assert_eq!(world.put_at(client, Put::new(1, 3 * MIB), lease), Ok(()));
        assert_eq!(world.delete(client, 1), None);
    }
    for bytes in [3 * MIB + 1, 1 << 63, u64::MAX] {
        assert_eq!(world.lease(client, bytes).unwrap_err().code, Code::TooLarge, "{bytes}");
    }
}

#[test]
fn a_hundred_equal_objects_fill_a_store_to_the_last_byte() {
    let mut world = World::with_capacity(100_000_000);
    let client = world.connect(1);
    for number in 0..100 {
        let put = Put::new(number, 1_000_000).cache();
        assert!(world.put(client, put).is_ok(), "{number}");
    }
    assert_eq!(world.status().evicted_total, 0);
    assert!(world.put(client, Put::new(100, 1_000_000).cache()).is_ok());
    assert!((1..=2).contains(&world.status().evicted_total));
    assert_eq!(world.state(0), ObjectState::Evicted);
}

#[test]
fn a_deleted_object_stays_for_its_readers_and_its_id_is_free_at_once() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let first = world.put(client, Put::new(1, 100)).unwrap();
    let serial = world.pin(1);
    assert_eq!(world.delete(client, 1), None);
    assert_eq!(world.state(1), ObjectState::Deleted);
    let second = world.put(client, Put::new(1, 100)).unwrap();
    assert_ne!(first, second, "the readers' memory was given away");
    assert_eq!(world.status().lingering, 1);
    let due = world.store.next_deadline().expect("the pins are looked at again");
    assert!(due > world.now_ms && due <= world.now_ms + 20);
    world.pass(20);
    assert_eq!(world.status().lingering, 1);
    world.unpin(serial);
    world.pass(20);
    assert_eq!((world.status().lingering, world.status().used_bytes), (0, 128));
    assert_eq!(world.store.next_deadline(), None);
}

#[test]
fn a_delete_through_the_ring_is_seen_at_once_and_freed_at_the_next_tick() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in 0..3 {
        world.put(client, Put::new(number, 100)).unwrap();
        assert_eq!(world.submit(client, Submission::Delete { id: id(number) }), Ok(()));
        assert_eq!(world.state(number), ObjectState::Deleted);
    }
    assert_eq!(world.submit(client, Submission::Delete { id: id(1) }), Err(Code::Absent));
    assert_eq!(world.store.next_deadline(), Some(world.now_ms));
    world.pass(0);
    assert_eq!((world.status().lingering, world.status().used_bytes), (0, 0));
}

/// Each delete put the look for what had been found pinned off. With one delete after another,
/// memory that no client read any more was not free until there was none left.
#[test]
fn deletes_do_not_put_off_the_look_for_what_was_pinned() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in [1, 2] {
        world.put(client, Put::new(number, 1000)).unwrap();
    }
    let serial = world.pin(1);
    assert_eq!(world.delete(client, 1), None);
    world.pass(20);
    assert_eq!(world.status().lingering, 1);
    world.unpin(serial);
    let before_ms = world.now_ms;
    while world.status().lingering > 0 {
        world.put(client, Put::new(3, 1000)).unwrap();
        assert_eq!(world.delete(client, 3), None);
        world.pass(10);
        assert!(world.now_ms <= before_ms + RETRY_MS_MAX, "it is looked for after a while");
    }
    assert_eq!(world.status().used_bytes, 1024);
}

#[test]
fn one_request_may_name_an_object_twice() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.put(client, Put::new(1, 100)).unwrap();
    let reply = world.ask(client, Request::Delete { ids: vec![id(1), id(1), id(2)] });
    assert_eq!(reply, Reply::Outcomes(vec![None, Some(Code::Absent), Some(Code::Absent)]));
}

#[test]
fn a_time_to_live_ends_an_object_on_time() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let ttl = |ttl_ms| Attributes { ttl_ms: Some(ttl_ms), ..Attributes::default() };
    world.put(client, Put::new(1, 100).with(ttl(50))).unwrap();
    world.create_and_seal(client, &Put::new(2, 100).with(ttl(70))).unwrap();
    world.put(client, Put::new(3, 100).with(ttl(u64::MAX))).unwrap();
    assert_eq!(world.store.next_deadline(), Some(world.now_ms + 50));
    world.pass(49);
    assert_eq!(world.state(1), ObjectState::Sealed);
    world.pass(1);
    assert_eq!(
        world.states(&[1, 2, 3]),
        [ObjectState::Deleted, ObjectState::Sealed, ObjectState::Sealed]
    );
    assert_eq!(world.delete(client, 2), None);
    // The dead one's time does not end its successor.
    world.put(client, Put::new(2, 100)).unwrap();
    world.pass(1000);
    assert_eq!(world.state(2), ObjectState::Sealed);
    assert_eq!(world.store.next_deadline(), Some(u64::MAX));
}

#[test]
fn a_dead_clients_unsealed_objects_die_and_its_sealed_ones_stay() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    world.put(one, Put::new(1, 100)).unwrap();
    world.submit(one, Submission::Announce { id: id(2) }).unwrap();
    world.create(one, &Put::new(3, 100)).unwrap();
    world.create(one, &Put::new(4, 8 * MIB)).unwrap();
    world.lease(one, 4096).unwrap();
    world.disconnect(one);
    let died = ObjectState::CreatorDied;
    assert_eq!(world.states(&[1, 2, 3, 4]), [ObjectState::Sealed, died, died, died]);
    let status = world.status();
    assert_eq!((status.used_bytes, status.leased_bytes, status.creating), (128, 0, 0));
    assert_eq!(world.store.stat(&id(1)).unwrap().creator_pid, 0);
    // The ids can be used again, and the successor of the number owns nothing.
    assert!(world.put(two, Put::new(2, 10)).is_ok());
    let one = world.connect(1);
    assert_eq!(world.store.owned_bytes(one), 0);
    assert_eq!(world.delete(one, 1), None);
    assert_eq!(world.store.owned_bytes(one), 0);
}

#[test]
fn who_may_only_read_changes_nothing() {
    let mut world = World::with_capacity(16 * MIB);
    let (writer, reader) = (world.connect(1), world.connect_as(2, Access::ReadOnly));
    world.put(writer, Put::new(1, 100)).unwrap();
    let (id, traits) = (id(1), Traits::default());
    for request in [
        Request::Lease { bytes_min: 1, bytes_wanted: 1 },
        Request::Create { id, sizes: sizes(1), traits, strict: false },
        Request::Seal { id },
        Request::Abort { id },
        Request::Delete { ids: vec![id] },
        Request::Evict { bytes: 1 },
        Request::Quota { bytes: 1 },
    ] {
        let failure = world.ask_for_failure(reader, request.clone());
        assert_eq!(failure.code, Code::NotPermitted, "{request:?}");
    }
    let extent = plasmon_proto::extent::ExtentId(0);
    let placement = plasmon_proto::extent::Placement { extent, offset: 0 };
    for submission in [
        Submission::Announce { id },
        Submission::Put(ring::Put { id, placement, sizes: sizes(1), traits }),
        Submission::Abort { id },
        Submission::Delete { id },
        Submission::LeaseWanted { bytes_min: 1, bytes_wanted: 1 },
        Submission::LeaseReturn(Range { extent, offset: 0, bytes: 64 }),
    ] {
        assert_eq!(world.submit(reader, submission), Err(Code::NotPermitted), "{submission:?}");
    }
    assert!(matches!(world.ask(reader, Request::Get { ids: vec![id] }), Reply::Located(_)));
    let filter = Filter::default();
    assert_eq!(world.ask(reader, Request::Subscribe { filter }), Reply::Done);
    assert_eq!(world.state(1), ObjectState::Sealed);
}

#[test]
fn requests_of_the_daemon_and_of_unknown_clients_are_harmless() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for request in [Request::Index, Request::Sync, Request::Shutdown, Request::Clients { skip: 0 }]
    {
        assert_eq!(world.ask_for_failure(client, request).code, Code::BadRequest);
    }
    let unknown = crate::event::ClientNo(77);
    let before = world.effects.len();
    world.send(unknown, Request::Status);
    world.event(Event::Seal(unknown, 1, SealTarget { id: id(1), target: id(1) }, None));
    world.event(Event::Disconnect(unknown));
    world.event(Event::Reserved(crate::event::Ticket(99), true));
    world.event(Event::Spilled(crate::event::Ticket(99), true));
    world.event(Event::Restored(crate::event::Ticket(99), crate::event::ReadBack::Done));
    world.event(Event::Hardened(crate::event::Ticket(99), true));
    world.event(Event::Touched(u32::MAX));
    assert_eq!(world.effects[before..], []);
}

#[test]
fn a_strict_object_is_sealed_by_the_kernel_first_and_its_memory_is_never_used_again() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.harden = None;
    let put = Put::new(1, 100);
    let Put { id, sizes, traits, .. } = put;
    let reply = world.ask(client, Request::Create { id, sizes, traits, strict: true });
    let Reply::Created(granted) = reply else { panic!("{reply:?}") };
    assert_eq!((granted.range.offset, granted.extent_bytes), (0, 4096));
    let seal = world.send(client, Request::Seal { id });
    assert_eq!(world.state(1), ObjectState::Creating);
    world.settle(false);
    let refused = world.answer_to(client, seal);
    assert!(matches!(refused, Some(Reply::Failed(it)) if it.code == Code::InUse));
    let seal = world.send(client, Request::Seal { id });
    world.settle(true);
    assert_eq!(world.answer_to(client, seal), Some(Reply::Done));
    assert_eq!(world.store.stat(&id).unwrap().level, plasmon_proto::object::Level::Strict);
    let before = world.effects.len();
    assert_eq!(world.delete(client, 1), None);
    assert!(world.effects[before..].contains(&Effect::Drop(granted.range.extent)));
}
