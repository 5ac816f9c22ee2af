//! Gathers: what is asked, what comes together, and how each read of them ends.

use plasmon_proto::gather::GatherRead;
use plasmon_proto::parts::Span;

use super::*;
use crate::config::Config;
use crate::copies::Copy;
use crate::limits::{GATHERS_PER_PEER_MAX, SEGMENT_BYTES, UNREACHABLE_MS};
use crate::outbox::Outbox;
use crate::record::Birth;
use crate::view::View;

/// The gathers of a node that is its own primary of nothing: its questions stay in the outbox.
struct Bench {
    gathers: Gathers,
    view: View,
    out: Outbox,
    copies: Copies,
    now: Mono,
}

fn id(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], None)
}

fn birth(number: u8) -> Birth {
    Birth { slot: Slot(1), boot: 1, serial: number.into() }
}

fn read(number: u8, spans: &[(u64, u64)]) -> GatherRead {
    let spans: Vec<Span> = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
    let end = spans.last().map_or(0, Span::end);
    GatherRead { id: id(number), spans, end }
}

fn failed(failure: ReadFailure) -> Gathered {
    Gathered::Failed(failure)
}

impl Bench {
    fn new() -> Self {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 30));
        let gathers = Gathers::new(u64::MAX - 1000);
        let (out, copies) = (Outbox::default(), Copies::default());
        Self { gathers, view, out, copies, now: Mono(0) }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Gathers, &mut Context<'_>, &Copies) -> T) -> T {
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        act(&mut self.gathers, cx, &self.copies)
    }

    fn begin(&mut self, number: u64, reads: Vec<GatherRead>) {
        let landing = ObjectId::new([number as u8; 20]);
        self.with(|gathers, cx, copies| {
            gathers.begin(cx, copies, (number, landing), GatherRequest { reads });
        });
    }

    /// Answers the questions about an object that are under way.
    fn answer(&mut self, number: u8, answer: &Answer) {
        let gathers = &self.gathers;
        let is_about = |no: &ReadNo| gathers.gathers[&no.0].entries[usize::from(no.1)].id();
        let asked = gathers.by_question.iter().filter(|(_, no)| is_about(no) == id(number));
        let asked: Vec<QuestionNo> = asked.map(|(question, _)| *question).collect();
        assert!(!asked.is_empty(), "nothing is asked about {number}");
        for question in asked {
            assert!(is_of_gather(question) && !crate::parts::is_of_read(question));
            self.with(|gathers, cx, _| {
                gathers.answered(cx, (id(number), question), answer.clone())
            });
        }
    }

    fn found(&mut self, number: u8, data_bytes: u64, sources: &[u16]) {
        let content = Content { data_bytes, metadata_bytes: 3, ..Content::default() };
        let sources = sources.iter().copied().map(Slot).collect();
        let answer = Answer::Found { birth: birth(number), content, sources, keeps: false };
        self.answer(number, &answer);
    }

    fn pulls(&mut self) -> Vec<Wish> {
        std::iter::from_fn(|| self.gathers.next_pull()).collect()
    }

    fn pull(&mut self) -> Wish {
        let mut pulls = self.pulls();
        assert_eq!(pulls.len(), 1, "{pulls:?}");
        pulls.remove(0)
    }

    fn ended(&mut self, landing: ObjectId, ended: Ended) {
        self.with(|gathers, cx, _| gathers.pull_ended(cx, landing, ended));
    }

    fn wait(&mut self) {
        self.now = self.gathers.next_deadline().expect("something is waited for");
        self.with(|gathers, cx, copies| gathers.time_passed(cx, copies));
    }

    /// The answer to a gather, and the local objects that were told before.
    fn reply(&mut self, number: u64) -> GatherReply {
        let mut landed = Vec::new();
        let mut answer = None;
        for effect in self.out.effects.drain(..) {
            match effect {
                Effect::GatherLanded { number: of, object } if of == number => landed.push(object),
                Effect::Gathered { number: of, reply } if of == number => {
                    assert!(answer.replace(reply).is_none(), "one answer");
                }
                other => panic!("{other:?}"),
            }
        }
        let reply = answer.expect("it is answered");
        assert_eq!(reply.objects, landed);
        reply
    }

    fn reads(&mut self) -> Vec<Gathered> {
        let reply = self.reply(1);
        assert!(self.gathers.is_idle(), "{:?}", self.gathers);
        reply.reads
    }
}

/// The objects of a pull, and how many bytes it brings.
fn made_of(wish: &Wish) -> (Vec<ObjectId>, u64) {
    let ids = match &wish.parts {
        Some(PartsOf::Many(parts)) => parts.iter().map(|parts| parts.id).collect(),
        Some(PartsOf::One { of, .. }) => vec![*of],
        None => panic!("{wish:?}"),
    };
    (ids, wish.content.data_bytes)
}

#[test]
fn what_one_node_has_comes_together_in_the_order_asked_for() {
    let mut bench = Bench::new();
    let reads = vec![
        read(1, &[(0, 10), (20, 5)]),
        read(2, &[(0, 1)]),
        read(1, &[(64, 64)]),
        read(3, &[]),
        read(4, &[(0, 7)]),
        read(5, &[(0, 1)]),
    ];
    let end = reads[2].end;
    bench.copies.insert(
        id(5),
        Copy {
            birth: birth(5),
            content: Content::default(),
            visible: true,
            kept: true,
            logged: false,
        },
    );
    bench.begin(1, reads);
    assert_eq!(bench.pulls().len(), 0);
    bench.found(4, 7, &[2]);
    bench.found(1, end, &[1]);
    bench.found(2, 9, &[1, 2]);
    bench.found(3, 9, &[1]);
    let pulls = bench.pulls();
    // In the order of the answers: both reads of the first object, then the second.
    assert_eq!(made_of(&pulls[0]), (vec![id(1), id(1), id(2)], 64 + 64 + 1));
    assert_eq!(made_of(&pulls[1]), (vec![id(4)], 7));
    assert_eq!((&pulls[0].sources[..], &pulls[1].sources[..]), (&[Slot(1)][..], &[Slot(2)][..]));
    assert!(!pulls[0].id.is_pooled() && pulls[0].id != pulls[1].id);
    bench.ended(pulls[1].id, Ended::Sealed);
    bench.ended(pulls[0].id, Ended::Sealed);
    let reply = bench.reply(1);
    assert_eq!(reply.objects, [pulls[1].id, pulls[0].id]);
    let part = |object, offset, data_bytes| Gathered::Parts { object, offset, data_bytes };
    let wanted = [part(1, 0, end), part(1, 128, 9), part(1, 64, end), part(0, 0, 9), part(0, 0, 7)];
    assert_eq!(reply.reads[..5], wanted);
    assert_eq!(reply.reads[5], Gathered::Here);
    assert!(bench.gathers.is_idle());
}

#[test]
fn what_is_longer_than_a_segment_is_a_read_of_one_object() {
    let mut bench = Bench::new();
    bench.begin(1, vec![read(1, &[(5, SEGMENT_BYTES + 1)]), read(2, &[(0, 1)])]);
    bench.found(1, 2 * SEGMENT_BYTES, &[1, 3, 2]);
    bench.found(2, 1, &[1]);
    let pulls = bench.pulls();
    assert_eq!(made_of(&pulls[0]), (vec![id(1)], SEGMENT_BYTES + 1));
    assert!(matches!(pulls[0].parts, Some(PartsOf::One { .. })));
    assert_eq!(pulls[0].sources, [Slot(1), Slot(3), Slot(2)]);
    assert_eq!(pulls[0].birth, birth(1));
    bench.ended(pulls[0].id, Ended::NoRoom);
    bench.ended(pulls[1].id, Ended::Sealed);
    let reads = bench.reads();
    assert_eq!(reads[0], failed(ReadFailure::NoRoom));
    assert!(matches!(reads[1], Gathered::Parts { object: 0, offset: 0, data_bytes: 1 }));
}

#[test]
fn each_object_has_its_own_reason() {
    let mut bench = Bench::new();
    bench.begin(1, (1..=6).map(|number| read(number, &[(0, 4)])).collect());
    bench.answer(1, &Answer::Absent);
    bench.answer(2, &Answer::Deleted);
    bench.answer(3, &Answer::Lost(birth(3)));
    bench.found(4, 3, &[1]);
    bench.answer(5, &Answer::Damaged(birth(5)));
    // The last one is asked about until it is too late.
    while bench.gathers.next_deadline().is_some() {
        bench.wait();
    }
    assert_eq!(bench.now, Mono(0).after_ms(UNREACHABLE_MS));
    let wanted = [
        ReadFailure::Absent,
        ReadFailure::Deleted,
        ReadFailure::Lost,
        ReadFailure::Beyond { data_bytes: 3 },
        ReadFailure::Damaged,
        ReadFailure::Unreachable,
    ];
    assert_eq!(bench.reads(), wanted.map(failed));
}

#[test]
fn what_fails_at_one_node_is_read_from_the_next() {
    let mut bench = Bench::new();
    bench.begin(1, vec![read(1, &[(0, 4)]), read(2, &[(0, 4)]), read(3, &[(0, 4)])]);
    bench.found(1, 9, &[1, 2]);
    bench.found(2, 9, &[1, 3]);
    bench.found(3, 9, &[1]);
    let first = bench.pull();
    assert_eq!(made_of(&first).0, [id(1), id(2), id(3)]);
    bench.ended(first.id, Ended::NoSource);
    let next = bench.pulls();
    assert_eq!(next.len(), 2);
    assert_eq!((made_of(&next[0]).0, next[0].sources[0]), (vec![id(1)], Slot(2)));
    assert_eq!((made_of(&next[1]).0, next[1].sources[0]), (vec![id(2)], Slot(3)));
    for pull in next {
        bench.ended(pull.id, Ended::Sealed);
    }
    // The third has no other source: it is asked about again, and read from the same node.
    bench.wait();
    bench.found(3, 9, &[1]);
    let again = bench.pull();
    assert_ne!(again.id, first.id);
    bench.ended(again.id, Ended::Sealed);
    assert!(bench.reads().iter().all(|read| matches!(read, Gathered::Parts { .. })));

    // One whose sources fail for too long ends.
    bench.begin(1, vec![read(1, &[(0, 4)])]);
    let begun = bench.now;
    while bench.now < begun.after_ms(2 * UNREACHABLE_MS) && !bench.gathers.is_idle() {
        bench.found(1, 9, &[1]);
        let pull = bench.pull();
        bench.ended(pull.id, Ended::NoSource);
        if !bench.gathers.is_idle() {
            bench.wait();
        }
    }
    assert_eq!(bench.reads(), [failed(ReadFailure::Unreachable)]);
}

#[test]
fn an_object_that_is_gone_holds_up_no_other() {
    let mut bench = Bench::new();
    bench.begin(1, (1..=3).map(|number| read(number, &[(0, 4)])).collect());
    (1..=3).for_each(|number| bench.found(number, 9, &[1]));
    let first = bench.pull();
    bench.with(|gathers, cx, _| gathers.refused(cx, first.id, &[1, 700]));
    let again = bench.pull();
    assert_eq!(made_of(&again).0, [id(1), id(3)]);
    bench.ended(first.id, Ended::Sealed);
    bench.ended(again.id, Ended::Sealed);
    bench.wait();
    bench.answer(2, &Answer::Deleted);
    let reads = bench.reads();
    assert_eq!(reads[1], failed(ReadFailure::Deleted));
    assert!(matches!(reads[2], Gathered::Parts { object: 0, offset: 64, .. }));

    // A holder that refuses without a reason is not asked over and over.
    bench.begin(1, vec![read(1, &[(0, 4)])]);
    bench.found(1, 9, &[1]);
    let pull = bench.pull();
    bench.with(|gathers, cx, _| gathers.refused(cx, pull.id, &[]));
    assert_eq!(bench.pulls().len(), 0);
    bench.wait();
    bench.answer(1, &Answer::Absent);
    assert_eq!(bench.reads(), [failed(ReadFailure::Absent)]);
}

#[test]
fn nodes_that_are_not_connected_are_asked_last() {
    let mut bench = Bench::new();
    let half = SEGMENT_BYTES / 2 + 1;
    let count = GATHERS_PER_PEER_MAX as u8 + 2;
    bench.begin(1, (1..=count).map(|number| read(number, &[(0, half)])).collect());
    for number in 1..=count {
        bench.found(number, half, if number == count { &[1] } else { &[1, 2] });
    }
    let begun = bench.pulls();
    assert_eq!(begun.len(), GATHERS_PER_PEER_MAX);
    // What waits for the node goes to the other one, as far as that has it.
    bench.with(|gathers, cx, _| gathers.link_down(cx, Slot(1)));
    assert_eq!(bench.pull().sources, [Slot(2)]);
    for pull in begun {
        bench.ended(pull.id, Ended::NoSource);
    }
    let sources: Vec<Slot> = bench.pulls().iter().map(|pull| pull.sources[0]).collect();
    assert!(sources.contains(&Slot(1)), "the only source of one of them");
    bench.with(|gathers, _, _| gathers.link_up(Slot(1)));
    let pulls = bench.with(|gathers, _, _| gathers.cancel(1));
    assert!(!pulls.is_empty() && bench.gathers.is_idle());
}

#[test]
fn a_gather_that_is_not_wanted_leaves_nothing() {
    let mut bench = Bench::new();
    bench.begin(1, (1..=4).map(|number| read(number, &[(0, 4)])).collect());
    bench.begin(2, vec![read(2, &[(0, 4)])]);
    bench.found(1, 9, &[1]);
    let pull = bench.pull();
    bench.found(2, 9, &[1]);
    bench.answer(3, &Answer::Absent);
    let ended = bench.with(|gathers, _, _| gathers.cancel(1));
    assert_eq!(ended, [pull.id]);
    bench.ended(pull.id, Ended::Sealed);
    assert!(bench.out.effects.is_empty());
    let other = bench.pull();
    bench.ended(other.id, Ended::Sealed);
    assert_eq!(bench.reply(2).objects, [other.id]);
    assert!(bench.gathers.is_idle());
}

#[test]
fn so_many_gathers_are_under_way_and_no_request_beyond_its_limits() {
    let mut bench = Bench::new();
    for number in 1..=GATHERS_MAX as u64 {
        bench.begin(number, vec![read(1, &[(0, 4)])]);
    }
    assert!(bench.out.effects.is_empty());
    bench.begin(1000, vec![read(1, &[(0, 4)]); 2]);
    assert_eq!(bench.reply(1000).reads, [failed(ReadFailure::Busy); 2]);
    bench.with(|gathers, _, _| gathers.cancel(1));
    bench.begin(1000, vec![read(1, &[(4, 4), (0, 1)])]);
    assert_eq!(bench.reply(1000).reads, [failed(ReadFailure::Busy)]);
    bench.begin(1000, vec![read(1, &[(0, 4)])]);
    assert!(bench.out.effects.is_empty());
}

#[test]
fn reads_of_objects_with_a_home_ask_it_first() {
    let mut bench = Bench::new();
    bench.begin(1, vec![read(1, &[(0, 4)])]);
    let question = *bench.gathers.by_question.keys().next().unwrap();
    bench.with(|gathers, cx, _| gathers.not_opened(cx, question));
    assert_eq!(*bench.gathers.by_question.keys().next().unwrap(), question);
    // An answer to a question that was asked before, or about another object, is none.
    bench.with(|gathers, cx, copies| gathers.ask_all(cx, copies));
    bench.with(|gathers, cx, _| gathers.answered(cx, (id(1), question), Answer::Absent));
    let question = *bench.gathers.by_question.keys().next().unwrap();
    bench.with(|gathers, cx, _| gathers.answered(cx, (id(2), question), Answer::Absent));
    assert!(bench.out.effects.is_empty());
    bench.answer(1, &Answer::Absent);
    assert_eq!(bench.reads(), [failed(ReadFailure::Absent)]);
}

#[test]
fn local_objects_have_different_ids() {
    let base = ObjectId::new([7; 20]);
    let ids: BTreeSet<ObjectId> = (0..1000).map(|number| derived(base, number)).collect();
    assert_eq!(ids.len(), 1000);
}
