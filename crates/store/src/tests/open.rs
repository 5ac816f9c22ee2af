//! Spilled objects that clients read in their files.
//!
//! A reader of one section of a spilled object had to have all of it brought back: 400 readers of
//! 20 KB each moved 8 MB 400 times.

use plasmon_proto::limits::OPENINGS_PER_CLIENT_MAX;
use plasmon_proto::message::{Access, Reply, Request};
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id, sizes};
use crate::event::{ClientNo, Event, OpenedFile};
use crate::{Config, Effect};

const MIB: u64 = 1 << 20;

use ObjectState::{Absent, Corrupt, Deleted, Sealed, Spilled};

const CLIENT: ClientNo = ClientNo(1);

/// Five objects in a store for four: the first is spilled.
fn world() -> World {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..Config::new(4 * MIB) });
    world.connect(1);
    for number in 0..5 {
        world.create_and_seal(CLIENT, &Put::new(number, MIB)).unwrap();
    }
    assert_eq!(world.state(0), Spilled);
    world
}

fn open(number: u64) -> Request {
    Request::OpenSpilled { id: id(number) }
}

#[test]
fn the_file_of_a_spilled_object_is_opened_and_the_object_stays_where_it_is() {
    let mut world = world();
    let reader = world.connect_as(2, Access::ReadOnly);
    let before = world.status();
    let Reply::SpillFile(file) = world.ask(reader, open(0)) else { panic!("no file") };
    assert_eq!((file.offset, file.sizes), (100, sizes(MIB)));
    assert!(world.tier.contains_key(&file.serial));
    assert_eq!(world.states(&[0, 1, 2, 3, 4]), [Spilled, Sealed, Sealed, Sealed, Sealed]);
    assert_eq!(world.status(), before);
}

#[test]
fn what_is_not_spilled_is_reported() {
    let mut world = world();
    assert_eq!(world.ask(CLIENT, open(1)), Reply::States(vec![Sealed]));
    assert_eq!(world.ask(CLIENT, open(9)), Reply::States(vec![Absent]));
    assert_eq!(world.delete(CLIENT, 0), None);
    assert_eq!(world.ask(CLIENT, open(0)), Reply::States(vec![Deleted]));
}

#[test]
fn an_object_that_ends_or_comes_back_while_its_file_is_opened_is_given_all_the_same() {
    let mut world = world();
    world.restore = None;
    let first = world.send(CLIENT, open(0));
    let wait = Request::Wait { ids: vec![id(0)], count: 0, timeout_ms: None, beyond_end: false };
    world.send(CLIENT, wait);
    world.settle_at(1, true);
    assert_eq!(world.state(0), Sealed);
    world.settle(true);
    assert!(matches!(world.answer_to(CLIENT, first), Some(Reply::SpillFile(_))));
    assert_eq!(world.state(1), Spilled);
    let second = world.send(CLIENT, open(1));
    assert_eq!(world.delete(CLIENT, 1), None);
    world.settle(true);
    assert!(matches!(world.answer_to(CLIENT, second), Some(Reply::SpillFile(_))));
}

#[test]
fn a_file_that_cannot_be_opened_is_tried_again_and_a_wrong_one_is_corrupt() {
    let mut world = world();
    world.restore = Some(false);
    let failure = world.ask_for_failure(CLIENT, open(0));
    assert_eq!((failure.code, failure.id), (Code::Io, Some(id(0))));
    assert_eq!(world.state(0), Spilled);
    world.restore = None;
    let number = world.send(CLIENT, open(0));
    let (ticket, _) = world.open.pop_front().unwrap();
    world.event(Event::Opened(ticket, OpenedFile::Corrupt));
    assert_eq!(world.answer_to(CLIENT, number), Some(Reply::States(vec![Corrupt])));
    assert_eq!(world.state(0), Corrupt);
    assert_eq!(world.delete(CLIENT, 0), None);
}

#[test]
fn a_client_has_so_many_files_opened_at_once_and_others_have_theirs() {
    let mut world = world();
    let two = world.connect(2);
    world.restore = None;
    for _ in 0..OPENINGS_PER_CLIENT_MAX {
        world.send(CLIENT, open(0));
    }
    assert_eq!(world.ask_for_failure(CLIENT, open(0)).code, Code::LimitReached);
    world.send(two, open(0));
    world.settle(true);
    world.send(CLIENT, open(0));
    assert_eq!(world.open.len(), OPENINGS_PER_CLIENT_MAX + 1);
    // What was opened for a client that is gone is given to no other of its number.
    world.disconnect(CLIENT);
    world.connect(1);
    let before = world.effects.len();
    while !world.open.is_empty() {
        world.settle(true);
    }
    let given = |effect: &&Effect| matches!(effect, Effect::Opened(..));
    assert_eq!(world.effects[before..].iter().filter(given).count(), 1, "that of the other one");
}
