//! Questions of operators: what the directory knows of an object, without doing anything about it.
//!
//! The primary of the id answers from its record. An answer that does not come is asked for again,
//! and ends as unreachable; what the primary cannot say for certain it does not answer.

use std::collections::BTreeMap;

use plasmon_cluster::{Epoch, Map};
use plasmon_proto::ObjectId;

use crate::event::Effect;
use crate::limits::{PLACE_MS, PLACES_MAX, RETRY_MS};
use crate::message::{Message, QuestionNo};
use crate::record::Place;
use crate::time::{Mono, Timers};
use crate::view::Context;

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// What the answer is given with.
    number: u64,
    id: ObjectId,
    deadline: Mono,
}

/// The questions of this node.
#[derive(Debug)]
pub(crate) struct Places {
    asked: BTreeMap<QuestionNo, Question>,
    next: u64,
    timers: Timers<QuestionNo>,
}

impl Places {
    /// No questions; they are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { asked: BTreeMap::new(), next: first, timers: Timers::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Asks about an object; [`Effect::Place`] answers.
    pub(crate) fn ask(&mut self, cx: &mut Context<'_>, number: u64, id: ObjectId) {
        if self.asked.len() >= PLACES_MAX {
            let place = Place::unreachable(cx.view.primary_of(&id));
            return cx.out.effect(Effect::Place { number, place });
        }
        let no = QuestionNo(self.next);
        self.next = self.next.wrapping_add(1);
        let deadline = cx.now.after_ms(PLACE_MS);
        self.asked.insert(no, Question { number, id, deadline });
        self.send(cx, no, id);
    }

    fn send(&mut self, cx: &mut Context<'_>, no: QuestionNo, id: ObjectId) {
        self.timers.set(no, cx.now.after_ms(RETRY_MS));
        cx.send_to_primary(&id, Message::Where { id, question: no });
    }

    /// A primary has answered in this epoch; one that led the group before does not count.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        (id, no): (ObjectId, QuestionNo),
        place: Place,
    ) {
        let is_asked = self.asked.get(&no).is_some_and(|question| question.id == id);
        if is_asked && epoch >= cx.view.group(Map::group_of(&id)).since {
            self.end(cx, no, place);
        }
    }

    /// Asks again, and ends what was not answered in time.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(no) = self.timers.pop(cx.now) {
            let Some(Question { id, deadline, .. }) = self.asked.get(&no).copied() else {
                continue;
            };
            if deadline <= cx.now {
                let place = Place::unreachable(cx.view.primary_of(&id));
                self.end(cx, no, place);
            } else {
                self.send(cx, no, id);
            }
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, no: QuestionNo, place: Place) {
        self.timers.clear(no);
        if let Some(Question { number, .. }) = self.asked.remove(&no) {
            cx.out.effect(Effect::Place { number, place });
        }
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;

    use super::*;
    use crate::config::Config;
    use crate::outbox::Outbox;
    use crate::view::View;

    #[test]
    fn a_question_without_an_answer_ends_and_too_many_end_at_once() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let mut out = Outbox::default();
        let mut places = Places::new(7);
        let id = ObjectId::pooled([1; 12], None);
        let ended = |out: &mut Outbox| std::mem::take(&mut out.effects).len();
        for number in 0..PLACES_MAX as u64 {
            let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
            places.ask(cx, number, id);
        }
        assert_eq!(ended(&mut out), 0);
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        places.ask(cx, 99, id);
        let place = Place::unreachable(None);
        assert_eq!(out.effects, [Effect::Place { number: 99, place: place.clone() }]);
        out.effects.clear();

        let other = ObjectId::pooled([2; 12], None);
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        places.answered(cx, Epoch(0), (other, QuestionNo(7)), place.clone());
        assert_eq!(ended(&mut out), 0, "an answer about another object");
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        places.answered(cx, Epoch(0), (id, QuestionNo(7)), place.clone());
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        places.answered(cx, Epoch(0), (id, QuestionNo(7)), place);
        assert_eq!(ended(&mut out), 1, "one answer each");

        while let Some(at) = places.next_deadline() {
            assert!(at <= Mono(0).after_ms(PLACE_MS + RETRY_MS));
            let cx = &mut Context { now: at, view: &view, out: &mut out };
            places.time_passed(cx);
        }
        assert_eq!(ended(&mut out), PLACES_MAX - 1);
    }
}
