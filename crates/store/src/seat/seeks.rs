//! Questions about pooled objects that are not here.
//!
//! ```text
//!   asked ──► sent ──(Sought for this number)──► answered ──(asked again)──► sent
//! ```
//!
//! One call for an id is under way at a time. A question that comes after it was sent needs an
//! answer that was given later, so it is sent when the other is answered.

use plasmon_proto::pool::{Call, Class, Fate};
use plasmon_proto::{ObjectId, ObjectState};

use super::Seek;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Where an object is in its life, for clients. Of a pooled object that is not here it says
    /// what the pool daemon said.
    pub(crate) fn state_of(&self, id: &ObjectId) -> ObjectState {
        if !id.is_pooled() {
            return self.objects.state(id);
        }
        match self.state_here(id) {
            Some(state) => state,
            None if self.seat.seeks.get(id).is_some_and(|seek| seek.is_found) => {
                ObjectState::Remote
            }
            None => match self.seat.seeks.get(id).and_then(|seek| seek.fate) {
                Some(fate) => state_after(fate),
                None => match self.objects.recent_ends.state(id) {
                    Some(ObjectState::CreatorDied) => ObjectState::CreatorDied,
                    // A name may have been put again since, on any node.
                    Some(ObjectState::Deleted) if id.home().is_some() => ObjectState::Deleted,
                    Some(ObjectState::Evicted) => ObjectState::Remote,
                    _ => ObjectState::Unreachable,
                },
            },
        }
    }

    /// The state of a pooled object, if that is decided here.
    fn state_here(&self, id: &ObjectId) -> Option<ObjectState> {
        if self.objects.find(id).is_some() {
            return Some(ObjectState::Sealed);
        }
        if let Some(spilled) = self.objects.tier.get(id) {
            let is_shown = self.is_vouched(id) && !spilled.unpublished;
            return is_shown.then(|| spilled.state());
        }
        let is_created =
            self.objects.pending_objects.get(id).is_some_and(|it| it.landing.is_none());
        (is_created || self.is_committing(id)).then_some(ObjectState::Creating)
    }

    /// Whether the pool daemon is to be asked about this id.
    pub(crate) fn is_elsewhere(&self, id: &ObjectId) -> bool {
        id.is_pooled() && self.state_here(id).is_none()
    }

    /// The number of a new question.
    pub(crate) fn next_question(&mut self) -> u64 {
        self.seat.last_number += 1;
        self.seat.last_number
    }

    /// A client asks for an object that is not here; a request of it waits already.
    pub(crate) fn seek(&mut self, id: &ObjectId, number: u64, class: Class) {
        self.seat.await_agent(self.now_ms);
        let (fate, is_found) = (None, false);
        let new = Seek { asked: number, sent: 0, answered: 0, fate, is_found, class };
        let seek = self.seat.seeks.entry(*id).or_insert(new);
        seek.asked = number;
        let is_under_way = seek.sent > seek.answered;
        let is_more_urgent = class < seek.class;
        seek.class = if is_under_way { seek.class.min(class) } else { class };
        if !is_under_way || is_more_urgent {
            self.call_seek(id);
        }
    }

    /// Sends the last question.
    pub(super) fn call_seek(&mut self, id: &ObjectId) {
        if self.seat.hears().is_none() {
            return;
        }
        let Some(seek) = self.seat.seeks.get_mut(id) else { return };
        seek.sent = seek.asked;
        let (number, class) = (seek.sent, seek.class);
        self.call(Call::Seek { id: *id, number, class });
    }

    /// No client that waits is to be waited for any more.
    pub(crate) fn forget_seeks(&mut self, ids: &[ObjectId]) {
        if self.seat.seeks.is_empty() {
            return;
        }
        for id in ids {
            if !self.sessions.waits.is_waited_for(id) && self.seat.seeks.remove(id).is_some() {
                self.call(Call::Unseek(*id));
            }
        }
    }

    /// The pool daemon says what became of an object.
    pub(super) fn sought(&mut self, id: &ObjectId, number: u64, fate: Fate) {
        let Some(seek) = self.seat.seeks.get_mut(id) else { return };
        // A seek that no agent answered ends for all that ask.
        let number = if number == u64::MAX { seek.asked } else { number };
        if number < seek.answered || number > seek.asked {
            return;
        }
        seek.answered = number;
        (seek.fate, seek.is_found) = (Some(fate), false);
        if seek.asked > number && seek.sent <= number {
            self.call_seek(id);
        }
        let state = state_after(fate);
        let done = self.sessions.waits.note_sought(id, number, |question| {
            fate == Fate::NoRoom || question.is_decided_by(state)
        });
        for waiter in done {
            self.answer_waiter(waiter);
        }
    }

    /// The pool has found an object and brings it here: a wait whose time is over before that says
    /// so, and not what was known before.
    pub(super) fn found(&mut self, id: &ObjectId, number: u64) {
        if let Some(seek) = self.seat.seeks.get_mut(id).filter(|seek| number <= seek.asked) {
            seek.is_found = true;
        }
    }

    /// A pooled object that clients wait for is not made here after all: the pool is asked.
    pub(crate) fn seek_again(&mut self, id: &ObjectId) {
        if self.sessions.waits.is_waited_for(id) && self.is_elsewhere(id) {
            let number = self.next_question();
            self.seek(id, number, Class::Wait);
        }
    }
}

/// How a fate is told to clients. What may have existed is not called absent.
fn state_after(fate: Fate) -> ObjectState {
    match fate {
        Fate::Absent => ObjectState::Absent,
        Fate::Deleted => ObjectState::Deleted,
        Fate::Lost | Fate::Unreachable => ObjectState::Unreachable,
        Fate::NoRoom => ObjectState::Remote,
        Fate::Damaged => ObjectState::Corrupt,
    }
}
