//! Every sequence of a few events, and long ones at random.

use std::collections::BTreeSet;
use std::sync::Once;
use std::time::Instant;

use plasmon_testkit::Random;

use super::super::*;
use super::model::Pool;
use crate::limits::{GROUPS, NODES_MAX};

/// What can happen to a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Its lease ends, or it gets one again.
    Lease(u16),
    /// It starts again without its records.
    Restart(u16),
    /// Its groups become active.
    Activate(u16),
    /// An operator wants it empty, or not any more.
    Drain(u16),
    /// An operator forgets it.
    Forget(u16),
    /// Two nodes do not reach each other any more, or again.
    Cut(u16, u16),
    /// Time passes until a node that is down goes out.
    Wait,
}

fn apply(pool: &mut Pool, event: Event) {
    let mut activations = Vec::new();
    let mut commands = Vec::new();
    match event {
        Event::Lease(number) if pool.members.contains_key(&number) => pool.lose(number),
        Event::Lease(number) => pool.come_back(number),
        Event::Restart(number) => pool.restart(number),
        Event::Activate(number) => {
            let slot = pool.slot(number);
            activations = pool.activate(|primary| Some(primary) == slot);
        }
        Event::Drain(number) => commands.extend(pool.slot(number).map(|slot| {
            let is_draining = pool.map.node(slot).is_some_and(|node| node.drain);
            if is_draining { Command::Undrain(slot) } else { Command::Drain(slot) }
        })),
        Event::Forget(number) => commands.extend(pool.slot(number).map(Command::Forget)),
        Event::Cut(a, b) => {
            let pair = (a.min(b), a.max(b));
            if !pool.cuts.remove(&pair) && a != b {
                pool.cuts.insert(pair);
            }
        }
        Event::Wait => pool.now_ms += OUT_AFTER_MS,
    }
    pool.settle(&activations, &commands);
}

/// The events so far; shown when a rule is broken.
#[derive(Clone, Default)]
struct Trail(Vec<Event>);

impl Drop for Trail {
    fn drop(&mut self) {
        static SHOWN: Once = Once::new();
        if std::thread::panicking() {
            SHOWN.call_once(|| println!("after {:?}", self.0));
        }
    }
}

/// Three nodes, five kinds of events for each and the passing of time: all sequences of
/// [`DEPTH`] events. Sequences that end in the same state are followed once.
#[test]
fn every_sequence_of_events_of_three_nodes() {
    const DEPTH: u32 = 5;
    let events: Vec<Event> = (0..3)
        .flat_map(|node| {
            [Event::Lease, Event::Restart, Event::Activate, Event::Drain, Event::Forget]
                .map(|event| event(node))
        })
        .chain([Event::Cut(0, 1), Event::Cut(0, 2), Event::Cut(1, 2), Event::Wait])
        .collect();
    let mut states = vec![(Pool::new(3, 4), Trail::default())];
    let mut seen = BTreeSet::from([states[0].0.key()]);
    let mut fenced = 0;
    for _ in 0..DEPTH {
        let mut reached = Vec::new();
        for (before, trail) in &states {
            for event in &events {
                let (mut pool, mut trail) = (before.clone(), trail.clone());
                trail.0.push(*event);
                apply(&mut pool, *event);
                fenced += pool.fenced;
                if seen.insert(pool.key()) {
                    reached.push((pool, trail));
                }
            }
        }
        states = reached;
    }
    assert!(seen.len() > 5000, "{} states", seen.len());
    assert!(fenced > 100, "{fenced} fences");
    println!("{} states", seen.len());
}

/// Long runs with more nodes and all groups. When the faults stop, everything comes back.
#[test]
fn random_runs_keep_every_rule_and_end_well() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let nodes = random.pick(&[2, 3, 4, 7, 12]);
        let mut pool = Pool::new(nodes, GROUPS);
        for _ in 0..40 {
            let node = random.below(u64::from(nodes)) as u16;
            let event = match random.below(100) {
                0..40 => Event::Lease(node),
                40..50 => Event::Restart(node),
                50..75 => Event::Activate(node),
                75..82 => Event::Drain(node),
                82..85 => Event::Forget(node),
                85..92 => Event::Cut(node, random.below(u64::from(nodes)) as u16),
                _ => Event::Wait,
            };
            apply(&mut pool, event);
            pool.now_ms += random.below(3000);
            pool.map.check().unwrap();
        }
        recover(&mut pool, nodes);
    }
}

fn recover(pool: &mut Pool, nodes: u16) {
    pool.cuts.clear();
    // Nodes that were fenced are held for a while; in the first of these turns that begins.
    for _ in 0..2 {
        pool.settle(&[], &[]);
        pool.now_ms += 100_000;
    }
    for number in 0..nodes {
        if !pool.members.contains_key(&number) {
            pool.come_back(number);
        }
    }
    let slots: Vec<Slot> = pool.map.nodes().map(|(slot, _)| slot).collect();
    let commands: Vec<Command> = slots.into_iter().map(Command::Undrain).collect();
    pool.settle(&[], &commands);
    for _ in 0..10 {
        let activations = pool.activate(|_| true);
        pool.settle(&activations, &[]);
    }
    assert_eq!(pool.alarm, None);
    for (number, group) in pool.map.groups() {
        assert!(group.is_settled(), "group {number}: {group:?}");
        assert_eq!(group.acting.len(), usize::from(nodes).min(3), "group {number}: {group:?}");
        assert_eq!(group.acting[0], pool.target(number)[0], "primaries are spread again");
    }
}

/// A thousand nodes, some of which are lost, come back, drain and are forgotten. The model's checks
/// run, too.
#[test]
fn a_thousand_nodes_are_fast() {
    let started = Instant::now();
    let mut pool = Pool::new(NODES_MAX as u16, GROUPS);
    let bytes = pool.map.encode().len();
    assert!(bytes < 200_000, "{bytes} bytes");
    for round in 0..3 {
        (0..100).for_each(|number| pool.lose(7 * number + round));
        pool.settle(&[], &[]);
        pool.now_ms += OUT_AFTER_MS;
        pool.settle(&[], &[]);
        let activations = pool.activate(|_| true);
        pool.settle(&activations, &[]);
        (0..100).for_each(|number| pool.come_back(7 * number + round));
        pool.settle(&[], &[]);
        pool.now_ms += 60_000;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{seconds:.2} s");
    assert!(seconds < 20.0, "{seconds} s, in whatever else the machine does");
}
