//! Parts of many objects: what programs of this node read, and what it serves.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use super::Node;
use crate::event::Event;
use crate::message::{Answer, Message, QuestionNo};
use crate::time::Mono;
use crate::view::Context;

impl Node {
    pub(super) fn gather_event(&mut self, now: Mono, event: Event) {
        match event {
            Event::Gather { number, landing, request } => {
                let cx = context!(self, now);
                self.gathers.begin(cx, &self.copies, (number, landing), request);
            }
            Event::Assembled { peer, transfer, outcome } => {
                self.gather_serves.assembled(context!(self, now), (peer, transfer), outcome);
            }
            _ => {}
        }
    }

    /// What a node that gathers, or that is asked to, says.
    pub(super) fn gather_message(&mut self, now: Mono, from: Slot, message: Message) {
        match message {
            Message::Gather { transfer, parts } => {
                let cx = context!(self, now);
                self.gather_serves.begin(cx, &self.copies, (from, transfer), parts);
            }
            Message::GatherRefused { transfer, missing } => {
                let wish = self.pulls.of_transfer(from, transfer);
                let landing = wish.map(|wish| wish.id).filter(|id| self.gathers.has(id));
                if let Some(landing) = landing {
                    self.gathers.refused(context!(self, now), landing, &missing);
                    self.pulls.cancel(context!(self, now), landing);
                }
            }
            _ => {}
        }
    }

    /// An answer to a question of a gather.
    pub(super) fn gather_answered(
        &mut self,
        now: Mono,
        question: (ObjectId, QuestionNo),
        answer: Answer,
    ) {
        self.gathers.answered(context!(self, now), question, answer);
    }

    /// Begins the pulls whose turn has come. What was found within one step comes together.
    pub(super) fn begin_gather_pulls(&mut self, now: Mono) {
        while let Some(wish) = self.gathers.next_pull() {
            self.pulls.begin(context!(self, now), wish);
        }
    }
}
