//! Admission of pulls, and what happens when a source fails.

use super::*;
use crate::config::Config;
use crate::event::Told;
use crate::limits::SEGMENT_BYTES;
use crate::outbox::Outbox;
use crate::view::View;

/// The pulls of a node with 40 segments of capacity, so that 10 may be in flight.
struct Bench {
    pulls: Pulls,
    view: View,
    out: Outbox,
    now: Mono,
}

impl Bench {
    fn new() -> Self {
        let view = View::new(Config::new(Slot(0), 1, 1, 40 * SEGMENT_BYTES));
        let pulls = Pulls::new(40 * SEGMENT_BYTES, 0);
        Self { pulls, view, out: Outbox::default(), now: Mono(0) }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Pulls, &mut Context<'_>) -> T) -> T {
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        act(&mut self.pulls, cx)
    }

    fn begin(&mut self, number: u8, segments: u64, class: Class) {
        self.begin_bytes(number, segments * SEGMENT_BYTES, class);
    }

    fn begin_bytes(&mut self, number: u8, data_bytes: u64, class: Class) {
        let content = Content { data_bytes, ..Content::default() };
        let birth = Birth { slot: Slot(1), boot: 1, serial: u64::from(number) };
        let (id, sources) = (id(number), vec![Slot(1), Slot(2)]);
        let (visible, hold, parts) = (true, false, None);
        let wish = Wish { id, birth, content, class, sources, visible, hold, parts };
        assert!(self.with(|pulls, cx| pulls.begin(cx, wish)));
    }

    /// The pulls that were admitted since the last call.
    fn landings(&mut self) -> Vec<(u8, Ticket)> {
        let effects = std::mem::take(&mut self.out.effects);
        let landing = |effect: &Effect| match effect {
            Effect::Land { id, ticket, .. } => Some((id.as_bytes()[0], *ticket)),
            _ => None,
        };
        effects.iter().filter_map(landing).collect()
    }

    /// What was asked of which node since the last call.
    fn reads(&mut self) -> Vec<(u16, TransferNo, usize)> {
        let sent = std::mem::take(&mut self.out.remote);
        let read = |(slot, messages): (Slot, Vec<Message>)| {
            messages.into_iter().filter_map(move |message| match message {
                Message::Read { transfer, ranges, .. } => {
                    let segments = ranges.iter().map(|range| range.count as usize).sum();
                    Some((slot.0, transfer, segments))
                }
                _ => None,
            })
        };
        sent.into_iter().flat_map(read).collect()
    }
}

fn id(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], None)
}

#[test]
fn urgent_classes_come_first_and_one_pull_is_always_under_way() {
    let mut bench = Bench::new();
    // Larger than all that may be in flight, and admitted because it is alone.
    bench.begin(1, 30, Class::Repair);
    let admitted = bench.landings();
    assert_eq!(admitted.len(), 1);
    bench.begin(2, 4, Class::Replica);
    bench.begin(3, 4, Class::Get);
    bench.begin(4, 4, Class::Get);
    bench.begin(5, 4, Class::Wait);
    assert_eq!(bench.landings(), []);
    let ended = bench.with(|pulls, cx| pulls.landed(cx, admitted[0].1, false));
    assert_eq!(ended.map(|outcome| outcome.ended), Some(Ended::NoRoom));
    // Two of them are 8 segments, a third would be 12.
    let admitted = bench.landings();
    assert_eq!(admitted.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4]);
    bench.with(|pulls, cx| pulls.cancel(cx, id(3)));
    assert_eq!(bench.landings()[0].0, 5);
}

#[test]
fn a_source_that_is_not_connected_is_asked_last() {
    let mut bench = Bench::new();
    let first_source = |bench: &mut Bench, number| {
        bench.begin(number, 1, Class::Get);
        let ticket = bench.landings()[0].1;
        assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
        bench.reads()[0].0
    };
    assert!(bench.with(|pulls, cx| pulls.link_down(cx, Slot(1))).is_empty());
    assert_eq!(first_source(&mut bench, 1), 2);
    bench.pulls.link_up(Slot(1));
    assert_eq!(first_source(&mut bench, 2), 1);
    // Where none is connected the first is asked all the same: its connection may be under way.
    bench.with(|pulls, cx| pulls.link_down(cx, Slot(1)));
    bench.with(|pulls, cx| pulls.link_down(cx, Slot(2)));
    assert_eq!(first_source(&mut bench, 3), 1);
}

/// Over a slow link, or one that many transfers share, a segment may take longer than the time
/// after which a transfer counts as standing still: it was begun again and again, and never ended.
#[test]
fn a_source_whose_bytes_arrive_keeps_its_transfers_without_a_whole_segment() {
    let mut bench = Bench::new();
    bench.begin(1, 3, Class::Get);
    let ticket = bench.landings()[0].1;
    assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
    assert_eq!(bench.reads()[0].0, 1);
    for _ in 0..10 {
        bench.now = bench.now.after_ms(STALL_MS - 1);
        let mut moving = Vec::new();
        // Nothing is asked of the other one.
        bench.pulls.moving(bench.now, Slot(2), |id| moving.push(id));
        assert_eq!(moving, []);
        bench.pulls.moving(bench.now, Slot(1), |id| moving.push(id));
        assert_eq!(moving, [id(1)]);
        assert!(bench.with(|pulls, cx| pulls.time_passed(cx)).is_empty());
        assert!(bench.reads().is_empty());
    }
    bench.now = bench.now.after_ms(STALL_MS);
    assert!(bench.with(|pulls, cx| pulls.time_passed(cx)).is_empty());
    assert_eq!(bench.reads()[0].0, 2);
}

#[test]
fn a_source_that_fails_is_followed_by_the_next_which_is_asked_for_what_is_missing() {
    let mut bench = Bench::new();
    bench.begin(1, 3, Class::Get);
    let ticket = bench.landings()[0].1;
    assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
    let first = bench.reads()[0];
    assert_eq!((first.0, first.2), (1, 3));
    bench.with(|pulls, cx| pulls.arrived(cx, first.1, 1, true));
    // It does not move for long.
    bench.now = Mono(0).after_ms(STALL_MS);
    assert!(bench.with(|pulls, cx| pulls.time_passed(cx)).is_empty());
    let second = bench.reads()[0];
    assert_eq!((second.0, second.2), (2, 2));
    // What still comes from the first one changes nothing.
    assert!(bench.with(|pulls, cx| pulls.arrived(cx, first.1, 0, true)).is_none());
    // Wrong bytes, and no other source.
    let (of, ended) = bench.with(|pulls, cx| pulls.arrived(cx, second.1, 0, false)).unwrap();
    assert_eq!(of, id(1));
    assert_eq!(ended.map(|outcome| outcome.ended), Some(Ended::NoSource));
    assert!(bench.out.effects.contains(&Effect::Abandon(ticket)));
    assert!(bench.pulls.is_idle());
}

/// The answer of a source takes longer than memory, so a small object is asked for at once.
#[test]
fn a_small_object_is_asked_for_while_its_memory_is_made() {
    let mut bench = Bench::new();
    bench.begin(1, 2, Class::Get);
    let (_, transfer, _) = bench.reads()[0];
    let ticket = bench.landings()[0].1;
    // The store takes its time: the source is not at fault.
    bench.now = Mono(0).after_ms(2 * STALL_MS);
    assert!(bench.with(|pulls, cx| pulls.time_passed(cx)).is_empty());
    assert_eq!(bench.reads(), []);
    assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
    assert_eq!(bench.reads(), [], "it was asked for once");
    for segment in [0, 1] {
        bench.with(|pulls, cx| pulls.arrived(cx, transfer, segment, true)).unwrap();
    }
    assert!(bench.pulls.is_idle());
    // A large one is asked for when there is room for its bytes.
    bench.begin(2, 6, Class::Get);
    assert_eq!(bench.reads(), []);
    let ticket = bench.landings()[0].1;
    bench.with(|pulls, cx| pulls.landed(cx, ticket, true));
    assert_eq!(bench.reads().len(), 1);
}

/// It comes in a message, from the node that was asked, and with all its bytes.
#[test]
fn a_very_small_object_is_put_into_its_memory_when_that_is_there() {
    let mut bench = Bench::new();
    let whole = |bench: &mut Bench, from, transfer, bytes: usize| {
        let bytes = InlineBytes(vec![7; bytes]);
        bench.with(|pulls, cx| pulls.whole(cx, (Slot(from), transfer), bytes))
    };
    for is_early in [true, false] {
        bench.begin_bytes(1, 100, Class::Get);
        let (from, first, _) = bench.reads()[0];
        let effects = std::mem::take(&mut bench.out.effects);
        let [Effect::Land { ticket, .. }] = effects[..] else { panic!("{effects:?}") };
        assert!(whole(&mut bench, 3, first, 100).is_none(), "it was not asked");
        assert!(whole(&mut bench, from, first, 99).unwrap().1.is_none());
        let (from, second, _) = bench.reads()[0];
        let sealed = if is_early {
            assert!(whole(&mut bench, from, second, 100).unwrap().1.is_none());
            bench.now = bench.now.after_ms(2 * STALL_MS);
            assert!(bench.with(|pulls, cx| pulls.time_passed(cx)).is_empty());
            bench.with(|pulls, cx| pulls.landed(cx, ticket, true))
        } else {
            assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
            whole(&mut bench, from, second, 100).unwrap().1
        };
        assert_eq!(sealed.map(|outcome| outcome.ended), Some(Ended::Sealed));
        let fill = Effect::Fill { ticket, bytes: InlineBytes(vec![7; 100]) };
        let seal = Effect::Seal { ticket, visible: true, keep: false };
        assert_eq!(std::mem::take(&mut bench.out.effects), [fill, seal]);
        assert!(bench.pulls.is_idle());
    }
}

#[test]
fn a_small_object_without_room_is_not_received() {
    let mut bench = Bench::new();
    bench.begin(1, 1, Class::Get);
    let (_, transfer, _) = bench.reads()[0];
    let ticket = bench.landings()[0].1;
    let ended = bench.with(|pulls, cx| pulls.landed(cx, ticket, false));
    assert_eq!(ended.map(|outcome| outcome.ended), Some(Ended::NoRoom));
    assert!(bench.out.effects.contains(&Effect::Refuse(transfer)));
    assert!(bench.pulls.is_idle());
}

/// A pull whose only source was reached over a connection that was lost ended, and gave its memory
/// and what had arrived away, until the directory had been asked again.
#[test]
fn a_source_whose_connection_was_lost_is_asked_again_for_what_is_missing() {
    let mut bench = Bench::new();
    bench.begin(1, 3, Class::Get);
    let ticket = bench.landings()[0].1;
    assert!(bench.with(|pulls, cx| pulls.landed(cx, ticket, true)).is_none());
    // The other source comes first.
    let (source, first, _) = bench.reads()[0];
    assert_eq!(source, 1);
    assert!(bench.with(|pulls, cx| pulls.interrupted(cx, first)).is_none());
    let (source, second, _) = bench.reads()[0];
    assert_eq!(source, 2);
    assert!(bench.with(|pulls, cx| pulls.interrupted(cx, first)).is_none(), "it has ended");
    assert_eq!(bench.reads(), []);
    bench.with(|pulls, cx| pulls.refused(cx, second, false));
    let (source, third, _) = bench.reads()[0];
    assert_eq!(source, 1);
    // It is the only one now.
    bench.with(|pulls, cx| pulls.arrived(cx, third, 1, true));
    assert!(bench.with(|pulls, cx| pulls.interrupted(cx, third)).is_none());
    let (source, fourth, missing) = bench.reads()[0];
    assert_eq!((source, missing), (1, 2));
    // Once more without a segment in between, and the pull ends: what is there is of no use.
    let ended = bench.with(|pulls, cx| pulls.interrupted(cx, fourth));
    assert_eq!(ended.map(|outcome| outcome.ended), Some(Ended::NoSource));
    assert!(bench.pulls.is_idle());
}

#[test]
fn a_pull_is_sealed_once_every_segment_is_there() {
    let mut bench = Bench::new();
    bench.begin(1, 2, Class::Get);
    let ticket = bench.landings()[0].1;
    bench.with(|pulls, cx| pulls.landed(cx, ticket, true));
    let (_, transfer, _) = bench.reads()[0];
    for segment in [1, 1] {
        let arrived = bench.with(|pulls, cx| pulls.arrived(cx, transfer, segment, true));
        assert!(arrived.unwrap().1.is_none());
    }
    let (_, ended) = bench.with(|pulls, cx| pulls.arrived(cx, transfer, 0, true)).unwrap();
    assert_eq!(ended.map(|outcome| outcome.ended), Some(Ended::Sealed));
    let seal = Effect::Seal { ticket, visible: true, keep: false };
    assert!(bench.out.effects.contains(&seal));
    assert!(!bench.out.effects.iter().any(|e| matches!(e, Effect::Tell(Told::Drop { .. }))));
    assert!(bench.pulls.is_idle());
}
