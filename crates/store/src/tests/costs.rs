//! What one event costs, in objects and in looks through the ledgers: never more than a piece of
//! the work, however much there is. The world checks for every event of every test that it looks
//! through the ledgers at most once, and goes on until nothing is left.

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Attributes, Code, Name, ObjectState};

use super::{Put, World, id};
use crate::Config;
use crate::deletes::{RETRY_MS, RETRY_MS_MAX};
use crate::effect::Effect;
use crate::event::{ClientNo, Event};
use crate::work::PIECE;

const MIB: u64 = 1 << 20;
const CLIENT: ClientNo = ClientNo(1);

fn world() -> World {
    let mut world = World::with_capacity(64 * MIB);
    world.connect(1);
    world
}

/// Puts small objects, with one lease for many.
fn fill(world: &mut World, numbers: std::ops::Range<u64>, put: impl Fn(Put) -> Put) {
    for number in numbers {
        world.put(CLIENT, put(Put::new(number, 1))).unwrap();
    }
}

/// Gives the store an event and then only time; what each step did.
fn steps(world: &mut World, event: Event) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut event = Some(event);
    while let Some(next) = event {
        let mut effects = Vec::new();
        let (looks, objects) = (world.store.directory().looks.get(), world.status().objects);
        world.store.step(world.now_ms, next, &mut effects);
        let looks = world.store.directory().looks.get() - looks;
        let ended = objects - world.status().objects;
        let is_reply = |effect: &Effect| matches!(effect, Effect::Reply(..));
        steps.push(Step { looks, ended, replies: effects.iter().any(is_reply) });
        event = world.store.has_work().then_some(Event::Tick);
    }
    world.store.check();
    steps
}

#[derive(Debug)]
struct Step {
    looks: u64,
    ended: u64,
    replies: bool,
}

fn check_costs(steps: &[Step], pieces: usize) {
    assert!(steps.iter().all(|step| step.looks <= 1 && step.ended <= PIECE as u64), "{steps:?}");
    assert!(steps.len() >= pieces, "{} steps", steps.len());
}

/// 100,000 objects that expired together kept every client waiting for half a second.
#[test]
fn objects_that_expire_together_go_in_pieces() {
    let mut world = world();
    let ttl = Attributes { ttl_ms: Some(1000), ..Attributes::default() };
    let count = 3 * PIECE as u64 + 5;
    fill(&mut world, 0..count, |put| put.with(ttl.clone()));
    world.now_ms += 5000;
    let mut ended = Vec::new();
    while world.store.next_deadline().is_some_and(|at_ms| at_ms <= world.now_ms) {
        ended.extend(steps(&mut world, Event::Tick));
    }
    check_costs(&ended, 4);
    assert_eq!((world.status().objects, world.status().used_bytes), (0, 0));
}

/// Each level of a chain of owned composites once cost its own look.
#[test]
fn a_chain_of_composites_is_freed_with_a_look_for_many_of_its_levels() {
    let mut world = world();
    let levels = 3 * PIECE as u64;
    world.put(CLIENT, Put::new(0, 1).owned()).unwrap();
    for level in 1..levels {
        world.put(CLIENT, Put::new(level, 1).owned().of(&[level - 1])).unwrap();
    }
    world.put(CLIENT, Put::new(levels, 1).of(&[levels - 1])).unwrap();
    let delete = Request::Delete { ids: vec![id(levels)] };
    let steps = steps(&mut world, Event::Request(CLIENT, 1, delete));
    // Those that were asked for, those that go with them, and those that these let go.
    assert!(steps.iter().all(|step| step.looks <= 1 && step.ended <= PIECE as u64 + 2));
    assert!(steps.len() <= 6, "{steps:?}");
    assert!(steps[0].replies);
    assert_eq!((world.status().objects, world.status().used_bytes), (0, 0));
}

#[test]
fn a_pin_within_a_chain_keeps_what_is_below_it() {
    let mut world = world();
    let watcher = world.connect(2);
    world.put(CLIENT, Put::new(0, 1).owned()).unwrap();
    for level in 1..6 {
        world.put(CLIENT, Put::new(level, 1).owned().of(&[level - 1])).unwrap();
    }
    world.put(CLIENT, Put::new(9, 1).of(&[5])).unwrap();
    world.ask(watcher, Request::Subscribe { filter: Default::default() });
    let wait = |ids: &[u64], count| Request::Wait {
        ids: ids.iter().map(|number| id(*number)).collect(),
        count,
        timeout_ms: None,
        beyond_end: false,
    };
    let serial = world.pin(3);
    // Told of one end while others are out of sight for the look: what stays is not missed.
    let number = world.send(watcher, wait(&[77, 2, 5], 3));
    assert_eq!(world.delete(CLIENT, 9), None);
    let gone = [ObjectState::Deleted; 4];
    assert_eq!(world.states(&[9, 5, 4, 3]), gone);
    assert_eq!(world.states(&[2, 1, 0]), [ObjectState::Sealed; 3]);
    assert_eq!(world.status().lingering, 1, "the pinned one");
    assert_eq!(world.answer_to(watcher, number), None);
    assert_eq!(world.notices(watcher).len(), 4);
    world.unpin(serial);
    world.pass(1000);
    assert_eq!(world.states(&[2, 1, 0]), [ObjectState::Deleted; 3]);
    assert_eq!(world.status().used_bytes, 0);
}

/// A full store of pinned objects looked through all ledgers for every 64 of them, and again for
/// the next request.
#[test]
fn a_store_full_of_pinned_objects_refuses_after_few_looks_and_the_next_after_one() {
    for spill_bytes_max in [None, Some(u64::MAX)] {
        let config = Config { spill_bytes_max, ..Config::new(MIB) };
        let mut world = World::new(config);
        world.connect(1);
        world.spill = None;
        let cache = spill_bytes_max.is_none();
        let mut serials = Vec::new();
        for number in 0..MIB / 64 {
            let put = Put::new(number, 1);
            world.put(CLIENT, if cache { put.cache() } else { put }).unwrap();
            serials.push(world.pin(number));
        }
        let create = |number| Request::Create {
            id: id(number),
            sizes: super::sizes(100),
            traits: Default::default(),
            strict: false,
        };
        let first = steps(&mut world, Event::Request(CLIENT, 1, create(1 << 40)));
        check_costs(&first, 1);
        assert!(first.len() <= 4, "{} looks over 16,384 objects", first.len());
        let second = steps(&mut world, Event::Request(CLIENT, 2, create(1 << 41)));
        assert_eq!((second.len(), second[0].replies), (1, true), "that nothing goes is remembered");
        // A pin that is gone is noticed, though it notifies no client.
        world.spill = Some(true);
        (0..2).for_each(|at| world.unpin(serials[5000 + at]));
        world.create(CLIENT, &Put::new(1 << 42, 100)).unwrap();
        assert_ne!(world.state(5000), ObjectState::Sealed);
    }
}

#[test]
fn an_eviction_is_answered_after_its_last_piece() {
    let mut world = world();
    fill(&mut world, 0..3 * PIECE as u64, Put::cache);
    let pinned = world.pin(7);
    let evict = Event::Request(CLIENT, 1, Request::Evict { bytes: u64::MAX });
    let steps = steps(&mut world, evict);
    check_costs(&steps, 3);
    assert!(steps.iter().rev().skip(1).all(|step| !step.replies), "{steps:?}");
    assert!(steps.last().unwrap().replies);
    assert_eq!(world.status().objects, 1);
    world.unpin(pinned);
}

/// What a client leaves behind goes in pieces, and its number may be another's meanwhile.
#[test]
fn a_client_that_leaves_much_is_cleared_up_in_pieces() {
    let mut world = world();
    let named = |number: u64| Attributes {
        name: Some(Name::new("program", number.to_string()).unwrap()),
        ..Attributes::default()
    };
    let other = world.connect(2);
    let adopt = Request::Adopt { namespace: "program".to_owned(), bytes_max: 0 };
    let count = 2 * PIECE as u64;
    for number in 0..count {
        world.put(other, Put::new(number, 1).with(named(number))).unwrap();
        world.put(CLIENT, Put::new(1 << 20 | number, 1).owned()).unwrap();
        world.submit(CLIENT, Submission::Announce { id: id(1 << 30 | number) }).unwrap();
    }
    // What is in a namespace is known before any client adopts it.
    assert_eq!(world.ask(CLIENT, adopt), Reply::Done);
    let mut effects = Vec::new();
    world.store.step(world.now_ms, Event::Disconnect(CLIENT), &mut effects);
    assert!(world.store.has_work());
    let peer = crate::event::Peer {
        pid: 7,
        uid: 7,
        name: String::new(),
        access: plasmon_proto::message::Access::ReadWrite,
        channel: true,
        session: 1,
    };
    world.store.step(world.now_ms, Event::Connect(CLIENT, peer), &mut effects);
    let left = world
        .store
        .objects
        .pending_objects
        .from(0)
        .map(|(id, _)| *id)
        .next()
        .expect("some are left");
    let abort = Event::Request(CLIENT, 9, Request::Abort { id: left });
    let steps = steps(&mut world, abort);
    check_costs(&steps, 4);
    assert_eq!((world.status().objects, world.status().creating), (0, 0));
    let late = Put::new(1 << 40, 1).with(named(1 << 40));
    assert_eq!(world.put(other, late), Err(Code::Cancelled));
}

/// A store whose clients read something deleted looked through all ledgers fifty times a second.
#[test]
fn what_stays_pinned_is_looked_for_less_and_less_often() {
    let mut world = world();
    fill(&mut world, 0..2, |put| put);
    let pins = [0, 1].map(|number| world.pin(number));
    assert_eq!(world.delete(CLIENT, 0), None);
    world.ask(CLIENT, Request::DeleteUnused { ids: vec![id(1)] });
    let before = world.store.directory().looks.get();
    for _ in 0..10_000 / RETRY_MS {
        world.pass(RETRY_MS);
    }
    let looks = world.store.directory().looks.get() - before;
    assert!(looks <= 2 * (10_000 / RETRY_MS_MAX + 8), "{looks} looks in ten seconds");
    pins.into_iter().for_each(|serial| world.unpin(serial));
    (0..2).for_each(|_| world.pass(RETRY_MS_MAX));
    assert_eq!((world.status().lingering, world.status().objects), (0, 0));
}

/// The end was answered after its first piece: the maker of a large scope still found its objects.
#[test]
fn the_end_of_a_scope_is_answered_after_its_last_piece() {
    let mut world = world();
    let count = 3 * PIECE as u64;
    for first in (0..count).step_by(REQUEST_IDS_MAX) {
        let ids = (first..count.min(first + REQUEST_IDS_MAX as u64)).map(id).collect();
        world.ask(CLIENT, Request::Scope { scope: 1, ids, again: false });
    }
    fill(&mut world, 0..count, |put| put);
    let end = Request::EndScope { scope: 1, publish: false };
    let ended = steps(&mut world, Event::Request(CLIENT, 1 << 40, end));
    check_costs(&ended, 3);
    let last = ended.iter().rposition(|step| step.ended > 0);
    assert_eq!(ended.iter().position(|step| step.replies), last, "{ended:?}");
    assert_eq!(world.status().objects, 0);
}
