//! Limits on what one client may own.

use plasmon_proto::Code;
use plasmon_proto::extent::Range;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::{Completion, Submission};

use super::{Put, World};
use crate::event::{ClientNo, Event, Peer};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

#[test]
fn a_quota_counts_objects_leases_and_what_is_being_created() {
    let mut world = World::new(Config { client_quota_bytes: MIB, ..Config::new(64 * MIB) });
    let (one, two) = (world.connect(1), world.connect(2));
    world.put(one, Put::new(1, MIB / 2)).unwrap();
    world.create(one, &Put::new(2, MIB / 4)).unwrap();
    let failure = world.create(one, &Put::new(3, MIB / 2)).unwrap_err();
    assert_eq!((failure.code, failure.wanted), (Code::QuotaExceeded, MIB / 2));
    assert_eq!(failure.found, MIB / 4);
    let lease = world.lease(one, MIB / 4).unwrap().range;
    assert_eq!(world.lease(one, 64).unwrap_err().code, Code::QuotaExceeded);
    assert_eq!(world.store.owned_bytes(one), MIB);
    // No other client is concerned.
    assert!(world.put(two, Put::new(4, MIB)).is_ok());
    assert_eq!(world.submit(one, Submission::LeaseReturn(lease)), Ok(()));
    assert!(world.lease(one, 64).is_ok());
    assert_eq!(world.delete(two, 1), None);
    assert_eq!(world.store.owned_bytes(one), MIB / 4 + 64);
}

#[test]
fn a_lease_grants_what_the_quota_leaves() {
    let mut world = World::new(Config { client_quota_bytes: 10_000, ..Config::new(64 * MIB) });
    let client = world.connect(1);
    let request = Request::Lease { bytes_min: 64, bytes_wanted: MIB };
    let Reply::Lease(granted) = world.ask(client, request) else { panic!("no lease") };
    assert_eq!(granted.range.bytes, 10_000 / 64 * 64);
}

#[test]
fn a_client_may_tighten_its_quota_but_not_loosen_the_owners() {
    for (default, asked, left) in
        [(0, 0, u64::MAX), (0, 500, 500), (1000, 0, 1000), (1000, 500, 500), (1000, 5000, 1000)]
    {
        let mut world = World::new(Config { client_quota_bytes: default, ..Config::new(MIB) });
        let client = world.connect(1);
        world.ask(client, Request::Quota { bytes: asked });
        assert_eq!(world.store.sessions.clients.quota_left(client), left);
    }
}

/// A process got its whole quota again with every new connection: 46 MB of 4.
#[test]
fn a_process_that_connects_again_is_still_charged_for_what_it_left() {
    let connect = |world: &mut World, number: u32, pid: u32, uid: u32| {
        let access = plasmon_proto::message::Access::ReadWrite;
        let peer = Peer { pid, uid, name: String::new(), access, channel: true, session: 1 };
        world.event(Event::Connect(ClientNo(number), peer));
        ClientNo(number)
    };
    let config = Config { client_quota_bytes: MIB, owner_uid: Some(1), ..Config::new(64 * MIB) };
    let mut world = World::new(config);
    let first = connect(&mut world, 1, 100, 1);
    world.put(first, Put::new(1, MIB / 2)).unwrap();
    world.lease(first, MIB / 4).unwrap();
    world.create(first, &Put::new(2, MIB / 8)).unwrap();
    world.disconnect(first);
    // Its lease and what it was creating are gone, its object is not.
    let again = connect(&mut world, 1, 100, 1);
    let beside = connect(&mut world, 2, 100, 1);
    let failure = world.create(again, &Put::new(3, 3 * MIB / 4)).unwrap_err();
    assert_eq!((failure.code, failure.found), (Code::QuotaExceeded, MIB / 2));
    world.put(beside, Put::new(4, MIB / 4)).unwrap();
    assert_eq!(world.create(again, &Put::new(3, MIB / 2)).unwrap_err().found, MIB / 4);
    // Another process has its own quota, the processes of another user have one together.
    let other = connect(&mut world, 3, 200, 1);
    assert_eq!(world.create(other, &Put::new(5, MIB)).map(drop), Ok(()));
    let foreign = connect(&mut world, 4, 300, 2);
    world.put(foreign, Put::new(6, MIB)).unwrap();
    let foreign = connect(&mut world, 5, 301, 2);
    assert_eq!(world.lease(foreign, 64).unwrap_err().code, Code::QuotaExceeded);
    // What is deleted is charged no more.
    assert_eq!(world.delete(other, 1), None);
    assert_eq!(world.create(again, &Put::new(3, 3 * MIB / 4)).map(drop), Ok(()));
}

/// A client that came back could name all free memory as its own, whatever its quota.
#[test]
fn a_client_that_comes_back_gets_no_more_than_its_quota() {
    let mut world = World::new(Config { client_quota_bytes: MIB, ..Config::new(64 * MIB) });
    let client = world.connect(1);
    let lease = world.lease(client, MIB).unwrap().range;
    world.event(Event::Part(client));
    assert_eq!(world.store.owned_bytes(client), MIB, "it stays charged");
    let whole = Range { offset: 0, bytes: 4 * MIB, ..lease };
    world.event(Event::Resume(client, vec![whole, lease, lease], vec![]));
    assert_eq!(world.store.owned_bytes(client), MIB);
    assert_eq!(world.lease(client, 64).unwrap_err().code, Code::QuotaExceeded);
    world.disconnect(client);
    let client = world.connect(2);
    world.event(Event::Resume(client, vec![lease], vec![]));
    assert_eq!(world.store.owned_bytes(client), 0, "nothing was lent to it");
}

#[test]
fn a_ring_has_one_lease_on_its_way() {
    let mut world = World::with_capacity(64 * MIB);
    let client = world.connect(1);
    world.reserve = None;
    let wanted = Submission::LeaseWanted { bytes_min: 64, bytes_wanted: 1 << 40 };
    assert_eq!(world.submit(client, wanted), Ok(()));
    assert_eq!(world.submit(client, wanted), Err(Code::LimitReached));
    world.settle(true);
    let lease = world.effects.iter().find_map(|effect| match effect {
        Effect::Complete(to, Completion::Lease { position: 1, range }) if *to == client => {
            Some(*range)
        }
        _ => None,
    });
    assert_eq!(lease.unwrap().bytes, MIB, "a sixty-fourth of the capacity");
    assert_eq!(world.submit(client, wanted), Ok(()));
    world.settle(false);
    world.settle(false);
    world.settle(false);
    let refused = Completion::Refused {
        position: 3,
        code: Code::StoreFull,
        id: plasmon_proto::ObjectId::new([0; 20]),
    };
    assert!(world.effects.contains(&Effect::Complete(client, refused)));
    assert_eq!(world.store.owned_bytes(client), MIB);
}
