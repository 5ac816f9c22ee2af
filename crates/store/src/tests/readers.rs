//! Clients without a ledger, listings and descriptions.

use std::collections::BTreeSet;

use plasmon_proto::limits::LIST_PAGE_MAX;
use plasmon_proto::message::{Filter, Reply, Request};
use plasmon_proto::object::ObjectInfo;
use plasmon_proto::ring::Submission;
use plasmon_proto::{Attributes, Code, Name, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::event::ClientNo;

const MIB: u64 = 1 << 20;

fn get(world: &mut World, client: ClientNo, numbers: &[u64]) -> Vec<Result<u64, ObjectState>> {
    let ids = numbers.iter().map(|number| id(*number)).collect();
    match world.ask(client, Request::Get { ids }) {
        Reply::Located(found) => found.into_iter().map(|it| it.map(|it| it.serial)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_get_pins_until_each_release_and_to_the_end_of_its_client() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    world.put(one, Put::new(1, 100).cache()).unwrap();
    let serial = get(&mut world, one, &[1, 1, 2])[0].unwrap();
    assert_eq!(get(&mut world, two, &[1])[0], Ok(serial));
    assert_eq!(world.stat(one, 1).unwrap().pins, 3);
    let release = Request::Release { serials: vec![serial] };
    assert_eq!(world.delete(one, 1), None);
    assert_eq!(world.ask(one, release.clone()), Reply::Done);
    assert_eq!(world.status().lingering, 1);
    assert_eq!(world.ask(one, release.clone()), Reply::Done);
    assert_eq!(world.ask_for_failure(one, release.clone()).code, Code::BadRequest);
    assert_eq!(world.status().lingering, 1);
    world.disconnect(two);
    assert_eq!((world.status().lingering, world.status().used_bytes), (0, 0));
    assert_eq!(
        get(&mut world, one, &[1, 9]),
        [Err(ObjectState::Deleted), Err(ObjectState::Absent)]
    );
}

/// Every page of a listing.
fn list(world: &mut World, client: ClientNo, filter: &Filter, limit: u32) -> Vec<ObjectInfo> {
    let mut all = Vec::new();
    let mut cursor = 0;
    loop {
        let request = Request::List { filter: filter.clone(), cursor, limit };
        let Reply::Page(infos, next) = world.ask(client, request) else { panic!("no page") };
        assert!(infos.len() <= LIST_PAGE_MAX.min(limit.max(1) as usize));
        all.extend(infos);
        match next {
            Some(next) => cursor = next,
            None => return all,
        }
    }
}

#[test]
fn a_listing_shows_everything_once_whatever_the_size_of_its_pages() {
    let mut world = World::new(Config { spill_bytes_max: Some(MIB), ..Config::new(16 * MIB) });
    let client = world.connect(1);
    for number in 0..300 {
        let name = Name::new(if number % 2 == 0 { "even" } else { "odd" }, format!("{number}"));
        let attributes = Attributes { name: Some(name.unwrap()), ..Attributes::default() };
        world.put(client, Put::new(number, 100).with(attributes)).unwrap();
    }
    world.submit(client, Submission::Announce { id: id(300) }).unwrap();
    world.create(client, &Put::new(301, 100)).unwrap();
    world.put(client, Put::new(302, 1000)).unwrap();
    let oldest = world.store.objects.records.oldest(crate::records::List::Keep).next().unwrap();
    let entry = world.store.objects.entry(oldest);
    world.store.start_spill(&entry);
    for (ticket, order) in
        world.store.out.drain(..).collect::<Vec<_>>().into_iter().map(|effect| match effect {
            crate::Effect::Spill(ticket, order) => (ticket, order),
            other => panic!("{other:?}"),
        })
    {
        world.tier.insert(order.serial, order.id);
        world.event(crate::Event::Spilled(ticket, true));
    }
    for limit in [0, 1, 7, 128, u32::MAX] {
        let all = list(&mut world, client, &Filter::default(), limit);
        let ids: BTreeSet<_> = all.iter().map(|info| info.id).collect();
        assert_eq!((all.len(), ids.len()), (303, 303), "{limit}");
        let count = |state| all.iter().filter(|info| info.state == state).count();
        assert_eq!(count(ObjectState::Creating), 2);
        assert_eq!(count(ObjectState::Spilled), 1);
        let even = Filter { namespace: Some("even".to_owned()), prefix: Some("1".to_owned()) };
        let expected = (0..300).filter(|number| number % 2 == 0);
        let expected = expected.filter(|number: &u64| number.to_string().starts_with('1')).count();
        assert_eq!(list(&mut world, client, &even, limit).len(), expected);
    }
}

#[test]
fn hostile_cursors_end_in_an_error_or_in_nothing() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.put(client, Put::new(1, 10)).unwrap();
    for cursor in [1 << 40, (1 << 62) - 1, 1 << 62, (1 << 62) + 77, 2 << 62, u64::MAX - (1 << 62)] {
        let request = Request::List { filter: Filter::default(), cursor, limit: 10 };
        assert_eq!(world.ask(client, request), Reply::Page(vec![], None), "{cursor:x}");
    }
    let request = Request::List { filter: Filter::default(), cursor: 3 << 62, limit: 10 };
    assert_eq!(world.ask_for_failure(client, request).code, Code::BadRequest);
}

#[test]
fn a_description_follows_the_life() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let stat = |world: &mut World| world.stat(client, 1).map(|info| info.state);
    assert_eq!(stat(&mut world), None);
    world.create(client, &Put::new(1, 100)).unwrap();
    assert_eq!(stat(&mut world), Some(ObjectState::Creating));
    world.seal(client, &Put::new(1, 100)).unwrap();
    assert_eq!(stat(&mut world), Some(ObjectState::Sealed));
    world.delete(client, 1);
    assert_eq!(stat(&mut world), Some(ObjectState::Deleted));
    let reply = world.ask(client, Request::States { ids: vec![id(1), id(2)] });
    assert_eq!(reply, Reply::States(vec![ObjectState::Deleted, ObjectState::Absent]));
}
