//! Questions to the store whether an object of this home is here.
//!
//! An object with a home is seen there as soon as it is put, before this node is told of it. So
//! another node that asks for one that is not known here is answered after the store.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::event::Told;
use crate::limits::LOOKS_MAX;
use crate::message::QuestionNo;
use crate::outbox::Outbox;

/// The questions that the store has not answered.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    by_id: BTreeMap<ObjectId, Look>,
    last: u64,
}

#[derive(Debug, Default)]
struct Look {
    /// Of the last question: what asked before it was sent is answered by it, too.
    number: u64,
    /// The nodes that ask, each with its last question.
    askers: BTreeMap<Slot, QuestionNo>,
}

impl Looks {
    /// A node asks for an object that is not known here. False when too many questions wait.
    pub(crate) fn ask(
        &mut self,
        out: &mut Outbox,
        id: ObjectId,
        (from, question): (Slot, QuestionNo),
    ) -> bool {
        if self.by_id.len() >= LOOKS_MAX && !self.by_id.contains_key(&id) {
            return false;
        }
        self.last += 1;
        let number = self.last;
        let look = self.by_id.entry(id).or_default();
        look.number = number;
        look.askers.insert(from, question);
        out.tell(Told::Look { id, number });
        true
    }

    /// The store has answered: the nodes that asked.
    pub(crate) fn answered(&mut self, id: &ObjectId, number: u64) -> Vec<(Slot, QuestionNo)> {
        if self.by_id.get(id).is_none_or(|look| look.number != number) {
            return Vec::new();
        }
        self.by_id.remove(id).map_or_else(Vec::new, |look| look.askers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ObjectId {
        let mut identity = [0; 12];
        identity[..4].copy_from_slice(&number.to_be_bytes());
        ObjectId::pooled(identity, Some(1))
    }

    #[test]
    fn the_last_question_answers_all_nodes_that_asked() {
        let (mut looks, mut out) = (Looks::default(), Outbox::default());
        assert!(looks.ask(&mut out, id(1), (Slot(2), QuestionNo(5))));
        assert!(looks.ask(&mut out, id(1), (Slot(3), QuestionNo(6))));
        assert!(looks.ask(&mut out, id(1), (Slot(2), QuestionNo(7))));
        assert_eq!(out.effects.len(), 3);
        assert!(looks.answered(&id(1), 1).is_empty(), "what came after it is not answered");
        let answered = [(Slot(2), QuestionNo(7)), (Slot(3), QuestionNo(6))];
        assert_eq!(looks.answered(&id(1), 3), answered);
        assert!(looks.answered(&id(1), 3).is_empty());
    }

    #[test]
    fn so_many_objects_are_asked_about_and_no_more() {
        let (mut looks, mut out) = (Looks::default(), Outbox::default());
        for number in 0..LOOKS_MAX as u32 {
            assert!(looks.ask(&mut out, id(number), (Slot(2), QuestionNo(1))));
        }
        assert!(!looks.ask(&mut out, id(u32::MAX), (Slot(2), QuestionNo(1))));
        assert!(looks.ask(&mut out, id(0), (Slot(3), QuestionNo(1))), "this one is known");
    }
}
