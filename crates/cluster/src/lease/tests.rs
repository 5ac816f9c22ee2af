//! Orders of keep-alives, answers and time, as a table and all of them.

use super::*;

const TTL: u64 = 3000;

#[test]
fn a_lease_is_held_from_the_send_time_of_what_was_answered() {
    let mut clock = LeaseClock::new(1000, TTL);
    assert!(clock.is_held(3499) && !clock.is_held(3500));
    let first = clock.send(2000);
    assert_eq!(clock.held_until_ms(), Some(3500), "sending extends nothing");
    clock.answer(first, TTL);
    assert_eq!(clock.held_until_ms(), Some(4500), "whenever the answer came");
}

#[test]
fn late_and_repeated_answers_extend_nothing() {
    let mut clock = LeaseClock::new(0, TTL);
    let [first, second] = [clock.send(1000), clock.send(2000)];
    clock.answer(second, TTL);
    clock.answer(first, TTL);
    clock.answer(second, TTL);
    assert_eq!(clock.held_until_ms(), Some(4500));
}

#[test]
fn a_lease_that_is_gone_stays_gone() {
    let mut clock = LeaseClock::new(0, TTL);
    let [first, second] = [clock.send(1000), clock.send(2000)];
    clock.answer(first, 0);
    clock.answer(second, TTL);
    assert_eq!((clock.held_until_ms(), clock.is_held(1)), (None, false));
    let third = clock.send(2500);
    clock.answer(third, TTL);
    assert!(!clock.is_held(2501));
}

#[test]
fn a_shorter_ttl_counts_and_a_longer_one_does_not() {
    for (answered, until) in [(2000, 2500), (TTL, 3500), (9000, 3500), (400, 2500)] {
        let mut clock = LeaseClock::new(0, TTL);
        let number = clock.send(1000);
        clock.answer(number, answered);
        assert_eq!(clock.held_until_ms(), Some(until), "answered with {answered}");
    }
}

#[test]
fn keep_alives_without_answers_take_no_memory() {
    let mut clock = LeaseClock::new(0, TTL);
    let first = clock.send(100);
    for now in 0..PENDING_MAX as u64 {
        clock.send(200 + now);
    }
    assert_eq!(clock.pending.len(), PENDING_MAX);
    clock.answer(first, TTL);
    assert_eq!(clock.held_until_ms(), Some(2500), "the oldest was given up");
}

/// One thing that happens to a keep-alive.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Send,
    Answer(usize),
}

/// Three keep-alives at most, each answered in any order or never, with etcd handling each of them
/// anywhere between its sending and its answer: the node never holds the lease when etcd, on a
/// clock that runs 5 % faster, has let it expire.
#[test]
fn no_order_of_answers_outlives_the_lease_in_etcd() {
    let mut orders = 0;
    explore(&mut Vec::new(), 0, &mut orders);
    assert_eq!(orders, ORDERS);
}

/// Prefixes of sends and answers with three keep-alives.
const ORDERS: u32 = 47;

fn explore(steps: &mut Vec<Step>, sent: usize, orders: &mut u32) {
    *orders += 1;
    check(steps);
    if sent < 3 {
        steps.push(Step::Send);
        explore(steps, sent + 1, orders);
        steps.pop();
    }
    for number in 0..sent {
        if !steps.contains(&Step::Answer(number)) {
            steps.push(Step::Answer(number));
            explore(steps, sent, orders);
            steps.pop();
        }
    }
}

/// Steps are 700 ms apart, so that leases expire within the order.
fn check(steps: &[Step]) {
    let mut clock = LeaseClock::new(0, TTL);
    let mut sent = Vec::new();
    // What etcd knows at the earliest: each keep-alive was handled when it was sent.
    let mut expires = TTL;
    for (at, step) in steps.iter().enumerate() {
        let now = 700 * (at as u64 + 1);
        match step {
            Step::Send => sent.push((clock.send(now), now)),
            Step::Answer(number) => {
                let (keep_alive, sent_ms) = sent[*number];
                clock.answer(keep_alive, TTL);
                expires = expires.max(sent_ms + TTL);
            }
        }
        let in_etcd = expires - TTL + TTL * 95 / 100;
        for later in [now, now + 1000, now + 2499, now + 2500, now + 4000] {
            let is_held = clock.is_held(later);
            assert!(!is_held || later < in_etcd, "held at {later}, gone at {in_etcd}");
            assert_eq!(is_held, later < expires - MARGIN_MS, "at {later}");
        }
    }
}
