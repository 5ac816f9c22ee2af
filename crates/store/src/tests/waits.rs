//! Waiting for objects.

use plasmon_proto::limits::{
    REQUEST_IDS_MAX, WAIT_IDS_MAX, WAIT_IDS_PER_CLIENT_MAX, WAIT_IDS_PER_USER_MAX,
    WAITS_PER_CLIENT_MAX,
};
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectState};

use super::{Put, World, id};
use crate::Effect;
use crate::event::{ClientNo, Event, Peer};

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
fn ends_are_reported_at_once_and_waited_beyond_on_request() {
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
        let at_once = world.send(two, wait(&[1, 2], 0, None));
        let beyond = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: true };
        let beyond = world.send(two, beyond);
        end(&mut world);
        // The other id decides both; the end of the first counts only for one of them.
        world.put(two, Put::new(2, 10)).unwrap();
        assert_eq!(world.answer_to(two, at_once), states(&[state, Sealed]), "{name}");
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
            Request::Demote { ids: ids.clone() },
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
    let mut effects = Vec::new();
    for number in 0..WAITS_PER_CLIENT_MAX as u64 {
        let waiting = Event::Request(client, 1 << 40 | number, wait(&[1], 0, None));
        world.store.step(world.now_ms, waiting, &mut effects);
    }
    assert_eq!(effects, []);
    let code = world.ask_for_failure(client, wait(&[1], 0, None)).code;
    assert_eq!(code, Code::LimitReached);
    world.disconnect(client);
    assert_eq!(world.status().waits, 0);
}

/// One connection could wait for a million ids, which took 86 MB, and every other one as well.
#[test]
fn ids_are_limited_for_a_client_a_user_and_all() {
    let mut world = World::with_capacity(16 * MIB);
    let ids: Vec<u64> = (0..REQUEST_IDS_MAX as u64).collect();
    let per_client = WAIT_IDS_PER_CLIENT_MAX / REQUEST_IDS_MAX;
    let clients = WAIT_IDS_MAX / WAIT_IDS_PER_CLIENT_MAX;
    let per_user = WAIT_IDS_PER_USER_MAX / WAIT_IDS_PER_CLIENT_MAX;
    let connect = |world: &mut World, number: usize, uid: usize| {
        let client = ClientNo(number as u32);
        let (name, access) = (String::new(), plasmon_proto::message::Access::ReadOnly);
        let peer = Peer { pid: 1, uid: uid as u32, name, access, channel: true, session: 1 };
        world.store.step(world.now_ms, Event::Connect(client, peer), &mut Vec::new());
        client
    };
    let mut effects = Vec::new();
    let mut fill = |world: &mut World, client: ClientNo| {
        for number in 0..per_client as u64 {
            let event = Event::Request(client, number, wait(&ids, 0, None));
            world.store.step(world.now_ms, event, &mut effects);
        }
        std::mem::take(&mut effects).len()
    };
    let refused = |world: &mut World, client: ClientNo| {
        let event = Event::Request(client, 1 << 40, wait(&[1], 0, None));
        let mut effects = Vec::new();
        world.store.step(world.now_ms, event, &mut effects);
        match effects.pop() {
            Some(Effect::Reply(_, _, Reply::Failed(failure))) => failure.detail.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for number in 0..clients {
        let client = connect(&mut world, number, number / per_user);
        assert_eq!(fill(&mut world, client), 0);
        if number == 0 {
            assert!(refused(&mut world, client).starts_with("this client"));
        }
    }
    let same_user = connect(&mut world, clients, 0);
    assert!(refused(&mut world, same_user).starts_with("this user"));
    let other = connect(&mut world, clients + 1, 99);
    assert!(refused(&mut world, other).starts_with("all clients"));
    // A client that leaves takes its waits along, a piece at a time.
    world.store.step(world.now_ms, Event::Disconnect(ClientNo(0)), &mut Vec::new());
    let mut ticks = 0;
    while world.store.has_work() {
        world.store.step(world.now_ms, Event::Tick, &mut Vec::new());
        ticks += 1;
    }
    assert!(ticks >= WAIT_IDS_PER_CLIENT_MAX / (8 * REQUEST_IDS_MAX) - 1, "{ticks}");
    assert_eq!(fill(&mut world, other), 0);
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
