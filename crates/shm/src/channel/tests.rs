//! Daemon and client of one channel in one process, and what a hostile client can write into it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plasmon_proto::Code;
use plasmon_proto::ObjectId;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::limits::{COMPLETIONS, PINS_PER_CLIENT_MAX, SUBMISSIONS, TOUCHES};
use plasmon_proto::ring::{Completion, Record, Submission};
use proptest::prelude::*;

use super::layout::{
    COMPLETIONS_AT, LEDGER_AT, LEDGER_HIGH_AT, SLEEPERS_AT, SUBMISSION_TAIL_AT, SUBMISSIONS_AT,
    TOUCHES_AT,
};
use super::*;
use crate::control::{ControlDaemon, ControlReader};
use crate::map::WriteMap;
use crate::memfd::Memfd;
use crate::scan::PinCounts;

struct Pair {
    control: ControlDaemon,
    reader: ControlReader,
    daemon: ChannelDaemon,
    client: ChannelClient,
}

impl Pair {
    fn new() -> Self {
        let control = ControlDaemon::create().unwrap();
        let reader = ControlReader::new(control.memfd().read_only().unwrap()).unwrap();
        let daemon = ChannelDaemon::create().unwrap();
        let client = ChannelClient::new(daemon.memfd().duplicate().unwrap()).unwrap();
        Self { control, reader, daemon, client }
    }

    /// What a hostile client has: the memory itself.
    fn raw(&self) -> WriteMap {
        WriteMap::new(self.daemon.memfd(), CHANNEL_BYTES, crate::Populate::No).unwrap()
    }
}

fn record(number: u64) -> Record {
    Submission::LeaseWanted { bytes_min: number, bytes_wanted: number }.encode()
}

#[test]
fn the_layout_is_the_documented_one() {
    assert_eq!(SUBMISSIONS_AT, 4096);
    assert_eq!(COMPLETIONS_AT, 4096 + 262_144);
    assert_eq!(TOUCHES_AT, 4096 + 262_144 + 16_384);
    assert_eq!(LEDGER_AT, 4096 + 262_144 + 16_384 + 4096);
    assert_eq!(CHANNEL_BYTES, LEDGER_AT as u64 + (8 << 20));
}

#[test]
fn submissions_arrive_once_and_in_order_until_the_ring_is_full() {
    let mut pair = Pair::new();
    for number in 0..SUBMISSIONS as u64 {
        let submitted = pair.client.submit(&record(number), &pair.reader).unwrap();
        let InFlight { position, count, must_ring, .. } = submitted;
        assert_eq!((position, count, must_ring), (number, 1, false));
    }
    assert_eq!(pair.client.submit(&record(0), &pair.reader), None);
    assert_eq!(pair.daemon.pending(), Ok(SUBMISSIONS as u64));
    let mut drained = Vec::new();
    assert_eq!(pair.daemon.drain(10, &mut drained), Ok(10));
    assert_eq!(drained, (0..10).map(|number| (number, record(number))).collect::<Vec<_>>());
    assert_eq!(pair.client.submit(&record(0), &pair.reader), None, "not before the advance");
    pair.daemon.advance();
    pair.daemon.wake().unwrap();
    assert_eq!(pair.client.head(), 10);
    assert!(pair.client.is_applied(9) && !pair.client.is_applied(10));
    let records: Vec<_> = (0..20).map(record).collect();
    let submitted = pair.client.submit_many(&records, &pair.reader);
    assert_eq!((submitted.position, submitted.count), (SUBMISSIONS as u64, 10));
    assert_eq!(pair.daemon.drain(usize::MAX, &mut drained), Ok(SUBMISSIONS));
    assert_eq!(drained.len(), SUBMISSIONS + 10);
    assert_eq!(drained.last(), Some(&(SUBMISSIONS as u64 + 9, record(9))));
}

#[test]
fn a_sleeping_daemon_is_to_be_rung() {
    let pair = Pair::new();
    pair.control.set_sleeping(true);
    assert!(pair.client.submit(&record(0), &pair.reader).unwrap().must_ring);
    assert!(!pair.client.submit(&record(0), &pair.reader).unwrap().must_ring, "it was rung");
    pair.client.forget_rung();
    assert!(pair.client.submit(&record(0), &pair.reader).unwrap().must_ring);
    pair.control.set_sleeping(false);
    assert!(!pair.client.submit(&record(0), &pair.reader).unwrap().must_ring);
    assert!(!pair.client.submit_many(&[], &pair.reader).must_ring);
}

#[test]
fn a_daemon_that_looks_elsewhere_is_to_be_rung_until_it_was() {
    let mut pair = Pair::new();
    assert!(pair.daemon.await_doorbell());
    let first = pair.client.submit(&record(0), &pair.reader).unwrap();
    assert!(first.must_ring);
    // Another thread may not count on a doorbell that has not rung yet.
    assert!(pair.client.submit(&record(1), &pair.reader).unwrap().must_ring);
    pair.client.rang(&first);
    assert!(!pair.client.submit(&record(2), &pair.reader).unwrap().must_ring);
    assert!(!pair.daemon.await_doorbell(), "there is something in the ring");
    assert!(!pair.client.submit(&record(3), &pair.reader).unwrap().must_ring);
    pair.daemon.drain(usize::MAX, &mut Vec::new()).unwrap();
    assert!(pair.daemon.await_doorbell());
    assert!(pair.client.submit(&record(4), &pair.reader).unwrap().must_ring, "another wait");
    pair.daemon.watch_submissions();
    assert!(!pair.client.submit(&record(5), &pair.reader).unwrap().must_ring);
}

#[test]
fn threads_that_wait_for_the_head_are_woken() {
    let mut pair = Pair::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    let past = Some(Instant::now());
    let positions: Vec<_> =
        (0..4).map(|n| pair.client.submit(&record(n), &pair.reader).unwrap().position).collect();
    assert!(!pair.client.wait_applied(0, past).unwrap());
    let raw = pair.raw();
    let sleepers: &AtomicU32 = &raw.shared(SLEEPERS_AT, 1)[0];
    let client = &pair.client;
    let daemon = &mut pair.daemon;
    std::thread::scope(|scope| {
        let waits: Vec<_> = positions
            .iter()
            .map(|position| scope.spawn(|| client.wait_applied(*position, Some(deadline)).unwrap()))
            .collect();
        for _ in &waits {
            // The wake-up is only tried when a thread sleeps.
            while sleepers.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            daemon.drain(1, &mut Vec::new()).unwrap();
            daemon.advance();
            daemon.wake().unwrap();
        }
        assert!(waits.into_iter().all(|wait| wait.join().unwrap()));
    });
    assert_eq!(sleepers.load(Ordering::Relaxed), 0);
}

#[test]
fn completions_that_are_not_read_are_counted() {
    let mut pair = Pair::new();
    let refused =
        |position| Completion::Refused { position, code: Code::Exists, id: ObjectId::new([1; 20]) };
    for position in 0..COMPLETIONS as u64 {
        assert!(pair.daemon.complete(&refused(position)));
    }
    assert!(!pair.daemon.complete(&refused(0)));
    assert!(!pair.daemon.complete(&refused(0)));
    assert!(!pair.daemon.complete(&Completion::ExtentGone(ExtentId(3))));
    assert_eq!(pair.client.completions_lost(), 3);
    assert_eq!(pair.client.refusals_lost(), 2);
    for position in 0..COMPLETIONS as u64 {
        assert_eq!(pair.client.next_completion(), Some(refused(position)));
    }
    assert_eq!(pair.client.next_completion(), None);
    assert!(pair.daemon.complete(&Completion::ExtentGone(ExtentId(3))));
    assert_eq!(pair.client.next_completion(), Some(Completion::ExtentGone(ExtentId(3))));
}

#[test]
fn touches_come_out_newest_last_and_old_ones_are_dropped() {
    let mut pair = Pair::new();
    let mut touches = Vec::new();
    pair.daemon.touches(&mut touches);
    assert!(touches.is_empty());
    (0..5).for_each(|record| pair.client.touch(record));
    pair.daemon.touches(&mut touches);
    assert_eq!(touches, [0, 1, 2, 3, 4]);
    touches.clear();
    (0..2 * TOUCHES as u32).for_each(|record| pair.client.touch(record));
    pair.daemon.touches(&mut touches);
    assert_eq!(touches, (TOUCHES as u32..2 * TOUCHES as u32).collect::<Vec<_>>());
}

#[test]
fn a_restarted_daemon_goes_on_where_the_old_one_stopped() {
    let mut pair = Pair::new();
    for number in 0..5 {
        pair.client.submit(&record(number), &pair.reader).unwrap();
    }
    let mut drained = Vec::new();
    pair.daemon.drain(2, &mut drained).unwrap();
    pair.daemon.advance();
    pair.daemon.wake().unwrap();
    // Drained and not advanced: the old daemon may have died before it applied this one.
    pair.daemon.drain(1, &mut drained).unwrap();
    assert!(pair.daemon.complete(&Completion::ExtentGone(ExtentId(1))));
    let entry = pair.client.ledger().claim(99).unwrap();

    let memfd = Memfd::adopt(pair.daemon.memfd().duplicate().unwrap()).unwrap();
    pair.daemon = ChannelDaemon::adopt(memfd).unwrap();
    drained.clear();
    assert_eq!(pair.daemon.drain(usize::MAX, &mut drained), Ok(3));
    assert_eq!(drained[0], (2, record(2)));
    assert!(pair.daemon.complete(&Completion::ExtentGone(ExtentId(2))));
    assert_eq!(pair.client.next_completion(), Some(Completion::ExtentGone(ExtentId(1))));
    assert_eq!(pair.client.next_completion(), Some(Completion::ExtentGone(ExtentId(2))));
    let mut pins = Vec::new();
    pair.daemon.pins(|serial| pins.push(serial));
    assert_eq!(pins, [99]);
    pair.client.ledger().release(entry);
    assert_eq!(pair.daemon.pins_count(), 0);
}

/// The mark below which the pins lie is written by the client. Eight bytes made the daemon touch,
/// and so allocate, 8 MB of each ledger, and look through them every 20 ms.
#[test]
fn a_mark_over_pages_that_were_never_written_costs_nothing() {
    let pair = Pair::new();
    let raw = pair.raw();
    let high: &AtomicU64 = &raw.shared(LEDGER_HIGH_AT, 1)[0];
    let entries: &[AtomicU64] = raw.shared(LEDGER_AT, PINS_PER_CLIENT_MAX);
    high.store(u64::MAX, Ordering::Relaxed);
    let before = pair.daemon.memfd().resident_bytes().unwrap();
    assert_eq!(pair.daemon.scan_pins(&mut PinCounts::new(&[7])), 0);
    assert_eq!(pair.daemon.memfd().resident_bytes().unwrap(), before);
    // Pages with holes between them, the last one included.
    let last = PINS_PER_CLIENT_MAX - 1;
    for entry in [3 * 512, 3 * 512 + 511, 5 * 512, last] {
        entries[entry].store(7, Ordering::Relaxed);
    }
    for _ in 0..2 {
        let mut counts = PinCounts::new(&[7, 8]);
        assert_eq!(pair.daemon.scan_pins(&mut counts), 3 * 512, "three pages exist");
        assert_eq!(counts.of(&[7, 8]), [4, 0]);
    }
    assert_eq!(pair.daemon.memfd().resident_bytes().unwrap(), before + 3 * 4096);
    // What lies at and beyond the mark is not looked at.
    high.store(3 * 512 + 511, Ordering::Relaxed);
    assert_eq!(
        (pair.daemon.scan_pins(&mut PinCounts::new(&[])), pair.daemon.pins_count()),
        (511, 1)
    );
}

#[test]
fn a_tail_out_of_range_is_hostile() {
    let mut pair = Pair::new();
    let raw = pair.raw();
    let tail: &AtomicU64 = &raw.shared(SUBMISSION_TAIL_AT, 1)[0];
    for (found, ok) in [(4096, true), (4097, false), (u64::MAX, false), (1 << 63, false)] {
        tail.store(found, Ordering::Relaxed);
        assert_eq!(pair.daemon.pending().is_ok(), ok, "{found}");
        assert_eq!(pair.daemon.drain(0, &mut Vec::new()).is_ok(), ok, "{found}");
    }
}

#[test]
fn other_memfds_are_no_channels() {
    let small = Memfd::create("plasmon-test", 4096).unwrap();
    assert!(ChannelClient::new(small.duplicate().unwrap()).is_err());
    assert!(ChannelDaemon::adopt(small).is_err());
    let blank = Memfd::create("plasmon-test", CHANNEL_BYTES).unwrap();
    assert!(ChannelClient::new(blank.duplicate().unwrap()).is_err());
    // For a restarted daemon the magic says nothing: it lies where the client can write.
    assert!(ChannelDaemon::adopt(blank).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a client writes wherever, the daemon copies out no more than the rings hold and
    /// ends in an answer or in `ProtocolViolation`.
    #[test]
    fn garbage_in_the_channel_does_no_harm(
        writes in proptest::collection::vec((0..CHANNEL_BYTES / 8, any::<u64>()), 0..100),
        cursors in proptest::collection::vec(
            (0..9usize, prop_oneof![any::<u64>(), 0..5000u64]), 0..9,
        ),
    ) {
        let mut pair = Pair::new();
        let raw = pair.raw();
        let words: &[AtomicU64] = raw.shared(0, (CHANNEL_BYTES / 8) as usize);
        for (at, value) in writes {
            words[at as usize].store(value, Ordering::Relaxed);
        }
        for (cursor, value) in cursors {
            words[cursor * 8].store(value, Ordering::Relaxed);
        }
        let mut drained = Vec::new();
        if let Ok(count) = pair.daemon.drain(usize::MAX, &mut drained) {
            prop_assert!(count <= SUBMISSIONS && drained.len() == count);
            for (_, record) in &drained {
                let _ = Submission::decode(record);
            }
        }
        pair.daemon.advance();
        pair.daemon.wake().unwrap();
        for _ in 0..COMPLETIONS + 2 {
            pair.daemon.complete(&Completion::ExtentGone(ExtentId(0)));
        }
        let mut touches = Vec::new();
        pair.daemon.touches(&mut touches);
        prop_assert!(touches.len() <= TOUCHES);
        pair.daemon.scan_pins(&mut PinCounts::new(&[1, 2]));
        prop_assert!(pair.daemon.pins_count() <= PINS_PER_CLIENT_MAX);
    }
}
