//! Waiting: for what comes, what never comes, and what comes to an end meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use plasmon_client::{Code, ObjectState, PutOptions};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, id, pattern, until};
use rustix::event::{PollFd, PollFlags, poll};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);
const SHORT: Option<Duration> = Some(Duration::from_millis(20));

fn with_id(number: u64) -> PutOptions {
    PutOptions { id: Some(id(number)), ..PutOptions::default() }
}

#[test]
fn an_unknown_id_is_absent_at_once_and_timed_out_later() {
    let node = TestStore::new(16 * MIB);
    for store in [node.connect(), node.connect_by_socket()] {
        assert!(store.get_now(&id(1)).is_none());
        let error = store.get(&id(1), NOW).unwrap_err();
        assert_eq!((error.code(), error.id()), (Code::Absent, Some(id(1))), "{error}");
        let began = Instant::now();
        let error = store.get(&id(1), SHORT).unwrap_err();
        assert_eq!((error.code(), error.id()), (Code::TimedOut, Some(id(1))), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(20), "it gave up early");
        assert_eq!(store.wait(&[id(1)], 0, SHORT).unwrap(), [ObjectState::Absent]);
        assert_eq!(store.wait(&[id(1)], 2, SHORT).unwrap_err().code(), Code::BadRequest);
        assert_eq!(store.wait(&[], 0, None).unwrap(), []);
    }
}

#[test]
fn a_get_without_timeout_waits_until_the_object_is_sealed() {
    let node = TestStore::new(64 * MIB);
    let writer = node.connect();
    for bytes in [100, 5 << 20] {
        for reader in [node.connect(), node.connect_by_socket()] {
            let number = u64::from(reader.get_now(&id(0)).is_none()) + bytes as u64;
            let object = writer.create(bytes as u64, &PutOptions::default()).unwrap();
            let (object_id, data) = (object.id(), pattern(number, bytes));
            thread::scope(|scope| {
                let waiting = scope.spawn(|| reader.get(&object_id, None).unwrap());
                until("the reader waits", || {
                    writer.status().unwrap().waits > 0 || waiting.is_finished()
                });
                let mut object = object;
                object.copy_from_slice(&data);
                object.seal().unwrap();
                assert!(waiting.join().unwrap().data() == data);
            });
        }
    }
}

#[test]
fn a_thread_that_waits_does_not_hold_up_the_others() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|n| {
                scope.spawn({
                    let store = &store;
                    move || store.get(&id(n), Some(TEST_TIMEOUT)).unwrap().to_vec()
                })
            })
            .collect();
        until("all of them wait", || store.status().unwrap().waits == 4);
        for round in 0..100 {
            let object = store.put(&pattern(round, 64), &with_id(1000 + round)).unwrap();
            assert!(store.contains(&object).unwrap());
            assert_eq!(store.states(&[id(0)]).unwrap(), [ObjectState::Absent]);
        }
        for n in (0..4u64).rev() {
            store.put(&n.to_le_bytes(), &with_id(n)).unwrap();
        }
        for (n, waiting) in waiting.into_iter().enumerate() {
            assert_eq!(waiting.join().unwrap(), (n as u64).to_le_bytes());
        }
    });
}

#[test]
fn waiting_for_some_of_many() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    for count in [10, 3000] {
        let base = 10_000 * count;
        let ids: Vec<_> = (0..count).map(|n| id(base + n)).collect();
        store.put(b"first", &with_id(base + count - 1)).unwrap();
        let states = store.wait(&ids, 1, None).unwrap();
        assert_eq!(states[count as usize - 1], ObjectState::Sealed);
        assert_eq!(states[0], ObjectState::Absent);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| store.wait(&ids, 3, Some(TEST_TIMEOUT)).unwrap());
            until("it waits", || store.status().unwrap().waits > 0);
            store.put(b"second", &with_id(base)).unwrap();
            store.put(b"third", &with_id(base + 5)).unwrap();
            let sealed = |state: &&ObjectState| **state == ObjectState::Sealed;
            assert_eq!(waiting.join().unwrap().iter().filter(sealed).count(), 3);
        });
        let states = store.wait(&ids, 4, SHORT).unwrap();
        assert_eq!(states.len() as u64, count);
        for n in 0..count {
            let _ = store.put(b"rest", &with_id(base + n));
        }
        assert!(store.wait(&ids, 0, None).unwrap().iter().all(|it| *it == ObjectState::Sealed));
    }
}

#[test]
fn getting_many_gives_each_its_own_answer() {
    let node = TestStore::new(64 * MIB);
    let writer = node.connect();
    for store in [node.connect(), node.connect_by_socket()] {
        let there = writer.put(b"there", &PutOptions::default()).unwrap();
        let gone = writer.put(b"gone", &PutOptions::default()).unwrap();
        writer.delete(&[gone]).unwrap();
        let creating = writer.create(10, &PutOptions::default()).unwrap();
        let ids = [there, gone, id(404), creating.id(), there];
        let codes = |timeout| -> Vec<Option<Code>> {
            let all = store.get_many(&ids, timeout).unwrap();
            all.into_iter().map(|it| it.err().map(|error| error.code())).collect()
        };
        let deleted = Some(Code::Deleted);
        assert_eq!(codes(NOW), [None, deleted, Some(Code::Absent), Some(Code::NotSealed), None]);
        let late = Some(Code::TimedOut);
        assert_eq!(codes(SHORT), [None, deleted, late, late, None]);
    }
}

#[test]
fn an_event_loop_watches_a_descriptor() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut waits: Vec<_> = (0..10).map(|n| store.start_wait(&[id(n)], 0, None).unwrap()).collect();
    assert!(waits.iter_mut().all(|wait| wait.poll().is_none()));
    for n in 0..10 {
        store.put(b"x", &with_id(n)).unwrap();
    }
    for wait in &mut waits {
        poll(&mut [PollFd::new(&wait.fd(), PollFlags::IN)], None).unwrap();
        assert_eq!(wait.poll().expect("its descriptor said so").unwrap(), [ObjectState::Sealed]);
        assert!(wait.poll().is_none(), "an answer is given once");
    }
    let mut timing_out = store.start_wait(&[id(77)], 0, SHORT).unwrap();
    poll(&mut [PollFd::new(&timing_out.fd(), PollFlags::IN)], None).unwrap();
    assert_eq!(timing_out.poll().unwrap().unwrap(), [ObjectState::Absent]);
}

#[test]
fn a_wait_can_be_cancelled() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let mut wait = store.start_wait(&[id(1)], 0, None).unwrap();
    wait.cancel();
    poll(&mut [PollFd::new(&wait.fd(), PollFlags::IN)], None).unwrap();
    assert_eq!(wait.poll().unwrap().unwrap(), [ObjectState::Absent]);
    drop(store.start_wait(&[id(1)], 0, None).unwrap());
    until("no client waits", || store.status().unwrap().waits == 0);
}

#[test]
fn a_disconnected_client_says_so() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let object = store.put(b"kept", &with_id(1)).unwrap();
    let held = store.get(&object, NOW).unwrap();
    let [small, large] = [100, 8 << 20].map(|bytes| store.create(bytes, &with_id(bytes)).unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get(&id(404), None));
        let observer = node.connect();
        until("it waits", || observer.status().unwrap().waits == 1);
        store.disconnect();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Disconnected);
    });
    assert_eq!(store.status().unwrap_err().code(), Code::Disconnected);
    // Neither the index nor its own lease lets it go on without the daemon.
    assert_eq!(store.get(&object, NOW).unwrap_err().code(), Code::Disconnected);
    assert_eq!(store.contains(&object).unwrap_err().code(), Code::Disconnected);
    assert_eq!(small.seal().unwrap_err().code(), Code::Disconnected);
    assert_eq!(large.seal().unwrap_err().code(), Code::Disconnected);
    let observer = node.connect();
    assert!(!observer.contains(&id(100)).unwrap());
    assert!(!observer.contains(&id(8 << 20)).unwrap());
    assert_eq!(&*held, b"kept");
}

#[test]
fn deleted_objects_end_a_wait_unless_it_goes_beyond() {
    let node = TestStore::new(64 * MIB);
    let store = node.connect();
    let object = store.put(b"x", &with_id(1)).unwrap();
    store.delete(&[object]).unwrap();
    assert_eq!(store.wait(&[object], 0, None).unwrap(), [ObjectState::Deleted]);
    assert_eq!(store.wait_beyond_end(&[object], 0, SHORT).unwrap(), [ObjectState::Deleted]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| store.wait_beyond_end(&[object], 0, None).unwrap());
        until("it waits", || store.status().unwrap().waits == 1);
        store.put(b"again", &with_id(1)).unwrap();
        assert_eq!(waiting.join().unwrap(), [ObjectState::Sealed]);
    });
}
