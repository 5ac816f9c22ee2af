//! What is written arrives, and nothing else is written.

use std::sync::Arc;
use std::time::Duration;

use plasmon_fabric::{
    Choice, ENVIRONMENT, Error, Grant, Place, Provider, WRITES_MAX, open, prepare,
};
use plasmon_testkit::{Random, pattern, until};
use rustix::process::Signal;

use crate::{Side, address, with_each};

const UNTOUCHED: u8 = 0xee;

#[test]
fn writes_land_in_their_place_and_nowhere_else() {
    with_each(|provider| {
        let (target, writer) = (Side::open(provider).unwrap(), Side::open(provider).unwrap());
        let peer = writer.endpoint.peer(target.endpoint.name()).unwrap();
        let bytes = (9 << 20) + 12_345;
        let window = target.window(vec![UNTOUCHED; bytes]);
        let source = Arc::new(pattern(3, bytes));
        // A byte; across pages; more than one operation takes; up to the end.
        let parts = [(0, 1), (4000, 300), (5 << 10, (8 << 20) + 99), (bytes - 7, 7)];
        for (token, (start, length)) in parts.into_iter().enumerate() {
            let to = Place { peer, window: window.grant(), offset: start as u64 };
            let written = writer.endpoint.write(
                to,
                source.clone(),
                |source| &source[start..start + length],
                token as u64,
            );
            written.unwrap();
        }
        let mut ended: Vec<u64> = parts
            .iter()
            .map(|_| {
                let completion = writer.next();
                completion.result.unwrap();
                completion.token
            })
            .collect();
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 3]);
        assert_eq!(window.bytes(4000..4300), Some(&source[4000..4300]));
        assert_eq!(window.bytes(0..bytes as u64 + 1), None);
        let memory = window.close().unwrap();
        let mut expected = vec![UNTOUCHED; bytes];
        for (start, length) in parts {
            expected[start..start + length].copy_from_slice(&source[start..start + length]);
        }
        assert!(*memory == expected, "{provider}");
        assert_eq!(Arc::strong_count(&source), 1, "sources are let go");
    });
}

/// More than a provider has under way, in both directions, and from one source.
#[test]
fn many_writes_of_both_sides_do_not_mix() {
    with_each(|provider| {
        let sides = [Side::open(provider).unwrap(), Side::open(provider).unwrap()];
        let (count, bytes) = (300, 20_000);
        let contents = [1, 2].map(|seed| Arc::new(pattern(seed, count * bytes)));
        let windows = [0, 1].map(|side: usize| sides[side].window(vec![0; count * bytes]));
        for number in 0..count {
            for side in [0, 1] {
                let endpoint = &sides[side].endpoint;
                let peer = endpoint.peer(sides[1 - side].endpoint.name()).unwrap();
                let offset = (number * bytes) as u64;
                let to = Place { peer, window: windows[1 - side].grant(), offset };
                let source = contents[side].clone();
                let part = number * bytes..(number + 1) * bytes;
                endpoint.write(to, source, |source| &source[part], 0).unwrap();
            }
        }
        for side in &sides {
            (0..count).for_each(|_| side.next().result.unwrap());
        }
        let [one, two] = windows.map(|window| window.close().unwrap());
        assert!(*one == *contents[1] && *two == *contents[0], "{provider}");
    });
}

/// One peer is allowed one window: neither its neighbours in memory, nor the window once it is
/// closed, whatever a peer that lies about its grant asks for.
#[test]
fn what_is_not_in_an_open_window_is_not_written() {
    with_each(|provider| {
        let mut random = Random::new(5);
        // The second half of the memory is not in the window.
        let half = 64 << 10;
        for case in ["beyond", "closed", "guessed"] {
            let (target, writer) = (Side::open(provider).unwrap(), Side::open(provider).unwrap());
            let peer = writer.endpoint.peer(target.endpoint.name()).unwrap();
            let memory = Box::new(vec![UNTOUCHED; 2 * half]);
            let opened = target.endpoint.open_window(memory, |memory| &mut memory[..64 << 10]);
            let window = opened.map_err(|(_, error)| error).unwrap();
            // Another window, so that the target looks at what arrives.
            let other = target.window(vec![UNTOUCHED; 100]);
            let granted = window.grant();
            let (grant, offset) = match case {
                "beyond" => (Grant { bytes: 2 * half as u64, ..granted }, half as u64 - 50),
                "closed" => (granted, 0),
                _ => (Grant { key: !granted.key ^ random.word() >> 8, ..granted }, 0),
            };
            let (window, closed) = match case {
                "closed" => (None, Some(window.close().unwrap())),
                _ => (Some(window), None),
            };
            let to = Place { peer, window: grant, offset };
            let source = Arc::new(vec![0x11; 100]);
            writer.endpoint.write(to, source, |source| source.as_slice(), 9).unwrap();
            // A provider says that it failed, or says nothing: then the end of the endpoint does.
            let completion = writer.next_within(Duration::from_secs(2)).unwrap_or_else(|| {
                writer.endpoint.close().unwrap();
                writer.next()
            });
            assert!(completion.result.is_err(), "{provider}, {case}: it was written");
            writer.endpoint.close().unwrap();
            target.endpoint.close().unwrap();
            let memory = closed.or_else(|| window.map(|window| window.close().unwrap())).unwrap();
            let beyond = if case == "beyond" { half } else { 0 };
            assert!(memory[beyond..].iter().all(|byte| *byte == UNTOUCHED), "{provider}, {case}");
            assert!(other.close().unwrap().iter().all(|byte| *byte == UNTOUCHED));
        }
    });
}

/// With a write under way, only the end of the endpoint makes it safe to take memory back.
#[test]
fn the_end_of_an_endpoint_ends_its_windows_and_its_writes() {
    with_each(|provider| {
        // Within one process a provider of shared memory uses what its peer had, after that is
        // gone. Of two processes `processes.rs` tests the same.
        if provider == Provider::Shm {
            return;
        }
        let (target, writer) = (Side::open(provider).unwrap(), Side::open(provider).unwrap());
        let peer = writer.endpoint.peer(target.endpoint.name()).unwrap();
        let bytes = 64 << 20;
        let window = target.window(vec![UNTOUCHED; bytes]);
        let source = Arc::new(vec![0x22; bytes]);
        let to = Place { peer, window: window.grant(), offset: 0 };
        writer.endpoint.write(to, source.clone(), |source| source.as_slice(), 1).unwrap();
        target.endpoint.close().unwrap();
        assert!(!target.endpoint.is_open());
        // The memory is ours: what it has now stays.
        let mut memory = window.close().unwrap();
        memory.fill(0x33);
        writer.endpoint.close().unwrap();
        assert_eq!(writer.next().token, 1);
        assert_eq!(Arc::strong_count(&source), 1);
        assert!(memory.iter().all(|byte| *byte == 0x33), "{provider}");
        let refused = target.endpoint.open_window(memory, Vec::as_mut_slice);
        let (memory, error) = refused.unwrap_err();
        assert_eq!((memory.len(), error), (bytes, Error::Closed));
        assert_eq!(target.endpoint.peer(writer.endpoint.name()), Err(Error::Closed));
    });
}

#[test]
fn what_cannot_be_written_is_refused() {
    with_each(|provider| {
        let (target, writer) = (Side::open(provider).unwrap(), Side::open(provider).unwrap());
        for name in [&b""[..], b"x", &[0; 300]] {
            let bytes = name.len();
            assert_eq!(writer.endpoint.peer(name), Err(Error::BadName { bytes }), "{provider}");
        }
        let peer = writer.endpoint.peer(target.endpoint.name()).unwrap();
        let window = target.window(vec![0; 100]);
        for (offset, bytes) in [(0, 0), (0, 101), (100, 1), (u64::MAX, 1), (99, 2)] {
            let to = Place { peer, window: window.grant(), offset };
            let source = Arc::new(vec![1; bytes]);
            let refused = writer.endpoint.write(to, source, |source| source.as_slice(), 1);
            let window_bytes = 100;
            assert_eq!(refused, Err(Error::Bounds { offset, bytes, window_bytes }), "{provider}");
        }
        // Nothing ends while the target is gone, and the queue has an end. With shared memory see
        // above.
        if provider == Provider::Shm {
            return;
        }
        let to = Place { peer, window: window.grant(), offset: 0 };
        target.endpoint.close().unwrap();
        let full = (0..=WRITES_MAX).find_map(|_| {
            let source = Arc::new(vec![1; 100]);
            writer.endpoint.write(to, source, |source| source.as_slice(), 1).err()
        });
        if let Some(error) = full {
            assert!(error.is_passing(), "{provider}: {error}");
        }
    });
}

/// Initializers of some providers have signals handled in their own way.
#[test]
fn signals_are_handled_as_before() {
    let handler = |signal| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        caught & 1 << (signal as u64 - 1) != 0
    };
    let signals = [Signal::TERM, Signal::INT, Signal::ABORT, Signal::ILL].map(Signal::as_raw);
    with_each(|provider| {
        drop(Side::open(provider).unwrap());
        // Other tests of this process may be in the middle of opening.
        until("signals are handled as before", || !signals.into_iter().any(handler));
    });
}

/// Each provider that works is opened, and of one that does not a node says why.
#[test]
fn a_choice_opens_what_works() {
    let choice: Choice = "efa;verbs;net;shm;tcp".parse().unwrap();
    let opened = open(&choice, Some(address()), &(Arc::new(|_| {}) as _));
    let found: Vec<Provider> = opened.endpoints.iter().map(|one| one.provider()).collect();
    let refused: Vec<Provider> = opened.refused.iter().map(|(provider, _)| *provider).collect();
    if plasmon_fabric::installed().is_err() {
        assert_eq!((found, refused.as_slice()), (vec![], choice.providers()));
        return;
    }
    assert!(found.iter().filter(|provider| provider.reaches_machines()).count() == 1, "{opened:?}");
    assert!(found.contains(&Provider::Shm), "{opened:?}");
    let before = opened.endpoints[0].provider();
    assert!(refused.iter().all(|provider| *provider != before));
    assert!(open(&Choice::Off, None, &(Arc::new(|_| {}) as _)).endpoints.is_empty());
}

/// A card is not used where a setting that it needs is missing: a library that caches registrations
/// has windows stay open, and one that gives buffers to connections that ended ends the process.
#[test]
fn cards_need_an_environment() {
    let is_set = ENVIRONMENT
        .iter()
        .all(|(name, value)| std::env::var(name).is_ok_and(|found| found == *value));
    // A process with more than one thread, as that of a test is, is left as it is.
    assert_eq!(prepare(), is_set);
    let opened = open(&"verbs".parse().unwrap(), Some(address()), &(Arc::new(|_| {}) as _));
    assert!(is_set || opened.endpoints.is_empty(), "{opened:?}");
}
