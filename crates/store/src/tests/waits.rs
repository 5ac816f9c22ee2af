//! Waiting for objects.

use plasmon_proto::limits::{REQUEST_IDS_MAX, WAITS_PER_CLIENT_MAX};
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id};
use crate::event::ClientNo;

const MIB: u64 = 1 << 20;

fn wait(numbers: &[u64], count: u32, timeout_ms: Option<u64>) -> Request {
    let ids = numbers.iter().map(|number| id(*number)).collect();
    Request::Wait { ids, count, timeout_ms, beyond_end: false }
}

fn states(states: &[ObjectState]) -> Option<Reply> {
    Some(Reply::States(states.to_vec()))
}

use ObjectState::{Absent, Creating, CreatorDied, Deleted, Evicted, Sealed};

#[test]
fn what_is_decided_is_answered_at_once() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.put(client, Put::new(1, 10)).unwrap();
    world.put(client, Put::new(2, 10)).unwrap();
    world.delete(client, 2);
    for (request, expected) in [
        (wait(&[], 0, None), vec![]),
        (wait(&[1], 0, None), vec![Sealed]),
        (wait(&[1, 1], 0, None), vec![Sealed, Sealed]),
        (wait(&[2, 1], 0, None), vec![Deleted, Sealed]),
        (wait(&[3, 1], 1, None), vec![Absent, Sealed]),
        (wait(&[3, 4], 0, Some(0)), vec![Absent, Absent]),
    ] {
        assert_eq!(world.ask(client, request), Reply::States(expected));
    }
    assert_eq!(world.status().waits, 0);
}

#[test]
fn a_wait_ends_with_the_last_object_that_it_needs() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let all = world.send(one, wait(&[1, 2], 0, None));
    let any = world.send(one, wait(&[1, 2], 1, None));
    let twice = world.send(one, wait(&[2, 2], 0, None));
    world.put(two, Put::new(2, 10)).unwrap();
    assert_eq!(world.answer_to(one, all), None);
    assert_eq!(world.answer_to(one, any), states(&[Absent, Sealed]));
    assert_eq!(world.answer_to(one, twice), states(&[Sealed, Sealed]));
    world.submit(two, Submission::Announce { id: id(1) }).unwrap();
    assert_eq!(world.answer_to(one, all), None);
    world.put(two, Put::new(1, 10)).unwrap();
    assert_eq!(world.answer_to(one, all), states(&[Sealed, Sealed]));
    assert_eq!(world.status().waits, 0);
}

#[test]
fn a_wait_times_out_with_what_there_is() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.submit(client, Submission::Announce { id: id(1) }).unwrap();
    let short = world.send(client, wait(&[1, 2], 0, Some(10)));
    let long = world.send(client, wait(&[2], 0, Some(u64::MAX)));
    assert_eq!(world.store.next_deadline(), Some(world.now_ms + 10));
    world.pass(9);
    assert_eq!(world.answer_to(client, short), None);
    world.pass(1);
    assert_eq!(world.answer_to(client, short), states(&[Creating, Absent]));
    assert_eq!(world.answer_to(client, long), None);
    assert_eq!(world.store.next_deadline(), Some(u64::MAX));
}

#[test]
fn ends_are_told_at_once_and_waited_beyond_on_request() {
    type End = fn(&mut World);
    let ends: [(&str, End, ObjectState); 3] = [
        ("deleted", |world| assert_eq!(world.delete(ClientNo(1), 1), None), Deleted),
        ("evicted", |world| assert_eq!(world.evict(ClientNo(1), 1).1, 1), Evicted),
        (
            "creator died",
            |world| {
                assert_eq!(world.delete(ClientNo(1), 1), None);
                world.submit(ClientNo(1), Submission::Announce { id: id(1) }).unwrap();
                world.disconnect(ClientNo(1));
            },
            CreatorDied,
        ),
    ];
    for (name, end, state) in ends {
        let mut world = World::with_capacity(16 * MIB);
        let (one, two) = (world.connect(1), world.connect(2));
        world.put(one, Put::new(1, 10).cache()).unwrap();
        let ids = vec![id(1), id(2)];
        let told = world.send(two, wait(&[1, 2], 0, None));
        let beyond = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: true };
        let beyond = world.send(two, beyond);
        end(&mut world);
        // The other id decides both; the end of the first counts only for one of them.
        world.put(two, Put::new(2, 10)).unwrap();
        assert_eq!(world.answer_to(two, told), states(&[state, Sealed]), "{name}");
        assert_eq!(world.answer_to(two, beyond), None, "{name}");
        world.put(two, Put::new(1, 10)).unwrap();
        assert_eq!(world.answer_to(two, beyond), states(&[Sealed, Sealed]), "{name}");
    }
}

#[test]
fn an_abort_decides_nothing() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    world.put(client, Put::new(1, 10)).unwrap();
    world.delete(client, 1);
    world.submit(client, Submission::Announce { id: id(1) }).unwrap();
    let waiting = world.send(client, wait(&[1], 0, None));
    world.submit(client, Submission::Abort { id: id(1) }).unwrap();
    assert_eq!(world.answer_to(client, waiting), None);
    world.put(client, Put::new(1, 10)).unwrap();
    assert_eq!(world.answer_to(client, waiting), states(&[Sealed]));
}

#[test]
fn a_cancelled_wait_is_answered_and_a_strange_one_is_no_error() {
    let mut world = World::with_capacity(16 * MIB);
    let (one, two) = (world.connect(1), world.connect(2));
    let waiting = world.send(one, wait(&[1], 0, None));
    assert_eq!(world.ask(two, Request::Cancel { request: waiting }), Reply::Done);
    assert_eq!(world.answer_to(one, waiting), None);
    assert_eq!(world.ask(one, Request::Cancel { request: waiting }), Reply::Done);
    assert_eq!(world.answer_to(one, waiting), states(&[Absent]));
    assert_eq!(world.ask(one, Request::Cancel { request: waiting }), Reply::Done);
}

#[test]
fn limits_of_waits() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let most = vec![id(1); REQUEST_IDS_MAX];
    let more = vec![id(1); REQUEST_IDS_MAX + 1];
    for ids in [most.clone(), more.clone()] {
        let expected = (ids.len() > REQUEST_IDS_MAX).then_some(Code::LimitReached);
        for request in [
            Request::Wait { ids: ids.clone(), count: 0, timeout_ms: Some(0), beyond_end: false },
            Request::States { ids: ids.clone() },
            Request::Touch { ids: ids.clone() },
            Request::Get { ids: ids.clone() },
            Request::Delete { ids: ids.clone() },
        ] {
            let code = match world.ask(client, request) {
                Reply::Failed(failure) => Some(failure.code),
                _ => None,
            };
            assert_eq!(code, expected);
        }
    }
    assert_eq!(world.ask_for_failure(client, wait(&[1], 2, None)).code, Code::BadRequest);
    for number in 0..WAITS_PER_CLIENT_MAX {
        let waiting = world.send(client, wait(&[1], 0, None));
        assert_eq!(world.answer_to(client, waiting), None, "{number}");
    }
    let code = world.ask_for_failure(client, wait(&[1], 0, None)).code;
    assert_eq!(code, Code::LimitReached);
    world.disconnect(client);
    assert_eq!(world.status().waits, 0);
}

#[test]
fn a_request_number_that_waits_is_not_taken_twice() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let number = world.send(client, wait(&[1], 0, None));
    world.event(crate::Event::Request(client, number, wait(&[2], 0, None)));
    let reply = world.answer_to(client, number);
    assert!(matches!(reply, Some(Reply::Failed(it)) if it.code == Code::BadRequest));
    assert_eq!(world.status().waits, 1);
}
