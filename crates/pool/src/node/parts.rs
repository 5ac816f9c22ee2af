//! Parts of objects that programs of this node read.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use super::Node;
use crate::message::{Answer, QuestionNo};
use crate::pull::{Outcome, Wish};
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// Brings objects here that clients will need.
    pub(super) fn prefetch(&mut self, now: Mono, ids: &[ObjectId]) {
        for id in ids {
            if id.is_pooled() && self.copies.get(id).is_none() {
                self.lookups.prefetch(context!(self, now), *id);
            }
        }
    }

    pub(super) fn end_read(&mut self, now: Mono, number: u64) {
        if let Some(landing) = self.parts.cancel(number)
            && self.pulls.get(&landing).is_some()
        {
            self.pulls.cancel(context!(self, now), landing);
        }
        for landing in self.gathers.cancel(number) {
            self.pulls.cancel(context!(self, now), landing);
        }
    }

    /// An answer to a question of a read.
    pub(super) fn parts_answered(
        &mut self,
        now: Mono,
        question: (ObjectId, QuestionNo),
        answer: Answer,
    ) {
        let cx = context!(self, now);
        if let Some(wish) = self.parts.answered(cx, question, answer) {
            self.pulls.begin(context!(self, now), wish);
        }
    }

    /// A pull ended that was for a read; any other is given back.
    pub(super) fn parts_ended(&mut self, now: Mono, outcome: Outcome) -> Option<Outcome> {
        let Outcome { wish: Wish { id, parts, .. }, ended } = &outcome;
        if parts.is_none() {
            return Some(outcome);
        }
        if self.gathers.has(id) {
            self.gathers.pull_ended(context!(self, now), *id, *ended);
        } else {
            self.parts.pull_ended(context!(self, now), *id, *ended);
        }
        None
    }

    /// A part of what is pulled under this id arrived.
    pub(super) fn progressed(&mut self, now: Mono, id: ObjectId) {
        self.lookups.progressed(now, id);
        self.parts.progressed(id);
        self.gathers.progressed(id);
    }

    /// Content arrives from a node.
    pub(super) fn moving(&mut self, now: Mono, by: Slot) {
        let (lookups, parts, gathers) = (&mut self.lookups, &mut self.parts, &mut self.gathers);
        self.pulls.moving(now, by, |id| {
            lookups.progressed(now, id);
            parts.progressed(id);
            gathers.progressed(id);
        });
    }
}
