//! Whether objects exist that clients of this node create.

use plasmon_proto::ObjectId;

use super::Node;
use crate::creations::Creation;
use crate::event::Told;
use crate::message::Answer;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// Clients create an object of an id of which the store has something.
    pub(super) fn verify(&mut self, now: Mono, id: ObjectId, number: u64) {
        let deadline = now.after_ms(self.view.config.commit_stuck_ms);
        self.creations.add(id, Creation { number, deadline });
    }

    /// Asks about those for which nothing is left to be decided here.
    pub(super) fn go_on_creating(&mut self, now: Mono) {
        if self.creations.is_empty() {
            return;
        }
        for (id, mut creation) in self.creations.take() {
            let Creation { number, deadline } = creation;
            if !self.is_undecided(&id) {
                self.lookups.check(context!(self, now), id, number);
                continue;
            }
            if self.pulls.get(&id).is_some_and(|it| self.pulls.is_moving(now, &id, it.birth)) {
                creation.deadline = now.after_ms(self.view.config.commit_stuck_ms);
            } else if deadline <= now {
                self.out.tell(Told::Verified { id, number, known: false });
                continue;
            }
            self.creations.add(id, creation);
        }
    }

    /// Whether a copy is here, or comes here, of a put that may still be refused.
    fn is_undecided(&self, id: &ObjectId) -> bool {
        match self.copies.get(id) {
            Some(copy) => !copy.visible,
            None => self.pulls.get(id).is_some_and(|wish| wish.hold && !wish.visible),
        }
    }

    /// The directory has answered whether an object exists that clients create.
    pub(super) fn checked(&mut self, now: Mono, id: ObjectId, number: u64, answer: &Answer) {
        let copy = self.copies.get(&id).filter(|copy| copy.visible).copied();
        self.judge(now, (id, copy), answer);
        match answer {
            Answer::Found { .. } | Answer::Lost(_) | Answer::Damaged(_) => {
                self.out.tell(Told::Exists { id, number });
            }
            // The next put has begun meanwhile.
            Answer::Absent | Answer::Deleted if self.is_undecided(&id) => {
                self.verify(now, id, number);
            }
            Answer::Absent | Answer::Deleted => {
                if self.pulls.get(&id).is_some() {
                    self.pulls.cancel(context!(self, now), id);
                    self.lookups.go_on(context!(self, now), id);
                }
                self.out.tell(Told::Verified { id, number, known: true });
            }
        }
    }
}
