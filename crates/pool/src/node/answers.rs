//! Answers to what a node asked of the directory, or of the home of an id.

use plasmon_proto::ObjectId;

use super::Node;
use crate::copies::Copy;
use crate::event::{Fate, Refusal, Told};
use crate::gather::is_of_gather;
use crate::limits::INLINE_BYTES_MAX;
use crate::lookup::Asked;
use crate::message::{Answer, QuestionNo};
use crate::parts::is_of_read;
use crate::pull::Wish;
use crate::time::Mono;
use crate::view::Context;
use crate::vouch;

impl Node {
    /// An answer of the directory, or of the home of an id.
    pub(super) fn answered(
        &mut self,
        now: Mono,
        id: ObjectId,
        question: QuestionNo,
        answer: Answer,
    ) {
        if is_of_read(question) {
            return self.parts_answered(now, (id, question), answer);
        }
        if is_of_gather(question) {
            return self.gather_answered(now, (id, question), answer);
        }
        let fate = match answer {
            Answer::Found { .. } => None,
            Answer::Absent => Some(Fate::Absent),
            Answer::Deleted => Some(Fate::Deleted),
            Answer::Lost(_) => Some(Fate::Lost),
            Answer::Damaged(_) => Some(Fate::Damaged),
        };
        let asked = self.lookups.answered(context!(self, now), id, question, fate);
        let Some(Asked { seek, number, was_absent, delete, verify, check }) = asked else {
            return;
        };
        if verify.is_some() {
            self.vouching.verified(&id);
        }
        if let Some(birth) = verify {
            let copy = self.copies.of(&id, birth).copied();
            self.judge(now, (id, copy), &answer);
        }
        if let Some(number) = check {
            self.checked(now, id, number, &answer);
        }
        if let Answer::Found { birth, .. } | Answer::Lost(birth) | Answer::Damaged(birth) = answer
            && let Some(number) = delete
        {
            self.requests.delete(context!(self, now), id, birth, number);
        }
        match answer {
            Answer::Found { birth, content, sources, .. } => {
                let takes_long = was_absent || content.bytes() > INLINE_BYTES_MAX;
                if let Some(number) = number.filter(|_| takes_long) {
                    self.out.tell(Told::Found { id, number });
                }
                if let Some(class) = seek.filter(|_| !sources.is_empty()) {
                    let (visible, hold, parts) = (true, false, None);
                    let wish = Wish { id, birth, content, class, sources, visible, hold, parts };
                    self.found(now, wish);
                }
            }
            Answer::Lost(_) | Answer::Damaged(_) => {}
            Answer::Absent | Answer::Deleted => {
                if let Some(number) = delete {
                    self.out.tell(Told::Deleted { id, number });
                }
            }
        }
    }

    /// Tells the store what an answer means for a copy that clients see. The commit of one that has
    /// ended may still wait for more copies; a client waits for it, so it ends here.
    pub(super) fn judge(
        &mut self,
        now: Mono,
        (id, copy): (ObjectId, Option<Copy>),
        answer: &Answer,
    ) {
        let Some(copy) = copy else { return };
        let Some(told) = vouch::verdict(id, &copy, answer) else { return };
        if matches!(told, Told::Drop { .. }) {
            let is_deleted = *answer == Answer::Deleted;
            let result = if is_deleted { Ok(()) } else { Err(Refusal::Unreachable) };
            self.commit_dropped(now, (id, copy.birth), result);
            // The order to drop it may have gone to another start of this node.
            self.notices.ended(context!(self, now), id, copy.birth);
        }
        self.out.tell(told);
    }

    /// An object that clients of this node ask for exists.
    fn found(&mut self, now: Mono, wish: Wish) {
        let (id, birth) = (wish.id, wish.birth);
        match self.copies.get(&id) {
            Some(copy) if copy.birth == birth => {
                self.copies.publish(&mut self.out, id, birth);
                self.lookups.arrived(id);
            }
            // This node's own object of the id, which will be refused. Then it is asked again.
            Some(_) => self.lookups.arrived(id),
            None => {
                if self.pulls.get(&id).is_some_and(|other| other.birth != birth) {
                    self.pulls.cancel(context!(self, now), id);
                }
                self.pulls.begin(context!(self, now), wish);
            }
        }
    }
}
