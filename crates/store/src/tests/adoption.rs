//! Namespaces that end with the client that adopted them.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Attributes, Code, Name, ObjectState};

use super::{Put, World};
use crate::adoption::{ADOPTED_PER_CLIENT_MAX, ENDED_MAX};
use crate::event::ClientNo;
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

use ObjectState::{Absent, Deleted, Sealed, Spilled};

fn adopt(world: &mut World, client: ClientNo, namespace: &str, max: u64) -> Result<(), Code> {
    let request = Request::Adopt { namespace: namespace.to_owned(), bytes_max: max };
    match world.ask(client, request) {
        Reply::Done => Ok(()),
        Reply::Failed(failure) => Err(failure.code),
        other => panic!("{other:?} is no answer to an adoption"),
    }
}

fn named(number: u64, data: u64, namespace: &str) -> Put {
    let name = Name::new(namespace, number.to_string()).ok();
    Put::new(number, data).with(Attributes { name, ..Attributes::default() })
}

#[test]
fn objects_named_in_it_are_deleted_with_its_parent_and_no_others() {
    let mut world = World::with_capacity(64 * MIB);
    let (driver, executor) = (world.connect(1), world.connect(2));
    world.put(executor, named(1, 1000, "app")).unwrap();
    adopt(&mut world, driver, "app", 0).unwrap();
    world.put(executor, named(2, 1000, "app")).unwrap();
    world.create_and_seal(executor, &named(3, MIB, "app")).unwrap();
    world.put(executor, named(4, 1000, "other")).unwrap();
    world.put(executor, Put::new(5, 1000)).unwrap();
    world.disconnect(executor);
    assert_eq!(world.states(&[1, 2, 3]), [Sealed; 3]);
    world.disconnect(driver);
    assert_eq!(world.states(&[1, 2, 3, 4, 5]), [Deleted, Deleted, Deleted, Sealed, Sealed]);
}

#[test]
fn a_late_writer_leaves_nothing() {
    let mut world = World::with_capacity(64 * MIB);
    let (driver, executor) = (world.connect(1), world.connect(2));
    adopt(&mut world, driver, "app", 0).unwrap();
    world.create(executor, &named(1, 1000, "app")).unwrap();
    world.disconnect(driver);
    assert_eq!(world.seal(executor, &named(1, 1000, "app")), Err(Code::Cancelled));
    assert_eq!(world.put(executor, named(2, 1000, "app")), Err(Code::Cancelled));
    assert_eq!(world.state(2), Absent);
    world.put(executor, named(3, 1000, "other")).unwrap();
    // A client that adopts it again opens it again.
    adopt(&mut world, executor, "app", 0).unwrap();
    world.put(executor, named(2, 1000, "app")).unwrap();
    assert_eq!(world.states(&[2, 3]), [Sealed; 2]);
}

#[test]
fn what_a_reader_still_pins_is_hidden_and_freed_later() {
    let mut world = World::with_capacity(64 * MIB);
    let (driver, executor) = (world.connect(1), world.connect(2));
    adopt(&mut world, driver, "app", 0).unwrap();
    world.put(executor, named(1, 1000, "app")).unwrap();
    let pin = world.pin(1);
    world.disconnect(driver);
    assert_eq!(world.state(1), Deleted);
    assert_eq!(world.status().lingering, 1);
    world.unpin(pin);
    world.pass(100);
    assert_eq!(world.status().lingering, 0);
}

#[test]
fn what_was_spilled_goes_too() {
    let config = Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) };
    let mut world = World::new(config);
    let (driver, executor) = (world.connect(1), world.connect(2));
    adopt(&mut world, driver, "app", 0).unwrap();
    for number in 0..6 {
        world.create_and_seal(executor, &named(number, MIB, "app")).unwrap();
    }
    assert_eq!(world.states(&[0, 5]), [Spilled, Sealed]);
    world.disconnect(driver);
    assert_eq!(world.states(&[0, 1, 2, 3, 4, 5]), [Deleted; 6]);
    assert_eq!((world.status().used_bytes, world.status().spilled_bytes), (0, 0));
    assert!(world.tier.is_empty());
}

#[test]
fn members_follow_the_composite_that_holds_them() {
    let mut world = World::with_capacity(64 * MIB);
    let (driver, executor) = (world.connect(1), world.connect(2));
    adopt(&mut world, driver, "app", 0).unwrap();
    world.put(executor, named(1, 1000, "app")).unwrap();
    let name = Name::new("app", "whole").ok();
    let members = vec![super::id(1)];
    let whole = Put::new(2, 10).with(Attributes { name, members, ..Attributes::default() });
    world.put(executor, whole).unwrap();
    world.disconnect(driver);
    assert_eq!(world.states(&[1, 2]), [Deleted; 2]);
}

#[test]
fn a_limit_counts_what_all_clients_have_in_it_in_memory_and_spilled() {
    let config = Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) };
    let mut world = World::new(config);
    let clients = [1, 2, 3].map(|number| world.connect(number));
    adopt(&mut world, clients[0], "app", 6 * MIB).unwrap();
    for number in 0..6 {
        let client = clients[1 + number as usize % 2];
        world.create_and_seal(client, &named(number, MIB, "app")).unwrap();
    }
    assert_eq!(world.state(0), Spilled);
    let refused = world.create_and_seal(clients[1], &named(6, 1, "app"));
    assert_eq!(refused, Err(Code::QuotaExceeded));
    assert_eq!(world.put(clients[2], named(7, 1, "app")), Err(Code::QuotaExceeded));
    world.disconnect(clients[1]);
    world.disconnect(clients[2]);
    let status = world.status();
    assert_eq!((status.objects + status.spilled, status.creating, status.leased_bytes), (6, 0, 0));
    let client = world.connect(4);
    world.put(client, named(8, 1, "other")).unwrap();
    // What is deleted makes room, wherever it is.
    for number in [0, 5] {
        assert_eq!(world.delete(client, number), None);
        world.create_and_seal(client, &named(10 + number, MIB, "app")).unwrap();
    }
    assert_eq!(world.put(client, named(9, 1, "app")), Err(Code::QuotaExceeded));
    adopt(&mut world, clients[0], "app", 0).unwrap();
    world.put(client, named(9, 1, "app")).unwrap();
}

#[test]
fn a_strict_object_is_looked_at_again_when_the_kernel_has_answered() {
    let mut world = World::with_capacity(64 * MIB);
    let (driver, executor) = (world.connect(1), world.connect(2));
    adopt(&mut world, driver, "app", 0).unwrap();
    let put = named(1, 1000, "app");
    let request =
        Request::Create { id: put.id, sizes: put.sizes, traits: put.traits, strict: true };
    world.ask(executor, request);
    world.harden = None;
    let sealing = crate::event::SealTarget { id: put.id, target: put.id };
    let event = crate::Event::Seal(executor, 99, sealing, Some(put.attributes));
    world.event(event);
    world.disconnect(driver);
    world.settle(true);
    let failed = world.effects.iter().any(|effect| {
        matches!(effect, Effect::Reply(to, 99, Reply::Failed(failure))
            if *to == executor && failure.code == Code::Cancelled)
    });
    assert!(failed);
}

#[test]
fn a_namespace_has_one_parent_and_a_client_few_namespaces() {
    let mut world = World::with_capacity(MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    assert_eq!(adopt(&mut world, one, "", 0), Err(Code::BadRequest));
    adopt(&mut world, one, "app", 0).unwrap();
    assert_eq!(adopt(&mut world, two, "app", 0), Err(Code::Exists));
    for number in 1..ADOPTED_PER_CLIENT_MAX {
        adopt(&mut world, one, &format!("{number}"), 0).unwrap();
    }
    assert_eq!(adopt(&mut world, one, "more", 0), Err(Code::LimitReached));
    adopt(&mut world, two, "more", 0).unwrap();
    world.disconnect(one);
    adopt(&mut world, two, "app", 0).unwrap();
    let reader = world.connect_as(3, plasmon_proto::message::Access::ReadOnly);
    assert_eq!(adopt(&mut world, reader, "mine", 0), Err(Code::NotPermitted));
}

#[test]
fn the_oldest_of_the_ended_are_forgotten_at_the_limit() {
    let mut world = World::with_capacity(MIB);
    for number in 0..=ENDED_MAX {
        let client = world.connect(1);
        adopt(&mut world, client, &format!("app {number}"), 0).unwrap();
        world.disconnect(client);
    }
    let client = world.connect(1);
    world.put(client, named(1, 10, "app 0")).unwrap();
    assert_eq!(world.put(client, named(2, 10, "app 1")), Err(Code::Cancelled));
}
