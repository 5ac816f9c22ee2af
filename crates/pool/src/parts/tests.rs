//! Reads of parts: what is asked, and how each of them ends.

use plasmon_proto::parts::Span;

use super::*;
use crate::config::Config;
use crate::copies::Copy;
use crate::outbox::Outbox;
use crate::view::View;

const LANDING: ObjectId = ObjectId::new([9; 20]);

/// The reads of a node that is its own primary of nothing: its questions stay in the outbox.
struct Bench {
    reads: PartsReads,
    view: View,
    out: Outbox,
    copies: Copies,
    now: Mono,
}

fn id() -> ObjectId {
    ObjectId::pooled([1; 12], None)
}

fn birth(serial: u64) -> Birth {
    Birth { slot: Slot(1), boot: 1, serial }
}

fn request(spans: &[(u64, u64)]) -> ReadRequest {
    let spans: Vec<Span> = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
    let end = spans.last().map_or(0, Span::end);
    ReadRequest { id: id(), birth: None, spans, end, metadata: false, timeout_ms: 0 }
}

fn content() -> Content {
    Content {
        data_bytes: 1000,
        metadata_bytes: 7,
        attributes_bytes: 20,
        tag: 1,
        ..Content::default()
    }
}

impl Bench {
    fn new() -> Self {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 30));
        let reads = PartsReads::new(1 << 40);
        let (out, copies) = (Outbox::default(), Copies::default());
        Self { reads, view, out, copies, now: Mono(0) }
    }

    fn begin(&mut self, request: ReadRequest) {
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        self.reads.begin(cx, &self.copies, (1, LANDING), request);
    }

    /// The question that is under way.
    fn question(&self) -> QuestionNo {
        *self.reads.by_question.keys().next().expect("a question is under way")
    }

    fn answer(&mut self, answer: Answer) -> Option<Wish> {
        let question = self.question();
        assert!(is_of_read(question));
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        self.reads.answered(cx, (id(), question), answer)
    }

    fn found(&mut self, serial: u64) -> Option<Wish> {
        let (birth, content, sources) = (birth(serial), content(), vec![Slot(1)]);
        self.answer(Answer::Found { birth, content, sources, keeps: false })
    }

    fn ended(&mut self, ended: Ended) {
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        self.reads.pull_ended(cx, LANDING, ended);
    }

    /// Goes on to the next deadline.
    fn wait(&mut self) {
        self.now = self.reads.next_deadline().expect("something is waited for");
        let cx = &mut Context { now: self.now, view: &self.view, out: &mut self.out };
        self.reads.time_passed(cx, &self.copies);
    }

    fn reply(&mut self) -> Option<ReadReply> {
        let replies = self.out.effects.drain(..).map(|effect| match effect {
            Effect::Read { number: 1, reply } => reply,
            other => panic!("{other:?}"),
        });
        let replies: Vec<_> = replies.collect();
        assert!(replies.len() < 2, "{replies:?}");
        assert_eq!(self.reads.is_idle(), !replies.is_empty(), "a read ends with its answer");
        replies.first().copied()
    }

    fn failure(&mut self) -> ReadFailure {
        match self.reply() {
            Some(ReadReply::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_found_is_pulled_into_a_local_object() {
    let mut bench = Bench::new();
    bench.begin(ReadRequest { metadata: true, ..request(&[(0, 10), (900, 200)]) });
    assert_eq!(bench.reply(), None);
    assert!(bench.found(5).is_none(), "the data ends before");
    assert_eq!(bench.failure(), ReadFailure::Beyond { data_bytes: 1000 });

    bench.begin(ReadRequest { metadata: true, end: 0, ..request(&[(0, 10), (900, 200)]) });
    let wish = bench.found(5).unwrap();
    let spans: Vec<_> =
        [(0, 10), (900, 100), (1000, 7)].map(|(offset, bytes)| Span { offset, bytes }).into();
    let Some(PartsOf::One { of, spans: wanted }) = wish.parts else { panic!("{wish:?}") };
    assert_eq!((wish.id, wish.content.bytes(), wish.content.data_bytes), (LANDING, 117, 117));
    assert_eq!((of, wanted.as_ref()), (id(), &spans));
    assert_eq!(bench.reads.next_deadline(), None, "the pull ends by itself");
    bench.ended(Ended::Sealed);
    let parts = Parts { object: Some(LANDING), birth: birth(5), content: content() };
    assert_eq!(bench.reply(), Some(ReadReply::Parts(parts)));

    bench.begin(request(&[]));
    assert!(bench.found(5).is_none());
    let nothing = Parts { object: None, ..parts };
    assert_eq!(bench.reply(), Some(ReadReply::Parts(nothing)));
    bench.begin(request(&[(0, 1)]));
    assert!(bench.found(5).is_some());
    bench.ended(Ended::NoRoom);
    assert_eq!(bench.failure(), ReadFailure::NoRoom);
}

#[test]
fn what_is_here_is_read_here_and_another_incarnation_is_not_mixed_in() {
    let mut bench = Bench::new();
    let (visible, kept, logged) = (false, true, false);
    let copy = Copy { birth: birth(5), content: content(), visible, kept, logged };
    bench.copies.insert(id(), copy);
    bench.begin(request(&[(0, 1)]));
    assert_eq!(bench.reply(), None, "clients cannot see it");
    bench.copies.insert(id(), Copy { visible: true, ..copy });
    bench.wait();
    assert_eq!(bench.reply(), None, "the question is sent again");
    let cx = &mut Context { now: bench.now, view: &bench.view, out: &mut bench.out };
    bench.reads.ask_all(cx, &bench.copies);
    assert_eq!(bench.reply(), Some(ReadReply::Here));

    for (wanted, reply) in
        [(birth(5), ReadReply::Here), (birth(6), ReadReply::Failed(ReadFailure::Deleted))]
    {
        bench.begin(ReadRequest { birth: Some(wanted), ..request(&[(0, 1)]) });
        assert_eq!(bench.reply(), Some(reply));
    }
    bench.copies = Copies::default();
    bench.begin(ReadRequest { birth: Some(birth(6)), ..request(&[(0, 1)]) });
    assert!(bench.found(5).is_none());
    assert_eq!(bench.failure(), ReadFailure::Deleted);
    bench.begin(ReadRequest { birth: Some(birth(6)), timeout_ms: 99, ..request(&[(0, 1)]) });
    bench.answer(Answer::Absent);
    assert_eq!(bench.failure(), ReadFailure::Deleted);
}

#[test]
fn every_read_ends() {
    let mut bench = Bench::new();
    // No answer at all.
    bench.begin(request(&[(0, 1)]));
    while bench.reads.next_deadline().is_some() {
        bench.wait();
    }
    assert_eq!(bench.failure(), ReadFailure::Unreachable);
    assert_eq!(bench.now, Mono(0).after_ms(UNREACHABLE_MS));

    for (answer, failure) in [
        (Answer::Absent, ReadFailure::Absent),
        (Answer::Deleted, ReadFailure::Deleted),
        (Answer::Lost(birth(1)), ReadFailure::Lost),
        (Answer::Damaged(birth(1)), ReadFailure::Damaged),
    ] {
        bench.begin(request(&[(0, 1)]));
        assert!(bench.answer(answer).is_none());
        assert_eq!(bench.failure(), failure);
    }
    // One that does not exist is waited for as long as was asked.
    let start = bench.now;
    bench.begin(ReadRequest { timeout_ms: 30_000, ..request(&[(0, 1)]) });
    while !bench.reads.is_idle() {
        match bench.reads.by_question.is_empty() {
            true => bench.wait(),
            false => _ = bench.answer(Answer::Absent),
        }
    }
    assert_eq!(bench.failure(), ReadFailure::Absent);
    assert_eq!(bench.now, start.after_ms(30_000));
    // Every source fails.
    bench.begin(request(&[(0, 1)]));
    let start = bench.now;
    while bench.out.effects.is_empty() {
        assert!(bench.found(1).is_some());
        bench.ended(Ended::NoSource);
        if bench.out.effects.is_empty() {
            bench.wait();
        }
    }
    assert_eq!(bench.failure(), ReadFailure::Unreachable);
    assert!(bench.now >= start.after_ms(UNREACHABLE_MS));
    // The program has gone.
    bench.begin(request(&[(0, 1)]));
    assert_eq!(bench.reads.cancel(1), Some(LANDING));
    assert!(bench.reads.is_idle() && bench.reads.next_deadline().is_none());
    assert_eq!(bench.reads.cancel(1), None);
}

#[test]
fn there_are_so_many_reads_at_a_time() {
    let mut bench = Bench::new();
    for number in 0..=PARTS_READS_MAX as u64 {
        let mut bytes = [1; 20];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        let landing = ObjectId::new(bytes);
        let cx = &mut Context { now: bench.now, view: &bench.view, out: &mut bench.out };
        bench.reads.begin(cx, &bench.copies, (number, landing), request(&[(0, 1)]));
    }
    let number = PARTS_READS_MAX as u64;
    let reply = ReadReply::Failed(ReadFailure::Busy);
    assert_eq!(bench.out.effects, [Effect::Read { number, reply }]);
}

/// An answer to another question, or about another object, changes nothing.
#[test]
fn answers_that_were_not_asked_for_are_passed_over() {
    let mut bench = Bench::new();
    bench.begin(request(&[(0, 1)]));
    let question = bench.question();
    let cx = &mut Context { now: bench.now, view: &bench.view, out: &mut bench.out };
    let other = ObjectId::pooled([2; 12], None);
    assert!(bench.reads.answered(cx, (other, question), Answer::Absent).is_none());
    let cx = &mut Context { now: bench.now, view: &bench.view, out: &mut bench.out };
    let no = QuestionNo(question.0 + 1);
    assert!(bench.reads.answered(cx, (id(), no), Answer::Absent).is_none());
    assert_eq!(bench.reply(), None);
}
