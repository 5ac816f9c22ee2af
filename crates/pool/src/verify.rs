//! An operator has the whole pool compared: the records of every primary with what the nodes have.
//!
//! ```text
//!   the node that is asked ── Verify ───►  every live node: as a primary it has all nodes show
//!                          ◄── Verified ──  their copies once more, repairs what differs, counts
//! ```
//!
//! A question that is not answered is asked again, until its time is over.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;

use crate::event::Effect;
use crate::limits::{VERIFICATIONS_MAX, VERIFY_AGAIN_MS};
use crate::message::{Message, QuestionNo};
use crate::tally::{Tally, Verified};
use crate::time::{Mono, Timers};
use crate::view::Context;

/// A question that waits for answers.
#[derive(Debug)]
struct Question {
    /// What the answer is given with.
    number: u64,
    deadline: Mono,
    /// Nodes that have not answered.
    open: BTreeSet<Slot>,
    verified: Verified,
}

/// The questions of this node.
#[derive(Debug)]
pub(crate) struct Verifications {
    asked: BTreeMap<QuestionNo, Question>,
    next: u64,
    timers: Timers<QuestionNo>,
}

impl Verifications {
    /// No questions; they are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { asked: BTreeMap::new(), next: first, timers: Timers::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Asks all nodes, for so long; [`Effect::Verified`] answers.
    pub(crate) fn ask(&mut self, cx: &mut Context<'_>, number: u64, within_ms: u64) {
        let nodes = cx.view.map().nodes();
        let open: BTreeSet<Slot> =
            nodes.filter(|(_, node)| node.is_live()).map(|(slot, _)| slot).collect();
        let no = QuestionNo(self.next);
        self.next = self.next.wrapping_add(1);
        let is_too_many = self.asked.len() >= VERIFICATIONS_MAX;
        let deadline = cx.now.after_ms(if is_too_many { 0 } else { within_ms });
        let verified = Verified::default();
        self.asked.insert(no, Question { number, deadline, open, verified });
        self.go_on(cx, no);
    }

    /// Asks the nodes that have not answered, unless time is over.
    fn go_on(&mut self, cx: &mut Context<'_>, no: QuestionNo) {
        let Some(question) = self.asked.get_mut(&no) else { return };
        let is_lost = |slot: &&Slot| !cx.view.is_live(**slot);
        question.verified.unanswered.extend(question.open.iter().filter(is_lost));
        question.open.retain(|slot| cx.view.is_live(*slot));
        if question.deadline <= cx.now {
            question.verified.unanswered.append(&mut question.open);
        }
        if question.open.is_empty() {
            self.timers.clear(no);
            if let Some(Question { number, verified, .. }) = self.asked.remove(&no) {
                cx.out.effect(Effect::Verified { number, verified });
            }
            return;
        }
        let again = cx.now.after_ms(VERIFY_AGAIN_MS).min(question.deadline);
        for slot in &question.open {
            cx.send(*slot, Message::Verify { question: no });
        }
        self.timers.set(no, again);
    }

    /// A node has answered.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        no: QuestionNo,
        tally: Tally,
    ) {
        let Some(question) = self.asked.get_mut(&no) else { return };
        if question.open.remove(&from) {
            question.verified.tallies.insert(from, tally);
        }
        if question.open.is_empty() {
            self.go_on(cx, no);
        }
    }

    /// Asks again, and ends what was not answered in time.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(no) = self.timers.pop(cx.now) {
            self.go_on(cx, no);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::outbox::Outbox;
    use crate::view::View;

    #[test]
    fn a_pool_without_nodes_is_verified_at_once_and_too_many_questions_end() {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let mut out = Outbox::default();
        let mut verifications = Verifications::new(7);
        let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
        verifications.ask(cx, 3, 1000);
        let verified = Verified::default();
        assert_eq!(cx.out.effects, [Effect::Verified { number: 3, verified }]);
        assert_eq!(verifications.next_deadline(), None);
    }
}
