//! Eviction and what survives it.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::{Level, Sizes};
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id};
use crate::event::Event;
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

use ObjectState::{Evicted, Sealed};

#[test]
fn the_least_recently_used_goes_first_and_the_bytes_are_exact() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in 0..5 {
        let sizes = Sizes { data: 1000 + number, metadata: 7, attributes: 0 };
        world.put(client, Put { sizes, ..Put::new(number, 0).cache() }).unwrap();
    }
    world.put(client, Put::new(9, 1000)).unwrap();
    let touched = world.store.objects.find(&id(0)).unwrap().record;
    world.event(Event::Touched(touched));
    assert_eq!(world.evict(client, 1), (1008, 1));
    assert_eq!(world.state(1), Evicted);
    assert_eq!(world.evict(client, 1009 + 1), (1009 + 1010, 2));
    world.ask(client, Request::Touch { ids: vec![id(4), id(77)] });
    assert_eq!(world.evict(client, u64::MAX), (1007 + 1011, 2));
    assert_eq!(world.evict(client, u64::MAX), (0, 0));
    // Objects of the policy `keep` stay.
    assert_eq!(world.state(9), Sealed);
    assert_eq!(world.status().evicted_total, 5);
}

#[test]
fn demoted_objects_go_before_all_others_in_their_order() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in 0..5 {
        world.put(client, Put::new(number, 1000).cache()).unwrap();
    }
    world.put(client, Put::new(9, 1000)).unwrap();
    // One that is no candidate, and one that is not there, are passed over.
    world.ask(client, Request::Demote { ids: vec![id(4), id(77), id(3), id(9)] });
    assert_eq!(world.evict(client, 1), (1000, 1));
    assert_eq!(world.states(&[0, 3, 4]), [Sealed, Sealed, Evicted]);
    // One that is used again stays longest.
    world.ask(client, Request::Touch { ids: vec![id(3)] });
    assert_eq!(world.evict(client, 3000), (3000, 3));
    assert_eq!(world.states(&[0, 1, 2, 3, 9]), [Evicted, Evicted, Evicted, Sealed, Sealed]);
}

#[test]
fn empty_objects_go_along_and_nothing_goes_for_nothing() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for (number, data) in [(1, 0), (2, 100), (3, 0)] {
        world.put(client, Put::new(number, data).cache()).unwrap();
    }
    assert_eq!(world.evict(client, 0), (0, 0));
    assert_eq!(world.evict(client, 100), (100, 2));
    assert_eq!(world.states(&[1, 2, 3]), [Evicted, Evicted, Sealed]);
}

#[test]
fn what_is_pinned_stays_and_counts_as_used() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    for number in 0..4 {
        world.put(client, Put::new(number, 100).cache()).unwrap();
    }
    let serial = world.pin(0);
    let located = world.ask(client, Request::Get { ids: vec![id(1)] });
    let Reply::Located(located) = located else { panic!("{located:?}") };
    assert_eq!(world.evict(client, 1000), (200, 2));
    assert_eq!(world.states(&[0, 1, 2, 3]), [Sealed, Sealed, Evicted, Evicted]);
    world.unpin(serial);
    let location = located[0].as_ref().unwrap();
    world.ask(client, Request::Release { serials: vec![location.serial] });
    assert_eq!(world.evict(client, 1000), (200, 2));
}

#[test]
fn a_full_store_evicts_for_a_put_and_says_so_when_it_cannot() {
    let mut world = World::with_capacity(4 * MIB);
    let client = world.connect(1);
    for number in 0..4 {
        world.create_and_seal(client, &Put::new(number, MIB).cache()).unwrap();
    }
    let serials = [0, 1, 2].map(|number| world.pin(number));
    assert_eq!(world.create_and_seal(client, &Put::new(4, MIB)), Ok(()));
    assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Sealed, Sealed, Sealed, Evicted, Sealed]);
    let failure = world.create(client, &Put::new(5, MIB)).unwrap_err();
    assert_eq!((failure.code, failure.wanted, failure.found), (Code::StoreFull, MIB, 0));
    assert_eq!(world.states(&[0, 1, 2, 5]), [Sealed, Sealed, Sealed, ObjectState::Absent]);
    serials.into_iter().for_each(|serial| world.unpin(serial));
    assert_eq!(world.create_and_seal(client, &Put::new(5, 3 * MIB)), Ok(()));
}

#[test]
fn a_store_of_kept_objects_is_full() {
    let mut world = World::with_capacity(4 * MIB);
    let client = world.connect(1);
    world.create_and_seal(client, &Put::new(1, 4 * MIB)).unwrap();
    assert_eq!(world.lease(client, 64).unwrap_err().code, Code::StoreFull);
    assert_eq!(world.create(client, &Put::new(2, 1)).unwrap_err().code, Code::StoreFull);
    assert_eq!(world.state(1), Sealed);
    // What is deleted but read is not free either, until it is read no more.
    let serial = world.pin(1);
    assert_eq!(world.delete(client, 1), None);
    assert_eq!(world.create(client, &Put::new(2, 1)).unwrap_err().code, Code::StoreFull);
    world.unpin(serial);
    assert!(world.create(client, &Put::new(2, 1)).is_ok());
}

#[test]
fn a_stream_of_small_cached_objects_runs_through_a_full_store() {
    for level in [Level::Shared, Level::Leased] {
        let config = Config { level, ..Config::new(4 * MIB) };
        let mut world = World::new(config);
        let client = world.connect(1);
        for number in 0..20_000 {
            let range = world.put(client, Put::new(number, 1000).cache());
            assert!(range.is_ok(), "{level:?}, {number}: {range:?}");
            world.effects.clear();
            world.store.check_capacity();
        }
        assert_eq!(world.state(19_999), Sealed);
        assert_eq!(world.state(15_000), Evicted, "{level:?}");
        assert!(world.status().used_bytes > 3 * MIB, "the store is used, not emptied");
    }
}

#[test]
fn notices_tell_of_beginnings_and_ends_as_the_filter_says() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let named = |text: &str| plasmon_proto::Attributes {
        name: Some(plasmon_proto::Name::new("n", text).unwrap()),
        ..Default::default()
    };
    let filter = plasmon_proto::message::Filter { prefix: Some("a".to_owned()), namespace: None };
    world.ask(one, Request::Subscribe { filter: Default::default() });
    world.ask(two, Request::Subscribe { filter });
    world.put(one, Put::new(1, 10).cache().with(named("ab"))).unwrap();
    world.create_and_seal(one, &Put::new(2, 10).with(named("ba"))).unwrap();
    world.evict(one, 10);
    world.delete(one, 2);
    let deleted = ObjectState::Deleted;
    let all = [(id(1), Sealed), (id(2), Sealed), (id(1), Evicted), (id(2), deleted)];
    assert_eq!(world.notices(one), all);
    assert_eq!(world.notices(two), [(id(1), Sealed), (id(1), Evicted)]);
    assert_eq!(world.notices_in_full(one)[0].data_bytes, 10);
    world.ask(one, Request::Unsubscribe);
    world.put(one, Put::new(3, 10)).unwrap();
    assert_eq!(world.notices(one).len(), 4);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Expel(..))));
}
