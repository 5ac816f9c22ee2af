//! Endpoints of two processes, of which one is stopped or killed in the middle of its writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_fabric::{Place, Provider};
use plasmon_testkit::pattern;
use rustix::process::Signal;

use crate::child::{Other, from_hex, grant_of, grant_text, to_hex};
use crate::{Side, WITHIN, with_each};

#[test]
fn writes_cross_processes_in_both_directions() {
    with_each(|provider| {
        let here = Side::open(provider).unwrap();
        let mut there = Other::start(provider);
        let bytes = (3 << 20) + 77;

        let name = from_hex(&there.ask("name"));
        let granted = there.ask(&format!("window {bytes}"));
        let window = grant_of(&granted.split(' ').collect::<Vec<_>>());
        let peer = here.endpoint.peer(&name).unwrap();
        let source = Arc::new(pattern(21, bytes));
        let to = Place { peer, window, offset: 0 };
        here.endpoint.write(to, source, |source| source.as_slice(), 1).unwrap();
        here.next().result.unwrap();
        assert_eq!(there.ask("compare 21"), "true", "{provider}");

        let window = here.window(vec![0; bytes]);
        let (name, grant) = (to_hex(here.endpoint.name()), grant_text(window.grant()));
        let told = there.ask(&format!("write {name} {grant} 22 1000000 1"));
        assert_eq!(told, "written", "{provider}");
        assert!(*window.close().unwrap() == pattern(22, bytes), "{provider}");
    });
}

/// What makes a peer write for long, with its window; the first of its bytes have arrived.
fn written_to(provider: Provider) -> (Side, Other, plasmon_fabric::Window<Vec<u8>>) {
    let here = Side::open(provider).unwrap();
    let mut there = Other::start(provider);
    let bytes = 32 << 20;
    let window = here.window(vec![0; bytes]);
    let (name, grant) = (to_hex(here.endpoint.name()), grant_text(window.grant()));
    there.tell(&format!("write {name} {grant} 23 4000000 1000000"));
    let (expected, deadline) = (pattern(23, 64), Instant::now() + WITHIN);
    while window.bytes(0..64) != Some(&expected[..]) {
        assert!(Instant::now() < deadline, "{provider}: nothing arrives");
        std::thread::sleep(Duration::from_micros(200));
    }
    (here, there, window)
}

/// A peer that stands still in the middle of its writes goes on with them when it runs again. By
/// then the memory belongs to something else.
#[test]
fn a_peer_that_was_stopped_does_not_write_into_memory_that_was_taken_back() {
    with_each(|provider| {
        let (here, mut there, window) = written_to(provider);
        there.signal(Signal::STOP);
        here.endpoint.close().unwrap();
        let mut memory = window.close().unwrap();
        memory.fill(0x44);
        there.signal(Signal::CONT);
        // It notices that its target is gone; with a provider that does not say so it is killed
        // after a while, in which it would write.
        let killer = there.kill_after(Duration::from_millis(500));
        let answer = there.answer();
        assert!(memory.iter().all(|byte| *byte == 0x44), "{provider}: {answer:?}");
        killer.join().unwrap();
    });
}

#[test]
fn a_peer_that_is_killed_leaves_memory_that_can_be_taken_back() {
    with_each(|provider| {
        let (here, there, window) = written_to(provider);
        drop(there);
        here.endpoint.close().unwrap();
        let mut memory = window.close().unwrap();
        memory.fill(0x55);
        assert!(memory.iter().all(|byte| *byte == 0x55), "{provider}");
    });
}
