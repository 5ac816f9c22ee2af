//! Ends whose births may still be on their way from other nodes.
//!
//! An object is put, deleted, and a node with a copy tells its end. A node that hears that may not
//! have heard the birth yet, which comes over the connection to the node that made the object. So
//! the end waits until that node has answered a question that was asked after the end came: what
//! it told before that has been heard by then. Whatever else is told of the id waits as well.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::message::{PoolNotice, QuestionNo};
use crate::record::Birth;

/// By id, what waits.
#[derive(Debug, Default)]
pub(crate) struct Held(BTreeMap<ObjectId, Waiting>);

#[derive(Debug)]
struct Waiting {
    /// Told by its node, if that was after the programs here subscribed.
    birth: Birth,
    /// To the node that made the object; an answer to it or to a later one ends the waiting.
    question: QuestionNo,
    /// In the order in which they came; the first is the end of that birth.
    notices: Vec<PoolNotice>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// An end waits for the answer to a question.
    pub(crate) fn begin(&mut self, question: QuestionNo, end: PoolNotice) {
        let waiting = Waiting { birth: end.birth, question, notices: vec![end.clone()] };
        self.0.insert(end.id, waiting);
    }

    /// Something is told of an id that waits; what can be told to programs now.
    pub(crate) fn add(&mut self, notice: PoolNotice) -> Vec<PoolNotice> {
        let Some(waiting) = self.0.get_mut(&notice.id) else { return vec![notice] };
        if !notice.is_born || notice.birth != waiting.birth {
            waiting.notices.push(notice);
            return Vec::new();
        }
        let notices = self.0.remove(&notice.id).map(|waiting| waiting.notices);
        std::iter::once(notice).chain(notices.into_iter().flatten()).collect()
    }

    /// A node has answered: what waited for that.
    pub(crate) fn answered(&mut self, slot: Slot, question: QuestionNo) -> Vec<PoolNotice> {
        self.take(|waiting| waiting.birth.slot == slot && waiting.question <= question)
    }

    /// What waits for nodes that will not answer.
    pub(crate) fn give_up(&mut self, will_answer: impl Fn(Slot) -> bool) -> Vec<PoolNotice> {
        self.take(|waiting| !will_answer(waiting.birth.slot))
    }

    /// The nodes whose answers are awaited.
    pub(crate) fn awaited(&self) -> BTreeSet<Slot> {
        self.0.values().map(|waiting| waiting.birth.slot).collect()
    }

    fn take(&mut self, is_over: impl Fn(&Waiting) -> bool) -> Vec<PoolNotice> {
        let over = self.0.iter().filter(|(_, waiting)| is_over(waiting)).map(|(id, _)| *id);
        let over: Vec<_> = over.collect();
        let waiting = over.into_iter().filter_map(|id| self.0.remove(&id));
        waiting.flat_map(|waiting| waiting.notices).collect()
    }
}

#[cfg(test)]
mod tests {
    use plasmon_proto::Name;

    use super::*;

    /// What happened to the object that was made as the first, second, ... of its name.
    fn notice(serial: u64, is_born: bool) -> PoolNotice {
        let name = Name::new("@ns", "x").unwrap();
        let birth = Birth { slot: Slot(1), boot: 1, serial };
        PoolNotice { id: name.id(), birth, name, data_bytes: 0, metadata_bytes: 0, is_born }
    }

    fn held() -> Held {
        let mut held = Held::default();
        held.begin(QuestionNo(5), notice(1, false));
        assert!(held.add(notice(2, true)).is_empty(), "it came after the end");
        held
    }

    #[test]
    fn a_birth_comes_before_its_end_and_before_what_was_told_of_the_id_since() {
        let mut held = held();
        let told = [notice(1, true), notice(1, false), notice(2, true)];
        assert_eq!(held.add(notice(1, true)), told);
        assert!(held.is_empty());
        assert_eq!(held.add(notice(2, false)), [notice(2, false)], "nothing of it waits");
    }

    #[test]
    fn an_end_without_a_birth_is_told_once_its_node_has_answered_or_will_not() {
        let told = [notice(1, false), notice(2, true)];
        let mut answered = held();
        assert!(answered.answered(Slot(2), QuestionNo(9)).is_empty(), "another node");
        assert!(answered.answered(Slot(1), QuestionNo(4)).is_empty(), "an earlier question");
        assert_eq!(answered.answered(Slot(1), QuestionNo(6)), told);
        let mut given_up = held();
        assert!(given_up.give_up(|slot| slot == Slot(1)).is_empty());
        assert_eq!(given_up.awaited(), BTreeSet::from([Slot(1)]));
        assert_eq!(given_up.give_up(|_| false), told);
        assert!(given_up.is_empty() && answered.is_empty());
    }
}
